//! Compiling for devices that are not here.

use crate::call::{self, Api, Handle};
use crate::executable::memory_stats;
use crate::ffi;
use crate::{CompileOptions, MemoryStats, Plugin, Result};
use std::fmt;
use std::sync::Arc;

/// Devices by description, such as `v5e:2x2`; none need be attached.
///
/// Plugins take hold of the process for it: `libtpu` installs signal handlers and looks at the
/// environment, and what it cannot compile may end the process. So use a process for it alone,
/// started with [`Topology::environment`].
pub struct Topology {
    plugin: Arc<Plugin>,
    api: Api,
    raw: Handle,
    name: String,
}

/// A program for devices that are not here: it can be asked but not run.
pub struct Compiled {
    api: Api,
    raw: Handle,
    // Programs refer to the topology inside the plugin.
    topology: Arc<Topology>,
}

impl Topology {
    /// The variables without which `libtpu` searches the network for a TPU, or takes a lock that
    /// keeps a second process out.
    pub fn environment() -> &'static [(&'static str, &'static str)] {
        &[
            ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
            ("TPU_SKIP_MDS_QUERY", "1"),
            ("TPU_ACCELERATOR_TYPE", "v6e-4"),
            ("TPU_WORKER_HOSTNAMES", "localhost"),
            ("TPU_WORKER_ID", "0"),
            ("TPU_STDERR_LOG_LEVEL", "3"),
            ("TPU_MIN_LOG_LEVEL", "3"),
            ("TPU_LOG_DIR", "disabled"),
        ]
    }

    /// The topology that `plugin` calls `name`.
    ///
    /// # Errors
    /// Whatever the plugin reports: most know no topologies, or not this one.
    pub fn new(plugin: &Arc<Plugin>, name: &str) -> Result<Arc<Self>> {
        let api = plugin.api();
        let mut args = ffi::PJRT_TopologyDescription_Create_Args {
            topology_name: call::address(name.as_bytes()),
            topology_name_size: name.len(),
            ..ffi::PJRT_TopologyDescription_Create_Args::NEW
        };
        // SAFETY: the name outlives the call, and there are no options.
        unsafe { api.call(&mut args)? };
        Ok(Arc::new(Self {
            plugin: Arc::clone(plugin),
            api,
            raw: Handle::new(args.topology, "topology")?,
            name: name.to_owned(),
        }))
    }

    /// The name it was made with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compiles a StableHLO module for one device of the topology.
    ///
    /// # Errors
    /// Whatever the compiler reports; a program that does not fit the device's memory is one.
    pub fn compile(self: &Arc<Self>, module: &str, options: &CompileOptions) -> Result<Compiled> {
        let mut unknown = Vec::new();
        let raw = loop {
            match self.compile_raw(module, &options.encode(&unknown)) {
                Ok(raw) => break raw,
                Err(error) => match options.refused_flag(error.message()) {
                    Some(flag) if !unknown.contains(&flag) => unknown.push(flag),
                    _ => return Err(error),
                },
            }
        };
        Ok(Compiled {
            api: self.api,
            raw,
            topology: Arc::clone(self),
        })
    }

    fn compile_raw(&self, module: &str, options: &[u8]) -> Result<Handle> {
        let program = call::program(module);
        let mut args = ffi::PJRT_Compile_Args {
            topology: self.raw.raw(),
            program: call::address(&program),
            compile_options: call::address(options),
            compile_options_size: options.len(),
            ..ffi::PJRT_Compile_Args::NEW
        };
        // SAFETY: the topology is live; module and options outlive the call; no client is needed.
        unsafe { self.api.call(&mut args)? };
        Handle::new(args.executable, "executable")
    }
}

impl Compiled {
    /// What it was compiled for.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// What the program needs on a device.
    ///
    /// # Errors
    /// Whatever the plugin reports.
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        // SAFETY: the program is live.
        unsafe { memory_stats(self.api, self.raw) }
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Topology")
            .field("name", &self.name)
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Compiled")
            .field("topology", &self.topology)
            .finish_non_exhaustive()
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        let mut args = ffi::PJRT_TopologyDescription_Destroy_Args {
            topology: self.raw.raw(),
            ..ffi::PJRT_TopologyDescription_Destroy_Args::NEW
        };
        // SAFETY: the topology is live, and every program made for it holds an `Arc` of it.
        let _ = unsafe { self.api.call(&mut args) };
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let mut args = ffi::PJRT_Executable_Destroy_Args {
            executable: self.raw.raw(),
            ..ffi::PJRT_Executable_Destroy_Args::NEW
        };
        // SAFETY: the program is live and nothing else destroys it.
        let _ = unsafe { self.api.call(&mut args) };
    }
}
