//! Storages.
use crate::{Error, Result, element_type, runtime};
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
    /// A running program has been given the buffer to overwrite.
    Taken,
    /// That program failed.
    Lost,
}

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

    /// The buffer, if the storage has ever been written.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn get(&self) -> Result<Option<Arc<Buffer>>> {
        match &*self.settled() {
            Value::Held(buffer) => Ok(Some(Arc::clone(buffer))),
            Value::Undefined | Value::Taken => Ok(None),
            Value::Lost => Err(Error::Lost),
        }
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
