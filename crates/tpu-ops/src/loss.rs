//! Losses and their derivatives.
use crate::{
    Op, OutDtype, Result, Scalar, check,
    error::ensure,
    formula::{Binary, X, compute, formula, unrounded},
    index::take_along,
    op::{Plain, op},
    pointwise::implemented,
    promote::{cast, opmath, result_type, widen},
};
use std::marker::PhantomData;
use tpu_hlo::{Builder, DType, Dims, Direction, Number, Value};

mod ctc;
mod margin;

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("binary_cross_entropy",          cross_entropy).out(OutDtype::ITERATED),
    op!("binary_cross_entropy_backward", cross_entropy_backward).out(OutDtype::ITERATED),
    op!("binary_cross_entropy_with_logits", cross_entropy_with_logits),
    op!("_ctc_loss",                     ctc::ctc_loss),
    op!("_ctc_loss.Tensor",              ctc::ctc_loss_of_tensors)
                                             .counted(&Plain(ctc::longest, PhantomData)),
    op!("_ctc_loss_backward",            ctc::ctc_loss_backward),
    op!("_ctc_loss_backward.Tensor",     ctc::ctc_loss_backward_of_tensors),
    op!("huber_loss",                    huber_loss).guarded(positive_delta).out(OutDtype::Cast),
    op!("huber_loss_backward",           huber_loss_backward).out(OutDtype::ITERATED),
    op!("mse_loss",                      mse_loss).out(OutDtype::Cast),
    op!("mse_loss_backward",             mse_loss_backward).out(OutDtype::Cast),
    op!("multi_margin_loss",             margin::multi_margin),
    op!("multi_margin_loss_backward",    margin::multi_margin_backward),
    op!("multilabel_margin_loss_backward", margin::multilabel_backward),
    op!("multilabel_margin_loss_forward", margin::multilabel),
    op!("nll_loss2d_backward",           nll_loss2d_backward),
    op!("nll_loss2d_forward",            nll_loss2d),
    op!("nll_loss_backward",             nll_loss_backward),
    op!("nll_loss_forward",              nll_loss),
    op!("smooth_l1_loss",                smooth_l1_loss).guarded(beta_not_negative)
        .out(OutDtype::Cast),
    op!("smooth_l1_loss_backward",       smooth_l1_loss_backward).out(OutDtype::Cast),
    op!("soft_margin_loss",              soft_margin_loss).out(OutDtype::ITERATED),
    op!("soft_margin_loss_backward",     soft_margin_loss_backward).out(OutDtype::Cast),
];

/// PyTorch's `reduction` argument.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    None,
    Mean,
    Sum,
}

impl Reduction {
    pub(crate) fn new(reduction: i64) -> Self {
        match reduction {
            1 => Self::Mean,
            2 => Self::Sum,
            _ => Self::None,
        }
    }

    /// Reduces element losses, which are in the opmath type, and rounds to `dtype`.
    pub(crate) fn apply(self, b: &mut B, losses: Value, dtype: DType) -> Result<Value> {
        if self == Self::None {
            return Ok(cast(b, losses, dtype));
        }
        let axes: Dims = (0..b.rank(losses) as i64).collect();
        let mut sum = b.sum(losses, &axes)?;
        if self == Self::Mean {
            let count = b.size_like(sum, b.ty(losses).numel())?;
            sum = b.divide_exactly(sum, count)?;
        }
        Ok(cast(b, sum, dtype))
    }

    /// What a mean over `numel` losses multiplies each one's gradient by.
    pub(crate) fn share(self, numel: i64) -> f64 {
        if self == Self::Mean {
            1.0 / numel as f64
        } else {
            1.0
        }
    }
}

/// The common dtype of the operands, which has to be a real float.
pub(crate) fn float_result(b: &B, name: &str, xs: &[Value]) -> Result<DType> {
    let dtype = result_type(b, xs)?;
    implemented(dtype.is_float(), name, dtype)?;
    Ok(dtype)
}

/// The loss `f` of each element and its target, reduced.
fn loss<const N: usize, const M: usize>(
    b: &mut B,
    name: &str,
    tensors: [Value; N],
    numbers: [Scalar; M],
    reduction: i64,
    f: impl for<'s> FnOnce([X<'s>; N], [X<'s>; M]) -> X<'s>,
) -> Result<Value> {
    let dtype = float_result(b, name, &tensors)?;
    let losses = unrounded(b, dtype, tensors, numbers, f)?;
    Reduction::new(reduction).apply(b, losses, dtype)
}

/// `share · grad · slope(self, target)`
fn loss_backward<const M: usize>(
    b: &mut B,
    [grad, x, target]: [Value; 3],
    numbers: [Scalar; M],
    reduction: i64,
    slope: impl for<'s> FnOnce(X<'s>, X<'s>, [X<'s>; M]) -> X<'s>,
) -> Result<Value> {
    let dtype = result_type(b, &[x, target])?;
    let dims = crate::promote::broadcast_shapes(&[&b.dims(x), &b.dims(target)])?;
    let (reduction, numel) = (Reduction::new(reduction), dims.iter().product());
    let (grad, share) = if reduction == Reduction::Mean && b.depends(numel) {
        let grad = widen(b, grad);
        let count = b.size_like(grad, numel)?;
        (b.divide_exactly(grad, count)?, 1.0)
    } else {
        (grad, reduction.share(numel))
    };
    compute(
        b,
        dtype,
        [grad, x, target],
        numbers,
        |[grad, x, target], numbers| grad * share * slope(x, target, numbers),
    )
}

/// `(x - t)²`
fn mse_loss(b: &mut B, x: Value, target: Value, reduction: i64) -> Result<Value> {
    loss(b, "mse", [x, target], [], reduction, |[x, t], []| {
        (x - t).square()
    })
}

fn mse_loss_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    target: Value,
    reduction: i64,
) -> Result<Value> {
    loss_backward(b, [grad, x, target], [], reduction, |x, t, []| {
        2.0 * (x - t)
    })
}

fn positive_delta(numbers: &[Number]) -> Result<()> {
    ensure!(
        numbers.iter().all(|delta| delta.to_f64() > 0.0),
        "huber_loss does not support non-positive values for delta."
    );
    Ok(())
}

/// Half the square within `delta`, linear beyond.
fn huber_loss(b: &mut B, x: Value, target: Value, reduction: i64, delta: Scalar) -> Result<Value> {
    loss(
        b,
        "huber",
        [x, target],
        [delta],
        reduction,
        |[x, t], [delta]| {
            let z = (x - t).abs();
            z.lt(delta).pick(0.5 * z * z, delta * (z - 0.5 * delta))
        },
    )
}

fn huber_loss_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    target: Value,
    reduction: i64,
    delta: Scalar,
) -> Result<Value> {
    loss_backward(b, [grad, x, target], [delta], reduction, |x, t, [delta]| {
        (x - t).maximum(-delta).minimum(delta)
    })
}

fn beta_not_negative(numbers: &[Number]) -> Result<()> {
    ensure!(
        numbers.iter().all(|beta| beta.to_f64() >= 0.0),
        "smooth_l1_loss does not support negative values for beta."
    );
    Ok(())
}

/// `z² / 2β` within `beta`, `z - β/2` beyond.
fn smooth_l1_loss(
    b: &mut B,
    x: Value,
    target: Value,
    reduction: i64,
    beta: Scalar,
) -> Result<Value> {
    loss(
        b,
        "smooth_l1",
        [x, target],
        [beta],
        reduction,
        |[x, t], [beta]| {
            let z = (x - t).abs();
            z.lt(beta).pick(0.5 * z * z / beta, z - 0.5 * beta)
        },
    )
}

fn smooth_l1_loss_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    target: Value,
    reduction: i64,
    beta: Scalar,
) -> Result<Value> {
    loss_backward(b, [grad, x, target], [beta], reduction, |x, t, [beta]| {
        let z = x - t;
        let above = z.ge(beta).pick(z.full(1.0), z / beta);
        z.le(-beta).pick(z.full(-1.0), above)
    })
}

/// `log(1 + exp(-t · x))`
fn soft_margin_loss(b: &mut B, x: Value, target: Value, reduction: i64) -> Result<Value> {
    loss(
        b,
        "soft_margin",
        [x, target],
        [],
        reduction,
        |[x, t], []| (-t * x).exp().log1p(),
    )
}

fn soft_margin_loss_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    target: Value,
    reduction: i64,
) -> Result<Value> {
    loss_backward(b, [grad, x, target], [], reduction, |x, t, []| {
        -t * (-t * x).sigmoid()
    })
}

/// `-(t · log x + (1 - t) · log(1 - x))`, with logarithms not below -100.
fn cross_entropy(
    b: &mut B,
    x: Value,
    target: Value,
    weight: Option<Value>,
    reduction: i64,
) -> Result<Value> {
    for (v, name) in [(x, "input"), (target, "target")] {
        let bad = formula(b, [v], |[v]| v.ge(0.0).and(v.le(1.0)).not())?;
        let message = format!("RuntimeError: all elements of {name} should be between 0 and 1");
        check::nowhere(b, bad, message)?;
    }
    let dtype = float_result(b, "binary_cross_entropy", &[x, target])?;
    let f: Binary = |x, t| (t - 1.0) * (-x).log1p().maximum(-100.0) - t * x.log().maximum(-100.0);
    let losses = match weight {
        None => unrounded(b, dtype, [x, target], [], |[x, t], []| f(x, t))?,
        Some(w) => unrounded(b, dtype, [x, target, w], [], |[x, t, w], []| f(x, t) * w)?,
    };
    Reduction::new(reduction).apply(b, losses, dtype)
}

fn cross_entropy_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    target: Value,
    weight: Option<Value>,
    reduction: i64,
) -> Result<Value> {
    let y = loss_backward(b, [grad, x, target], [], reduction, |x, t, []| {
        (x - t) / ((1.0 - x) * x).maximum(1e-12)
    })?;
    match weight {
        None => Ok(y),
        Some(w) => compute(b, b.dtype(y), [y, w], [], |[y, w], []| y * w),
    }
}

/// Cross entropy of `σ(x)`, finite for every finite `x`.
fn cross_entropy_with_logits(
    b: &mut B,
    x: Value,
    target: Value,
    weight: Option<Value>,
    pos_weight: Option<Value>,
    reduction: i64,
) -> Result<Value> {
    let mut all = vec![x, target];
    all.extend(weight);
    all.extend(pos_weight);
    let dtype = float_result(b, "binary_cross_entropy_with_logits", &all)?;
    let softplus: crate::formula::Unary = |x| (-x.abs()).exp().log1p() + (-x).maximum(0.0);
    let losses = match pos_weight {
        None => unrounded(b, dtype, [x, target], [], |[x, t], []| {
            (1.0 - t) * x + softplus(x)
        })?,
        Some(p) => unrounded(b, dtype, [x, target, p], [], |[x, t, p], []| {
            (1.0 - t) * x + ((p - 1.0) * t + 1.0) * softplus(x)
        })?,
    };
    let losses = match weight {
        None => losses,
        Some(w) => unrounded(b, dtype, [losses, w], [], |[y, w], []| y * w)?,
    };
    Reduction::new(reduction).apply(b, losses, dtype)
}

/// The pieces that forward and backward of the negative log likelihood share.
struct Picks {
    /// Targets as `I64` with a class dimension of size one.
    column: Value,
    /// Whether the target counts, like `column`.
    counts: Value,
    /// Weight of each target, 0 where it does not count, like `column`.
    weight: Value,
    axis: i64,
    dtype: DType,
}

impl Picks {
    /// Classes lie along dimension 1 of `x`, or 0 if it has no batch.
    fn new(
        b: &mut B,
        x: Value,
        target: Value,
        weight: Option<Value>,
        ignore_index: i64,
    ) -> Result<Self> {
        let (dtype, kind) = (b.dtype(x), b.dtype(target));
        implemented(dtype.is_float(), "nll_loss", dtype)?;
        ensure!(
            matches!(kind, DType::I64 | DType::U8),
            "expected target dtype to be Long or Byte, but got {}",
            kind.torch()
        );
        let axis = i64::from(b.rank(x) > 1);
        let mut dims = b.dims(x);
        let classes = std::mem::replace(&mut dims[axis as usize], 1);
        let target = cast(b, target, DType::I64);
        let column = b.reshape(target, &dims)?;
        let ignored = b.full_like(column, ignore_index);
        let counts = b.compare(column, Direction::NE, ignored)?;
        let words = "IndexError: Target {} is out of bounds.";
        check::bounds_where(b, column, Some(counts), (0, classes), words)?;
        let first = b.full_like(column, 0);
        let column = b.select(counts, column, first)?;
        let weight = Self::weights(b, column, counts, weight, classes, dtype)?;
        Ok(Self {
            column,
            counts,
            weight,
            axis,
            dtype,
        })
    }

    fn weights(
        b: &mut B,
        column: Value,
        counts: Value,
        weight: Option<Value>,
        classes: i64,
        dtype: DType,
    ) -> Result<Value> {
        let Some(weight) = weight else {
            return Ok(cast(b, counts, opmath(dtype)));
        };
        let (size, kind) = (b.dims(weight), b.dtype(weight));
        ensure!(
            size.as_slice() == [classes],
            "weight tensor should be defined either for all {classes} classes or no classes but \
             got weight tensor of shape: {size:?}"
        );
        ensure!(
            kind == dtype,
            "expected scalar type {} but found {}",
            dtype.torch(),
            kind.torch()
        );
        let dims = b.dims(column);
        if classes == 0 {
            // No target names a class: what is not ignored is out of bounds.
            return Ok(b.full(0, opmath(dtype), &dims));
        }
        let n = b.ty(column).numel();
        let flat = b.reshape(column, &[n])?;
        let picked = take_along(b, weight, 0, flat)?;
        let picked = b.reshape(picked, &dims)?;
        let picked = cast(b, picked, opmath(dtype));
        let none = b.full_like(picked, 0);
        Ok(b.select(counts, picked, none)?)
    }

    /// Loss and sum of the weights.
    fn forward(&self, b: &mut B, x: Value, dims: &[i64], reduction: i64) -> Result<(Value, Value)> {
        let picked = if b.ty(x).numel() > 0 {
            take_along(b, x, self.axis, self.column)?
        } else {
            b.full(0, self.dtype, &b.dims(self.column))
        };
        let picked = cast(b, picked, opmath(self.dtype));
        let losses = formula(b, [picked, self.weight, self.counts], |[x, w, counts]| {
            counts.pick(-x * w, 0.0)
        })?;
        let axes: Dims = (0..b.rank(losses) as i64).collect();
        let total = b.sum(self.weight, &axes)?;
        let loss = match Reduction::new(reduction) {
            Reduction::None => {
                let losses = b.reshape(losses, dims)?;
                let lone = b.rank(x) == 1;
                let total = if lone { total } else { b.scalar(0, self.dtype) };
                return Ok((cast(b, losses, self.dtype), cast(b, total, self.dtype)));
            }
            Reduction::Sum => b.sum(losses, &axes)?,
            Reduction::Mean => {
                let sum = b.sum(losses, &axes)?;
                b.divide(sum, total)?
            }
        };
        Ok((cast(b, loss, self.dtype), cast(b, total, self.dtype)))
    }

    /// `-weight · grad` at each target, 0 elsewhere.
    fn backward(
        &self,
        b: &mut B,
        grad: Value,
        x: Value,
        reduction: i64,
        total: Value,
    ) -> Result<Value> {
        let dims = b.dims(self.column);
        let grad = cast(b, grad, opmath(self.dtype));
        let grad = if b.rank(grad) > 0 {
            b.reshape(grad, &dims)?
        } else {
            grad
        };
        let total = cast(b, total, opmath(self.dtype));
        let mean = Reduction::new(reduction) == Reduction::Mean;
        let xs = [self.weight, self.counts, grad, total];
        let slope = formula(b, xs, |[w, counts, grad, total]| {
            let slope = if mean { -w * grad / total } else { -w * grad };
            counts.pick(slope, 0.0)
        })?;
        let slope = cast(b, slope, self.dtype);
        let shape = b.dims(x);
        let (slope, at) = (
            b.broadcast(slope, &shape)?,
            b.broadcast(self.column, &shape)?,
        );
        let class = b.iota(DType::I64, &shape, self.axis);
        formula(b, [slope, at, class], |[slope, at, class]| {
            at.eq(class).pick(slope, 0.0)
        })
    }
}

fn fits_nll(b: &B, x: Value, target: Value) -> Result<()> {
    let (from, to) = (b.dims(x), b.dims(target));
    ensure!(
        matches!(from.len(), 1 | 2),
        "input tensor should be 1D or 2D"
    );
    ensure!(
        to.len() <= 1,
        "0D or 1D target tensor expected, multi-target not supported"
    );
    ensure!(
        if from.len() == 1 {
            to.iter().product::<i64>() == 1
        } else {
            from[0] == to[0]
        },
        "size mismatch (got input: {from:?}, target: {to:?})"
    );
    Ok(())
}

/// `-weight[t] · x[t]`, and the sum of the weights that the mean divides by.
fn nll_loss(
    b: &mut B,
    x: Value,
    target: Value,
    weight: Option<Value>,
    reduction: i64,
    ignore_index: i64,
) -> Result<(Value, Value)> {
    fits_nll(b, x, target)?;
    let dims = if b.rank(x) > 1 {
        b.dims(target)
    } else {
        Dims::new()
    };
    Picks::new(b, x, target, weight, ignore_index)?.forward(b, x, &dims, reduction)
}

fn nll_loss_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    target: Value,
    weight: Option<Value>,
    reduction: i64,
    ignore_index: i64,
    total_weight: Value,
) -> Result<Value> {
    fits_nll(b, x, target)?;
    let picks = Picks::new(b, x, target, weight, ignore_index)?;
    picks.backward(b, grad, x, reduction, total_weight)
}

fn fits_nll2d(b: &B, x: Value, target: Value) -> Result<()> {
    let (from, to) = (b.dims(x), b.dims(target));
    ensure!(
        to.len() == 3,
        "only batches of spatial targets supported (3D tensors) but got targets of dimension: {}",
        to.len()
    );
    ensure!(
        from.len() == 4,
        "only batches of spatial inputs supported (4D tensors), but got input of dimension: {}",
        from.len()
    );
    ensure!(
        from[0] == to[0] && from[2..] == to[1..],
        "size mismatch (got input: {from:?} , target: {to:?}"
    );
    Ok(())
}

/// [`nll_loss`] of every position of an image.
fn nll_loss2d(
    b: &mut B,
    x: Value,
    target: Value,
    weight: Option<Value>,
    reduction: i64,
    ignore_index: i64,
) -> Result<(Value, Value)> {
    fits_nll2d(b, x, target)?;
    let dims = b.dims(target);
    Picks::new(b, x, target, weight, ignore_index)?.forward(b, x, &dims, reduction)
}

fn nll_loss2d_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    target: Value,
    weight: Option<Value>,
    reduction: i64,
    ignore_index: i64,
    total_weight: Value,
) -> Result<Value> {
    fits_nll2d(b, x, target)?;
    let picks = Picks::new(b, x, target, weight, ignore_index)?;
    picks.backward(b, grad, x, reduction, total_weight)
}

#[cfg(test)]
mod tests;
