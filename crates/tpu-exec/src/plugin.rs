//! The identity of the plugin's file: a hash of all its bytes, computed once per installation.

use crate::store::place;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The hash of the file at `plugin`.
///
/// Hashing some 200 MB at every start would cost 70 ms, so the result is noted in `notes` under
/// the file's path, size, inode and times; it is hashed anew when any of these changes.
///
/// # Errors
/// Where the file cannot be read. Trouble with the note costs only time.
pub(crate) fn hash(plugin: &Path, notes: &Path, may_write: bool) -> io::Result<blake3::Hash> {
    let identity = identity(plugin, &std::fs::metadata(plugin)?);
    let name = format!("{}.hash", &identity.to_hex()[..32]);
    if let Ok(note) = std::fs::read_to_string(notes.join(&name))
        && let Some(hash) = read_note(&note, &identity)
    {
        return Ok(hash);
    }
    let hash = hash_file(plugin)?;
    if may_write {
        // A failure here is met again, and reported, when a program is stored.
        let _ = place(notes, &name, &[write_note(&hash, &identity).as_bytes()]);
    }
    Ok(hash)
}

fn identity(path: &Path, file: &Metadata) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(path.as_os_str().as_encoded_bytes());
    for number in [file.dev(), file.ino(), file.len()] {
        hasher.update(&number.to_le_bytes());
    }
    for time in [
        file.mtime(),
        file.mtime_nsec(),
        file.ctime(),
        file.ctime_nsec(),
    ] {
        hasher.update(&time.to_le_bytes());
    }
    hasher.finalize()
}

/// The hash and a check over it, so that a damaged note is not believed.
fn write_note(hash: &blake3::Hash, identity: &blake3::Hash) -> String {
    let check = blake3::keyed_hash(identity.as_bytes(), hash.as_bytes());
    format!("{hash} {check}\n")
}

fn read_note(note: &str, identity: &blake3::Hash) -> Option<blake3::Hash> {
    let hash = blake3::Hash::from_hex(note.get(..64)?).ok()?;
    (note == write_note(&hash, identity)).then_some(hash)
}

fn hash_file(path: &Path) -> io::Result<blake3::Hash> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            count => hasher.update(&buffer[..count]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_note_is_used_until_the_file_changes() {
        let dir = tempfile::tempdir().expect("a directory");
        let (plugin, notes) = (dir.path().join("plugin.so"), dir.path().join("notes"));
        fs::write(&plugin, b"one").expect("writable");
        let one = hash(&plugin, &notes, true).expect("readable");
        assert_eq!(one, blake3::hash(b"one"));

        let note = fs::read_dir(&notes)
            .expect("made")
            .next()
            .expect("one")
            .expect("read")
            .path();
        let identity = identity(&plugin, &fs::metadata(&plugin).expect("there"));
        fs::write(&note, write_note(&blake3::hash(b"noted"), &identity)).expect("writable");
        assert_eq!(
            hash(&plugin, &notes, true).expect("readable"),
            blake3::hash(b"noted")
        );

        fs::write(&note, b"damaged").expect("writable");
        assert_eq!(hash(&plugin, &notes, true).expect("readable"), one);

        fs::write(&plugin, b"longer").expect("writable");
        assert_eq!(
            hash(&plugin, &notes, true).expect("readable"),
            blake3::hash(b"longer")
        );
    }

    #[test]
    fn no_note_is_written_where_that_is_not_allowed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (plugin, notes) = (dir.path().join("plugin.so"), dir.path().join("notes"));
        fs::write(&plugin, b"one").expect("writable");
        hash(&plugin, &notes, false).expect("readable");
        assert!(!notes.exists());
    }
}
