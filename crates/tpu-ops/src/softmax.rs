//! Softmax and its relatives.
use crate::{
    Op, Result, check,
    error::ensure,
    op::op,
    promote::{cast, widen},
    reduce::{Fold, MAX},
};
use tpu_hlo::{Builder, DType, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_log_softmax",               |b: &mut B, x, d, h| forward(b, x, d, h, log_softmax)),
    op!("_log_softmax_backward_data", log_softmax_backward),
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
    ensure!(
        dtype.is_float(),
        NotImplemented,
        "\"softmax\" not implemented for '{}'",
        dtype.torch()
    );
    check::dim(dim, b.rank(x))?;
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
