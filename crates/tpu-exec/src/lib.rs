//! Programs: StableHLO text in, something to launch out, compiled as seldom as possible.
//!
//! A program is looked for in memory, among those that another thread is compiling now, and on
//! disk; only then is it compiled, in a bounded pool. What the disk holds is trusted no further
//! than it can be checked: whatever goes wrong there ends in a compile, is counted by cause, and
//! gives at most one warning.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let client: std::sync::Arc<tpu_pjrt::Client> = unimplemented!();
//! # let module: tpu_exec::Module = unimplemented!();
//! use tpu_exec::{Options, Programs, Request, Tier};
//!
//! let programs = Programs::new(client, Options::from_settings());
//! let program = programs.get(&Request::new(&module, Tier::Quick))?;
//! # Ok(()) }
//! ```

mod compile;
mod entry;
mod error;
mod explain;
pub mod inventory;
mod key;
mod lock;
mod makers;
mod module;
mod plugin;
mod program;
mod programs;
mod progress;
mod request;
mod store;
mod task;

pub use error::{Error, Result};
pub use explain::Reason;
pub use key::Key;
pub use module::{Module, Tier};
pub use program::{Origin, Program};
pub use programs::{Options, Programs};
pub use request::Request;
