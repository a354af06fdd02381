//! What differs between platforms: where the plugin is found, and the options of its client.

mod cpu;
mod tpu;

use crate::{Client, Code, Error, OptionValue, Plugin, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A kind of device that this project runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// XLA's CPU plugin.
    Cpu,
    /// Google's `libtpu`.
    Tpu,
}

/// One create option that a plugin is known to take, with the values that are safe to pass.
struct Known {
    name: &'static str,
    accepts: fn(&OptionValue) -> bool,
    values: &'static str,
}

impl Platform {
    /// The platform called `name`: `cpu` or `tpu`.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "cpu" => Ok(Self::Cpu),
            "tpu" => Ok(Self::Tpu),
            _ => {
                let message = format!("unknown platform `{name}`: expected `cpu` or `tpu`");
                Err(Error::new(Code::InvalidArgument, message))
            }
        }
    }

    /// The name that [`Platform::parse`] reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Tpu => "tpu",
        }
    }

    /// The plugin's file, looked for below `roots` (Python's `site-packages` folders), in order of
    /// preference. For `tpu`, the variable `TPU_LIBRARY_PATH` comes first.
    ///
    /// # Errors
    /// [`Code::Plugin`], naming the Python packages that would provide one.
    pub fn find_plugin(self, roots: &[PathBuf]) -> Result<PathBuf> {
        let (files, packages) = match self {
            Self::Cpu => (cpu::FILES, cpu::PACKAGES),
            Self::Tpu => (tpu::FILES, tpu::PACKAGES),
        };
        let told = (self == Self::Tpu).then(tpu::library_path).flatten();
        let found = files
            .iter()
            .flat_map(|file| roots.iter().map(move |root| root.join(file)));
        let exists = |path: &PathBuf| Path::is_file(path);
        told.into_iter().chain(found).find(exists).ok_or_else(|| {
            let name = self.name();
            let message = format!("no PJRT plugin for `{name}` found; install `{packages}`");
            Error::new(Code::Plugin, message)
        })
    }

    /// A client with the options that suit this project.
    ///
    /// # Errors
    /// Whatever the plugin reports, such as a device that is in use.
    pub fn client(self, plugin: &Arc<Plugin>) -> Result<Arc<Client>> {
        match self {
            Self::Cpu => cpu::client(plugin),
            Self::Tpu => Client::new(plugin, &[]),
        }
    }
}

/// Refuses options whose effect is unknown: a wrong type throws through C and ends the process.
pub(crate) fn check_option(name: &str, value: &OptionValue) -> Result<()> {
    let mut known = cpu::OPTIONS.iter().chain(tpu::OPTIONS);
    let message = match known.find(|known| known.name == name) {
        Some(known) if (known.accepts)(value) => return Ok(()),
        Some(known) => format!(
            "client option `{name}` must be {}, got `{value:?}`",
            known.values
        ),
        None => format!("unknown client option `{name}`"),
    };
    Err(Error::new(Code::InvalidArgument, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_platform() {
        for platform in [Platform::Cpu, Platform::Tpu] {
            assert_eq!(Platform::parse(platform.name()), Ok(platform));
        }
        assert!(Platform::parse("gpu").is_err());
    }

    #[test]
    fn the_preferred_plugin_is_found() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let roots = [first.path().to_owned(), second.path().to_owned()];
        let error = Platform::Cpu.find_plugin(&roots).unwrap_err();
        assert_eq!(error.code(), Code::Plugin);
        assert!(error.message().contains(cpu::PACKAGES), "{error}");
        let place = |root: &Path, file: &str| {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            file
        };
        let other = place(first.path(), cpu::FILES[1]);
        assert_eq!(Platform::Cpu.find_plugin(&roots), Ok(other));
        let preferred = place(second.path(), cpu::FILES[0]);
        assert_eq!(Platform::Cpu.find_plugin(&roots), Ok(preferred));
    }
}
