//! Bytes held on each device, counted by the buffers themselves: the CPU plugin has no figures.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Devices told apart; the last slot is shared by any beyond it.
pub const MAX_DEVICES: usize = 64;

/// The memory of one device at one moment. All sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Held by live buffers now.
    pub allocated: u64,
    /// The most that was held at once since the start or the last [`reset_peak`].
    pub peak: u64,
    /// Live buffers now.
    pub buffers: u64,
    /// Buffers ever made.
    pub allocations: u64,
    /// What the device has in all; 0 where [`set_limit`] was not called.
    pub limit: u64,
}

struct Device {
    allocated: AtomicU64,
    peak: AtomicU64,
    buffers: AtomicU64,
    allocations: AtomicU64,
    limit: AtomicU64,
}

static DEVICES: [Device; MAX_DEVICES] = [const {
    Device {
        allocated: AtomicU64::new(0),
        peak: AtomicU64::new(0),
        buffers: AtomicU64::new(0),
        allocations: AtomicU64::new(0),
        limit: AtomicU64::new(0),
    }
}; MAX_DEVICES];

fn device(index: usize) -> &'static Device {
    &DEVICES[index.min(MAX_DEVICES - 1)]
}

/// Counts a new buffer of `bytes` on `index`.
#[inline]
pub fn allocate(index: usize, bytes: u64) {
    let device = device(index);
    let now = device.allocated.fetch_add(bytes, Relaxed) + bytes;
    if now > device.peak.load(Relaxed) {
        device.peak.fetch_max(now, Relaxed);
    }
    device.buffers.fetch_add(1, Relaxed);
    device.allocations.fetch_add(1, Relaxed);
}

/// Counts the end of a buffer of `bytes` on `index`: the same figures that [`allocate`] was given.
#[inline]
pub fn free(index: usize, bytes: u64) {
    let device = device(index);
    device.allocated.fetch_sub(bytes, Relaxed);
    device.buffers.fetch_sub(1, Relaxed);
}

/// The figures of `index` now.
pub fn stats(index: usize) -> Stats {
    let device = device(index);
    Stats {
        allocated: device.allocated.load(Relaxed),
        peak: device.peak.load(Relaxed),
        buffers: device.buffers.load(Relaxed),
        allocations: device.allocations.load(Relaxed),
        limit: device.limit.load(Relaxed),
    }
}

/// Makes the bytes held now the peak of `index`.
pub fn reset_peak(index: usize) {
    let device = device(index);
    device.peak.store(device.allocated.load(Relaxed), Relaxed);
}

/// Says how many bytes `index` has in all, once its client is there.
pub fn set_limit(index: usize, bytes: u64) {
    device(index).limit.store(bytes, Relaxed);
}

/// Bytes that this process may use on the host: the machine's memory or its control group's limit,
/// whichever is less. `None` where the system does not say (only Linux does).
pub fn host_total() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = kibibytes(&meminfo, "MemTotal:")? * 1024;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(u64::MAX);
    Some(machine.min(group))
}

fn kibibytes(meminfo: &str, field: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_follows_and_resets() {
        let index = 7;
        allocate(index, 100);
        allocate(index, 50);
        free(index, 100);
        let now = stats(index);
        assert_eq!(
            (now.allocated, now.peak, now.buffers, now.allocations),
            (50, 150, 1, 2)
        );
        reset_peak(index);
        assert_eq!(stats(index).peak, 50);
        free(index, 50);
        assert_eq!(stats(index).allocated, 0);
    }

    #[test]
    fn a_device_beyond_the_table_is_counted_in_the_last_slot() {
        allocate(MAX_DEVICES + 3, 8);
        assert_eq!(stats(MAX_DEVICES - 1).allocated, 8);
        free(MAX_DEVICES + 3, 8);
        assert_eq!(stats(MAX_DEVICES - 1).allocated, 0);
    }

    #[test]
    fn meminfo_is_read() {
        let text = "MemTotal:       24576000 kB\nMemFree:        100 kB\n";
        assert_eq!(kibibytes(text, "MemTotal:"), Some(24_576_000));
        assert_eq!(kibibytes(text, "Swap:"), None);
    }
}
