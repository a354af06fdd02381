//! The functions that the Python package calls.
//!
//! They are few and plain: what a user sees is written in Python, in `python/torch_tpu`.

use std::ffi::{CStr, c_char};
use std::path::PathBuf;

use pyo3::exceptions::{PyImportError, PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use tpu_eager::runtime;
use tpu_obs::{Error as SettingError, compiles, counters, launches, memory, settings};
use tpu_ops::schema::{Schema, disagreements, plan};

unsafe extern "C" {
    /// `shim/runtime.cc`: null, or why PyTorch refused the registration.
    fn tpu_register_runtime() -> *const c_char;
    /// `shim/runtime.cc`: the index of this thread's device.
    safe fn tpu_current_device() -> i32;
    /// `shim/runtime.cc`: sets seed and offset of a device's default generator.
    safe fn tpu_generator_set_state(index: i32, seed: u64, offset: u64);
}

/// What the loader looks for in the file of a library that cannot be loaded.
#[used]
static BUILT_FOR: &str = concat!(
    "torch_tpu is built for torch ",
    env!("TPU_TORCH_VERSION"),
    ";"
);

type AddTo = fn(&Bound<'_, PyModule>) -> PyResult<()>;

const FUNCTIONS: &[AddTo] = &[
    |m| m.add_function(wrap_pyfunction!(configure, m)?),
    |m| m.add_function(wrap_pyfunction!(open_device, m)?),
    |m| m.add_function(wrap_pyfunction!(is_open, m)?),
    |m| m.add_function(wrap_pyfunction!(is_forked, m)?),
    |m| m.add_function(wrap_pyfunction!(device_count, m)?),
    |m| m.add_function(wrap_pyfunction!(current_device, m)?),
    |m| m.add_function(wrap_pyfunction!(device_name, m)?),
    |m| m.add_function(wrap_pyfunction!(platform, m)?),
    |m| m.add_function(wrap_pyfunction!(generator_state, m)?),
    |m| m.add_function(wrap_pyfunction!(set_generator_state, m)?),
    |m| m.add_function(wrap_pyfunction!(memory_stats, m)?),
    |m| m.add_function(wrap_pyfunction!(reset_peak_memory, m)?),
    |m| m.add_function(wrap_pyfunction!(empty_cache, m)?),
    |m| m.add_function(wrap_pyfunction!(stats, m)?),
    |m| m.add_function(wrap_pyfunction!(reset_stats, m)?),
    |m| m.add_function(wrap_pyfunction!(compiled, m)?),
    |m| m.add_function(wrap_pyfunction!(start_launches, m)?),
    |m| m.add_function(wrap_pyfunction!(stop_launches, m)?),
    |m| m.add_function(wrap_pyfunction!(flush, m)?),
    |m| m.add_function(wrap_pyfunction!(setting_names, m)?),
    |m| m.add_function(wrap_pyfunction!(get_setting, m)?),
    |m| m.add_function(wrap_pyfunction!(set_setting, m)?),
    |m| m.add_function(wrap_pyfunction!(table_disagreements, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::graph::add_graph, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::graph::add_program, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::graph::graph_refusal, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::graph::graph_sizes, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::ahead::lower_graph, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::ahead::compile_ahead, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::ahead::compiler_environment, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::graph::check_options, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::cache::cache_dir, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::cache::cache_entries, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::cache::cache_prune, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::cache::cache_import, m)?),
    |m| m.add_function(wrap_pyfunction!(crate::cache::cache_maker, m)?),
    |m| m.add_function(wrap_pyfunction!(serving_rows, m)?),
];

/// Registers the device with PyTorch and fills the module.
///
/// The torch that runs is compared first: code built against another minor release must not touch
/// its objects.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Opaque to the optimiser, so that the file holds the version once.
    let stamp = std::hint::black_box(BUILT_FOR).trim_end_matches(';');
    let built_for = stamp.rsplit(' ').next().unwrap_or(stamp);
    let torch = module.py().import("torch.version")?;
    let running: String = torch.getattr("__version__")?.extract()?;
    if minor(&running) != minor(built_for) {
        let message = format!("built for torch {built_for}, but this is torch {running}");
        return Err(PyImportError::new_err(message));
    }
    // SAFETY: the interpreter lock makes this call the only one; the message is a static string.
    let refused = unsafe { tpu_register_runtime() };
    if !refused.is_null() {
        // SAFETY: not null, so it points at a NUL-terminated message that is never freed.
        let message = unsafe { CStr::from_ptr(refused) };
        return Err(PyImportError::new_err(
            message.to_string_lossy().into_owned(),
        ));
    }
    module.add("torch_version", built_for)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    FUNCTIONS.iter().try_for_each(|add| add(module))
}

/// `2.14` of `2.14.0+cu130`.
fn minor(version: &str) -> &str {
    let end = version
        .match_indices('.')
        .nth(1)
        .map_or(version.len(), |(at, _)| at);
    &version[..end]
}

/// Whether the device has been opened; registration and queries leave it closed.
#[unsafe(no_mangle)]
extern "C" fn tpu_is_open() -> i32 {
    i32::from(runtime::is_open())
}

/// Says which plugin the device runs on. Opens nothing.
#[pyfunction]
fn configure(plugin: PathBuf, platform: &str) -> PyResult<()> {
    runtime::configure(plugin, platform).map_err(runtime_error)
}

/// Opens the device unless it is open. Raises `RuntimeError` where that fails.
#[pyfunction]
fn open_device(py: Python<'_>) -> PyResult<()> {
    py.detach(|| runtime::get().map(drop))
        .map_err(runtime_error)
}

/// Whether the device is open.
#[pyfunction]
fn is_open() -> bool {
    runtime::is_open()
}

/// Whether this process was forked from one in which the device was open.
#[pyfunction]
fn is_forked() -> bool {
    tpu_eager::is_forked()
}

/// How many devices this process may use: 0 before `configure`.
#[pyfunction]
fn device_count() -> i32 {
    i32::from(runtime::is_configured())
}

/// The index of this thread's device.
#[pyfunction]
fn current_device() -> i32 {
    tpu_current_device()
}

/// What the plugin calls the device; opens it.
#[pyfunction]
fn device_name(py: Python<'_>) -> PyResult<String> {
    py.detach(|| runtime::get().map(|device| device.device_name().to_string()))
        .map_err(runtime_error)
}

/// `cpu` or `tpu`; opens the device.
#[pyfunction]
fn platform(py: Python<'_>) -> PyResult<String> {
    py.detach(|| runtime::get().map(|device| device.platform().to_string()))
        .map_err(runtime_error)
}

/// Seed and offset of a device's default generator. Starts nothing.
#[pyfunction]
fn generator_state(device: u8) -> PyResult<(u64, u64)> {
    checked(device)?;
    // Setting nothing aside tells where the generator stands.
    Ok(crate::call::reserve(std::ptr::null_mut(), 0))
}

/// Sets seed and offset of a device's default generator. Starts nothing.
#[pyfunction]
fn set_generator_state(device: u8, seed: u64, offset: u64) -> PyResult<()> {
    tpu_generator_set_state(checked(device)?, seed, offset);
    Ok(())
}

/// The index, if a generator is there for it: one without a device as well, so that programs may
/// seed before a plugin is found.
fn checked(device: u8) -> PyResult<i32> {
    let count = device_count().max(1);
    if i32::from(device) < count {
        return Ok(device.into());
    }
    Err(PyValueError::new_err(format!(
        "tpu:{device} has no generator: there are {count}"
    )))
}

/// Bytes held, peak, buffers held, buffers ever made, and the limit (0 before the device is open).
#[pyfunction]
fn memory_stats(device: usize) -> (u64, u64, u64, u64, u64) {
    let now = memory::stats(device);
    (
        now.allocated,
        now.peak,
        now.buffers,
        now.allocations,
        now.limit,
    )
}

/// Makes the bytes held now the peak.
#[pyfunction]
fn reset_peak_memory(device: usize) {
    memory::reset_peak(device);
}

/// Frees the memory that waits to become results.
#[pyfunction]
fn empty_cache() {
    runtime::clear_spares();
}

/// All counters, as JSON.
#[pyfunction]
fn stats() -> PyResult<String> {
    serde_json::to_string(&counters::snapshot())
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The programs that were found on disk or compiled, as JSON.
#[pyfunction]
fn compiled() -> PyResult<String> {
    serde_json::to_string(&compiles::list())
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Begins to note what runs on the devices.
#[pyfunction]
fn start_launches() {
    launches::start();
}

/// Ends that: the launches, as JSON.
#[pyfunction]
fn stop_launches() -> PyResult<String> {
    serde_json::to_string(&launches::stop())
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Sets all counters to zero.
#[pyfunction]
fn reset_stats() {
    counters::reset();
}

/// Waits until compiled programs are on disk and no compile runs; for the interpreter's exit.
#[pyfunction]
fn flush(py: Python<'_>) {
    py.detach(|| {
        if let (true, Ok(runtime)) = (runtime::is_open(), runtime::get()) {
            runtime.flush();
        }
    });
}

/// The names of all settings.
#[pyfunction]
fn setting_names() -> Vec<&'static str> {
    settings::ALL.iter().map(|setting| setting.name).collect()
}

/// The value of a setting, as it would be written. Raises `KeyError` for an unknown name.
#[pyfunction]
fn get_setting(name: &str) -> PyResult<String> {
    settings::find(name)
        .map(|setting| setting.get())
        .map_err(setting_error)
}

/// Changes a setting. Raises `KeyError` for an unknown name, `ValueError` for a bad value, and
/// `RuntimeError` where it is too late because the device is open.
#[pyfunction]
fn set_setting(name: &str, value: &str) -> PyResult<()> {
    let setting = settings::find(name).map_err(setting_error)?;
    if !setting.live && runtime::is_open() && setting.get() != value {
        let message = format!("setting `{name}` counts only before the device starts");
        return Err(PyRuntimeError::new_err(message));
    }
    setting.set(value).map_err(setting_error)
}

/// What is wrong with the table of operators, given all schemas of the dispatcher; for tests.
#[pyfunction]
fn table_disagreements(schemas: Vec<String>) -> Vec<String> {
    let parsed = schemas.iter().filter_map(|text| Schema::parse(text));
    disagreements(&parsed.collect::<Vec<_>>())
}

/// The family and the name of the row behind each schema, none where no row serves it.
#[pyfunction]
fn serving_rows(schemas: Vec<String>) -> PyResult<Vec<Option<(&'static str, &'static str)>>> {
    let parsed = schemas.iter().map(|text| {
        Schema::parse(text).ok_or_else(|| PyValueError::new_err(format!("not a schema: `{text}`")))
    });
    let plans = plan(&parsed.collect::<PyResult<Vec<_>>>()?);
    let rows = plans.iter().map(|plan| {
        let row = plan.as_ref()?.op.name;
        Some((tpu_ops::family(row)?, row))
    });
    Ok(rows.collect())
}

fn setting_error(error: SettingError) -> PyErr {
    let message = error.to_string();
    match error {
        SettingError::Unknown { .. } => PyKeyError::new_err(message),
        SettingError::Value { .. } => PyValueError::new_err(message),
    }
}

fn runtime_error(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
