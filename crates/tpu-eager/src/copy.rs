//! Copies between host and device, and between storages without a program.
use crate::{
    Cell, Result, Tensor, element_type, gather::view_of, padded::cut_on_host, runtime, view::View,
};
use std::sync::Arc;
use tpu_hlo::Dims;
use tpu_obs::counters;
use tpu_pjrt::{Buffer, Shape};

/// Makes `bytes` the value of `target`, a tensor that is its whole storage: its elements in the
/// storage's order.
///
/// # Errors
/// Out of memory, or that the device does not open.
pub fn upload(target: &Tensor<'_>, bytes: &[u8]) -> Result<()> {
    let view = View::new(
        target.storage_numel(),
        target.sizes,
        target.strides,
        target.offset,
    );
    let dims: Dims = view.order().iter().map(|d| target.sizes[*d]).collect();
    let shape = Shape::new(element_type(target.dtype), &dims);
    target
        .cell
        .set(Arc::new(runtime::get()?.upload(bytes, &shape)?));
    Ok(())
}

/// A storage's bytes on the host.
pub enum HostBytes {
    /// The device's memory is the host's: read it through [`Buffer::host_bytes`].
    Shared(Arc<Buffer>),
    /// Copied from the device.
    Copied(Vec<u8>),
}

/// The storage's bytes. A storage that was never written reads as zeros.
///
/// # Errors
/// A pending check that failed, or what the transfer meets.
pub fn host_bytes(cell: &Cell) -> Result<HostBytes> {
    let runtime = runtime::get()?;
    runtime.synchronize()?;
    let buffer = match cell.held()? {
        None => return Ok(HostBytes::Copied(vec![0; cell.nbytes()])),
        Some((buffer, Some(room))) => {
            return Ok(HostBytes::Copied(cut_on_host(&buffer, &room)?));
        }
        Some((buffer, None)) => buffer,
    };
    counters::d2h(buffer.size_bytes() as u64);
    if buffer.host_bytes()?.is_some() {
        return Ok(HostBytes::Shared(buffer));
    }
    let mut bytes = vec![0; buffer.size_bytes()];
    buffer.to_host(&mut bytes)?;
    Ok(HostBytes::Copied(bytes))
}

/// Copies a tensor into another one by sharing the immutable buffer, if both are whole storages
/// of one type in one order; otherwise does nothing and says so.
///
/// # Errors
/// [`crate::Error::Lost`].
pub fn share(target: &Tensor<'_>, source: &Tensor<'_>) -> Result<bool> {
    let plain = |t: &Tensor<'_>| !t.conj && !t.neg;
    let alike = target.dtype == source.dtype && target.sizes == source.sizes;
    if !alike || !plain(target) || !plain(source) || target.cell.nbytes() != source.cell.nbytes() {
        return Ok(false);
    }
    let whole = |t: &Tensor<'_>| view_of(t).is_none_or(|v| v.is_whole());
    if !whole(target) || !whole(source) || !same_order(target, source) {
        return Ok(false);
    }
    if let Some(buffer) = source.cell.get()? {
        target.cell.set(buffer);
    }
    Ok(true)
}

fn same_order(a: &Tensor<'_>, b: &Tensor<'_>) -> bool {
    let moving = |t: &Tensor<'_>| -> Dims {
        t.sizes
            .iter()
            .zip(t.strides)
            .filter(|(n, _)| **n != 1)
            .map(|(_, s)| *s)
            .collect()
    };
    moving(a) == moving(b)
}
