//! Layer norm and RMS norm.
use super::{input_gradient, inverse_root, masked, mean, moments, scale, shift, unreduce};
use crate::{Result, Scalar, error::ensure, promote};
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;

/// The leading dimensions and the normalised ones.
fn split(b: &B, x: Value, normalized_shape: &[i64]) -> Result<(Dims, Dims)> {
    let dims = b.dims(x);
    ensure!(
        !normalized_shape.is_empty(),
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one \
         element, but got normalized_shape = []"
    );
    let inner: Vec<String> = normalized_shape.iter().map(i64::to_string).collect();
    ensure!(
        dims.ends_with(normalized_shape),
        "Given normalized_shape={normalized_shape:?}, expected input with shape [*, {}], but got \
         input of size{:?}",
        inner.join(", "),
        dims.as_slice()
    );
    let first = (dims.len() - normalized_shape.len()) as i64;
    Ok(((0..first).collect(), (first..dims.len() as i64).collect()))
}

fn parameter_fits(b: &B, name: &str, v: Option<Value>, normalized_shape: &[i64]) -> Result<()> {
    let Some(v) = v else { return Ok(()) };
    let dims = b.dims(v);
    ensure!(
        dims.as_slice() == normalized_shape,
        "Expected {name} to be of same shape as normalized_shape, but got {name} of shape {:?} and \
         normalized_shape = {normalized_shape:?}",
        dims.as_slice()
    );
    Ok(())
}

/// The shape that statistics are returned in: normalised dimensions of size one.
fn with_ones(b: &mut B, stat: Value, dims: &[i64], axes: &[i64]) -> Result<Value> {
    let size = |(i, n): (usize, &i64)| if axes.contains(&(i as i64)) { 1 } else { *n };
    let dims: Dims = dims.iter().enumerate().map(size).collect();
    Ok(b.reshape(stat, &dims)?)
}

/// A statistic that comes with dimensions of size one, stretched to `dims`.
fn stretch(b: &mut B, stat: Value, dtype: DType, dims: &[i64]) -> Result<Value> {
    let stat = b.convert(stat, dtype);
    Ok(b.broadcast(stat, dims)?)
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the trailing dimensions; also the mean and
/// the reciprocal deviation, float32 for half-width floats as on CUDA.
pub(super) fn layer_norm(
    b: &mut B,
    input: Value,
    normalized_shape: Dims,
    weight: Option<Value>,
    bias: Option<Value>,
    eps: Scalar,
) -> Result<(Value, Value, Value)> {
    parameter_fits(b, "weight", weight, &normalized_shape)?;
    parameter_fits(b, "bias", bias, &normalized_shape)?;
    let (_, axes) = split(b, input, &normalized_shape)?;
    let (dtype, dims) = (b.dtype(input), b.dims(input));
    let x = promote::widen(b, input);
    let stats = moments(b, x, &axes)?;
    let rstd = inverse_root(b, stats.var, eps)?;
    let by = unreduce(b, rstd, &dims, &axes)?;
    let y = b.multiply(stats.centered, by)?;
    let y = scale(b, y, weight, &axes)?;
    let y = shift(b, y, bias, &axes)?;
    let y = b.convert(y, dtype);
    let mean = with_ones(b, stats.mean, &dims, &axes)?;
    let rstd = with_ones(b, rstd, &dims, &axes)?;
    Ok((y, mean, rstd))
}

/// Gradients of [`layer_norm`] for input, weight and bias.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn layer_norm_backward(
    b: &mut B,
    grad_out: Value,
    input: Value,
    normalized_shape: Dims,
    mean: Value,
    rstd: Value,
    weight: Option<Value>,
    bias: Option<Value>,
    output_mask: Vec<bool>,
) -> Result<(Value, Value, Value)> {
    let (lead, axes) = split(b, input, &normalized_shape)?;
    let (dtype, dims) = (b.dtype(input), b.dims(input));
    let x = promote::widen(b, input);
    let wide = b.dtype(x);
    let g = b.convert(grad_out, wide);
    let mean = stretch(b, mean, wide, &dims)?;
    let rstd = stretch(b, rstd, wide, &dims)?;
    let x = b.subtract(x, mean)?;
    let x_hat = b.multiply(x, rstd)?;
    let grad_input = masked(b, output_mask[0], |b| {
        let g = scale(b, g, weight, &axes)?;
        let out = input_gradient(b, g, x_hat, rstd, &axes, true)?;
        Ok(b.convert(out, dtype))
    })?;
    let grad_weight = parameter_gradient(b, weight.filter(|_| output_mask[1]), &lead, |b| {
        Ok(b.multiply(g, x_hat)?)
    })?;
    let grad_bias = parameter_gradient(b, bias.filter(|_| output_mask[2]), &lead, |_| Ok(g))?;
    Ok((grad_input, grad_weight, grad_bias))
}

/// The sum over the leading dimensions, in the parameter's dtype; undefined without parameter.
fn parameter_gradient(
    b: &mut B,
    parameter: Option<Value>,
    lead: &[i64],
    terms: impl FnOnce(&mut B) -> Result<Value>,
) -> Result<Value> {
    let Some(parameter) = parameter else {
        return Ok(b.undefined());
    };
    let dtype = b.dtype(parameter);
    let terms = terms(b)?;
    let sum = b.sum(terms, lead)?;
    Ok(b.convert(sum, dtype))
}

/// `x / sqrt(mean(x * x) + eps) * weight` over the trailing dimensions, and the reciprocal root.
/// Without `eps` it is the machine epsilon of the type that is computed in.
pub(super) fn rms_norm(
    b: &mut B,
    input: Value,
    normalized_shape: Dims,
    weight: Option<Value>,
    eps: Option<Scalar>,
) -> Result<(Value, Value)> {
    parameter_fits(b, "weight", weight, &normalized_shape)?;
    let (_, axes) = split(b, input, &normalized_shape)?;
    let (dtype, dims) = (b.dtype(input), b.dims(input));
    let x = promote::widen(b, input);
    let wide = b.dtype(x);
    let squared = b.multiply(x, x)?;
    let ms = mean(b, squared, &axes)?;
    let eps = match eps {
        Some(eps) => eps,
        None => Scalar(b.scalar(epsilon(wide), wide)),
    };
    let rstd = inverse_root(b, ms, eps)?;
    let by = unreduce(b, rstd, &dims, &axes)?;
    let y = b.multiply(x, by)?;
    let y = scale(b, y, weight, &axes)?;
    let y = b.convert(y, dtype);
    let rstd = with_ones(b, rstd, &dims, &axes)?;
    Ok((y, rstd))
}

fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F64 {
        f64::EPSILON
    } else {
        f32::EPSILON.into()
    }
}

/// Gradients of [`rms_norm`] for input and weight.
pub(super) fn rms_norm_backward(
    b: &mut B,
    grad_out: Value,
    input: Value,
    normalized_shape: Dims,
    rstd: Value,
    weight: Option<Value>,
    output_mask: Vec<bool>,
) -> Result<(Value, Value)> {
    let (lead, axes) = split(b, input, &normalized_shape)?;
    let (dtype, dims) = (b.dtype(input), b.dims(input));
    let x = promote::widen(b, input);
    let wide = b.dtype(x);
    let g = b.convert(grad_out, wide);
    let rstd = stretch(b, rstd, wide, &dims)?;
    let x_hat = b.multiply(x, rstd)?;
    let grad_input = masked(b, output_mask[0], |b| {
        let g = scale(b, g, weight, &axes)?;
        let out = input_gradient(b, g, x_hat, rstd, &axes, false)?;
        Ok(b.convert(out, dtype))
    })?;
    let grad_weight = parameter_gradient(b, weight.filter(|_| output_mask[1]), &lead, |b| {
        Ok(b.multiply(g, x_hat)?)
    })?;
    Ok((grad_input, grad_weight))
}
