//! Group norm.
use super::{along, input_gradient, inverse_root, masked, moments, scale, shift, unreduce};
use crate::{Result, Scalar, error::ensure, promote};
use tpu_hlo::{Builder, Dims, Value};

type B = Builder;

/// Dimensions that make up a group of `[N, group, C / group, HxW]`.
const AXES: &[i64] = &[2, 3];

/// The input as `[N, group, C / group, HxW]`.
fn grouped(n: i64, c: i64, hw: i64, group: i64) -> Result<Dims> {
    ensure!(
        group > 0,
        "Expected num groups to be greater than 0, got {group}"
    );
    ensure!(
        c % group == 0,
        "Expected number of channels in input to be divisible by num_groups, but got input of \
         shape [{n}, {c}, {hw}] and num_groups={group}"
    );
    Ok([n, group, c / group, hw].as_slice().into())
}

/// A parameter per channel, as `[group, C / group]`.
fn per_channel(b: &mut B, v: Option<Value>, dims: &[i64]) -> Result<Option<Value>> {
    let Some(v) = v else { return Ok(None) };
    let c = dims[1] * dims[2];
    let given = b.dims(v);
    ensure!(
        given.as_slice() == [c],
        "Expected weight to be a vector of size equal to the number of channels in input, but got \
         weight of shape {:?} and input of shape [{}, {c}, {}]",
        given.as_slice(),
        dims[0],
        dims[3]
    );
    Ok(Some(b.reshape(v, &dims[1..3])?))
}

/// `(x - mean) / sqrt(var + eps) * weight + bias`, with statistics per sample and group, which are
/// returned as `[N, group]` in the input's dtype.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn group_norm(
    b: &mut B,
    input: Value,
    weight: Option<Value>,
    bias: Option<Value>,
    n: i64,
    c: i64,
    hw: i64,
    group: i64,
    eps: Scalar,
) -> Result<(Value, Value, Value)> {
    let dims = grouped(n, c, hw, group)?;
    let (dtype, shape) = (b.dtype(input), b.dims(input));
    let x = promote::widen(b, input);
    let x = b.reshape(x, &dims)?;
    let stats = moments(b, x, AXES)?;
    let rstd = inverse_root(b, stats.var, eps)?;
    let by = unreduce(b, rstd, &dims, AXES)?;
    let y = b.multiply(stats.centered, by)?;
    let weight = per_channel(b, weight, &dims)?;
    let y = scale(b, y, weight, &[1, 2])?;
    let bias = per_channel(b, bias, &dims)?;
    let y = shift(b, y, bias, &[1, 2])?;
    let y = b.reshape(y, &shape)?;
    let y = b.convert(y, dtype);
    Ok((y, b.convert(stats.mean, dtype), b.convert(rstd, dtype)))
}

/// Gradients of [`group_norm`] for input, weight and bias.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn group_norm_backward(
    b: &mut B,
    grad_out: Value,
    input: Value,
    mean: Value,
    rstd: Value,
    weight: Option<Value>,
    n: i64,
    c: i64,
    hw: i64,
    group: i64,
    output_mask: Vec<bool>,
) -> Result<(Value, Value, Value)> {
    let dims = grouped(n, c, hw, group)?;
    let (dtype, shape) = (b.dtype(input), b.dims(input));
    let parameter = weight.map_or(dtype, |w| b.dtype(w));
    let x = promote::widen(b, input);
    let g = b.convert(grad_out, b.dtype(x));
    let x = b.reshape(x, &dims)?;
    let g = b.reshape(g, &dims)?;
    let mean = along(b, mean, x, &[0, 1])?;
    let rstd = along(b, rstd, x, &[0, 1])?;
    let x = b.subtract(x, mean)?;
    let x_hat = b.multiply(x, rstd)?;
    let grad_input = masked(b, output_mask[0], |b| {
        let weight = per_channel(b, weight, &dims)?;
        let g = scale(b, g, weight, &[1, 2])?;
        let out = input_gradient(b, g, x_hat, rstd, AXES, true)?;
        let out = b.reshape(out, &shape)?;
        Ok(b.convert(out, dtype))
    })?;
    let over_samples = |b: &mut B, terms: Value| {
        let sum = b.sum(terms, &[0, 3])?;
        let sum = b.reshape(sum, &[c])?;
        Ok(b.convert(sum, parameter))
    };
    let grad_weight = masked(b, output_mask[1], |b| {
        let terms = b.multiply(g, x_hat)?;
        over_samples(b, terms)
    })?;
    let grad_bias = masked(b, output_mask[2], |b| over_samples(b, g))?;
    Ok((grad_input, grad_weight, grad_bias))
}
