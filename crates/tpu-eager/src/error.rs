use tpu_ops::Class;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The call is wrong, in PyTorch's words, or cannot be lowered.
    #[error(transparent)]
    Op(#[from] tpu_ops::Error),
    /// A program could not be had or run.
    #[error(transparent)]
    Exec(#[from] tpu_exec::Error),
    /// A buffer could not be made or read.
    #[error(transparent)]
    Pjrt(#[from] tpu_pjrt::Error),
    /// The device did not open.
    #[error("{0}")]
    Closed(String),
    /// The storage's value went down with a failed in-place operation.
    #[error(
        "TPU3001: the value of this tensor was lost in an in-place operation that failed; hint: \
         assign it anew"
    )]
    Lost,
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The Python exception that an [`Error`] becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Raise {
    /// One of Python's or PyTorch's classes by the table's name.
    Class(Class),
    /// `torch.OutOfMemoryError`
    OutOfMemory,
    /// `KeyboardInterrupt`
    Interrupt,
}

impl Error {
    /// The Python exception class.
    pub fn raise(&self) -> Raise {
        let device = match self {
            Self::Op(e) => return Raise::Class(e.class()),
            Self::Closed(_) | Self::Lost => return Raise::Class(Class::Runtime),
            Self::Exec(tpu_exec::Error::Interrupted { .. }) => return Raise::Interrupt,
            Self::Exec(e) => e.device(),
            Self::Pjrt(e) => Some(e),
        };
        match device {
            Some(e) if e.is_oom() => Raise::OutOfMemory,
            _ => Raise::Class(Class::Runtime),
        }
    }
}
