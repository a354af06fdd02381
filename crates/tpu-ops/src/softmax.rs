//! Softmax and its relatives.
use crate::{
    Op, Result, check,
    error::ensure,
    op::op,
    promote::{cast, widen},
    reduce::{Fold, MAX},
};
use tpu_hlo::{Builder, DType, Direction, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_log_softmax",               |b: &mut B, x, d, h| forward(b, x, d, h, log_softmax)),
    op!("_log_softmax_backward_data", log_softmax_backward),
    op!("_masked_softmax",            masked_softmax),
    op!("_masked_softmax_backward",   masked_softmax_backward),
    op!("_safe_softmax",              safe_softmax),
    op!("_softmax",                   |b: &mut B, x, d, h| forward(b, x, d, h, softmax)),
    op!("_softmax_backward_data",     softmax_backward),
];

/// `exp(x - max) / sum(exp(x - max))` along `dim`, in `x`'s dtype.
pub(crate) fn softmax(b: &mut B, x: Value, dim: i64) -> Result<Value> {
    let fold = Fold::one(b, x, dim, true)?;
    let x = shifted(b, x, &fold)?;
    let x = b.exponential(x);
    let sum = fold.sum(b, x)?;
    let sum = fold.spread(b, sum, x)?;
    Ok(b.divide(x, sum)?)
}

/// `x - max - log(sum(exp(x - max)))` along `dim`, in `x`'s dtype.
pub(crate) fn log_softmax(b: &mut B, x: Value, dim: i64) -> Result<Value> {
    let fold = Fold::one(b, x, dim, true)?;
    let x = shifted(b, x, &fold)?;
    let e = b.exponential(x);
    let sum = fold.sum(b, e)?;
    let log = b.log(sum);
    let log = fold.spread(b, log, x)?;
    Ok(b.subtract(x, log)?)
}

fn shifted(b: &mut B, x: Value, fold: &Fold) -> Result<Value> {
    let max = fold.extreme(b, x, &MAX)?;
    let max = fold.spread(b, max, x)?;
    Ok(b.subtract(x, max)?)
}

fn forward(
    b: &mut B,
    x: Value,
    dim: i64,
    half_to_float: bool,
    f: fn(&mut B, Value, i64) -> Result<Value>,
) -> Result<Value> {
    let dtype = b.dtype(x);
    ensure!(
        !half_to_float || matches!(dtype, DType::F16 | DType::BF16),
        "conversion is supported for Half type only"
    );
    check::dim(dim, b.rank(x))?;
    if b.ty(x).numel() == 0 {
        let to = if half_to_float { DType::F32 } else { dtype };
        return Ok(b.full(0, to, &b.dims(x)));
    }
    ensure!(
        dtype.is_float(),
        NotImplemented,
        "\"softmax\" not implemented for '{}'",
        dtype.torch()
    );
    let x = widen(b, x);
    let y = f(b, x, dim)?;
    Ok(if half_to_float { y } else { cast(b, y, dtype) })
}

/// `(grad - sum(grad * y)) * y`
fn softmax_backward(b: &mut B, grad: Value, y: Value, dim: i64, dtype: DType) -> Result<Value> {
    let (grad, y) = (widen(b, grad), widen(b, y));
    let fold = Fold::one(b, y, dim, true)?;
    let product = b.multiply(grad, y)?;
    let sum = fold.sum(b, product)?;
    let sum = fold.spread(b, sum, y)?;
    let rest = b.subtract(grad, sum)?;
    let x = b.multiply(rest, y)?;
    Ok(cast(b, x, dtype))
}

/// `grad - exp(y) * sum(grad)`
fn log_softmax_backward(b: &mut B, grad: Value, y: Value, dim: i64, dtype: DType) -> Result<Value> {
    let (grad, y) = (widen(b, grad), widen(b, y));
    let fold = Fold::one(b, y, dim, true)?;
    let sum = fold.sum(b, grad)?;
    let sum = fold.spread(b, sum, y)?;
    let share = b.exponential(y);
    let share = b.multiply(share, sum)?;
    let x = b.subtract(grad, share)?;
    Ok(cast(b, x, dtype))
}

/// [`softmax`] whose fully masked rows, all minus infinity, give zeros.
fn safe_softmax(b: &mut B, x: Value, dim: i64, dtype: Option<DType>) -> Result<Value> {
    let to = dtype.unwrap_or(b.dtype(x));
    let x = cast(b, x, to);
    let y = forward(b, x, dim, false, softmax)?;
    let fold = Fold::one(b, x, dim, true)?;
    let low = b.full_like(x, f64::NEG_INFINITY);
    let masked = b.compare(x, Direction::EQ, low)?;
    let masked = b.all(masked, &fold.axes)?;
    let masked = fold.spread(b, masked, x)?;
    let zero = b.full_like(y, 0);
    Ok(b.select(masked, zero, y)?)
}

/// What a mask of `_masked_softmax` covers, and where it stands in the input `[B, H, L, L]`.
fn full_mask(b: &mut B, x: Value, mask: Value, kind: Option<i64>) -> Result<Value> {
    let (dims, given) = (b.dims(x), b.dims(mask));
    ensure!(
        b.dtype(mask) == DType::Bool,
        "Mask should be a boolean tensor"
    );
    ensure!(
        matches!(kind, Some(0..=2)),
        "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)"
    );
    if given == dims {
        return Ok(mask);
    }
    let axes: &[i64] = match kind {
        Some(0) => {
            let fits = dims.len() == 4 && given.as_slice() == &dims[2..];
            ensure!(
                fits,
                "For mask_type == 0 mask shape should match input shape"
            );
            &[2, 3]
        }
        _ => {
            let fits = dims.len() == 4 && given.as_slice() == [dims[0], dims[3]];
            ensure!(
                kind == Some(1) && fits,
                "Mask shape should match input shape"
            );
            &[0, 3]
        }
    };
    Ok(b.broadcast_in_dim(mask, &dims, axes)?)
}

/// Softmax of the elements where `mask` does not hold; zero where it does, and NaN in rows where it
/// holds everywhere.
fn masked_softmax(
    b: &mut B,
    x: Value,
    mask: Value,
    dim: Option<i64>,
    kind: Option<i64>,
) -> Result<Value> {
    let mask = full_mask(b, x, mask, kind)?;
    let dim = check::dim(dim.unwrap_or(-1), b.rank(x))?;
    let low = b.full_like(x, f64::NEG_INFINITY);
    let x = b.select(mask, low, x)?;
    forward(b, x, dim, false, softmax)
}

fn masked_softmax_backward(
    b: &mut B,
    grad: Value,
    y: Value,
    mask: Value,
    dim: Option<i64>,
) -> Result<Value> {
    let dtype = b.dtype(grad);
    ensure!(
        b.dims(grad) == b.dims(mask),
        "Mask shape should match grad shape"
    );
    let dim = check::dim(dim.unwrap_or(-1), b.rank(y))?;
    let zero = b.full_like(y, 0);
    let y = b.select(mask, zero, y)?;
    softmax_backward(b, grad, y, dim, dtype)
}

#[cfg(test)]
mod tests;
