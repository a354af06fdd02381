//! Fake quantization to a grid that follows the range of the data.
use super::{B, Grid};
use crate::{
    Result, Scalar, check,
    error::ensure,
    formula::formulas,
    promote::cast,
    reduce::{Fold, MAX, MIN},
};
use tpu_hlo::{DType, Dims, Value};

/// The smallest step of a grid.
const SMALLEST: f64 = 6.1e-5;

/// Whether the number in a tensor of one is not 0.
fn is_on(b: &mut B, flag: Value) -> Result<Value> {
    let flag = cast(b, flag, DType::Bool);
    Ok(b.reshape(flag, &[])?)
}

/// Least and largest element, of each slice along `axis` or of all.
fn range(b: &mut B, x: Value, axis: Option<i64>) -> Result<(Value, Value)> {
    let others: Option<Dims> =
        axis.map(|axis| (0..b.rank(x) as i64).filter(|i| *i != axis).collect());
    let fold = Fold::new(b, x, others.as_deref(), false)?;
    Ok((fold.extreme(b, x, &MIN)?, fold.extreme(b, x, &MAX)?))
}

/// `running` moved towards `seen` where `on`; an infinite one has seen nothing yet.
fn follow(b: &mut B, on: Value, running: Value, seen: Value, rate: Value) -> Result<Value> {
    let (seen, rate) = (
        cast(b, seen, b.dtype(running)),
        cast(b, rate, b.dtype(running)),
    );
    let seen = b.reshape(seen, &b.dims(running))?;
    let [y] = formulas(b, [on, running, seen, rate], |[on, running, seen, rate]| {
        let none = running.abs().eq(f64::INFINITY);
        let moved = running + (seen - running) * rate;
        [on.pick(none.pick(seen, moved), running)]
    })?;
    Ok(y)
}

/// Step and zero point of the grid `low..=high` that covers the range and 0; a symmetric one has
/// its zero in the middle when the range lies on both sides.
fn grid(
    b: &mut B,
    ends: [Value; 2],
    (low, high): (f64, f64),
    symmetric: bool,
) -> Result<[Value; 2]> {
    let wide = if b.settings.tpu {
        DType::F32
    } else {
        DType::F64
    };
    let ends = ends.map(|end| cast(b, end, wide));
    formulas(b, ends, |[least, most]| {
        let both = least.lt(0.0).and(most.gt(0.0));
        let (mut min, mut max) = (least.minimum(0.0), most.maximum(0.0));
        if symmetric {
            let half = ((high - low) / 2.0).floor();
            let reach = (min / -(half + 1.0)).abs().maximum((max / half).abs());
            min = both.pick((reach * -(half + 1.0)).to(DType::F32).to(wide), min);
            max = both.pick((reach * half).to(DType::F32).to(wide), max);
        }
        let step = ((max - min) / (high - low)).to(DType::F32).to(wide);
        let inverse = 1.0 / step.to(DType::F32);
        let step = inverse.eq(f64::INFINITY).pick(step.full(0.1), step);
        let grow = (SMALLEST / step).maximum(1.0);
        let step = step.maximum(SMALLEST);
        let (down, up) = (min * grow / step, max * grow / step);
        let nearer = (low.abs() - down.abs()).lt(high.abs() - up.abs());
        let mut zero = nearer.pick(low - down, high - up);
        if symmetric {
            zero = both.pick(zero.full((low + high) / 2.0), zero);
        }
        [step, zero.round().maximum(low).minimum(high)]
    })
}

/// Fake quantization of `x`, and where it was within the grid; then the range seen so far and the
/// grid, which follow the data while the two switches are on.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn moving_average(
    b: &mut B,
    x: Value,
    observer_on: Value,
    fake_quant_on: Value,
    running_min: Value,
    running_max: Value,
    scale: Value,
    zero_point: Value,
    averaging_const: Scalar,
    low: i64,
    high: i64,
    ch_axis: i64,
    per_row: bool,
    symmetric: bool,
) -> Result<Vec<Value>> {
    let rank = b.rank(x);
    ensure!(
        ch_axis < rank as i64,
        "Error in fused_moving_avg_obs_fake_quant_cpu: ch_axis must be < self.dim()"
    );
    let axis = if per_row {
        Some(check::dim(ch_axis, rank)?)
    } else {
        None
    };
    let (observing, quantizing) = (is_on(b, observer_on)?, is_on(b, fake_quant_on)?);
    let (least, most) = range(b, x, axis)?;
    let least = follow(b, observing, running_min, least, averaging_const.0)?;
    let most = follow(b, observing, running_max, most, averaging_const.0)?;
    let [step, zero] = grid(b, [least, most], (low as f64, high as f64), symmetric)?;
    let mut chosen = [(scale, step), (zero_point, zero)];
    for (old, new) in &mut chosen {
        *new = cast(b, *new, b.dtype(*old));
        *new = b.reshape(*new, &b.dims(*old))?;
        *new = choose(b, quantizing, *new, *old)?;
    }
    let [(_, scale), (_, zero_point)] = chosen;
    let (y, mask) = Grid::new(b, [x, scale, zero_point], axis, low, high)?.quantize(b)?;
    let all = b.full_like(mask, true);
    let y = choose(b, quantizing, y, x)?;
    let mask = choose(b, quantizing, mask, all)?;
    Ok(vec![y, mask, least, most, scale, zero_point])
}

/// `new` where the one number `on` holds, else `old`.
fn choose(b: &mut B, on: Value, new: Value, old: Value) -> Result<Value> {
    let on = b.broadcast(on, &b.dims(new))?;
    Ok(b.select(on, new, old)?)
}
