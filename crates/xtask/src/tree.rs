//! The working tree that the tasks act on.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the checkout and where cargo puts what it builds.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl Tree {
    /// The checkout whose `cargo x` is running.
    ///
    /// Cargo names it at run time; the compiled-in path would be another checkout's where two
    /// share a target directory.
    pub(crate) fn find() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.ancestors().nth(2).unwrap_or(&manifest);
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(target) => root.join(target),
            None => root.join("target"),
        };
        let root = root.to_path_buf();
        Ok(Self { root, target })
    }

    /// The cargo that runs this task, working in the root.
    pub(crate) fn cargo(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.root);
        command
    }

    /// The files that git tracks or would track, relative to the root, in order.
    ///
    /// # Errors
    /// When git is missing or the tree is not a git checkout.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        let mut git = Command::new("git");
        git.args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let listing = crate::step::output(git.current_dir(&self.root))?;
        let mut files: Vec<PathBuf> = listing
            .split('\0')
            .filter(|name| !name.is_empty() && self.root.join(name).is_file())
            .map(PathBuf::from)
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// The text of a file, by its path from the root.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = self.root.join(path);
        std::fs::read_to_string(&path).map_err(Error::file("read", &path))
    }
}
