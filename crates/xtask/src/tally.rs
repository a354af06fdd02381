//! Counting what test runners report.

use std::fmt;

/// How many tests passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Tally {
    /// Adds another count to this one.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Adds what a line reports if it is the closing line of `cargo test` or `pytest`:
    /// `test result: ok. 3 passed; 0 failed; 1 ignored; ...` or `== 1 failed, 2 passed in 0.1s ==`.
    fn add_line(&mut self, line: &str) {
        let line = line.trim_matches(|c| c == '=' || c == ' ');
        let cargo = line.strip_prefix("test result:");
        let pytest = line
            .rsplit_once(" in ")
            .filter(|(_, time)| is_duration(time));
        let Some(counts) = cargo.or(pytest.map(|(counts, _)| counts)) else {
            return;
        };
        let words: Vec<&str> = counts.split([' ', ',', ';', '.']).collect();
        for pair in words.windows(2) {
            if let Ok(count) = pair[0].parse::<u64>() {
                match pair[1] {
                    "passed" => self.passed += count,
                    "failed" | "error" | "errors" => self.failed += count,
                    "skipped" | "ignored" | "xfailed" => self.skipped += count,
                    _ => {}
                }
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// `1.25s`, or `75.10s (0:01:15)`.
fn is_duration(text: &str) -> bool {
    let number = text.split_once('s').map(|(number, _)| number);
    number.is_some_and(|number| number.parse::<f64>().is_ok())
}

/// Counts in a stream that arrives in pieces.
#[derive(Default)]
pub(crate) struct Counter {
    tally: Tally,
    line: Vec<u8>,
}

impl Counter {
    /// Takes the next piece of the stream.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        for byte in piece {
            if *byte == b'\n' {
                self.end_line();
            } else {
                self.line.push(*byte);
            }
        }
    }

    /// The counts of the whole stream.
    pub(crate) fn finish(mut self) -> Tally {
        self.end_line();
        self.tally
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.tally.add_line(&String::from_utf8_lossy(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> Tally {
        let mut counter = Counter::default();
        for piece in text.as_bytes().chunks(7) {
            counter.feed(piece);
        }
        counter.finish()
    }

    #[test]
    fn closing_lines_of_both_runners_are_counted() {
        let text = "\
running 4 tests
test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 5 filtered out; finished in 0.01s
..F.s
1 failed, 9 passed, 2 skipped, 1 xfailed, 1 error in 75.10s (0:01:15)
=========== 4 passed, 3 deselected, 1 warning in 0.25s ===========";
        let expected = Tally {
            passed: 16,
            failed: 3,
            skipped: 5,
        };
        assert_eq!(count(text), expected);
    }

    #[test]
    fn prose_is_not_counted() {
        let text = "12 passed in review\n3 failed attempts in total\n7 passed\n";
        assert_eq!(count(text), Tally::default());
    }
}
