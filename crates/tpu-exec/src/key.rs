//! What a program is called: hashes of everything that its compiled form depends on.

use crate::{Module, Tier};
use std::fmt;
use tpu_pjrt::{Client, CompileOptions, OptionValue};

/// 256 bits over a canonical text. `Display` gives the first 10 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub(crate) [u8; 32]);

impl Key {
    /// The key of `canonical` within one process.
    pub(crate) fn of(canonical: &str) -> Key {
        Key(*blake3::hash(canonical.as_bytes()).as_bytes())
    }

    /// The key on disk, which also tells makers apart.
    pub(crate) fn salted(self, salt: &Salt) -> Key {
        Key(*blake3::keyed_hash(&salt.0, &self.0).as_bytes())
    }

    /// All 64 hexadecimal digits.
    pub fn hex(self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.hex()[..10])
    }
}

/// How programs of one tier are compiled, with the part of their canonical text that says so.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) options: CompileOptions,
    text: String,
}

impl Form {
    pub(crate) fn new(tier: Tier, overrides: &[(String, OptionValue)]) -> Form {
        let options = CompileOptions {
            quick: tier == Tier::Quick,
            overrides: overrides.to_vec(),
            ..CompileOptions::default()
        };
        let encoded = options
            .encode(&[])
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let encoded: String = encoded;
        Form {
            options,
            text: format!("tier {tier}\noptions {encoded}\n"),
        }
    }

    /// The part of a canonical text that says so.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Everything that the compiled form of `module` depends on, apart from the maker.
    pub(crate) fn canonical(&self, module: &Module) -> String {
        format!("{}types {}\n\n{}", self.text, module.types(), module.text)
    }
}

/// A hash of a [`Maker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(pub(crate) [u8; 32]);

impl Salt {
    /// All 64 hexadecimal digits.
    pub(crate) fn hex(self) -> String {
        Key(self.0).hex()
    }
}

/// Who made a compiled form: format, plugin, platform, devices and processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Maker {
    pub(crate) salt: Salt,
    text: String,
}

/// Changes when the meaning of an entry changes.
const FORMAT: &str = "torch_tpu programs 1";

impl Maker {
    pub(crate) fn new(client: &Client, plugin: &blake3::Hash) -> Maker {
        let mut text = format!(
            "{FORMAT}\nplugin {plugin}\nplatform {} {}\n",
            client.platform_name(),
            client.platform_version()
        );
        for device in client.devices() {
            text += &format!("device {}\n", device.kind());
        }
        if client.platform_name() == "cpu" {
            text += &processor();
        }
        Maker::of(text)
    }

    /// The maker that `text` describes.
    pub(crate) fn of(text: String) -> Maker {
        let salt = Salt(*blake3::hash(text.as_bytes()).as_bytes());
        Maker { salt, text }
    }

    /// One property a line, its name first.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// What the CPU compiler's code depends on: instruction set, model (it tunes for it), and the
/// number of cores, which it writes into the code as the number of parts to split loops into.
fn processor() -> String {
    let mut text = format!("processor {} cores {}\n", std::env::consts::ARCH, cores());
    let Ok(cpuinfo) = std::fs::read_to_string("/proc/cpuinfo") else {
        return text;
    };
    const FIELDS: &[&str] = &[
        "vendor_id",
        "cpu family",
        "model",
        "flags",
        "CPU implementer",
        "CPU part",
        "Features",
    ];
    // The first processor speaks for all: its block ends at the first empty line.
    for line in cpuinfo.lines().take_while(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap_or("").trim();
        if FIELDS.contains(&name) {
            text += line;
            text.push('\n');
        }
    }
    text
}

/// The cores that this process may run on, as XLA counts them: without regard to quotas.
fn cores() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed:"));
    match mask.map(|mask| mask.chars().filter_map(|digit| digit.to_digit(16))) {
        Some(digits) => digits.map(|digit| digit.count_ones() as usize).sum(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tpu_pjrt::{ElementType, Shape};

    fn module() -> Module {
        let shape = Shape::new(ElementType::F32, &[2]);
        Module {
            text: "module {}".into(),
            inputs: vec![shape.clone()],
            spares: 0,
            outputs: vec![shape],
        }
    }

    #[test]
    fn all_that_counts_is_in_the_key() {
        let key = |form: &Form, module: &Module| Key::of(&form.canonical(module));
        let (form, plain) = (
            Form::new(Tier::Full, &[]),
            key(&Form::new(Tier::Full, &[]), &module()),
        );
        assert_eq!(key(&form, &module()), plain);
        let mut others = vec![key(&Form::new(Tier::Quick, &[]), &module())];
        let flag = ("xla_flag".to_owned(), OptionValue::Int(1));
        others.push(key(
            &Form::new(Tier::Full, std::slice::from_ref(&flag)),
            &module(),
        ));
        let mut changed = module();
        changed.text.push(' ');
        others.push(key(&form, &changed));
        let mut changed = module();
        changed.inputs[0].ty = ElementType::S32;
        others.push(key(&form, &changed));
        let mut changed = module();
        changed.outputs.clear();
        others.push(key(&form, &changed));
        others.push(plain.salted(&Salt([0; 32])));
        others.push(plain.salted(&Salt([1; 32])));
        others.push(plain);
        let count = others.len();
        others.sort_unstable();
        others.dedup();
        assert_eq!(others.len(), count);
    }

    #[test]
    fn a_key_is_shown_by_its_first_digits() {
        let key = Key::of("text");
        assert_eq!(key.to_string(), key.hex()[..10]);
        assert_eq!(key.hex(), blake3::hash(b"text").to_hex().as_str());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_processor_is_told_apart() {
        let text = processor();
        assert!(text.starts_with(&format!("processor {} cores ", std::env::consts::ARCH)));
        assert!(cores() >= 1);
        assert!(text.lines().count() > 1, "{text}");
    }
}
