//! The Python environments of the tree: `.venv`, and `.venv-VERSION` for another torch.

use crate::error::{Error, Result};
use crate::requirements::Requirements;
use crate::step;
use crate::tree::Tree;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The oldest Python that torch has wheels for, and that the extension's stable ABI names.
const OLDEST: (u32, u32) = (3, 11);

/// The PJRT plugins that the tests run on: package folder and library.
const PLUGINS: [(&str, &str); 2] = [
    ("lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so"),
    ("fastatomstruct_xla_cpu", "libpjrt_cpu.so"),
];

/// An environment and the torch in it.
pub(crate) struct Venv {
    pub(crate) path: PathBuf,
    pub(crate) torch: String,
    /// Whether it holds the pinned torch and sees `python/torch_tpu` itself rather than a copy.
    pub(crate) primary: bool,
}

impl Venv {
    /// The environment for the pinned torch, or for another release of it.
    pub(crate) fn of(tree: &Tree, torch: Option<&str>) -> Result<Self> {
        let pinned = Requirements::read(tree, None)?;
        let pinned = pinned.version("torch").unwrap_or_default().to_owned();
        let other = torch.filter(|torch| *torch != pinned);
        let name = other.map_or(".venv".into(), |torch| format!(".venv-{torch}"));
        Ok(Self {
            path: tree.root.join(name),
            primary: other.is_none(),
            torch: other.map_or(pinned, str::to_owned),
        })
    }

    /// The interpreter.
    pub(crate) fn python(&self) -> PathBuf {
        self.path.join("bin/python")
    }

    /// Makes the environment unless its interpreter works already.
    ///
    /// # Errors
    /// When no suitable Python is found or the environment cannot be made.
    pub(crate) fn make(&self) -> Result<()> {
        if self.python().exists() && release(&self.python()).is_some() {
            return Ok(());
        }
        let base = find_python()?;
        let mut venv = Command::new(&base);
        venv.args(["-m", "venv", "--clear"]).arg(&self.path);
        step::run(&format!("making `{}`", self.path.display()), &mut venv)
    }

    /// A program of the environment, with the environment active.
    pub(crate) fn command(&self, tree: &Tree, program: &str) -> Command {
        let mut command = Command::new(self.path.join("bin").join(program));
        self.activate(&mut command);
        command.current_dir(&tree.root);
        command
    }

    /// Sets the variables that `bin/activate` sets, and `PYTHON` for the bridge's build script.
    pub(crate) fn activate(&self, command: &mut Command) {
        let old = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(self.path.join("bin")).chain(std::env::split_paths(&old));
        if let Ok(joined) = std::env::join_paths(paths) {
            command.env("PATH", joined);
        }
        command
            .env("VIRTUAL_ENV", &self.path)
            .env("PYTHON", self.python())
            .env_remove("CONDA_PREFIX")
            .env_remove("PYTHONHOME");
    }

    /// The folder that packages are installed in.
    pub(crate) fn packages(&self) -> Option<PathBuf> {
        let libraries = std::fs::read_dir(self.path.join("lib")).ok()?;
        let mut folders = libraries
            .flatten()
            .map(|entry| entry.path().join("site-packages"));
        folders.find(|folder| folder.is_dir())
    }

    /// The CPU plugins that are installed, the default one first.
    pub(crate) fn plugins(&self) -> Vec<PathBuf> {
        let Some(packages) = self.packages() else {
            return Vec::new();
        };
        let paths = PLUGINS.map(|(package, library)| packages.join(package).join(library));
        paths.into_iter().filter(|path| path.is_file()).collect()
    }
}

/// A Python new enough: `$PYTHON`, else the first that fits on the path.
fn find_python() -> Result<PathBuf> {
    let named = std::env::var_os("PYTHON").map(PathBuf::from);
    let usual = [
        "python3",
        "python3.11",
        "python3.12",
        "python3.13",
        "python3.14",
    ];
    let candidates = named.into_iter().chain(usual.map(PathBuf::from));
    candidates
        .into_iter()
        .find(|python| release(python).is_some_and(|release| release >= OLDEST))
        .ok_or_else(|| Error::Missing {
            what: format!("no Python {}.{} or newer found", OLDEST.0, OLDEST.1),
            hint: "install one, or set `PYTHON` to its path".into(),
        })
}

/// The major and minor version of an interpreter that starts.
fn release(python: &Path) -> Option<(u32, u32)> {
    let script = "import sys; print(*sys.version_info[:2])";
    let mut command = Command::new(python);
    let output = command
        .args(["-c", script])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().split_once(' ')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_torch_gets_its_own_environment() {
        let tree = Tree::find().unwrap();
        let pinned = Venv::of(&tree, None).unwrap();
        assert!(pinned.primary && pinned.path.ends_with(".venv"));
        let same = Venv::of(&tree, Some(&pinned.torch)).unwrap();
        assert_eq!(same.path, pinned.path);
        let other = Venv::of(&tree, Some("9.8.7")).unwrap();
        assert!(!other.primary && other.path.ends_with(".venv-9.8.7"));
        assert_eq!(other.torch, "9.8.7");
    }

    #[test]
    fn what_is_no_interpreter_has_no_release() {
        assert_eq!(release(Path::new("/nonexistent/python")), None);
        assert_eq!(release(Path::new("true")), None);
    }
}
