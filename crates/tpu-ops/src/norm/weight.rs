//! Weight norm and `renorm`: norms of the slices of a tensor along one dimension.
use super::along;
use crate::{Result, Scalar, check, error::ensure, promote};
use tpu_hlo::{Builder, Dims, Direction, Number, Value};

type B = Builder;

/// Every dimension but `dim`.
fn others(b: &B, x: Value, dim: i64) -> Dims {
    (0..b.rank(x) as i64).filter(|i| *i != dim).collect()
}

/// Sums over every dimension but `dim`, as a vector.
fn sum_of_slices(b: &mut B, x: Value, dim: i64) -> Result<Value> {
    let axes = others(b, x, dim);
    Ok(b.sum(x, &axes)?)
}

/// `v * (g / norm(v))` with a norm per slice along `dim`, the first or the last one; also the
/// norms in `g`'s shape, float32 for half-width floats.
pub(super) fn weight_norm(b: &mut B, v: Value, g: Value, dim: i64) -> Result<(Value, Value)> {
    let dim = check::dim(dim, b.rank(v))?;
    let dtype = b.dtype(v);
    let x = promote::widen(b, v);
    let squared = b.multiply(x, x)?;
    let sums = sum_of_slices(b, squared, dim)?;
    let norms = b.sqrt(sums);
    let norms = b.reshape(norms, &b.dims(g))?;
    let wide_g = b.convert(g, b.dtype(x));
    let ratio = b.divide(wide_g, norms)?;
    let ratio = b.broadcast(ratio, &b.dims(v))?;
    let w = b.multiply(x, ratio)?;
    Ok((b.convert(w, dtype), norms))
}

/// Gradients of [`weight_norm`] for `v` and `g`.
pub(super) fn weight_norm_backward(
    b: &mut B,
    grad_w: Value,
    saved_v: Value,
    saved_g: Value,
    saved_norms: Value,
    dim: i64,
) -> Result<(Value, Value)> {
    let dim = check::dim(dim, b.rank(saved_v))?;
    let (dtype, dims) = (b.dtype(saved_v), b.dims(saved_v));
    let v = promote::widen(b, saved_v);
    let wide = b.dtype(v);
    let grad = b.convert(grad_w, wide);
    let g = b.convert(saved_g, wide);
    let norms = b.convert(saved_norms, wide);
    let products = b.multiply(grad, v)?;
    let dot = sum_of_slices(b, products, dim)?;
    let dot = b.reshape(dot, &b.dims(g))?;
    let grad_g = b.divide(dot, norms)?;
    let squared = b.multiply(norms, norms)?;
    let share = b.divide(dot, squared)?;
    let share = b.broadcast(share, &dims)?;
    let ratio = b.divide(g, norms)?;
    let ratio = b.broadcast(ratio, &dims)?;
    let radial = b.multiply(v, share)?;
    let grad_v = b.subtract(grad, radial)?;
    let grad_v = b.multiply(grad_v, ratio)?;
    Ok((b.convert(grad_v, dtype), b.convert(grad_g, dtype)))
}

/// Slices along `dim` whose `p`-norm exceeds `maxnorm` are scaled down to it.
pub(super) fn renorm(b: &mut B, x: Value, p: Number, dim: i64, maxnorm: Scalar) -> Result<Value> {
    let (dtype, rank) = (b.dtype(x), b.rank(x));
    ensure!(p.to_f64() > 0.0, "renorm: non-positive-norm not supported");
    ensure!(
        rank > 1,
        "renorm: input needs at least 2 dimensions, got {rank} dimensions"
    );
    let dim = check::dim(dim, rank)?;
    let wide = promote::widen(b, x);
    let size = b.abs(wide);
    let norms = norm_of_slices(b, size, p.to_f64(), dim)?;
    let maxnorm = promote::scalar_like(b, maxnorm.0, norms)?;
    let guard = b.full_like(norms, 1e-7);
    let padded = b.add(norms, guard)?;
    let shrink = b.divide(maxnorm, padded)?;
    let one = b.full_like(norms, 1);
    let over = b.compare(norms, Direction::GT, maxnorm)?;
    let factor = b.select(over, shrink, one)?;
    let factor = along(b, factor, wide, &[dim])?;
    let out = b.multiply(wide, factor)?;
    Ok(b.convert(out, dtype))
}

/// The `p`-norm of non-negative slices along `dim`, as a vector.
fn norm_of_slices(b: &mut B, x: Value, p: f64, dim: i64) -> Result<Value> {
    if p.is_infinite() {
        let axes = others(b, x, dim);
        let zero = b.scalar(0, b.dtype(x));
        return Ok(b.reduce(x, zero, &axes, B::maximum)?);
    }
    if p == 1.0 {
        return sum_of_slices(b, x, dim);
    }
    if p == 2.0 {
        let squared = b.multiply(x, x)?;
        let sums = sum_of_slices(b, squared, dim)?;
        return Ok(b.sqrt(sums));
    }
    let exponent = b.full_like(x, p);
    let powers = b.power(x, exponent)?;
    let sums = sum_of_slices(b, powers, dim)?;
    let exponent = b.full_like(sums, 1.0 / p);
    Ok(b.power(sums, exponent)?)
}
