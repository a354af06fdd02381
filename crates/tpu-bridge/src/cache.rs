//! The programs on disk, for the command `torchtpu cache`.
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::json;
use std::io;
use std::path::PathBuf;
use tpu_eager::inventory::{self, Entry};
use tpu_eager::runtime;
use tpu_obs::settings;

/// Where programs are kept; none without a place for them.
#[pyfunction]
pub(crate) fn cache_dir() -> Option<PathBuf> {
    settings::cache_dir()
}

/// The programs in a cache directory, the last used first, as JSON.
#[pyfunction]
pub(crate) fn cache_entries(py: Python<'_>, root: PathBuf) -> PyResult<String> {
    let entries = py.detach(|| inventory::list(&root)).map_err(os_error)?;
    let rows = entries.into_iter().map(|entry| {
        let Entry {
            file,
            size,
            age,
            state,
            key,
            module,
            maker,
            tier,
            options,
            types,
        } = entry;
        json!({
            "file": file, "size": size, "age": age, "state": state, "key": key, "module": module,
            "maker": maker, "tier": tier, "options": options, "types": types,
        })
    });
    Ok(rows.collect::<serde_json::Value>().to_string())
}

/// Removes what is damaged, then what was not used for longest, down to `limit` bytes: how many
/// programs were removed, and the bytes left.
#[pyfunction]
pub(crate) fn cache_prune(py: Python<'_>, root: PathBuf, limit: u64) -> PyResult<(usize, u64)> {
    py.detach(|| inventory::prune(&root, limit))
        .map_err(os_error)
}

/// Puts a file of another store into this one; false where it was there. Raises `ValueError` for
/// what is no part of a store.
#[pyfunction]
pub(crate) fn cache_import(root: PathBuf, name: &str, contents: &[u8]) -> PyResult<bool> {
    inventory::import(&root, name, contents).map_err(os_error)
}

/// Who makes the programs here, one property a line; none where none are kept. Opens the device.
#[pyfunction]
pub(crate) fn cache_maker(py: Python<'_>) -> PyResult<Option<String>> {
    py.detach(|| runtime::get().map(|runtime| runtime.maker().map(str::to_owned)))
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

fn os_error(error: io::Error) -> PyErr {
    match error.kind() {
        io::ErrorKind::InvalidData => PyValueError::new_err(error.to_string()),
        _ => PyOSError::new_err(error.to_string()),
    }
}
