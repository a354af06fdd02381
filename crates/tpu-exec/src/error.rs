//! Why there is no program, or why it did not run.

use crate::Key;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no program, or why it did not run. Cheap to clone: all who wait for a program get
/// the same one.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The compiler refused the module.
    #[error("program `{key}` does not compile: {source}")]
    Compile {
        /// The program's key, as `TORCH_TPU_SHOW=cache` prints it.
        key: Key,
        /// What the compiler said.
        source: tpu_pjrt::Error,
    },
    /// The setting `new_compiles` is `error`.
    #[error(
        "TPU4004: a new program is needed, {types}: {reason}; hint: run every shape once before \
         no_new_compiles()"
    )]
    NewCompile {
        /// Types of its arguments and results.
        types: String,
        /// What is new about it.
        reason: String,
    },
    /// The program did not start, or the device is of no use to this process.
    #[error(transparent)]
    Device(#[from] tpu_pjrt::Error),
    /// The caller asked to stop waiting. The compile goes on and its result is kept.
    #[error("interrupted while compiling program `{key}`")]
    Interrupted {
        /// The program waited for.
        key: Key,
    },
    /// A defect of this crate or below, caught so that nobody waits for ever.
    #[error("compiling program `{key}` panicked: {message}")]
    Panicked {
        /// The program.
        key: Key,
        /// What the panic said.
        message: String,
    },
}

impl Error {
    /// The error of the device or the compiler behind this one, if there is one.
    pub fn device(&self) -> Option<&tpu_pjrt::Error> {
        match self {
            Error::Compile { source, .. } | Error::Device(source) => Some(source),
            Error::NewCompile { .. } | Error::Interrupted { .. } | Error::Panicked { .. } => None,
        }
    }
}
