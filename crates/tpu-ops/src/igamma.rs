//! Regularized incomplete gamma functions.
use crate::{
    Error, Op, Result,
    formula::{X, float_type, formula, formula_list, formulas},
    op::pointwise,
    pointwise::implemented,
    promote::{cast, opmath, together_as},
};
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    pointwise!("igamma",  |b: &mut B, a, x| incomplete_gamma(b, a, x, false)),
    pointwise!("igammac", |b: &mut B, a, x| incomplete_gamma(b, a, x, true)),
];

/// More terms than any argument needs whose result is not within rounding of 0 or 1.
const MOST_TERMS: i64 = 2000;

/// `P(a, x)`, the share of `∫ t^(a-1) e^-t dt` below `x`; above it if `upper`.
///
/// The lower function by its power series where `x` is below 1 or `a`, the upper one by its
/// continued fraction elsewhere; each is 1 less the other. The upper one of small arguments has a
/// series of its own, where the difference would cancel.
fn incomplete_gamma(b: &mut B, a: Value, x: Value, upper: bool) -> Result<Value> {
    let dtype = float_type(b, &[a, x])?;
    implemented(dtype.is_float(), "igamma", dtype)?;
    let xs = together_as(b, &[a, x], opmath(dtype))?;
    let (a, x) = (xs[0], xs[1]);
    let [plain, by_series, by_small] = formulas(b, [a, x], |[a, x]| {
        let inf = f64::INFINITY;
        let plain = a.gt(0.0).and(x.gt(0.0)).and(a.lt(inf)).and(x.lt(inf));
        let small = x
            .le(0.5)
            .pick((-0.4 / x.log()).ge(a), (x * 1.1).ge(a))
            .and(x.le(1.1));
        [plain, x.le(1.0).or(x.lt(a)), small]
    })?;
    let by_small = if upper {
        by_small
    } else {
        b.full_like(by_small, false)
    };
    let [a1, x1] = formulas(b, [plain, a, x], |[plain, a, x]| {
        [plain.pick(a, a.full(1.0)), plain.pick(x, x.full(1.0))]
    })?;
    let factor = formula(b, [a1, x1], |[a, x]| power_over_gamma(a, x))?;
    let lower = series(b, by_series, a1, x1)?;
    let by_fraction = b.not(by_series);
    let above = continued_fraction(b, by_fraction, a1, x1)?;
    let small = if upper {
        small_series(b, by_small, a1, x1)?
    } else {
        lower
    };
    let all = [by_series, by_small, factor, lower, above, small, a1];
    let y = formula(
        b,
        all,
        |[by_series, by_small, factor, lower, above, small, a]| {
            let (lower, above) = (lower * factor / a, above * factor);
            let y = if upper {
                by_series.pick(1.0 - lower, above)
            } else {
                by_series.pick(lower, 1.0 - above)
            };
            by_small.pick(small, y)
        },
    )?;
    let y = formula(b, [plain, y, a, x], |[plain, y, a, x]| {
        plain.pick(y, at_edge(a, x, upper))
    })?;
    Ok(cast(b, y, dtype))
}

/// Where an argument is 0, infinite, negative or NaN.
fn at_edge<'s>(a: X<'s>, x: X<'s>, upper: bool) -> X<'s> {
    let (none, all) = if upper { (1.0, 0.0) } else { (0.0, 1.0) };
    let inf = f64::INFINITY;
    let (none, all, nan) = (x.full(none), x.full(all), x.full(f64::NAN));
    let y = x.eq(inf).pick(all, nan);
    let y = a.eq(inf).pick(x.eq(inf).pick(nan, none), y);
    let y = x.eq(0.0).pick(none, y);
    let y = a.eq(0.0).pick(x.gt(0.0).pick(all, nan), y);
    let wrong = x.lt(0.0).or(a.lt(0.0)).or(x.is_nan()).or(a.is_nan());
    wrong.pick(nan, y)
}

const LANCZOS_G: f64 = 6.02468004077673;

/// `x^a e^-x / Γ(a)`; near `a` by Lanczos' approximation, where logarithms would cancel.
fn power_over_gamma<'s>(a: X<'s>, x: X<'s>) -> X<'s> {
    let apart = (a * x.log() - x - a.lgamma()).exp();
    let fac = a + (LANCZOS_G - 0.5);
    let root = (fac / std::f64::consts::E).sqrt() / lanczos(a);
    let small = (a - x).exp() * (x / fac).pow(a);
    let rest = (x - a - LANCZOS_G + 0.5) / fac;
    let large = (a * (rest.log1p() - rest) + x * (0.5 - LANCZOS_G) / fac).exp();
    let near = root * a.lt(200.0).and(x.lt(200.0)).pick(small, large);
    (a - x).abs().gt(0.4 * a.abs()).pick(apart, near)
}

/// A ratio of polynomials, in the variable or its inverse so that nothing overflows.
fn lanczos(a: X<'_>) -> X<'_> {
    let reversed = |list: &[f64]| list.iter().rev().copied().collect::<Vec<_>>();
    let inverse = 1.0 / a;
    let large =
        inverse.polynomial(&reversed(LANCZOS_NUM)) / inverse.polynomial(&reversed(LANCZOS_DENOM));
    let small = a.polynomial(LANCZOS_NUM) / a.polynomial(LANCZOS_DENOM);
    a.gt(1.0).pick(large, small)
}

/// The relative size below which a term no longer counts.
fn resolution(dtype: DType) -> f64 {
    if dtype == DType::F64 {
        f64::EPSILON / 2.0
    } else {
        f64::from(f32::EPSILON / 2.0)
    }
}

/// Repeats `step`, which gets a counter `1, 2, ...`, `a`, `x` and the state, until the `Bool` that
/// it gives beside the new state holds nowhere. Elements outside `wanted` take no part.
fn repeat<const N: usize>(
    b: &mut B,
    wanted: Value,
    a: Value,
    x: Value,
    state: [Value; N],
    step: impl for<'s> Fn(X<'s>, X<'s>, X<'s>, [X<'s>; N]) -> (X<'s>, [X<'s>; N]),
) -> Result<[Value; N]> {
    let axes: Dims = (0..b.rank(wanted) as i64).collect();
    let mut all = vec![b.scalar(1.0, b.dtype(x)), wanted, a, x];
    all.extend(state);
    let outs = b.while_loop::<Error>(
        &all,
        |b, s| {
            let any = b.any(s[1], &axes)?;
            let more = formula(b, [s[0]], |[n]| n.lt(MOST_TERMS as f64))?;
            Ok(b.and(any, more)?)
        },
        |b, s| {
            let new = formula_list(b, s, |s| {
                let (n, active) = (s[0], s[1]);
                let (go_on, new) = step(n, s[2], s[3], std::array::from_fn(|i| s[i + 4]));
                let mut all = vec![n + 1.0, active.and(go_on), s[2], s[3]];
                all.extend(
                    new.iter()
                        .zip(&s[4..])
                        .map(|(new, old)| active.pick(*new, *old)),
                );
                all
            })?;
            Ok(new.into())
        },
    )?;
    Ok(std::array::from_fn(|i| outs[i + 4]))
}

/// `1 + x/(a+1) + x²/((a+1)(a+2)) + ...`
fn series(b: &mut B, wanted: Value, a: Value, x: Value) -> Result<Value> {
    let eps = resolution(b.dtype(x));
    let one = b.full_like(x, 1.0);
    let [sum, _] = repeat(b, wanted, a, x, [one, one], |n, a, x, [sum, term]| {
        let term = term * x / (a + n);
        (term.gt(eps * (sum + term)), [sum + term, term])
    })?;
    Ok(sum)
}

/// The continued fraction of the upper function by Lentz's method, without the power in front.
fn continued_fraction(b: &mut B, wanted: Value, a: Value, x: Value) -> Result<Value> {
    let eps = resolution(b.dtype(x));
    let tiny = if b.dtype(x) == DType::F64 {
        1e-300
    } else {
        1e-30
    };
    let [d, c] = formulas(b, [a, x], |[a, x]| {
        let first = x + 1.0 - a;
        [1.0 / first, first.full(1.0 / tiny)]
    })?;
    let [h, _, _] = repeat(b, wanted, a, x, [d, d, c], |n, a, x, [h, d, c]| {
        let numerator = -(n * (n - a));
        let denominator = x + 1.0 - a + 2.0 * n;
        let d = numerator * d + denominator;
        let d = 1.0 / d.abs().lt(tiny).pick(d.full(tiny), d);
        let c = denominator + numerator / c;
        let c = c.abs().lt(tiny).pick(c.full(tiny), c);
        let delta = c * d;
        ((delta - 1.0).abs().gt(eps), [h * delta, d, c])
    })?;
    Ok(h)
}

/// The upper function of small arguments: `1 - x^a/Γ(1+a)` less `x^a/Γ(a)` times an alternating
/// series.
fn small_series(b: &mut B, wanted: Value, a: Value, x: Value) -> Result<Value> {
    let eps = resolution(b.dtype(x));
    let (zero, one) = (b.full_like(x, 0.0), b.full_like(x, 1.0));
    let [sum, _] = repeat(b, wanted, a, x, [zero, one], |n, a, x, [sum, fac]| {
        let fac = fac * (-x / n);
        let term = fac / (a + n);
        let sum = sum + term;
        (term.abs().gt(eps * sum.abs()), [sum, fac])
    })?;
    formula(b, [a, x, sum], |[a, x, sum]| {
        let power = a * x.log();
        -(power - (a + 1.0).lgamma()).expm1() - (power - a.lgamma()).exp() * sum
    })
}

const LANCZOS_NUM: &[f64] = &[
    0.006061842346248907,
    0.5098416655656676,
    19.519927882476175,
    449.9445569063168,
    6955.999602515376,
    75999.29304014542,
    601859.6171681099,
    3481712.154980646,
    14605578.087685067,
    43338889.32467614,
    86363131.2881386,
    103794043.11634454,
    56906521.913471565,
];

const LANCZOS_DENOM: &[f64] = &[
    1.0,
    66.0,
    1925.0,
    32670.0,
    357423.0,
    2637558.0,
    13339535.0,
    45995730.0,
    105258076.0,
    150917976.0,
    120543840.0,
    39916800.0,
    0.0,
];

#[cfg(test)]
mod tests;
