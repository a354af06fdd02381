//! The one error type: a status code and what the plugin, or this crate, has to say.

use crate::ffi;

/// What [`Error`] is made of everywhere in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The first number that is none of PJRT's.
const OWN_CODES: u32 = 1000;

/// Why a call failed: PJRT's own codes, and those of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Code {
    /// Given up on request.
    Cancelled = ffi::PJRT_Error_Code_CANCELLED,
    /// The plugin does not say; MLIR syntax and type errors come so.
    Unknown = ffi::PJRT_Error_Code_UNKNOWN,
    /// An argument that the plugin refuses.
    InvalidArgument = ffi::PJRT_Error_Code_INVALID_ARGUMENT,
    /// Took too long.
    DeadlineExceeded = ffi::PJRT_Error_Code_DEADLINE_EXCEEDED,
    /// A name that is not registered.
    NotFound = ffi::PJRT_Error_Code_NOT_FOUND,
    /// A name that is registered already.
    AlreadyExists = ffi::PJRT_Error_Code_ALREADY_EXISTS,
    /// Not allowed.
    PermissionDenied = ffi::PJRT_Error_Code_PERMISSION_DENIED,
    /// No memory left on the device.
    ResourceExhausted = ffi::PJRT_Error_Code_RESOURCE_EXHAUSTED,
    /// The object is in the wrong state.
    FailedPrecondition = ffi::PJRT_Error_Code_FAILED_PRECONDITION,
    /// Stopped by a conflict with somebody else.
    Aborted = ffi::PJRT_Error_Code_ABORTED,
    /// An index or size out of bounds.
    OutOfRange = ffi::PJRT_Error_Code_OUT_OF_RANGE,
    /// The plugin has no such function.
    Unimplemented = ffi::PJRT_Error_Code_UNIMPLEMENTED,
    /// A defect inside the plugin.
    Internal = ffi::PJRT_Error_Code_INTERNAL,
    /// The device cannot be reached.
    Unavailable = ffi::PJRT_Error_Code_UNAVAILABLE,
    /// Data is lost or corrupt.
    DataLoss = ffi::PJRT_Error_Code_DATA_LOSS,
    /// Not known to the service.
    Unauthenticated = ffi::PJRT_Error_Code_UNAUTHENTICATED,
    /// The plugin's file cannot be loaded, or is no plugin for this machine.
    Plugin = OWN_CODES,
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
    /// The codes that plugins return.
    const FROM_PLUGINS: [Self; 16] = [
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The code behind a number of `PJRT_Error_Code`; numbers without a name are `Unknown`.
    pub(crate) fn from_number(number: u32) -> Self {
        let mut codes = Self::FROM_PLUGINS.into_iter();
        codes
            .find(|&code| code as u32 == number)
            .unwrap_or(Self::Unknown)
    }

    /// The number in `PJRT_Error_Code`, which the FFI shares; `INTERNAL` for codes of this crate.
    pub(crate) fn number(self) -> u32 {
        let number = self as u32;
        if number < OWN_CODES {
            number
        } else {
            Self::Internal as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_their_code() {
        for code in Code::FROM_PLUGINS {
            assert_eq!(Code::from_number(code.number()), code);
        }
        assert_eq!(Code::from_number(8), Code::ResourceExhausted);
        assert_eq!(Code::from_number(999), Code::Unknown);
        assert_eq!(Code::Forked.number(), Code::Internal.number());
    }

    #[test]
    fn running_out_of_memory_is_recognised() {
        assert!(Error::new(Code::ResourceExhausted, "x").is_oom());
        assert!(Error::new(Code::Internal, "Out of memory allocating 5 bytes").is_oom());
        assert!(!Error::new(Code::Internal, "x").is_oom());
    }
}
