//! Optimizer steps: all parameters of a group in one program.
use crate::{
    Op, Outs, Result, Scalar,
    error::ensure,
    formula::{X, formula, formulas},
    op::op,
    promote::{cast, opmath, scalar_like},
};
use tpu_hlo::{Builder, DType, Value};

type B = Builder;
type List = Vec<Value>;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_amp_foreach_non_finite_check_and_unscale", unscale),
    op!("_amp_update_scale",        update_scale),
    op!("_fused_adagrad",           adagrad_number),
    op!("_fused_adagrad.tensor_lr", adagrad_tensor),
    op!("_fused_adam",              adam_number::<false>),
    op!("_fused_adam.tensor_lr",    adam::<false>),
    op!("_fused_adamw",             adam_number::<true>),
    op!("_fused_adamw.tensor_lr",   adam::<true>),
    op!("_fused_sgd",               sgd_number),
    op!("_fused_sgd.tensor_lr",     sgd),
];

/// Every gradient times `inv_scale`, and 1 for `found_inf` if a gradient is not finite.
fn unscale(b: &mut B, grads: List, found_inf: Value, inv_scale: Value) -> Result<Outs> {
    for (x, name) in [(inv_scale, "inv_scale"), (found_inf, "found_inf")] {
        let ty = b.ty(x);
        ensure!(ty.numel() == 1, "{name} must be a 1-element tensor.");
        ensure!(ty.dtype == DType::F32, "{name} must be a float tensor.");
    }
    let mut found = found_inf;
    let mut outs = Outs::new();
    let inv_scale = b.reshape(inv_scale, &[])?;
    for g in grads {
        let dtype = b.dtype(g);
        let wide = cast(b, g, opmath(dtype));
        let scale = scalar_like(b, inv_scale, wide)?;
        let [scaled, bad] = formulas(b, [wide, scale], |[g, s]| [g * s, g.is_finite().not()])?;
        outs.push(cast(b, scaled, dtype));
        let axes: Vec<i64> = (0..b.rank(bad) as i64).collect();
        let bad = b.any(bad, &axes)?;
        let bad = b.broadcast(bad, &b.dims(found))?;
        found = formula(b, [bad, found], |[bad, found]| {
            bad.pick(found.full(1.0), found)
        })?;
    }
    outs.push(found);
    Ok(outs)
}

/// The loss scale after a step: times `backoff` if the step was not finite, times `growth` after
/// `interval` finite ones; and how many finite steps there were since.
fn update_scale(
    b: &mut B,
    scale: Value,
    tracker: Value,
    found_inf: Value,
    growth: Scalar,
    backoff: Scalar,
    interval: i64,
) -> Result<Outs> {
    for (x, name, dtype) in [
        (tracker, "growth_tracker", DType::I32),
        (scale, "current_scale", DType::F32),
        (found_inf, "found_inf", DType::F32),
    ] {
        let ty = b.ty(x);
        ensure!(ty.numel() == 1, "{name} must be a 1-element tensor.");
        let kind = if dtype == DType::I32 {
            "an int"
        } else {
            "a float"
        };
        ensure!(ty.dtype == dtype, "{name} must be {kind} tensor.");
    }
    let dims = b.dims(scale);
    let found_inf = b.reshape(found_inf, &dims)?;
    let count = b.reshape(tracker, &dims)?;
    let (growth, backoff) = (
        scalar_like(b, growth.0, scale)?,
        scalar_like(b, backoff.0, scale)?,
    );
    let xs = [scale, count, found_inf, growth, backoff];
    let [scale, count] = formulas(b, xs, |[scale, count, found_inf, growth, backoff]| {
        let failed = found_inf.ne(0.0);
        let count = count + 1.0;
        let due = count.eq(interval as f64);
        let grown = scale * growth;
        let grown = due.and(grown.is_finite()).pick(grown, scale);
        let zero = count.full(0);
        [
            failed.pick(scale * backoff, grown),
            failed.or(due).pick(zero, count),
        ]
    })?;
    let count = b.reshape(count, &b.dims(tracker))?;
    Ok(Outs::from_slice(&[scale, count]))
}

/// The dtype of numbers that are computed once per parameter: differences such as `1 - beta²`
/// lose half of float32's digits, which a TPU has to live with.
fn number_type(b: &B) -> DType {
    if b.settings.tpu {
        DType::F32
    } else {
        DType::F64
    }
}

/// A 0-dimensional formula of run-time numbers and tensors of one element, in [`number_type`].
fn number<const N: usize>(
    b: &mut B,
    xs: [Value; N],
    f: impl for<'s> FnOnce([X<'s>; N]) -> X<'s>,
) -> Result<Value> {
    let dtype = number_type(b);
    let mut wide = xs;
    for x in &mut wide {
        let v = cast(b, *x, dtype);
        *x = b.reshape(v, &[])?;
    }
    formula(b, wide, f)
}

/// What mixed precision adds to a step.
#[derive(Clone, Copy)]
struct Amp {
    grad_scale: Option<Value>,
    found_inf: Option<Value>,
}

impl Amp {
    /// The gradient without its scale, in `dtype`.
    fn gradient(self, b: &mut B, grad: Value, dtype: DType) -> Result<Value> {
        let g = cast(b, grad, dtype);
        let Some(scale) = self.grad_scale else {
            return Ok(g);
        };
        let scale = b.reshape(scale, &[])?;
        let scale = scalar_like(b, scale, g)?;
        Ok(b.divide(g, scale)?)
    }

    /// `new` in `old`'s type, or `old` if a gradient was not finite.
    fn keep(self, b: &mut B, old: Value, new: Value) -> Result<Value> {
        let new = cast(b, new, b.dtype(old));
        let Some(found) = self.found_inf else {
            return Ok(new);
        };
        let found = b.reshape(found, &[])?;
        let found = formula(b, [found], |[found]| found.eq(1.0))?;
        Ok(b.select(found, old, new)?)
    }

    /// [`Amp::keep`] for a gradient, which a step only writes to take its scale off.
    fn keep_gradient(self, b: &mut B, old: Value, new: Value) -> Result<Value> {
        if self.grad_scale.is_some() {
            self.keep(b, old, new)
        } else {
            Ok(old)
        }
    }
}

fn adam_number<const DECOUPLED: bool>(
    b: &mut B,
    params: List,
    grads: List,
    exp_avgs: List,
    exp_avg_sqs: List,
    max_exp_avg_sqs: List,
    steps: List,
    lr: Scalar,
    beta1: Scalar,
    beta2: Scalar,
    weight_decay: Scalar,
    eps: Scalar,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Option<Value>,
    found_inf: Option<Value>,
) -> Result<Outs> {
    adam::<DECOUPLED>(
        b,
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs,
        steps,
        lr.0,
        beta1,
        beta2,
        weight_decay,
        eps,
        amsgrad,
        maximize,
        grad_scale,
        found_inf,
    )
}

/// `m = β₁m + (1-β₁)g`, `v = β₂v + (1-β₂)g²`, `p -= lr/(1-β₁ᵗ) · m / (√v/√(1-β₂ᵗ) + ε)`. The
/// weight decay goes into the gradient, or if `DECOUPLED` straight into the parameter.
fn adam<const DECOUPLED: bool>(
    b: &mut B,
    params: List,
    grads: List,
    exp_avgs: List,
    exp_avg_sqs: List,
    max_exp_avg_sqs: List,
    steps: List,
    lr: Value,
    beta1: Scalar,
    beta2: Scalar,
    weight_decay: Scalar,
    eps: Scalar,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Option<Value>,
    found_inf: Option<Value>,
) -> Result<Outs> {
    same_lengths(&params, &[&grads, &exp_avgs, &exp_avg_sqs, &steps])?;
    same_lengths(
        if amsgrad { &params } else { &max_exp_avg_sqs },
        &[&max_exp_avg_sqs],
    )?;
    let adam = Adam {
        lr,
        beta1,
        beta2,
        weight_decay,
        eps,
        maximize,
        decoupled: DECOUPLED,
    };
    let amp = Amp {
        grad_scale,
        found_inf,
    };
    let mut outs: [List; 5] = Default::default();
    for i in 0..params.len() {
        let grad = amp.gradient(b, grads[i], opmath(b.dtype(params[i])))?;
        let mut old = vec![params[i], exp_avgs[i], exp_avg_sqs[i]];
        old.extend(max_exp_avg_sqs.get(i));
        let new = adam.step(b, &old, grad, steps[i])?;
        outs[1].push(amp.keep_gradient(b, grads[i], grad)?);
        for ((list, old), new) in [0, 2, 3, 4].into_iter().zip(old).zip(new) {
            outs[list].push(amp.keep(b, old, new)?);
        }
    }
    Ok(outs.into_iter().flatten().collect())
}

fn same_lengths(params: &List, others: &[&List]) -> Result<()> {
    ensure!(
        others.iter().all(|list| list.len() == params.len()),
        "params and the states of a fused optimizer must be lists of one length"
    );
    Ok(())
}

struct Adam {
    lr: Value,
    beta1: Scalar,
    beta2: Scalar,
    weight_decay: Scalar,
    eps: Scalar,
    maximize: bool,
    decoupled: bool,
}

impl Adam {
    /// The new parameter, both averages and, if `old` holds a fourth, the largest second one.
    fn step(&self, b: &mut B, old: &[Value], grad: Value, step: Value) -> Result<[Value; 4]> {
        let dtype = b.dtype(grad);
        let (lr, beta1, beta2) = (self.lr, self.beta1.0, self.beta2.0);
        let mut scalars = [
            beta1,
            number(b, [beta1], |[beta]| 1.0 - beta)?,
            beta2,
            number(b, [beta2], |[beta]| 1.0 - beta)?,
            number(b, [lr, beta1, step], |[lr, beta, t]| {
                lr / (1.0 - beta.pow(t))
            })?,
            number(b, [beta2, step], |[beta, t]| (1.0 - beta.pow(t)).sqrt())?,
            number(b, [lr, self.weight_decay.0], |[lr, decay]| 1.0 - lr * decay)?,
            self.weight_decay.0,
            self.eps.0,
        ];
        for x in &mut scalars {
            *x = cast(b, *x, dtype);
        }
        let mut states = [old[0], old[1], old[2], *old.get(3).unwrap_or(&old[2])];
        for x in &mut states {
            *x = cast(b, *x, dtype);
        }
        let [p, m, v, max] = states;
        let amsgrad = old.len() > 3;
        formulas(b, [p, grad, m, v, max], |[p, g, m, v, max]| {
            let [beta1, rest1, beta2, rest2, size, root, shrink, decay, eps] =
                scalars.map(|x| p.with(x));
            let g = if self.maximize { -g } else { g };
            let (p, g) = if self.decoupled {
                (p * shrink, g)
            } else {
                (p, g + p * decay)
            };
            let m = beta1 * m + rest1 * g;
            let v = beta2 * v + rest2 * g * g;
            let max = if amsgrad { max.maximum(v) } else { v };
            [p - size * m / (max.sqrt() / root + eps), m, v, max]
        })
    }
}

fn sgd_number(
    b: &mut B,
    params: List,
    grads: List,
    momentum_buffers: List,
    weight_decay: Scalar,
    momentum: Scalar,
    lr: Scalar,
    dampening: Scalar,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Option<Value>,
    found_inf: Option<Value>,
) -> Result<Outs> {
    sgd(
        b,
        params,
        grads,
        momentum_buffers,
        weight_decay,
        momentum,
        lr.0,
        dampening,
        nesterov,
        maximize,
        is_first_step,
        grad_scale,
        found_inf,
    )
}

/// `v = momentum · v + (1 - dampening) · g`, `p -= lr · v`; `v = g` in the first step and, without
/// buffers, always.
fn sgd(
    b: &mut B,
    params: List,
    grads: List,
    momentum_buffers: List,
    weight_decay: Scalar,
    momentum: Scalar,
    lr: Value,
    dampening: Scalar,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Option<Value>,
    found_inf: Option<Value>,
) -> Result<Outs> {
    let plain = momentum_buffers.is_empty();
    same_lengths(
        &params,
        &[&grads, if plain { &params } else { &momentum_buffers }],
    )?;
    let amp = Amp {
        grad_scale,
        found_inf,
    };
    let mut outs: [List; 3] = Default::default();
    for i in 0..params.len() {
        let (p, dtype) = (params[i], opmath(b.dtype(params[i])));
        let grad = amp.gradient(b, grads[i], dtype)?;
        let v = momentum_buffers.get(i).copied();
        let states = [p, v.unwrap_or(p)].map(|x| cast(b, x, dtype));
        let scalars = [weight_decay.0, momentum.0, lr, dampening.0].map(|x| {
            let x = cast(b, x, dtype);
            b.reshape(x, &[])
        });
        let [decay, momentum, lr, dampening] = scalars;
        let scalars = [decay?, momentum?, lr?, dampening?];
        let new = formulas(b, [states[0], grad, states[1]], |[p, g, v]| {
            let [decay, momentum, lr, dampening] = scalars.map(|x| p.with(x));
            let g = if maximize { -g } else { g };
            let g = g + p * decay;
            let v = if plain || is_first_step {
                g
            } else {
                momentum * v + (1.0 - dampening) * g
            };
            let way = match (plain, nesterov) {
                (true, _) => g,
                (false, true) => g + momentum * v,
                (false, false) => v,
            };
            [p - lr * way, v]
        })?;
        outs[0].push(amp.keep(b, p, new[0])?);
        outs[1].push(amp.keep_gradient(b, grads[i], grad)?);
        if let Some(v) = v {
            outs[2].push(amp.keep(b, v, new[1])?);
        }
    }
    Ok(outs.into_iter().flatten().collect())
}

/// [`adagrad_tensor`] with a number for `lr`; this overload returns the steps, too.
fn adagrad_number(
    b: &mut B,
    params: List,
    grads: List,
    state_sums: List,
    steps: List,
    lr: Scalar,
    lr_decay: Scalar,
    weight_decay: Scalar,
    eps: Scalar,
    maximize: bool,
    grad_scale: Option<Value>,
    found_inf: Option<Value>,
) -> Result<Outs> {
    let mut outs = adagrad_tensor(
        b,
        params,
        grads,
        state_sums,
        steps.clone(),
        lr.0,
        lr_decay,
        weight_decay,
        eps,
        maximize,
        grad_scale,
        found_inf,
    )?;
    outs.extend(steps);
    Ok(outs)
}

/// `s += g²`, `p -= lr / (1 + (t - 1) · lr_decay) · g / (√s + ε)`.
fn adagrad_tensor(
    b: &mut B,
    params: List,
    grads: List,
    state_sums: List,
    steps: List,
    lr: Value,
    lr_decay: Scalar,
    weight_decay: Scalar,
    eps: Scalar,
    maximize: bool,
    grad_scale: Option<Value>,
    found_inf: Option<Value>,
) -> Result<Outs> {
    same_lengths(&params, &[&grads, &state_sums, &steps])?;
    let amp = Amp {
        grad_scale,
        found_inf,
    };
    let mut outs: [List; 3] = Default::default();
    for i in 0..params.len() {
        let (p, s, dtype) = (params[i], state_sums[i], opmath(b.dtype(params[i])));
        let grad = amp.gradient(b, grads[i], dtype)?;
        let size = number(b, [lr, lr_decay.0, steps[i]], |[lr, decay, t]| {
            lr / (1.0 + (t - 1.0) * decay)
        })?;
        let scalars = [size, weight_decay.0, eps.0].map(|x| cast(b, x, dtype));
        let states = [p, s].map(|x| cast(b, x, dtype));
        let new = formulas(b, [states[0], grad, states[1]], |[p, g, s]| {
            let [size, decay, eps] = scalars.map(|x| p.with(x));
            let g = if maximize { -g } else { g };
            let g = g + p * decay;
            let s = s + g * g;
            [p - size * g / (s.sqrt() + eps), s]
        })?;
        outs[0].push(amp.keep(b, p, new[0])?);
        outs[1].push(amp.keep_gradient(b, grads[i], grad)?);
        outs[2].push(amp.keep(b, s, new[1])?);
    }
    Ok(outs.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests;
