//! Buffers of run-time numbers.
use crate::{Result, element_type, runtime::Runtime};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use tpu_hlo::{DType, Number};
use tpu_pjrt::{Buffer, Shape};

/// Numbers that come again (1.0, a learning rate, the offset of a slice) are uploaded once.
const CAPACITY: usize = 4096;

type Key = (DType, (u64, u64), DType);

/// Device buffers of the numbers used last.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    known: Mutex<FxHashMap<Key, Arc<Buffer>>>,
}

impl Numbers {
    /// A 0-dimensional buffer of `number` converted to `dtype`.
    pub(crate) fn buffer(
        &self,
        runtime: &Runtime,
        number: Number,
        dtype: DType,
    ) -> Result<Arc<Buffer>> {
        let key = (number.dtype(), number.bits(), dtype);
        if let Some(buffer) = self.known.lock().get(&key) {
            return Ok(Arc::clone(buffer));
        }
        let shape = Shape::new(element_type(dtype), &[]);
        let buffer = Arc::new(runtime.upload(&number.bytes(dtype), &shape)?);
        let mut known = self.known.lock();
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(key, Arc::clone(&buffer));
        Ok(buffer)
    }
}
