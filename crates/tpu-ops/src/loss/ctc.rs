//! Connectionist temporal classification: the sum over all alignments of a sequence.
use super::float_result;
use crate::{
    Error, Result, check,
    error::ensure,
    formula::{X, formula, formula_list},
    index::{take_along, take_slices},
    promote::cast,
    scan::cumulative_sum,
};
use tpu_hlo::{Builder, DType, Dims, DotDims, Value};

type B = Builder;

/// What forward and backward share. Labels are interleaved with blanks: position `2i` is blank,
/// `2i + 1` is label `i`; there are `2 S + 1` positions.
struct Lattice {
    /// Steps, samples, positions, classes.
    size: [i64; 4],
    dtype: DType,
    /// `[samples, positions]`, the class of each position.
    class: Value,
    /// `[steps, samples, positions]`, its log probability.
    scores: Value,
    /// `[samples, 1]`, position of the last blank.
    last: Value,
    /// `[samples, 1]`, steps that count.
    steps: Value,
    /// `[samples, positions]`, whether a path may come from two positions before.
    skip: Value,
}

impl Lattice {
    fn new(
        b: &mut B,
        log_probs: Value,
        targets: Value,
        lengths: Lengths,
        blank: i64,
    ) -> Result<Self> {
        let dtype = float_result(b, "ctc_loss", &[log_probs])?;
        let dims = b.dims(log_probs);
        ensure!(
            dims.len() == 3,
            "ctc_loss: log_probs must have 3 dimensions"
        );
        let (t, n, classes) = (dims[0], dims[1], dims[2]);
        ensure!(
            (0..classes).contains(&blank),
            "blank must be in label range"
        );
        let labels = lengths.most;
        let (inputs, ends) = lengths.checked(b, t, n)?;
        let targets = padded(b, targets, ends, labels)?;
        let positions = 2 * labels + 1;
        let class = interleave(b, targets, blank)?;
        let steps = b.reshape(inputs, &[n, 1])?;
        let last = formula(b, [ends], |[ends]| ends * 2.0)?;
        let last = b.reshape(last, &[n, 1])?;
        let size = [t, n, positions, classes];
        let skip = skips(b, class, blank)?;
        let index = b.broadcast(class, &[t, n, positions])?;
        let scores = take_along(b, log_probs, 2, index)?;
        Ok(Self {
            size,
            dtype,
            class,
            scores,
            last,
            steps,
            skip,
        })
    }

    /// Position of every element, `[samples, positions]`.
    fn position(&self, b: &mut B) -> Value {
        b.iota(DType::I32, &self.size[1..3], 1)
    }

    /// `[samples, positions]` of `[samples, 1]`.
    fn rows(&self, b: &mut B, column: Value) -> Result<Value> {
        Ok(b.broadcast(column, &self.size[1..3])?)
    }

    /// One step of `[steps, samples, positions]`.
    fn at(&self, b: &mut B, x: Value, step: Value) -> Result<Value> {
        let zero = b.scalar(0, DType::I32);
        let row = b.dynamic_slice(x, &[step, zero, zero], &[1, self.size[1], self.size[2]])?;
        Ok(b.reshape(row, &self.size[1..3])?)
    }

    fn write(&self, b: &mut B, x: Value, row: Value, step: Value) -> Result<Value> {
        let zero = b.scalar(0, DType::I32);
        let row = b.reshape(row, &[1, self.size[1], self.size[2]])?;
        Ok(b.dynamic_update_slice(x, row, &[step, zero, zero])?)
    }

    /// `x` moved along the positions by `by`, minus infinity coming in.
    fn moved(&self, b: &mut B, x: Value, by: i64) -> Result<Value> {
        let none = b.lowest(self.dtype);
        Ok(b.pad(x, none, &[0, by], &[0, -by], &[0, 0])?)
    }

    /// Log of the summed probabilities of the ways into every position: staying, from the
    /// neighbour and, where `skip` holds, from the one after it; and then of the position itself.
    fn advance(&self, b: &mut B, x: Value, skip: Value, score: Value, by: i64) -> Result<Value> {
        let one = self.moved(b, x, by)?;
        let two = self.moved(b, x, 2 * by)?;
        formula(
            b,
            [x, one, two, skip, score],
            |[stay, one, two, skip, score]| {
                let two = skip.pick(two, f64::NEG_INFINITY);
                log_sum(&[stay, one, two]) + score
            },
        )
    }

    /// Log probabilities of all beginnings, `[steps, samples, positions]`.
    fn forward(&self, b: &mut B) -> Result<Value> {
        let zero = b.scalar(0, DType::I32);
        let score = self.at(b, self.scores, zero)?;
        let (position, last) = (self.position(b), self.rows(b, self.last)?);
        let first = formula(b, [position, last, score], |[at, last, score]| {
            at.le(1.0).and(at.le(last)).pick(score, f64::NEG_INFINITY)
        })?;
        let empty = b.full_like(self.scores, f64::NEG_INFINITY);
        let table = self.write(b, empty, first, zero)?;
        let one = b.scalar(1, DType::I32);
        let outs = b.while_loop::<Error>(
            &[one, first, table, self.scores, self.skip],
            |b, s| formula(b, [s[0]], |[t]| t.lt(self.size[0] as f64)),
            |b, s| {
                let score = self.at(b, s[3], s[0])?;
                let next = self.advance(b, s[1], s[4], score, 1)?;
                let table = self.write(b, s[2], next, s[0])?;
                let step = formula(b, [s[0]], |[t]| t + 1.0)?;
                Ok(smallvec::smallvec![step, next, table, s[3], s[4]])
            },
        )?;
        Ok(outs[2])
    }

    /// Log probabilities of all endings, `[steps, samples, positions]`.
    fn backward(&self, b: &mut B) -> Result<Value> {
        let position = self.position(b);
        let (last, steps) = (self.rows(b, self.last)?, self.rows(b, self.steps)?);
        let none = b.full(f64::NEG_INFINITY, self.dtype, &self.size[1..3]);
        let table = b.full_like(self.scores, f64::NEG_INFINITY);
        let skip = self.ahead(b)?;
        let end = b.scalar(self.size[0] - 1, DType::I32);
        let state = [end, none, table, self.scores, skip, position, last, steps];
        let outs = b.while_loop::<Error>(
            &state,
            |b, s| formula(b, [s[0]], |[t]| t.ge(0.0)),
            |b, s| {
                let score = self.at(b, s[3], s[0])?;
                let next = self.advance(b, s[1], s[4], score, -1)?;
                let xs = [s[0], next, score, s[5], s[6], s[7]];
                let next = formula(b, xs, |[t, next, score, at, last, steps]| {
                    let ends = at.eq(last).or(at.eq(last - 1.0));
                    let start = ends.pick(score, f64::NEG_INFINITY);
                    let running = at.le(last).pick(next, f64::NEG_INFINITY);
                    let t = t + 1.0;
                    let here = t.eq(steps).pick(start, running);
                    t.gt(steps).pick(here.full(f64::NEG_INFINITY), here)
                })?;
                let table = self.write(b, s[2], next, s[0])?;
                let step = formula(b, [s[0]], |[t]| t - 1.0)?;
                Ok(smallvec::smallvec![
                    step, next, table, s[3], s[4], s[5], s[6], s[7]
                ])
            },
        )?;
        Ok(outs[2])
    }

    /// Whether a path may go on two positions ahead.
    fn ahead(&self, b: &mut B) -> Result<Value> {
        let no = b.scalar(false, DType::Bool);
        Ok(b.pad(self.skip, no, &[0, -2], &[0, 2], &[0, 0])?)
    }

    /// Minus the log probability of each sample, from the finished table of beginnings.
    fn loss(&self, b: &mut B, table: Value) -> Result<Value> {
        let cube = [self.size[0], self.size[1], self.size[2]];
        let step = b.iota(DType::I32, &cube, 0);
        let position = b.iota(DType::I32, &cube, 2);
        let (last, steps) = (
            b.broadcast(self.last, &cube)?,
            b.broadcast(self.steps, &cube)?,
        );
        let ends = formula(
            b,
            [table, step, position, last, steps],
            |[x, t, at, last, steps]| {
                let end = at.eq(last).or(at.eq(last - 1.0)).and(t.eq(steps - 1.0));
                end.pick(x, f64::NEG_INFINITY)
            },
        )?;
        let none = b.lowest(self.dtype);
        let most = b.reduce(ends, none, &[0, 2], B::maximum)?;
        let most = formula(b, [most], finite)?;
        let spread = b.broadcast_in_dim(most, &cube, &[1])?;
        let terms = formula(b, [ends, spread], |[x, most]| (x - most).exp())?;
        let sum = b.sum(terms, &[0, 2])?;
        let flat = |b: &mut B, v| b.reshape(v, &[self.size[1]]);
        let (last, steps) = (flat(b, self.last)?, flat(b, self.steps)?);
        formula(b, [sum, most, last, steps], |[sum, most, last, steps]| {
            let loss = -(sum.log() + most);
            steps.eq(0.0).and(last.eq(0.0)).pick(loss.full(0.0), loss)
        })
    }

    /// The gradient of the log probabilities.
    fn gradient(
        &self,
        b: &mut B,
        [grad, log_probs, loss, log_alpha]: [Value; 4],
        zero_infinity: bool,
    ) -> Result<Value> {
        let [t, n, positions, classes] = self.size;
        let cube = [t, n, positions];
        let beginnings = b.transpose(log_alpha, &[1, 0, 2])?;
        let endings = self.backward(b)?;
        let position = b.iota(DType::I32, &cube, 2);
        let last = b.broadcast(self.last, &cube)?;
        let both = formula(
            b,
            [beginnings, endings, position, last],
            |[a, z, at, last]| at.le(last).pick(a + z, f64::NEG_INFINITY),
        )?;
        let none = b.lowest(self.dtype);
        let most = b.reduce(both, none, &[2], B::maximum)?;
        let most = formula(b, [most], finite)?;
        let spread = b.broadcast_in_dim(most, &cube, &[0, 1])?;
        let shares = formula(b, [both, spread], |[x, most]| (x - most).exp())?;
        let by_class = sum_by_class(b, self, shares)?;
        let full = [t, n, classes];
        let most = b.broadcast_in_dim(most, &full, &[0, 1])?;
        let (loss, grad) = (
            b.broadcast_in_dim(loss, &full, &[1])?,
            b.broadcast_in_dim(grad, &full, &[1])?,
        );
        let step = b.iota(DType::I32, &full, 0);
        let steps = b.broadcast(self.steps, &full)?;
        let xs = [log_probs, by_class, most, loss, grad, step, steps];
        let out = formula_list(b, &xs, |xs| {
            let [score, sum, most, loss, grad, step, steps] =
                [xs[0], xs[1], xs[2], xs[3], xs[4], xs[5], xs[6]];
            let slope = (score.exp() - sum * (most + loss - score).exp()) * grad;
            let slope = step.lt(steps).pick(slope, 0.0);
            let lost = loss.eq(f64::INFINITY);
            vec![if zero_infinity {
                lost.pick(slope.full(0.0), slope)
            } else {
                slope
            }]
        })?[0];
        Ok(cast(b, out, self.dtype))
    }
}

/// 0 for minus infinity: what to take out of a sum of powers before the logarithm.
fn finite([x]: [X<'_>; 1]) -> X<'_> {
    x.eq(f64::NEG_INFINITY).pick(x.full(0.0), x)
}

fn log_sum<'s>(xs: &[X<'s>; 3]) -> X<'s> {
    let most = finite([xs[0].maximum(xs[1]).maximum(xs[2])]);
    let sum = (xs[0] - most).exp() + (xs[1] - most).exp() + (xs[2] - most).exp();
    sum.log() + most
}

/// How many steps and labels of each sample count.
struct Lengths {
    given: Given,
    /// The most labels.
    most: i64,
}

enum Given {
    Numbers(Dims, Dims),
    Tensors(Value, Value),
}

impl Lengths {
    fn numbers(inputs: Dims, targets: Dims) -> Self {
        let most = targets.iter().copied().max().unwrap_or(0);
        Self {
            given: Given::Numbers(inputs, targets),
            most,
        }
    }

    fn tensors(inputs: Value, targets: Value, most: i64) -> Self {
        let given = Given::Tensors(inputs, targets);
        Self { given, most }
    }

    /// Those of inputs and targets as `I32 [n]`, none longer than the `t` steps.
    fn checked(self, b: &mut B, t: i64, n: i64) -> Result<(Value, Value)> {
        let lengths = match &self.given {
            Given::Numbers(inputs, targets) => [inputs.len() as i64, targets.len() as i64],
            Given::Tensors(inputs, targets) => [b.ty(*inputs).numel(), b.ty(*targets).numel()],
        };
        for (name, length) in ["input_lengths", "target_lengths"].iter().zip(lengths) {
            ensure!(length == n, "{name} must be of size batch_size");
        }
        match self.given {
            Given::Numbers(inputs, targets) => {
                check_numbers(t, &inputs, &targets)?;
                let inputs = b.constant_ints(&inputs, DType::I32);
                Ok((inputs, b.constant_ints(&targets, DType::I32)))
            }
            Given::Tensors(inputs, targets) => {
                check_tensors(b, t, inputs, targets)?;
                let inputs = b.convert(inputs, DType::I32);
                Ok((inputs, b.convert(targets, DType::I32)))
            }
        }
    }
}

fn check_numbers(t: i64, inputs: &[i64], targets: &[i64]) -> Result<()> {
    for (i, (input, target)) in inputs.iter().zip(targets).enumerate() {
        ensure!(
            *input >= 0 && *target >= 0,
            "Expected lengths to have value at least 0, but got {input} and {target} (while \
             checking arguments for ctc_loss)"
        );
        ensure!(
            *input <= t,
            "Expected input_lengths to have value at most {t}, but got value {input} at batch \
             {i} (while checking arguments for ctc_loss)"
        );
    }
    Ok(())
}

/// [`check_numbers`] of what is known when the program runs.
fn check_tensors(b: &mut B, t: i64, inputs: Value, targets: Value) -> Result<()> {
    let most = format!(
        "RuntimeError: Expected input_lengths to have value at least 0 and at most {t}, but got \
         value {{}} (while checking arguments for ctc_loss)"
    );
    check::bounds(b, inputs, (0, t + 1), most)?;
    let least = "RuntimeError: Expected target_lengths to have value at least 0, but got value {} \
                 (while checking arguments for ctc_loss)";
    check::bounds(b, targets, (0, i64::MAX), least)
}

/// Labels as `[samples, labels]`; lists of labels are concatenated or already rows.
fn padded(b: &mut B, targets: Value, lengths: Value, labels: i64) -> Result<Value> {
    let n = b.ty(lengths).numel();
    let targets = b.convert(targets, DType::I32);
    let dims = b.dims(targets);
    if dims.len() == 2 {
        ensure!(
            dims[0] == n && dims[1] >= labels,
            "Expected tensor to have size at least {labels} at dimension 1, but got size {dims:?} \
             (while checking arguments for ctc_loss)"
        );
        return Ok(b.slice_dim(targets, 1, 0, labels)?);
    }
    ensure!(
        dims.len() == 1,
        "Expected targets of one or two dimensions, but got size {dims:?} (while checking \
         arguments for ctc_loss)"
    );
    let ends = cumulative_sum(b, lengths, 0)?;
    check_total(b, ends, dims[0])?;
    let table = [n, labels];
    let nth = b.iota(DType::I32, &table, 1);
    let (ends, lengths) = (
        b.broadcast_in_dim(ends, &table, &[0])?,
        b.broadcast_in_dim(lengths, &table, &[0])?,
    );
    let last = (dims[0] - 1).max(0) as f64;
    let index = formula(b, [nth, ends, lengths], |[nth, ends, lengths]| {
        (ends - lengths + nth).maximum(0.0).minimum(last)
    })?;
    let rows = take_slices(b, targets, 0, index)?;
    formula(b, [nth, lengths, rows], |[nth, lengths, rows]| {
        nth.lt(lengths).pick(rows, 0.0)
    })
}

/// Demands that the running sum of the lengths ends at the number of labels.
fn check_total(b: &mut B, ends: Value, labels: i64) -> Result<()> {
    let n = b.ty(ends).numel();
    let total = b.slice_dim(ends, 0, (n - 1).max(0), n)?;
    let message = format!(
        "RuntimeError: Expected tensor to have {{}} labels, but got {labels} (while checking \
         arguments for ctc_loss)"
    );
    check::bounds(b, total, (labels, labels + 1), message)
}

/// `blank, label, blank, label, ..., blank`
fn interleave(b: &mut B, labels: Value, blank: i64) -> Result<Value> {
    let blank = b.scalar(blank, DType::I32);
    let dims = b.dims(labels);
    if dims[1] == 0 {
        return Ok(b.broadcast(blank, &[dims[0], 1])?);
    }
    Ok(b.pad(labels, blank, &[0, 1], &[0, 1], &[0, 1])?)
}

/// Labels that differ from the label before may follow it without a blank.
fn skips(b: &mut B, class: Value, blank: i64) -> Result<Value> {
    let blank = b.scalar(blank, DType::I32);
    let before = b.pad(class, blank, &[0, 2], &[0, -2], &[0, 0])?;
    let position = b.iota(DType::I32, &b.dims(class), 1);
    formula(b, [class, before, position], |[class, before, at]| {
        let odd = at.rem(at.full(2)).eq(1.0);
        odd.and(at.gt(2.0)).and(class.ne(before))
    })
}

/// Loss of each sample, and the table `[samples, steps, positions]` that the derivative wants.
pub(super) fn ctc_loss(
    b: &mut B,
    log_probs: Value,
    targets: Value,
    input_lengths: Dims,
    target_lengths: Dims,
    blank: i64,
    _zero_infinity: bool,
) -> Result<(Value, Value)> {
    let lengths = Lengths::numbers(input_lengths, target_lengths);
    forward(b, log_probs, targets, lengths, blank)
}

/// [`ctc_loss`] with the lengths in tensors; `most` is the longest target's.
pub(super) fn ctc_loss_of_tensors(
    b: &mut B,
    log_probs: Value,
    targets: Value,
    input_lengths: Value,
    target_lengths: Value,
    blank: i64,
    _zero_infinity: bool,
    most: i64,
) -> Result<(Value, Value)> {
    let lengths = Lengths::tensors(input_lengths, target_lengths, most);
    forward(b, log_probs, targets, lengths, blank)
}

/// Labels of the longest target.
pub(super) fn longest(
    b: &mut B,
    _log_probs: Value,
    _targets: Value,
    input_lengths: Value,
    target_lengths: Value,
) -> Result<Value> {
    let names = ["input_lengths", "target_lengths"];
    for (name, lengths) in names.iter().zip([input_lengths, target_lengths]) {
        ensure!(b.dtype(lengths).is_int(), "{name} must be integral");
    }
    let lengths = b.convert(target_lengths, DType::I64);
    let (none, rank) = (b.scalar(0, DType::I64), b.rank(lengths) as i64);
    let axes: Dims = (0..rank).collect();
    Ok(b.reduce(lengths, none, &axes, B::maximum)?)
}

fn forward(
    b: &mut B,
    log_probs: Value,
    targets: Value,
    lengths: Lengths,
    blank: i64,
) -> Result<(Value, Value)> {
    let lattice = Lattice::new(b, log_probs, targets, lengths, blank)?;
    let classes = lattice.size[3];
    let message = "RuntimeError: ctc_loss: target {} is not a class";
    check::bounds(b, lattice.class, (0, classes), message)?;
    let table = lattice.forward(b)?;
    Ok((lattice.loss(b, table)?, b.transpose(table, &[1, 0, 2])?))
}

pub(super) fn ctc_loss_backward(
    b: &mut B,
    grad: Value,
    log_probs: Value,
    targets: Value,
    input_lengths: Dims,
    target_lengths: Dims,
    loss: Value,
    log_alpha: Value,
    blank: i64,
    zero_infinity: bool,
) -> Result<Value> {
    let lengths = Lengths::numbers(input_lengths, target_lengths);
    let lattice = Lattice::new(b, log_probs, targets, lengths, blank)?;
    lattice.gradient(b, [grad, log_probs, loss, log_alpha], zero_infinity)
}

/// [`ctc_loss_backward`] with the lengths in tensors.
pub(super) fn ctc_loss_backward_of_tensors(
    b: &mut B,
    grad: Value,
    log_probs: Value,
    targets: Value,
    input_lengths: Value,
    target_lengths: Value,
    loss: Value,
    log_alpha: Value,
    blank: i64,
    zero_infinity: bool,
) -> Result<Value> {
    let positions = b.dims(log_alpha).last().copied().unwrap_or(1);
    let lengths = Lengths::tensors(input_lengths, target_lengths, (positions - 1) / 2);
    let lattice = Lattice::new(b, log_probs, targets, lengths, blank)?;
    lattice.gradient(b, [grad, log_probs, loss, log_alpha], zero_infinity)
}

/// `[steps, samples, classes]`: the sum of `x` over the positions of each class.
fn sum_by_class(b: &mut B, lattice: &Lattice, x: Value) -> Result<Value> {
    let [_, n, positions, classes] = lattice.size;
    let at = b.broadcast_in_dim(lattice.class, &[n, positions, classes], &[0, 1])?;
    let class = b.iota(DType::I32, &[n, positions, classes], 2);
    let hot = formula(b, [at, class], |[at, class]| at.eq(class))?;
    let hot = cast(b, hot, lattice.dtype);
    let dims = DotDims {
        batch: (Dims::from_slice(&[1]), Dims::from_slice(&[0])),
        contract: (Dims::from_slice(&[2]), Dims::from_slice(&[1])),
    };
    let sums = b.dot_general(x, hot, &dims, lattice.dtype)?;
    Ok(b.transpose(sums, &[1, 0, 2])?)
}
