//! What a program is called: hashes of everything that its compiled form depends on.

use crate::{Module, Tier};
use std::fmt;
use tpu_pjrt::{Client, CompileOptions};

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

/// Everything that a compiled form depends on apart from the maker: options, types and module.
pub(crate) fn canonical(module: &Module, tier: Tier, options: &CompileOptions) -> String {
    let options: String = options
        .encode(&[])
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let types = module.types();
    format!(
        "tier {tier}\noptions {options}\ntypes {types}\n\n{}",
        module.text
    )
}

/// Who made a compiled form: a hash over format, plugin, platform, devices and processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(pub(crate) [u8; 32]);

/// Changes when the meaning of an entry changes.
const FORMAT: &str = "torch_tpu programs 1";

impl Salt {
    pub(crate) fn new(client: &Client, plugin: &blake3::Hash) -> Salt {
        let mut maker = format!(
            "{FORMAT}\nplugin {plugin}\nplatform {} {}\n",
            client.platform_name(),
            client.platform_version()
        );
        for device in client.devices() {
            maker += &format!("device {}\n", device.kind());
        }
        if client.platform_name() == "cpu" {
            maker += &processor();
        }
        Salt(*blake3::hash(maker.as_bytes()).as_bytes())
    }
}

/// What the CPU compiler's code depends on: instruction set, model (it tunes for it), and how many
/// threads it may split the work into.
fn processor() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut text = format!("processor {} threads {threads}\n", std::env::consts::ARCH);
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
