//! What ran on the devices and when, noted while a profile is taken.

use parking_lot::Mutex;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// A program that was launched. Times are nanoseconds since 1970, as in PyTorch's traces.
#[derive(Clone, Debug, Serialize)]
pub struct Launch {
    /// The operator, or the graph as `graph 3`.
    pub what: &'static str,
    /// The line of Python that asked for it; empty where that is not known.
    pub line: String,
    /// The device's number.
    pub device: usize,
    /// When the host launched it.
    pub start: u64,
    /// When its results were there; 0 while it runs.
    pub end: u64,
}

/// Launches of one profile; those beyond are not noted.
const MOST: usize = 1 << 20;

static WANTED: AtomicBool = AtomicBool::new(false);
/// Tells the launches of this profile from late ones of the last.
static PROFILE: AtomicU64 = AtomicU64::new(0);
static LAUNCHES: Mutex<Vec<Launch>> = Mutex::new(Vec::new());

/// Begins to note launches.
pub fn start() {
    let mut launches = LAUNCHES.lock();
    launches.clear();
    PROFILE.fetch_add(1, Relaxed);
    WANTED.store(true, Relaxed);
}

/// Ends that; the launches in their order.
pub fn stop() -> Vec<Launch> {
    WANTED.store(false, Relaxed);
    let mut launches = LAUNCHES.lock();
    PROFILE.fetch_add(1, Relaxed);
    std::mem::take(&mut *launches)
}

/// The time now, if launches are noted.
#[inline]
pub fn begin() -> Option<u64> {
    WANTED.load(Relaxed).then(now)
}

/// A launch that was noted and has not ended.
#[derive(Debug)]
pub struct Running {
    profile: u64,
    index: usize,
}

/// Notes a launch that started at `start`, as [`begin`] told.
pub fn note(start: u64, what: &'static str, line: String, device: usize) -> Running {
    let mut launches = LAUNCHES.lock();
    let index = launches.len();
    if index < MOST {
        launches.push(Launch {
            what,
            line,
            device,
            start,
            end: 0,
        });
    }
    Running {
        profile: PROFILE.load(Relaxed),
        index,
    }
}

impl Running {
    /// Notes that its results are there.
    pub fn end(self) {
        let end = now();
        let mut launches = LAUNCHES.lock();
        if self.profile == PROFILE.load(Relaxed)
            && let Some(launch) = launches.get_mut(self.index)
        {
            launch.end = end;
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_end_in_their_own_profile() {
        start();
        let at = begin().expect("a profile is taken");
        let first = note(at, "add", String::new(), 0);
        note(at + 1, "mul", "x:1".into(), 1).end();
        let list = stop();
        assert!(begin().is_none());
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].end, list[1].device), (0, 1));
        assert!(list[1].end >= at && list[1].start > list[0].start);
        start();
        let again = note(at, "sub", String::new(), 0);
        first.end();
        assert_eq!(LAUNCHES.lock()[0].end, 0);
        again.end();
        assert!(stop()[0].end > 0);
    }
}
