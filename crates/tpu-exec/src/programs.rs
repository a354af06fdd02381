//! All programs of a client: found in memory, on their way, on disk, or compiled.

use crate::compile::Pool;
use crate::explain::History;
use crate::key::{Form, Maker};
use crate::progress::Progress;
use crate::store::Store;
use crate::task::{Millis, Task};
use crate::{Error, Key, Program, Request, Result, Tier, plugin};
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tpu_obs::counters;
use tpu_obs::settings::{self, CacheMode};
use tpu_obs::show::{self, Topic};
use tpu_pjrt::{Client, Code, ElementType, OptionValue, Shape, Signature, check_override};

/// How often a waiting caller is asked whether it was interrupted.
const POLL: Duration = Duration::from_millis(50);

/// A program that shows whether options are taken.
const NEGATE: &str = "module {
  func.func public @main(%x: tensor<1xf32>) -> tensor<1xf32> {
    %y = stablehlo.negate %x : tensor<1xf32>
    return %y : tensor<1xf32>
  }
}
";

/// How programs are found and made.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What the disk may be used for.
    pub cache: CacheMode,
    /// Where the programs are on disk; `None` for no disk.
    pub cache_dir: Option<PathBuf>,
    /// Bytes that they may take there.
    pub cache_size: u64,
    /// Compiles at once; at least 1.
    pub compile_threads: usize,
    /// More XLA flags, by name.
    pub xla_options: Vec<(String, OptionValue)>,
    /// The index of the device that programs run on.
    pub device: usize,
}

impl Options {
    /// As the settings are now, for the first device.
    pub fn from_settings() -> Options {
        let typed = |(name, value): (String, String)| (name, option_value(&value));
        Options {
            cache: settings::cache(),
            cache_dir: settings::cache_dir(),
            cache_size: settings::cache_size(),
            compile_threads: settings::compile_threads(),
            xla_options: settings::xla_options().into_iter().map(typed).collect(),
            device: 0,
        }
    }
}

/// XLA reads numbers from text, but truth values only as such.
fn option_value(text: &str) -> OptionValue {
    match text {
        "true" => OptionValue::Bool(true),
        "false" => OptionValue::Bool(false),
        _ => OptionValue::from(text),
    }
}

/// The programs of one client.
///
/// Two requests for the same module at the same tier give the same program, whatever threads or
/// processes they come from; it is compiled once unless a process dies over it.
pub struct Programs {
    // Before `shared`: dropping it ends the threads that use the rest.
    pool: Pool,
    shared: Arc<Shared>,
}

/// What the threads of the pool share with [`Programs`].
pub(crate) struct Shared {
    pub(crate) client: Arc<Client>,
    pub(crate) options: Options,
    store: OnceLock<Option<Store>>,
    quick: Arc<Form>,
    full: Arc<Form>,
    slots: Mutex<FxHashMap<Key, Slot>>,
    pub(crate) history: History,
    pub(crate) progress: Progress,
    next_id: AtomicU64,
}

enum Slot {
    Ready(Arc<Program>),
    Coming(Arc<Coming>),
}

/// A program on its way, and those who wait for it.
#[derive(Default)]
pub(crate) struct Coming {
    outcome: Mutex<Option<Result<Arc<Program>>>>,
    done: Condvar,
}

impl Programs {
    /// No programs yet. The disk is opened in the background, where there is to be one: after an
    /// update of the plugin that takes a while.
    pub fn new(client: Arc<Client>, options: Options) -> Programs {
        let pool = Pool::new(options.compile_threads);
        let shared = Shared {
            quick: Arc::new(Form::new(Tier::Quick, &options.xla_options)),
            full: Arc::new(Form::new(Tier::Full, &options.xla_options)),
            client,
            options,
            store: OnceLock::new(),
            slots: Mutex::default(),
            history: History::default(),
            progress: Progress::default(),
            next_id: AtomicU64::new(1),
        };
        Programs {
            pool,
            shared: Arc::new(shared),
        }
    }

    /// The program that is wanted, compiled if it has to be. The tiers do not stand in for each
    /// other: their last bits may differ, and what one gets must not depend on who came first.
    ///
    /// # Errors
    /// [`Error::Compile`] where the module is refused (asked again, it is compiled again);
    /// [`Error::NewCompile`] where the setting `new_compiles` forbids it;
    /// [`Error::Interrupted`] after the caller said so, the compile going on;
    /// [`Error::Device`] in a forked child.
    pub fn get(&self, request: &Request<'_>) -> Result<Arc<Program>> {
        if tpu_pjrt::is_forked() {
            return Err(forked());
        }
        let form = self.shared.form(request);
        let canonical = form.canonical(request.module);
        let key = Key::of(&canonical);
        let coming = match self.shared.claim(key) {
            Claim::Found(program) => return Ok(program),
            Claim::Wait(coming) => coming,
            Claim::Make(coming) => {
                let task = Task {
                    shared: Arc::clone(&self.shared),
                    key,
                    tier: request.tier,
                    form,
                    canonical,
                    module: Arc::new(request.module.clone()),
                    what: request.what.to_owned(),
                    sizes: request.sizes.to_owned(),
                    line: (request.line)(),
                };
                let to_fill = Arc::clone(&coming);
                let urgent = request.tier == Tier::Quick;
                self.pool
                    .submit(Box::new(move || task.run(&to_fill)), urgent);
                coming
            }
        };
        coming
            .wait(&self.shared.progress, request.interrupted)
            .unwrap_or(Err(Error::Interrupted { key }))
    }

    /// Waits until every compile that was started is finished and kept on disk. To be called
    /// before the process ends, or the last ones are lost to the next process.
    pub fn flush(&self) {
        if !tpu_pjrt::is_forked() {
            self.pool.flush();
        }
    }

    /// Programs in memory, those on their way included.
    pub fn len(&self) -> usize {
        self.shared.slots.lock().len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets the programs in memory. Those that somebody still holds live on there; the disk is
    /// left alone.
    pub fn clear(&self) {
        self.shared
            .slots
            .lock()
            .retain(|_, slot| matches!(slot, Slot::Coming(_)));
    }

    /// Who makes the programs that are kept on disk, one property a line; none without a disk.
    pub fn maker(&self) -> Option<&str> {
        self.shared.store().map(Store::maker)
    }

    /// Whether the compiler takes these options, which it is asked with a program of one operation.
    ///
    /// # Errors
    /// [`Error::Device`] with what it says of the first that it does not take.
    pub fn check_options(&self, options: &[(String, OptionValue)]) -> Result<()> {
        for (name, value) in options {
            check_override(name, value)?;
        }
        let shape = Shape::new(ElementType::F32, &[1]);
        let signature = Signature {
            inputs: vec![shape.clone()],
            outputs: vec![shape],
        };
        let form = Form::new(Tier::Full, options);
        self.client().compile(NEGATE, &signature, &form.options)?;
        Ok(())
    }

    /// The client that the programs are of.
    pub fn client(&self) -> &Arc<Client> {
        &self.shared.client
    }
}

#[cold]
fn forked() -> Error {
    let message = "the device was opened before this process was forked and cannot be used in the \
                   child; start workers with the `spawn` or `forkserver` method";
    Error::Device(tpu_pjrt::Error::new(Code::Forked, message))
}

enum Claim {
    Found(Arc<Program>),
    Wait(Arc<Coming>),
    Make(Arc<Coming>),
}

impl Shared {
    fn claim(&self, key: Key) -> Claim {
        let mut slots = self.slots.lock();
        match slots.get(&key) {
            Some(Slot::Ready(program)) => {
                counters::memory_hit();
                Claim::Found(Arc::clone(program))
            }
            Some(Slot::Coming(coming)) => {
                counters::shared();
                Claim::Wait(Arc::clone(coming))
            }
            None => {
                let coming: Arc<Coming> = Arc::default();
                slots.insert(key, Slot::Coming(Arc::clone(&coming)));
                Claim::Make(coming)
            }
        }
    }

    /// Ends the waiting for `key`. A failure is forgotten, so that it can be tried again.
    pub(crate) fn publish(&self, key: Key, coming: &Coming, outcome: Result<Arc<Program>>) {
        let mut slots = self.slots.lock();
        match &outcome {
            Ok(program) => drop(slots.insert(key, Slot::Ready(Arc::clone(program)))),
            Err(_) => drop(slots.remove(&key)),
        }
        drop(slots);
        *coming.outcome.lock() = Some(outcome);
        coming.done.notify_all();
    }

    fn form(&self, request: &Request<'_>) -> Arc<Form> {
        if !request.options.is_empty() {
            let named = |name: &String| request.options.iter().any(|(other, _)| other == name);
            let common = self.options.xla_options.iter();
            let mut options: Vec<_> = common.filter(|(name, _)| !named(name)).cloned().collect();
            options.extend_from_slice(request.options);
            return Arc::new(Form::new(request.tier, &options));
        }
        Arc::clone(match request.tier {
            Tier::Quick => &self.quick,
            Tier::Full => &self.full,
        })
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// The disk, opened when first needed; `None` where there is to be none.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.get_or_init(|| self.open_store()).as_ref()
    }

    fn open_store(&self) -> Option<Store> {
        let writable = match self.options.cache {
            CacheMode::Off => return None,
            CacheMode::On => true,
            CacheMode::ReadOnly => false,
        };
        let dir = self.options.cache_dir.as_ref()?;
        let start = Instant::now();
        let file = self.client.plugin().path();
        let plugin = plugin::hash(file, &dir.join("plugins"), writable)
            .inspect_err(|error| {
                show::warn(format_args!(
                    "no program is kept on disk, as the plugin cannot be read: {error}"
                ));
            })
            .ok()?;
        show::line(
            Topic::Time,
            format_args!("identify plugin {}", Millis(start.elapsed())),
        );
        let maker = Maker::new(&self.client, &plugin);
        Some(Store::new(
            dir.join("programs"),
            maker,
            self.options.cache_size,
            writable,
        ))
    }
}

impl Coming {
    /// The outcome; `None` once `interrupted` says to give up.
    fn wait(
        &self,
        progress: &Progress,
        interrupted: &dyn Fn() -> bool,
    ) -> Option<Result<Arc<Program>>> {
        let mut outcome = self.outcome.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return Some(outcome.clone());
            }
            if self.done.wait_for(&mut outcome, POLL).timed_out() {
                // Not under the lock: the caller may run anything here, signal handlers of
                // Python for one.
                drop(outcome);
                progress.tick();
                if interrupted() {
                    return None;
                }
                outcome = self.outcome.lock();
            }
        }
    }
}
