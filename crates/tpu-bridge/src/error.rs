//! The one map from errors to the kinds that the shim and Python raise.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tpu_eager::{Error, Raise};
use tpu_ops::Class;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Kinds of `tpu_check` in shim/boxed.cc.
fn code(raise: Raise) -> i32 {
    match raise {
        Raise::Class(Class::Runtime) => 1,
        Raise::Class(Class::Index) => 2,
        Raise::Class(Class::Value) => 3,
        Raise::Class(Class::Type) => 4,
        Raise::Class(Class::NotImplemented) => 5,
        Raise::OutOfMemory => 6,
        Raise::Class(Class::LinAlg) => 7,
        Raise::Interrupt => 8,
    }
}

/// Keeps the message for `tpu_last_error`.
fn remember(message: &str) {
    let text = message.replace('\0', "\u{fffd}");
    LAST.with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
}

/// Message of an error as the user reads it.
fn message(error: &Error) -> String {
    match error.raise() {
        Raise::OutOfMemory => {
            let stats = tpu_obs::memory::stats(tpu_eager::runtime::DEVICE);
            format!(
                "TPU3002: out of memory: {error}; {} bytes are allocated in {} buffers, the most \
                 ever was {}; hint: smaller batches, or del tensors that are no longer needed",
                stats.allocated, stats.buffers, stats.peak
            )
        }
        _ => error.to_string(),
    }
}

/// Runs `f` for a caller in C++: its error becomes a code and a remembered message, and so does a
/// panic, which must not unwind into C++.
pub(crate) fn guard(f: impl FnOnce() -> Result<i32, Error>) -> i32 {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            remember(&message(&error));
            code(error.raise())
        }
        Err(panic) => {
            let what = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
                .unwrap_or_default();
            remember(&format!(
                "TPU9001: internal error: {what}; hint: please report this"
            ));
            1
        }
    }
}

/// Reports a refusal of the bridge's own.
pub(crate) fn refuse(code: i32, message: &str) -> i32 {
    remember(message);
    code
}

/// `tpu_last_error`: message of the last call of this thread that failed.
#[unsafe(no_mangle)]
extern "C" fn tpu_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}
