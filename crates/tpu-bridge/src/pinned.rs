//! Pinned memory: host memory aligned as PJRT wants it for reading without a copy.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

const ALIGNMENT: usize = 64;

struct Books {
    /// Size by start.
    blocks: BTreeMap<usize, usize>,
    bytes: usize,
    most_blocks: usize,
    most_bytes: usize,
}

static BOOKS: Mutex<Books> = Mutex::new(Books {
    blocks: BTreeMap::new(),
    bytes: 0,
    most_blocks: 0,
    most_bytes: 0,
});

fn books() -> MutexGuard<'static, Books> {
    // Nothing between lock and unlock can panic and leave the books half written.
    BOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn layout(nbytes: usize) -> Option<Layout> {
    Layout::from_size_align(nbytes, ALIGNMENT).ok()
}

#[unsafe(no_mangle)]
extern "C" fn tpu_pinned_new(nbytes: usize) -> *mut c_void {
    let Some(layout) = layout(nbytes).filter(|_| nbytes > 0) else {
        return null_mut();
    };
    // SAFETY: the size is not zero.
    let start = unsafe { alloc(layout) };
    if !start.is_null() {
        let mut books = books();
        books.blocks.insert(start as usize, nbytes);
        books.bytes += nbytes;
        books.most_blocks = books.most_blocks.max(books.blocks.len());
        books.most_bytes = books.most_bytes.max(books.bytes);
    }
    start.cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_pinned_free(start: *mut c_void) {
    let mut books = books();
    // The null block of an empty allocation is not in the books.
    let Some(nbytes) = books.blocks.remove(&(start as usize)) else {
        return;
    };
    books.bytes -= nbytes;
    if let Some(layout) = layout(nbytes) {
        // SAFETY: made by `tpu_pinned_new` with this layout, and only now taken off the books.
        unsafe { dealloc(start.cast(), layout) }
    }
}

#[unsafe(no_mangle)]
extern "C" fn tpu_pinned_owns(address: *const c_void) -> i32 {
    let address = address as usize;
    let books = books();
    let block = books.blocks.range(..=address).next_back();
    i32::from(block.is_some_and(|(start, nbytes)| address < start + nbytes))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_pinned_stats(out: *mut i64) {
    let books = books();
    let figures = [
        books.blocks.len(),
        books.most_blocks,
        books.bytes,
        books.most_bytes,
    ];
    // SAFETY: the caller passes four integers.
    unsafe { out.cast::<[i64; 4]>().write(figures.map(|n| n as i64)) }
}

#[unsafe(no_mangle)]
extern "C" fn tpu_pinned_reset_peak() {
    let mut books = books();
    (books.most_blocks, books.most_bytes) = (books.blocks.len(), books.bytes);
}

#[unsafe(no_mangle)]
extern "C" fn tpu_scalar_type_bits() -> u64 {
    tpu_eager::DType::ALL
        .iter()
        .fold(0, |bits, t| bits | 1 << tpu_eager::scalar_type(*t))
}
