//! A client does not survive `fork`: its threads stay in the parent, and the first call hangs.

use crate::{Code, Error, Result};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static FORKED: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();

extern "C" fn mark_child() {
    FORKED.store(true, Relaxed);
}

/// From now on a fork makes every call in the child fail. Called when the first client is made;
/// before that, a child is free to open the device itself.
pub(crate) fn watch() {
    WATCH.call_once(|| {
        // SAFETY: the handler only stores to an atomic, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(mark_child)) };
    });
}

/// True in a child forked after this process opened the device.
#[inline]
pub fn is_forked() -> bool {
    FORKED.load(Relaxed)
}

/// Refuses to go on in such a child.
#[inline]
pub(crate) fn check() -> Result<()> {
    if is_forked() { Err(refusal()) } else { Ok(()) }
}

#[cold]
fn refusal() -> Error {
    Error::new(
        Code::Forked,
        "the device was opened before this process was forked and cannot be used in the child; \
         start workers with the `spawn` or `forkserver` method, or keep device work in the parent",
    )
}
