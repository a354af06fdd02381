//! A program that can be launched.

use crate::{Key, Module, Reason, Result, Tier};
use std::sync::Arc;
use std::time::Duration;
use tpu_obs::counters::{self, Miss};
use tpu_pjrt::{Args, Executable, MemoryStats, Outputs};

/// Where a program came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Compiled here, since it was not on disk for this reason.
    Compiled(Miss),
    /// Found on disk.
    Loaded,
}

impl Origin {
    /// `loaded`, or why it was not on disk.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Origin::Loaded => "loaded",
            Origin::Compiled(cause) => cause.word(),
        }
    }
}

/// A compiled module, loaded on one device.
#[derive(Debug)]
pub struct Program {
    pub(crate) id: u64,
    pub(crate) key: Key,
    pub(crate) tier: Tier,
    pub(crate) origin: Origin,
    pub(crate) reason: Reason,
    pub(crate) time: Duration,
    pub(crate) module: Arc<Module>,
    pub(crate) executable: Executable,
    pub(crate) device: usize,
}

impl Program {
    /// Runs the program. The outputs may still be on their way when this returns.
    ///
    /// On success `args` is empty; on failure the arguments are still there.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device): the arguments are not of the shapes that the module
    /// declares, or the plugin refuses.
    #[inline]
    pub fn launch(&self, args: &mut Args) -> Result<Outputs> {
        let outputs = self.executable.execute(args, self.device)?;
        counters::launch();
        Ok(outputs)
    }

    /// A number of its own within its [`Programs`](crate::Programs), as `TORCH_TPU_SHOW` prints.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A hash of module, types and options.
    pub fn key(&self) -> Key {
        self.key
    }

    /// How hard the compiler tried.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Whether it was compiled here, and why.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// What is new about it, as far as this process knows.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// How long the compile or the load took.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// What it was compiled from.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// What it needs on the device.
    ///
    /// # Errors
    /// Where the plugin does not say.
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        Ok(self.executable.memory_stats()?)
    }
}
