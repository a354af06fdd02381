//! Normalisations. Half-width floats are computed in float32, statistics included, and rounded
//! once; variances take two passes, so that a large mean costs no precision.
mod batch;
mod group;
mod layer;
mod sync;
mod weight;

use crate::{Op, OutDtype, Result, Scalar, op::op, promote};
use tpu_hlo::{Builder, Dims, Value};

type B = Builder;

const BATCH_OUT_DTYPE: OutDtype = OutDtype::Exact("expected scalar type {result} but found {out}");

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_batch_norm_no_update",                   batch::no_update).keeps_format(),
    op!("_batch_norm_with_update_functional",      batch::with_update).keeps_format(),
    op!("_fused_rms_norm",                         layer::rms_norm),
    op!("_fused_rms_norm_backward",                layer::rms_norm_backward),
    op!("_native_batch_norm_legit.no_stats",       batch::no_stats).keeps_format(),
    op!("_native_batch_norm_legit_functional",     batch::functional).keeps_format()
        .out(BATCH_OUT_DTYPE),
    op!("_native_batch_norm_legit_no_training",    batch::no_training).keeps_format(),
    op!("_weight_norm_interface",                  weight::weight_norm),
    op!("_weight_norm_interface_backward",         weight::weight_norm_backward),
    op!("batch_norm_backward",                     batch::backward_with_reserve).keeps_format(),
    op!("batch_norm_backward_elemt",               sync::backward_elemt).keeps_format(),
    op!("batch_norm_backward_reduce",              sync::backward_reduce),
    op!("batch_norm_elemt",                        sync::elemt).keeps_format(),
    op!("batch_norm_gather_stats",                 sync::gather_stats),
    op!("batch_norm_gather_stats_with_counts",     sync::gather_stats_with_counts),
    op!("batch_norm_stats",                        sync::stats),
    op!("batch_norm_update_stats",                 sync::update_stats),
    op!("native_batch_norm",                       batch::native).keeps_format()
        .out(BATCH_OUT_DTYPE),
    op!("native_batch_norm_backward",              batch::backward).keeps_format(),
    op!("native_group_norm",                       group::group_norm).keeps_format(),
    op!("native_group_norm_backward",              group::group_norm_backward).keeps_format(),
    op!("native_layer_norm",                       layer::layer_norm),
    op!("native_layer_norm_backward",              layer::layer_norm_backward),
    op!("renorm",                                  weight::renorm),
];

/// The statistics of a tensor, reduced over `axes`.
struct Moments {
    /// Mean, without the reduced dimensions.
    mean: Value,
    /// Biased variance, without the reduced dimensions.
    var: Value,
    /// The tensor less its mean.
    centered: Value,
}

/// Number of elements that are folded into one over `axes`.
fn count(b: &B, x: Value, axes: &[i64]) -> i64 {
    let dims = b.dims(x);
    axes.iter().map(|a| dims[*a as usize]).product()
}

/// `x / n` for a number known now.
fn divide_by(b: &mut B, x: Value, n: i64) -> Result<Value> {
    let n = b.size_like(x, n)?;
    Ok(b.divide(x, n)?)
}

/// Mean over `axes`, which go.
fn mean(b: &mut B, x: Value, axes: &[i64]) -> Result<Value> {
    let n = count(b, x, axes);
    let sum = b.sum(x, axes)?;
    divide_by(b, sum, n)
}

fn moments(b: &mut B, x: Value, axes: &[i64]) -> Result<Moments> {
    let mean_ = mean(b, x, axes)?;
    let stretched = unreduce(b, mean_, &b.dims(x), axes)?;
    let centered = b.subtract(x, stretched)?;
    let squared = b.multiply(centered, centered)?;
    let var = mean(b, squared, axes)?;
    Ok(Moments {
        mean: mean_,
        var,
        centered,
    })
}

/// Broadcasts a value reduced over `axes` back to `dims`.
fn unreduce(b: &mut B, x: Value, dims: &[i64], axes: &[i64]) -> Result<Value> {
    let kept: Dims = (0..dims.len() as i64)
        .filter(|i| !axes.contains(i))
        .collect();
    Ok(b.broadcast_in_dim(x, dims, &kept)?)
}

/// `1 / sqrt(var + eps)`
fn inverse_root(b: &mut B, var: Value, eps: Scalar) -> Result<Value> {
    let eps = promote::scalar_like(b, eps.0, var)?;
    let var = b.add(var, eps)?;
    Ok(b.rsqrt(var))
}

/// `v` in `like`'s type, its dimensions placed at `axes`.
fn along(b: &mut B, v: Value, like: Value, axes: &[i64]) -> Result<Value> {
    let v = b.convert(v, b.dtype(like));
    Ok(b.broadcast_in_dim(v, &b.dims(like), axes)?)
}

/// `x * weight`, where there is one, its dimensions placed at `axes`.
fn scale(b: &mut B, x: Value, weight: Option<Value>, axes: &[i64]) -> Result<Value> {
    let Some(weight) = weight else { return Ok(x) };
    let weight = along(b, weight, x, axes)?;
    Ok(b.multiply(x, weight)?)
}

/// `x + bias`, where there is one, its dimensions placed at `axes`.
fn shift(b: &mut B, x: Value, bias: Option<Value>, axes: &[i64]) -> Result<Value> {
    let Some(bias) = bias else { return Ok(x) };
    let bias = along(b, bias, x, axes)?;
    Ok(b.add(x, bias)?)
}

/// `rstd * (g - mean(g) - x_hat * mean(g * x_hat))`, the gradient of `(x - mean) * rstd` over
/// `axes`; without the middle term when nothing was `centered`.
fn input_gradient(
    b: &mut B,
    g: Value,
    x_hat: Value,
    rstd: Value,
    axes: &[i64],
    centered: bool,
) -> Result<Value> {
    let dims = b.dims(g);
    let common = b.multiply(g, x_hat)?;
    let common = mean(b, common, axes)?;
    let common = unreduce(b, common, &dims, axes)?;
    let common = b.multiply(x_hat, common)?;
    let mut out = g;
    if centered {
        let m = mean(b, g, axes)?;
        let m = unreduce(b, m, &dims, axes)?;
        out = b.subtract(out, m)?;
    }
    let out = b.subtract(out, common)?;
    Ok(b.multiply(out, rstd)?)
}

/// What `make` gives when `wanted`, else an undefined tensor.
fn masked(b: &mut B, wanted: bool, make: impl FnOnce(&mut B) -> Result<Value>) -> Result<Value> {
    if wanted { make(b) } else { Ok(b.undefined()) }
}

#[cfg(test)]
mod tests;
