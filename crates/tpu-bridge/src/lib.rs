//! `torch_tpu._C`: PyTorch's device `"tpu"`, from the C++ shim to the Rust core and to Python.
//!
//! The shim in `shim/` implements PyTorch's extension points and calls the `extern "C"` functions
//! of `storage` and `call`; `python` is what the Python package sees. No panic and no C++ exception
//! leaves its side of the boundary.
#![allow(unsafe_code, non_snake_case)]

mod ahead;
mod cache;
mod call;
mod error;
mod graph;
mod pinned;
mod python;
mod storage;

use pyo3::prelude::*;

/// The extension module. Importing it registers the device with PyTorch; it opens no device.
///
/// Raises `ImportError` when PyTorch refuses the registration, for instance because another
/// package has taken its one slot for devices from outside.
#[pymodule]
#[pyo3(name = "_C")]
fn extension(module: &Bound<'_, PyModule>) -> PyResult<()> {
    python::register(module)?;
    call::register();
    Ok(())
}
