//! Storages.
use crate::{Error, Result, element_type, padded, padded::Room, runtime};
use parking_lot::{Mutex, MutexGuard};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use tpu_hlo::Type;
use tpu_pjrt::{Buffer, ElementType, Shape};

/// A storage: a stable address for PyTorch's data pointer, holding an immutable buffer whose
/// elements in row-major order are the storage's bytes.
///
/// Writing in place puts another buffer into the cell. A new cell holds nothing; what is read
/// from it before it is written is zero.
#[derive(Debug)]
pub struct Cell {
    nbytes: AtomicUsize,
    value: Mutex<Value>,
}

#[derive(Debug)]
enum Value {
    Undefined,
    Held(Arc<Buffer>),
    /// A buffer that is larger than the tensor in it.
    Padded(Arc<Buffer>, Arc<Room>),
    /// A running program has been given the buffer to overwrite.
    Taken,
    /// That program failed.
    Lost,
}

/// A buffer, and how the tensor lies in it if it is larger.
pub(crate) type Held = (Arc<Buffer>, Option<Arc<Room>>);

impl Cell {
    /// A storage of `nbytes` bytes that takes no device memory yet.
    pub fn undefined(nbytes: usize) -> Self {
        Self {
            nbytes: AtomicUsize::new(nbytes),
            value: Mutex::new(Value::Undefined),
        }
    }

    /// A storage that holds `buffer`.
    pub fn holding(buffer: Arc<Buffer>, nbytes: usize) -> Self {
        Self {
            nbytes: AtomicUsize::new(nbytes),
            value: Mutex::new(Value::Held(buffer)),
        }
    }

    /// A storage of `nbytes` bytes that lie in `buffer` with room.
    pub(crate) fn padded(buffer: Arc<Buffer>, room: Arc<Room>, nbytes: usize) -> Self {
        let cell = Self::undefined(nbytes);
        cell.set_padded(buffer, room);
        cell
    }

    /// Size in bytes.
    pub fn nbytes(&self) -> usize {
        self.nbytes.load(Relaxed)
    }

    fn settled(&self) -> MutexGuard<'_, Value> {
        loop {
            let value = self.value.lock();
            if !matches!(*value, Value::Taken) {
                return value;
            }
            drop(value);
            std::thread::yield_now();
        }
    }

    /// The buffer, if the storage has ever been written. One with room is cut to size first, and
    /// stays so.
    ///
    /// # Errors
    /// [`Error::Lost`], or what cutting meets.
    pub fn get(&self) -> Result<Option<Arc<Buffer>>> {
        let mut value = self.settled();
        let exact = match &*value {
            Value::Held(buffer) => return Ok(Some(Arc::clone(buffer))),
            Value::Padded(buffer, room) => padded::cut(buffer, room)?,
            Value::Undefined | Value::Taken => return Ok(None),
            Value::Lost => return Err(Error::Lost),
        };
        *value = Value::Held(Arc::clone(&exact));
        Ok(Some(exact))
    }

    /// The buffer as it is, with its room if it has some.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(crate) fn held(&self) -> Result<Option<Held>> {
        Ok(match &*self.settled() {
            Value::Held(buffer) => Some((Arc::clone(buffer), None)),
            Value::Padded(buffer, room) => Some((Arc::clone(buffer), Some(Arc::clone(room)))),
            Value::Undefined | Value::Taken => None,
            Value::Lost => return Err(Error::Lost),
        })
    }

    /// Puts a buffer with room into the storage.
    pub(crate) fn set_padded(&self, buffer: Arc<Buffer>, room: Arc<Room>) {
        *self.value.lock() = Value::Padded(buffer, room);
    }

    /// The buffer; zeros of type `undefined` when the storage was never written.
    ///
    /// # Errors
    /// [`Error::Lost`], or what making the zeros meets.
    pub fn get_or_zeros(&self, undefined: &Type) -> Result<Arc<Buffer>> {
        if let Some(buffer) = self.get()? {
            return Ok(buffer);
        }
        let shape = Shape::new(element_type(undefined.dtype), &undefined.dims);
        let zeros = vec![0; shape.size_bytes()];
        let buffer = Arc::new(runtime::get()?.upload(&zeros, &shape)?);
        self.set(Arc::clone(&buffer));
        Ok(buffer)
    }

    /// Puts `buffer` into the storage.
    pub fn set(&self, buffer: Arc<Buffer>) {
        *self.value.lock() = Value::Held(buffer);
    }

    /// Takes the buffer out, to be donated; the cell has to be `set` or `lose` afterwards.
    pub(crate) fn take(&self) -> Option<Arc<Buffer>> {
        let mut value = self.settled();
        match std::mem::replace(&mut *value, Value::Taken) {
            Value::Held(buffer) => Some(buffer),
            other => {
                *value = other;
                None
            }
        }
    }

    /// Says that the buffer taken out is gone.
    pub(crate) fn lose(&self) {
        *self.value.lock() = Value::Lost;
    }

    /// Changes the size; the bytes that both sizes have stay.
    ///
    /// # Errors
    /// [`Error::Lost`], or what copying meets.
    pub fn resize(&self, nbytes: usize) -> Result<()> {
        let old = self.get()?;
        if let Some(buffer) = old.filter(|b| b.size_bytes() != nbytes) {
            let mut bytes = vec![0; buffer.size_bytes()];
            buffer.to_host(&mut bytes)?;
            bytes.resize(nbytes, 0);
            let shape = resized(buffer.shape(), nbytes);
            if shape.size_bytes() == nbytes {
                self.set(Arc::new(runtime::get()?.upload(&bytes, &shape)?));
            }
        }
        self.nbytes.store(nbytes, Relaxed);
        Ok(())
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        if let Value::Held(buffer) = std::mem::replace(self.value.get_mut(), Value::Undefined) {
            runtime::keep(buffer);
        }
    }
}

/// One dimension of the old element type, or of bytes where those do not come out even.
fn resized(old: &Shape, nbytes: usize) -> Shape {
    let size = old.ty.size_bytes();
    if nbytes.is_multiple_of(size) {
        Shape::new(old.ty, &[(nbytes / size) as i64])
    } else {
        Shape::new(ElementType::U8, &[nbytes as i64])
    }
}
