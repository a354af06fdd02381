//! Orthogonal polynomials of run-time degree.
use crate::{
    Error, Op, OutDtype, Result, Scalar,
    formula::{Unary, X, float_type, formula, formula_list, formulas},
    op::Plain,
    pointwise::{implemented, trunc},
    promote::{cast, opmath, together_as},
};
use std::marker::PhantomData;
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;

/// The three overloads of a polynomial.
macro_rules! rows {
    ($($name:literal $family:expr;)*) => { &[$(
        row!($name, |b: &mut B, x, n| polynomial(b, x, n, $family)),
        row!(concat!($name, ".n_scalar"), |b: &mut B, x, n: Scalar| polynomial(b, x, n.0, $family)),
        row!(concat!($name, ".x_scalar"), |b: &mut B, x: Scalar, n| polynomial(b, x.0, n, $family)),
    )*] };
}
macro_rules! row {
    ($name:expr, $f:expr) => {
        Op::new($name, &Plain($f, PhantomData))
            .follows_inputs()
            .out(OutDtype::Cast)
    };
}

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = rows! {
    "special_chebyshev_polynomial_t"         &Family::chebyshev(Kind::T, false);
    "special_chebyshev_polynomial_u"         &Family::chebyshev(Kind::U, false);
    "special_chebyshev_polynomial_v"         &Family::chebyshev(Kind::V, false);
    "special_chebyshev_polynomial_w"         &Family::chebyshev(Kind::W, false);
    "special_hermite_polynomial_h"           &HERMITE;
    "special_hermite_polynomial_he"          &HERMITE_E;
    "special_laguerre_polynomial_l"          &LAGUERRE;
    "special_legendre_polynomial_p"          &LEGENDRE;
    "special_shifted_chebyshev_polynomial_t" &Family::chebyshev(Kind::T, true);
    "special_shifted_chebyshev_polynomial_u" &Family::chebyshev(Kind::U, true);
    "special_shifted_chebyshev_polynomial_v" &Family::chebyshev(Kind::V, true);
    "special_shifted_chebyshev_polynomial_w" &Family::chebyshev(Kind::W, true);
};

type Closed = for<'s> fn(X<'s>, X<'s>) -> (X<'s>, X<'s>);

/// A recurrence `P(k+1) = next(x, P(k), P(k-1), k)` from `P(0) = 1` and `P(1) = first(x)`.
struct Family {
    first: Unary,
    next: for<'s> fn(X<'s>, X<'s>, X<'s>, X<'s>) -> X<'s>,
    /// Where a closed form holds, and its value: those elements take no part in the recurrence.
    closed: Closed,
    /// Whether the argument is `2x - 1`.
    shifted: bool,
    /// Whether degrees above 128 (512 for float64) give NaN.
    limited: bool,
}

const HERMITE: Family = Family {
    first: |x| x + x,
    next: |x, q, p, k| (x + x) * q - (k + k) * p,
    closed: never,
    shifted: false,
    limited: true,
};
const HERMITE_E: Family = Family {
    first: |x| x,
    next: |x, q, p, k| x * q - k * p,
    closed: never,
    shifted: false,
    limited: true,
};
const LAGUERRE: Family = Family {
    first: |x| 1.0 - x,
    next: |x, q, p, k| ((k + k + (1.0 - x)) * q - k * p) / (k + 1.0),
    closed: |x, _| (x.eq(0.0), x.full(1.0)),
    shifted: false,
    limited: false,
};
const LEGENDRE: Family = Family {
    first: |x| x,
    next: |x, q, p, k| ((k + k + 1.0) * x * q - k * p) / (k + 1.0),
    closed: |x, n| (x.abs().eq(1.0), power_of_sign(x, n)),
    shifted: false,
    limited: false,
};

/// The four kinds of Chebyshev polynomials.
#[derive(Clone, Copy)]
enum Kind {
    T,
    U,
    V,
    W,
}

impl Family {
    const fn chebyshev(kind: Kind, shifted: bool) -> Self {
        let (first, closed): (Unary, Closed) = match kind {
            Kind::T => (|x| x, closed_t),
            Kind::U => (|x| x + x, closed_u),
            Kind::V => (|x| x + x - 1.0, closed_v),
            Kind::W => (|x| x + x + 1.0, closed_w),
        };
        Self {
            first,
            next: |x, q, p, _| (x + x) * q - p,
            closed,
            shifted,
            limited: false,
        }
    }
}

fn never<'s>(x: X<'s>, _: X<'s>) -> (X<'s>, X<'s>) {
    (x.ne(x).and(x.eq(x)), x)
}

/// `sign(x)^n`
fn power_of_sign<'s>(x: X<'s>, n: X<'s>) -> X<'s> {
    let odd = (n / 2.0).floor().ne(n / 2.0);
    x.lt(0.0).and(odd).pick(x.full(-1.0), 1.0)
}

/// By the angle inside `(-1, 1)` from degree 7 on, where the recurrence would take long; `edge` at
/// -1 and 1.
fn by_angle<'s>(x: X<'s>, n: X<'s>, inside: X<'s>, edge: X<'s>) -> (X<'s>, X<'s>) {
    let at_edge = x.abs().eq(1.0);
    let within = x.abs().lt(1.0).and(n.gt(6.0));
    (at_edge.or(within), at_edge.pick(edge, inside))
}

fn closed_t<'s>(x: X<'s>, n: X<'s>) -> (X<'s>, X<'s>) {
    by_angle(x, n, (n * x.acos()).cos(), power_of_sign(x, n))
}

fn closed_u<'s>(x: X<'s>, n: X<'s>) -> (X<'s>, X<'s>) {
    let angle = x.acos();
    let inside = ((n + 1.0) * angle).sin() / angle.sin();
    by_angle(x, n, inside, (n + 1.0) * power_of_sign(x, n))
}

fn closed_v<'s>(x: X<'s>, n: X<'s>) -> (X<'s>, X<'s>) {
    let angle = x.acos();
    let inside = ((n + 0.5) * angle).cos() / (angle / 2.0).cos();
    let left = (n + n + 1.0) * power_of_sign(x, n);
    by_angle(x, n, inside, x.gt(0.0).pick(x.full(1.0), left))
}

fn closed_w<'s>(x: X<'s>, n: X<'s>) -> (X<'s>, X<'s>) {
    let angle = x.acos();
    let inside = ((n + 0.5) * angle).sin() / (angle / 2.0).sin();
    by_angle(
        x,
        n,
        inside,
        x.gt(0.0).pick(n + n + 1.0, power_of_sign(x, n)),
    )
}

/// The polynomial of degree `n`, fractions cut off; 0 for negative degrees.
fn polynomial(b: &mut B, x: Value, n: Value, family: &Family) -> Result<Value> {
    let dtype = float_type(b, &[x, n])?;
    implemented(dtype.is_float(), "polynomial", dtype)?;
    let wide = opmath(dtype);
    let xs = together_as(b, &[x, n], wide)?;
    let [x, n] = formulas(b, [xs[0], xs[1]], |[x, n]| {
        let x = if family.shifted { x + x - 1.0 } else { x };
        [x, n.is_nan().pick(n.full(-1.0), trunc(n))]
    })?;
    let limit = if wide == DType::F64 { 512.0 } else { 128.0 };
    let [closed, value, steps] = formulas(b, [x, n], |[x, n]| {
        let (closed, value) = (family.closed)(x, n);
        let idle = if family.limited {
            closed.or(n.gt(limit))
        } else {
            closed
        };
        [closed, value, idle.pick(n.full(0.0), n)]
    })?;
    let q = recurrence(b, x, steps, family)?;
    let y = formula(b, [x, n, q, closed, value], |[x, n, q, closed, value]| {
        let y = closed.pick(value, q);
        let y = if family.limited {
            n.gt(limit).pick(x.full(f64::NAN), y)
        } else {
            y
        };
        let y = n.eq(0.0).pick(x.full(1.0), y);
        n.lt(0.0).pick(x.full(0.0), y)
    })?;
    Ok(cast(b, y, dtype))
}

/// `P(max(n, 1))` for each element.
fn recurrence(b: &mut B, x: Value, n: Value, family: &Family) -> Result<Value> {
    let axes: Dims = (0..b.rank(n) as i64).collect();
    let lowest = b.lowest(b.dtype(n));
    let last = b.reduce(n, lowest, &axes, B::maximum)?;
    let first = formula(b, [x], |[x]| (family.first)(x))?;
    let (one, k) = (b.full_like(x, 1.0), b.scalar(1.0, b.dtype(x)));
    let outs = b.while_loop::<Error>(
        &[k, last, n, x, one, first],
        |b, s| formula(b, [s[0], s[1]], |[k, last]| k.lt(last)),
        |b, s| {
            let new = formula_list(b, s, |s| {
                let (k, n, x, p, q) = (s[0], s[2], s[3], s[4], s[5]);
                let active = n.gt(k);
                let next = (family.next)(x, q, p, k);
                vec![k + 1.0, s[1], n, x, active.pick(q, p), active.pick(next, q)]
            })?;
            Ok(new.into())
        },
    )?;
    Ok(outs[5])
}

#[cfg(test)]
mod tests;
