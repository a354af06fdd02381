//! What a task may end with, and what to do about it.

use std::path::{Path, PathBuf};

/// The result of a task.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a task ended without success.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line is not one of those that `cargo x help` lists.
    #[error("{0}")]
    Usage(String),
    /// An operator cannot be added as asked.
    #[error("{0}")]
    Operator(String),
    /// A file could not be read, written or made.
    #[error("cannot {verb} `{}`: {source}", path.display())]
    File {
        verb: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// A program could not be started at all.
    #[error("cannot start `{program}`: {source}")]
    Start {
        program: String,
        source: std::io::Error,
    },
    /// A program ran and reported failure.
    #[error("`{program}` failed: {status}")]
    Failed {
        program: String,
        status: std::process::ExitStatus,
    },
    /// The machine lacks something that the task needs.
    #[error("{what}")]
    Missing { what: String, hint: String },
    /// A line of a file that the tasks read is not what they expect.
    #[error("`{}`: {why}", path.display())]
    Malformed { path: PathBuf, why: String },
    /// One of the house's limits is broken; every finding is one line.
    #[error("{} broken:\n  {}", .0, .1.join("\n  "))]
    Broken(&'static str, Vec<String>),
}

impl Error {
    /// Adds the path and the verb (`read`, `write`, `make` ...) to an I/O error.
    pub(crate) fn file(verb: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { verb, path, source }
    }

    /// The command or the action that mends the error, where there is one.
    pub(crate) fn hint(&self) -> Option<&str> {
        match self {
            Self::Usage(_) => Some("`cargo x help` lists the tasks"),
            Self::Missing { hint, .. } => Some(hint),
            _ => None,
        }
    }
}
