//! Options of clients and of compilations.

use crate::Result;
use crate::ffi::{self, Ptr};
use crate::{call, platform};

/// The value of an option or of a plugin's attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A text.
    Str(String),
    /// An integer.
    Int(i64),
    /// Integers.
    Ints(Vec<i64>),
    /// A number.
    Float(f32),
    /// True or false.
    Bool(bool),
}

impl From<&str> for OptionValue {
    fn from(value: &str) -> Self {
        Self::Str(value.to_owned())
    }
}

impl From<i64> for OptionValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for OptionValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// The C form of options, checked first: a value of the wrong type or out of range would end the
/// process inside some plugins. The result refers to `options`.
pub(crate) fn named_values(options: &[(&str, OptionValue)]) -> Result<Vec<ffi::PJRT_NamedValue>> {
    let named = |(name, value): &(&str, OptionValue)| {
        platform::check_option(name, value)?;
        Ok(named_value(name, value))
    };
    options.iter().map(named).collect()
}

fn named_value(name: &str, value: &OptionValue) -> ffi::PJRT_NamedValue {
    use ffi::PJRT_NamedValue_value as Value;
    let (type_, value, value_size) = match value {
        OptionValue::Str(text) => {
            let value = Value {
                string_value: call::address(text.as_bytes()),
            };
            (ffi::PJRT_NamedValue_kString, value, text.len())
        }
        OptionValue::Int(number) => (
            ffi::PJRT_NamedValue_kInt64,
            Value {
                int64_value: *number,
            },
            1,
        ),
        OptionValue::Ints(numbers) => {
            let value = Value {
                int64_array_value: call::address(numbers.as_slice()),
            };
            (ffi::PJRT_NamedValue_kInt64List, value, numbers.len())
        }
        OptionValue::Float(number) => (
            ffi::PJRT_NamedValue_kFloat,
            Value {
                float_value: *number,
            },
            1,
        ),
        OptionValue::Bool(flag) => (ffi::PJRT_NamedValue_kBool, Value { bool_value: *flag }, 1),
    };
    ffi::PJRT_NamedValue {
        name: call::address(name.as_bytes()),
        name_size: name.len(),
        type_,
        value,
        value_size,
        ..ffi::PJRT_NamedValue::NEW
    }
}

/// Copies attributes that the plugin owns; those of a type without a name here are left out.
///
/// # Safety
/// `data` is null or points to `len` values as the header describes them.
pub(crate) unsafe fn read_named_values(data: Ptr, len: usize) -> Vec<(String, OptionValue)> {
    // SAFETY: the caller's promise.
    let values = unsafe { call::array::<ffi::PJRT_NamedValue>(data, len) };
    let read = |named: &ffi::PJRT_NamedValue| {
        // SAFETY: the type says which member of the union is set, and sizes go with pointers.
        let value = unsafe {
            match named.type_ {
                ffi::PJRT_NamedValue_kString => {
                    OptionValue::Str(call::text(named.value.string_value, named.value_size))
                }
                ffi::PJRT_NamedValue_kInt64 => OptionValue::Int(named.value.int64_value),
                ffi::PJRT_NamedValue_kInt64List => OptionValue::Ints(
                    call::array(named.value.int64_array_value, named.value_size).to_vec(),
                ),
                ffi::PJRT_NamedValue_kFloat => OptionValue::Float(named.value.float_value),
                ffi::PJRT_NamedValue_kBool => OptionValue::Bool(named.value.bool_value),
                _ => return None,
            }
        };
        // SAFETY: a name is a text of the given size.
        Some((unsafe { call::text(named.name, named.name_size) }, value))
    };
    values.iter().filter_map(read).collect()
}

/// How a module is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// Compile in a third of the time; programs of more than one operation then run slower.
    pub quick: bool,
    /// Let the program run on any device of the client, not on the first alone.
    pub portable: bool,
    /// XLA flags by name (`xla_...`), which win over those that this crate sets. A flag that the
    /// plugin does not know makes the compilation fail.
    pub overrides: Vec<(String, OptionValue)>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            quick: false,
            portable: true,
            overrides: Vec::new(),
        }
    }
}

impl CompileOptions {
    /// The options of one-operation programs.
    pub fn quick() -> Self {
        Self {
            quick: true,
            ..Self::default()
        }
    }

    /// The XLA flags that this crate sets for `self`, dropped where a plugin does not know them.
    fn flags(&self) -> Vec<(&'static str, OptionValue)> {
        // Without it, XLA may keep the intermediate results of bf16 and f16 in f32.
        let mut flags = vec![("xla_allow_excess_precision", OptionValue::Bool(false))];
        if self.quick {
            flags.push((
                "xla_disable_hlo_passes",
                OptionValue::from("fusion-wrapper"),
            ));
            flags.push(("xla_backend_optimization_level", OptionValue::Int(0)));
        }
        flags.retain(|(name, _)| self.overrides.iter().all(|(other, _)| other != name));
        flags
    }

    /// The first flag of ours that `message`, from a failed compilation, complains about.
    pub(crate) fn refused_flag(&self, message: &str) -> Option<&'static str> {
        let unknown = message.contains("No such compile option");
        let named = |(name, _): &(&'static str, OptionValue)| message.contains(name);
        self.flags()
            .into_iter()
            .find(|flag| unknown && named(flag))
            .map(|(name, _)| name)
    }

    /// The serialised `CompileOptionsProto`: equal bytes for equal options, so that it can be part
    /// of a cache key. Flags in `without` are left out.
    pub fn encode(&self, without: &[&str]) -> Vec<u8> {
        let mut build = Vec::new();
        put_int(&mut build, 1, -1); // device_ordinal: none
        put_int(&mut build, 4, 1); // num_replicas; 0 would end the process
        put_int(&mut build, 5, 1); // num_partitions
        let mut options = Vec::new();
        put_bytes(&mut options, 3, &build); // executable_build_options
        put_int(&mut options, 4, i64::from(self.portable)); // compile_portable_executable
        for (name, value) in self.flags() {
            if !without.contains(&name) {
                put_override(&mut options, name, &value);
            }
        }
        for (name, value) in &self.overrides {
            put_override(&mut options, name, value);
        }
        options
    }
}

/// Appends an entry of the map `env_option_overrides`.
fn put_override(out: &mut Vec<u8>, name: &str, value: &OptionValue) {
    let mut encoded = Vec::new();
    match value {
        OptionValue::Str(text) => put_bytes(&mut encoded, 1, text.as_bytes()),
        OptionValue::Bool(flag) => put_int(&mut encoded, 2, i64::from(*flag)),
        OptionValue::Int(number) => put_int(&mut encoded, 3, *number),
        OptionValue::Float(number) => {
            put_varint(&mut encoded, (4 << 3) | 1);
            encoded.extend_from_slice(&f64::from(*number).to_le_bytes());
        }
        OptionValue::Ints(numbers) => {
            let list: Vec<String> = numbers.iter().map(i64::to_string).collect();
            put_bytes(&mut encoded, 1, list.join(",").as_bytes());
        }
    }
    let mut entry = Vec::new();
    put_bytes(&mut entry, 1, name.as_bytes());
    put_bytes(&mut entry, 2, &encoded);
    put_bytes(out, 7, &entry);
}

fn put_int(out: &mut Vec<u8>, field: u64, value: i64) {
    put_varint(out, field << 3);
    put_varint(out, value.cast_unsigned());
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, (field << 3) | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
