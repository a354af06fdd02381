//! Counts of what the runtime did, for `torch_tpu.stats()`, tests and benchmarks.
//!
//! The counters are of the process. Each is exact; a [`snapshot`] taken while other threads work
//! is not one moment of all of them.

use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How much effort a compile spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Few passes: for programs of one op.
    Quick,
    /// The compiler's default.
    Full,
}

/// Why a program was not found on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// No entry, or no disk cache.
    Cold,
    /// The bytes are not those that were written.
    Corrupt,
    /// A sound entry, but of another program, plugin, machine or format.
    Foreign,
    /// The entry ends too early.
    Truncated,
    /// The disk could not be read.
    Io,
}

impl Miss {
    /// The cause in one word, as [`Misses`] names it.
    pub fn word(self) -> &'static str {
        match self {
            Miss::Cold => "cold",
            Miss::Corrupt => "corrupt",
            Miss::Foreign => "foreign",
            Miss::Truncated => "truncated",
            Miss::Io => "io",
        }
    }
}

/// Everything counted so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// Programs run.
    pub launches: u64,
    /// Programs compiled.
    pub compiles: Compiles,
    /// Where programs were found.
    pub cache: Cache,
    /// Ops run on the CPU for want of a kernel, by name.
    pub fallbacks: BTreeMap<String, Fallback>,
    /// Bytes copied from the host to a device.
    pub h2d_bytes: u64,
    /// Bytes copied from a device to the host.
    pub d2h_bytes: u64,
    /// Tensors that were given room, through the host, for a program of a bucket.
    pub padded: u64,
    /// Tensors that were cut to size, through the host, for other programs.
    pub cut: u64,
}

/// Compiles by effort.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Compiles {
    /// With [`Effort::Quick`].
    pub quick: u64,
    /// With [`Effort::Full`].
    pub full: u64,
    /// Time spent compiling, summed over the threads that did it.
    pub seconds: f64,
}

/// What became of requests for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// Found in memory.
    pub memory_hits: u64,
    /// Found on disk, verified and loaded.
    pub disk_hits: u64,
    /// Waited for the same program, which another thread had already asked for.
    pub shared: u64,
    /// Not found, by cause.
    pub misses: Misses,
    /// Entries written to disk.
    pub stores: u64,
    /// Entries that could not be written.
    pub store_failures: u64,
    /// Entries removed to keep the cache within its size.
    pub evictions: u64,
}

/// Misses by cause: see [`Miss`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Misses {
    /// [`Miss::Cold`].
    pub cold: u64,
    /// [`Miss::Corrupt`].
    pub corrupt: u64,
    /// [`Miss::Foreign`].
    pub foreign: u64,
    /// [`Miss::Truncated`].
    pub truncated: u64,
    /// [`Miss::Io`].
    pub io: u64,
}

/// One op that ran on the CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fallback {
    /// How often.
    pub calls: u64,
    /// Bytes moved to the host and back for it.
    pub bytes: u64,
}

macro_rules! cells {
    ($($name:ident),* $(,)?) => {
        struct Cells { $($name: AtomicU64),* }
        static CELLS: Cells = Cells { $($name: AtomicU64::new(0)),* };
        impl Cells {
            fn reset(&self) { $(self.$name.store(0, Relaxed);)* }
        }
    };
}

cells!(
    launches,
    quick,
    full,
    compile_nanos,
    memory_hits,
    disk_hits,
    shared,
    cold,
    corrupt,
    foreign,
    truncated,
    io,
    stores,
    store_failures,
    evictions,
    h2d_bytes,
    d2h_bytes,
    padded,
    cut,
);

static FALLBACKS: Mutex<BTreeMap<String, Fallback>> = Mutex::new(BTreeMap::new());

fn add(cell: &AtomicU64, amount: u64) {
    cell.fetch_add(amount, Relaxed);
}

/// Counts one program run.
#[inline]
pub fn launch() {
    CELLS.launches.fetch_add(1, Relaxed);
}

/// Counts one compile that took `time`.
pub fn compile(effort: Effort, time: Duration) {
    add(
        if effort == Effort::Quick {
            &CELLS.quick
        } else {
            &CELLS.full
        },
        1,
    );
    add(
        &CELLS.compile_nanos,
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
    );
}

/// Counts a program found in memory.
pub fn memory_hit() {
    add(&CELLS.memory_hits, 1);
}

/// Counts a program loaded from disk.
pub fn disk_hit() {
    add(&CELLS.disk_hits, 1);
}

/// Counts a request that waits for a program already on its way.
pub fn shared() {
    add(&CELLS.shared, 1);
}

/// Counts a program that had to be compiled, by why it was not on disk.
pub fn miss(cause: Miss) {
    let cell = match cause {
        Miss::Cold => &CELLS.cold,
        Miss::Corrupt => &CELLS.corrupt,
        Miss::Foreign => &CELLS.foreign,
        Miss::Truncated => &CELLS.truncated,
        Miss::Io => &CELLS.io,
    };
    add(cell, 1);
}

/// Counts an entry written to disk.
pub fn stored() {
    add(&CELLS.stores, 1);
}

/// Counts an entry that could not be written to disk.
pub fn store_failed() {
    add(&CELLS.store_failures, 1);
}

/// Counts `entries` removed from disk to make room.
pub fn evicted(entries: u64) {
    add(&CELLS.evictions, entries);
}

/// Counts `bytes` copied from the host to a device.
#[inline]
pub fn h2d(bytes: u64) {
    add(&CELLS.h2d_bytes, bytes);
}

/// Counts `bytes` copied from a device to the host.
#[inline]
pub fn d2h(bytes: u64) {
    add(&CELLS.d2h_bytes, bytes);
}

/// Counts a tensor that is given room for a program of a bucket.
pub fn padded() {
    add(&CELLS.padded, 1);
}

/// Counts a tensor that is cut to size.
pub fn cut() {
    add(&CELLS.cut, 1);
}

/// Counts one run of `op` (as `aten::name.overload`) on the CPU, which moved `bytes`.
///
/// Returns how often it ran there before (since the last [`reset`]), for a warning the first time.
pub fn fallback(op: &str, bytes: u64) -> u64 {
    let mut all = FALLBACKS.lock();
    let entry = all.entry(op.to_owned()).or_default();
    entry.calls += 1;
    entry.bytes += bytes;
    entry.calls - 1
}

/// All counters now.
pub fn snapshot() -> Snapshot {
    let read = |cell: &AtomicU64| cell.load(Relaxed);
    let c = &CELLS;
    Snapshot {
        launches: read(&c.launches),
        compiles: Compiles {
            quick: read(&c.quick),
            full: read(&c.full),
            seconds: Duration::from_nanos(read(&c.compile_nanos)).as_secs_f64(),
        },
        cache: Cache {
            memory_hits: read(&c.memory_hits),
            disk_hits: read(&c.disk_hits),
            shared: read(&c.shared),
            misses: Misses {
                cold: read(&c.cold),
                corrupt: read(&c.corrupt),
                foreign: read(&c.foreign),
                truncated: read(&c.truncated),
                io: read(&c.io),
            },
            stores: read(&c.stores),
            store_failures: read(&c.store_failures),
            evictions: read(&c.evictions),
        },
        fallbacks: FALLBACKS.lock().clone(),
        h2d_bytes: read(&c.h2d_bytes),
        d2h_bytes: read(&c.d2h_bytes),
        padded: read(&c.padded),
        cut: read(&c.cut),
    }
}

/// Sets all counters to zero.
pub fn reset() {
    CELLS.reset();
    FALLBACKS.lock().clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test only: the counters are of the process, and tests run side by side.
    #[test]
    fn counts_are_read_back_and_reset() {
        reset();
        launch();
        compile(Effort::Quick, Duration::from_millis(1500));
        compile(Effort::Full, Duration::from_millis(500));
        for cause in [
            Miss::Cold,
            Miss::Cold,
            Miss::Corrupt,
            Miss::Foreign,
            Miss::Truncated,
        ] {
            miss(cause);
        }
        assert_eq!(fallback("aten::foo", 8), 0);
        assert_eq!(fallback("aten::foo", 8), 1);
        h2d(64);
        d2h(32);
        let now = snapshot();
        assert_eq!((now.launches, now.h2d_bytes, now.d2h_bytes), (1, 64, 32));
        assert_eq!(
            now.compiles,
            Compiles {
                quick: 1,
                full: 1,
                seconds: 2.0
            }
        );
        assert_eq!((now.cache.misses.cold, now.cache.misses.corrupt), (2, 1));
        assert_eq!(
            now.fallbacks["aten::foo"],
            Fallback {
                calls: 2,
                bytes: 16
            }
        );
        let text = serde_json::to_string(&now).expect("plain data");
        assert!(
            text.contains(r#""fallbacks":{"aten::foo":{"calls":2,"bytes":16}}"#),
            "{text}"
        );
        reset();
        assert_eq!(snapshot(), Snapshot::default());
    }
}
