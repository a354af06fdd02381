//! Stamps: what a step was made from, so that a second run of it costs nothing.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// A file that holds the hash of a step's inputs once the step has succeeded.
pub(crate) struct Stamp {
    path: PathBuf,
    hash: String,
}

impl Stamp {
    /// The stamp at `path` of a step made from these words and files.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn of(
        path: PathBuf,
        words: &[&str],
        root: &Path,
        files: &[PathBuf],
    ) -> Result<Self> {
        let mut hasher = blake3::Hasher::new();
        // Every part is preceded by its length: parts must not run into each other.
        let mut add = |part: &[u8]| {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        };
        for word in words {
            add(word.as_bytes());
        }
        for file in files {
            let full = root.join(file);
            add(file.as_os_str().as_encoded_bytes());
            add(&std::fs::read(&full).map_err(Error::file("read", &full))?);
        }
        let hash = hasher.finalize().to_hex().to_string();
        Ok(Self { path, hash })
    }

    /// Whether the step has succeeded with these very inputs.
    pub(crate) fn is_fresh(&self) -> bool {
        std::fs::read_to_string(&self.path).is_ok_and(|found| found.trim() == self.hash)
    }

    /// Forgets an earlier success: a step that is interrupted must run again.
    pub(crate) fn clear(&self) -> Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::file("remove", &self.path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Records success.
    pub(crate) fn set(&self) -> Result<()> {
        let text = format!("{}\n", self.hash);
        std::fs::write(&self.path, text).map_err(Error::file("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(root: &Path, words: &[&str]) -> Stamp {
        Stamp::of(root.join("stamp"), words, root, &["input".into()]).unwrap()
    }

    #[test]
    fn a_changed_input_makes_it_stale() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::write(root.join("input"), "a").unwrap();
        let first = stamp(root, &["torch", "2.14.0"]);
        assert!(!first.is_fresh());
        first.set().unwrap();
        assert!(stamp(root, &["torch", "2.14.0"]).is_fresh());
        assert!(!stamp(root, &["torch2", ".14.0"]).is_fresh());
        std::fs::write(root.join("input"), "b").unwrap();
        assert!(!stamp(root, &["torch", "2.14.0"]).is_fresh());
        first.clear().unwrap();
        first.clear().unwrap();
        assert!(!first.is_fresh());
    }
}
