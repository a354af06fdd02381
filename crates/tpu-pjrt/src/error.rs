//! The one error type: a status code and what the plugin, or this crate, has to say.

use crate::ffi;

/// What [`Error`] is made of everywhere in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed: PJRT's own codes, and those of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// Given up on request.
    Cancelled,
    /// The plugin does not say; MLIR syntax and type errors come so.
    Unknown,
    /// An argument that the plugin refuses.
    InvalidArgument,
    /// Took too long.
    DeadlineExceeded,
    /// A name that is not registered.
    NotFound,
    /// A name that is registered already.
    AlreadyExists,
    /// Not allowed.
    PermissionDenied,
    /// No memory left on the device.
    ResourceExhausted,
    /// The object is in the wrong state.
    FailedPrecondition,
    /// Stopped by a conflict with somebody else.
    Aborted,
    /// An index or size out of bounds.
    OutOfRange,
    /// The plugin has no such function.
    Unimplemented,
    /// A defect inside the plugin.
    Internal,
    /// The device cannot be reached.
    Unavailable,
    /// Data is lost or corrupt.
    DataLoss,
    /// Not known to the service.
    Unauthenticated,
    /// The plugin's file cannot be loaded, or is no plugin for this machine.
    Plugin,
    /// Arguments differ from the program's declared signature.
    Signature,
    /// The device was used in a forked child of the process that opened it.
    Forked,
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    code: Code,
    message: String,
}

impl Error {
    /// An error with this code and text (lower-case, values in backticks, no final period).
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// The kind of failure.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The text alone; what `Display` prints.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// True where memory ran out, on the device or on the host.
    pub fn is_oom(&self) -> bool {
        // A plugin of 2025 reports a temporary that does not fit as an internal error.
        self.code == Code::ResourceExhausted
            || (self.code == Code::Internal && self.message.contains("Out of memory"))
    }

    /// True where the plugin cannot do this at all, as opposed to not with these arguments.
    pub fn is_unimplemented(&self) -> bool {
        self.code == Code::Unimplemented
    }
}

impl Code {
    /// The code behind a number of `PJRT_Error_Code`; numbers without a name are `Unknown`.
    pub(crate) fn from_number(number: u32) -> Self {
        match number {
            ffi::PJRT_Error_Code_CANCELLED => Self::Cancelled,
            ffi::PJRT_Error_Code_INVALID_ARGUMENT => Self::InvalidArgument,
            ffi::PJRT_Error_Code_DEADLINE_EXCEEDED => Self::DeadlineExceeded,
            ffi::PJRT_Error_Code_NOT_FOUND => Self::NotFound,
            ffi::PJRT_Error_Code_ALREADY_EXISTS => Self::AlreadyExists,
            ffi::PJRT_Error_Code_PERMISSION_DENIED => Self::PermissionDenied,
            ffi::PJRT_Error_Code_RESOURCE_EXHAUSTED => Self::ResourceExhausted,
            ffi::PJRT_Error_Code_FAILED_PRECONDITION => Self::FailedPrecondition,
            ffi::PJRT_Error_Code_ABORTED => Self::Aborted,
            ffi::PJRT_Error_Code_OUT_OF_RANGE => Self::OutOfRange,
            ffi::PJRT_Error_Code_UNIMPLEMENTED => Self::Unimplemented,
            ffi::PJRT_Error_Code_INTERNAL => Self::Internal,
            ffi::PJRT_Error_Code_UNAVAILABLE => Self::Unavailable,
            ffi::PJRT_Error_Code_DATA_LOSS => Self::DataLoss,
            ffi::PJRT_Error_Code_UNAUTHENTICATED => Self::Unauthenticated,
            _ => Self::Unknown,
        }
    }
}
