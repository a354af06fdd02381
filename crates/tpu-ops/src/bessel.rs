//! Bessel and Airy functions, with the coefficients of the Cephes library.
use crate::{Op, formula::X, op::pointwise, pointwise::real};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_4, PI};

#[rustfmt::skip]
mod coefficients;
use coefficients::*;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    pointwise!("i0",                              real("i0", |x| i0e(x) * x.abs().exp())),
    pointwise!("special_airy_ai",                 real("airy_ai", airy_ai)),
    pointwise!("special_bessel_j0",               real("bessel_j0", j0)),
    pointwise!("special_bessel_j1",               real("bessel_j1", j1)),
    pointwise!("special_bessel_y0",               real("bessel_y0", y0)),
    pointwise!("special_bessel_y1",               real("bessel_y1", y1)),
    pointwise!("special_i0e",                     real("i0e", i0e)),
    pointwise!("special_i1",                      real("i1", |x| i1e(x) * x.abs().exp())),
    pointwise!("special_i1e",                     real("i1e", i1e)),
    pointwise!("special_modified_bessel_i0",      real("i0", |x| i0e(x) * x.abs().exp())),
    pointwise!("special_modified_bessel_i1",      real("i1", |x| i1e(x) * x.abs().exp())),
    pointwise!("special_modified_bessel_k0",      real("k0", k0)),
    pointwise!("special_modified_bessel_k1",      real("k1", k1)),
    pointwise!("special_scaled_modified_bessel_k0", real("k0e", k0e)),
    pointwise!("special_scaled_modified_bessel_k1", real("k1e", k1e)),
    pointwise!("special_spherical_bessel_j0",     real("spherical_bessel_j0", spherical_j0)),
];

/// `e^-|x| I0(x)`
fn i0e(x: X<'_>) -> X<'_> {
    let x = x.abs();
    let near = (x / 2.0 - 2.0).chebyshev(I0_NEAR);
    let far = (32.0 / x - 2.0).chebyshev(I0_FAR) / x.sqrt();
    x.le(8.0).pick(near, far)
}

/// `e^-|x| I1(x)`
fn i1e(x: X<'_>) -> X<'_> {
    let size = x.abs();
    let near = (size / 2.0 - 2.0).chebyshev(I1_NEAR) * size;
    let far = (32.0 / size - 2.0).chebyshev(I1_FAR) / size.sqrt();
    let y = size.le(8.0).pick(near, far);
    x.lt(0.0).pick(-y, y)
}

/// Modified functions of the second kind: infinite at 0, undefined below.
fn from_zero<'s>(x: X<'s>, y: X<'s>) -> X<'s> {
    let y = x.eq(0.0).pick(x.full(f64::INFINITY), y);
    x.lt(0.0).pick(x.full(f64::NAN), y)
}

fn k0_near(x: X<'_>) -> X<'_> {
    (x * x - 2.0).chebyshev(K0_NEAR) - (0.5 * x).log() * i0e(x) * x.exp()
}

fn k1_near(x: X<'_>) -> X<'_> {
    (0.5 * x).log() * i1e(x) * x.exp() + (x * x - 2.0).chebyshev(K1_NEAR) / x
}

/// `√x e^x` times the function, for `x` above 2.
fn k_far<'s>(x: X<'s>, coefficients: &[f64]) -> X<'s> {
    (8.0 / x - 2.0).chebyshev(coefficients)
}

fn k0(x: X<'_>) -> X<'_> {
    let far = (-x).exp() * k_far(x, K0_FAR) / x.sqrt();
    from_zero(x, x.le(2.0).pick(k0_near(x), far))
}

fn k0e(x: X<'_>) -> X<'_> {
    let far = k_far(x, K0_FAR) / x.sqrt();
    from_zero(x, x.le(2.0).pick(k0_near(x) * x.exp(), far))
}

fn k1(x: X<'_>) -> X<'_> {
    let far = (-x).exp() * k_far(x, K1_FAR) / x.sqrt();
    from_zero(x, x.le(2.0).pick(k1_near(x), far))
}

fn k1e(x: X<'_>) -> X<'_> {
    let far = k_far(x, K1_FAR) / x.sqrt();
    from_zero(x, x.le(2.0).pick(k1_near(x) * x.exp(), far))
}

/// The coefficients of an asymptotic expansion in `5/x`: amplitudes of cosine and sine.
struct Far {
    cosine: (&'static [f64], &'static [f64]),
    sine: (&'static [f64], &'static [f64]),
}

const FAR0: Far = Far {
    cosine: (PP0, PQ0),
    sine: (QP0, QQ0),
};
const FAR1: Far = Far {
    cosine: (PP1, PQ1),
    sine: (QP1, QQ1),
};

impl Far {
    /// The expansions of the functions of the first and of the second kind.
    fn both(self, x: X<'_>, phase: f64) -> (X<'_>, X<'_>) {
        let w = 5.0 / x;
        let z = w * w;
        let p = z.polynomial(self.cosine.0) / z.polynomial(self.cosine.1);
        let q = w * (z.polynomial(self.sine.0) / z.polynomial(self.sine.1));
        let (sin, cos) = ((x - phase).sin(), (x - phase).cos());
        let scale = FRAC_2_PI.sqrt() / x.sqrt();
        ((p * cos - q * sin) * scale, (p * sin + q * cos) * scale)
    }
}

fn j0(x: X<'_>) -> X<'_> {
    let x = x.abs();
    let z = x * x;
    let zeros = (z - 5.783185962946784) * (z - 30.471262343662087);
    let near = zeros * z.polynomial(RP0) / z.polynomial(RQ0);
    let near = x.lt(1e-5).pick(1.0 - z / 4.0, near);
    x.le(5.0).pick(near, FAR0.both(x, FRAC_PI_4).0)
}

fn j1(x: X<'_>) -> X<'_> {
    let size = x.abs();
    let z = size * size;
    let zeros = (z - 14.681970642123893) * (z - 49.2184563216946);
    let near = z.polynomial(RP1) / z.polynomial(RQ1) * size * zeros;
    let y = size.le(5.0).pick(near, FAR1.both(size, 3.0 * FRAC_PI_4).0);
    x.lt(0.0).pick(-y, y)
}

/// Functions of the second kind: minus infinity at 0, undefined below.
fn above_zero<'s>(x: X<'s>, y: X<'s>) -> X<'s> {
    -from_zero(x, -y)
}

fn y0(x: X<'_>) -> X<'_> {
    let z = x * x;
    let near = z.polynomial(YP0) / z.polynomial(YQ0) + FRAC_2_PI * x.log() * j0(x);
    above_zero(x, x.le(5.0).pick(near, FAR0.both(x, FRAC_PI_4).1))
}

fn y1(x: X<'_>) -> X<'_> {
    let z = x * x;
    let near =
        x * (z.polynomial(YP1) / z.polynomial(YQ1)) + FRAC_2_PI * (j1(x) * x.log() - 1.0 / x);
    above_zero(x, x.le(5.0).pick(near, FAR1.both(x, 3.0 * FRAC_PI_4).1))
}

/// `sin(x) / x`, by its series near 0.
fn spherical_j0(x: X<'_>) -> X<'_> {
    let z = x * x;
    let near = z.polynomial(&[
        1.0 / 6227020800.0,
        -1.0 / 39916800.0,
        1.0 / 362880.0,
        -1.0 / 5040.0,
        1.0 / 120.0,
        -1.0 / 6.0,
        1.0,
    ]);
    let y = x.abs().lt(0.5).pick(near, x.sin() / x);
    x.abs().eq(f64::INFINITY).pick(x.full(0.0), y)
}

const FRAC_1_SQRT_PI: f64 = 0.5641895835477563;

fn airy_ai(x: X<'_>) -> X<'_> {
    let y = x.ge(2.09).pick(airy_above(x), airy_series(x));
    let y = x.lt(-2.09).pick(airy_below(x), y);
    let y = x.gt(103.892).pick(x.full(0.0), y);
    x.abs().eq(f64::INFINITY).pick(x.full(f64::NAN), y)
}

fn airy_above(x: X<'_>) -> X<'_> {
    let zeta = 2.0 * x * x.sqrt() / 3.0;
    let inverse = 1.0 / zeta;
    let ratio = inverse.polynomial(AIRY_AN) / inverse.polynomial(AIRY_AD);
    FRAC_1_SQRT_PI * ratio / (2.0 * x.sqrt().sqrt() * zeta.exp())
}

fn airy_below(x: X<'_>) -> X<'_> {
    let zeta = -2.0 * x * (-x).sqrt() / 3.0;
    let z = 1.0 / zeta;
    let square = z * z;
    let f = 1.0 + square * square.polynomial(AIRY_AFN) / square.polynomial(AIRY_AFD);
    let g = z * square.polynomial(AIRY_AGN) / square.polynomial(AIRY_AGD);
    let t = zeta + PI / 4.0;
    FRAC_1_SQRT_PI / (-x).sqrt().sqrt() * (t.sin() * f - t.cos() * g)
}

/// The power series; at 2.09 its 14th term is below float64's resolution.
fn airy_series(x: X<'_>) -> X<'_> {
    let z = x * x * x;
    let (mut m, mut n) = (x.full(1.0), x);
    let (mut f, mut g) = (m, n);
    for k in 1..=14 {
        let k = f64::from(3 * k);
        m = m * z * (1.0 / ((k - 1.0) * k));
        n = n * z * (1.0 / (k * (k + 1.0)));
        (f, g) = (f + m, g + n);
    }
    0.3550280538878172 * f - 0.2588194037928068 * g
}

#[cfg(test)]
mod tests;
