//! Buffers: immutable arrays on a device.

use crate::call::{self, Api, Handle};
use crate::event::Event;
use crate::ffi;
use crate::{Client, Code, Error, Result, Shape};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

/// What a device must find host memory aligned to, to use it in place.
const ZERO_COPY_ALIGNMENT: usize = 64;

/// Memory for the smallest arrays. A copy into it, for the plugin to use in place, takes less time
/// than the plugin's own copy.
#[repr(C, align(64))]
struct Line([u8; ZERO_COPY_ALIGNMENT]);

impl Line {
    /// The start of a line.
    fn holding(data: &[u8]) -> Box<Self> {
        let mut line = Box::new(Self([0; ZERO_COPY_ALIGNMENT]));
        line.0[..data.len()].copy_from_slice(data);
        line
    }
}

/// Host memory that nobody writes to, with what keeps it allocated.
pub struct HostData {
    data: *const u8,
    len: usize,
    owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the memory is only read, and its owner is `Send` and `Sync`.
unsafe impl Send for HostData {}
// SAFETY: as above.
unsafe impl Sync for HostData {}

impl HostData {
    /// The `len` bytes at `data`, valid until `owner` is dropped. That may happen on any thread,
    /// at any time after the last buffer that refers to the memory is gone.
    ///
    /// # Safety
    /// The bytes are readable, and nobody writes to them, until `owner` is dropped.
    pub unsafe fn new(data: *const u8, len: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        Self { data, len, owner }
    }

    /// The bytes of `owner`.
    pub fn from_owner<T: AsRef<[u8]> + Send + Sync + 'static>(owner: T) -> Self {
        let owner = Box::new(owner);
        let bytes: &[u8] = (*owner).as_ref();
        let (data, len) = (bytes.as_ptr(), bytes.len());
        // SAFETY: the box keeps `T` in place and shared, as `as_ref` saw it; so the slice that it
        // returned stays valid until the box is dropped.
        unsafe { Self::new(data, len, owner) }
    }

    fn bytes(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the promise made to `new`, for as long as the owner is here.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

/// An immutable array on one device. Its bytes are counted in [`tpu_obs::memory`].
///
/// It may exist before its contents do: the first of [`Buffer::wait`], [`Buffer::to_host`] and the
/// like gives the error of the work that was to fill it.
pub struct Buffer {
    client: Arc<Client>,
    raw: Handle,
    shape: Shape,
    bytes: usize,
    device: u32,
    ready: AtomicBool,
    /// Whether its memory is the plugin's own, and not the host's that it uses in place.
    own: bool,
    /// Whether its bytes are counted.
    counted: bool,
}

impl Buffer {
    /// Takes the buffer `raw` over.
    ///
    /// # Safety
    /// `raw` is a live buffer of `client`, of this shape and on this device, that nobody else
    /// destroys; `bytes` is the shape's size.
    #[inline]
    pub(crate) unsafe fn from_raw(
        client: &Arc<Client>,
        raw: Handle,
        shape: &Shape,
        bytes: usize,
        device: usize,
    ) -> Self {
        tpu_obs::memory::allocate(device, bytes as u64);
        Self {
            client: Arc::clone(client),
            raw,
            shape: shape.clone(),
            bytes,
            device: device as u32,
            ready: AtomicBool::new(false),
            own: true,
            counted: true,
        }
    }

    /// Stops counting its bytes: its contents are dead, and its memory waits to become a result's.
    /// True where a launch can give it to a result; host memory that is used in place cannot be.
    pub fn retire(&mut self) -> bool {
        self.stop_counting();
        self.own
    }

    #[inline]
    fn stop_counting(&mut self) {
        if std::mem::replace(&mut self.counted, false) {
            tpu_obs::memory::free(self.device as usize, self.bytes as u64);
        }
    }

    #[inline]
    pub(crate) fn copied(
        client: &Arc<Client>,
        data: &[u8],
        shape: &Shape,
        device: usize,
    ) -> Result<Self> {
        if data.len() <= ZERO_COPY_ALIGNMENT && client.has_host_memory() {
            let line = Line::holding(data);
            let copy: *const [u8] = &raw const line.0[..data.len()];
            // SAFETY: the bytes are on the heap, where they stay while `line` moves.
            return unsafe { used_in_place(client, &*copy, line, shape, device) };
        }
        let semantics = ffi::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
        // SAFETY: under these semantics the plugin keeps no pointer to `data`.
        let (buffer, done) = unsafe { from_host(client, data, shape, device, semantics)? };
        drop(done);
        Ok(buffer)
    }

    pub(crate) fn adopted(
        client: &Arc<Client>,
        data: HostData,
        shape: &Shape,
        device: usize,
    ) -> Result<Self> {
        let aligned = data.data.addr().is_multiple_of(ZERO_COPY_ALIGNMENT);
        if !client.has_host_memory() || !aligned {
            return Self::copied(client, data.bytes(), shape, device);
        }
        let bytes: *const [u8] = data.bytes();
        // SAFETY: the promise made to `HostData::new`.
        unsafe { used_in_place(client, &*bytes, data.owner, shape, device) }
    }

    /// Element type and sizes.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Bytes on the host: [`Shape::size_bytes`].
    #[inline]
    pub fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// The index of the device that holds it.
    #[inline]
    pub fn device(&self) -> usize {
        self.device as usize
    }

    /// The client that it belongs to.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// True once [`Buffer::wait`] would not block: the contents are there, or cannot come.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Acquire) || self.poll()
    }

    fn poll(&self) -> bool {
        self.ready_event()
            .and_then(|event| event.is_ready())
            .unwrap_or(true)
    }

    /// Runs `callback` once the contents are there or cannot come, on whatever thread finishes them.
    ///
    /// # Errors
    /// Whatever the plugin reports; `callback` is dropped.
    pub fn on_ready(&self, callback: impl FnOnce() + Send + 'static) -> Result<()> {
        self.ready_event()?.on_ready(callback)
    }

    /// Blocks until the contents are there.
    ///
    /// # Errors
    /// That of the work that was to make them.
    #[inline]
    pub fn wait(&self) -> Result<()> {
        if self.ready.load(Acquire) {
            Ok(())
        } else {
            self.finish()
        }
    }

    fn finish(&self) -> Result<()> {
        self.ready_event()?.wait()?;
        self.ready.store(true, Release);
        Ok(())
    }

    /// Waits, then copies the contents to `target`, dense and row-major.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] where `target` has another size; else as for [`Buffer::wait`].
    pub fn to_host(&self, target: &mut [u8]) -> Result<()> {
        if target.len() != self.bytes {
            return Err(wrong_length(target.len(), &self.shape));
        }
        match self.host_bytes()? {
            Some(bytes) => target.copy_from_slice(bytes),
            None => self.transfer(target)?,
        }
        Ok(())
    }

    /// The contents, without a copy and without waiting: `None` where they are not there yet, or
    /// not in the memory of this process, or packed there.
    #[inline]
    pub fn host_slice(&self) -> Option<&[u8]> {
        if self.is_ready() {
            self.host_bytes().ok().flatten()
        } else {
            None
        }
    }

    /// Waits, then lends the contents without a copy. `None` where they are not in the memory of
    /// this process, or packed there.
    ///
    /// # Errors
    /// As for [`Buffer::wait`].
    pub fn host_bytes(&self) -> Result<Option<&[u8]>> {
        self.wait()?;
        if !self.client.has_host_memory() || self.shape.ty.is_packed() {
            return Ok(None);
        }
        if self.bytes == 0 {
            return Ok(Some(&[]));
        }
        let mut args = ffi::PJRT_Buffer_UnsafePointer_Args {
            buffer: self.raw.raw(),
            ..ffi::PJRT_Buffer_UnsafePointer_Args::NEW
        };
        // SAFETY: the buffer is live.
        unsafe { self.api().call(&mut args)? };
        let data = std::ptr::with_exposed_provenance::<u8>(args.buffer_pointer);
        // SAFETY: the buffer is ready, in this process's memory, dense, and of this many bytes.
        // It is never written to while `self` is borrowed: only its owner can donate it.
        Ok(Some(unsafe {
            std::slice::from_raw_parts(data, self.bytes)
        }))
    }

    /// True where a launch has taken the contents away. Seen only after a launch that failed.
    pub fn is_deleted(&self) -> Result<bool> {
        let mut args = ffi::PJRT_Buffer_IsDeleted_Args {
            buffer: self.raw.raw(),
            ..ffi::PJRT_Buffer_IsDeleted_Args::NEW
        };
        // SAFETY: the buffer is live.
        unsafe { self.api().call(&mut args)? };
        Ok(args.is_deleted)
    }

    #[inline]
    pub(crate) fn raw(&self) -> Handle {
        self.raw
    }

    #[inline]
    fn api(&self) -> Api {
        self.client.api()
    }

    fn ready_event(&self) -> Result<Event> {
        let mut args = ffi::PJRT_Buffer_ReadyEvent_Args {
            buffer: self.raw.raw(),
            ..ffi::PJRT_Buffer_ReadyEvent_Args::NEW
        };
        // SAFETY: the buffer is live, and the event is the caller's.
        unsafe {
            self.api().call(&mut args)?;
            Event::new(self.api(), args.event)
        }
    }

    /// The plugin's own copy to the host. It must be told the layout: the device's is another.
    fn transfer(&self, target: &mut [u8]) -> Result<()> {
        let minor_to_major: Vec<i64> = (0..self.shape.dims.len() as i64).rev().collect();
        let tiled = ffi::PJRT_Buffer_MemoryLayout_Tiled {
            minor_to_major: call::address(minor_to_major.as_slice()),
            minor_to_major_size: minor_to_major.len(),
            ..ffi::PJRT_Buffer_MemoryLayout_Tiled::NEW
        };
        let layout = ffi::PJRT_Buffer_MemoryLayout {
            type_: ffi::PJRT_Buffer_MemoryLayout_Type_Tiled,
            value: ffi::PJRT_Buffer_MemoryLayout_value { tiled },
            ..ffi::PJRT_Buffer_MemoryLayout::NEW
        };
        let mut args = ffi::PJRT_Buffer_ToHostBuffer_Args {
            src: self.raw.raw(),
            host_layout: call::address(&layout),
            dst: target.as_mut_ptr().cast(),
            dst_size: target.len(),
            ..ffi::PJRT_Buffer_ToHostBuffer_Args::NEW
        };
        // SAFETY: the buffer is live; `target` is borrowed until the copy has ended.
        unsafe {
            self.api().call(&mut args)?;
            Event::new(self.api(), args.event)?.wait()
        }
    }
}

/// A buffer that is `data` itself, at a multiple of 64 in the memory of this process.
///
/// # Safety
/// The bytes stay in place, and nobody writes to them, until `owner` is dropped.
#[inline]
unsafe fn used_in_place<T: Send + 'static>(
    client: &Arc<Client>,
    data: &[u8],
    owner: T,
    shape: &Shape,
    device: usize,
) -> Result<Buffer> {
    let semantics = ffi::PJRT_HostBufferSemantics_kImmutableZeroCopy;
    // SAFETY: `owner` is dropped when the plugin says that it is done with the bytes, or now if
    // there was an error.
    let (mut buffer, done) = unsafe { from_host(client, data, shape, device, semantics)? };
    buffer.own = false;
    done.on_ready(move || drop(owner))?;
    Ok(buffer)
}

/// A new buffer, and the event after which the plugin no longer refers to `data`.
///
/// # Safety
/// `data` outlives what `semantics` asks for.
#[inline]
unsafe fn from_host(
    client: &Arc<Client>,
    data: &[u8],
    shape: &Shape,
    device: usize,
    semantics: u32,
) -> Result<(Buffer, Event)> {
    if shape.checked_bytes() != Some(data.len()) {
        return Err(wrong_length(data.len(), shape));
    }
    let api = client.api();
    let mut args = ffi::PJRT_Client_BufferFromHostBuffer_Args {
        client: client.raw().raw(),
        data: call::address(data),
        type_: shape.ty.number(),
        dims: call::address(shape.dims.as_slice()),
        num_dims: shape.dims.len(),
        host_buffer_semantics: semantics,
        device: client.device(device)?.raw().raw(),
        ..ffi::PJRT_Client_BufferFromHostBuffer_Args::NEW
    };
    // SAFETY: client and device are live; the shape says how many bytes are read, which are there.
    unsafe {
        api.call(&mut args)?;
        let raw = Handle::new(args.buffer, "buffer")?;
        let buffer = Buffer::from_raw(client, raw, shape, data.len(), device);
        Ok((buffer, Event::new(api, args.done_with_host_buffer)?))
    }
}

#[cold]
fn wrong_length(len: usize, shape: &Shape) -> Error {
    let bytes = shape.size_bytes();
    let message = format!("`{shape}` has `{bytes}` bytes on the host, got `{len}`");
    Error::new(Code::InvalidArgument, message)
}

impl fmt::Debug for Buffer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Buffer({} on device {})", self.shape, self.device)
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        self.stop_counting();
        let mut args = ffi::PJRT_Buffer_Destroy_Args {
            buffer: self.raw.raw(),
            ..ffi::PJRT_Buffer_Destroy_Args::NEW
        };
        // SAFETY: the buffer is live and nothing refers to it any more; work in flight keeps the
        // memory by itself. An error has no reader: in a forked child the buffer is left alone.
        let _ = unsafe { self.api().call(&mut args) };
    }
}
