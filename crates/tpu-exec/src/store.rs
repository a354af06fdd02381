//! Programs on disk, shared by processes.
//!
//! Nothing here can fail a program: reading ends in an entry or in the cause of a miss, writing in
//! a counter. The first trouble with the disk is told in one warning.

use crate::entry;
use crate::key::{Form, Key, Maker};
use crate::lock::Lock;
use crate::makers::Makers;
use parking_lot::Mutex;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};
use tpu_obs::counters::{self, Miss};
use tpu_obs::show;

/// The longest that a process waits for another one to compile the same program. After that it
/// compiles too, which is never wrong.
const PATIENCE: Duration = Duration::from_secs(120);

/// Left-overs of killed processes are removed when they are older.
const STALE: Duration = Duration::from_secs(3600);

/// Entries written between two looks at the whole directory, at most.
const ENTRIES_PER_SWEEP: u32 = 64;

pub(crate) const ENTRY: &str = "program";
const LOCK: &str = "lock";
const PART: &str = "part";

/// A directory of entries that this maker may use.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    maker: Maker,
    makers: Makers,
    limit: u64,
    writable: bool,
    allowance: Mutex<Allowance>,
    warned: AtomicBool,
}

/// What may be written before the directory is measured again.
#[derive(Debug, Default)]
struct Allowance {
    bytes: u64,
    entries: u32,
}

/// A verified entry.
#[derive(Debug)]
pub(crate) struct Found {
    bytes: Vec<u8>,
    executable: Range<usize>,
}

impl Found {
    /// What the plugin serialised.
    pub(crate) fn executable(&self) -> &[u8] {
        &self.bytes[self.executable.clone()]
    }
}

impl Store {
    /// A store of at most `limit` bytes in `dir`, which need not exist yet.
    pub(crate) fn new(dir: PathBuf, maker: Maker, limit: u64, writable: bool) -> Store {
        let (allowance, warned) = (Mutex::default(), AtomicBool::new(false));
        Store {
            makers: Makers::new(dir.with_file_name("makers")),
            dir,
            maker,
            limit,
            writable,
            allowance,
            warned,
        }
    }

    /// The entry of the program `key`, whose canonical text must be `canonical`.
    ///
    /// # Errors
    /// The cause of the miss.
    pub(crate) fn read(&self, key: Key, canonical: &str) -> Result<Found, Miss> {
        let key = key.salted(&self.maker.salt);
        let path = self.path(key, ENTRY);
        let bytes = match self.read_and_touch(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Miss::Cold),
            Err(error) => {
                self.warn("read", &error);
                return Err(Miss::Io);
            }
        };
        let executable = entry::verify(&bytes, &self.maker.salt, key, canonical)?;
        Ok(Found { bytes, executable })
    }

    /// Who makes the programs, one property a line.
    pub(crate) fn maker(&self) -> &str {
        self.maker.text()
    }

    /// What the disk has instead of a program that is not there; empty for nothing.
    pub(crate) fn instead(&self, form: &Form, canonical: &str) -> String {
        let exists = |key| self.path(key, ENTRY).exists();
        self.makers.instead(&self.maker, form, canonical, exists)
    }

    /// Leaves a note of how a program was made that is kept here.
    pub(crate) fn note(&self, form: &Form) {
        if self.writable {
            self.makers.note(&self.maker, form);
        }
    }

    /// Keeps a program. Failures are counted and, the first time, told.
    pub(crate) fn write(&self, key: Key, canonical: &str, executable: &[u8]) {
        let key = key.salted(&self.maker.salt);
        let head = entry::head(&self.maker.salt, key, canonical, executable);
        let parts = [&head[..], canonical.as_bytes(), executable];
        let size = parts.iter().map(|part| part.len() as u64).sum();
        if !self.writable || size > self.limit {
            return;
        }
        match place(&self.dir, &name(key, ENTRY), &parts) {
            Ok(()) => {
                counters::stored();
                self.account(size);
            }
            Err(error) => {
                counters::store_failed();
                self.warn("write", &error);
            }
        }
    }

    /// Waits until this process alone may compile `key`. `None` where that cannot be had: in a
    /// store that is only read, where there are no locks, or after two minutes.
    pub(crate) fn lock(&self, key: Key) -> Option<Lock> {
        if !self.writable {
            return None;
        }
        let path = self.path(key.salted(&self.maker.salt), LOCK);
        let (start, mut pause) = (Instant::now(), Duration::from_millis(1));
        while start.elapsed() < PATIENCE {
            match self.try_lock(&path) {
                Ok(Some(lock)) => return Some(lock),
                Ok(None) => std::thread::sleep(pause),
                // Trouble that also hinders writing is told there; without locks, programs may be
                // compiled more than once, no more.
                Err(_) => return None,
            }
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        None
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        match Lock::try_acquire(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_dir(&self.dir)?;
                Lock::try_acquire(path)
            }
            outcome => outcome,
        }
    }

    fn path(&self, key: Key, extension: &str) -> PathBuf {
        self.dir.join(name(key, extension))
    }

    fn read_and_touch(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if self.writable {
            // The time of last use decides what is evicted; not being able to set it is no loss.
            let _ = file.set_modified(SystemTime::now());
        }
        Ok(bytes)
    }

    fn account(&self, size: u64) {
        let mut allowance = self.allowance.lock();
        if allowance.entries > 0 && allowance.bytes >= size {
            allowance.entries -= 1;
            allowance.bytes -= size;
            return;
        }
        // Where that fails, it is tried again after the next write.
        let used = sweep(&self.dir, self.limit, self.limit / 10 * 9).unwrap_or(self.limit);
        // Only half of what is free: other processes write too.
        let bytes = self.limit.saturating_sub(used) / 2;
        *allowance = Allowance {
            bytes,
            entries: ENTRIES_PER_SWEEP,
        };
    }

    fn warn(&self, verb: &str, error: &io::Error) {
        if !self.warned.swap(true, Relaxed) {
            show::warn(format_args!(
                "cannot {verb} compiled programs in `{}`: {error}; all still works, but later \
                 starts compile again. Set TORCH_TPU_CACHE_DIR to another place, or \
                 TORCH_TPU_CACHE to `readonly` or `off`",
                self.dir.display()
            ));
        }
    }
}

fn name(key: Key, extension: &str) -> String {
    format!("{}.{extension}", key.hex())
}

/// Writes a file so that others see all of it or nothing.
pub(crate) fn place(dir: &Path, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Relaxed));
    // Machines that share the directory may have equal process numbers, hence the time.
    let time = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let part = dir.join(format!(
        "{name}.{process}-{count}-{}.{PART}",
        time.as_nanos()
    ));
    let outcome = write_parts(dir, &part, parts);
    let outcome = outcome.and_then(|()| std::fs::rename(&part, dir.join(name)));
    if outcome.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    outcome
}

fn write_parts(dir: &Path, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_dir(dir)?;
            File::create_new(path)?
        }
        outcome => outcome?,
    };
    // Not synced: what a power cut leaves is found out by its checksum.
    parts.iter().try_for_each(|part| file.write_all(part))
}

/// Only for the user: an executable that somebody else could replace would run as the user.
fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

struct Kept {
    used: SystemTime,
    size: u64,
    path: PathBuf,
}

/// Removes what killed processes left and, where the entries take more than `limit` bytes, the
/// least recently used until they take `target`. Returns the bytes left.
pub(crate) fn sweep(dir: &Path, limit: u64, target: u64) -> io::Result<u64> {
    let now = SystemTime::now();
    let (mut kept, mut total) = (Vec::new(), 0);
    for file in std::fs::read_dir(dir)? {
        let path = file?.path();
        // Gone already: another process sweeps too.
        let Ok(metadata) = path.metadata() else {
            continue;
        };
        let used = metadata.modified().unwrap_or(now);
        let stale = now.duration_since(used).is_ok_and(|age| age > STALE);
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(ENTRY) => {
                total += metadata.len();
                kept.push(Kept {
                    used,
                    size: metadata.len(),
                    path,
                });
            }
            Some(PART) if stale => drop(std::fs::remove_file(&path)),
            // Taking a lock and dropping it removes it, unless it is held.
            Some(LOCK) if stale => drop(Lock::try_acquire(&path)),
            _ => {}
        }
    }
    if total > limit {
        total = evict(kept, total, target);
    }
    Ok(total)
}

fn evict(mut kept: Vec<Kept>, mut total: u64, target: u64) -> u64 {
    kept.sort_by(|a, b| a.used.cmp(&b.used).then_with(|| a.path.cmp(&b.path)));
    let mut evicted = 0;
    for entry in kept {
        if total <= target {
            break;
        }
        if std::fs::remove_file(&entry.path).is_ok() {
            evicted += 1;
        }
        total -= entry.size;
    }
    counters::evicted(evicted);
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn maker() -> Maker {
        Maker::of("a test\n".into())
    }

    fn store(dir: &Path, limit: u64) -> Store {
        Store::new(dir.join("programs"), maker(), limit, true)
    }

    fn key(number: u8) -> Key {
        Key([number; 32])
    }

    fn age(store: &Store, number: u8, seconds: u64) {
        let path = store.path(key(number).salted(&maker().salt), ENTRY);
        let file = File::options().write(true).open(path).expect("stored");
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
            .expect("ours");
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path(), 1 << 20);
        assert_eq!(store.read(key(1), "text").expect_err("empty"), Miss::Cold);
        store.write(key(1), "text", b"code");
        assert_eq!(
            store.read(key(1), "text").expect("stored").executable(),
            b"code"
        );
        assert_eq!(
            store.read(key(1), "other").expect_err("not it"),
            Miss::Foreign
        );
        assert_eq!(
            store.read(key(2), "text").expect_err("not there"),
            Miss::Cold
        );
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path(), 5_000);
        for number in 0..4 {
            store.write(key(number), "", &[0; 1_000 - 120]);
            age(&store, number, 1_000 - u64::from(number));
        }
        store.read(key(0), "").expect("a use makes it young");
        store.write(key(4), "", &[0; 1_000 - 120]);
        store.write(key(5), "", &[0; 1_000 - 120]);
        let left: Vec<u8> = (0..6).filter(|n| store.read(key(*n), "").is_ok()).collect();
        assert_eq!(left, [0, 3, 4, 5]);
    }

    #[test]
    fn the_limit_holds_whatever_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path(), 100_000);
        for number in 0..=255 {
            store.write(key(number), "", &vec![0; 500 + 40 * usize::from(number)]);
            let files = fs::read_dir(&store.dir)
                .expect("made")
                .map(|f| f.expect("read"));
            let total: u64 = files.map(|f| f.metadata().expect("there").len()).sum();
            assert!(total <= 100_000, "{total} after {number}");
        }
        store.write(key(7), "", &[0; 200_000]);
        assert!(
            store.read(key(255), "").is_ok(),
            "an entry beyond the limit evicts nobody"
        );
    }

    #[test]
    fn left_overs_are_removed_once_old() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path(), 1 << 20);
        let old = SystemTime::now() - STALE * 2;
        make_dir(&store.dir).expect("writable");
        for name in ["old.part", "new.part", "old.lock", "new.lock", "old.txt"] {
            let file = File::create(store.dir.join(name)).expect("writable");
            if name.starts_with("old") {
                file.set_modified(old).expect("ours");
            }
        }
        store.write(key(1), "", b"code");
        let mut left: Vec<_> = fs::read_dir(&store.dir)
            .expect("made")
            .map(|file| file.expect("read").file_name().into_string().expect("text"))
            .filter(|name| !name.ends_with(ENTRY))
            .collect();
        left.sort();
        assert_eq!(left, ["new.lock", "new.part", "old.txt"]);
    }

    #[test]
    fn a_store_that_is_only_read_changes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        store(dir.path(), 1 << 20).write(key(1), "text", b"code");
        let reader = Store::new(dir.path().join("programs"), maker(), 1 << 20, false);
        let path = reader.path(key(1).salted(&maker().salt), ENTRY);
        let before = fs::metadata(&path)
            .expect("there")
            .modified()
            .expect("known");
        reader.write(key(2), "text", b"code");
        assert!(reader.lock(key(2)).is_none());
        assert!(reader.read(key(1), "text").is_ok());
        assert_eq!(
            fs::metadata(&path)
                .expect("there")
                .modified()
                .expect("known"),
            before
        );
        assert_eq!(fs::read_dir(&reader.dir).expect("there").count(), 1);
    }

    #[test]
    fn the_directory_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a directory");
        let store = store(dir.path(), 1 << 20);
        store.write(key(1), "text", b"code");
        let mode = fs::metadata(&store.dir).expect("made").permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
}
