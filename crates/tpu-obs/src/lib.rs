//! What the user can turn and what the runtime can tell: settings, counters, memory accounting and
//! the lines that `TORCH_TPU_SHOW` asks for.
//!
//! Nothing here knows PJRT, Python or torch. Every other crate may use it, also on hot paths: a
//! setting is one relaxed load, a counter one relaxed add.

pub mod compiles;
pub mod counters;
pub mod launches;
pub mod memory;
mod setting;
pub mod settings;
pub mod show;

pub use setting::{Buckets, Error, Kind, Setting, Source, Variable};
