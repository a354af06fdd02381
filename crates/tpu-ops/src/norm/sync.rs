//! Batch norm over a batch that is spread over devices: the steps of `nn.SyncBatchNorm`, between
//! which statistics are exchanged.
use super::batch::{Scales, Sums, axes, moved, normalize, of_batch, updated};
use super::{count, inverse_root, masked, moments, scale, unreduce};
use crate::{Ignored, Outs, Result, Scalar, error::ensure, promote};
use tpu_hlo::{Builder, Dims, Value};

type B = Builder;

/// Mean and reciprocal deviation of a batch, one part of a larger one.
pub(super) fn stats(b: &mut B, input: Value, eps: Scalar) -> Result<(Value, Value)> {
    let by = of_batch(b, input, eps)?;
    Ok((by.mean, by.invstd))
}

/// Mean and biased variance of a batch, and the new running statistics where there are any: the
/// schema does not mark that they are written.
pub(super) fn update_stats(
    b: &mut B,
    input: Value,
    running_mean: Option<Value>,
    running_var: Option<Value>,
    momentum: Scalar,
) -> Result<Outs> {
    let axes = axes(b, input)?;
    let x = promote::widen(b, input);
    let stats = moments(b, x, &axes)?;
    let mut outs: Outs = [stats.mean, stats.var].as_slice().into();
    if let Some(running) = running_mean.zip(running_var) {
        let n = count(b, input, &axes);
        let (mean, var) = updated(b, running, (stats.mean, stats.var), n, momentum)?;
        outs.extend([mean, var]);
    }
    Ok(outs)
}

/// Normalises by given statistics.
pub(super) fn elemt(
    b: &mut B,
    input: Value,
    weight: Option<Value>,
    bias: Option<Value>,
    mean: Value,
    invstd: Value,
    _eps: Ignored,
) -> Result<Value> {
    axes(b, input)?;
    normalize(
        b,
        input,
        weight,
        bias,
        &Scales {
            mean,
            invstd,
            var: None,
        },
    )
}

/// As [`gather_stats_with_counts`], all parts having `count` elements per channel.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn gather_stats(
    b: &mut B,
    input: Value,
    mean: Value,
    invstd: Value,
    running_mean: Option<Value>,
    running_var: Option<Value>,
    momentum: Scalar,
    eps: Scalar,
    count: Scalar,
) -> Result<Outs> {
    let parts = b.dims(mean).first().copied().unwrap_or(1);
    let dtype = b.dtype(mean);
    let count = promote::cast(b, count.0, dtype);
    let counts = b.broadcast(count, &[parts])?;
    gather_stats_with_counts(
        b,
        input,
        mean,
        invstd,
        running_mean,
        running_var,
        momentum,
        eps,
        counts,
    )
}

/// Mean and reciprocal deviation of a batch from those of its parts (`[parts, C]`) with `counts`
/// elements per channel each, and the new running statistics where there are any: the schema
/// does not mark that they are written.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn gather_stats_with_counts(
    b: &mut B,
    _input: Value,
    mean: Value,
    invstd: Value,
    running_mean: Option<Value>,
    running_var: Option<Value>,
    momentum: Scalar,
    eps: Scalar,
    counts: Value,
) -> Result<Outs> {
    let dims = b.dims(mean);
    ensure!(
        dims.len() == 2,
        "expected statistics of shape [parts, C], but got {:?}",
        dims.as_slice()
    );
    let counts = promote::cast(b, counts, b.dtype(mean));
    let n = b.sum(counts, &[0])?;
    let n = b.broadcast(n, &[dims[1]])?;
    let weighted = scale(b, mean, Some(counts), &[0])?;
    let total = b.sum(weighted, &[0])?;
    let center = b.divide(total, n)?;
    let away = unreduce(b, center, &dims, &[0])?;
    let away = b.subtract(mean, away)?;
    let between = b.multiply(away, away)?;
    let inside = variance(b, invstd, eps)?;
    let spread = b.add(inside, between)?;
    let spread = scale(b, spread, Some(counts), &[0])?;
    let squares = b.sum(spread, &[0])?;
    let var = b.divide(squares, n)?;
    let invstd = inverse_root(b, var, eps)?;
    let mut outs: Outs = [center, invstd].as_slice().into();
    if let Some(running) = running_mean.zip(running_var) {
        let one = b.full_like(n, 1);
        let free = b.subtract(n, one)?;
        let unbiased = b.divide(squares, free)?;
        outs.push(moved(b, running.0, center, momentum)?);
        outs.push(moved(b, running.1, unbiased, momentum)?);
    }
    Ok(outs)
}

/// `1 / invstd^2 - eps`
fn variance(b: &mut B, invstd: Value, eps: Scalar) -> Result<Value> {
    let one = b.full_like(invstd, 1);
    let squared = b.multiply(invstd, invstd)?;
    let var = b.divide(one, squared)?;
    let eps = promote::scalar_like(b, eps.0, var)?;
    Ok(b.subtract(var, eps)?)
}

/// Sums per channel of the gradient and of the gradient times the centered input, then the
/// gradients for weight and bias.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn backward_reduce(
    b: &mut B,
    grad_out: Value,
    input: Value,
    mean: Value,
    invstd: Value,
    weight: Option<Value>,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> Result<(Value, Value, Value, Value)> {
    let by = Scales {
        mean,
        invstd,
        var: None,
    };
    let sums = Sums::of(b, grad_out, input, &by)?;
    let parameter = weight.map_or(b.dtype(mean), |w| b.dtype(w));
    let sum_dy = masked(b, input_g, |_| Ok(sums.grad))?;
    let sum_dy_xmu = masked(b, input_g, |_| Ok(sums.products))?;
    let grad_weight = masked(b, weight_g, |b| {
        let sum = b.multiply(sums.products, invstd)?;
        Ok(b.convert(sum, parameter))
    })?;
    let grad_bias = masked(b, bias_g, |b| Ok(b.convert(sums.grad, parameter)))?;
    Ok((sum_dy, sum_dy_xmu, grad_weight, grad_bias))
}

/// The gradient for the input from the sums over all parts of the batch; `count` are the elements
/// per channel of each part.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn backward_elemt(
    b: &mut B,
    grad_out: Value,
    input: Value,
    mean: Value,
    invstd: Value,
    weight: Option<Value>,
    sum_dy: Value,
    sum_dy_xmu: Value,
    count: Value,
) -> Result<Value> {
    axes(b, input)?;
    let all: Dims = (0..b.rank(count) as i64).collect();
    let n = b.sum(count, &all)?;
    let n = promote::cast(b, n, b.dtype(sum_dy));
    let sums = Sums {
        grad: sum_dy,
        products: sum_dy_xmu,
    };
    sums.input_gradient(
        b,
        grad_out,
        input,
        &Scales {
            mean,
            invstd,
            var: None,
        },
        weight,
        Some(n),
    )
}
