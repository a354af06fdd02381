//! The device of this process: opened at first use.
use crate::{Error, Result, numbers::Numbers, pending::Pending, spare::Spares};
use parking_lot::Mutex;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, Weak},
};
use tpu_exec::{Options, Programs};
use tpu_obs::{counters, memory};
use tpu_pjrt::{Buffer, Client, OptionValue, Platform, Plugin, Shape};

/// Index of the only device of a process.
pub const DEVICE: usize = 0;

/// Everything that lives as long as the device.
pub struct Runtime {
    client: Arc<Client>,
    /// Compiled programs.
    pub(crate) programs: Programs,
    pub(crate) numbers: Numbers,
    pub(crate) pending: Pending,
    spares: Spares,
    /// The buffer written last, where programs run on their own.
    last: Mutex<Weak<Buffer>>,
}

static PLUGIN: Mutex<Option<(PathBuf, Platform)>> = Mutex::new(None);
static RUNTIME: OnceLock<Runtime> = OnceLock::new();
static OPENING: Mutex<()> = Mutex::new(());

/// Says which plugin to open; has no effect once the device is open.
///
/// # Errors
/// `platform` is neither `cpu` nor `tpu`.
pub fn configure(plugin_path: PathBuf, platform: &str) -> Result<()> {
    let platform = Platform::parse(platform)?;
    *PLUGIN.lock() = Some((plugin_path, platform));
    Ok(())
}

/// Whether a plugin is known.
pub fn is_configured() -> bool {
    is_open() || PLUGIN.lock().is_some()
}

/// Whether the open device is a TPU.
pub fn is_tpu() -> bool {
    RUNTIME.get().is_some_and(Runtime::is_tpu)
}

/// Whether the device has been opened.
pub fn is_open() -> bool {
    RUNTIME.get().is_some()
}

/// The device, opened now if it is not yet.
///
/// # Errors
/// No plugin is configured, or it does not load; the next call tries again.
#[inline]
pub fn get() -> Result<&'static Runtime> {
    match RUNTIME.get() {
        Some(runtime) => Ok(runtime),
        None => open(),
    }
}

/// Takes what a storage leaves behind.
#[inline]
pub(crate) fn keep(buffer: Arc<Buffer>) {
    if let Some(runtime) = RUNTIME.get()
        && !runtime.is_tpu()
    {
        runtime.spares.keep(buffer);
    }
}

/// Frees the memory that waits to become results.
pub fn clear_spares() {
    if let Some(runtime) = RUNTIME.get() {
        runtime.spares.clear();
    }
}

#[cold]
fn open() -> Result<&'static Runtime> {
    let _one_at_a_time = OPENING.lock();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let Some((path, platform)) = PLUGIN.lock().clone() else {
        return Err(Error::Closed(
            "TPU1001: no PJRT plugin was found for the device; hint: pip install \
             \"torchtpu-rs[cpu]\""
                .into(),
        ));
    };
    let runtime = Runtime::open(&path, platform)?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

impl Runtime {
    fn open(path: &Path, platform: Platform) -> Result<Self> {
        let plugin = Plugin::load(path)?;
        let client = platform.client(&plugin)?;
        if platform == Platform::Cpu {
            crate::linalg::register(&plugin)?;
            crate::philox::register(&plugin)?;
        }
        if let Some(limit) = client.memory_limit(DEVICE).or_else(memory::host_total) {
            memory::set_limit(DEVICE, limit);
        }
        let programs = Programs::new(Arc::clone(&client), Options::from_settings());
        let (numbers, pending) = (Numbers::default(), Pending::default());
        Ok(Self {
            client,
            programs,
            numbers,
            pending,
            spares: Spares::default(),
            last: Mutex::new(Weak::new()),
        })
    }

    /// The PJRT client.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// `cpu` or `tpu`.
    pub fn platform(&self) -> &str {
        self.client.platform_name()
    }

    /// The kind of the device, as the plugin calls it.
    pub fn device_name(&self) -> &str {
        self.client.devices().first().map_or("", |d| d.kind())
    }

    /// Whether programs are for a TPU.
    pub(crate) fn is_tpu(&self) -> bool {
        self.platform() == "tpu"
    }

    /// A buffer with a copy of `bytes`.
    ///
    /// # Errors
    /// What the plugin says; out of memory among it.
    pub(crate) fn upload(&self, bytes: &[u8], shape: &Shape) -> Result<Buffer> {
        let buffer = self.client.buffer_from_host(bytes, shape, DEVICE)?;
        counters::h2d(bytes.len() as u64);
        Ok(buffer)
    }

    /// Memory for a result.
    ///
    /// # Errors
    /// What the plugin says; out of memory among it.
    pub(crate) fn spare(&self, shape: &Shape) -> Result<Arc<Buffer>> {
        self.spares.take(&self.client, shape)
    }

    /// Remembers the newest result of a launch, for [`Runtime::synchronize`].
    #[inline]
    pub(crate) fn started(&self, buffer: &Arc<Buffer>) {
        if !self.client.has_host_memory() {
            *self.last.lock() = Arc::downgrade(buffer);
        }
    }

    /// Waits for all that was started and raises the first check that failed. A device runs
    /// programs in order, so that the newest result is the last to be ready.
    ///
    /// # Errors
    /// That check's error, or that of a program that failed on the device.
    pub fn synchronize(&self) -> Result<()> {
        let last = self.last.lock().upgrade();
        if let Some(buffer) = last {
            buffer.wait()?;
        }
        self.pending.settle()
    }

    /// Waits until compiled programs are on disk and no compile runs.
    pub fn flush(&self) {
        self.programs.flush();
    }

    /// Who makes the programs that are kept on disk, one property a line; none without a disk.
    pub fn maker(&self) -> Option<&str> {
        self.programs.maker()
    }

    /// Whether the compiler takes these options for a graph.
    ///
    /// # Errors
    /// What it says of the first that it does not take.
    pub fn check_options(&self, options: &[(String, OptionValue)]) -> Result<()> {
        Ok(self.programs.check_options(options)?)
    }

    /// Forgets programs that are not in use.
    pub fn clear_programs(&self) {
        self.programs.clear();
    }
}
