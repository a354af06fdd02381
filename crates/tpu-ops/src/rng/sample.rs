//! Distributions that are sampled by rejecting candidates.
use super::{draw::Stream, supported};
use crate::{
    Error, Generator, Result, check,
    error::ensure,
    formula::{X, formula, formulas},
    promote::{broadcast_shapes, opmath},
};
use smallvec::smallvec;
use tpu_hlo::{Builder, DType, Value};

type B = Builder;

/// Repeats `step` until no element is open. `step` gets the round, the elements still open and
/// the state, and returns both anew; elements that are closed must keep their state.
fn rounds<const N: usize>(
    b: &mut B,
    open: Value,
    state: [Value; N],
    step: impl FnOnce(&mut B, Value, Value, [Value; N]) -> Result<(Value, [Value; N])>,
) -> Result<[Value; N]> {
    let round = b.scalar(0, DType::U64);
    let mut all = vec![round, open];
    all.extend(state);
    let any_open = |b: &mut B, v: &[Value]| {
        let axes: Vec<i64> = (0..b.rank(v[1]) as i64).collect();
        Ok::<_, Error>(b.any(v[1], &axes)?)
    };
    let outs = b.while_loop(&all, any_open, |b, v| {
        let mut state = state;
        state.copy_from_slice(&v[2..]);
        let (open, state) = step(b, v[0], v[1], state)?;
        let one = b.scalar(1, DType::U64);
        let mut next = smallvec![b.add(v[0], one)?, open];
        next.extend(state);
        Ok::<_, Error>(next)
    })?;
    let mut state = state;
    state.copy_from_slice(&outs[2..]);
    Ok(state)
}

/// Numbers of its own for the `part`-th draw of a round, of which there are two.
fn draw_of(b: &mut B, round: Value, part: i32) -> Result<Value> {
    let (two, part) = (b.scalar(2, DType::U64), b.scalar(part, DType::U64));
    let first = b.multiply(round, two)?;
    Ok(b.add(first, part)?)
}

/// Two draws of `(0, 1)` numbers.
fn two_uniforms(b: &mut B, stream: &Stream, round: Value) -> Result<[Value; 2]> {
    let (first, second) = (draw_of(b, round, 0)?, draw_of(b, round, 1)?);
    Ok([
        stream.open_uniform(b, first)?,
        stream.open_uniform(b, second)?,
    ])
}

/// `x * log(x / mean) + mean - x`, the deviance, without cancellation where `x` is near `mean`;
/// `mean` for `x = 0`.
fn deviance<'f>(x: X<'f>, mean: X<'f>) -> X<'f> {
    let y = (mean - x) / x;
    let r = y / (y + 2.0);
    let r2 = r * r;
    let tail = r2 * (r2 * (r2 * (r2 / 11.0 + 1.0 / 9.0) + 1.0 / 7.0) + 1.0 / 5.0) + 1.0 / 3.0;
    let near = y * r - r * r2 * tail * 2.0;
    let far = y - y.log1p();
    let per_x = y.abs().lt(0.25).pick(near, far);
    x.eq(0.0).pick(mean, x * per_x)
}

/// `log(n!)` less `n * log(n) - n`: Stirling's series, 0 for `n = 0`.
fn stirling<'f>(n: X<'f>) -> X<'f> {
    let inverse = 1.0 / n;
    let square = inverse * inverse;
    let tail = square * (square / 1260.0 - 1.0 / 360.0) + 1.0 / 12.0;
    let series = inverse * tail + (n * std::f64::consts::TAU).log() * 0.5;
    n.eq(0.0).pick(n, series)
}

/// Poisson numbers of rate `rate`
pub(super) fn poisson(b: &mut B, rate: Value, _: Generator) -> Result<Value> {
    let (dtype, dims) = (b.dtype(rate), b.dims(rate));
    supported("poisson_cpu", dtype, super::is_float(dtype))?;
    let rate = b.convert(rate, opmath(dtype));
    let [bad, small, large, zero] = formulas(b, [rate], |[rate]| {
        [!rate.ge(0.0), rate.lt(10.0), rate.ge(10.0), rate * 0.0]
    })?;
    let message = "RuntimeError: invalid Poisson rate, expected rate to be non-negative";
    check::nowhere(b, bad, message)?;
    let stream = Stream::new(b, b.dtype(rate), &dims)?;
    let few = few_events(b, &stream, rate, small, zero)?;
    let many = many_events(b, &stream, rate, large, zero)?;
    let k = b.select(small, few, many)?;
    Ok(b.convert(k, dtype))
}

/// Knuth's product of uniform numbers.
fn few_events(b: &mut B, stream: &Stream, rate: Value, open: Value, zero: Value) -> Result<Value> {
    let [limit, one] = formulas(b, [rate], |[rate]| [(-rate).exp(), rate.full(1.0)])?;
    let [k, _] = rounds(b, open, [zero, one], |b, round, open, [k, product]| {
        let round = draw_of(b, round, 0)?;
        let u = stream.open_uniform(b, round)?;
        let [open, k, product] =
            formulas(b, [u, limit, open, k, product], |[u, limit, open, k, p]| {
                let p = p * u;
                let open = open & p.gt(limit);
                [open, open.pick(k + 1.0, k), p]
            })?;
        Ok((open, [k, product]))
    })?;
    Ok(k)
}

/// Hörmann's transformed rejection with squeeze (PTRS), for rates from 10.
fn many_events(b: &mut B, stream: &Stream, rate: Value, open: Value, zero: Value) -> Result<Value> {
    let [k] = rounds(b, open, [zero], |b, round, open, [k]| {
        let uv = two_uniforms(b, stream, round)?;
        let [open, k] = formulas(
            b,
            [rate, open, k, uv[0], uv[1]],
            |[rate, open, old, u, v]| {
                let spread = rate.sqrt() * 2.53 + 0.931;
                let a = spread * 0.02483 - 0.059;
                let inverse_alpha = 1.1328 / (spread - 3.4) + 1.1239;
                let quick = 0.9277 - 3.6224 / (spread - 2.0);
                let u = u - 0.5;
                let us = 0.5 - u.abs();
                let k = ((a * 2.0 / us + spread) * u + rate + 0.43).floor();
                let log_v = (v * inverse_alpha / (a / (us * us) + spread)).log();
                let possible = k.maximum(0.0);
                let log_pmf = -(deviance(possible, rate) + stirling(possible));
                let squeezed = us.ge(0.07) & v.le(quick);
                let refused = k.lt(0.0) | (us.lt(0.013) & v.gt(us));
                let accepted = squeezed | (!refused & log_v.le(log_pmf));
                // An infinite rate gives an infinite number.
                let accepted = accepted | rate.eq(f64::INFINITY);
                let k = rate.eq(f64::INFINITY).pick(rate, k);
                [open & !accepted, (open & accepted).pick(k, old)]
            },
        )?;
        Ok((open, [k]))
    })?;
    Ok(k)
}

/// Binomial numbers: successes in `count` tries of probability `prob`
pub(super) fn binomial(b: &mut B, count: Value, prob: Value, _: Generator) -> Result<Value> {
    let dtype = b.dtype(count);
    for (name, dtype) in [("count", dtype), ("prob", b.dtype(prob))] {
        ensure!(
            dtype.is_float(),
            Value,
            "binomial only supports floating-point dtypes for {name}, got: {}",
            dtype.torch()
        );
    }
    let dims = broadcast_shapes(&[&b.dims(count), &b.dims(prob)])?;
    let wide = opmath(dtype);
    let (count, prob) = (b.convert(count, wide), b.convert(prob, wide));
    let (count, prob) = (b.broadcast(count, &dims)?, b.broadcast(prob, &dims)?);
    let [p, fixed, value, few, many, zero] = formulas(b, [count, prob], |[n, p]| {
        let none = n.le(0.0) | p.le(0.0);
        let broken = n.is_nan() | p.is_nan();
        let fixed = none | broken | p.ge(1.0);
        let value = broken.pick(n * p, none.pick(n.full(0.0), n));
        let q = p.gt(0.5).pick(1.0 - p, p);
        let open = !fixed;
        [
            q,
            fixed,
            value,
            open & (n * q).lt(10.0),
            open & (n * q).ge(10.0),
            n * 0.0,
        ]
    })?;
    let stream = Stream::new(b, wide, &dims)?;
    let low = few_successes(b, &stream, count, p, few, zero)?;
    let high = many_successes(b, &stream, count, p, many, zero)?;
    let args = [count, prob, fixed, value, few, low, high];
    let k = formula(b, args, |[n, prob, fixed, value, few, low, high]| {
        let k = few.pick(low, high);
        let k = prob.gt(0.5).pick(n - k, k);
        fixed.pick(value, k)
    })?;
    Ok(b.convert(k, dtype))
}

/// Counts geometric gaps until they exceed `count`, for means below 10.
fn few_successes(
    b: &mut B,
    stream: &Stream,
    count: Value,
    prob: Value,
    open: Value,
    zero: Value,
) -> Result<Value> {
    let [k, _] = rounds(b, open, [zero, zero], |b, round, open, [k, tries]| {
        let round = draw_of(b, round, 0)?;
        let u = stream.open_uniform(b, round)?;
        let args = [count, prob, u, open, k, tries];
        let [open, k, tries] = formulas(b, args, |[n, p, u, open, k, tries]| {
            let tries = tries + (u.log() / (-p).log1p()).ceil();
            let open = open & tries.le(n);
            [open, open.pick(k + 1.0, k), tries]
        })?;
        Ok((open, [k, tries]))
    })?;
    Ok(k)
}

/// Hörmann's transformed rejection with squeeze (BTRS), for means from 10 and `prob` up to 1/2.
fn many_successes(
    b: &mut B,
    stream: &Stream,
    count: Value,
    prob: Value,
    open: Value,
    zero: Value,
) -> Result<Value> {
    let [k] = rounds(b, open, [zero], |b, round, open, [k]| {
        let uv = two_uniforms(b, stream, round)?;
        let args = [count, prob, open, k, uv[0], uv[1]];
        let [open, k] = formulas(b, args, |[n, p, open, old, u, v]| {
            let fail = 1.0 - p;
            let deviation = (n * p * fail).sqrt();
            let spread = deviation * 2.53 + 1.15;
            let a = spread * 0.0248 - 0.0873 + p * 0.01;
            let quick = 0.92 - 4.2 / spread;
            let alpha = (5.1 / spread + 2.83) * deviation;
            let u = u - 0.5;
            let us = 0.5 - u.abs();
            let k = ((a * 2.0 / us + spread) * u + n * p + 0.5).floor();
            let possible = k.maximum(0.0).minimum(n);
            let mode = ((n + 1.0) * p).floor();
            let shape = |k| {
                let misses = n - k;
                deviance(k, n * p) + deviance(misses, n * fail) + stirling(k) + stirling(misses)
            };
            let log_v = (v * alpha / (a / (us * us) + spread)).log();
            let squeezed = us.ge(0.07) & v.le(quick);
            let inside = k.ge(0.0) & k.le(n);
            let likely = log_v.le(shape(mode) - shape(possible));
            let accepted = inside & (squeezed | likely);
            // So many tries that no number is exact: the mean is the nearest.
            let vast = n.eq(f64::INFINITY);
            let k = vast.pick(n, k);
            [
                open & !(accepted | vast),
                (open & (accepted | vast)).pick(k, old),
            ]
        })?;
        Ok((open, [k]))
    })?;
    Ok(k)
}

/// Gamma numbers of shape `alpha` and scale 1
pub(super) fn standard_gamma(b: &mut B, alpha: Value, _: Generator) -> Result<Value> {
    let dtype = b.dtype(alpha);
    supported("gamma_cpu", dtype, matches!(dtype, DType::F32 | DType::F64))?;
    gamma(b, alpha)
}

fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        _ => f32::MIN_POSITIVE.into(),
    }
}

/// Marsaglia and Tsang's method; shapes below 1 are raised by 1 and scaled back.
fn gamma(b: &mut B, alpha: Value) -> Result<Value> {
    let (dtype, dims) = (b.dtype(alpha), b.dims(alpha));
    let boost = super::open_uniform(b, dtype, &dims)?;
    let stream = Stream::new(b, dtype, &dims)?;
    let [open, shape, scale, zero] = formulas(b, [alpha, boost], |[alpha, u]| {
        let raised = alpha.lt(1.0);
        let scale = raised.pick(u.pow(1.0 / alpha), 1.0);
        [
            alpha.gt(0.0),
            raised.pick(alpha + 1.0, alpha),
            scale,
            alpha * 0.0,
        ]
    })?;
    let [sample] = rounds(b, open, [zero], |b, round, open, [old]| {
        let (first, second) = (draw_of(b, round, 0)?, draw_of(b, round, 1)?);
        let (z, u) = (stream.normal(b, first)?, stream.open_uniform(b, second)?);
        let [open, sample] = formulas(b, [shape, z, u, open, old], |[shape, z, u, open, old]| {
            let d = shape - 1.0 / 3.0;
            let y = z / (d * 9.0).sqrt() + 1.0;
            let v = y * y * y;
            let z2 = z * z;
            let log_bound = z2 * 0.5 + d * (-v + 1.0 + v.log());
            let squeezed = u.lt(z2 * z2 * -0.0331 + 1.0);
            let accepted = y.gt(0.0) & (squeezed | u.log().lt(log_bound));
            [open & !accepted, (open & accepted).pick(d * v, old)]
        })?;
        Ok((open, [sample]))
    })?;
    let least = smallest(dtype);
    let y = formula(b, [sample, scale], |[sample, scale]| {
        (sample * scale).maximum(least)
    })?;
    Ok(y)
}

/// Dirichlet numbers: gamma numbers of shapes `alpha` divided by their sum over the last dimension
pub(super) fn dirichlet(b: &mut B, alpha: Value, _: Generator) -> Result<Value> {
    let (dtype, dims) = (b.dtype(alpha), b.dims(alpha));
    supported("dirichlet", dtype, matches!(dtype, DType::F32 | DType::F64))?;
    ensure!(
        !dims.is_empty(),
        Index,
        "Dimension specified as -1 but tensor has no dimensions"
    );
    let x = gamma(b, alpha)?;
    let last = dims.len() as i64 - 1;
    let sum = b.sum(x, &[last])?;
    let kept: Vec<i64> = (0..last).collect();
    let sum = b.broadcast_in_dim(sum, &dims, &kept)?;
    let least = smallest(dtype);
    let most = match dtype {
        DType::F64 => 1.0 - f64::EPSILON / 2.0,
        _ => 1.0 - f64::from(f32::EPSILON) / 2.0,
    };
    let y = formula(b, [x, sum], |[x, sum]| {
        (x / sum).maximum(least).minimum(most)
    })?;
    Ok(y)
}
