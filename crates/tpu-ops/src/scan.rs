//! Running sums and their relatives.
use crate::{
    Op, OutDtype, Result, check,
    error::ensure,
    op::op,
    promote::{cast, widen},
    reduce::{Extreme, MAX, MIN, ordered, position_dtype, sum_dtype},
};
use smallvec::SmallVec;
use tpu_hlo::{Builder, DType, Dims, Direction, Value, Window};

type B = Builder;
type Values = SmallVec<[Value; 2]>;

const OUT_DTYPE: OutDtype = OutDtype::Exact("expected scalar_type {result} but found {out}");

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_logcumsumexp", log_cumulative_sum_exp).out(OutDtype::Cast),
    op!("cummax",  |b: &mut B, x, d| extreme(b, x, d, &MAX)).out(OUT_DTYPE),
    op!("cummin",  |b: &mut B, x, d| extreme(b, x, d, &MIN)).out(OUT_DTYPE),
    op!("cumprod", |b: &mut B, x, d, t| running(b, x, d, t, 1, B::multiply)),
    op!("cumprod.out", |b: &mut B, x, d, t, out| running_out(b, x, d, t, out, 1, B::multiply)),
    op!("cumsum",  |b: &mut B, x, d, t| running(b, x, d, t, 0, B::add)),
    op!("cumsum.out", |b: &mut B, x, d, t, out| running_out(b, x, d, t, out, 0, B::add)),
    op!("logcumsumexp", log_cumulative_sum_exp).out(OUT_DTYPE),
];

/// Elements that one window covers at most: the work of a window is quadratic, and XLA's CPU
/// compiler fails on long windows of several operands.
const WINDOW: i64 = 16;

/// What a scan folds with: gets what the elements before gave, and the element; it is associative.
type Combine<'a> = &'a dyn Fn(&mut B, &[Value], &[Value]) -> Result<Values>;

/// Inclusive scan along `axis`; `identity` (scalars) changes nothing when combined.
///
/// A short dimension is one window. A long one is cut into pieces of one window each, whose totals
/// are scanned and combined with the pieces, so that the work is proportional to the length. No
/// loop: XLA's CPU compiler copies what a loop writes to in each step unless it fuses.
pub(crate) fn scan(
    b: &mut B,
    xs: &[Value],
    axis: i64,
    identity: &[Value],
    combine: Combine<'_>,
) -> Result<Values> {
    let dims = b.dims(xs[0]);
    let n = dims[axis as usize];
    if b.depends(n) {
        return scan_padded(b, xs, axis, identity, combine);
    }
    if n <= 1 || dims.contains(&0) {
        return Ok(xs.into());
    }
    if n <= WINDOW || (b.settings.tpu && xs.len() == 1) {
        return window(b, xs, axis, identity, combine);
    }
    let pieces = (n + WINDOW - 1) / WINDOW;
    let mut cut = dims.clone();
    cut[axis as usize] = pieces;
    cut.insert(axis as usize + 1, WINDOW);
    let mut parts = Values::new();
    for (x, id) in xs.iter().zip(identity) {
        let x = shift(b, *x, axis, (0, pieces * WINDOW - n), *id)?;
        parts.push(b.reshape(x, &cut)?);
    }
    let parts = window(b, &parts, axis + 1, identity, combine)?;
    let before = before(b, &parts, axis, identity, combine)?;
    let whole = combine(b, &before, &parts)?;
    let mut long = dims.clone();
    long[axis as usize] = pieces * WINDOW;
    let back = whole.iter().map(|y| {
        let y = b.reshape(*y, &long)?;
        Ok(b.slice_dim(y, axis, 0, n)?)
    });
    back.collect()
}

/// A scan of what is there: an element sees none behind it, so that the room behind the last one
/// is scanned as well.
fn scan_padded(
    b: &mut B,
    xs: &[Value],
    axis: i64,
    identity: &[Value],
    combine: Combine<'_>,
) -> Result<Values> {
    let dims = b.dims(xs[0]);
    ensure!(
        b.is_in_order(dims[axis as usize]),
        "a scan of merged dimensions that are padded"
    );
    let full: Values = xs.iter().map(|x| b.as_full(*x)).collect();
    let scanned = scan(b, &full, axis, identity, combine)?;
    let back = scanned.iter().map(|y| Ok(b.as_padded(*y, &dims)?));
    back.collect()
}

fn window(
    b: &mut B,
    xs: &[Value],
    axis: i64,
    identity: &[Value],
    combine: Combine<'_>,
) -> Result<Values> {
    let dims = b.dims(xs[0]);
    let mut window = Window::ones(dims.len());
    window.dimensions[axis as usize] = dims[axis as usize];
    window.padding[axis as usize] = (dims[axis as usize] - 1, 0);
    b.reduce_window_n(xs, identity, &window, |b, x, y| combine(b, x, y))
}

/// For each piece along `axis` the total of the pieces before it, spread over the piece.
fn before(
    b: &mut B,
    parts: &[Value],
    axis: i64,
    identity: &[Value],
    combine: Combine<'_>,
) -> Result<Values> {
    let cut = b.dims(parts[0]);
    let mut pieces = cut.clone();
    pieces.remove(axis as usize + 1);
    let mut totals = Values::new();
    for x in parts {
        let last = b.slice_dim(*x, axis + 1, WINDOW - 1, WINDOW)?;
        totals.push(b.reshape(last, &pieces)?);
    }
    let totals = scan(b, &totals, axis, identity, combine)?;
    let others: Dims = (0..cut.len() as i64).filter(|i| *i != axis + 1).collect();
    let spread = totals.iter().zip(identity).map(|(x, id)| {
        let x = shift(b, *x, axis, (1, -1), *id)?;
        Ok(b.broadcast_in_dim(x, &cut, &others)?)
    });
    spread.collect()
}

/// `x` with more elements along `axis`, or fewer, at its ends.
fn shift(b: &mut B, x: Value, axis: i64, ends: (i64, i64), fill: Value) -> Result<Value> {
    let zeros: Dims = b.dims(x).iter().map(|_| 0).collect();
    let (mut low, mut high) = (zeros.clone(), zeros.clone());
    (low[axis as usize], high[axis as usize]) = ends;
    Ok(b.pad(x, fill, &low, &high, &zeros)?)
}

/// The running sum along `axis`, in `x`'s dtype.
pub(crate) fn cumulative_sum(b: &mut B, x: Value, axis: i64) -> Result<Value> {
    let zero = b.scalar(0, b.dtype(x));
    fold(b, x, axis, zero, B::add)
}

/// [`running`] in the dtype of `out=`.
fn running_out(
    b: &mut B,
    x: Value,
    dim: i64,
    dtype: Option<DType>,
    out: DType,
    identity: i64,
    op: fn(&mut B, Value, Value) -> tpu_hlo::Result<Value>,
) -> Result<Value> {
    ensure!(
        out != DType::Bool || b.rank(x) == 0 || b.ty(x).numel() == 0,
        NotImplemented,
        "\"{}\" not implemented for 'Bool'",
        if identity == 0 {
            "cumsum_out"
        } else {
            "cumprod_out"
        }
    );
    running(b, x, dim, dtype.or(Some(out)), identity, op)
}

/// `cumsum` and `cumprod`; integers are added up in 64 bits.
fn running(
    b: &mut B,
    x: Value,
    dim: i64,
    dtype: Option<DType>,
    identity: i64,
    op: fn(&mut B, Value, Value) -> tpu_hlo::Result<Value>,
) -> Result<Value> {
    let axis = check::dim(dim, b.rank(x))?;
    let to = dtype.unwrap_or(sum_dtype(b.dtype(x)));
    let x = cast(b, x, to);
    if b.rank(x) == 0 {
        return Ok(x);
    }
    let x = widen(b, x);
    let identity = b.scalar(identity, b.dtype(x));
    let y = fold(b, x, axis, identity, op)?;
    Ok(cast(b, y, to))
}

/// `cummax` and `cummin`: NaN stays, and the position is that of the last equal.
fn extreme(b: &mut B, x: Value, dim: i64, end: &Extreme) -> Result<(Value, Value)> {
    let axis = check::dim(dim, b.rank(x))?;
    ordered(b, x, &format!("cum{}", end.name))?;
    if b.rank(x) == 0 {
        return Ok((x, b.scalar(0, DType::I64)));
    }
    let init = (end.init)(b, b.dtype(x));
    let y = fold(b, x, axis, init, end.op)?;
    let mut there = b.compare(x, Direction::EQ, y)?;
    if b.dtype(x).is_float() {
        let nan = b.compare(x, Direction::NE, x)?;
        there = b.or(there, nan)?;
    }
    let dims = b.dims(x);
    let at = position_dtype(dims[axis as usize]);
    let index = b.iota(at, &dims, axis);
    let (none, zero) = (b.full_like(index, 0), b.scalar(0, at));
    let index = b.select(there, index, none)?;
    let index = fold(b, index, axis, zero, B::maximum)?;
    Ok((y, b.convert(index, DType::I64)))
}

/// [`scan`] of one operand.
pub(crate) fn fold(
    b: &mut B,
    x: Value,
    axis: i64,
    identity: Value,
    op: fn(&mut B, Value, Value) -> tpu_hlo::Result<Value>,
) -> Result<Value> {
    let y = scan(b, &[x], axis, &[identity], &|b, before, x| {
        Ok(smallvec::smallvec![op(b, before[0], x[0])?])
    })?;
    Ok(y[0])
}

/// `log(cumsum(exp(x)))`, each sum shifted by its maximum.
fn log_cumulative_sum_exp(b: &mut B, x: Value, dim: i64) -> Result<Value> {
    let axis = check::dim(dim, b.rank(x))?;
    let dtype = b.dtype(x);
    ensure!(
        dtype.is_float() || dtype.is_complex(),
        NotImplemented,
        "\"logcumsumexp\" not implemented for '{}'",
        dtype.torch()
    );
    if b.rank(x) == 0 {
        return Ok(x);
    }
    let x = widen(b, x);
    let (size, turn) = if dtype.is_complex() {
        let (re, im) = (b.real(x), b.imag(x));
        let (cosine, sine) = (b.cosine(im), b.sine(im));
        (re, b.complex(cosine, sine)?)
    } else {
        (x, b.full_like(x, 1))
    };
    let low = b.scalar(f64::NEG_INFINITY, b.dtype(size));
    let zero = b.scalar(0, b.dtype(turn));
    let y = scan(b, &[size, turn], axis, &[low, zero], &add_scaled)?;
    let log = b.log(y[1]);
    let size = b.convert(y[0], b.dtype(log));
    let mut y = b.add(log, size)?;
    if dtype.is_complex() {
        let (re, im) = (b.real(y), turned(b, x, y, axis)?);
        y = b.complex(re, im)?;
    }
    Ok(cast(b, y, dtype))
}

/// Imaginary parts of [`log_cumulative_sum_exp`] as they come of adding one element of `x` after
/// the other, not kept within half a turn: `log(exp(u) + exp(v)) = u + log1p(exp(v - u))` with the
/// larger real part in `u`. `y` is the result but for whole turns.
fn turned(b: &mut B, x: Value, y: Value, axis: i64) -> Result<Value> {
    let (re, im) = (b.real(x), b.imag(x));
    let (low, zero) = (
        b.scalar(f64::NEG_INFINITY, b.dtype(re)),
        b.scalar(0, b.dtype(re)),
    );
    let (last_re, last_im) = (b.real(y), b.imag(y));
    let last_re = shift(b, last_re, axis, (1, -1), low)?;
    let last_im = shift(b, last_im, axis, (1, -1), zero)?;
    let goes_on = b.compare(re, Direction::LT, last_re)?;
    let mut below = |new: Value, last: Value| {
        let (down, up) = (b.subtract(new, last)?, b.subtract(last, new)?);
        let difference = b.select(goes_on, down, up)?;
        // Of two infinite ones as well.
        let same = b.compare(new, Direction::EQ, last)?;
        let none = b.full_like(difference, 0);
        b.select(same, none, difference)
    };
    let (apart, angle) = (below(re, last_re)?, below(im, last_im)?);
    let ratio = b.complex(apart, angle)?;
    let ratio = b.exponential(ratio);
    let turn = b.log_plus_one(ratio);
    let turn = b.imag(turn);
    let start = b.add(im, turn)?;
    let step = b.select(goes_on, turn, start)?;
    let always = b.scalar(true, DType::Bool);
    let total = scan(
        b,
        &[goes_on, step],
        axis,
        &[always, zero],
        &|b, before, x| {
            let sum = b.add(before[1], x[1])?;
            let both = b.and(before[0], x[0])?;
            Ok(smallvec::smallvec![both, b.select(x[0], sum, x[1])?])
        },
    )?;
    Ok(total[1])
}

/// `(m, s)` stands for `exp(m) * s`, `m` real; the sum is scaled by the larger `m`.
fn add_scaled(b: &mut B, x: &[Value], y: &[Value]) -> Result<Values> {
    let larger = b.compare(x[0], Direction::GE, y[0])?;
    let m = b.select(larger, x[0], y[0])?;
    let mut parts = Values::new();
    for part in [x, y] {
        let same = b.compare(part[0], Direction::EQ, m)?;
        let below = b.subtract(part[0], m)?;
        let scale = b.exponential(below);
        // An infinite maximum leaves NaN of its own distance to itself.
        let one = b.full_like(scale, 1);
        let scale = b.select(same, one, scale)?;
        let scale = b.convert(scale, b.dtype(part[1]));
        parts.push(b.multiply(part[1], scale)?);
    }
    Ok(smallvec::smallvec![m, b.add(parts[0], parts[1])?])
}

#[cfg(test)]
mod tests;
