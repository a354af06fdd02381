//! What the compiler is at, told to whoever waits for it longer than two seconds.

use parking_lot::Mutex;
use std::time::{Duration, Instant};
use tpu_obs::show::{self, Topic};

/// Compiles shorter than this are not mentioned.
const LONG: Duration = Duration::from_secs(2);

/// The compiles under way.
#[derive(Debug, Default)]
pub(crate) struct Progress(Mutex<Vec<Running>>);

#[derive(Debug)]
struct Running {
    program: String,
    start: Instant,
    /// When it is mentioned next where stderr is no terminal.
    next: Duration,
}

/// One compile under way, until dropped.
pub(crate) struct Mark<'p> {
    progress: &'p Progress,
    program: String,
    start: Instant,
}

impl Progress {
    /// `program` is being compiled.
    pub(crate) fn start(&self, program: String) -> Mark<'_> {
        let start = Instant::now();
        self.0.lock().push(Running {
            program: program.clone(),
            start,
            next: LONG,
        });
        Mark {
            progress: self,
            program,
            start,
        }
    }

    /// To be called now and then by those who wait.
    pub(crate) fn tick(&self) {
        let now = Instant::now();
        let mut running = self.0.lock();
        if show::has_status() {
            return show::status(&status(&running, now));
        }
        if show::wants(Topic::Time) || show::wants(Topic::Cache) {
            due(&mut running, now).for_each(|line| show::line(topic(), format_args!("{line}")));
        }
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        let mut running = self.progress.0.lock();
        running.retain(|other| (&other.program, other.start) != (&self.program, self.start));
        if self.start.elapsed() >= LONG {
            show::status(&status(&running, Instant::now()));
        }
    }
}

fn topic() -> Topic {
    match show::wants(Topic::Time) {
        true => Topic::Time,
        false => Topic::Cache,
    }
}

/// The longest of the compiles, and how many more are long; empty where none is.
fn status(running: &[Running], now: Instant) -> String {
    let mut long = running.iter().filter(|run| now - run.start >= LONG);
    let Some(first) = long.next() else {
        return String::new();
    };
    let others = match long.count() {
        0 => String::new(),
        count => format!(", and {count} more"),
    };
    let seconds = (now - first.start).as_secs();
    format!("torch_tpu: compiling {} {seconds} s{others}", first.program)
}

/// A line for each compile whose time has doubled since its last line.
fn due(running: &mut [Running], now: Instant) -> impl Iterator<Item = String> {
    running.iter_mut().filter_map(move |run| {
        let time = now - run.start;
        (time >= run.next).then(|| {
            while run.next <= time {
                run.next *= 2;
            }
            format!("compiling {} {} s", run.program, time.as_secs())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_compiles_are_told() {
        let progress = Progress::default();
        let _one = progress.start("graph 1 at train.py:3".into());
        let two = progress.start("graph 2".into());
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let said = |at| status(&progress.0.lock(), at);
        assert_eq!(said(later(1)), "");
        let both = "torch_tpu: compiling graph 1 at train.py:3 5 s, and 1 more";
        assert_eq!(said(later(5)), both);
        drop(two);
        assert!(said(later(5)).ends_with("train.py:3 5 s"));
    }

    #[test]
    fn lines_come_at_doubling_times() {
        let progress = Progress::default();
        let _mark = progress.start("graph 1".into());
        let now = Instant::now();
        let told = (0..20).filter(|second| {
            let at = now + Duration::from_secs(*second);
            due(&mut progress.0.lock(), at).count() == 1
        });
        assert_eq!(told.collect::<Vec<_>>(), [2, 4, 8, 16]);
    }
}
