//! Error functions, gamma functions and their relatives.
use crate::{
    Error, Op, Result,
    binary::{of_number, with_number},
    formula::{X, compute, float_type, formula, formula_list, formulas},
    op::pointwise,
    pointwise::{float, implemented, real},
    promote::{cast, float_of, opmath, together_as},
};
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    pointwise!("digamma",                   real("digamma", digamma)),
    pointwise!("erf",                       real("erf", |x| x.erf())),
    pointwise!("erfc",                      real("erfc", |x| x.erfc())),
    pointwise!("erfinv",                    real("erfinv", |x| x.erfinv())),
    pointwise!("lgamma",                    real("lgamma", |x| x.lgamma())),
    pointwise!("mvlgamma.out",              |b: &mut B, x, p, _: DType| mvlgamma(b, x, p)),
    pointwise!("polygamma",                 polygamma),
    pointwise!("special_entr",              real("entr", entr)),
    pointwise!("special_erfcx",             real("erfcx", erfcx)),
    pointwise!("special_log_ndtr",          real("log_ndtr", log_ndtr)),
    pointwise!("special_ndtri",             real("ndtri", ndtri)),
    pointwise!("special_zeta",              zeta),
    pointwise!("special_zeta.other_scalar", with_number(zeta)),
    pointwise!("special_zeta.self_scalar",  of_number(zeta)),
];

/// `Γ'(x) / Γ(x)`; at 0 the infinity with the other sign.
fn digamma(x: X<'_>) -> X<'_> {
    x.eq(0.0).pick(-1.0 / x, x.digamma())
}

/// `log Γ_p(x) = log(π) p (p - 1) / 4 + sum over j < p of log Γ(x - j / 2)`
fn mvlgamma(b: &mut B, x: Value, p: i64) -> Result<Value> {
    crate::error::ensure!(p >= 1, "p has to be greater than or equal to 1");
    let dtype = float_type(b, &[x])?;
    implemented(dtype.is_float(), "mvlgamma", dtype)?;
    compute(b, dtype, [x], [], |[x], []| {
        let constant = x.full(PI.ln() * (p * (p - 1)) as f64 / 4.0);
        (0..p).fold(constant, |sum, j| sum + (x - j as f64 / 2.0).lgamma())
    })
}

/// The `n`-th derivative of [`digamma`].
fn polygamma(b: &mut B, n: i64, x: Value) -> Result<Value> {
    crate::error::ensure!(n >= 0, "polygamma(n, x) does not support negative n.");
    let dtype = b.dtype(x);
    implemented(!dtype.is_complex(), "polygamma", dtype)?;
    match n {
        0 => return float(digamma)(b, x),
        1 => return float(trigamma)(b, x),
        _ => {}
    }
    let factorial: f64 = (1..=n).map(|k| k as f64).product();
    let sign = if n % 2 == 0 { -1.0 } else { 1.0 };
    let dtype = float_of(b, dtype);
    let wide = cast(b, x, zeta_type(b, dtype));
    let order = b.full_like(wide, (n + 1) as f64);
    let sum = hurwitz(b, order, wide)?;
    let y = formula(b, [sum], |[sum]| sign * factorial * sum)?;
    Ok(cast(b, y, dtype))
}

/// Hurwitz' zeta function `sum over k of (k + q)^-x`.
fn zeta(b: &mut B, x: Value, q: Value) -> Result<Value> {
    let dtype = float_type(b, &[x, q])?;
    implemented(dtype.is_float(), "zeta", dtype)?;
    let wide = zeta_type(b, dtype);
    let xs = together_as(b, &[x, q], wide)?;
    let y = hurwitz(b, xs[0], xs[1])?;
    Ok(cast(b, y, dtype))
}

/// In float64 where that exists: powers of `k + q` near 0 need it.
fn zeta_type(b: &B, dtype: DType) -> DType {
    match dtype {
        other if b.settings.tpu => opmath(other),
        _ => DType::F64,
    }
}

/// As in Cephes: the terms up to `k + q > 9`, and the rest by Euler's and Maclaurin's formula.
fn hurwitz(b: &mut B, x: Value, q: Value) -> Result<Value> {
    let axes: Dims = (0..b.rank(x) as i64).collect();
    let eps = if b.dtype(x) == DType::F64 {
        f64::EPSILON
    } else {
        f64::from(f32::EPSILON)
    };
    let [first, usual] = formulas(b, [x, q], |[x, q]| {
        let term = q.pow(-x);
        [
            term,
            x.gt(1.0)
                .and(q.gt(0.0).or(q.ne(q.floor()).and(x.eq(x.floor())))),
        ]
    })?;
    let step = b.scalar(0.0, b.dtype(x));
    let outs = b.while_loop::<Error>(
        &[step, usual, x, q, first, first],
        |b, s| Ok(b.any(s[1], &axes)?),
        |b, s| {
            let new = formula_list(b, s, |s| {
                let (step, active, x, a, sum, term) = (s[0] + 1.0, s[1], s[2], s[3], s[4], s[5]);
                let next = a + 1.0;
                let new = next.pow(-x);
                let more = step
                    .lt(9.0)
                    .or(next.le(9.0))
                    .and(new.abs().ge(eps * sum.abs()));
                let state = [(next, a), (sum + new, sum), (new, term)];
                let mut all = vec![step, active.and(more), x];
                all.extend(state.map(|(new, old)| active.pick(new, old)));
                all
            })?;
            Ok(new.into())
        },
    )?;
    formula(
        b,
        [x, q, outs[3], outs[4], outs[5]],
        |[x, q, a, sum, term]| {
            let y = tail(x, a, sum, term);
            let y = q.le(0.0).and(x.ne(x.floor())).pick(x.full(f64::NAN), y);
            let y = q
                .le(0.0)
                .and(q.eq(q.floor()))
                .pick(x.full(f64::INFINITY), y);
            let y = x.eq(1.0).pick(x.full(f64::INFINITY), y);
            x.lt(1.0).pick(x.full(f64::NAN), y)
        },
    )
}

/// The sum over all terms after `term`, which belongs to `a`, added to `sum`.
fn tail<'s>(x: X<'s>, a: X<'s>, sum: X<'s>, term: X<'s>) -> X<'s> {
    let mut sum = sum + term * a / (x - 1.0) - 0.5 * term;
    let (mut rising, mut power) = (x.full(1.0), term);
    for (i, coefficient) in ZETA.iter().enumerate() {
        let k = 2.0 * i as f64;
        rising = rising * (x + k);
        power = power / a;
        sum = sum + rising * power / *coefficient;
        rising = rising * (x + (k + 1.0));
        power = power / a;
    }
    sum
}

/// `digamma'(x)` by recurrence to large `x` and by reflection below 1/2.
fn trigamma(x: X<'_>) -> X<'_> {
    let low = x.lt(0.5);
    let mut t = low.pick(1.0 - x, x);
    let mut sum = x.full(0.0);
    for _ in 0..6 {
        sum = sum + 1.0 / (t * t);
        t = t + 1.0;
    }
    let z = 1.0 / (t * t);
    let tail = 1.0 + 1.0 / (2.0 * t) + z * (1.0 / 6.0 - z * (1.0 / 30.0 - z * (1.0 / 42.0)));
    let sum = sum + tail / t;
    let sine = (x * PI).sin();
    low.pick(PI * PI / (sine * sine) - sum, sum)
}

/// `-x log x`, 0 at 0 and minus infinity below.
fn entr(x: X<'_>) -> X<'_> {
    let y = x.gt(0.0).pick(-x * x.log(), f64::NEG_INFINITY);
    let y = x.eq(0.0).pick(x.full(0.0), y);
    x.is_nan().pick(x, y)
}

/// `exp(x²) erfc(x)`: for positive `x` a Chebyshev series in `y = 4 / (4 + x)`, which goes to 0
/// like the function itself; for negative `x` by reflection.
fn erfcx(x: X<'_>) -> X<'_> {
    let y = 4.0 / (4.0 + x.abs());
    let right = y * (4.0 * y - 2.0).chebyshev(ERFCX);
    let left = 2.0 * (x * x).exp() - right;
    x.lt(0.0).pick(left, right)
}

/// Logarithm of the normal distribution's cumulative function.
fn log_ndtr(x: X<'_>) -> X<'_> {
    let t = x * FRAC_1_SQRT_2;
    let low = (erfcx(-t) / 2.0).log() - t * t;
    x.lt(-1.0).pick(low, (-t.erfc() / 2.0).log1p())
}

/// Inverse of the normal distribution's cumulative function, as in Cephes.
fn ndtri(y: X<'_>) -> X<'_> {
    let tail = (-2f64).exp();
    let upper = y.gt(1.0 - tail);
    let p = upper.pick(1.0 - y, y);
    let c = p - 0.5;
    let square = c * c;
    let slope = square * square.polynomial(NDTRI_P0) / square.polynomial(NDTRI_Q0);
    let middle = (c + c * slope) * (2.0 * PI).sqrt();
    let x = (-2.0 * p.log()).sqrt();
    let z = 1.0 / x;
    let near = z * z.polynomial(NDTRI_P1) / z.polynomial(NDTRI_Q1);
    let far = z * z.polynomial(NDTRI_P2) / z.polynomial(NDTRI_Q2);
    let x = x - x.log() / x - x.lt(8.0).pick(near, far);
    let y_in_tail = upper.pick(x, -x);
    let result = p.gt(tail).pick(middle, y_in_tail);
    let result = y.eq(0.0).pick(y.full(f64::NEG_INFINITY), result);
    let result = y.eq(1.0).pick(y.full(f64::INFINITY), result);
    y.lt(0.0).or(y.gt(1.0)).pick(y.full(f64::NAN), result)
}

/// Of `erfcx(x) / y` in `y = 4 / (4 + x)`, computed with 60 digits.
const ERFCX: &[f64] = &[
    1.4393110983449846e-16,
    -6.328712721700708e-17,
    -4.117340933404178e-15,
    -2.114689543244809e-15,
    1.212767580310864e-13,
    2.6158087668540244e-13,
    -3.3921306868290887e-12,
    -1.7034898438296277e-11,
    6.872156425953403e-11,
    8.633411694990956e-10,
    9.47991756520455e-10,
    -3.0291767735991394e-08,
    -2.1747767703449563e-07,
    -1.1988713758412045e-07,
    9.72854595199015e-06,
    0.00010340451975756189,
    0.000682254183283808,
    0.003443493262717524,
    0.014227107557117175,
    0.049571317930027586,
    0.14758035457222363,
    0.37635823567636745,
    0.8160489390982629,
];

const NDTRI_P0: &[f64] = &[
    -59.96335010141079,
    98.00107541859997,
    -56.67628574690703,
    13.931260938727968,
    -1.2391658386738125,
];

const NDTRI_Q0: &[f64] = &[
    1.0,
    1.9544885833814176,
    4.676279128988815,
    86.36024213908905,
    -225.46268785411937,
    200.26021238006066,
    -82.03722561683334,
    15.90562251262117,
    -1.1833162112133,
];

const NDTRI_P1: &[f64] = &[
    4.0554489230596245,
    31.525109459989388,
    57.16281922464213,
    44.08050738932008,
    14.684956192885803,
    2.1866330685079025,
    -0.1402560791713545,
    -0.03504246268278482,
    -0.0008574567851546854,
];

const NDTRI_Q1: &[f64] = &[
    1.0,
    15.779988325646675,
    45.39076351288792,
    41.3172038254672,
    15.04253856929075,
    2.504649462083094,
    -0.14218292285478779,
    -0.03808064076915783,
    -0.0009332594808954574,
];

const NDTRI_P2: &[f64] = &[
    3.2377489177694603,
    6.915228890689842,
    3.9388102529247444,
    1.3330346081580755,
    0.20148538954917908,
    0.012371663481782003,
    0.00030158155350823543,
    2.6580697468673755e-06,
    6.239745391849833e-09,
];

const NDTRI_Q2: &[f64] = &[
    1.0,
    6.02427039364742,
    3.6798356385616087,
    1.3770209948908132,
    0.21623699359449663,
    0.013420400608854318,
    0.00032801446468212774,
    2.8924786474538068e-06,
    6.790194080099813e-09,
];

/// `(2k)! / B(2k)`, with Bernoulli's numbers.
const ZETA: &[f64] = &[
    12.0,
    -720.0,
    30240.0,
    -1209600.0,
    47900160.0,
    -1892437580.3183792,
    74724249600.0,
    -2950130727918.164,
    116467828143500.67,
    -4597978722407473.0,
    1.8152105401943546e17,
    -7.166165256175667e18,
];

#[cfg(test)]
mod tests;
