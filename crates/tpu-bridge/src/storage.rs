//! Storages as PyTorch's allocator and copy kernels see them.

use std::ffi::c_void;
use std::slice;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tpu_eager::{Buffer, Cell, Error, HostBytes, runtime};
use tpu_obs::memory;

use crate::call::{TpuTensor, tensor};
use crate::error::{guard, refuse_size};

/// A cell that PyTorch's data pointer points to.
///
/// # Safety
/// `cell` comes from [`into_raw`] and its DataPtr lives longer than `'a`.
pub(crate) unsafe fn cell<'a>(cell: *const c_void) -> &'a Cell {
    // SAFETY: by the contract above; cells are shared between threads and lock by themselves.
    unsafe { &*cell.cast::<Cell>() }
}

/// Hands a cell to a DataPtr.
pub(crate) fn into_raw(cell: Cell) -> *mut c_void {
    Box::into_raw(Box::new(cell)).cast()
}

/// A new storage; null when the device can never hold it.
#[unsafe(no_mangle)]
extern "C" fn tpu_cell_new(nbytes: usize, _device: i32) -> *mut c_void {
    if refuse_size(nbytes) {
        return std::ptr::null_mut();
    }
    into_raw(Cell::undefined(nbytes))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_cell_free(cell: *mut c_void) {
    if !cell.is_null() {
        // SAFETY: made by `into_raw` and freed once, by the deleter of its DataPtr.
        drop(unsafe { Box::from_raw(cell.cast::<Cell>()) });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_cell_resize(raw: *mut c_void, nbytes: usize) -> i32 {
    // SAFETY: PyTorch holds the storage during the call.
    guard(|| unsafe { cell(raw) }.resize(nbytes).map(|()| 0))
}

/// The allocator's `copy_data`: storages are immutable buffers, so that whole ones are shared.
#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_cell_copy(dst: *mut c_void, src: *const c_void, _nbytes: usize) -> i32 {
    guard(|| {
        // SAFETY: PyTorch holds both storages during the call.
        let (dst, src) = unsafe { (cell(dst), cell(src)) };
        if let Some(buffer) = src.get()? {
            dst.set(buffer);
            dst.resize(dst.nbytes())?;
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_cell_upload(
    target: *const TpuTensor,
    data: *const c_void,
    nbytes: usize,
) -> i32 {
    guard(|| {
        // SAFETY: the caller passes a live description and `nbytes` readable bytes.
        let (target, bytes) = unsafe { (tensor(&*target)?, bytes(data, nbytes)) };
        tpu_eager::upload(&target, bytes)?;
        Ok(0)
    })
}

/// `nbytes` bytes at `data`, which may be null for none.
///
/// # Safety
/// `data` points to that many readable bytes during `'a`.
unsafe fn bytes<'a>(data: *const c_void, nbytes: usize) -> &'a [u8] {
    if nbytes == 0 {
        return &[];
    }
    // SAFETY: by the contract above.
    unsafe { slice::from_raw_parts(data.cast::<u8>(), nbytes) }
}

/// Numbers of `c10::ScalarType` for complex numbers of two half-width floats.
const HALF_COMPLEX: [(i8, &str); 2] = [(8, "torch.complex32"), (46, "torch.bcomplex32")];

/// The error for an element type that no device here holds.
pub(crate) fn unsupported(dtype: i8) -> Error {
    let complex = HALF_COMPLEX.iter().find(|(number, _)| *number == dtype);
    let message = match complex {
        Some((_, name)) => format!(
            "TPU2004: tensors of {name} are not supported on the device \"tpu\": XLA has no complex \
             numbers of half-width floats; hint: convert to torch.complex64 on the CPU first"
        ),
        None => format!(
            "TPU2004: tensors of c10::ScalarType number {dtype} (quantised or packed) are not \
             supported on the device \"tpu\"; hint: dequantize() or convert on the CPU first"
        ),
    };
    Error::Op(tpu_ops::Error::Torch {
        class: tpu_ops::Class::Type,
        message,
    })
}

/// Keeps the memory that `tpu_cell_host` gave out.
struct HostGuard {
    bytes: Vec<u8>,
    buffer: Option<Arc<Buffer>>,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_cell_host(
    raw: *const c_void,
    data: *mut *const c_void,
    out: *mut *mut c_void,
) -> i32 {
    guard(|| {
        // SAFETY: PyTorch holds the storage during the call.
        let host = tpu_eager::host_bytes(unsafe { cell(raw) })?;
        let guard = Box::new(match host {
            HostBytes::Shared(buffer) => HostGuard {
                bytes: Vec::new(),
                buffer: Some(buffer),
            },
            HostBytes::Copied(bytes) => HostGuard {
                bytes,
                buffer: None,
            },
        });
        let start = match &guard.buffer {
            Some(buffer) => buffer.host_bytes()?.unwrap_or_default().as_ptr(),
            None => guard.bytes.as_ptr(),
        };
        // SAFETY: the caller passes two pointers to write to.
        unsafe {
            data.write(start.cast());
            out.write(Box::into_raw(guard).cast());
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_host_release(guard: *mut c_void) {
    // SAFETY: made by `tpu_cell_host` and released once, by the deleter of the host tensor.
    drop(unsafe { Box::from_raw(guard.cast::<HostGuard>()) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_share(dst: *const TpuTensor, src: *const TpuTensor, done: *mut u8) -> i32 {
    guard(|| {
        // SAFETY: the caller passes two live descriptions and a byte to write to.
        let (dst, src) = unsafe { (tensor(&*dst)?, tensor(&*src)?) };
        let shared = tpu_eager::share(&dst, &src)?;
        // SAFETY: as above.
        unsafe { done.write(u8::from(shared)) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn tpu_synchronize(_device: i32) -> i32 {
    guard(|| {
        if runtime::is_open() {
            runtime::get()?.synchronize()?;
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn tpu_device_count() -> i32 {
    i32::from(runtime::is_configured())
}

#[unsafe(no_mangle)]
extern "C" fn tpu_is_forked() -> i32 {
    i32::from(tpu_eager::is_forked())
}

/// `TpuMemory` of shim.h.
#[repr(C)]
struct TpuMemory {
    allocated: i64,
    peak: i64,
    limit: i64,
    buffers: i64,
}

#[unsafe(no_mangle)]
extern "C" fn tpu_memory_stats(device: i32) -> TpuMemory {
    let stats = memory::stats(device.max(0) as usize);
    TpuMemory {
        allocated: stats.allocated as i64,
        peak: stats.peak as i64,
        limit: stats.limit as i64,
        buffers: stats.buffers as i64,
    }
}

#[unsafe(no_mangle)]
extern "C" fn tpu_memory_reset_peak(device: i32) {
    memory::reset_peak(device.max(0) as usize);
}

#[unsafe(no_mangle)]
extern "C" fn tpu_now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
