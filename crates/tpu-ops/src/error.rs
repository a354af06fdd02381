/// The Python exception class that an error becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are Python's")]
pub enum Class {
    Runtime,
    Index,
    Value,
    Type,
    NotImplemented,
    LinAlg,
}

/// Why a call cannot be lowered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A mistake of the caller, in PyTorch's class and words.
    #[error("{message}")]
    Torch {
        /// Exception class.
        class: Class,
        /// PyTorch's wording.
        message: String,
    },
    /// An argument of another kind than the row's parameter.
    #[error("argument {index}: expected {want}, got {got}")]
    Arg {
        /// Position in the schema.
        index: usize,
        /// The parameter's type in schema notation.
        want: &'static str,
        /// What came.
        got: String,
    },
    /// A StableHLO constraint that a row broke: a fault of the row.
    #[error(transparent)]
    Hlo(#[from] tpu_hlo::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A `RuntimeError`.
    pub fn runtime(message: impl Into<String>) -> Self {
        Self::Torch {
            class: Class::Runtime,
            message: message.into(),
        }
    }

    /// An `IndexError`.
    pub fn index(message: impl Into<String>) -> Self {
        Self::Torch {
            class: Class::Index,
            message: message.into(),
        }
    }

    /// The exception class.
    pub fn class(&self) -> Class {
        match self {
            Self::Torch { class, .. } => *class,
            Self::Arg { .. } | Self::Hlo(_) => Class::Runtime,
        }
    }
}

/// `ensure!(condition, "message {}", x)`: returns a `RuntimeError` unless the condition holds;
/// `ensure!(condition, Index, "...")` names another class.
macro_rules! ensure {
    ($cond:expr, $class:ident, $($message:tt)+) => {
        if !bool::from($cond) {
            return Err($crate::Error::Torch {
                class: $crate::Class::$class,
                message: format!($($message)+),
            });
        }
    };
    ($cond:expr, $($message:tt)+) => { $crate::error::ensure!($cond, Runtime, $($message)+) };
}
pub(crate) use ensure;
