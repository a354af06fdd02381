//! Lines for people: what `TORCH_TPU_SHOW` asks for, and warnings. They go to stderr.

use crate::settings;
use parking_lot::RwLock;
use std::fmt;
use std::io::Write;

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

fn emit(text: &str) {
    if let Some(sink) = &*SINK.read() {
        return sink(text);
    }
    // One write per line, so that lines of several threads do not mix. `eprintln!` would panic
    // where stderr is closed; a lost line is not worth a crash.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
