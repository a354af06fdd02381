//! Completion of work on a device.

use crate::Result;
use crate::call::{Api, Handle};
use crate::ffi::{self, Ptr};

/// Work that ends some time, well or not.
pub(crate) struct Event {
    api: Api,
    raw: Handle,
}

impl Event {
    /// Takes the event at `raw` over.
    ///
    /// # Safety
    /// `raw` is null or an event of `api`'s plugin that nobody else destroys.
    pub(crate) unsafe fn new(api: Api, raw: Ptr) -> Result<Self> {
        Ok(Self {
            api,
            raw: Handle::new(raw, "event")?,
        })
    }

    /// Blocks until the work is done, and gives its error.
    pub(crate) fn wait(self) -> Result<()> {
        let mut args = ffi::PJRT_Event_Await_Args {
            event: self.raw.raw(),
            ..ffi::PJRT_Event_Await_Args::NEW
        };
        // SAFETY: the event is live: `self` owns it.
        unsafe { self.api.call(&mut args) }
    }

    /// True once the work is done, even where it failed.
    pub(crate) fn is_ready(&self) -> Result<bool> {
        let mut args = ffi::PJRT_Event_IsReady_Args {
            event: self.raw.raw(),
            ..ffi::PJRT_Event_IsReady_Args::NEW
        };
        // SAFETY: the event is live: `self` owns it.
        unsafe { self.api.call(&mut args)? };
        Ok(args.is_ready)
    }

    /// Runs `callback` once the work is done, on whatever thread finishes it.
    pub(crate) fn on_ready<F: FnOnce() + Send + 'static>(self, callback: F) -> Result<()> {
        let state = Box::into_raw(Box::new((self.api, callback)));
        let function: extern "C" fn(Ptr, Ptr) = run_callback::<F>;
        let mut args = ffi::PJRT_Event_OnReady_Args {
            event: self.raw.raw(),
            callback: function as Ptr,
            user_arg: state.cast(),
            ..ffi::PJRT_Event_OnReady_Args::NEW
        };
        // SAFETY: the event is live; the callback has the signature of the header and gets the
        // state that it expects.
        let result = unsafe { self.api.call(&mut args) };
        if result.is_err() {
            // SAFETY: a refused call keeps no pointer, so the state is still ours alone.
            drop(unsafe { Box::from_raw(state) });
        }
        result
    }
}

extern "C" fn run_callback<F: FnOnce()>(status: Ptr, state: Ptr) {
    // SAFETY: `on_ready` passed a box of exactly this type, and an event ends once.
    let (api, callback) = *unsafe { Box::from_raw(state.cast::<(Api, F)>()) };
    if !status.is_null() {
        // Only frees it: how the work ended is for those to know who wait for its results.
        let _ = api.error(status);
    }
    // A panic must not reach the plugin's frames; the panic hook has reported it.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(callback));
}

impl Drop for Event {
    fn drop(&mut self) {
        let mut args = ffi::PJRT_Event_Destroy_Args {
            event: self.raw.raw(),
            ..ffi::PJRT_Event_Destroy_Args::NEW
        };
        // SAFETY: the event is live and nothing refers to it any more. An error has no reader: in
        // a forked child the event is left alone.
        let _ = unsafe { self.api.call(&mut args) };
    }
}
