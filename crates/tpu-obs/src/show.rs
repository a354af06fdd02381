//! Lines for people: what `TORCH_TPU_SHOW` asks for, and warnings. They go to stderr.

use crate::settings;
use parking_lot::{Mutex, RwLock};
use std::fmt;
use std::io::{IsTerminal, Write};

/// What a line is about; one bit of the `show` setting each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Topic {
    /// Each op as it arrives, with its types and mode.
    Ops = 1,
    /// The StableHLO text of each program that enters the cache.
    Hlo = 2,
    /// Each program found or compiled: id, key, tier, cause, milliseconds.
    Cache = 4,
    /// Time spent in each slow step: load, compile, store.
    Time = 8,
}

impl Topic {
    /// The names in the order of their bits, as the `show` setting lists them.
    pub const NAMES: &[&str] = &["ops", "hlo", "cache", "time"];

    fn name(self) -> &'static str {
        match self {
            Topic::Ops => "ops",
            Topic::Hlo => "hlo",
            Topic::Cache => "cache",
            Topic::Time => "time",
        }
    }
}

/// Where lines go instead of stderr.
pub type Sink = Box<dyn Fn(&str) + Send + Sync>;

static SINK: RwLock<Option<Sink>> = RwLock::new(None);

/// Sends every later line to `sink` (without its line end), or back to stderr for `None`.
///
/// The sink must not print through this module itself.
pub fn set_sink(sink: Option<Sink>) {
    *SINK.write() = sink;
}

/// Whether lines about `topic` are wanted. One relaxed load: cheap enough for every op.
#[inline]
pub fn wants(topic: Topic) -> bool {
    settings::SHOW.number() & topic as u64 != 0
}

/// Prints one line about `topic` if it is wanted; the arguments are not formatted otherwise.
#[inline]
pub fn line(topic: Topic, message: fmt::Arguments<'_>) {
    if wants(topic) {
        emit(&format!("torch_tpu {}: {message}", topic.name()));
    }
}

/// Prints a warning. Whoever calls it decides how often: nothing is counted here.
pub fn warn(message: fmt::Arguments<'_>) {
    emit(&format!("torch_tpu warning: {message}"));
}

/// The line at the bottom of the terminal that is not finished; its lock is also what makes lines
/// of several threads follow each other.
static STATUS: Mutex<String> = Mutex::new(String::new());

/// Goes to the start of the terminal's line and empties it.
const ERASE: &str = "\r\x1b[K";

/// Whether [`status`] is seen.
pub fn has_status() -> bool {
    std::io::stderr().is_terminal() && SINK.read().is_none()
}

/// Replaces the line at the bottom of the terminal, which other lines push down; empty for none.
/// Does nothing where stderr is no terminal.
pub fn status(text: &str) {
    if !has_status() {
        return;
    }
    let mut shown = STATUS.lock();
    if *shown != text {
        text.clone_into(&mut shown);
        write(&format!("{ERASE}{text}"));
    }
}

fn emit(text: &str) {
    if let Some(sink) = &*SINK.read() {
        return sink(text);
    }
    // One write per line, so that lines of several threads do not mix.
    let shown = STATUS.lock();
    write(&finished(text, &shown));
}

/// A whole line, above the status if one is shown.
fn finished(text: &str, status: &str) -> String {
    match status {
        "" => format!("{text}\n"),
        status => format!("{ERASE}{text}\n{status}"),
    }
}

fn write(text: &str) {
    // `eprintln!` would panic where stderr is closed; a lost line is not worth a crash.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_above_the_status() {
        assert_eq!(finished("one", ""), "one\n");
        assert_eq!(finished("one", "compiling"), "\r\x1b[Kone\ncompiling");
    }
}
