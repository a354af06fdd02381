//! Looking at a store and changing it from outside, without a device.
//!
//! `root` is the cache's directory (`TORCH_TPU_CACHE_DIR`), with the folders `programs` and
//! `makers` in it.

use crate::entry;
use crate::key::Key;
use crate::makers::{FORM, MAKER};
use crate::store::{ENTRY, place, sweep};
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// One program on disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// The name of its file in `programs`.
    pub file: String,
    /// Bytes on disk.
    pub size: u64,
    /// Seconds since it was last used.
    pub age: f64,
    /// `sound`, or what is wrong: `corrupt`, `truncated`, `foreign` (another version), `io`.
    pub state: &'static str,
    /// Its key, as `TORCH_TPU_SHOW=cache` and `torch_tpu.explain()` give it.
    pub key: String,
    /// The hash of its module and types, without tier and options.
    pub module: String,
    /// The hash of who made it.
    pub maker: String,
    /// `quick` or `full`.
    pub tier: String,
    /// Its compile options, encoded, in hexadecimal.
    pub options: String,
    /// Types of arguments and results.
    pub types: String,
}

/// All programs of a store, the last used first.
///
/// # Errors
/// Where the directory cannot be read; one that is not there has no programs.
pub fn list(root: &Path) -> io::Result<Vec<Entry>> {
    let files = match std::fs::read_dir(root.join("programs")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    let mut entries = Vec::new();
    for file in files {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == ENTRY) {
            entries.push(look(&path));
        }
    }
    entries.sort_by(|a, b| a.age.total_cmp(&b.age).then_with(|| a.file.cmp(&b.file)));
    Ok(entries)
}

fn look(path: &Path) -> Entry {
    let used = path.metadata().and_then(|metadata| metadata.modified());
    let age = used
        .ok()
        .and_then(|used| SystemTime::now().duration_since(used).ok());
    let name = path.file_name().unwrap_or_default();
    let mut seen = Entry {
        file: name.to_string_lossy().into_owned(),
        age: age.unwrap_or_default().as_secs_f64(),
        state: "io",
        ..Entry::default()
    };
    let Ok(bytes) = std::fs::read(path) else {
        return seen;
    };
    seen.size = bytes.len() as u64;
    match entry::parse(&bytes) {
        Ok(found) if format!("{}.{ENTRY}", found.key.hex()) == seen.file => {
            seen.state = "sound";
            describe(&mut seen, &found);
        }
        Ok(_) => seen.state = "corrupt",
        Err(cause) => seen.state = cause.word(),
    }
    seen
}

fn describe(seen: &mut Entry, found: &entry::Entry<'_>) {
    let text = String::from_utf8_lossy(found.canonical);
    let mut body = &*text;
    for (name, to) in [("tier ", &mut seen.tier), ("options ", &mut seen.options)] {
        if let Some((line, rest)) = body.split_once('\n')
            && let Some(value) = line.strip_prefix(name)
        {
            value.clone_into(to);
            body = rest;
        }
    }
    let types = body
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("types "));
    types.unwrap_or_default().clone_into(&mut seen.types);
    seen.key = Key::of(&text).hex();
    seen.module = Key::of(body).hex();
    seen.maker = found.salt.hex();
}

/// Removes what is not sound, what killed processes left, and, the least recently used first,
/// programs until they take at most `limit` bytes. Gives the programs removed and the bytes left.
///
/// # Errors
/// Where the directory cannot be read.
pub fn prune(root: &Path, limit: u64) -> io::Result<(usize, u64)> {
    let (before, dir) = (list(root)?, root.join("programs"));
    if !dir.exists() {
        return Ok((0, 0));
    }
    for entry in before.iter().filter(|entry| entry.state != "sound") {
        std::fs::remove_file(dir.join(&entry.file))?;
    }
    let left = sweep(&dir, limit, limit)?;
    Ok((before.len() - list(root)?.len(), left))
}

/// Puts a file of another store, `programs/....program` or a note in `makers`, into this one, if
/// its bytes are what its name says. False where it was there.
///
/// # Errors
/// A name or bytes that are no part of a store, as `InvalidData`; where it cannot be written.
pub fn import(root: &Path, name: &str, bytes: &[u8]) -> io::Result<bool> {
    let refuse = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("`{name}` {why}"));
    let (folder, file) = name.split_once('/').unwrap_or_default();
    let (stem, extension) = file.split_once('.').unwrap_or_default();
    let hash = match (folder, extension) {
        ("programs", ENTRY) => entry::parse(bytes)
            .map(|entry| entry.key.hex())
            .map_err(|cause| refuse(&format!("is no program: {}", cause.word())))?,
        ("makers", MAKER | FORM) => blake3::hash(bytes).to_hex().to_string(),
        _ => return Err(refuse("is no file of a store")),
    };
    if hash != stem {
        return Err(refuse("has other contents than its name says"));
    }
    if root.join(name).exists() {
        return Ok(false);
    }
    place(&root.join(folder), file, &[bytes])?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Form, Maker};
    use crate::store::Store;
    use crate::{Module, Tier};
    use tpu_pjrt::{ElementType, Shape};

    fn filled(root: &Path) -> String {
        let maker = Maker::of("torch_tpu programs 1\nplugin abc\n".into());
        let store = Store::new(root.join("programs"), maker, 1 << 20, true);
        let form = Form::new(Tier::Quick, &[]);
        let shape = Shape::new(ElementType::F32, &[2]);
        let module = Module {
            text: "module {}".into(),
            inputs: vec![shape.clone()],
            spares: 0,
            outputs: vec![shape],
        };
        let canonical = form.canonical(&module);
        let key = Key::of(&canonical);
        store.write(key, &canonical, b"machine code");
        store.note(&form);
        key.hex()
    }

    #[test]
    fn a_program_is_described() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(list(dir.path()).expect("empty"), []);
        let key = filled(dir.path());
        let entries = list(dir.path()).expect("readable");
        let [entry] = &entries[..] else {
            panic!("{entries:?}");
        };
        assert_eq!((entry.state, &entry.key), ("sound", &key));
        assert_eq!((&*entry.tier, &*entry.types), ("quick", "f32[2] -> f32[2]"));
        assert!(!entry.options.is_empty() && entry.module != entry.key);
    }

    #[test]
    fn what_is_damaged_is_seen_and_pruned() {
        let dir = tempfile::tempdir().expect("a directory");
        filled(dir.path());
        let file = list(dir.path()).expect("readable")[0].file.clone();
        let path = dir.path().join("programs").join(&file);
        let mut bytes = std::fs::read(&path).expect("there");
        *bytes.last_mut().expect("long") ^= 1;
        std::fs::write(&path, &bytes).expect("writable");
        assert_eq!(list(dir.path()).expect("readable")[0].state, "corrupt");
        assert_eq!(prune(dir.path(), 1 << 20).expect("possible"), (1, 0));
        filled(dir.path());
        assert_eq!(prune(dir.path(), 0).expect("possible"), (1, 0));
        assert_eq!(list(dir.path()).expect("readable"), []);
    }

    #[test]
    fn a_store_can_be_carried_over_and_nothing_else() {
        let (from, to) = (
            tempfile::tempdir().expect("a directory"),
            tempfile::tempdir().expect("a directory"),
        );
        filled(from.path());
        for folder in ["programs", "makers"] {
            for file in std::fs::read_dir(from.path().join(folder)).expect("made") {
                let file = file.expect("read");
                let name = format!("{folder}/{}", file.file_name().to_string_lossy());
                let bytes = std::fs::read(file.path()).expect("there");
                assert!(import(to.path(), &name, &bytes).expect("sound"));
                assert!(!import(to.path(), &name, &bytes).expect("sound"));
                import(to.path(), &name, &bytes[1..]).expect_err("damaged");
                import(to.path(), &format!("../{name}"), &bytes).expect_err("outside");
            }
        }
        let keys = |root| {
            list(root)
                .expect("readable")
                .into_iter()
                .map(|entry| entry.key)
        };
        assert!(keys(from.path()).eq(keys(to.path())));
    }
}
