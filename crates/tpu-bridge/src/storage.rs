//! Storages as PyTorch's allocator sees them.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;
use std::time::Instant;

struct Cell {
    bytes: Vec<u8>,
}

#[unsafe(no_mangle)]
extern "C" fn tpu_cell_new(nbytes: usize, _device: i32) -> *mut c_void {
    Box::into_raw(Box::new(Cell { bytes: vec![0; nbytes] })).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_cell_free(cell: *mut c_void) {
    if !cell.is_null() {
        // SAFETY: made by `tpu_cell_new` and freed once, by the deleter of its DataPtr.
        drop(unsafe { Box::from_raw(cell.cast::<Cell>()) });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_cell_resize(cell: *mut c_void, nbytes: usize) -> i32 {
    // SAFETY: a live cell of `tpu_cell_new`; PyTorch holds its storage during the call.
    unsafe { &mut *cell.cast::<Cell>() }.bytes.resize(nbytes, 0);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_cell_copy(dst: *mut c_void, src: *const c_void, nbytes: usize) -> i32 {
    // SAFETY: two live cells of `tpu_cell_new`, both at least `nbytes` long.
    let (dst, src) = unsafe { (&mut *dst.cast::<Cell>(), &*src.cast::<Cell>()) };
    dst.bytes[..nbytes].copy_from_slice(&src.bytes[..nbytes]);
    0
}

#[unsafe(no_mangle)]
extern "C" fn tpu_synchronize(_device: i32) -> i32 {
    0
}

#[unsafe(no_mangle)]
extern "C" fn tpu_device_count() -> i32 {
    1
}

#[unsafe(no_mangle)]
extern "C" fn tpu_is_forked() -> i32 {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_memory_stats(_device: i32, out: *mut i64) {
    // SAFETY: the caller passes four integers.
    unsafe { out.cast::<[i64; 4]>().write([0; 4]) }
}

#[unsafe(no_mangle)]
extern "C" fn tpu_memory_reset_peak(_device: i32) {}

#[unsafe(no_mangle)]
extern "C" fn tpu_now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[unsafe(no_mangle)]
extern "C" fn tpu_last_error() -> *const c_char {
    c"".as_ptr()
}
