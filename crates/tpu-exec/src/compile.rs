//! A bounded pool of threads that compile.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// LLVM recurses deeply on large functions; only what is touched is ever backed by memory.
const STACK: usize = 64 << 20;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// At most `limit` threads, started when first needed.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    limit: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    quiet: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    running: usize,
    idle: usize,
    closed: bool,
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Pool {
        Pool {
            shared: Arc::default(),
            threads: Mutex::default(),
            limit: limit.max(1),
        }
    }

    /// Runs `job` as soon as a thread is free; before all that wait where it is `urgent`.
    pub(crate) fn submit(&self, job: Job, urgent: bool) {
        let mut state = self.shared.state.lock();
        if urgent {
            state.jobs.push_front(job);
        } else {
            state.jobs.push_back(job);
        }
        let short = state.jobs.len() > state.idle;
        drop(state);
        if short {
            self.start_thread();
        }
        self.shared.work.notify_one();
    }

    /// Waits until nothing is queued and nothing runs.
    pub(crate) fn flush(&self) {
        let mut state = self.shared.state.lock();
        while state.running > 0 || !state.jobs.is_empty() {
            self.shared.quiet.wait(&mut state);
        }
    }

    fn start_thread(&self) {
        let mut threads = self.threads.lock();
        if threads.len() == self.limit {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let builder = Builder::new()
            .name("tpu-compile".to_owned())
            .stack_size(STACK);
        match builder.spawn(move || shared.work()) {
            Ok(thread) => threads.push(thread),
            // No thread to be had and none there: better slowly here than never.
            Err(_) if threads.is_empty() => self.shared.run_queued(),
            Err(_) => {}
        }
    }
}

impl Drop for Pool {
    /// Waits for what runs; what is only queued is dropped.
    fn drop(&mut self) {
        if tpu_pjrt::is_forked() {
            // The threads are the parent's: here there is nobody to wait for.
            return;
        }
        let mut state = self.shared.state.lock();
        state.closed = true;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        drop(jobs);
        self.shared.work.notify_all();
        for thread in self.threads.get_mut().drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            while state.jobs.is_empty() && !state.closed {
                state.idle += 1;
                self.work.wait(&mut state);
                state.idle -= 1;
            }
            if state.closed {
                return;
            }
            drop(state);
            self.run_queued();
        }
    }

    fn run_queued(&self) {
        while let Some(job) = self.take() {
            // The job itself reports its panics; one that escapes must not cost a thread.
            let _ = catch_unwind(AssertUnwindSafe(job));
            let mut state = self.state.lock();
            state.running -= 1;
            if state.running == 0 && state.jobs.is_empty() {
                self.quiet.notify_all();
            }
        }
    }

    fn take(&self) -> Option<Job> {
        let mut state = self.state.lock();
        let job = state.jobs.pop_front()?;
        state.running += 1;
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    #[test]
    fn no_more_threads_than_allowed() {
        let (pool, inside, most) = (Pool::new(2), Arc::default(), Arc::default());
        for _ in 0..20 {
            let (inside, most): (Arc<AtomicUsize>, Arc<AtomicUsize>) =
                (Arc::clone(&inside), Arc::clone(&most));
            let job = move || {
                most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                std::thread::sleep(Duration::from_millis(2));
                inside.fetch_sub(1, SeqCst);
            };
            pool.submit(Box::new(job), false);
        }
        pool.flush();
        assert_eq!((inside.load(SeqCst), most.load(SeqCst)), (0, 2));
    }

    #[test]
    fn a_panic_costs_no_thread() {
        let (pool, done) = (Pool::new(1), Arc::new(AtomicUsize::new(0)));
        for number in 0..4 {
            let done = Arc::clone(&done);
            let job = move || {
                done.fetch_add(1, SeqCst);
                assert!(number % 2 == 1, "even jobs panic");
            };
            pool.submit(Box::new(job), false);
        }
        pool.flush();
        assert_eq!(done.load(SeqCst), 4);
    }

    #[test]
    fn the_urgent_go_first() {
        let (pool, order) = (Pool::new(1), Arc::new(Mutex::new(Vec::new())));
        let gate = Arc::new(Barrier::new(2));
        let closed = Arc::clone(&gate);
        let wait = move || {
            closed.wait();
        };
        pool.submit(Box::new(wait), false);
        for (number, urgent) in [(1, false), (2, false), (3, true)] {
            let order = Arc::clone(&order);
            pool.submit(Box::new(move || order.lock().push(number)), urgent);
        }
        gate.wait();
        pool.flush();
        assert_eq!(*order.lock(), [3, 1, 2]);
    }

    #[test]
    fn dropping_waits_for_what_runs() {
        let (pool, done) = (Pool::new(1), Arc::new(AtomicUsize::new(0)));
        let gate = Arc::new(Barrier::new(2));
        let (running, finished) = (Arc::clone(&gate), Arc::clone(&done));
        let job = move || {
            running.wait();
            std::thread::sleep(Duration::from_millis(20));
            finished.fetch_add(1, SeqCst);
        };
        pool.submit(Box::new(job), false);
        gate.wait();
        drop(pool);
        assert_eq!(done.load(SeqCst), 1);
    }
}
