//! A lock between processes: a locked file that is gone once nobody holds it.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Held until dropped, or until the process dies: the system releases it then.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the lock at `path` if nobody holds it; `None` if somebody does.
    ///
    /// # Errors
    /// Where the file cannot be made, or the file system has no locks.
    pub(crate) fn try_acquire(path: &Path) -> io::Result<Option<Lock>> {
        loop {
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // The last holder may have removed the file after it was opened here; a lock on a
            // file without a name excludes nobody.
            if is_at(&file, path)? {
                return Ok(Some(Lock {
                    path: path.to_owned(),
                    file,
                }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // First removed, then unlocked: whoever locks it later sees that it has no name.
        let _ = std::fs::remove_file(&self.path);
        // Closing would not be enough where a forked child still holds the same file.
        let _ = self.file.unlock();
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(named) => Ok((held.dev(), held.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    #[test]
    fn one_holder_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.lock");
        let held = Lock::try_acquire(&path).expect("locks work").expect("free");
        assert!(Lock::try_acquire(&path).expect("locks work").is_none());
        drop(held);
        assert!(!path.exists());
        assert!(Lock::try_acquire(&path).expect("locks work").is_some());
    }

    #[test]
    fn many_threads_never_hold_it_together() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.lock");
        let (inside, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while taken.load(SeqCst) < 1_000 {
                        let Some(held) = Lock::try_acquire(&path).expect("locks work") else {
                            std::thread::yield_now();
                            continue;
                        };
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        taken.fetch_add(1, SeqCst);
                        std::thread::sleep(Duration::from_micros(50));
                        inside.fetch_sub(1, SeqCst);
                        drop(held);
                    }
                });
            }
        });
    }
}
