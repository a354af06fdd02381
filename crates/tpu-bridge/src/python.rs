//! The functions that the Python package calls.

use std::ffi::{CStr, c_char};

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

unsafe extern "C" {
    /// `shim/runtime.cc`: null, or why PyTorch refused the registration.
    fn tpu_register_runtime() -> *const c_char;
}

/// Registers the device with PyTorch and fills the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // SAFETY: the interpreter lock makes this call the only one; the message is a static string.
    let refused = unsafe { tpu_register_runtime() };
    if !refused.is_null() {
        // SAFETY: not null, so it points at a NUL-terminated message that is never freed.
        let message = unsafe { CStr::from_ptr(refused) };
        return Err(PyImportError::new_err(message.to_string_lossy().into_owned()));
    }
    module.add("torch_version", env!("TPU_TORCH_VERSION"))?;
    Ok(())
}

/// Whether the device has been opened; registration and queries leave it closed.
#[unsafe(no_mangle)]
extern "C" fn tpu_is_open() -> i32 {
    0
}
