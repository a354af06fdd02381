//! Views as programs: rows for graphs alone. Eager execution makes views of strides and runs
//! nothing.
//!
//! In a graph every value is a tensor of its own: AOTAutograd has made writes functional, and what
//! aliases what outside of the graph it puts right itself.
mod write;

use crate::{Ignored, Op, Result, check, error::ensure, index::take_slices, op::op, promote::cast};
use tpu_hlo::{Builder, DType, Dims, Number, Value};

type B = Builder;
type Size = Option<i64>;

/// Rows that [`crate::get`] does not find, since no dispatcher calls them.
#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_conj",                conjugate),
    op!("_neg_view",            |b: &mut B, x| b.negate(x)),
    op!("_reshape_alias",       |b: &mut B, x, n: Dims, _: Ignored| view(b, x, n)),
    op!("_to_copy",             |b: &mut B, x, t: Option<DType>, _: Ignored, _: Ignored,
                                 _: Ignored, _: Ignored, _: Ignored| t.map_or(x, |t| cast(b, x, t))),
    op!("_unsafe_view",         view),
    op!("alias",                same),
    op!("as_strided",           as_strided),
    op!("as_strided_scatter",   write::as_strided),
    op!("clone",                |_: &mut B, x: Value, _: Ignored| x),
    op!("detach",               same),
    op!("diagonal",             diagonal),
    op!("diagonal_scatter",     write::diagonal),
    op!("expand",               |b: &mut B, x, n: Dims, _: Ignored| expand(b, x, n)),
    op!("lift_fresh",           same),
    op!("lift_fresh_copy",      same),
    op!("permute",              permute),
    op!("scalar_tensor",        |b: &mut B, n: Number, t: DType| b.scalar(n, t)),
    op!("select.int",           select),
    op!("select_scatter",       write::select),
    op!("slice.Tensor",         slice),
    op!("slice_scatter",        write::slice),
    op!("split.Tensor",         split),
    op!("split_with_sizes",     split_with_sizes),
    op!("squeeze",              |b: &mut B, x| squeeze(b, x, None)),
    op!("squeeze.dim",          |b: &mut B, x, d: i64| squeeze(b, x, Some(Dims::from_slice(&[d])))),
    op!("squeeze.dims",         |b: &mut B, x, d: Dims| squeeze(b, x, Some(d))),
    op!("t",                    |b: &mut B, x| transpose(b, x, 0, 1)),
    op!("transpose.int",        transpose),
    op!("unbind.int",           unbind),
    op!("unfold",               unfold),
    op!("unsqueeze",            unsqueeze),
    op!("view",                 view),
    op!("view.dtype",           |b: &mut B, x, t| view_dtype(b, x, t)),
    op!("view_as_complex",      view_as_complex),
    op!("view_as_real",         view_as_real),
];

fn same(_: &mut B, x: Value) -> Value {
    x
}

fn conjugate(b: &mut B, x: Value) -> Result<Value> {
    let (re, im) = (b.real(x), b.imag(x));
    let im = b.negate(im);
    Ok(b.complex(re, im)?)
}

/// One size may be -1: what is left.
fn view(b: &mut B, x: Value, size: Dims) -> Result<Value> {
    let numel = b.numel(x);
    let known: i64 = size.iter().filter(|n| **n != -1).product();
    let fits = if size.contains(&-1) {
        known != 0 && numel % known == 0
    } else {
        known == numel
    };
    ensure!(
        fits,
        "shape '{:?}' is invalid for input of size {numel}",
        size.as_slice()
    );
    let fill = |n: &i64| if *n == -1 { numel / known } else { *n };
    let size: Dims = size.iter().map(fill).collect();
    Ok(b.reshape(x, &size)?)
}

fn view_dtype(b: &mut B, x: Value, dtype: DType) -> Result<Value> {
    Ok(if b.dtype(x).size() == dtype.size() {
        b.bitcast_convert(x, dtype)
    } else {
        let dims = b.dims(x);
        let y = b.bitcast_resize(x, dtype)?;
        // A last dimension of bytes of one element joins the one before it.
        let mut merged = dims;
        if let Some(last) = merged.last_mut() {
            *last = b.ty(y).numel() / (b.ty(x).numel() / *last).max(1);
        }
        b.reshape(y, &merged)?
    })
}

/// -1 keeps a size.
fn expand(b: &mut B, x: Value, size: Dims) -> Result<Value> {
    let from = b.dims(x);
    let shift = size.len().saturating_sub(from.len());
    let keep = |(i, n): (usize, &i64)| match i.checked_sub(shift) {
        Some(i) if *n == -1 => from[i],
        _ => *n,
    };
    let size: Dims = size.iter().enumerate().map(keep).collect();
    check::expand(&from, &size)?;
    Ok(b.broadcast(x, &size)?)
}

fn permute(b: &mut B, x: Value, dims: Dims) -> Result<Value> {
    ensure!(
        dims.len() == b.rank(x),
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length \
         of the desired ordering of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
        b.rank(x),
        dims.len()
    );
    let order = check::dims(Some(&dims), b.rank(x))?;
    Ok(b.transpose(x, &order)?)
}

fn transpose(b: &mut B, x: Value, dim0: i64, dim1: i64) -> Result<Value> {
    let rank = b.rank(x);
    if rank < 2 {
        return Ok(x);
    }
    let (i, j) = (check::dim(dim0, rank)?, check::dim(dim1, rank)?);
    let mut order: Dims = (0..rank as i64).collect();
    order.swap(i as usize, j as usize);
    Ok(b.transpose(x, &order)?)
}

fn select(b: &mut B, x: Value, dim: i64, index: i64) -> Result<Value> {
    let dim = check::dim(dim, b.rank(x))?;
    let mut dims = b.dims(x);
    let at = within(index, dims[dim as usize])?;
    let y = b.slice_dim(x, dim, at, at + 1)?;
    dims.remove(dim as usize);
    Ok(b.reshape(y, &dims)?)
}

/// A position counted from the front.
fn within(index: i64, size: i64) -> Result<i64> {
    ensure!(
        -size <= index && index < size,
        Index,
        "select(): index {index} out of range for tensor with size {size}"
    );
    Ok(if index < 0 { index + size } else { index })
}

/// First and last position of a slice, as Python clamps them.
fn bounds(start: Size, end: Size, size: i64) -> (i64, i64) {
    let clamp = |i: i64| (if i < 0 { i.saturating_add(size) } else { i }).clamp(0, size);
    let start = clamp(start.unwrap_or(0));
    (start, clamp(end.unwrap_or(i64::MAX)).max(start))
}

fn slice(b: &mut B, x: Value, dim: i64, start: Size, end: Size, step: i64) -> Result<Value> {
    ensure!(step > 0, "slice step must be positive");
    let dim = check::dim(dim, b.rank(x))? as usize;
    let (mut lo, mut hi) = (b.dims(x), b.dims(x));
    let mut steps = hi.clone();
    lo.fill(0);
    steps.fill(1);
    // Of a size that only a launch knows it was seen when the graph was traced that it fits.
    let open = |i: Size| i.is_some_and(|i| b.depends(i));
    (lo[dim], hi[dim]) = match end {
        Some(end) if open(Some(end)) && !b.depends(hi[dim]) => (start.unwrap_or(0), end),
        _ if open(start) && !b.depends(hi[dim]) => {
            (start.unwrap_or(0), bounds(None, end, hi[dim]).1)
        }
        _ => bounds(start, end, hi[dim]),
    };
    steps[dim] = step;
    Ok(b.slice(x, &lo, &hi, &steps)?)
}

fn split(b: &mut B, x: Value, size: i64, dim: i64) -> Result<Vec<Value>> {
    let n = b.dims(x)[check::dim(dim, b.rank(x))? as usize];
    ensure!(
        size > 0 || n == 0,
        "split_size can only be 0 if dimension size is 0, but got dimension size of {n}"
    );
    let count = if n == 0 { 1 } else { (n + size - 1) / size };
    let sizes = (0..count).map(|i| size.min(n - i * size)).collect();
    split_with_sizes(b, x, sizes, dim)
}

fn split_with_sizes(b: &mut B, x: Value, sizes: Dims, dim: i64) -> Result<Vec<Value>> {
    let dim = check::dim(dim, b.rank(x))?;
    let n = b.dims(x)[dim as usize];
    ensure!(
        sizes.iter().sum::<i64>() == n,
        "split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at \
         dimension {dim}), but got split_sizes={:?}",
        sizes.as_slice()
    );
    let mut start = 0;
    let part = |n: &i64| {
        start += n;
        Ok(b.slice_dim(x, dim, start - n, start)?)
    };
    sizes.iter().map(part).collect()
}

fn unbind(b: &mut B, x: Value, dim: i64) -> Result<Vec<Value>> {
    let n = b.dims(x)[check::dim(dim, b.rank(x))? as usize];
    (0..n).map(|i| select(b, x, dim, i)).collect()
}

fn squeeze(b: &mut B, x: Value, dims: Option<Dims>) -> Result<Value> {
    let from = b.dims(x);
    let among = check::dims(dims.as_deref(), from.len())?;
    let chosen = |i: usize| dims.is_none() || (among.contains(&(i as i64)));
    let kept = (0..from.len()).filter(|i| from[*i] != 1 || !chosen(*i));
    let to: Dims = kept.map(|i| from[i]).collect();
    Ok(b.reshape(x, &to)?)
}

fn unsqueeze(b: &mut B, x: Value, dim: i64) -> Result<Value> {
    let dim = check::dim(dim, b.rank(x) + 1)?;
    let mut dims = b.dims(x);
    dims.insert(dim as usize, 1);
    Ok(b.reshape(x, &dims)?)
}

/// What lists every position it reads has to know them all.
fn listed(b: &B, sizes: &[i64]) -> Result<()> {
    ensure!(
        !sizes.iter().any(|n| b.depends(*n)),
        "its positions follow from sizes that only a launch knows"
    );
    Ok(())
}

fn diagonal(b: &mut B, x: Value, offset: i64, dim1: i64, dim2: i64) -> Result<Value> {
    let rank = b.rank(x);
    let (i, j) = (check::dim(dim1, rank)?, check::dim(dim2, rank)?);
    ensure!(i != j, "diagonal dimensions cannot be identical {i}, {j}");
    listed(b, &b.dims(x))?;
    let rest = (0..rank as i64).filter(|d| *d != i && *d != j);
    let order: Dims = rest.chain([i, j]).collect();
    let x = b.transpose(x, &order)?;
    let mut dims = b.dims(x);
    let (columns, rows) = (dims.pop().unwrap_or(1), dims.pop().unwrap_or(1));
    let n = if offset >= 0 {
        rows.min(columns - offset)
    } else {
        (rows + offset).min(columns)
    };
    let n = n.max(0);
    let first = offset.max(0) + (-offset).max(0) * columns;
    dims.push(rows * columns);
    let x = b.reshape(x, &dims)?;
    let at: Vec<i64> = (0..n).map(|k| first + k * (columns + 1)).collect();
    let at = b.constant_ints(&at, DType::I64);
    take_slices(b, x, dims.len() as i64 - 1, at)
}

/// Windows of `size` elements every `step` along a dimension; the window is the last dimension.
fn unfold(b: &mut B, x: Value, dim: i64, size: i64, step: i64) -> Result<Value> {
    let rank = b.rank(x);
    if rank == 0 {
        return Ok(b.reshape(x, &[size])?);
    }
    let dim = check::dim(dim, rank)?;
    let n = b.dims(x)[dim as usize];
    listed(b, &[n, size])?;
    ensure!(
        size <= n,
        "maximum size for tensor at dimension {dim} is {n} but size is {size}"
    );
    let count = (n - size) / step + 1;
    let at: Vec<i64> = (0..count)
        .flat_map(|i| (0..size).map(move |j| i * step + j))
        .collect();
    let at = b.constant_ints(&at, DType::I64);
    let y = take_slices(b, x, dim, at)?;
    let mut dims = b.dims(y);
    dims[dim as usize] = count;
    dims.insert(dim as usize + 1, size);
    let y = b.reshape(y, &dims)?;
    let window = dim + 1;
    let others = (0..dims.len() as i64).filter(|d| *d != window);
    let order: Dims = others.chain([window]).collect();
    Ok(b.transpose(y, &order)?)
}

/// Elements of `x`, whose own memory is row-major, by strides.
fn as_strided(b: &mut B, x: Value, size: Dims, stride: Dims, offset: Size) -> Result<Value> {
    listed(b, &size)?;
    let (at, n) = (positions(&size, &stride, offset), b.ty(x).numel());
    ensure!(
        at.iter().all(|i| (0..n).contains(i)),
        "setStorage: sizes {:?}, strides {:?}, storage offset {} are out of bounds for storage of \
         {n} elements",
        size.as_slice(),
        stride.as_slice(),
        offset.unwrap_or(0)
    );
    let x = b.reshape(x, &[n])?;
    let at = b.constant_ints(&at, DType::I64);
    let y = take_slices(b, x, 0, at)?;
    Ok(b.reshape(y, &size)?)
}

/// Place in memory of every element of a view, in row-major order.
fn positions(size: &[i64], stride: &[i64], offset: Size) -> Vec<i64> {
    let mut at = vec![offset.unwrap_or(0)];
    for (n, s) in size.iter().zip(stride) {
        at = at
            .iter()
            .flat_map(|start| (0..*n).map(move |i| start + i * s))
            .collect();
    }
    at
}

fn view_as_real(b: &mut B, x: Value) -> Result<Value> {
    let mut dims = b.dims(x);
    dims.push(1);
    let (re, im) = (b.real(x), b.imag(x));
    let (re, im) = (b.reshape(re, &dims)?, b.reshape(im, &dims)?);
    Ok(b.concatenate(&[re, im], dims.len() as i64 - 1)?)
}

fn view_as_complex(b: &mut B, x: Value) -> Result<Value> {
    let rank = b.rank(x) as i64;
    ensure!(
        rank > 0 && b.dims(x)[rank as usize - 1] == 2,
        "Tensor must have a last dimension of size 2"
    );
    let (re, im) = (select(b, x, rank - 1, 0)?, select(b, x, rank - 1, 1)?);
    Ok(b.complex(re, im)?)
}

#[cfg(test)]
mod tests;
