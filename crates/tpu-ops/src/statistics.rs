//! Variances, norms, and what sorting tells about a dimension.
use crate::{
    Op, OutDtype, Result, Scalar, check,
    error::ensure,
    index::take_along,
    op::op,
    promote::{cast, float, scalar_like, widen},
    reduce::{Fold, MAX, MIN, position_dtype},
    scan,
    sort::sorted,
};
use tpu_hlo::{Builder, DType, Dims, Direction, Number, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("count_nonzero",              |b: &mut B, x, d: Option<i64>| {
        count_nonzero(b, x, d.as_slice())
    }),
    op!("count_nonzero.dim_IntList",  |b: &mut B, x, d: Dims| count_nonzero(b, x, &d)),
    op!("kthvalue",                   kth_value)
        .out(OutDtype::Exact("output values must be of same type as input")),
    op!("linalg_vector_norm",         vector_norm),
    op!("logsumexp",                  log_sum_exp).out(OutDtype::Cast),
    op!("median",                     |b: &mut B, x| middle(b, x, false)),
    op!("median.dim",                 |b: &mut B, x, d, k| middle_of(b, x, d, k, false)),
    op!("mode",                       mode)
        .out(OutDtype::Exact(
            "expected scalar type '{result}' but got '{out}' for values output",
        )),
    op!("nanmedian",                  |b: &mut B, x| middle(b, x, true)),
    op!("nanmedian.dim",              |b: &mut B, x, d, k| middle_of(b, x, d, k, true)),
    op!("norm.ScalarOpt_dim",         |b: &mut B, x, p, d, k| norm(b, x, p, d, k, None)),
    op!("norm.ScalarOpt_dim_dtype",   norm),
    op!("renorm",                     renorm),
    op!("std.correction",             |b: &mut B, x, d, c, k| first(spread(b, x, d, c, k, true)))
        .out(OutDtype::Cast),
    op!("std_mean.correction",        |b: &mut B, x, d, c, k| spread(b, x, d, c, k, true)),
    op!("trace",                      trace),
    op!("var.correction",             |b: &mut B, x, d, c, k| first(spread(b, x, d, c, k, false)))
        .out(OutDtype::Cast),
    op!("var_mean.correction",        |b: &mut B, x, d, c, k| spread(b, x, d, c, k, false)),
];

fn first(pair: Result<(Value, Value)>) -> Result<Value> {
    Ok(pair?.0)
}

/// `sum(|x - mean|^2) / max(0, n - correction)`, or its root, and the mean.
fn spread(
    b: &mut B,
    x: Value,
    dim: Option<Dims>,
    correction: Option<Number>,
    keepdim: bool,
    root: bool,
) -> Result<(Value, Value)> {
    let dtype = b.dtype(x);
    ensure!(
        dtype.is_float() || dtype.is_complex(),
        "std and var only support floating point and complex dtypes"
    );
    let fold = Fold::new(b, x, dim.as_deref(), keepdim)?;
    let x = widen(b, x);
    let mean = fold.mean(b, x)?;
    let center = fold.spread(b, mean, x)?;
    let off = b.subtract(x, center)?;
    let square = square(b, off)?;
    let sum = fold.sum(b, square)?;
    let n = fold.count as f64;
    // Nothing has no variance, whatever the correction.
    let left = if n > 0.0 {
        n - correction.map_or(1.0, Number::to_f64)
    } else {
        0.0
    };
    let left = if b.depends(fold.count) {
        degrees_of_freedom(b, sum, fold.count, n - left)?
    } else {
        b.full_like(sum, left.max(0.0))
    };
    let mut y = b.divide(sum, left)?;
    if root {
        y = b.sqrt(y);
    }
    Ok((cast(b, y, dtype.real()), cast(b, mean, dtype)))
}

/// `max(n - correction, 0)`, where `n` is known at launch only.
fn degrees_of_freedom(b: &mut B, like: Value, n: i64, correction: f64) -> Result<Value> {
    let (n, correction) = (b.size_like(like, n)?, b.full_like(like, correction));
    let (left, zero) = (b.subtract(n, correction)?, b.full_like(like, 0));
    Ok(b.maximum(left, zero)?)
}

/// `|x|^2`, real.
fn square(b: &mut B, x: Value) -> Result<Value> {
    if !b.dtype(x).is_complex() {
        return Ok(b.multiply(x, x)?);
    }
    let (re, im) = (b.real(x), b.imag(x));
    let (re, im) = (b.multiply(re, re)?, b.multiply(im, im)?);
    Ok(b.add(re, im)?)
}

/// `norm`; without an exponent the Euclidean one.
fn norm(
    b: &mut B,
    x: Value,
    p: Option<Number>,
    dim: Dims,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Value> {
    let to = dtype.unwrap_or(b.dtype(x));
    ensure!(
        to.is_float() || to.is_complex(),
        "norm(): the desired output dtype should be either floating point or complex. Got {} \
         instead.",
        to.torch()
    );
    vector_norm(b, x, p.unwrap_or(Number::Int(2)), Some(dim), keepdim, dtype)
}

/// `sum(|x|^p)^(1/p)`, with its limits for 0 and the infinities.
pub(crate) fn vector_norm(
    b: &mut B,
    x: Value,
    p: Number,
    dim: Option<Dims>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Value> {
    let to = dtype.unwrap_or(b.dtype(x));
    ensure!(
        to.is_float() || to.is_complex(),
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
        to.torch()
    );
    ensure!(
        !to.is_float() || !b.dtype(x).is_complex(),
        "linalg.vector_norm if `dtype` is given it should be complex for a complex input"
    );
    let p = p.to_f64();
    let fold = Fold::new(b, x, dim.as_deref(), keepdim)?;
    ensure!(
        fold.count > 0 || (p >= 0.0 && p.is_finite()),
        "linalg.vector_norm cannot compute the {p} norm on an empty tensor because the operation \
         does not have an identity"
    );
    let x = cast(b, x, to);
    let x = widen(b, x);
    let y = p_norm(b, x, p, &fold)?;
    Ok(cast(b, y, to.real()))
}

/// `sum(|x|^p)^(1/p)` of a float or complex tensor, in its dtype.
pub(crate) fn p_norm(b: &mut B, x: Value, p: f64, fold: &Fold) -> Result<Value> {
    if p == 2.0 {
        let squares = square(b, x)?;
        let sum = fold.sum(b, squares)?;
        return Ok(b.sqrt(sum));
    }
    let x = b.abs(x);
    if p == f64::INFINITY {
        fold.extreme(b, x, &MAX)
    } else if p == f64::NEG_INFINITY {
        fold.extreme(b, x, &MIN)
    } else if p == 1.0 {
        fold.sum(b, x)
    } else if p == 0.0 {
        let zero = b.full_like(x, 0);
        let there = b.compare(x, Direction::NE, zero)?;
        let there = b.convert(there, b.dtype(x));
        fold.sum(b, there)
    } else {
        let exponent = b.full_like(x, p);
        let powers = b.power(x, exponent)?;
        let sum = fold.sum(b, powers)?;
        let exponent = b.full_like(sum, 1.0 / p);
        Ok(b.power(sum, exponent)?)
    }
}

/// Slices along `dim` scaled down to `max_norm` where they are longer.
fn renorm(b: &mut B, x: Value, p: Number, dim: i64, max_norm: Scalar) -> Result<Value> {
    let (rank, p) = (b.rank(x), p.to_f64());
    ensure!(p > 0.0, "renorm: non-positive-norm not supported");
    ensure!(
        rank > 1,
        "renorm: input needs at least 2 dimensions, got {rank} dimensions"
    );
    let axis = check::dim(dim, rank)?;
    let dtype = b.dtype(x);
    let wide = widen(b, x);
    let others: Dims = (0..rank as i64).filter(|i| *i != axis).collect();
    let fold = Fold::new(b, wide, Some(&others), true)?;
    let norm = p_norm(b, wide, p, &fold)?;
    let most = scalar_like(b, max_norm.0, norm)?;
    let little = b.full_like(norm, 1e-7);
    let long = b.compare(norm, Direction::GT, most)?;
    let safe = b.add(norm, little)?;
    let (scale, one) = (b.divide(most, safe)?, b.full_like(norm, 1));
    let scale = b.select(long, scale, one)?;
    let scale = b.convert(scale, b.dtype(wide));
    let scale = fold.spread(b, scale, wide)?;
    let y = b.multiply(wide, scale)?;
    Ok(cast(b, y, dtype))
}

/// `log(sum(exp(x)))`, shifted by the maximum.
fn log_sum_exp(b: &mut B, x: Value, dim: Dims, keepdim: bool) -> Result<Value> {
    let x = float(b, x);
    let dtype = b.dtype(x);
    let x = widen(b, x);
    let fold = Fold::new(b, x, Some(&dim), keepdim)?;
    let re = if dtype.is_complex() { b.real(x) } else { x };
    let max = fold.extreme(b, re, &MAX)?;
    let (finite, zero) = (b.is_finite(max), b.full_like(max, 0));
    let max = b.select(finite, max, zero)?;
    let max = b.convert(max, b.dtype(x));
    let shift = fold.spread(b, max, x)?;
    let x = b.subtract(x, shift)?;
    let x = b.exponential(x);
    let sum = fold.sum(b, x)?;
    let log = b.log(sum);
    let y = b.add(log, max)?;
    Ok(cast(b, y, dtype))
}

/// An empty list of dimensions means all of them.
fn count_nonzero(b: &mut B, x: Value, dim: &[i64]) -> Result<Value> {
    let fold = Fold::new(b, x, Some(dim), false)?;
    let there = cast(b, x, DType::Bool);
    let there = b.convert(there, position_dtype(fold.count));
    let count = fold.sum(b, there)?;
    Ok(b.convert(count, DType::I64))
}

fn trace(b: &mut B, x: Value) -> Result<Value> {
    let dims = b.dims(x);
    ensure!(
        dims.len() == 2,
        "trace: expected a matrix, but got tensor with dim {}",
        dims.len()
    );
    let (row, column) = (b.iota(DType::I32, &dims, 0), b.iota(DType::I32, &dims, 1));
    let diagonal = b.compare(row, Direction::EQ, column)?;
    let x = cast(b, x, crate::reduce::sum_dtype(b.dtype(x)));
    let zero = b.full_like(x, 0);
    let x = b.select(diagonal, x, zero)?;
    Fold::new(b, x, None, false)?.sum(b, x)
}

/// The `k`-th smallest along `dim`, counted from 1, and where it is.
fn kth_value(b: &mut B, x: Value, k: i64, dim: i64, keepdim: bool) -> Result<(Value, Value)> {
    let fold = Fold::one(b, x, dim, keepdim)?;
    let Some(&axis) = fold.axes.first() else {
        ensure!(
            k == 1,
            "kthvalue(): selected number k out of range for dimension {dim}"
        );
        return Ok((x, b.scalar(0, DType::I64)));
    };
    let n = b.dims(x)[axis as usize];
    ensure!(
        n > 0,
        Index,
        "kthvalue(): Expected reduction dim {axis} to have non-zero size."
    );
    ensure!(
        (1..=n).contains(&k),
        "kthvalue(): selected number k out of range for dimension {axis}"
    );
    let (y, index) = sorted(b, x, axis, false)?;
    let (y, index) = (
        b.slice_dim(y, axis, k - 1, k)?,
        b.slice_dim(index, axis, k - 1, k)?,
    );
    let index = b.convert(index, DType::I64);
    Ok((b.reshape(y, &fold.dims)?, b.reshape(index, &fold.dims)?))
}

/// The lower median of all elements; NaN of nothing.
fn middle(b: &mut B, x: Value, skip_nan: bool) -> Result<Value> {
    let numel = b.ty(x).numel();
    if numel == 0 {
        let dtype = b.dtype(x);
        let nothing = if dtype.is_float() {
            f64::NAN.into()
        } else {
            Number::Int(i64::MIN)
        };
        return Ok(b.scalar(nothing, dtype));
    }
    let flat = b.reshape(x, &[numel])?;
    Ok(middle_of(b, flat, 0, false, skip_nan)?.0)
}

/// The lower median along `dim` and where it is. A NaN is the median unless NaNs are skipped.
fn middle_of(
    b: &mut B,
    x: Value,
    dim: i64,
    keepdim: bool,
    skip_nan: bool,
) -> Result<(Value, Value)> {
    let fold = Fold::one(b, x, dim, keepdim)?;
    let Some(&axis) = fold.axes.first() else {
        return Ok((x, b.scalar(0, DType::I64)));
    };
    let n = b.dims(x)[axis as usize];
    ensure!(
        n > 0,
        Index,
        "median(): Expected reduction dim {axis} to have non-zero size."
    );
    let (y, index) = sorted(b, x, axis, false)?;
    let at = middle_position(b, y, axis, &fold, skip_nan)?;
    let (y, index) = (take_along(b, y, axis, at)?, take_along(b, index, axis, at)?);
    let index = b.convert(index, DType::I64);
    Ok((b.reshape(y, &fold.dims)?, b.reshape(index, &fold.dims)?))
}

/// Where the median stands among sorted elements, whose NaNs are last.
fn middle_position(
    b: &mut B,
    sorted: Value,
    axis: i64,
    fold: &Fold,
    skip_nan: bool,
) -> Result<Value> {
    let at = position_dtype(fold.count);
    let middle = b.full((fold.count - 1) / 2, at, &fold.kept);
    if !b.dtype(sorted).is_float() {
        return Ok(middle);
    }
    let number = b.compare(sorted, Direction::EQ, sorted)?;
    let number = b.convert(number, at);
    let numbers = b.sum(number, &[axis])?;
    let numbers = b.reshape(numbers, &fold.kept)?;
    if skip_nan {
        let (zero, one) = (b.full_like(numbers, 0), b.full_like(numbers, 1));
        let last = b.subtract(numbers, one)?;
        let half = b.shift_right_arithmetic(last, one)?;
        return Ok(b.maximum(half, zero)?);
    }
    let all = b.full_like(numbers, fold.count);
    let clean = b.compare(numbers, Direction::EQ, all)?;
    Ok(b.select(clean, middle, numbers)?)
}

/// The most frequent element along `dim`, the smallest of equals, and the last place it is at.
fn mode(b: &mut B, x: Value, dim: i64, keepdim: bool) -> Result<(Value, Value)> {
    let fold = Fold::one(b, x, dim, keepdim)?;
    let Some(&axis) = fold.axes.first() else {
        return Ok((x, b.scalar(0, DType::I64)));
    };
    let n = b.dims(x)[axis as usize];
    ensure!(
        n > 0,
        Index,
        "mode(): Expected reduction dim {axis} to have non-zero size."
    );
    let (y, index) = sorted(b, x, axis, false)?;
    let run = run_lengths(b, y, axis)?;
    let end = crate::reduce::first_largest(b, run, axis)?;
    let end = b.reshape(end, &fold.kept)?;
    let (y, index) = (
        take_along(b, y, axis, end)?,
        take_along(b, index, axis, end)?,
    );
    let index = b.convert(index, DType::I64);
    Ok((b.reshape(y, &fold.dims)?, b.reshape(index, &fold.dims)?))
}

/// For each of the sorted elements how many equal ones stand up to it.
fn run_lengths(b: &mut B, y: Value, axis: i64) -> Result<Value> {
    let dims = b.dims(y);
    let at = position_dtype(dims[axis as usize]);
    let index = b.iota(at, &dims, axis);
    let starts = crate::sort::run_starts(b, y, axis)?;
    let zero = b.full_like(index, 0);
    let start = b.select(starts, index, zero)?;
    let none = b.scalar(0, at);
    let start = scan::fold(b, start, axis, none, B::maximum)?;
    Ok(b.subtract(index, start)?)
}

#[cfg(test)]
mod tests;
