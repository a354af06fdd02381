//! `Tensor?[]` indices, which `index` reads at and `index_put` writes to.
use super::{narrow, out_of_bounds, wrap};
use crate::{
    Counts, Error, Result, check,
    error::ensure,
    promote::{broadcast_shapes, cast},
    reduce::position_dtype,
    scan::cumulative_sum,
    sort::{Side, count_before},
};
use tpu_hlo::{Builder, DType, Dims, GatherDims, ScatterDims, Value};

type B = Builder;

/// Index tensors of an indexed tensor, ready for XLA's gather and scatter.
pub(crate) struct Pick {
    /// Positions within bounds; the last dimension has one per indexed dimension.
    pub(crate) starts: Value,
    /// Shape of what is picked.
    pub(crate) dims: Dims,
    axes: Dims,
    /// The dimensions of [`Pick::dims`] that are not those of the index tensors.
    window: Dims,
    batch: i64,
}

/// An index of one dimension; those that come from masks need no check.
struct Column {
    index: Value,
    checked: bool,
}

/// Whether an index tensor is a mask.
pub(crate) fn is_mask(b: &B, index: Value) -> bool {
    matches!(b.dtype(index), DType::Bool | DType::U8)
}

/// The number of true elements of every mask.
pub(crate) fn mask_counts(b: &mut B, _x: Value, indices: Vec<Option<Value>>) -> Result<Vec<Value>> {
    let masks = indices.into_iter().flatten();
    let masks: Vec<Value> = masks.filter(|i| is_mask(b, *i)).collect();
    masks.into_iter().map(|mask| count_true(b, mask)).collect()
}

/// How many elements differ from zero, an `I64` scalar.
pub(crate) fn count_true(b: &mut B, mask: Value) -> Result<Value> {
    let mask = cast(b, mask, DType::Bool);
    let ones = b.convert(mask, position_dtype(b.ty(mask).numel()));
    let axes: Dims = (0..b.rank(mask) as i64).collect();
    let count = b.sum(ones, &axes)?;
    Ok(b.convert(count, DType::I64))
}

/// Positions in the flattened `mask` of its first `count` true elements; its size where there
/// are fewer.
pub(crate) fn true_positions(b: &mut B, mask: Value, count: i64) -> Result<Value> {
    let numel = b.ty(mask).numel();
    let mask = cast(b, mask, DType::Bool);
    let mask = b.reshape(mask, &[numel])?;
    let at = position_dtype(numel.max(count));
    let ones = b.convert(mask, at);
    let found = cumulative_sum(b, ones, 0)?;
    let nth = b.iota(at, &[count], 0);
    count_before(b, found, nth, Side::Right)
}

/// The coordinates, dimension by dimension, of positions in a flattened tensor of shape `dims`.
pub(crate) fn unravel(b: &mut B, flat: Value, dims: &[i64]) -> Result<Vec<Value>> {
    let mut rest = flat;
    let mut columns = Vec::with_capacity(dims.len());
    for &n in dims.iter().skip(1).rev() {
        let size = b.full_like(rest, n.max(1));
        columns.push(b.remainder(rest, size)?);
        rest = b.divide(rest, size)?;
    }
    if !dims.is_empty() {
        columns.push(rest);
    }
    columns.reverse();
    Ok(columns)
}

impl Pick {
    /// `counts` has the number of true elements of every mask among `indices`.
    ///
    /// # Errors
    /// PyTorch's `IndexError`s about masks, dtypes, and shapes.
    pub(crate) fn new(
        b: &mut B,
        x: Value,
        indices: &[Option<Value>],
        counts: &Counts,
    ) -> Result<Self> {
        let from = b.dims(x);
        let columns = columns(b, &from, indices, counts)?;
        let axes: Dims = (0..columns.len())
            .filter(|i| columns[*i].is_some())
            .map(|i| i as i64)
            .collect();
        let columns: Vec<Column> = columns.into_iter().flatten().collect();
        let shape = common_shape(b, &columns)?;
        let starts = starts(b, &from, &axes, &columns, &shape)?;
        let rest: Dims = (0..from.len())
            .filter(|i| !axes.contains(&(*i as i64)))
            .map(|i| from[i])
            .collect();
        let adjacent = axes.windows(2).all(|w| w[1] == w[0] + 1);
        let at = if adjacent {
            axes.first().map_or(0, |a| *a as usize)
        } else {
            0
        };
        let mut dims = rest.clone();
        dims.insert_many(at, shape.iter().copied());
        let rank = dims.len();
        let window = (0..rank).filter(|i| *i < at || *i >= at + shape.len());
        let window = window.map(|i| i as i64).collect();
        Ok(Self {
            starts,
            dims,
            axes,
            window,
            batch: shape.len() as i64,
        })
    }

    /// What is picked from `x`.
    pub(crate) fn read(&self, b: &mut B, x: Value) -> Result<Value> {
        if self.dims.contains(&0) {
            return Ok(b.full(0, b.dtype(x), &self.dims));
        }
        let dims = GatherDims {
            offset_dims: self.window.clone(),
            collapsed_slice_dims: self.axes.clone(),
            start_index_map: self.axes.clone(),
            index_vector_dim: self.batch,
            ..GatherDims::default()
        };
        let mut slice = b.dims(x);
        for &a in &self.axes {
            slice[a as usize] = 1;
        }
        Ok(b.gather(x, self.starts, &dims, &slice)?)
    }

    /// `x` with `values`, of the shape of what is picked, written there.
    pub(crate) fn write(
        &self,
        b: &mut B,
        x: Value,
        values: Value,
        body: impl FnOnce(&mut B, Value, Value) -> Result<Value>,
    ) -> Result<Value> {
        let dims = ScatterDims {
            update_window_dims: self.window.clone(),
            inserted_window_dims: self.axes.clone(),
            scatter_dims_to_operand_dims: self.axes.clone(),
            index_vector_dim: self.batch,
            ..ScatterDims::default()
        };
        b.scatter(x, self.starts, values, &dims, false, body)
    }
}

/// One entry per leading dimension of the indexed tensor, masks taken apart.
fn columns(
    b: &mut B,
    from: &[i64],
    indices: &[Option<Value>],
    counts: &Counts,
) -> Result<Vec<Option<Column>>> {
    let mut counts = counts.0.iter();
    let mut columns = Vec::new();
    for index in indices {
        match *index {
            None => columns.push(None),
            Some(mask) if is_mask(b, mask) => {
                fits_mask(from, columns.len(), &b.dims(mask))?;
                let count = counts
                    .next()
                    .ok_or_else(|| Error::runtime("a mask without its number of true elements"))?;
                let flat = true_positions(b, mask, *count)?;
                let parts = unravel(b, flat, &b.dims(mask))?;
                columns.extend(parts.into_iter().map(|index| {
                    Some(Column {
                        index,
                        checked: true,
                    })
                }));
            }
            Some(index) => {
                ensure!(
                    super::is_position(b.dtype(index)),
                    Index,
                    "tensors used as indices must be long, int, byte or bool tensors"
                );
                columns.push(Some(Column {
                    index,
                    checked: false,
                }));
            }
        }
    }
    ensure!(
        columns.len() <= from.len(),
        Index,
        "too many indices for tensor of dimension {} (got {})",
        from.len(),
        columns.len()
    );
    Ok(columns)
}

/// A mask covers dimensions of its own sizes.
pub(crate) fn fits_mask(from: &[i64], at: usize, mask: &[i64]) -> Result<()> {
    for (i, &n) in mask.iter().enumerate() {
        ensure!(
            from.get(at + i) == Some(&n),
            Index,
            "The shape of the mask {mask:?} at index {i} does not match the shape of the indexed \
             tensor {from:?} at index {}",
            at + i
        );
    }
    Ok(())
}

fn common_shape(b: &B, columns: &[Column]) -> Result<Dims> {
    let shapes: Vec<Dims> = columns.iter().map(|c| b.dims(c.index)).collect();
    let refs: Vec<&[i64]> = shapes.iter().map(|s| s.as_slice()).collect();
    broadcast_shapes(&refs).map_err(|_| {
        let list: Vec<String> = refs.iter().map(|s| format!("{s:?}")).collect();
        Error::index(format!(
            "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
            list.join(", ")
        ))
    })
}

fn starts(
    b: &mut B,
    from: &[i64],
    axes: &[i64],
    columns: &[Column],
    shape: &Dims,
) -> Result<Value> {
    let mut long = shape.clone();
    long.push(1);
    // One dtype for all: XLA takes them as one tensor.
    let size = axes.iter().map(|a| from[*a as usize]).max().unwrap_or(1);
    let mut parts = Vec::with_capacity(columns.len());
    for (column, &axis) in columns.iter().zip(axes) {
        let size_here = from[axis as usize];
        let mut index = column.index;
        if !column.checked {
            ensure!(
                size_here > 0 || shape.contains(&0),
                Index,
                "index is out of bounds for dimension with size 0"
            );
            let message = out_of_bounds("IndexError", axis, size_here);
            check::bounds(b, index, (-size_here, size_here), message)?;
            index = narrow(b, index, size);
            index = wrap(b, index, size_here)?;
        }
        let index = narrow(b, index, size);
        let index = b.broadcast(index, shape)?;
        parts.push(b.reshape(index, &long)?);
    }
    if parts.is_empty() {
        long[shape.len()] = 0;
        return Ok(b.full(0, DType::I32, &long));
    }
    Ok(b.concatenate(&parts, shape.len() as i64)?)
}
