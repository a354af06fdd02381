//! Batch norm in its many spellings: statistics per channel, dimension 1.
use super::{along, count, inverse_root, masked, moments, scale, shift};
use crate::{Error, Outs, Result, Scalar, error::ensure, promote};
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;

/// The dimension of the channels.
pub(super) const CHANNEL: &[i64] = &[1];

/// Every dimension but the channels'.
pub(super) fn axes(b: &B, x: Value) -> Result<Dims> {
    let rank = b.rank(x);
    ensure!(
        rank >= 2,
        "batch_norm: expected an input of at least 2 dimensions, got {rank}"
    );
    Ok((0..rank as i64).filter(|i| *i != 1).collect())
}

fn parameters_fit(b: &B, x: Value, parameters: [(&str, Option<Value>); 4]) -> Result<()> {
    let c = b.dims(x)[1];
    for (name, v) in parameters {
        let n = v.map_or(c, |v| b.ty(v).numel());
        ensure!(n == c, "{name} should contain {c} elements not {n}");
    }
    Ok(())
}

/// What normalises a batch: a mean and a reciprocal deviation per channel.
pub(super) struct Scales {
    pub(super) mean: Value,
    pub(super) invstd: Value,
    /// Biased variance of the batch; none when the scales are running ones.
    pub(super) var: Option<Value>,
}

/// Running mean and variance.
type Running = Option<(Value, Value)>;

/// Scales from the batch itself.
pub(super) fn of_batch(b: &mut B, input: Value, eps: Scalar) -> Result<Scales> {
    let axes = axes(b, input)?;
    let x = promote::widen(b, input);
    let stats = moments(b, x, &axes)?;
    let invstd = inverse_root(b, stats.var, eps)?;
    Ok(Scales {
        mean: stats.mean,
        invstd,
        var: Some(stats.var),
    })
}

/// Scales from the running statistics.
fn of_running(b: &mut B, input: Value, running: (Value, Value), eps: Scalar) -> Result<Scales> {
    axes(b, input)?;
    let wide = promote::opmath(b.dtype(input));
    let mean = b.convert(running.0, wide);
    let var = b.convert(running.1, wide);
    let invstd = inverse_root(b, var, eps)?;
    Ok(Scales {
        mean,
        invstd,
        var: None,
    })
}

/// `(x - mean) * invstd * weight + bias`
pub(super) fn normalize(
    b: &mut B,
    input: Value,
    weight: Option<Value>,
    bias: Option<Value>,
    by: &Scales,
) -> Result<Value> {
    let dtype = b.dtype(input);
    let x = promote::widen(b, input);
    let mean = along(b, by.mean, x, CHANNEL)?;
    let x = b.subtract(x, mean)?;
    let y = scale(b, x, Some(by.invstd), CHANNEL)?;
    let y = scale(b, y, weight, CHANNEL)?;
    let y = shift(b, y, bias, CHANNEL)?;
    Ok(b.convert(y, dtype))
}

/// `(1 - momentum) * running + momentum * new`, in `running`'s dtype.
pub(super) fn moved(b: &mut B, running: Value, new: Value, momentum: Scalar) -> Result<Value> {
    let old = b.convert(running, b.dtype(new));
    let momentum = promote::scalar_like(b, momentum.0, new)?;
    let one = b.full_like(new, 1);
    let rest = b.subtract(one, momentum)?;
    let old = b.multiply(old, rest)?;
    let new = b.multiply(new, momentum)?;
    let sum = b.add(old, new)?;
    Ok(b.convert(sum, b.dtype(running)))
}

/// The running statistics after a batch of `n` elements per channel; the variance that goes in is
/// the unbiased one.
pub(super) fn updated(
    b: &mut B,
    running: (Value, Value),
    (mean, var): (Value, Value),
    n: i64,
    momentum: Scalar,
) -> Result<(Value, Value)> {
    let unbiased = b.full_like(var, n as f64 / (n as f64 - 1.0));
    let var = b.multiply(var, unbiased)?;
    Ok((
        moved(b, running.0, mean, momentum)?,
        moved(b, running.1, var, momentum)?,
    ))
}

/// The scales that a call normalises with.
fn scales(
    b: &mut B,
    input: Value,
    running: Running,
    training: bool,
    eps: Scalar,
) -> Result<Scales> {
    match (training, running) {
        (true, _) => of_batch(b, input, eps),
        (false, Some(running)) => of_running(b, input, running, eps),
        (false, None) => Err(Error::runtime(
            "running_mean and running_var must be defined in evaluation mode",
        )),
    }
}

/// Output, mean and reciprocal deviation (no elements in evaluation), and in training the new
/// running statistics.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
fn batch_norm(
    b: &mut B,
    input: Value,
    weight: Option<Value>,
    bias: Option<Value>,
    running: Running,
    training: bool,
    momentum: Scalar,
    eps: Scalar,
) -> Result<(Outs, Running)> {
    let axes = axes(b, input)?;
    let (mean, var) = running.unzip();
    let parameters = [
        ("running_mean", mean),
        ("running_var", var),
        ("weight", weight),
        ("bias", bias),
    ];
    parameters_fit(b, input, parameters)?;
    let sizes = b.dims(input).to_vec();
    ensure!(
        !training || !sizes.contains(&0),
        "input tensor must have at least one element, but got input_sizes = {sizes:?}"
    );
    let by = scales(b, input, running, training, eps)?;
    let out = normalize(b, input, weight, bias, &by)?;
    let Some(var) = by.var else {
        let nothing = b.full(0, b.dtype(by.mean), &[0]);
        return Ok(([out, nothing, nothing].as_slice().into(), None));
    };
    let n = count(b, input, &axes);
    let next = running.map(|running| updated(b, running, (by.mean, var), n, momentum));
    let outs = [out, by.mean, by.invstd].as_slice().into();
    Ok((outs, next.transpose()?))
}

/// The new running statistics follow the three results of the schema, when there are any: the
/// schema does not mark that they are written. Evaluation leaves them alone.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn native(
    b: &mut B,
    input: Value,
    weight: Option<Value>,
    bias: Option<Value>,
    running_mean: Option<Value>,
    running_var: Option<Value>,
    training: bool,
    momentum: Scalar,
    eps: Scalar,
) -> Result<Outs> {
    let running = running_mean.zip(running_var);
    let (mut outs, next) = batch_norm(b, input, weight, bias, running, training, momentum, eps)?;
    if running.is_some() {
        let (mean, var) = next.unwrap_or_else(|| (b.undefined(), b.undefined()));
        outs.extend([mean, var]);
    }
    Ok(outs)
}

/// The running statistics after the call are the last two results.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn functional(
    b: &mut B,
    input: Value,
    weight: Option<Value>,
    bias: Option<Value>,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: Scalar,
    eps: Scalar,
) -> Result<Outs> {
    let running = (running_mean, running_var);
    let (mut outs, next) = batch_norm(
        b,
        input,
        weight,
        bias,
        Some(running),
        training,
        momentum,
        eps,
    )?;
    let (mean, var) = next.unwrap_or(running);
    outs.extend([mean, var]);
    Ok(outs)
}

/// Normalises by the batch and keeps no running statistics.
pub(super) fn no_stats(
    b: &mut B,
    input: Value,
    weight: Option<Value>,
    bias: Option<Value>,
    training: bool,
    momentum: Scalar,
    eps: Scalar,
) -> Result<Outs> {
    Ok(batch_norm(b, input, weight, bias, None, training, momentum, eps)?.0)
}

/// Normalises by the running statistics.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn no_training(
    b: &mut B,
    input: Value,
    weight: Option<Value>,
    bias: Option<Value>,
    running_mean: Value,
    running_var: Value,
    momentum: Scalar,
    eps: Scalar,
) -> Result<Outs> {
    let running = Some((running_mean, running_var));
    Ok(batch_norm(b, input, weight, bias, running, false, momentum, eps)?.0)
}

/// The workspace that cuDNN's kernels hand to their backward: nothing here.
fn reserve(b: &mut B) -> Value {
    b.full(0, DType::U8, &[0])
}

/// Training; the workspace is the fourth result, the running statistics the last two.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn with_update(
    b: &mut B,
    input: Value,
    weight: Option<Value>,
    bias: Option<Value>,
    running_mean: Value,
    running_var: Value,
    momentum: Scalar,
    eps: Scalar,
) -> Result<Outs> {
    let mut outs = functional(
        b,
        input,
        weight,
        bias,
        running_mean,
        running_var,
        true,
        momentum,
        eps,
    )?;
    outs.insert(3, reserve(b));
    Ok(outs)
}

/// Evaluation; the workspace is the fourth result.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn no_update(
    b: &mut B,
    input: Value,
    weight: Option<Value>,
    bias: Option<Value>,
    running_mean: Option<Value>,
    running_var: Option<Value>,
    momentum: Scalar,
    eps: Scalar,
) -> Result<Outs> {
    let running = running_mean.zip(running_var);
    let (mut outs, _) = batch_norm(b, input, weight, bias, running, false, momentum, eps)?;
    outs.push(reserve(b));
    Ok(outs)
}

/// Gradients for input, weight and bias.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn backward(
    b: &mut B,
    grad_out: Value,
    input: Value,
    weight: Option<Value>,
    running_mean: Option<Value>,
    running_var: Option<Value>,
    save_mean: Option<Value>,
    save_invstd: Option<Value>,
    train: bool,
    eps: Scalar,
    output_mask: Vec<bool>,
) -> Result<(Value, Value, Value)> {
    let axes = axes(b, input)?;
    let wide = promote::opmath(b.dtype(input));
    let by = match (
        train,
        save_mean.zip(save_invstd),
        running_mean.zip(running_var),
    ) {
        (true, Some((mean, invstd)), _) => {
            let (mean, invstd) = (b.convert(mean, wide), b.convert(invstd, wide));
            Scales {
                mean,
                invstd,
                var: None,
            }
        }
        (_, _, running) => scales(b, input, running, train, eps)?,
    };
    let n = count(b, input, &axes) as f64;
    let sums = Sums::of(b, grad_out, input, &by)?;
    let parameter = weight.map_or(b.dtype(input), |w| b.dtype(w));
    let grad_input = masked(b, output_mask[0], |b| {
        let n = Some(b.scalar(n, wide)).filter(|_| train);
        sums.input_gradient(b, grad_out, input, &by, weight, n)
    })?;
    let grad_weight = masked(b, output_mask[1], |b| {
        let sum = b.multiply(sums.products, by.invstd)?;
        Ok(b.convert(sum, parameter))
    })?;
    let grad_bias = masked(b, output_mask[2], |b| Ok(b.convert(sums.grad, parameter)))?;
    Ok((grad_input, grad_weight, grad_bias))
}

/// As [`backward`]; `update` says whether the forward was a training one.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn backward_with_reserve(
    b: &mut B,
    grad_out: Value,
    input: Value,
    weight: Value,
    running_mean: Option<Value>,
    running_var: Option<Value>,
    save_mean: Option<Value>,
    save_var: Option<Value>,
    update: bool,
    eps: Scalar,
    output_mask: Vec<bool>,
    _reserve: Value,
) -> Result<(Value, Value, Value)> {
    let weight = Some(weight);
    backward(
        b,
        grad_out,
        input,
        weight,
        running_mean,
        running_var,
        save_mean,
        save_var,
        update,
        eps,
        output_mask,
    )
}

/// Sums per channel that the gradients are made of.
pub(super) struct Sums {
    /// Of the gradient.
    pub(super) grad: Value,
    /// Of the gradient times the centered input.
    pub(super) products: Value,
}

/// The input less its mean, in the type that is computed in.
fn centered(b: &mut B, input: Value, mean: Value) -> Result<Value> {
    let x = promote::widen(b, input);
    let mean = along(b, mean, x, CHANNEL)?;
    Ok(b.subtract(x, mean)?)
}

impl Sums {
    pub(super) fn of(b: &mut B, grad_out: Value, input: Value, by: &Scales) -> Result<Self> {
        let axes = axes(b, input)?;
        let x = centered(b, input, by.mean)?;
        let g = b.convert(grad_out, b.dtype(x));
        let products = b.multiply(g, x)?;
        Ok(Self {
            grad: b.sum(g, &axes)?,
            products: b.sum(products, &axes)?,
        })
    }

    /// `(g - (sum(g) + (x - mean) * invstd^2 * sum(g * (x - mean))) / n) * invstd * weight`;
    /// without `n`, a scalar, the scales did not depend on the input and nothing is taken off.
    pub(super) fn input_gradient(
        &self,
        b: &mut B,
        grad_out: Value,
        input: Value,
        by: &Scales,
        weight: Option<Value>,
        n: Option<Value>,
    ) -> Result<Value> {
        let dtype = b.dtype(input);
        let x = centered(b, input, by.mean)?;
        let mut g = b.convert(grad_out, b.dtype(x));
        if let Some(n) = n {
            let n = b.broadcast(n, &b.dims(self.grad))?;
            let mean = b.divide(self.grad, n)?;
            let mean = along(b, mean, x, CHANNEL)?;
            let squared = b.multiply(by.invstd, by.invstd)?;
            let slope = b.multiply(self.products, squared)?;
            let slope = b.divide(slope, n)?;
            let common = scale(b, x, Some(slope), CHANNEL)?;
            g = b.subtract(g, mean)?;
            g = b.subtract(g, common)?;
        }
        let g = scale(b, g, Some(by.invstd), CHANNEL)?;
        let g = scale(b, g, weight, CHANNEL)?;
        Ok(b.convert(g, dtype))
    }
}
