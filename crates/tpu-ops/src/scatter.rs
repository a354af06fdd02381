//! Writing at computed positions along a dimension.
use crate::{
    Factor, Op, Result, Scalar, check,
    error::ensure,
    index::{at_least_1d, corner, is_position, narrow, out_of_bounds, wrap},
    op::op,
    promote::{cast, opmath, scalar_like, widen},
};
use std::sync::Arc;
use tpu_hlo::{Builder, DType, Dims, Direction, ScatterDims, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("index_add",             index_add).apart(&[2, 3]),
    op!("index_copy",            index_copy).apart(&[2, 3]),
    op!("index_fill.int_Scalar", |b: &mut B, x, d, i, v: Scalar| index_fill(b, x, d, i, v.0)),
    op!("index_fill.int_Tensor", index_fill),
    op!("index_reduce",          index_reduce).apart(&[2, 3]),
    op!("scatter.reduce",        |b: &mut B, x, d, i, s, r: Arc<str>| {
        scatter(b, x, d, i, s, named(&r)?)
    }).apart(&[2, 3]),
    op!("scatter.src",           |b: &mut B, x, d, i, s| scatter(b, x, d, i, s, Merge::Set))
        .apart(&[2, 3]),
    op!("scatter.value",         |b: &mut B, x, d, i, v| scatter_value(b, x, d, i, v, Merge::Set))
        .apart(&[2]),
    op!("scatter.value_reduce",  |b: &mut B, x, d, i, v, r: Arc<str>| {
        scatter_value(b, x, d, i, v, named(&r)?)
    }).apart(&[2]),
    op!("scatter_add",           |b: &mut B, x, d, i, s| scatter(b, x, d, i, s, Merge::Add))
        .apart(&[2, 3]),
    op!("scatter_reduce.two",    scatter_reduce).apart(&[2, 3]),
];

/// What becomes of an element and what is written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Merge {
    Set,
    Add,
    Multiply,
    Max,
    Min,
}

impl Merge {
    pub(crate) fn apply(self, b: &mut B, old: Value, new: Value) -> Result<Value> {
        let truth = b.dtype(old) == DType::Bool;
        Ok(match self {
            Self::Set => new,
            Self::Add if truth => b.or(old, new)?,
            Self::Multiply if truth => b.and(old, new)?,
            Self::Add => b.add(old, new)?,
            Self::Multiply => b.multiply(old, new)?,
            Self::Max => b.maximum(old, new)?,
            Self::Min => b.minimum(old, new)?,
        })
    }

    /// The scalar that any element replaces.
    pub(crate) fn identity(self, b: &mut B, dtype: DType) -> Value {
        match self {
            Self::Set | Self::Add => b.scalar(0, dtype),
            Self::Multiply => b.scalar(1, dtype),
            Self::Max => b.lowest(dtype),
            Self::Min => b.highest(dtype),
        }
    }

    /// Sums and products of half-width floats are made in float32.
    pub(crate) fn dtype(self, dtype: DType) -> DType {
        if matches!(self, Self::Add | Self::Multiply) {
            opmath(dtype)
        } else {
            dtype
        }
    }
}

fn named(reduce: &str) -> Result<Merge> {
    match reduce {
        "add" => Ok(Merge::Add),
        "multiply" => Ok(Merge::Multiply),
        _ => Err(crate::Error::runtime(format!(
            "reduce argument must be either add or multiply, got {reduce}"
        ))),
    }
}

/// Where to write, along one dimension: element by element, or slice by slice.
pub(crate) enum Place {
    Elements(Value),
    Slices(Value),
}

impl Place {
    /// `x` with `updates` merged in along `axis`; positions are within bounds.
    pub(crate) fn write(
        &self,
        b: &mut B,
        x: Value,
        axis: i64,
        updates: Value,
        merge: Merge,
    ) -> Result<Value> {
        if b.ty(updates).numel() == 0 || b.ty(x).numel() == 0 {
            return Ok(x);
        }
        let dtype = b.dtype(x);
        let wide = merge.dtype(dtype);
        let (from, updates) = (cast(b, x, wide), cast(b, updates, wide));
        let y = match *self {
            Self::Elements(index) => write_elements(b, from, axis, index, updates, merge)?,
            Self::Slices(index) => write_slices(b, from, axis, index, updates, merge)?,
        };
        Ok(cast(b, y, dtype))
    }
}

fn write_elements(
    b: &mut B,
    x: Value,
    axis: i64,
    index: Value,
    updates: Value,
    merge: Merge,
) -> Result<Value> {
    let dims = b.dims(x);
    let mut reach = b.dims(index);
    let mut column = reach.clone();
    column.push(1);
    reach[axis as usize] = dims[axis as usize];
    let index = narrow(b, index, dims[axis as usize]);
    let index = b.reshape(index, &column)?;
    let others: Dims = (0..dims.len() as i64).filter(|i| *i != axis).collect();
    let numbers = ScatterDims {
        inserted_window_dims: Dims::from_slice(&[axis]),
        input_batching_dims: others.clone(),
        scatter_indices_batching_dims: others,
        scatter_dims_to_operand_dims: Dims::from_slice(&[axis]),
        index_vector_dim: dims.len() as i64,
        ..ScatterDims::default()
    };
    let part = corner(b, x, &reach)?;
    let part = b.scatter(part, index, updates, &numbers, false, |b, old, new| {
        merge.apply(b, old, new)
    })?;
    if reach == dims {
        return Ok(part);
    }
    let zero = b.scalar(0, DType::I32);
    let start: Vec<Value> = dims.iter().map(|_| zero).collect();
    Ok(b.dynamic_update_slice(x, part, &start)?)
}

fn write_slices(
    b: &mut B,
    x: Value,
    axis: i64,
    index: Value,
    updates: Value,
    merge: Merge,
) -> Result<Value> {
    let rank = b.rank(x) as i64;
    let index = narrow(b, index, b.dims(x)[axis as usize]);
    let numbers = ScatterDims {
        update_window_dims: (0..rank).filter(|i| *i != axis).collect(),
        inserted_window_dims: Dims::from_slice(&[axis]),
        scatter_dims_to_operand_dims: Dims::from_slice(&[axis]),
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    b.scatter(x, index, updates, &numbers, false, |b, old, new| {
        merge.apply(b, old, new)
    })
}

/// `x` with slices added along `axis`; positions are within bounds.
pub(crate) fn add_slices(
    b: &mut B,
    x: Value,
    axis: i64,
    index: Value,
    slices: Value,
) -> Result<Value> {
    Place::Slices(index).write(b, x, axis, slices, Merge::Add)
}

/// `x` with slices replaced along `axis`; positions are within bounds.
pub(crate) fn set_slices(
    b: &mut B,
    x: Value,
    axis: i64,
    index: Value,
    slices: Value,
) -> Result<Value> {
    Place::Slices(index).write(b, x, axis, slices, Merge::Set)
}

/// What `scatter` and its relatives write, checked and cut to the index.
struct Written {
    axis: i64,
    x: Value,
    index: Value,
    src: Value,
}

fn written(b: &mut B, x: Value, dim: i64, index: Value, src: Value, op: &str) -> Result<Written> {
    ensure!(
        is_position(b.dtype(index)) || b.ty(index).numel() == 0,
        "{op}(): Expected dtype int32/int64 for index"
    );
    ensure!(
        b.dtype(x) == b.dtype(src),
        "{op}(): Expected self.dtype to be equal to src.dtype"
    );
    let axis = check::dim(dim, b.rank(x))?;
    let (x, index, src) = (
        at_least_1d(b, x)?,
        at_least_1d(b, index)?,
        at_least_1d(b, src)?,
    );
    let (from, at, given) = (b.dims(x), b.dims(index), b.dims(src));
    if at.contains(&0) {
        return Ok(Written {
            axis,
            x,
            index,
            src: b.full(0, b.dtype(src), &at),
        });
    }
    ensure!(
        from.len() == at.len(),
        "Index tensor must have the same number of dimensions as self tensor"
    );
    ensure!(
        given.len() == at.len(),
        "Index tensor must have the same number of dimensions as src tensor"
    );
    let fits = |i: usize| (i as i64 == axis || at[i] <= from[i]) && at[i] <= given[i];
    ensure!(
        (0..at.len()).all(fits),
        "Expected index {at:?} to be no larger than self {from:?} apart from dimension {axis} and \
         to be no larger size than src {given:?}"
    );
    let size = from[axis as usize];
    check::bounds(
        b,
        index,
        (0, size),
        out_of_bounds("RuntimeError", axis, size),
    )?;
    let src = corner(b, src, &at)?;
    Ok(Written {
        axis,
        x,
        index,
        src,
    })
}

/// `self[index[i][j]][j]` becomes `src[i][j]` or the like, for `dim` 0.
fn scatter(b: &mut B, x: Value, dim: i64, index: Value, src: Value, merge: Merge) -> Result<Value> {
    let dims = b.dims(x);
    let op = if merge == Merge::Add {
        "scatter_add"
    } else {
        "scatter"
    };
    let w = written(b, x, dim, index, src, op)?;
    let y = Place::Elements(w.index).write(b, w.x, w.axis, w.src, merge)?;
    Ok(b.reshape(y, &dims)?)
}

fn scatter_value(
    b: &mut B,
    x: Value,
    dim: i64,
    index: Value,
    value: Scalar,
    merge: Merge,
) -> Result<Value> {
    let value = cast(b, value.0, b.dtype(x));
    let src = b.broadcast(value, &b.dims(index))?;
    scatter(b, x, dim, index, src, merge)
}

/// How `scatter_reduce` and `index_reduce` fold: with what, and whether into a mean.
fn reduction(reduce: &str) -> Result<(Merge, bool)> {
    Ok(match reduce {
        "sum" => (Merge::Add, false),
        "mean" => (Merge::Add, true),
        "prod" => (Merge::Multiply, false),
        "amax" => (Merge::Max, false),
        "amin" => (Merge::Min, false),
        _ => {
            return Err(crate::Error::runtime(format!(
                "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
            )));
        }
    })
}

fn scatter_reduce(
    b: &mut B,
    x: Value,
    dim: i64,
    index: Value,
    src: Value,
    reduce: Arc<str>,
    include_self: bool,
) -> Result<Value> {
    let dims = b.dims(x);
    let w = written(b, x, dim, index, src, "scatter_reduce")?;
    let y = fold_in(
        b,
        &Place::Elements(w.index),
        w.x,
        w.axis,
        w.src,
        &reduce,
        include_self,
    )?;
    Ok(b.reshape(y, &dims)?)
}

/// Folds `src` into the elements of `x` at `place`, which count as well with `include_self`.
fn fold_in(
    b: &mut B,
    place: &Place,
    x: Value,
    axis: i64,
    src: Value,
    reduce: &str,
    include_self: bool,
) -> Result<Value> {
    let (merge, mean) = reduction(reduce)?;
    let dtype = b.dtype(x);
    let (x, src) = if mean {
        (widen(b, x), widen(b, src))
    } else {
        (x, src)
    };
    let mut start = x;
    if !include_self {
        let identity = merge.identity(b, b.dtype(x));
        let fresh = b.broadcast(identity, &b.dims(src))?;
        start = place.write(b, x, axis, fresh, Merge::Set)?;
    }
    let mut y = place.write(b, start, axis, src, merge)?;
    if mean {
        let (seed, ones) = (b.full_like(x, i64::from(include_self)), b.full_like(src, 1));
        let count = place.write(b, seed, axis, ones, Merge::Add)?;
        let one = b.full_like(count, 1);
        let count = b.maximum(count, one)?;
        y = floor_divide(b, y, count)?;
    }
    Ok(cast(b, y, dtype))
}

/// `x / y` for a positive `y`, rounded down for integers.
fn floor_divide(b: &mut B, x: Value, y: Value) -> Result<Value> {
    let quotient = b.divide(x, y)?;
    if !b.dtype(x).is_int() {
        return Ok(quotient);
    }
    let rest = b.remainder(x, y)?;
    let (zero, one) = (b.full_like(rest, 0), b.full_like(rest, 1));
    let below = b.compare(rest, Direction::LT, zero)?;
    let lower = b.subtract(quotient, one)?;
    Ok(b.select(below, lower, quotient)?)
}

/// Checks the index of an op that writes slices: a vector along an existing dimension.
fn slices(
    b: &mut B,
    x: Value,
    dim: i64,
    index: Value,
    source: Option<Value>,
    op: &str,
) -> Result<(i64, Value, Value)> {
    let axis = check::dim(dim, b.rank(x))?;
    ensure!(
        b.rank(index) <= 1,
        Index,
        "{op}(): Index is supposed to be a vector"
    );
    ensure!(
        is_position(b.dtype(index)),
        "{op}(): Expected dtype int32/int64 for index"
    );
    let (x, index) = (at_least_1d(b, x)?, at_least_1d(b, index)?);
    if let Some(source) = source {
        let mut want = b.dims(x);
        want[axis as usize] = b.ty(index).numel();
        let got = if b.rank(source) == 0 {
            Dims::from_slice(&[1])
        } else {
            b.dims(source)
        };
        ensure!(
            b.dtype(x) == b.dtype(source),
            "{op}(): self and source expected to have the same dtype, but got (self) {} and \
             (source) {}",
            b.dtype(x).torch(),
            b.dtype(source).torch()
        );
        ensure!(
            got == want,
            "source tensor shape must match self tensor shape, excluding the specified dimension. \
             Got self.shape = {:?} source.shape = {:?}",
            b.dims(x).as_slice(),
            b.dims(source).as_slice()
        );
    }
    Ok((axis, x, index))
}

/// `self[index[i]] += alpha * source[i]`
fn index_add(
    b: &mut B,
    x: Value,
    dim: i64,
    index: Value,
    source: Value,
    alpha: Factor,
) -> Result<Value> {
    let dims = b.dims(x);
    let (axis, x, index) = slices(b, x, dim, index, Some(source), "index_add")?;
    let size = b.dims(x)[axis as usize];
    check::bounds(
        b,
        index,
        (0, size),
        "IndexError: index out of range in self",
    )?;
    let source = at_least_1d(b, source)?;
    let source = match alpha {
        Factor::One => source,
        Factor::Times(alpha) => {
            let alpha = scalar_like(b, alpha, source)?;
            b.multiply(source, alpha)?
        }
    };
    let y = Place::Slices(index).write(b, x, axis, source, Merge::Add)?;
    Ok(b.reshape(y, &dims)?)
}

fn index_copy(b: &mut B, x: Value, dim: i64, index: Value, source: Value) -> Result<Value> {
    let dims = b.dims(x);
    let (axis, x, index) = slices(b, x, dim, index, Some(source), "index_copy")?;
    let size = b.dims(x)[axis as usize];
    let message = format!(
        "IndexError: index_copy_(): index {{}} is out of bounds for dimension {axis} with size \
         {size}"
    );
    check::bounds(b, index, (0, size), message)?;
    let source = at_least_1d(b, source)?;
    let y = Place::Slices(index).write(b, x, axis, source, Merge::Set)?;
    Ok(b.reshape(y, &dims)?)
}

fn index_fill(b: &mut B, x: Value, dim: i64, index: Value, value: Value) -> Result<Value> {
    ensure!(
        b.rank(value) == 0,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} \
         dimension(s).",
        b.rank(value)
    );
    let dims = b.dims(x);
    let (axis, x, index) = slices(b, x, dim, index, None, "index_fill_")?;
    let size = b.dims(x)[axis as usize];
    check::bounds(
        b,
        index,
        (-size, size),
        out_of_bounds("IndexError", axis, size),
    )?;
    let index = wrap(b, index, size)?;
    let mut shape = b.dims(x);
    shape[axis as usize] = b.ty(index).numel();
    let value = cast(b, value, b.dtype(x));
    let values = b.broadcast(value, &shape)?;
    let y = Place::Slices(index).write(b, x, axis, values, Merge::Set)?;
    Ok(b.reshape(y, &dims)?)
}

fn index_reduce(
    b: &mut B,
    x: Value,
    dim: i64,
    index: Value,
    source: Value,
    reduce: Arc<str>,
    include_self: bool,
) -> Result<Value> {
    ensure!(
        matches!(&*reduce, "prod" | "mean" | "amax" | "amin"),
        "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
    );
    let dims = b.dims(x);
    let (axis, x, index) = slices(b, x, dim, index, Some(source), "index_reduce")?;
    let size = b.dims(x)[axis as usize];
    check::bounds(
        b,
        index,
        (0, size),
        "IndexError: index out of range in self",
    )?;
    let source = at_least_1d(b, source)?;
    let y = fold_in(
        b,
        &Place::Slices(index),
        x,
        axis,
        source,
        &reduce,
        include_self,
    )?;
    Ok(b.reshape(y, &dims)?)
}

#[cfg(test)]
mod tests;
