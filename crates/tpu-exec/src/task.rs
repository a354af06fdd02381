//! One program on its way: from disk, or through the compiler and to disk.

use crate::lock::Lock;
use crate::programs::{Coming, Shared};
use crate::store::Store;
use crate::{Error, Key, Module, Origin, Program, Result, Tier};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tpu_obs::counters::{self, Miss};
use tpu_obs::settings::{self, NewCompiles};
use tpu_obs::show::{self, Topic};
use tpu_pjrt::Executable;

/// One program to be found on disk or compiled.
pub(crate) struct Task {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: Key,
    pub(crate) tier: Tier,
    pub(crate) canonical: String,
    pub(crate) module: Arc<Module>,
}

impl Task {
    /// Fills `coming`, whatever happens.
    pub(crate) fn run(self, coming: &Coming) {
        let made = catch_unwind(AssertUnwindSafe(|| self.find_or_compile()));
        let (outcome, lock) = match made {
            Ok(Ok((program, lock))) => (Ok(program), lock),
            Ok(Err(error)) => (Err(error), None),
            Err(panic) => (Err(self.panicked(&*panic)), None),
        };
        self.shared.publish(self.key, coming, outcome.clone());
        // Whoever waited goes on while the program is stored.
        if let Ok(program) = outcome {
            self.keep(&program);
        }
        drop(lock);
    }

    fn find_or_compile(&self) -> Result<(Arc<Program>, Option<Lock>)> {
        let Some(store) = self.shared.store() else {
            return Ok((self.compile(Miss::Cold)?, None));
        };
        if let Ok(program) = self.load(store) {
            return Ok((program, None));
        }
        let lock = store.lock(self.key);
        // Again: another process may have finished it meanwhile.
        match self.load(store) {
            Ok(program) => Ok((program, None)),
            Err(cause) => Ok((self.compile(cause)?, lock)),
        }
    }

    fn load(&self, store: &Store) -> Result<Arc<Program>, Miss> {
        let start = Instant::now();
        let found = store.read(self.key, &self.canonical)?;
        let signature = self.module.signature();
        let executable = self
            .shared
            .client
            .deserialize(found.executable(), &signature);
        // Sound bytes that this plugin refuses were not meant for it.
        let executable = executable.map_err(|_| Miss::Foreign)?;
        counters::disk_hit();
        Ok(self.finish(executable, Origin::Loaded, start.elapsed()))
    }

    fn compile(&self, cause: Miss) -> Result<Arc<Program>> {
        if settings::new_compiles() == NewCompiles::Error {
            return Err(Error::NewCompile {
                types: self.module.types().to_string(),
                reason: self.shared.history.compare(&self.module).to_string(),
            });
        }
        counters::miss(cause);
        let start = Instant::now();
        let (signature, form) = (self.module.signature(), self.shared.form(self.tier));
        let executable = self
            .shared
            .client
            .compile(&self.module.text, &signature, &form.options)
            .map_err(|source| Error::Compile {
                key: self.key,
                source,
            })?;
        counters::compile(self.tier.effort(), start.elapsed());
        Ok(self.finish(executable, Origin::Compiled(cause), start.elapsed()))
    }

    fn finish(&self, executable: Executable, origin: Origin, time: Duration) -> Arc<Program> {
        let id = self.shared.next_id();
        let program = Program {
            id,
            reason: self.shared.history.explain(id, &self.module),
            key: self.key,
            tier: self.tier,
            origin,
            time,
            module: Arc::clone(&self.module),
            executable,
            device: self.shared.options.device,
        };
        announce(&program);
        Arc::new(program)
    }

    /// Stores a program that was compiled here.
    fn keep(&self, program: &Program) {
        let (Origin::Compiled(_), Some(store)) = (program.origin, self.shared.store()) else {
            return;
        };
        let start = Instant::now();
        match program.executable.serialize() {
            Ok(bytes) => store.write(self.key, &self.canonical, &bytes),
            Err(_) => counters::store_failed(),
        }
        show::line(
            Topic::Time,
            format_args!("program {} store {}", program.id, Millis(start.elapsed())),
        );
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let message = text.unwrap_or_else(|| "no message".to_owned());
        Error::Panicked {
            key: self.key,
            message,
        }
    }
}

/// Prints milliseconds.
pub(crate) struct Millis(pub(crate) Duration);

impl fmt::Display for Millis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.2} ms", self.0.as_secs_f64() * 1e3)
    }
}

fn announce(program: &Program) {
    let (id, key, tier, time) = (program.id, program.key, program.tier, Millis(program.time));
    let (verb, cause) = match program.origin {
        Origin::Loaded => ("load", "from disk"),
        Origin::Compiled(Miss::Cold) => ("compile", "cold"),
        Origin::Compiled(Miss::Corrupt) => ("compile", "entry corrupt"),
        Origin::Compiled(Miss::Foreign) => ("compile", "entry foreign"),
        Origin::Compiled(Miss::Truncated) => ("compile", "entry truncated"),
        Origin::Compiled(Miss::Io) => ("compile", "disk unreadable"),
    };
    if show::wants(Topic::Cache) {
        let (types, reason) = (program.module.types(), &program.reason);
        show::line(
            Topic::Cache,
            format_args!("program {id} {key} {tier} {types}: {verb} {time} ({cause}; {reason})"),
        );
    }
    show::line(Topic::Time, format_args!("program {id} {verb} {time}"));
    show::line(
        Topic::Hlo,
        format_args!("program {id}\n{}", program.module.text),
    );
}
