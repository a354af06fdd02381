//! One setting: where its value comes from, how it is spelled, and how it is read cheaply.

use crate::show;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Why a setting was not changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No setting has this name.
    #[error("there is no setting `{name}`; the settings are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// All names, as text.
        known: String,
    },
    /// The value is not one that the setting takes.
    #[error("setting `{name}` cannot be `{value}`: expected {expected}")]
    Value {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: String,
        /// What it takes, in words.
        expected: String,
    },
}

/// The values that a setting takes, and how they are spelled.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any of these words, separated by commas; `all` for all of them.
    Flags(&'static [&'static str]),
    /// `1`, `true`, `on` or `yes`; `0`, `false`, `off` or `no`.
    Bool,
    /// A number of bytes, with an optional `K`, `M`, `G` or `T` (powers of 1,024).
    Bytes,
    /// A whole number.
    Count,
    /// A path of the file system; empty for the default.
    Path,
    /// Any text.
    Text,
    /// `powers`, `exact`, or rising whole numbers separated by commas.
    Buckets,
}

/// Which capacities sizes that only a launch knows are rounded up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// None: every size has a program of its own.
    Exact,
    /// Powers of two, from 8 on.
    Powers,
    /// These, in rising order. A larger size has a program of its own.
    List(Vec<u32>),
}

impl Buckets {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "exact" => return Some(Self::Exact),
            "powers" => return Some(Self::Powers),
            _ => {}
        }
        let list = word.split(',').map(|n| n.trim().parse().ok());
        let list: Vec<u32> = list.collect::<Option<_>>()?;
        let rising = list[0] > 0 && list.windows(2).all(|w| w[0] < w[1]);
        rising.then_some(Self::List(list))
    }

    /// The room that a size is given.
    pub fn capacity(&self, n: i64) -> Option<i64> {
        match self {
            Self::Exact => None,
            Self::Powers => Some((n.max(8) as u64).next_power_of_two() as i64),
            Self::List(list) => list.iter().map(|c| i64::from(*c)).find(|c| *c >= n),
        }
    }
}

/// An environment variable that a setting listens to.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What its values mean, as pairs `(value, meaning)`; other values are then not for this
    /// setting. Empty where the value is the setting's own.
    pub meanings: &'static [(&'static str, &'static str)],
}

/// Where the present value of a setting came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// This environment variable.
    Variable(&'static str),
    /// [`Setting::set`].
    Program,
}

/// A row of the settings table with its present value.
///
/// The environment is read once, when the setting is first asked for; a bad value there is
/// reported in one line and the default taken, because an environment must not break an import.
#[derive(Debug)]
pub struct Setting {
    /// Its name in `torch_tpu.settings(...)`.
    pub name: &'static str,
    /// The variables it listens to; the first that says something wins.
    pub variables: &'static [Variable],
    /// What it takes.
    pub kind: Kind,
    /// What it is when nobody says anything, as it would be written.
    pub default: &'static str,
    /// What the default is called in the docs, where the word itself says too little.
    pub default_words: &'static str,
    /// Whether a change counts at once, or only before the device starts.
    pub live: bool,
    /// What it does, in one or two sentences.
    pub about: &'static str,
    number: AtomicU64,
    text: RwLock<String>,
    source: AtomicU8,
}

const UNREAD: u64 = u64::MAX;
const FROM_DEFAULT: u8 = u8::MAX;
const FROM_PROGRAM: u8 = u8::MAX - 1;

impl Setting {
    pub(crate) const fn new(
        name: &'static str,
        variables: &'static [Variable],
        kind: Kind,
        default: &'static str,
        about: &'static str,
    ) -> Setting {
        Setting {
            name,
            variables,
            kind,
            default,
            default_words: "",
            live: true,
            about,
            number: AtomicU64::new(UNREAD),
            text: RwLock::new(String::new()),
            source: AtomicU8::new(FROM_DEFAULT),
        }
    }

    /// Says in the docs that only the value at the device's start counts.
    pub(crate) const fn at_start(mut self) -> Setting {
        self.live = false;
        self
    }

    /// Describes the default in words.
    pub(crate) const fn default_is(mut self, words: &'static str) -> Setting {
        self.default_words = words;
        self
    }

    /// The value as a number: index of the choice, bits of the flags, 0 or 1, bytes or count.
    /// Always 0 for paths and text.
    #[inline]
    pub fn number(&self) -> u64 {
        match self.number.load(Relaxed) {
            UNREAD => self.read_environment(),
            number => number,
        }
    }

    /// The value as it would be written, canonical: `set(get())` changes nothing.
    pub fn get(&self) -> String {
        let number = self.number();
        match self.kind {
            Kind::Choice(words) => words.get(number as usize).copied().unwrap_or("").to_owned(),
            Kind::Flags(words) => flag_words(words, number),
            Kind::Bool => if number != 0 { "true" } else { "false" }.to_owned(),
            Kind::Bytes => bytes_text(number),
            Kind::Count => number.to_string(),
            Kind::Path | Kind::Text | Kind::Buckets => self.text.read().clone(),
        }
    }

    /// Changes the value for this process.
    ///
    /// # Errors
    /// [`Error::Value`] if `value` is not of this setting's kind; nothing is changed then.
    pub fn set(&self, value: &str) -> Result<(), Error> {
        let number = self.parse(value)?;
        self.store(value, number, FROM_PROGRAM);
        Ok(())
    }

    /// Forgets what was set, so that the environment counts again. The environment is read anew.
    pub fn reset(&self) {
        self.number.store(UNREAD, Relaxed);
    }

    /// Where the present value came from.
    pub fn source(&self) -> Source {
        self.number();
        match self.source.load(Relaxed) {
            FROM_PROGRAM => Source::Program,
            index => match self.variables.get(index as usize) {
                Some(variable) => Source::Variable(variable.name),
                None => Source::Default,
            },
        }
    }

    /// What the setting takes, in words.
    pub fn expected(&self) -> String {
        match self.kind {
            Kind::Choice(words) => format!("one of {}", quoted(words)),
            Kind::Flags(words) => {
                format!("any of {}, separated by commas, or `all`", quoted(words))
            }
            Kind::Bool => "`true` or `false`".to_owned(),
            Kind::Bytes => "a number of bytes such as `4096`, `500M` or `4G`".to_owned(),
            Kind::Count => "a whole number".to_owned(),
            Kind::Path => "a path on a local file system".to_owned(),
            Kind::Text => "text".to_owned(),
            Kind::Buckets => {
                "`powers`, `exact`, or rising whole numbers as `128,512,2048`".to_owned()
            }
        }
    }

    #[cold]
    fn read_environment(&self) -> u64 {
        let mut found = (self.default.to_owned(), FROM_DEFAULT);
        for (index, variable) in self.variables.iter().enumerate() {
            let Some(value) = variable.value() else {
                continue;
            };
            match self.parse(&value) {
                Ok(_) => {
                    found = (value, index as u8);
                    break;
                }
                Err(error) => show::warn(format_args!("`{}` is ignored: {error}", variable.name)),
            }
        }
        let number = self.parse(&found.0).unwrap_or(0);
        self.store(&found.0, number, found.1);
        number
    }

    fn store(&self, value: &str, number: u64, source: u8) {
        *self.text.write() = value.to_owned();
        self.source.store(source, Relaxed);
        self.number.store(number, Relaxed);
    }

    fn parse(&self, value: &str) -> Result<u64, Error> {
        let word = value.trim().to_ascii_lowercase();
        let number = match self.kind {
            Kind::Choice(words) => words.iter().position(|w| *w == word).map(|i| i as u64),
            Kind::Flags(words) => parse_flags(words, &word),
            Kind::Bool => parse_bool(&word),
            Kind::Bytes => parse_bytes(&word),
            Kind::Count => word.parse().ok(),
            // `gs://` and its like, which the original took, are not paths.
            Kind::Path => (!word.contains("://")).then_some(0),
            Kind::Text => Some(0),
            Kind::Buckets => Buckets::parse(&word).map(|_| 0),
        };
        number.filter(|n| *n != UNREAD).ok_or_else(|| Error::Value {
            name: self.name,
            value: value.to_owned(),
            expected: self.expected(),
        })
    }
}

impl Variable {
    pub(crate) const fn of(name: &'static str) -> Variable {
        Variable {
            name,
            meanings: &[],
        }
    }

    fn value(&self) -> Option<String> {
        let value = std::env::var(self.name)
            .ok()
            .filter(|value| !value.trim().is_empty())?;
        if self.meanings.is_empty() {
            return Some(value);
        }
        let meaning = self
            .meanings
            .iter()
            .find(|(spelled, _)| *spelled == value.trim())?;
        Some(meaning.1.to_owned())
    }
}

pub(crate) fn quoted(words: &[&str]) -> String {
    words
        .iter()
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn flag_words(words: &[&str], bits: u64) -> String {
    let set = words
        .iter()
        .enumerate()
        .filter(|(i, _)| bits & (1 << i) != 0);
    set.map(|(_, word)| *word).collect::<Vec<_>>().join(",")
}

fn parse_flags(words: &[&str], value: &str) -> Option<u64> {
    let mut bits = 0;
    for part in value
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        bits |= match words.iter().position(|word| *word == part) {
            Some(index) => 1 << index,
            None if part == "all" => (1 << words.len()) - 1,
            None => return None,
        };
    }
    Some(bits)
}

fn parse_bool(value: &str) -> Option<u64> {
    match value {
        "1" | "true" | "on" | "yes" => Some(1),
        "0" | "false" | "off" | "no" => Some(0),
        _ => None,
    }
}

const UNITS: &[(&str, u32)] = &[("T", 40), ("G", 30), ("M", 20), ("K", 10)];

fn parse_bytes(value: &str) -> Option<u64> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.trim().parse().ok()?;
    let shift = match &value[digits.len()..] {
        "" | "b" => 0,
        unit => {
            let letter = unit.trim_end_matches("ib").trim_end_matches('b');
            UNITS
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(letter))?
                .1
        }
    };
    number.checked_mul(1 << shift)
}

fn bytes_text(bytes: u64) -> String {
    let whole = |shift: u32| bytes != 0 && bytes.trailing_zeros() >= shift;
    match UNITS.iter().find(|(_, shift)| whole(*shift)) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_and_written() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("500M", 500 << 20),
            ("4GiB", 4 << 30),
            ("4 gb", 4 << 30),
            ("1t", 1 << 40),
        ] {
            assert_eq!(
                parse_bytes(&text.to_ascii_lowercase()),
                Some(bytes),
                "{text}"
            );
        }
        for text in ["", "g", "-1", "4x", "1.5g", "99999999999999t", "4gg"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
        assert_eq!(bytes_text(4 << 30), "4G");
        assert_eq!(bytes_text(1500), "1500");
        assert_eq!(bytes_text(0), "0");
    }

    #[test]
    fn flags_are_read_and_written() {
        let words = &["ops", "hlo", "cache"];
        assert_eq!(parse_flags(words, "ops, cache"), Some(5));
        assert_eq!(parse_flags(words, "all"), Some(7));
        assert_eq!(parse_flags(words, ""), Some(0));
        assert_eq!(parse_flags(words, "opps"), None);
        assert_eq!(flag_words(words, 5), "ops,cache");
    }

    #[test]
    fn a_bad_value_changes_nothing() {
        let setting = Setting::new("colour", &[], Kind::Choice(&["red", "blue"]), "red", "");
        setting.set("BLUE").expect("case does not count");
        let error = setting.set("green").expect_err("not a choice");
        assert_eq!(
            error.to_string(),
            "setting `colour` cannot be `green`: expected one of `red`, `blue`"
        );
        assert_eq!(
            (setting.get().as_str(), setting.source()),
            ("blue", Source::Program)
        );
        setting.reset();
        assert_eq!(
            (setting.get().as_str(), setting.source()),
            ("red", Source::Default)
        );
    }

    #[test]
    fn a_url_is_no_path() {
        let setting = Setting::new("where", &[], Kind::Path, "", "");
        assert!(setting.set("gs://bucket/x").is_err());
        setting.set("/some/Where").expect("a path");
        assert_eq!(setting.get(), "/some/Where");
    }
}
