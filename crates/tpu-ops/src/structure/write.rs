//! Tensors with a part replaced: what AOTAutograd makes of a write through a view.
use super::{B, Size, bounds, listed, positions, within};
use crate::{Result, check, error::ensure, promote::cast, scatter::set_slices};
use tpu_hlo::{DType, Dims, Value};

/// `x` with `src` from position `start` of dimension `dim` on.
fn put(b: &mut B, x: Value, src: Value, dim: usize, start: i64) -> Result<Value> {
    let from = (0..b.rank(x)).map(|d| if d == dim { start } else { 0 });
    let from: Vec<Value> = from.map(|i| b.scalar(i, DType::I64)).collect();
    Ok(b.dynamic_update_slice(x, src, &from)?)
}

pub(super) fn select(b: &mut B, x: Value, src: Value, dim: i64, index: i64) -> Result<Value> {
    let dim = check::dim(dim, b.rank(x))? as usize;
    let mut dims = b.dims(x);
    let at = within(index, dims[dim])?;
    dims[dim] = 1;
    let src = cast(b, src, b.dtype(x));
    let src = b.reshape(src, &dims)?;
    put(b, x, src, dim, at)
}

pub(super) fn slice(
    b: &mut B,
    x: Value,
    src: Value,
    dim: i64,
    start: Size,
    end: Size,
    step: i64,
) -> Result<Value> {
    ensure!(step > 0, "slice step must be positive");
    let axis = check::dim(dim, b.rank(x))?;
    let dim = axis as usize;
    let mut dims = b.dims(x);
    let (start, end) = bounds(start, end, dims[dim]);
    let at: Vec<i64> = (start..end).step_by(step as usize).collect();
    dims[dim] = at.len() as i64;
    let src = cast(b, src, b.dtype(x));
    let src = b.broadcast(src, &dims)?;
    if b.ty(src).numel() == 0 {
        return Ok(x);
    }
    if step == 1 {
        return put(b, x, src, dim, start);
    }
    let at = b.constant_ints(&at, DType::I64);
    set_slices(b, x, axis, at, src)
}

pub(super) fn as_strided(
    b: &mut B,
    x: Value,
    src: Value,
    size: Dims,
    stride: Dims,
    offset: Size,
) -> Result<Value> {
    listed(b, &size)?;
    put_at(b, x, src, &positions(&size, &stride, offset))
}

pub(super) fn diagonal(
    b: &mut B,
    x: Value,
    src: Value,
    offset: i64,
    dim1: i64,
    dim2: i64,
) -> Result<Value> {
    let dims = b.dims(x);
    listed(b, &dims)?;
    let (i, j) = (check::dim(dim1, dims.len())?, check::dim(dim2, dims.len())?);
    let (i, j) = (i as usize, j as usize);
    let mut strides = dims.clone();
    let mut step = 1;
    for (stride, n) in strides.iter_mut().zip(&dims).rev() {
        *stride = step;
        step *= n;
    }
    let rest = |all: &Dims| -> Dims {
        let kept = (0..dims.len()).filter(|d| *d != i && *d != j);
        kept.map(|d| all[d]).collect()
    };
    let (mut size, mut stride) = (rest(&dims), rest(&strides));
    size.push(b.dims(src).last().copied().unwrap_or(0));
    stride.push(strides[i] + strides[j]);
    let first = offset.max(0) * strides[j] + (-offset).max(0) * strides[i];
    put_at(b, x, src, &positions(&size, &stride, Some(first)))
}

/// `x` with the elements of `src` at places of its row-major memory.
fn put_at(b: &mut B, x: Value, src: Value, at: &[i64]) -> Result<Value> {
    let (dims, n) = (b.dims(x), b.ty(x).numel());
    ensure!(
        at.len() as i64 == b.ty(src).numel() && at.iter().all(|i| (0..n).contains(i)),
        "expected src to have a size equal to the slice of self"
    );
    let src = cast(b, src, b.dtype(x));
    let (x, src) = (b.reshape(x, &[n])?, b.reshape(src, &[at.len() as i64])?);
    let at = b.constant_ints(at, DType::I64);
    let y = set_slices(b, x, 0, at, src)?;
    Ok(b.reshape(y, &dims)?)
}
