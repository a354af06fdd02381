//! The one way into the plugin: looks the function up, calls it, turns its status into a `Result`.

use crate::ffi::{self, Ptr};
use crate::{Code, Error, Result, fork};
use std::ptr::NonNull;

/// An argument struct of one function of the table.
///
/// # Safety
/// `SLOT` is the position of the function that takes a pointer to this struct, and the struct
/// begins with its size.
pub(crate) unsafe trait Args {
    /// Position in the function table.
    const SLOT: usize;
    /// Name of the struct, for messages.
    const NAME: &'static str;
}

/// A live object of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(NonNull<std::ffi::c_void>);

// SAFETY: a handle is only an address. The functions that take it are thread-safe for clients,
// devices, buffers, executables and events, as the C API's users (JAX among them) rely on.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// The handle at `raw`; `what` names it where the plugin gave none.
    pub(crate) fn new(raw: Ptr, what: &str) -> Result<Self> {
        let missing = || Error::new(Code::Internal, format!("the plugin returned no {what}"));
        NonNull::new(raw).map(Self).ok_or_else(missing)
    }

    #[inline]
    pub(crate) fn raw(self) -> Ptr {
        self.0.as_ptr()
    }
}

/// The plugin's function table. It lives as long as the process: plugins are never unloaded.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    base: Handle,
    size: usize,
}

type Function = unsafe extern "C" fn(Ptr) -> Ptr;

impl Api {
    /// The table at `raw`, as `GetPjrtApi` returned it.
    ///
    /// # Safety
    /// `raw` is null or points to a `PJRT_Api` that is never freed.
    pub(crate) unsafe fn new(raw: Ptr) -> Result<Self> {
        let base = Handle::new(raw, "function table")?;
        // SAFETY: every version of the struct begins with its size.
        let size = unsafe { raw.cast::<usize>().read() };
        if size < ffi::TABLE_OFFSET {
            let message = format!("the plugin's function table has `{size}` bytes, which is none");
            return Err(Error::new(Code::Plugin, message));
        }
        Ok(Self { base, size })
    }

    /// The first of the table's extensions with this type number.
    pub(crate) fn extension(self, type_: u32) -> Option<Handle> {
        // SAFETY: the second word of the table is the head of a list of extensions.
        let mut next = unsafe { self.base.raw().byte_add(8).cast::<Ptr>().read() };
        while !next.is_null() {
            // SAFETY: every extension begins with a `PJRT_Extension_Base`, and is never freed.
            let base = unsafe { next.cast::<ffi::PJRT_Extension_Base>().read() };
            if base.type_ == type_ {
                return Handle::new(next, "extension").ok();
            }
            next = base.next;
        }
        None
    }

    /// Major and minor version of the C API that the plugin was built with.
    pub(crate) fn version(self) -> (i32, i32) {
        let at = self
            .base
            .raw()
            .wrapping_byte_add(16)
            .cast::<ffi::PJRT_Api_Version>();
        // SAFETY: the version follows the size and the extensions in every version of the table.
        let version = unsafe { at.read() };
        (version.major_version, version.minor_version)
    }

    #[inline]
    fn function(self, slot: usize) -> Option<Function> {
        let offset = ffi::TABLE_OFFSET + slot * size_of::<Ptr>();
        if offset + size_of::<Ptr>() > self.size {
            return None;
        }
        // SAFETY: the slot is inside the table, as its size says; a table slot is a function
        // pointer or null, which is what `Option` of a function pointer is.
        unsafe {
            self.base
                .raw()
                .byte_add(offset)
                .cast::<Option<Function>>()
                .read()
        }
    }

    /// Calls the function that takes `A`; outputs are in `args` afterwards.
    ///
    /// # Safety
    /// Handles and pointers in `args` are live and of the kinds that the function expects.
    #[inline]
    pub(crate) unsafe fn call<A: Args>(self, args: &mut A) -> Result<()> {
        fork::check()?;
        let function = self.function(A::SLOT).ok_or_else(|| missing(A::NAME))?;
        // SAFETY: `Args` promises that this function takes this struct; the caller vouches for
        // what is in it.
        let status = unsafe { function((&raw mut *args).cast()) };
        if status.is_null() {
            Ok(())
        } else {
            Err(self.error(status))
        }
    }

    /// Calls a function of an extension, which is in no slot of the table.
    ///
    /// # Safety
    /// `function` is null or takes a pointer to an `A`, whose content is what it expects.
    pub(crate) unsafe fn call_extension<A>(self, function: Ptr, args: &mut A) -> Result<()> {
        fork::check()?;
        // SAFETY: `Option` of a function pointer is a nullable pointer; the caller vouches for the
        // signature.
        let function = unsafe { std::mem::transmute::<Ptr, Option<Function>>(function) };
        let function = function.ok_or_else(|| missing(std::any::type_name::<A>()))?;
        // SAFETY: the caller's promise.
        let status = unsafe { function((&raw mut *args).cast()) };
        if status.is_null() {
            Ok(())
        } else {
            Err(self.error(status))
        }
    }

    /// Reads and frees a status that is not null.
    #[cold]
    pub(crate) fn error(self, status: Ptr) -> Error {
        let mut message = ffi::PJRT_Error_Message_Args {
            error: status,
            ..ffi::PJRT_Error_Message_Args::NEW
        };
        let mut code = ffi::PJRT_Error_GetCode_Args {
            error: status,
            ..ffi::PJRT_Error_GetCode_Args::NEW
        };
        let mut destroy = ffi::PJRT_Error_Destroy_Args {
            error: status,
            ..ffi::PJRT_Error_Destroy_Args::NEW
        };
        // SAFETY: the status is live until it is destroyed, which is done last. The first and the
        // last of these functions return nothing, the second no status in practice: ignored.
        let text = unsafe {
            self.invoke(&mut message);
            self.invoke(&mut code);
            text(message.message, message.message_size)
        };
        // SAFETY: nothing refers to the status any more; `text` is a copy.
        unsafe { self.invoke(&mut destroy) };
        Error::new(Code::from_number(code.code), text)
    }

    /// Calls without looking at a status: for the functions that handle statuses.
    ///
    /// # Safety
    /// As for `call`.
    unsafe fn invoke<A: Args>(self, args: &mut A) {
        if let Some(function) = self.function(A::SLOT) {
            // SAFETY: the caller's promise.
            unsafe { function((&raw mut *args).cast()) };
        }
    }
}

#[cold]
fn missing(name: &str) -> Error {
    let name = name.trim_end_matches("_Args");
    Error::new(
        Code::Unimplemented,
        format!("the plugin has no function `{name}`"),
    )
}

/// A copy of the plugin's text at `data`; empty where that is null.
///
/// # Safety
/// `data` is null or points to `size` readable bytes.
pub(crate) unsafe fn text(data: Ptr, size: usize) -> String {
    if data.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// The plugin's array at `data`; empty where that is null.
///
/// # Safety
/// `data` is null or points to `len` values of `T` that stay as they are while `'a` lasts.
pub(crate) unsafe fn array<'a, T>(data: Ptr, len: usize) -> &'a [T] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data.cast::<T>(), len) }
}

/// The address of something that the plugin only reads.
#[inline]
pub(crate) fn address<T: ?Sized>(value: &T) -> Ptr {
    (&raw const *value).cast_mut().cast()
}

/// A StableHLO module as the plugin takes it; the result refers to `module`.
pub(crate) fn program(module: &str) -> ffi::PJRT_Program {
    const FORMAT: &str = "mlir";
    ffi::PJRT_Program {
        code: address(module.as_bytes()),
        code_size: module.len(),
        format: address(FORMAT.as_bytes()),
        format_size: FORMAT.len(),
        ..ffi::PJRT_Program::NEW
    }
}
