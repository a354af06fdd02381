//! Tensors out of numbers.
//!
//! PyTorch allocates the result and calls the `out=` overload, the only one that a backend
//! serves: these rows are named after it and take the result's dtype as their last argument.
use crate::{
    Arg, Ignored, Op, OutDtype, Result, Scalar,
    error::ensure,
    formula::formulas,
    op::op,
    pointwise::implemented,
    promote::cast,
    reduce::position_dtype,
    scan::cumulative_sum,
    sort::{Side, count_before},
};
use tpu_hlo::{Builder, DType, Dims, Direction, Number, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_efficientzerotensor",  zeros),
    op!("arange.start_out",      arange).sized(arange_size).out(OutDtype::Cast),
    op!("eye.m_out",             |b: &mut B, n, m, t| eye(b, n, m, t)).out(OutDtype::Cast),
    op!("eye.out",               |b: &mut B, n, t| eye(b, n, n, t)).out(OutDtype::Cast),
    op!("linspace.out",          linspace).out(OutDtype::Cast),
    op!("logspace.out",          logspace).out(OutDtype::Cast),
    op!("range.out",             arange).sized(range_size).out(OutDtype::Cast),
    op!("tril_indices",          tril_indices),
    op!("triu_indices",          triu_indices),
];

/// Zeros, as an undefined gradient's stand-in.
fn zeros(
    b: &mut B,
    size: Dims,
    dtype: Option<DType>,
    _layout: Ignored,
    _device: Ignored,
    _pin_memory: Ignored,
) -> Result<Value> {
    ensure!(
        size.iter().all(|n| *n >= 0),
        "Trying to create tensor with negative dimension"
    );
    let dtype = dtype.unwrap_or(b.settings.default_dtype);
    Ok(b.full(0, dtype, &size))
}

/// The dtype that steps between numbers are computed in: PyTorch's accumulation type, which is
/// float64 on a CPU.
fn step_dtype(b: &B, dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        t if t.is_float() && b.settings.tpu => DType::F32,
        t if t.is_float() => DType::F64,
        t => t,
    }
}

/// `start + i * step` for `i < size`; `end` only counts in [`arange_size`].
fn arange(
    b: &mut B,
    start: Scalar,
    _end: Scalar,
    step: Scalar,
    dtype: DType,
    size: i64,
) -> Result<Value> {
    ensure!(
        dtype.is_float() || dtype.is_int(),
        NotImplemented,
        "\"arange\" not implemented for '{}'",
        dtype.torch()
    );
    let acc = step_dtype(b, dtype);
    let index = b.iota(position_dtype(size), &[size], 0);
    let index = b.convert(index, acc);
    let (start, step) = (cast(b, start.0, acc), cast(b, step.0, acc));
    let (start, step) = (b.broadcast(start, &[size])?, b.broadcast(step, &[size])?);
    let way = b.multiply(index, step)?;
    let y = b.add(start, way)?;
    Ok(cast(b, y, dtype))
}

/// How many steps lead from `start` to below `end`.
fn arange_size(args: &[Arg]) -> Result<i64> {
    let [Arg::Number(start), Arg::Number(end), Arg::Number(step), ..] = args else {
        return Err(crate::Error::runtime("arange expects three numbers"));
    };
    sensible(*start, *end, *step)?;
    if let (Number::Int(start), Number::Int(end), Number::Int(step)) = (*start, *end, *step) {
        let (way, step) = (i128::from(end) - i128::from(start), i128::from(step));
        let size = (way + step - step.signum()) / step;
        return Ok(size as i64);
    }
    Ok(((end.to_f64() - start.to_f64()) / step.to_f64()).ceil() as i64)
}

/// How many steps lead from `start` to `end` or just before it, plus one.
fn range_size(args: &[Arg]) -> Result<i64> {
    let [Arg::Number(start), Arg::Number(end), Arg::Number(step), ..] = args else {
        return Err(crate::Error::runtime("range expects three numbers"));
    };
    sensible(*start, *end, *step)?;
    Ok(((end.to_f64() - start.to_f64()) / step.to_f64() + 1.0) as i64)
}

fn sensible(start: Number, end: Number, step: Number) -> Result<()> {
    let (start, end, step) = (start.to_f64(), end.to_f64(), step.to_f64());
    ensure!(step != 0.0, "step must be nonzero");
    ensure!(
        start.is_finite() && end.is_finite(),
        "unsupported range: {start} -> {end}"
    );
    ensure!(
        (step > 0.0 && end >= start) || (step < 0.0 && end <= start),
        "upper bound and lower bound inconsistent with step sign"
    );
    Ok(())
}

fn eye(b: &mut B, n: i64, m: i64, dtype: DType) -> Result<Value> {
    ensure!(n >= 0, "n must be greater or equal to 0, got {n}");
    ensure!(m >= 0, "m must be greater or equal to 0, got {m}");
    let (row, column) = (
        b.iota(DType::I32, &[n, m], 0),
        b.iota(DType::I32, &[n, m], 1),
    );
    let diagonal = b.compare(row, Direction::EQ, column)?;
    Ok(cast(b, diagonal, dtype))
}

fn linspace(b: &mut B, start: Scalar, end: Scalar, steps: i64, dtype: DType) -> Result<Value> {
    let ends = ends(b, (start, end), dtype)?;
    let y = spaced(b, ends, steps)?;
    Ok(cast(b, y, dtype))
}

/// `base` to the power of evenly spaced numbers.
fn logspace(
    b: &mut B,
    start: Scalar,
    end: Scalar,
    steps: i64,
    base: Scalar,
    dtype: DType,
) -> Result<Value> {
    let ends = ends(b, (start, end), dtype)?;
    let y = spaced(b, ends, steps)?;
    let base = cast(b, base.0, b.dtype(y));
    let base = b.broadcast(base, &[steps])?;
    let y = b.power(base, y)?;
    Ok(cast(b, y, dtype))
}

/// Both ends in the type that is computed in; those of integers are integers.
fn ends(b: &mut B, (start, end): (Scalar, Scalar), dtype: DType) -> Result<(Value, Value)> {
    let acc = spacing_dtype(b, dtype);
    let ends = (cast(b, start.0, acc), cast(b, end.0, acc));
    if !dtype.is_int() {
        return Ok(ends);
    }
    let [start, end] = formulas(b, [ends.0, ends.1], |ends| {
        ends.map(|x| x.lt(0.0).pick(x.ceil(), x.floor()))
    })?;
    Ok((start, end))
}

/// Integers are spaced in floating point.
fn spacing_dtype(b: &B, dtype: DType) -> DType {
    match dtype {
        t if t.is_complex() => t,
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        _ if b.settings.tpu && dtype != DType::F64 => DType::F32,
        _ => DType::F64,
    }
}

/// `steps` numbers from `start` to `end`; the second half is counted from `end`, so that both
/// ends are exact.
pub(crate) fn spaced(b: &mut B, (start, end): (Value, Value), steps: i64) -> Result<Value> {
    ensure!(steps >= 0, "number of steps must be non-negative");
    let dtype = b.dtype(start);
    let way = b.subtract(end, start)?;
    let gaps = b.scalar((steps - 1).max(1), dtype);
    let step = b.divide_exactly(way, gaps)?;
    let index = b.iota(position_dtype(steps), &[steps], 0);
    let half = b.full_like(index, steps / 2);
    let mut first = b.compare(index, Direction::LT, half)?;
    if steps == 1 {
        first = b.full_like(first, true);
    }
    let (start, end) = (b.broadcast(start, &[steps])?, b.broadcast(end, &[steps])?);
    let (up, last) = (b.convert(index, dtype), b.full(steps - 1, dtype, &[steps]));
    let step = b.broadcast(step, &[steps])?;
    let down = b.subtract(last, up)?;
    let (up, down) = (b.multiply(up, step)?, b.multiply(down, step)?);
    let (low, high) = (b.add(start, up)?, b.subtract(end, down)?);
    Ok(b.select(first, low, high)?)
}

fn tril_indices(
    b: &mut B,
    row: i64,
    col: i64,
    offset: i64,
    dtype: Option<DType>,
    _layout: Ignored,
    _device: Ignored,
    _pin_memory: Ignored,
) -> Result<Value> {
    whole_indices("tril_indices", dtype)?;
    triangle_indices(b, (row, col), dtype, |r| {
        (0, (r + offset + 1).clamp(0, col))
    })
}

fn triu_indices(
    b: &mut B,
    row: i64,
    col: i64,
    offset: i64,
    dtype: Option<DType>,
    _layout: Ignored,
    _device: Ignored,
    _pin_memory: Ignored,
) -> Result<Value> {
    whole_indices("triu_indices", dtype)?;
    triangle_indices(b, (row, col), dtype, |r| ((r + offset).clamp(0, col), col))
}

/// Refuses what no index has: PyTorch knows `I32` and `I64` here.
fn whole_indices(op: &str, dtype: Option<DType>) -> Result<()> {
    let dtype = dtype.unwrap_or(DType::I64);
    implemented(matches!(dtype, DType::I32 | DType::I64), op, dtype)
}

/// Rows and columns of a square above its diagonal.
pub(crate) fn triangle_pairs(b: &mut B, n: i64) -> Result<Value> {
    triangle_indices(b, (n, n), Some(position_dtype(n * n)), |r| {
        ((r + 1).clamp(0, n), n)
    })
}

/// Rows and columns of the elements whose column is in `columns(row)`, a half-open range whose
/// ends move by one per row at most, row by row.
fn triangle_indices(
    b: &mut B,
    (rows, cols): (i64, i64),
    dtype: Option<DType>,
    columns: impl Fn(i64) -> (i64, i64),
) -> Result<Value> {
    ensure!(rows >= 0, "row must be non-negative, got{rows}");
    ensure!(cols >= 0, "col must be non-negative, got{cols}");
    let dtype = dtype.unwrap_or(DType::I64);
    let count = (0..rows).map(|r| columns(r).1 - columns(r).0).sum::<i64>();
    if count == 0 {
        return Ok(b.full(0, dtype, &[2, 0]));
    }
    let at = position_dtype(rows * cols);
    let low = ramp(b, rows, cols, at, |r| columns(r).0)?;
    let high = ramp(b, rows, cols, at, |r| columns(r).1)?;
    let length = b.subtract(high, low)?;
    let ends = cumulative_sum(b, length, 0)?;
    let index = b.iota(at, &[count], 0);
    let row = count_before(b, ends, index, Side::Right)?;
    let starts = b.subtract(ends, high)?;
    let start = crate::index::take_slices(b, starts, 0, row)?;
    let column = b.subtract(index, start)?;
    let row = b.convert(row, at);
    let (row, column) = (
        b.reshape(row, &[1, count])?,
        b.reshape(column, &[1, count])?,
    );
    let y = b.concatenate(&[row, column], 0)?;
    Ok(cast(b, y, dtype))
}

/// `end(row)` for every row, an end that stays, or moves by one per row between 0 and `cols`.
fn ramp(b: &mut B, rows: i64, cols: i64, at: DType, end: impl Fn(i64) -> i64) -> Result<Value> {
    let fixed = (1..rows).all(|r| end(r) == end(0));
    if fixed {
        return Ok(b.full(end(0), at, &[rows]));
    }
    let moving = (1..rows).find(|r| end(*r) != end(r - 1)).unwrap_or(0);
    let row = b.iota(at, &[rows], 0);
    let shift = b.full_like(row, end(moving) - moving);
    let line = b.add(row, shift)?;
    let (zero, last) = (b.full_like(line, 0), b.full_like(line, cols));
    let line = b.maximum(line, zero)?;
    Ok(b.minimum(line, last)?)
}

#[cfg(test)]
mod tests;
