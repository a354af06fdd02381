//! The one map from errors to the kinds that the shim and Python raise.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;
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
        Raise::OutOfMemory => out_of_memory(&error.to_string()),
        _ => error.to_string(),
    }
}

fn out_of_memory(what: &str) -> String {
    let stats = tpu_obs::memory::stats(tpu_eager::runtime::DEVICE);
    format!(
        "TPU3002: out of memory: {what}; {} of {} bytes are allocated in {} buffers, the most ever \
         was {}.{} hint: use smaller batches, or del tensors that are no longer needed",
        stats.allocated,
        stats.limit,
        stats.buffers,
        stats.peak,
        largest_tensors()
    )
}

/// The largest tensors that Python holds; empty where that cannot be told.
fn largest_tensors() -> String {
    let ask = |py: Python<'_>| -> PyResult<String> {
        py.import("torch_tpu._memory")?
            .call_method0("largest_tensors")?
            .extract()
    };
    Python::try_attach(|py| ask(py).unwrap_or_default()).unwrap_or_default()
}

/// Refuses a storage that the device can never hold: its size is known before anything is
/// written, and PyTorch raises where it is asked for.
pub(crate) fn refuse_size(nbytes: usize) -> bool {
    let limit = match tpu_obs::memory::stats(tpu_eager::runtime::DEVICE).limit {
        0 => tpu_obs::memory::host_total().unwrap_or(0),
        known => known,
    };
    let refused = limit > 0 && nbytes as u64 > limit;
    if refused {
        remember(&out_of_memory(&format!("tried to allocate {nbytes} bytes")));
    }
    refused
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
