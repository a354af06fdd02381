//! One program on its way: from disk, or through the compiler and to disk.

use crate::explain::Subject;
use crate::key::Form;
use crate::lock::Lock;
use crate::programs::{Coming, Shared};
use crate::store::Store;
use crate::{Error, Key, Module, Origin, Program, Result, Tier};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tpu_obs::compiles::{self, Record};
use tpu_obs::counters::{self, Miss};
use tpu_obs::settings::{self, NewCompiles};
use tpu_obs::show::{self, Topic};
use tpu_pjrt::Executable;

/// One program to be found on disk or compiled.
pub(crate) struct Task {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: Key,
    pub(crate) tier: Tier,
    pub(crate) form: Arc<Form>,
    pub(crate) canonical: String,
    pub(crate) module: Arc<Module>,
    pub(crate) what: String,
    pub(crate) sizes: String,
    pub(crate) line: String,
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
                types: self.module.types(),
                reason: self.shared.history.compare(&self.subject()).to_string(),
            });
        }
        counters::miss(cause);
        let start = Instant::now();
        let signature = self.module.signature();
        let _mark = self.shared.progress.start(self.called());
        let executable = self
            .shared
            .client
            .compile(&self.module.text, &signature, &self.form.options)
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
            reason: self.shared.history.explain(id, &self.subject()),
            key: self.key,
            tier: self.tier,
            origin,
            time,
            module: Arc::clone(&self.module),
            executable,
            device: self.shared.options.device,
        };
        let record = self.record(&program);
        announce(&record, &program.module.text);
        compiles::add(record);
        Arc::new(program)
    }

    fn subject(&self) -> Subject {
        Subject {
            module: Arc::clone(&self.module),
            tier: self.tier,
            options: self.form.text().into(),
        }
    }

    /// What is compiled and for which line.
    fn called(&self) -> String {
        match (self.what.as_str(), self.line.as_str()) {
            ("", _) => format!("program `{}`", self.key),
            (what, "") => what.to_owned(),
            (what, line) => format!("{what} at {line}"),
        }
    }

    fn record(&self, program: &Program) -> Record {
        let instead = match (program.origin, self.shared.store()) {
            (Origin::Compiled(Miss::Cold), Some(store)) => {
                store.instead(&self.form, &self.canonical)
            }
            _ => String::new(),
        };
        Record {
            program: program.id,
            key: self.key.hex(),
            what: self.what.clone(),
            sizes: self.sizes.clone(),
            line: self.line.clone(),
            tier: self.tier.word(),
            types: self.module.types(),
            cause: program.reason.word(),
            reason: program.reason.to_string(),
            disk: program.origin.word(),
            instead,
            lost: false,
            seconds: program.time.as_secs_f64(),
        }
    }

    /// Stores a program that was compiled here.
    fn keep(&self, program: &Program) {
        let (Origin::Compiled(_), Some(store)) = (program.origin, self.shared.store()) else {
            return;
        };
        let start = Instant::now();
        match program.executable.serialize() {
            Ok(bytes) => {
                store.write(self.key, &self.canonical, &bytes);
                store.note(&self.form);
            }
            Err(_) => {
                counters::store_failed();
                compiles::lose(program.id);
            }
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

fn announce(record: &Record, text: &str) {
    let (id, time) = (
        record.program,
        Millis(Duration::from_secs_f64(record.seconds)),
    );
    let verb = match record.disk {
        "loaded" => "load",
        _ => "compile",
    };
    let Record {
        key,
        what,
        line,
        tier,
        types,
        reason,
        disk,
        instead,
        ..
    } = record;
    show::line(
        Topic::Cache,
        format_args!(
            "program {id} {} {tier} {types}: {verb} {time} ({disk}; {reason}{}{instead}){}{what}{}{line}",
            &key[..10],
            sep("; ", instead),
            sep(" ", what),
            sep(" at ", line),
        ),
    );
    show::line(Topic::Time, format_args!("program {id} {verb} {time}"));
    show::line(Topic::Hlo, format_args!("program {id}\n{text}"));
}

/// `separator` where something follows.
fn sep<'a>(separator: &'a str, following: &str) -> &'a str {
    match following {
        "" => "",
        _ => separator,
    }
}
