//! XLA's CPU plugin.

use super::Known;
use crate::{Client, Code, OptionValue, Plugin, Result};
use std::sync::Arc;

/// Where the Python packages keep the plugin, the preferred one first.
pub(super) const FILES: &[&str] = &[
    "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
    "fastatomstruct_xla_cpu/libpjrt_cpu.so",
];

/// What to install where there is none.
pub(super) const PACKAGES: &str = "lammps-jax-pjrt-cpu";

/// More devices than this only cost threads; the plugin has no limit of its own.
const MAX_DEVICES: i64 = 1024;

pub(super) const OPTIONS: &[Known] = &[
    Known {
        name: "cpu_device_count",
        accepts: |value| matches!(value, OptionValue::Int(1..=MAX_DEVICES)),
        values: "an integer from 1 to 1024",
    },
    Known {
        name: "asynchronous",
        accepts: |value| matches!(value, OptionValue::Bool(_)),
        values: "a bool",
    },
    Known {
        name: "process_id",
        accepts: |value| matches!(value, OptionValue::Int(0..=MAX_DEVICES)),
        values: "an integer from 0 to 1024",
    },
];

/// One device, and launches that run in the calling thread: handing a small program to another
/// thread costs more than running it. Plugins that do not know `asynchronous` are asked again
/// without it.
pub(super) fn client(plugin: &Arc<Plugin>) -> Result<Arc<Client>> {
    let one_device = ("cpu_device_count", OptionValue::Int(1));
    let inline = ("asynchronous", OptionValue::Bool(false));
    match Client::new(plugin, &[one_device.clone(), inline]) {
        Err(error) if error.code() == Code::InvalidArgument => Client::new(plugin, &[one_device]),
        result => result,
    }
}
