//! Division and its rests.
use super::{copysign, floats, pair};
use crate::{
    Result, Scalar, check,
    formula::{X, formula},
    pointwise::{implemented, trunc},
    promote::result_type,
};
use std::sync::Arc;
use tpu_hlo::{Builder, DType, Direction, Value};

type B = Builder;

/// `self / other`, not rounded, rounded towards zero or towards minus infinity.
pub(super) fn div(b: &mut B, x: Value, y: Value, rounding_mode: Option<Arc<str>>) -> Result<Value> {
    match rounding_mode.as_deref() {
        None => floats(|x, y| x.over(y))(b, x, y),
        Some("trunc") => trunc_divide(b, x, y),
        Some("floor") => floor_divide(b, x, y),
        Some(mode) => Err(crate::Error::runtime(format!(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'"
        ))),
    }
}

pub(super) fn div_number(b: &mut B, x: Value, y: Scalar, mode: Option<Arc<str>>) -> Result<Value> {
    div(b, x, y.0, mode)
}

fn trunc_divide(b: &mut B, x: Value, y: Value) -> Result<Value> {
    if divides_integers(b, "div_trunc", x, y)? {
        return pair(|x, y| x / y)(b, x, y);
    }
    let quotient = pair(|x, y| x.over(y))(b, x, y)?;
    formula(b, [quotient], |[q]| trunc(q))
}

pub(super) fn floor_divide(b: &mut B, x: Value, y: Value) -> Result<Value> {
    if divides_integers(b, "div_floor", x, y)? {
        return pair(floor_integers)(b, x, y);
    }
    pair(floor_floats)(b, x, y)
}

/// Whether the operands promote to an integer type; the divisor is checked for zeros then.
fn divides_integers(b: &mut B, name: &str, x: Value, y: Value) -> Result<bool> {
    let dtype = result_type(b, &[x, y])?;
    implemented(dtype != DType::Bool && !dtype.is_complex(), name, dtype)?;
    // Nothing is divided where there are no elements.
    if dtype.is_int() && b.ty(x).numel() > 0 {
        let zero = b.full_like(y, 0);
        let bad = b.compare(y, Direction::EQ, zero)?;
        check::nowhere(b, bad, "RuntimeError: ZeroDivisionError")?;
    }
    Ok(dtype.is_int())
}

fn floor_integers<'s>(x: X<'s>, y: X<'s>) -> X<'s> {
    let q = x / y;
    let off = (x - q * y).ne(0.0).and(x.lt(0.0).xor(y.lt(0.0)));
    off.pick(q - 1.0, q)
}

/// Python's `//` on floats, as CPython computes it: the quotient of what `fmod` leaves.
fn floor_floats<'s>(x: X<'s>, y: X<'s>) -> X<'s> {
    let rest = x.rem(y);
    let q = (x - rest) / y;
    let off = rest.ne(0.0).and(y.lt(0.0).xor(rest.lt(0.0)));
    let q = off.pick(q - 1.0, q);
    let floor = q.floor();
    let floor = (q - floor).gt(0.5).pick(floor + 1.0, floor);
    let exact = x.over(y);
    let floor = q.eq(0.0).pick(copysign(q, exact), floor);
    y.eq(0.0).pick(exact, floor)
}

/// The rest of the division rounded towards zero; it has the dividend's sign.
pub(super) fn fmod(b: &mut B, x: Value, y: Value) -> Result<Value> {
    divides_integers(b, "fmod", x, y)?;
    pair(|x, y| x.rem(y))(b, x, y)
}

/// The rest of the division rounded down; it has the divisor's sign.
pub(super) fn remainder(b: &mut B, x: Value, y: Value) -> Result<Value> {
    divides_integers(b, "remainder", x, y)?;
    pair(|x, y| {
        let rest = x.rem(y);
        let off = rest.ne(0.0).and(y.lt(0.0).xor(rest.lt(0.0)));
        off.pick(rest + y, rest)
    })(b, x, y)
}
