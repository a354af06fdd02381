//! The form of an entry on disk, and how much of it is believed.
//!
//! ```text
//! 0    8  magic, the last byte being the version of this form
//! 8   32  blake3 of all that follows
//! 40  32  salt: who made it
//! 72  32  key
//! 104  8  length of the canonical text, little-endian
//! 112  8  length of the executable
//! 120     canonical text, then the executable as the plugin serialised it
//! ```

use crate::key::{Key, Salt};
use std::ops::Range;
use tpu_obs::counters::Miss;

const MAGIC: [u8; 7] = *b"TPUPROG";
const VERSION: u8 = 1;
const HEAD: usize = 120;
const CHECKED: usize = 40;

/// What comes before the canonical text and the executable.
pub(crate) fn head(salt: &Salt, key: Key, canonical: &str, executable: &[u8]) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..7].copy_from_slice(&MAGIC);
    head[7] = VERSION;
    head[40..72].copy_from_slice(&salt.0);
    head[72..104].copy_from_slice(&key.0);
    head[104..112].copy_from_slice(&(canonical.len() as u64).to_le_bytes());
    head[112..120].copy_from_slice(&(executable.len() as u64).to_le_bytes());
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(&head[CHECKED..])
        .update(canonical.as_bytes())
        .update(executable);
    head[8..40].copy_from_slice(hasher.finalize().as_bytes());
    head
}

/// An entry whose bytes are those that were written.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) salt: Salt,
    pub(crate) key: Key,
    pub(crate) canonical: &'a [u8],
    pub(crate) executable: Range<usize>,
}

/// Takes an entry apart.
///
/// # Errors
/// `Truncated`, `Corrupt`, or `Foreign` for one of another version.
pub(crate) fn parse(bytes: &[u8]) -> Result<Entry<'_>, Miss> {
    let head = bytes.first_chunk::<HEAD>().ok_or(Miss::Truncated)?;
    if head[..7] != MAGIC {
        return Err(Miss::Corrupt);
    }
    if head[7] != VERSION {
        return Err(Miss::Foreign);
    }
    let text_end = add(HEAD, length(head, 104)).ok_or(Miss::Corrupt)?;
    let end = add(text_end, length(head, 112)).ok_or(Miss::Corrupt)?;
    if bytes.len() < end {
        return Err(Miss::Truncated);
    }
    if bytes.len() > end || blake3::hash(&bytes[CHECKED..]).as_bytes() != &head[8..40] {
        return Err(Miss::Corrupt);
    }
    let (mut salt, mut key) = ([0; 32], [0; 32]);
    salt.copy_from_slice(&head[40..72]);
    key.copy_from_slice(&head[72..104]);
    Ok(Entry {
        salt: Salt(salt),
        key: Key(key),
        canonical: &bytes[HEAD..text_end],
        executable: text_end..end,
    })
}

/// Where in `bytes` the executable is, if they are a sound entry of exactly this program.
///
/// # Errors
/// The cause to count: that of [`parse`], or `Foreign` where the entry is of another maker, key or
/// text.
pub(crate) fn verify(
    bytes: &[u8],
    salt: &Salt,
    key: Key,
    canonical: &str,
) -> Result<Range<usize>, Miss> {
    let entry = parse(bytes)?;
    let same = (entry.salt, entry.key) == (*salt, key) && entry.canonical == canonical.as_bytes();
    same.then_some(entry.executable).ok_or(Miss::Foreign)
}

fn length(head: &[u8; HEAD], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn add(start: usize, length: u64) -> Option<usize> {
    start.checked_add(usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: Salt = Salt([3; 32]);
    const KEY: Key = Key([5; 32]);
    const TEXT: &str = "module {}";

    fn sample() -> Vec<u8> {
        let executable = b"machine code";
        let head = head(&SALT, KEY, TEXT, executable);
        [&head[..], TEXT.as_bytes(), executable].concat()
    }

    #[test]
    fn a_sound_entry_gives_its_executable() {
        let bytes = sample();
        let range = verify(&bytes, &SALT, KEY, TEXT).expect("sound");
        assert_eq!(&bytes[range], b"machine code");
    }

    #[test]
    fn every_shorter_entry_is_truncated() {
        let bytes = sample();
        for end in 0..bytes.len() {
            assert_eq!(
                verify(&bytes[..end], &SALT, KEY, TEXT),
                Err(Miss::Truncated),
                "{end}"
            );
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let sound = sample();
        for at in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(verify(&bytes, &SALT, KEY, TEXT).is_err(), "bit {at}");
        }
    }

    #[test]
    fn an_entry_of_somebody_else_is_foreign() {
        let bytes = sample();
        let foreign = Err(Miss::Foreign);
        assert_eq!(verify(&bytes, &Salt([4; 32]), KEY, TEXT), foreign);
        assert_eq!(verify(&bytes, &SALT, Key([4; 32]), TEXT), foreign);
        assert_eq!(verify(&bytes, &SALT, KEY, "module { }"), foreign);
    }

    #[test]
    fn a_longer_entry_is_corrupt() {
        let mut bytes = sample();
        bytes.push(0);
        assert_eq!(verify(&bytes, &SALT, KEY, TEXT), Err(Miss::Corrupt));
        bytes.fill(0xff);
        assert_eq!(verify(&bytes, &SALT, KEY, TEXT), Err(Miss::Corrupt));
    }
}
