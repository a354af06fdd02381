//! A plugin: a shared library with one exported function, `GetPjrtApi`.

use crate::call::Api;
use crate::ffi::{self, Ptr};
use crate::options::read_named_values;
use crate::{Code, Error, OptionValue, Result};
use libloading::os::unix::{Library, Symbol};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A loaded plugin. It stays loaded until the process ends.
pub struct Plugin {
    path: PathBuf,
    api: Api,
    attributes: Vec<(String, OptionValue)>,
}

static LOADED: Mutex<Vec<Arc<Plugin>>> = Mutex::new(Vec::new());

impl Plugin {
    /// Loads the plugin at `path`, or returns it where this process has loaded it before.
    ///
    /// The file is trusted like any library: its code runs in this process. Where
    /// `TF_CPP_MIN_LOG_LEVEL` is not set it is set to 3, since XLA otherwise prints every status
    /// to stderr that it also returns.
    ///
    /// # Errors
    /// [`Code::Plugin`] where the file cannot be loaded or exports no function table.
    pub fn load(path: &Path) -> Result<Arc<Self>> {
        let path = path
            .canonicalize()
            .map_err(|error| unloadable(path, &error))?;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.iter().find(|plugin| plugin.path == path) {
            return Ok(Arc::clone(plugin));
        }
        let plugin = Arc::new(Self::open(path)?);
        loaded.push(Arc::clone(&plugin));
        Ok(plugin)
    }

    fn open(path: PathBuf) -> Result<Self> {
        quiet_logs();
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: the library's initialisers run; a plugin is trusted to have sound ones.
        let library = unsafe { Library::open(Some(&path), flags) };
        let library = library.map_err(|error| unloadable(&path, &error))?;
        // SAFETY: every plugin exports this function with this signature.
        let symbol: Result<Symbol<unsafe extern "C" fn() -> Ptr>, _> =
            unsafe { library.get(b"GetPjrtApi") };
        let get_api = symbol.map_err(|error| unloadable(&path, &error))?;
        // SAFETY: as above; the table is static in the library, which is never unloaded.
        let api = unsafe { Api::new(get_api())? };
        std::mem::forget(library);
        let mut args = ffi::PJRT_Plugin_Initialize_Args::NEW;
        // SAFETY: no handles are involved. libtpu knows no platform before this call.
        unsafe { api.call(&mut args)? };
        Ok(Self {
            path,
            api,
            attributes: attributes(api)?,
        })
    }

    /// The file, with symbolic links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor version of the C API that the plugin was built with.
    pub fn api_version(&self) -> (i32, i32) {
        self.api.version()
    }

    /// What the plugin says of itself, such as the StableHLO versions that it reads.
    pub fn attributes(&self) -> &[(String, OptionValue)] {
        &self.attributes
    }

    pub(crate) fn api(&self) -> Api {
        self.api
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Plugin")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn attributes(api: Api) -> Result<Vec<(String, OptionValue)>> {
    let mut args = ffi::PJRT_Plugin_Attributes_Args::NEW;
    // SAFETY: no handles are involved.
    unsafe { api.call(&mut args)? };
    // SAFETY: the call succeeded, so both fields describe an array of the plugin.
    Ok(unsafe { read_named_values(args.attributes, args.num_attributes) })
}

fn quiet_logs() {
    const LOG_LEVEL: &str = "TF_CPP_MIN_LOG_LEVEL";
    if std::env::var_os(LOG_LEVEL).is_none() {
        // SAFETY: it is only unsound together with a thread that reads the environment through C
        // at this very moment. The alternative is XLA's noise on stderr.
        unsafe { std::env::set_var(LOG_LEVEL, "3") };
    }
}

fn unloadable(path: &Path, error: &dyn std::error::Error) -> Error {
    let message = format!("cannot load the PJRT plugin `{}`: {error}", path.display());
    Error::new(Code::Plugin, message)
}
