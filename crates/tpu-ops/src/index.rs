//! Reading at computed positions.
use crate::{
    Counts, Ignored, Op, OutDtype, Result, check,
    error::ensure,
    op::{Plain, op},
    promote::broadcast_shapes,
    reduce::position_dtype,
};
use std::marker::PhantomData;
use tpu_hlo::{Builder, DType, Dims, Direction, GatherDims, Value};

pub(crate) mod pick;
use pick::{Pick, count_true, mask_counts, true_positions, unravel};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_unsafe_index.Tensor", index).counted(&Plain(mask_counts, PhantomData)),
    op!("gather",               gather).apart(&[0, 2]),
    op!("index.Tensor",         index).counted(&Plain(mask_counts, PhantomData)),
    op!("index_select",         index_select)
        .out(OutDtype::Exact("index_select(): self and result must have the same scalar type"))
        .apart(&[0, 2]),
    op!("masked_select",        masked_select).counted(&Plain(masked_count, PhantomData))
        .out(OutDtype::Exact("masked_select(): self and result must have the same scalar type"))
        .apart(&[0, 1]),
    op!("nonzero",              nonzero).counted(&Plain(count_true, PhantomData))
        .out(OutDtype::Exact(
            "nonzero: Expected out tensor to have scalar type Long but got scalar \
             type{out}",
        )).apart(&[0]),
    op!("nonzero_static",       nonzero_static),
    op!("take",                 take)
        .out(OutDtype::Exact(
            "take(): self and out expected to have the same dtype, but got self.dtype = \
             {result} and out.dtype = {out}",
        )).apart(&[0, 1]),
];

/// Whether a dtype can hold positions.
pub(crate) const fn is_position(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

/// Positions of `size` slots in the narrowest dtype that XLA's index arithmetic may use.
pub(crate) fn narrow(b: &mut B, index: Value, size: i64) -> Value {
    let dtype = position_dtype(size);
    b.convert(index, dtype)
}

/// Counts negative positions from the end.
pub(crate) fn wrap(b: &mut B, index: Value, size: i64) -> Result<Value> {
    let (zero, end) = (b.full_like(index, 0), b.size_like(index, size)?);
    let negative = b.compare(index, Direction::LT, zero)?;
    let wrapped = b.add(index, end)?;
    Ok(b.select(negative, wrapped, index)?)
}

/// A tensor of shape `dims` when a read from `x` cannot find anything: empty, or an error.
pub(crate) fn nothing(b: &mut B, x: Value, dims: &[i64]) -> Result<Option<Value>> {
    if b.ty(x).numel() > 0 {
        return Ok(None);
    }
    ensure!(dims.contains(&0), Index, "index out of range in self");
    Ok(Some(b.full(0, b.dtype(x), dims)))
}

/// Slices of `x` along `axis` at `index`, of any shape and within bounds: the result's shape is
/// `x`'s with `axis` replaced by `index`'s shape.
pub(crate) fn take_slices(b: &mut B, x: Value, axis: i64, index: Value) -> Result<Value> {
    let (from, at, rank) = (b.dims(x), b.dims(index), b.rank(index) as i64);
    let mut out: Dims = from[..axis as usize].into();
    out.extend_from_slice(&at);
    out.extend_from_slice(&from[axis as usize + 1..]);
    if let Some(empty) = nothing(b, x, &out)? {
        return Ok(empty);
    }
    let mut slice = from.clone();
    slice[axis as usize] = 1;
    let index = narrow(b, index, from[axis as usize]);
    let dims = GatherDims {
        offset_dims: (0..out.len() as i64)
            .filter(|i| *i < axis || *i >= axis + rank)
            .collect(),
        collapsed_slice_dims: Dims::from_slice(&[axis]),
        start_index_map: Dims::from_slice(&[axis]),
        index_vector_dim: rank,
        ..GatherDims::default()
    };
    Ok(b.gather(x, index, &dims, &slice)?)
}

/// One element of `x` per element of `index`, whose shape it has but along `axis`; within bounds.
pub(crate) fn take_along(b: &mut B, x: Value, axis: i64, index: Value) -> Result<Value> {
    let (from, at) = (b.dims(x), b.dims(index));
    if let Some(empty) = nothing(b, x, &at)? {
        return Ok(empty);
    }
    let rank = from.len() as i64;
    let others: Dims = (0..rank).filter(|i| *i != axis).collect();
    let mut column = at.clone();
    column.push(1);
    let index = narrow(b, index, from[axis as usize]);
    let index = b.reshape(index, &column)?;
    let dims = GatherDims {
        collapsed_slice_dims: Dims::from_slice(&[axis]),
        operand_batching_dims: others.clone(),
        start_indices_batching_dims: others,
        start_index_map: Dims::from_slice(&[axis]),
        index_vector_dim: rank,
        ..GatherDims::default()
    };
    let ones: Dims = from.iter().map(|_| 1).collect();
    Ok(b.gather(x, index, &dims, &ones)?)
}

/// `out[i][j] = self[index[i][j]][j]` for `dim` 0
fn gather(b: &mut B, x: Value, dim: i64, index: Value, _sparse_grad: Ignored) -> Result<Value> {
    let axis = check::dim(dim, b.rank(x))?;
    fits_gather(b, x, axis, index)?;
    let at = b.dims(index);
    if at.contains(&0) {
        return Ok(b.full(0, b.dtype(x), &at));
    }
    let (x, index) = (at_least_1d(b, x)?, at_least_1d(b, index)?);
    let size = b.dims(x)[axis as usize];
    check::bounds(
        b,
        index,
        (0, size),
        out_of_bounds("RuntimeError", axis, size),
    )?;
    let mut limit = b.dims(index);
    limit[axis as usize] = size;
    let x = corner(b, x, &limit)?;
    let y = take_along(b, x, axis, index)?;
    Ok(b.reshape(y, &at)?)
}

fn fits_gather(b: &B, x: Value, axis: i64, index: Value) -> Result<()> {
    let (from, at) = (b.dims(x), b.dims(index));
    if at.contains(&0) {
        return Ok(());
    }
    ensure!(
        is_position(b.dtype(index)),
        "gather(): Expected dtype int32/int64 for index"
    );
    ensure!(
        from.len().max(1) == at.len().max(1),
        "Index tensor must have the same number of dimensions as input tensor"
    );
    for (i, (n, m)) in from.iter().zip(&at).enumerate() {
        ensure!(
            i as i64 == axis || m <= n,
            "Size does not match at dimension {i} expected index {at:?} to be no larger than self \
             {from:?} apart from dimension {axis}"
        );
    }
    Ok(())
}

/// The message that PyTorch gives for a position outside dimension `axis`.
pub(crate) fn out_of_bounds(class: &str, axis: i64, size: i64) -> String {
    format!("{class}: index {{}} is out of bounds for dimension {axis} with size {size}")
}

/// A 0-dimensional tensor as a vector of one.
pub(crate) fn at_least_1d(b: &mut B, x: Value) -> Result<Value> {
    if b.rank(x) > 0 {
        Ok(x)
    } else {
        Ok(b.reshape(x, &[1])?)
    }
}

/// The leading `dims` elements of every dimension.
pub(crate) fn corner(b: &mut B, x: Value, dims: &[i64]) -> Result<Value> {
    let (start, ones): (Dims, Dims) = dims.iter().map(|_| (0, 1)).unzip();
    Ok(b.slice(x, &start, dims, &ones)?)
}

/// Slices of `self` along `dim`, in the order of `index`.
fn index_select(b: &mut B, x: Value, dim: i64, index: Value) -> Result<Value> {
    let (dims, axis) = (b.dims(x), check::dim(dim, b.rank(x))?);
    ensure!(
        b.rank(index) <= 1,
        Index,
        "index_select(): Index is supposed to be a vector, but got dim: {}",
        b.rank(index)
    );
    ensure!(
        is_position(b.dtype(index)),
        "index_select(): Expected dtype int32 or int64 for index but got: {}",
        b.dtype(index).torch()
    );
    let (x, index) = (at_least_1d(b, x)?, at_least_1d(b, index)?);
    ensure!(
        !dims.is_empty() || b.ty(index).numel() == 1,
        Index,
        "index_select(): Index to scalar can have only 1 value, got {} value(s)",
        b.ty(index).numel()
    );
    let size = b.dims(x)[axis as usize];
    check::bounds(
        b,
        index,
        (0, size),
        "IndexError: index out of range in self",
    )?;
    let y = take_slices(b, x, axis, index)?;
    if dims.is_empty() {
        Ok(b.reshape(y, &[])?)
    } else {
        Ok(y)
    }
}

/// `self[indices]`
fn index(b: &mut B, x: Value, indices: Vec<Option<Value>>, counts: Counts) -> Result<Value> {
    if indices.iter().all(Option::is_none) {
        return Ok(x);
    }
    Pick::new(b, x, &indices, &counts)?.read(b, x)
}

/// Elements at positions of the flattened tensor.
fn take(b: &mut B, x: Value, index: Value) -> Result<Value> {
    ensure!(
        b.dtype(index) == DType::I64,
        Index,
        "take(): Expected a long tensor for index, but got {}",
        b.dtype(index).torch()
    );
    let size = b.ty(x).numel();
    let many = b.ty(index).numel() > 0;
    ensure!(
        size > 0 || !many,
        Index,
        "take(): tried to take from an empty tensor"
    );
    let flat = b.reshape(x, &[size])?;
    check::bounds(b, index, (-size, size), out_of_range(size))?;
    let index = wrap(b, index, size)?;
    take_slices(b, flat, 0, index)
}

/// The message of `take` and `put`.
pub(crate) fn out_of_range(size: i64) -> String {
    format!("IndexError: out of range: tried to access index {{}} on a tensor of {size} elements.")
}

/// One row of coordinates for each element that differs from zero; in memory one line of them for
/// each dimension.
fn nonzero(b: &mut B, x: Value, count: i64) -> Result<Value> {
    let dims = b.dims(x);
    if count == 0 || dims.is_empty() {
        return Ok(b.full(0, DType::I64, &[count, dims.len() as i64]));
    }
    let flat = true_positions(b, x, count)?;
    let mut columns = unravel(b, flat, &dims)?;
    for column in &mut columns {
        *column = b.convert(*column, DType::I64);
        *column = b.reshape(*column, &[count, 1])?;
    }
    let rows = b.concatenate(&columns, 1)?;
    b.set_order(rows, &[1, 0]);
    Ok(rows)
}

/// [`nonzero`] of a given length: cut, or filled up with `fill`.
fn nonzero_static(b: &mut B, x: Value, size: i64, fill: i64) -> Result<Value> {
    ensure!(
        size >= 0,
        "nonzero_static: 'size' must be an non-negative integer"
    );
    let rows = nonzero(b, x, size)?;
    if b.ty(rows).numel() == 0 {
        return Ok(rows);
    }
    let dims = b.dims(rows);
    let count = count_true(b, x)?;
    let count = b.broadcast(count, &dims)?;
    let nth = b.iota(DType::I64, &dims, 0);
    let found = b.compare(nth, Direction::LT, count)?;
    let fill = b.full_like(rows, fill);
    Ok(b.select(found, rows, fill)?)
}

/// `mask` and `self`, broadcast together.
fn masked(b: &mut B, x: Value, mask: Value) -> Result<(Value, Value)> {
    ensure!(
        pick::is_mask(b, mask),
        "masked_select: expected BoolTensor for mask"
    );
    let dims = broadcast_shapes(&[&b.dims(x), &b.dims(mask)])?;
    Ok((b.broadcast(x, &dims)?, b.broadcast(mask, &dims)?))
}

fn masked_count(b: &mut B, x: Value, mask: Value) -> Result<Value> {
    let (_, mask) = masked(b, x, mask)?;
    count_true(b, mask)
}

/// The elements where `mask` holds.
fn masked_select(b: &mut B, x: Value, mask: Value, count: i64) -> Result<Value> {
    let (x, mask) = masked(b, x, mask)?;
    if count == 0 {
        return Ok(b.full(0, b.dtype(x), &[0]));
    }
    let flat = b.reshape(x, &[b.ty(x).numel()])?;
    let positions = true_positions(b, mask, count)?;
    take_slices(b, flat, 0, positions)
}

#[cfg(test)]
mod tests;
