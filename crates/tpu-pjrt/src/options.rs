//! Options of clients and of compilations.

use crate::ffi::{self, Ptr};
use crate::{Code, Error, Result};
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
    /// Let the program run on any device of the client, not on the first alone. Clients of a
    /// single device may bind it to that device all the same.
    pub portable: bool,
    /// Compile with the least effort there is, XLA's level `O0`: to see whether a program compiles,
    /// not to run it. Only `libtpu` is known to heed it.
    pub least_effort: bool,
    /// XLA flags by name (`xla_...`), which win over those that this crate sets, and [`EFFORTS`] by
    /// name. A flag that the plugin does not know makes the compilation fail.
    pub overrides: Vec<(String, OptionValue)>,
}

/// How hard the compiler tries, for speed and for memory: names beside the flags, with the field of
/// `ExecutableBuildOptionsProto` that each is. They take one of [`LEVELS`].
pub const EFFORTS: &[(&str, u64)] = &[("optimization_level", 24), ("memory_fitting_level", 25)];

/// XLA's levels of effort, from the least, with their numbers in `ExecutionOptions.EffortLevel`.
pub const LEVELS: &[(&str, i64)] = &[("O0", 9), ("O1", 19), ("O2", 29), ("O3", 39)];

/// What is wrong with an option for the compiler, as far as that is known without it.
///
/// # Errors
/// [`Code::InvalidArgument`] for a name that is neither a flag nor one of [`EFFORTS`], and for a
/// level that there is not.
pub fn check_override(name: &str, value: &OptionValue) -> Result<()> {
    let quoted = |names: Vec<&str>| format!("`{}`", names.join("`, `"));
    let efforts = EFFORTS.iter().map(|(name, _)| *name).collect();
    let levels = LEVELS.iter().map(|(name, _)| *name).collect();
    let message = if EFFORTS.iter().any(|(known, _)| *known == name) {
        if level(value).is_some() {
            return Ok(());
        }
        format!("`{name}` takes one of {}", quoted(levels))
    } else if name.starts_with("xla_") {
        return Ok(());
    } else {
        format!(
            "there is no option `{name}`: expected {}, or a flag of XLA, which starts with `xla_`",
            quoted(efforts)
        )
    };
    Err(Error::new(Code::InvalidArgument, message))
}

fn level(value: &OptionValue) -> Option<i64> {
    let OptionValue::Str(text) = value else {
        return None;
    };
    let known = LEVELS.iter().find(|(name, _)| name == text);
    known.map(|(_, number)| *number)
}

/// The field and the number of an effort.
fn effort(name: &str, value: &OptionValue) -> Option<(u64, i64)> {
    let (_, field) = EFFORTS.iter().find(|(known, _)| *known == name)?;
    Some((*field, level(value)?))
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            quick: false,
            portable: true,
            least_effort: false,
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
        let mut flags = vec![
            // Unless told so, XLA may keep the intermediate results of bf16 and f16 in f32.
            ("xla_allow_excess_precision", OptionValue::Bool(false)),
            // Fast minimum and maximum drop NaN in reductions on the CPU.
            ("xla_cpu_enable_fast_min_max", OptionValue::Bool(false)),
        ];
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
        if self.least_effort {
            put_int(&mut build, 24, 9); // optimization_level: O0
        }
        let efforts = self.overrides.iter().filter_map(|(n, v)| effort(n, v));
        efforts.for_each(|(field, level)| put_int(&mut build, field, level));
        let mut options = Vec::new();
        put_bytes(&mut options, 3, &build); // executable_build_options
        put_int(&mut options, 4, i64::from(self.portable)); // compile_portable_executable
        for (name, value) in self.flags() {
            if !without.contains(&name) {
                put_override(&mut options, name, &value);
            }
        }
        let flags = self.overrides.iter();
        for (name, value) in flags.filter(|(n, v)| effort(n, v).is_none()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn find(haystack: &[u8], needle: &[u8]) -> bool {
        haystack
            .windows(needle.len())
            .any(|window| window == needle)
    }

    #[test]
    fn encodes_the_proto() {
        let flag = ("xla_abc".to_owned(), OptionValue::Int(-2));
        let options = CompileOptions {
            overrides: vec![flag],
            ..CompileOptions::default()
        };
        let minus = |last: u8| [last, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        let mut expected = vec![0x1a, 15, 0x08]; // 3: executable_build_options, of 15 bytes
        expected.extend(minus(0xff)); // 1: device_ordinal = -1
        expected.extend([0x20, 1, 0x28, 1]); // 4: num_replicas = 1, 5: num_partitions = 1
        expected.extend([0x20, 1]); // 4: compile_portable_executable
        expected.extend([0x3a, 22, 0x0a, 7]); // 7: a map entry of 22 bytes, its key of 7
        expected.extend(b"xla_abc");
        expected.extend([0x12, 11, 0x18]); // 2: the value, 3: an int
        expected.extend(minus(0xfe));
        assert_eq!(
            options.encode(&["xla_allow_excess_precision", "xla_cpu_enable_fast_min_max"]),
            expected
        );
    }

    #[test]
    fn efforts_are_fields_of_their_own() {
        let level = |text: &str| CompileOptions {
            overrides: vec![("optimization_level".to_owned(), text.into())],
            ..CompileOptions::default()
        };
        let field = [0xc0, 0x01]; // field 24, a varint
        assert!(find(
            &level("O3").encode(&[]),
            &[&field[..], &[39]].concat()
        ));
        assert!(!find(&level("O3").encode(&[]), b"optimization_level"));
        assert_ne!(level("O1").encode(&[]), level("O2").encode(&[]));
    }

    #[test]
    fn what_cannot_be_an_option_is_told() {
        let said = |name, value| match check_override(name, &value) {
            Ok(()) => String::new(),
            Err(error) => error.message().to_owned(),
        };
        assert_eq!(said("xla_flag", true.into()), "");
        assert_eq!(said("optimization_level", "O1".into()), "");
        assert_eq!(
            said("optimization_level", 3.into()),
            "`optimization_level` takes one of `O0`, `O1`, `O2`, `O3`"
        );
        assert_eq!(
            said("triton.cudagraphs", true.into()),
            "there is no option `triton.cudagraphs`: expected `optimization_level`, \
             `memory_fitting_level`, or a flag of XLA, which starts with `xla_`"
        );
    }

    #[test]
    fn encodes_every_kind_of_value() {
        let encode = |value| {
            let mut out = Vec::new();
            put_override(&mut out, "f", &value);
            out
        };
        let entry = |value: &[u8]| {
            let len = value.len() as u8;
            [&[0x3a, len + 5, 0x0a, 1, b'f', 0x12, len], value].concat()
        };
        assert_eq!(encode("ab".into()), entry(&[0x0a, 2, b'a', b'b']));
        assert_eq!(encode(true.into()), entry(&[0x10, 1]));
        assert_eq!(encode(300.into()), entry(&[0x18, 0xac, 2]));
        assert_eq!(
            encode(OptionValue::Float(1.0)),
            entry(&[0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f])
        );
        assert_eq!(
            encode(OptionValue::Ints(vec![1, 2])),
            entry(&[0x0a, 3, b'1', b',', b'2'])
        );
    }

    #[test]
    fn tiers_differ_and_overrides_win() {
        let (quick, full) = (CompileOptions::quick(), CompileOptions::default());
        assert!(find(&quick.encode(&[]), b"fusion-wrapper"));
        assert!(!find(&full.encode(&[]), b"fusion-wrapper"));
        let flag = (
            "xla_disable_hlo_passes".to_owned(),
            OptionValue::from("dce"),
        );
        let options = CompileOptions {
            overrides: vec![flag],
            ..quick.clone()
        };
        assert!(!find(&options.encode(&[]), b"fusion-wrapper"));
        assert_eq!(quick.encode(&[]), quick.encode(&[]));
        for options in [quick, full] {
            assert!(find(
                &options.encode(&[]),
                b"xla_allow_excess_precision\x12\x02\x10\x00"
            ));
        }
    }

    #[test]
    fn only_unknown_flags_of_ours_are_dropped() {
        let options = CompileOptions::quick();
        let unknown = |name: &str| format!("No such compile option: '{name}'");
        let refused = options.refused_flag(&unknown("xla_backend_optimization_level"));
        assert_eq!(refused, Some("xla_backend_optimization_level"));
        assert!(!find(
            &options.encode(&refused.map_or(vec![], |name| vec![name])),
            b"_level"
        ));
        assert_eq!(options.refused_flag(&unknown("xla_other")), None);
        assert_eq!(
            options.refused_flag("xla_backend_optimization_level is not an int32"),
            None
        );
        assert_eq!(
            CompileOptions::default().refused_flag(&unknown("xla_backend")),
            None
        );
    }
}
