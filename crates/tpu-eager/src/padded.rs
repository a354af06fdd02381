//! Buffers with room: a tensor whose buffer is larger than it is.
//!
//! Programs for a bucket of sizes read and give such buffers. Everything else sees tensors as they
//! are: a cell cuts its buffer to size when it is asked for it ([`crate::Cell::get`]). Padding and
//! cutting go through the host, so that no program is compiled for a single size.
use crate::{Result, Tensor, cell::Cell, dtype::element_type, layout, runtime};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use tpu_hlo::{DType, Dims};
use tpu_obs::counters;
use tpu_pjrt::{Buffer, Shape};

/// A factor of a dimension: its size, and its room.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Extent {
    pub(crate) size: i64,
    pub(crate) room: i64,
    /// Whether the size is one that only a launch knows.
    pub(crate) open: bool,
}

/// How a tensor lies in its buffer, from the slowest to the fastest moving factor. Those that are
/// known and next to each other are one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Room(SmallVec<[Extent; 6]>);

impl Room {
    pub(crate) fn of(extents: impl IntoIterator<Item = Extent>) -> Self {
        let mut room = Self::default();
        for extent in extents {
            match room.0.last_mut() {
                _ if !extent.open && extent.size == 1 => {}
                Some(last) if !last.open && !extent.open => {
                    last.size *= extent.size;
                    last.room = last.size;
                }
                _ => room.0.push(extent),
            }
        }
        room
    }

    /// Dimensions of the buffer.
    pub(crate) fn dims(&self) -> Dims {
        self.0.iter().map(|e| e.room).collect()
    }

    fn is_full(&self) -> bool {
        self.0.iter().all(|e| e.size == e.room)
    }

    fn sizes(&self) -> Dims {
        self.0.iter().map(|e| e.size).collect()
    }
}

fn dense(sizes: &[i64]) -> Dims {
    let order: SmallVec<[usize; 6]> = (0..sizes.len()).collect();
    layout::strides(sizes, &order)
}

/// One side of a copy: elements, first element, strides in elements.
struct Side<'a, T> {
    bytes: T,
    offset: i64,
    strides: &'a [i64],
}

/// Copies elements of `width` bytes between two arrays of the same sizes.
fn copy(from: Side<'_, &[u8]>, to: Side<'_, &mut [u8]>, sizes: &[i64], width: usize) {
    if sizes.contains(&0) {
        return;
    }
    // Dimensions that both sides have without a gap are copied at once.
    let (mut outer, mut run) = (sizes.len(), 1);
    while outer > 0 && from.strides[outer - 1] == run && to.strides[outer - 1] == run {
        outer -= 1;
        run *= sizes[outer];
    }
    let length = run as usize * width;
    let mut index: Dims = sizes[..outer].iter().map(|_| 0).collect();
    loop {
        let place = |strides: &[i64]| index.iter().zip(strides).map(|(i, s)| i * s).sum::<i64>();
        let source = (from.offset + place(from.strides)) as usize * width;
        let target = (to.offset + place(to.strides)) as usize * width;
        to.bytes[target..target + length].copy_from_slice(&from.bytes[source..source + length]);
        let Some(d) = (0..outer).rev().find(|d| index[*d] + 1 < sizes[*d]) else {
            return;
        };
        index[d] += 1;
        index[d + 1..].fill(0);
    }
}

fn on_host(buffer: &Buffer) -> Result<Cow<'_, [u8]>> {
    counters::d2h(buffer.size_bytes() as u64);
    if let Some(bytes) = buffer.host_bytes()? {
        return Ok(bytes.into());
    }
    let mut bytes = vec![0; buffer.size_bytes()];
    buffer.to_host(&mut bytes)?;
    Ok(bytes.into())
}

/// The elements without the room between and behind them.
///
/// # Errors
/// What the transfer meets.
pub(crate) fn cut_on_host(buffer: &Buffer, room: &Room) -> Result<Vec<u8>> {
    let width = buffer.shape().ty.size_bytes();
    let (sizes, source) = (room.sizes(), on_host(buffer)?);
    let mut target = vec![0; sizes.iter().product::<i64>() as usize * width];
    let from = Side {
        bytes: &*source,
        offset: 0,
        strides: &dense(&room.dims()),
    };
    let to = Side {
        bytes: &mut *target,
        offset: 0,
        strides: &dense(&sizes),
    };
    copy(from, to, &sizes, width);
    Ok(target)
}

/// As [`cut_on_host`], on the device.
///
/// # Errors
/// What the transfers meet.
pub(crate) fn cut(buffer: &Arc<Buffer>, room: &Room) -> Result<Arc<Buffer>> {
    if room.is_full() {
        return Ok(Arc::clone(buffer));
    }
    counters::cut();
    let bytes = cut_on_host(buffer, room)?;
    let shape = Shape::new(buffer.shape().ty, &room.sizes());
    Ok(Arc::new(runtime::get()?.upload(&bytes, &shape)?))
}

/// Dimensions from the slowest to the fastest in memory, if the tensor is its whole storage.
pub(crate) fn order_of(t: &Tensor<'_>) -> Option<layout::Order> {
    let mut order: layout::Order = (0..t.sizes.len()).collect();
    order.sort_by_key(|d| (std::cmp::Reverse(t.strides[*d]), *d));
    let want = layout::strides(t.sizes, &order);
    let lies = |d: usize| t.sizes[d] == 1 || t.strides[d] == want[d];
    let whole = t.offset == 0 && t.numel() == t.storage_numel();
    (whole && (0..t.sizes.len()).all(lies)).then_some(order)
}

/// The buffer of a tensor that lies in this room, whose dimensions have these factors (in the order
/// in which the room has them): the one that the storage has, or a copy made on the host.
///
/// # Errors
/// A storage that was lost, or what the transfers meet.
pub(crate) fn with_room(
    t: &Tensor<'_>,
    room: &Room,
    factors: &[(usize, SmallVec<[Extent; 3]>)],
) -> Result<Arc<Buffer>> {
    let shape = Shape::new(element_type(t.dtype), &room.dims());
    if let Some((buffer, Some(held))) = t.cell.held()?
        && order_of(t).is_some()
        && (&*held, buffer.shape()) == (room, &shape)
    {
        return Ok(buffer);
    }
    counters::padded();
    let width = t.dtype.size();
    // Ones in every bit are NaN: what is not masked shows.
    let filler = if t.dtype == DType::Bool { 1 } else { u8::MAX };
    let mut target = vec![filler; shape.size_bytes()];
    let (mut sizes, mut rooms, mut strides) = (Dims::new(), Dims::new(), Dims::new());
    for (d, extents) in factors {
        let (at, mut step) = (sizes.len(), t.strides[*d]);
        for e in extents.iter().rev() {
            sizes.insert(at, e.size);
            rooms.insert(at, e.room);
            strides.insert(at, step);
            step *= e.size;
        }
    }
    let source = bytes_of(t.cell)?;
    let from = Side {
        bytes: &*source,
        offset: t.offset,
        strides: &strides,
    };
    let to = Side {
        bytes: &mut *target,
        offset: 0,
        strides: &dense(&rooms),
    };
    copy(from, to, &sizes, width);
    Ok(Arc::new(runtime::get()?.upload(&target, &shape)?))
}

/// The bytes of a storage on the host, without room.
fn bytes_of(cell: &Cell) -> Result<Vec<u8>> {
    Ok(match cell.held()? {
        None => vec![0; cell.nbytes()],
        Some((buffer, Some(room))) => cut_on_host(&buffer, &room)?,
        Some((buffer, None)) => on_host(&buffer)?.into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(size: i64, room: i64) -> Extent {
        Extent {
            size,
            room,
            open: size != room,
        }
    }

    #[test]
    fn known_factors_next_to_each_other_are_one() {
        let room = Room::of([
            extent(2, 2),
            extent(3, 3),
            extent(5, 8),
            extent(1, 1),
            extent(4, 4),
        ]);
        assert_eq!(room.dims().as_slice(), [6, 8, 4]);
        assert_eq!(room.sizes().as_slice(), [6, 5, 4]);
    }

    #[test]
    fn copies_follow_strides_on_both_sides() {
        // 2x3 out of its transpose, into rows of 4.
        let source: Vec<u8> = (0..6).collect();
        let mut target = vec![9; 8];
        let from = Side {
            bytes: &source[..],
            offset: 0,
            strides: &[1, 2],
        };
        let to = Side {
            bytes: &mut target[..],
            offset: 0,
            strides: &[4, 1],
        };
        copy(from, to, &[2, 3], 1);
        assert_eq!(target, [0, 2, 4, 9, 1, 3, 5, 9]);
    }
}
