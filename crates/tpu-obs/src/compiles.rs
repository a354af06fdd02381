//! The programs that this process found on disk or compiled, for `torch_tpu.explain()`.

use parking_lot::Mutex;
use serde::Serialize;
use std::collections::VecDeque;

/// Records that are kept; an older one makes room.
pub const KEPT: usize = 1 << 14;

/// One program that was not in memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Record {
    /// Its number within the process, as `TORCH_TPU_SHOW` prints it.
    pub program: u64,
    /// The hash of module, types and options, in hexadecimal.
    pub key: String,
    /// The operator, or the graph as `graph 3`.
    pub what: String,
    /// Which sizes a graph's program is for: a bucket of them, or one alone and why; empty where
    /// the graph leaves no size open.
    pub sizes: String,
    /// The line of Python that asked for it, as `train.py:12`; empty where there is none.
    pub line: String,
    /// `quick` or `full`.
    pub tier: &'static str,
    /// Types of arguments and results.
    pub types: String,
    /// What is new about it, in one word.
    pub cause: &'static str,
    /// The same in a sentence.
    pub reason: String,
    /// `loaded` from disk, or why it was not: `cold`, `corrupt`, `foreign`, `truncated`, `io`.
    pub disk: &'static str,
    /// What the disk has instead: the program of another maker, or compiled otherwise.
    pub instead: String,
    /// Whether it could not be kept on disk, so that every process compiles it.
    pub lost: bool,
    /// Seconds that loading or compiling took.
    pub seconds: f64,
}

static RECORDS: Mutex<VecDeque<Record>> = Mutex::new(VecDeque::new());

/// Appends a record.
pub fn add(record: Record) {
    let mut records = RECORDS.lock();
    if records.len() == KEPT {
        records.pop_front();
    }
    records.push_back(record);
}

/// Notes that a program cannot be kept on disk.
pub fn lose(program: u64) {
    let mut records = RECORDS.lock();
    let found = records
        .iter_mut()
        .rev()
        .find(|record| record.program == program);
    if let Some(record) = found {
        record.lost = true;
    }
}

/// The records in the order in which the programs were ready.
pub fn list() -> Vec<Record> {
    RECORDS.lock().iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room() {
        for program in 0..KEPT as u64 + 2 {
            add(Record {
                program,
                ..Record::default()
            });
        }
        lose(3);
        let records = list();
        assert_eq!((records.len(), records[0].program), (KEPT, 2));
        assert!(records[1].lost && !records[0].lost);
    }
}
