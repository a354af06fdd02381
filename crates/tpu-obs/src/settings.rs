//! The settings table: each row is a name, its environment variables, what it takes, its default
//! and a sentence. `docs/settings.md`, the Python context manager and `torchtpu doctor` are made
//! from it.
//!
//! The typed functions below the table cost one relaxed load where the value is a number.

use crate::setting::{Buckets, Error, Kind, Setting, Variable, quoted};
use crate::show::Topic;
use std::path::PathBuf;

const fn var(name: &'static str) -> Variable {
    Variable::of(name)
}

/// Declares an enum whose variants are the words of a setting, in order.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),* }

        impl $name {
            /// How the variants are spelled, in order.
            pub const WORDS: &[&str] = &[$($word),*];
            const ALL: &[$name] = &[$($name::$variant),*];

            fn of(setting: &Setting) -> $name {
                $name::ALL[(setting.number() as usize).min($name::ALL.len() - 1)]
            }

            /// How the variant is spelled.
            pub fn word(self) -> &'static str {
                $name::WORDS[self as usize]
            }
        }
    };
}

words!(
    /// What happens to an op that has no kernel for the device.
    Fallback {
        /// It runs on the CPU; one warning per op.
        Warn = "warn",
        /// It raises `NotImplementedError`.
        Error = "error",
        /// It runs on the CPU, silently.
        Allow = "allow",
    }
);
words!(
    /// How ops are run as they come.
    EagerMode {
        /// Each op is one program, launched at once, not waited for.
        Strict = "strict",
        /// As strict, but each op is waited for and checked where it is called.
        Debug = "debug",
    }
);
words!(
    /// What the program cache on disk may do.
    CacheMode {
        /// Programs are read and written.
        On = "on",
        /// There is none.
        Off = "off",
        /// Programs are read, never written.
        ReadOnly = "readonly",
    }
);
words!(
    /// Whether the compiler may run.
    NewCompiles {
        /// Whenever a program is new.
        Allow = "allow",
        /// A new program raises.
        Error = "error",
    }
);
words!(
    /// Which kind of device `tpu` stands for.
    Platform {
        /// A TPU where there is one, else the CPU plugin.
        Auto = "auto",
        /// XLA's CPU plugin.
        Cpu = "cpu",
        /// `libtpu`.
        Tpu = "tpu",
    }
);
words!(
    /// How a float32 matrix product is computed: `torch.set_float32_matmul_precision`.
    MatmulPrecision {
        /// As float32.
        Highest = "highest",
        /// As three bfloat16 passes where that is faster.
        High = "high",
        /// As one bfloat16 pass where that is faster.
        Medium = "medium",
    }
);

/// Row `fallback`.
pub static FALLBACK: Setting = Setting::new(
    "fallback",
    &[var("TORCH_TPU_FALLBACK")],
    Kind::Choice(Fallback::WORDS),
    "warn",
    "What happens to an op that has no kernel for the device: it runs on the CPU with one warning \
     per op, it raises `NotImplementedError`, or it runs on the CPU silently. All are counted.",
);
/// Row `eager_mode`.
pub static EAGER_MODE: Setting = Setting::new(
    "eager_mode",
    &[
        Variable {
            name: "TPU_LAUNCH_BLOCKING",
            meanings: &[("1", "debug"), ("true", "debug")],
        },
        var("TORCH_TPU_EAGER_MODE"),
    ],
    Kind::Choice(EagerMode::WORDS),
    "strict",
    "How ops run: each one program and not waited for (`strict`), or waited for and checked at the \
     line that called it (`debug`).",
);
/// Row `check_bounds`.
pub static CHECK_BOUNDS: Setting = Setting::new(
    "check_bounds",
    &[
        var("TORCH_TPU_CHECK_BOUNDS"),
        var("TORCH_TPU_INTERNAL_ENABLE_DEBUG_CHECKS"),
    ],
    Kind::Bool,
    "true",
    "Whether an index out of range raises `IndexError`. Where not, reads are clamped and writes \
     dropped, as XLA does.",
);
/// Row `new_compiles`.
pub static NEW_COMPILES: Setting = Setting::new(
    "new_compiles",
    &[var("TORCH_TPU_NEW_COMPILES")],
    Kind::Choice(NewCompiles::WORDS),
    "allow",
    "What happens when a program is neither in memory nor on disk: it is compiled, or it raises \
     `RuntimeError` and says what is new about it (`torch_tpu.no_new_compiles()`).",
);
/// Row `buckets`.
pub static BUCKETS: Setting = Setting::new(
    "buckets",
    &[var("TORCH_TPU_BUCKETS")],
    Kind::Buckets,
    "powers",
    "What sizes that `torch.compile` leaves open are rounded up to, so that a program serves many: \
     powers of two from 8 on (`powers`), these numbers, or nothing (`exact`). A size above the \
     last number has a program of its own.",
);
/// Row `matmul_precision`.
pub static MATMUL_PRECISION: Setting = Setting::new(
    "matmul_precision",
    &[var("TORCH_TPU_MATMUL_PRECISION")],
    Kind::Choice(MatmulPrecision::WORDS),
    "highest",
    "How float32 matrix products are computed; `torch.set_float32_matmul_precision` sets it too.",
);
/// Row `show`.
pub static SHOW: Setting = Setting::new(
    "show",
    &[var("TORCH_TPU_SHOW")],
    Kind::Flags(Topic::NAMES),
    "",
    "What is printed to stderr as it happens: each op, each program's StableHLO, each program \
     found or compiled and why, the time that slow steps take.",
)
.default_is("nothing");
/// Row `backtrace`.
pub static BACKTRACE: Setting = Setting::new(
    "backtrace",
    &[var("TORCH_TPU_BACKTRACE")],
    Kind::Bool,
    "false",
    "Whether errors carry the native stack of where they were found.",
);
/// Row `platform`.
pub static PLATFORM: Setting = Setting::new(
    "platform",
    &[var("TORCH_TPU_PLATFORM")],
    Kind::Choice(Platform::WORDS),
    "auto",
    "What the device `tpu` is: `auto` takes a TPU where there is one and the CPU otherwise.",
)
.at_start();
/// Row `pjrt_plugin`.
pub static PJRT_PLUGIN: Setting = Setting::new(
    "pjrt_plugin",
    &[var("TORCH_TPU_PJRT_PLUGIN")],
    Kind::Path,
    "",
    "The PJRT plugin to load, instead of looking for an installed one.",
)
.at_start()
.default_is("the installed one");
/// Row `cache`.
pub static CACHE: Setting = Setting::new(
    "cache",
    &[var("TORCH_TPU_CACHE")],
    Kind::Choice(CacheMode::WORDS),
    "on",
    "Whether compiled programs are kept on disk for the next process, or only read from there.",
)
.at_start();
/// Row `cache_dir`.
pub static CACHE_DIR: Setting = Setting::new(
    "cache_dir",
    &[
        var("TORCH_TPU_CACHE_DIR"),
        var("TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT"),
        var("TORCH_TPU_INTERNAL_TIER3_COMPILATION_CACHE_ROOT"),
    ],
    Kind::Path,
    "",
    "Where compiled programs are kept. Processes may share it; so may machines, each finding only \
     programs made by the same plugin for the same kind of processor. They are machine code: share \
     it only with those whose code you would run.",
)
.at_start()
.default_is("`torch_tpu` in the user's cache directory");
/// Row `cache_size`.
pub static CACHE_SIZE: Setting = Setting::new(
    "cache_size",
    &[var("TORCH_TPU_CACHE_SIZE")],
    Kind::Bytes,
    "4G",
    "The size that the programs on disk may take; the least recently used go first.",
)
.at_start();
/// Row `compile_threads`.
pub static COMPILE_THREADS: Setting = Setting::new(
    "compile_threads",
    &[var("TORCH_TPU_COMPILE_THREADS")],
    Kind::Count,
    "0",
    "How many programs are compiled at once; 0 for one per processor core.",
)
.at_start()
.default_is("one per processor core");
/// Row `xla_options`.
pub static XLA_OPTIONS: Setting = Setting::new(
    "xla_options",
    &[
        var("TORCH_TPU_XLA_OPTIONS"),
        var("TORCH_TPU_INTERNAL_XLA_OPTIONS"),
    ],
    Kind::Text,
    "",
    "Options for the compiler, as `name=value` separated by spaces. They are part of the cache's \
     key.",
)
.at_start()
.default_is("none");

/// The table.
pub static ALL: &[&Setting] = &[
    &FALLBACK,
    &EAGER_MODE,
    &CHECK_BOUNDS,
    &NEW_COMPILES,
    &BUCKETS,
    &MATMUL_PRECISION,
    &SHOW,
    &BACKTRACE,
    &PLATFORM,
    &PJRT_PLUGIN,
    &CACHE,
    &CACHE_DIR,
    &CACHE_SIZE,
    &COMPILE_THREADS,
    &XLA_OPTIONS,
];

/// The setting called `name`.
///
/// # Errors
/// [`Error::Unknown`], which lists the names there are.
pub fn find(name: &str) -> Result<&'static Setting, Error> {
    ALL.iter()
        .copied()
        .find(|setting| setting.name == name)
        .ok_or_else(|| Error::Unknown {
            name: name.to_owned(),
            known: quoted(&ALL.iter().map(|setting| setting.name).collect::<Vec<_>>()),
        })
}

/// What happens to an op without a kernel.
#[inline]
pub fn fallback() -> Fallback {
    Fallback::of(&FALLBACK)
}

/// Whether the compiler may run.
pub fn new_compiles() -> NewCompiles {
    NewCompiles::of(&NEW_COMPILES)
}

/// What open sizes are rounded up to.
pub fn buckets() -> Buckets {
    let word = BUCKETS.get().trim().to_ascii_lowercase();
    Buckets::parse(&word).unwrap_or(Buckets::Powers)
}

/// How ops are run.
#[inline]
pub fn eager_mode() -> EagerMode {
    EagerMode::of(&EAGER_MODE)
}

/// Whether indices are checked.
#[inline]
pub fn check_bounds() -> bool {
    CHECK_BOUNDS.number() != 0
}

/// How float32 matrix products are computed.
#[inline]
pub fn matmul_precision() -> MatmulPrecision {
    MatmulPrecision::of(&MATMUL_PRECISION)
}

/// Whether errors carry a native stack.
pub fn backtrace() -> bool {
    BACKTRACE.number() != 0
}

/// Which kind of device is wanted.
pub fn platform() -> Platform {
    Platform::of(&PLATFORM)
}

/// The plugin to load, if one is named.
pub fn pjrt_plugin() -> Option<PathBuf> {
    path(&PJRT_PLUGIN)
}

/// What the disk cache may do.
pub fn cache() -> CacheMode {
    CacheMode::of(&CACHE)
}

/// Where compiled programs are kept; `None` if it is not set and the user has no cache directory.
pub fn cache_dir() -> Option<PathBuf> {
    path(&CACHE_DIR).or_else(|| Some(user_cache()?.join("torch_tpu")))
}

/// Bytes that the programs on disk may take.
pub fn cache_size() -> u64 {
    CACHE_SIZE.number()
}

/// Compiles at once: at least 1.
pub fn compile_threads() -> usize {
    match COMPILE_THREADS.number() as usize {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        set => set,
    }
}

/// Compiler options, as pairs in the order given; a word without `=` is `(word, "true")`.
pub fn xla_options() -> Vec<(String, String)> {
    options(&XLA_OPTIONS.get())
}

fn options(text: &str) -> Vec<(String, String)> {
    let words = text
        .split_whitespace()
        .map(|word| word.trim_start_matches("--"));
    words
        .map(|word| word.split_once('=').unwrap_or((word, "true")))
        .map(owned)
        .collect()
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn path(setting: &Setting) -> Option<PathBuf> {
    Some(setting.get())
        .filter(|text| !text.is_empty())
        .map(PathBuf::from)
}

fn user_cache() -> Option<PathBuf> {
    let from = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    from("XDG_CACHE_HOME").or_else(|| {
        let below = if cfg!(target_os = "macos") {
            "Library/Caches"
        } else {
            ".cache"
        };
        Some(from("HOME")?.join(below))
    })
}

/// The page `docs/settings.md`.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Settings\n\nGenerated from the table in `crates/tpu-obs/src/settings.rs`.\n\n\
         `torch_tpu.settings(name=value)` sets one for the process, or for a `with` block. An \
         environment variable\nis read once, when the setting is first needed; of several, the \
         first that is set counts. A bad value\nthere is reported in one line and ignored.\n",
    );
    for setting in ALL {
        page.push_str(&section(setting));
    }
    page
}

fn section(setting: &Setting) -> String {
    let default = match setting.default_words {
        "" => format!("`{}`", setting.default),
        words => words.to_owned(),
    };
    let when = if setting.live {
        ""
    } else {
        " Read when the device starts."
    };
    let variables: Vec<String> = setting.variables.iter().map(variable_words).collect();
    format!(
        "\n## `{}`\n\n{}{when}\n\n* takes: {}\n* default: {default}\n* environment: {}\n",
        setting.name,
        setting.about,
        setting.expected(),
        variables.join(", "),
    )
}

fn variable_words(variable: &Variable) -> String {
    match variable.meanings {
        [] => format!("`{}`", variable.name),
        [(value, meaning), ..] => format!("`{}={value}` (means `{meaning}`)", variable.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    #[test]
    fn every_row_is_sound() {
        let mut names = std::collections::BTreeSet::new();
        for setting in ALL {
            assert!(names.insert(setting.name), "{} twice", setting.name);
            assert!(setting.about.ends_with('.'), "{}", setting.name);
            let own = format!("TORCH_TPU_{}", setting.name.to_uppercase());
            assert!(setting.variables.iter().any(|v| v.name == own), "{own}");
            for variable in setting.variables {
                assert!(names.insert(variable.name), "{} twice", variable.name);
            }
            setting
                .set(setting.default)
                .expect("the default is a value");
            let written = setting.get();
            setting.set(&written).expect("what is got can be set");
            assert_eq!(setting.get(), written);
            setting.reset();
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = find("fallbacks").expect_err("no such setting").to_string();
        assert!(
            error.starts_with("there is no setting `fallbacks`"),
            "{error}"
        );
        assert!(error.contains("`fallback`, `eager_mode`"), "{error}");
    }

    #[test]
    fn the_page_has_every_row() {
        let page = markdown();
        for setting in ALL {
            assert!(page.contains(&format!("\n## `{}`\n", setting.name)));
        }
        assert!(
            page.contains("`TPU_LAUNCH_BLOCKING=1` (means `debug`)"),
            "{page}"
        );
        assert!(page.contains("* default: `4G`"), "{page}");
    }

    #[test]
    fn compiler_options_are_split() {
        let expected = [("xla_a", "1"), ("xla_b", "x=y"), ("xla_c", "true")];
        assert_eq!(options("--xla_a=1  xla_b=x=y xla_c"), expected.map(owned));
    }

    /// Environment variables cannot be changed safely in a process with threads, so this test
    /// starts itself again with them set.
    #[test]
    fn the_environment_is_read() {
        let name = "settings::tests::the_environment_as_a_child_sees_it";
        let output = std::process::Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env("TPU_LAUNCH_BLOCKING", "1")
            .env("TORCH_TPU_EAGER_MODE", "strict")
            .env("TORCH_TPU_FALLBACK", "eror")
            .env("TORCH_TPU_SHOW", "cache,time")
            .env("TORCH_TPU_CACHE_DIR", "gs://bucket")
            .env("TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT", "/shared/programs")
            .env("TORCH_TPU_CACHE_SIZE", "")
            .output()
            .expect("the test binary runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let warnings: Vec<&str> = stderr.lines().filter(|l| l.contains("warning")).collect();
        assert_eq!(
            warnings,
            [
                "torch_tpu warning: `TORCH_TPU_FALLBACK` is ignored: setting `fallback` cannot be \
                 `eror`: expected one of `warn`, `error`, `allow`",
                "torch_tpu warning: `TORCH_TPU_CACHE_DIR` is ignored: setting `cache_dir` cannot \
                 be `gs://bucket`: expected a path on a local file system",
            ]
        );
    }

    #[test]
    #[ignore = "run by `the_environment_is_read` with the variables set"]
    fn the_environment_as_a_child_sees_it() {
        assert_eq!(eager_mode(), EagerMode::Debug);
        assert_eq!(EAGER_MODE.source(), Source::Variable("TPU_LAUNCH_BLOCKING"));
        assert_eq!(fallback(), Fallback::Warn);
        assert_eq!(FALLBACK.source(), Source::Default);
        assert_eq!((SHOW.get(), SHOW.number()), ("cache,time".to_owned(), 12));
        assert_eq!(cache_dir(), Some(PathBuf::from("/shared/programs")));
        assert_eq!(cache_size(), 4 << 30);
    }
}
