//! Margin losses: every wrong class has to stay behind the right ones.
use super::{Reduction, float_result};
use crate::{
    Result, Scalar, check,
    error::ensure,
    formula::{X, formula, formulas},
    promote::{cast, opmath, scalar_like},
};
use tpu_hlo::{Builder, DType, Dims, Number, Value};

type B = Builder;

/// Scores as `[samples, classes]`; without a batch there is one sample.
struct Scores {
    wide: Value,
    dims: Dims,
    samples: i64,
    classes: i64,
    dtype: DType,
}

impl Scores {
    fn new(b: &mut B, name: &str, x: Value) -> Result<Self> {
        let dtype = float_result(b, name, &[x])?;
        let dims = b.dims(x);
        ensure!(
            dims.len() < 3 && dims.last() != Some(&0),
            "{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but \
             got: {dims:?}"
        );
        let classes = *dims.last().unwrap_or(&1);
        let samples = if dims.len() < 2 { 1 } else { dims[0] };
        let wide = cast(b, x, opmath(dtype));
        let wide = b.reshape(wide, &[samples, classes])?;
        Ok(Self {
            wide,
            dims,
            samples,
            classes,
            dtype,
        })
    }

    /// A loss per sample, reduced.
    fn reduced(&self, b: &mut B, losses: Value, reduction: i64) -> Result<Value> {
        let lone = self.dims.len() < 2;
        let losses = if lone {
            b.reshape(losses, &[])?
        } else {
            losses
        };
        Reduction::new(reduction).apply(b, losses, self.dtype)
    }

    /// The incoming gradient of each sample's loss, divided among classes and, for a mean, samples.
    fn share(&self, b: &mut B, grad: Value, reduction: i64) -> Result<Value> {
        let share = Reduction::new(reduction).share(self.samples) / self.classes as f64;
        let grad = cast(b, grad, opmath(self.dtype));
        let grad = formula(b, [grad], |[g]| g * share)?;
        let n = b.ty(grad).numel();
        let column = b.reshape(grad, &[if n == 1 { 1 } else { self.samples }, 1])?;
        Ok(b.broadcast(column, &[self.samples, self.classes])?)
    }

    fn gradient(&self, b: &mut B, slope: Value) -> Result<Value> {
        let slope = cast(b, slope, self.dtype);
        Ok(b.reshape(slope, &self.dims)?)
    }
}

/// What [`multi_margin`] and its derivative share, all `[samples, classes]`.
struct Rivals {
    scores: Scores,
    /// Whether the class is the target.
    right: Value,
    /// How far the class intrudes into the margin, at least 0; 0 for the target.
    excess: Value,
    weight: Option<Value>,
    squared: bool,
}

impl Rivals {
    fn new(
        b: &mut B,
        x: Value,
        target: Value,
        p: Number,
        margin: Scalar,
        weight: Option<Value>,
    ) -> Result<Self> {
        let p = p.to_f64();
        ensure!(p == 1.0 || p == 2.0, "only p == 1 and p == 2 supported");
        let scores = Scores::new(b, "multi_margin_loss", x)?;
        let (n, c) = (scores.samples, scores.classes);
        ensure!(
            b.ty(target).numel() == n,
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of \
             input samples (batch size). Expected target size [{n}], but got {:?}. Input has \
             shape {:?}.",
            b.dims(target),
            scores.dims
        );
        if let Some(dims) = weight.map(|w| b.dims(w)) {
            ensure!(
                dims.as_slice() == [c],
                "inconsistent weight size, expected {c} but got {dims:?}"
            );
        }
        ensure!(
            b.dtype(target) == DType::I64,
            "expected scalar type Long but found {}",
            b.dtype(target).torch()
        );
        check::bounds(b, target, (0, c), "RuntimeError: target out of range")?;
        let column = b.reshape(target, &[n, 1])?;
        let column = b.broadcast(column, &[n, c])?;
        let class = b.iota(b.dtype(column), &[n, c], 1);
        let right = formula(b, [column, class], |[t, k]| t.eq(k))?;
        let own = across(b, right, scores.wide)?;
        let margin = scalar_like(b, margin.0, own)?;
        let excess = formula(
            b,
            [right, own, scores.wide, margin],
            |[right, own, x, margin]| right.pick(x.full(0.0), (margin - own + x).maximum(0.0)),
        )?;
        let weight = weight
            .map(|w| picked_weight(b, right, w, &scores))
            .transpose()?;
        Ok(Self {
            scores,
            right,
            excess,
            weight,
            squared: p == 2.0,
        })
    }
}

/// The sum of `x` where `mask` holds, for every class of the sample.
fn across(b: &mut B, mask: Value, x: Value) -> Result<Value> {
    let kept = formula(b, [mask, x], |[mask, x]| mask.pick(x, 0.0))?;
    let sum = b.sum(kept, &[1])?;
    Ok(b.broadcast_in_dim(sum, &b.dims(x), &[0])?)
}

fn picked_weight(b: &mut B, right: Value, weight: Value, scores: &Scores) -> Result<Value> {
    let c = scores.classes;
    let weight = cast(b, weight, opmath(scores.dtype));
    let rows = b.broadcast(weight, &[scores.samples, c])?;
    across(b, right, rows)
}

/// `sum over wrong classes of max(0, margin - x[target] + x[class])^p · weight[target] / classes`
pub(super) fn multi_margin(
    b: &mut B,
    x: Value,
    target: Value,
    p: Number,
    margin: Scalar,
    weight: Option<Value>,
    reduction: i64,
) -> Result<Value> {
    let rivals = Rivals::new(b, x, target, p, margin, weight)?;
    let excess = rivals.excess;
    let terms = if rivals.squared {
        b.multiply(excess, excess)?
    } else {
        excess
    };
    let terms = match rivals.weight {
        Some(w) => b.multiply(terms, w)?,
        None => terms,
    };
    let sum = b.sum(terms, &[1])?;
    let losses = formula(b, [sum], |[sum]| sum / rivals.scores.classes as f64)?;
    rivals.scores.reduced(b, losses, reduction)
}

pub(super) fn multi_margin_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    target: Value,
    p: Number,
    margin: Scalar,
    weight: Option<Value>,
    reduction: i64,
) -> Result<Value> {
    let rivals = Rivals::new(b, x, target, p, margin, weight)?;
    let share = rivals.scores.share(b, grad, reduction)?;
    let share = match rivals.weight {
        Some(w) => b.multiply(share, w)?,
        None => share,
    };
    let wrong = formula(b, [rivals.excess, share], |[excess, share]| {
        let slope = if rivals.squared {
            2.0 * excess
        } else {
            excess.full(1.0)
        };
        excess.gt(0.0).pick(slope * share, 0.0)
    })?;
    let sum = b.sum(wrong, &[1])?;
    let sum = b.broadcast_in_dim(sum, &b.dims(wrong), &[0])?;
    let slope = formula(b, [rivals.right, sum, wrong], |[right, sum, wrong]| {
        right.pick(-sum, wrong)
    })?;
    rivals.scores.gradient(b, slope)
}

/// Labels of samples with several right classes.
struct Labels {
    scores: Scores,
    /// `[samples, labels, classes]`: whether the label is this class, if it counts.
    hits: Value,
    /// `[samples, labels, classes]`: `1 - x[label] + x[class]`, 0 for right classes and for labels
    /// that do not count.
    excess: Value,
    /// `[samples, classes]`: whether the class is right.
    right: Value,
}

impl Labels {
    fn new(b: &mut B, x: Value, target: Value) -> Result<Self> {
        let scores = Scores::new(b, "multilabel_margin_loss", x)?;
        let (n, c) = (scores.samples, scores.classes);
        ensure!(
            b.dims(target) == scores.dims,
            "inconsistent target size: {:?} for input of size: {:?}",
            b.dims(target),
            scores.dims
        );
        let message = "RuntimeError: argument #2 'target' is out of range";
        check::bounds(b, target, (-1, c), message)?;
        let labels = b.reshape(target, &[n, c])?;
        let counts = before_first_negative(b, labels, n, c)?;
        let cube = [n, c, c];
        let by_label = |b: &mut B, v| b.broadcast_in_dim(v, &cube, &[0, 1]);
        let (label, counts) = (by_label(b, labels)?, by_label(b, counts)?);
        let class = b.iota(b.dtype(label), &cube, 2);
        let hits = formula(b, [label, class, counts], |[l, k, counts]| {
            l.eq(k).and(counts)
        })?;
        let right = b.any(hits, &[1])?;
        let wide = b.broadcast_in_dim(scores.wide, &cube, &[0, 2])?;
        let own = formula(b, [hits, wide], |[hits, x]| hits.pick(x, 0.0))?;
        let own = b.sum(own, &[2])?;
        let own = by_label(b, own)?;
        let wrong = b.broadcast_in_dim(right, &cube, &[0, 2])?;
        let excess = formula(b, [own, wide, counts, wrong], |[own, x, counts, right]| {
            counts
                .and(right.not())
                .pick((1.0 - own + x).maximum(0.0), 0.0)
        })?;
        Ok(Self {
            scores,
            hits,
            excess,
            right,
        })
    }
}

/// Whether no label up to this one is negative: -1 ends the list.
fn before_first_negative(b: &mut B, labels: Value, n: i64, c: i64) -> Result<Value> {
    let position = b.iota(DType::I32, &[n, c], 1);
    let first = formula(b, [labels, position], |[l, at]| {
        l.lt(0.0).pick(at, c as f64)
    })?;
    let end = b.highest(DType::I32);
    let first = b.reduce(first, end, &[1], B::minimum)?;
    let first = b.broadcast_in_dim(first, &[n, c], &[0])?;
    formula(b, [position, first], |[at, first]| at.lt(first))
}

/// `sum over right and wrong classes of max(0, 1 - x[right] + x[wrong]) / classes`, and which
/// classes are right.
pub(super) fn multilabel(
    b: &mut B,
    x: Value,
    target: Value,
    reduction: i64,
) -> Result<(Value, Value)> {
    let labels = Labels::new(b, x, target)?;
    let sum = b.sum(labels.excess, &[1, 2])?;
    let losses = formula(b, [sum], |[sum]| sum / labels.scores.classes as f64)?;
    let right = cast(b, labels.right, labels.scores.dtype);
    let right = b.reshape(right, &b.dims(target))?;
    Ok((labels.scores.reduced(b, losses, reduction)?, right))
}

pub(super) fn multilabel_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    target: Value,
    reduction: i64,
    _is_target: Value,
) -> Result<Value> {
    let labels = Labels::new(b, x, target)?;
    let active = formula(b, [labels.excess], |[e]| e.gt(0.0).pick(e.full(1.0), 0.0))?;
    let pushed = b.sum(active, &[1])?;
    let per_label = b.sum(active, &[2])?;
    let per_label = b.broadcast_in_dim(per_label, &b.dims(active), &[0, 1])?;
    let pulled = formula(b, [labels.hits, per_label], |[hits, n]| hits.pick(n, 0.0))?;
    let pulled = b.sum(pulled, &[1])?;
    let share = labels.scores.share(b, grad, reduction)?;
    let [slope] = formulas(b, [pushed, pulled, share], |[up, down, share]: [X; 3]| {
        [(up - down) * share]
    })?;
    labels.scores.gradient(b, slope)
}
