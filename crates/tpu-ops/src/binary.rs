//! Element by element, of several tensors.
use crate::{
    Exponent, Factor, Op, OutDtype, Result, Scalar, check,
    error::ensure,
    formula::{Binary, X, compute, float_type, formula},
    op::{op, pointwise},
    pointwise::{implemented, trunc},
    promote::{broadcast_shapes, cast, result_type, together, together_as},
};
use std::f64::consts::LN_2;
use tpu_hlo::{Builder, DType, Direction, Number, Value};

mod division;
mod integer;

use division::{div, div_number, floor_divide, fmod, remainder};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_add_relu.Scalar",      |b: &mut B, x, y: Scalar, a| add_relu(b, x, y.0, a))
        .follows_inputs(),
    pointwise!("_add_relu.Tensor",      add_relu),
    op!("add.Scalar",            add_number).follows_inputs(),
    pointwise!("add.Tensor",            add),
    pointwise!("addcdiv",               addcdiv),
    pointwise!("addcmul",               addcmul),
    pointwise!("atan2",                 atan2),
    pointwise!("clamp",                 clamp),
    pointwise!("clamp.Tensor",          clamp_tensor),
    pointwise!("clamp_max",             with_number(clamp_max)).out(OutDtype::ITERATED),
    pointwise!("clamp_max.Tensor",      clamp_max),
    pointwise!("clamp_min",             with_number(clamp_min)).out(OutDtype::ITERATED),
    pointwise!("clamp_min.Tensor",      clamp_min),
    pointwise!("complex",               complex),
    pointwise!("complex.out",           complex_out),
    pointwise!("copysign.Scalar",       with_number(reals("copysign", copysign))),
    pointwise!("copysign.Tensor",       reals("copysign", copysign)),
    op!("div.Scalar",            with_number(floats(|x, y| x.over(y)))).follows_inputs(),
    op!("div.Scalar_mode",       div_number).follows_inputs(),
    pointwise!("div.Tensor",            floats(|x, y| x.over(y))),
    pointwise!("div.Tensor_mode",       div),
    pointwise!("floor_divide",          floor_divide),
    op!("floor_divide.Scalar",   with_number(floor_divide)).follows_inputs(),
    pointwise!("fmod.Scalar",           with_number(fmod)),
    pointwise!("fmod.Tensor",           fmod),
    pointwise!("heaviside",             heaviside)
        .out(OutDtype::Exact(
            "heaviside is not yet implemented for tensors with different dtypes.",
        )),
    pointwise!("hypot",                 hypot),
    pointwise!("ldexp.Tensor",          ldexp),
    pointwise!("lerp.Scalar",           lerp_number),
    pointwise!("lerp.Tensor",           lerp_tensor).out(OutDtype::ITERATED),
    op!("linalg_cross",          cross).follows_inputs().apart(&[0, 1]),
    pointwise!("logaddexp",             floats(logaddexp)),
    pointwise!("logaddexp2",            reals("logaddexp2", logaddexp2)),
    op!("mul.Scalar",            with_number(mul)).follows_inputs(),
    pointwise!("mul.Tensor",            mul),
    pointwise!("nextafter",             nextafter),
    pointwise!("polar",                 polar)
        .out(OutDtype::Exact(
            "Expected object of scalar type {result} but got scalar type {out} for \
             argument 'out'",
        )),
    pointwise!("pow.Scalar",            of_number(pow)),
    pointwise!("pow.Tensor_Scalar",     pow_number),
    pointwise!("pow.Tensor_Tensor",     pow),
    pointwise!("remainder.Scalar",      with_number(remainder)),
    op!("remainder.Scalar_Tensor", of_number(remainder)).follows_inputs(),
    pointwise!("remainder.Tensor",      remainder),
    op!("rsub.Scalar",           rsub_number).follows_inputs(),
    op!("rsub.Tensor",           rsub).follows_inputs(),
    op!("sub.Scalar",            sub_number).follows_inputs(),
    pointwise!("sub.Tensor",            sub),
    pointwise!("special_xlog1py",       reals("xlog1py", xlog1py)),
    pointwise!("special_xlog1py.other_scalar", with_number(reals("xlog1py", xlog1py))),
    pointwise!("special_xlog1py.self_scalar", of_number(reals("xlog1py", xlog1py))),
    pointwise!("xlogy.Scalar_Other",    with_number(reals("xlogy", xlogy))),
    pointwise!("xlogy.Scalar_Self",     of_number(reals("xlogy", xlogy))),
    pointwise!("xlogy.Tensor",          reals("xlogy", xlogy)),
];

/// A row of two tensors whose second operand is a number.
pub(crate) const fn with_number<F>(f: F) -> impl Fn(&mut B, Value, Scalar) -> Result<Value> + Copy
where
    F: Fn(&mut B, Value, Value) -> Result<Value> + Copy,
{
    move |b, x, y| f(b, x, y.0)
}

/// A row of two tensors whose first operand is a number.
pub(crate) const fn of_number<F>(f: F) -> impl Fn(&mut B, Scalar, Value) -> Result<Value> + Copy
where
    F: Fn(&mut B, Value, Value) -> Result<Value> + Copy,
{
    move |b, x, y| f(b, x.0, y)
}

/// Two tensors promoted to a float type and broadcast; half types are computed in float32 and
/// rounded once.
pub(crate) const fn floats(
    f: Binary,
) -> impl Fn(&mut B, Value, Value) -> Result<Value> + Sync + Copy {
    move |b, x, y| {
        let dtype = float_type(b, &[x, y])?;
        compute(b, dtype, [x, y], [], |[x, y], []| f(x, y))
    }
}

/// [`floats`], not for complex.
pub(crate) const fn reals(
    name: &'static str,
    f: Binary,
) -> impl Fn(&mut B, Value, Value) -> Result<Value> + Sync + Copy {
    move |b, x, y| {
        let dtype = float_type(b, &[x, y])?;
        implemented(!dtype.is_complex(), name, dtype)?;
        floats(f)(b, x, y)
    }
}

/// Two tensors promoted and broadcast; half types are computed in float32 and rounded once.
pub(crate) const fn pair(
    f: Binary,
) -> impl Fn(&mut B, Value, Value) -> Result<Value> + Sync + Copy {
    move |b, x, y| {
        let dtype = result_type(b, &[x, y])?;
        compute(b, dtype, [x, y], [], |[x, y], []| f(x, y))
    }
}

/// `self + alpha * other`
fn add(b: &mut B, x: Value, other: Value, alpha: Factor) -> Result<Value> {
    let dtype = result_type(b, &[x, other])?;
    match factor(b, dtype, alpha)? {
        None if dtype == DType::Bool => compute(b, dtype, [x, other], [], |[x, y], []| x.or(y)),
        None => compute(b, dtype, [x, other], [], |[x, y], []| x + y),
        Some(a) if dtype == DType::Bool => {
            compute(b, dtype, [x, other], [a], |[x, y], [a]| x.or(a.and(y)))
        }
        Some(a) => compute(b, dtype, [x, other], [a], |[x, y], [a]| x + a * y),
    }
}

/// [`add`], negative sums being 0.
fn add_relu(b: &mut B, x: Value, other: Value, alpha: Factor) -> Result<Value> {
    let sum = add(b, x, other, alpha)?;
    let dtype = b.dtype(sum);
    implemented(
        dtype != DType::Bool && !dtype.is_complex(),
        "add_relu",
        dtype,
    )?;
    formula(b, [sum], |[sum]| sum.maximum(0.0))
}

fn add_number(b: &mut B, x: Value, other: Scalar, alpha: Factor) -> Result<Value> {
    add(b, x, other.0, alpha)
}

/// The factor as a number that suits a result of `dtype`; none when it is 1.
fn factor(b: &B, dtype: DType, alpha: Factor) -> Result<Option<Scalar>> {
    let Factor::Times(alpha) = alpha else {
        return Ok(None);
    };
    let kind = b.dtype(alpha);
    ensure!(
        kind != DType::Bool || dtype == DType::Bool,
        "Boolean alpha only supported for Boolean results."
    );
    ensure!(
        !kind.is_float() || dtype.is_float() || dtype.is_complex(),
        "For integral input tensors, argument alpha must not be a floating point number."
    );
    ensure!(
        !kind.is_complex() || dtype.is_complex(),
        "For non-complex input tensors, argument alpha must not be a complex number."
    );
    Ok(Some(Scalar(alpha)))
}

/// `self - alpha * other`
fn sub(b: &mut B, x: Value, other: Value, alpha: Factor) -> Result<Value> {
    let (left, right) = (b.dtype(x), b.dtype(other));
    ensure!(
        left != DType::Bool || right != DType::Bool,
        NotImplemented,
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or \
         `logical_xor()` operator instead."
    );
    ensure!(
        left != DType::Bool && right != DType::Bool,
        NotImplemented,
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying \
         to invert a mask, use the `~` or `logical_not()` operator instead."
    );
    let dtype = result_type(b, &[x, other])?;
    match factor(b, dtype, alpha)? {
        None => compute(b, dtype, [x, other], [], |[x, y], []| x - y),
        Some(a) => compute(b, dtype, [x, other], [a], |[x, y], [a]| x - a * y),
    }
}

fn sub_number(b: &mut B, x: Value, other: Scalar, alpha: Factor) -> Result<Value> {
    sub(b, x, other.0, alpha)
}

/// `other - alpha * self`
fn rsub(b: &mut B, x: Value, other: Value, alpha: Factor) -> Result<Value> {
    sub(b, other, x, alpha)
}

fn rsub_number(b: &mut B, x: Value, other: Scalar, alpha: Factor) -> Result<Value> {
    sub(b, other.0, x, alpha)
}

/// `self * other`; of booleans the conjunction.
pub(crate) fn mul(b: &mut B, x: Value, y: Value) -> Result<Value> {
    let dtype = result_type(b, &[x, y])?;
    let bools = [x, y].map(|v| b.dtype(v) == DType::Bool);
    match bools {
        _ if dtype == DType::Bool => pair(|x, y| x.and(y))(b, x, y),
        [true, _] if dtype.is_float() => masked(b, dtype, x, y),
        [_, true] if dtype.is_float() => masked(b, dtype, y, x),
        _ => pair(|x, y| x * y)(b, x, y),
    }
}

/// `mask * x`. XLA makes a choice between `x` and 0 of it where the product of false and infinity
/// is NaN.
fn masked(b: &mut B, dtype: DType, mask: Value, x: Value) -> Result<Value> {
    let dims = broadcast_shapes(&[&b.dims(mask), &b.dims(x)])?;
    let (mask, x) = (b.broadcast(mask, &dims)?, cast(b, x, dtype));
    let x = b.broadcast(x, &dims)?;
    formula(b, [mask, x], |[mask, x]| mask.pick(x, x * 0.0))
}

/// `self + value * tensor1 * tensor2`
fn addcmul(b: &mut B, x: Value, t1: Value, t2: Value, value: Factor) -> Result<Value> {
    let dtype = result_type(b, &[x, t1, t2])?;
    match value {
        Factor::One => compute(b, dtype, [x, t1, t2], [], |[x, s, t], []| x + s * t),
        Factor::Times(v) => compute(b, dtype, [x, t1, t2], [Scalar(v)], |[x, s, t], [v]| {
            x + v * s * t
        }),
    }
}

/// `self + value * tensor1 / tensor2`
fn addcdiv(b: &mut B, x: Value, t1: Value, t2: Value, value: Factor) -> Result<Value> {
    let whole = |t: DType| t.is_int() || t == DType::Bool;
    ensure!(
        !(whole(b.dtype(t1)) && whole(b.dtype(t2))),
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv \
         will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can \
         be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for \
         integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future \
         addcdiv behavior is just the latter implementation: (input + value * tensor1 / \
         tensor2), for all dtypes."
    );
    let dtype = result_type(b, &[x, t1, t2])?;
    match value {
        Factor::One => compute(b, dtype, [x, t1, t2], [], |[x, s, t], []| x + s / t),
        Factor::Times(v) => compute(b, dtype, [x, t1, t2], [Scalar(v)], |[x, s, t], [v]| {
            x + v * s / t
        }),
    }
}

/// `min(max(self, min), max)`; NaN anywhere gives NaN.
fn clamp(b: &mut B, x: Value, min: Option<Scalar>, max: Option<Scalar>) -> Result<Value> {
    clamp_tensor(b, x, min.map(|n| n.0), max.map(|n| n.0))
}

fn clamp_tensor(b: &mut B, x: Value, min: Option<Value>, max: Option<Value>) -> Result<Value> {
    match (min, max) {
        (None, None) => ensure!(
            false,
            "torch.clamp: At least one of 'min' or 'max' must not be None"
        ),
        (Some(min), None) => return clamp_min(b, x, min),
        (None, Some(max)) => return clamp_max(b, x, max),
        (Some(min), Some(max)) => {
            let xs = [x, min, max];
            let dtype = result_type(b, &xs)?;
            orderable("clamp", dtype)?;
            let xs = together_as(b, &xs, dtype)?;
            return formula(b, [xs[0], xs[1], xs[2]], |[x, lo, hi]| {
                x.maximum(lo).minimum(hi)
            });
        }
    }
    Ok(x)
}

fn clamp_min(b: &mut B, x: Value, min: Value) -> Result<Value> {
    orderable("clamp", result_type(b, &[x, min])?)?;
    let xs = together(b, &[x, min])?;
    Ok(b.maximum(xs[0], xs[1])?)
}

fn clamp_max(b: &mut B, x: Value, max: Value) -> Result<Value> {
    orderable("clamp", result_type(b, &[x, max])?)?;
    let xs = together(b, &[x, max])?;
    Ok(b.minimum(xs[0], xs[1])?)
}

fn orderable(name: &str, dtype: DType) -> Result<()> {
    ensure!(
        !dtype.is_complex(),
        NotImplemented,
        "{name} is not supported for complex types"
    );
    Ok(())
}

/// `real + i imag`
fn complex(b: &mut B, re: Value, im: Value) -> Result<Value> {
    let (dtype, other) = (b.dtype(re), b.dtype(im));
    ensure!(
        matches!(dtype, DType::F32 | DType::F64) && matches!(other, DType::F32 | DType::F64),
        "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
        dtype.torch(),
        other.torch()
    );
    ensure!(
        dtype == other,
        "Expected object of scalar type {} but got scalar type {} for second argument",
        dtype.torch(),
        other.torch()
    );
    let xs = together_as(b, &[re, im], dtype)?;
    Ok(b.complex(xs[0], xs[1])?)
}

/// [`complex`] into a tensor that has to be of its dtype.
fn complex_out(b: &mut B, re: Value, im: Value, out: DType) -> Result<Value> {
    let z = complex(b, re, im)?;
    let dtype = b.dtype(z);
    ensure!(
        dtype == out,
        "Expected object of scalar type {} but got scalar type {} for argument 'out'",
        dtype.torch(),
        out.torch()
    );
    Ok(z)
}

/// `abs · (cos(angle) + i sin(angle))`
fn polar(b: &mut B, abs: Value, angle: Value) -> Result<Value> {
    let re = pair(|r, a| r * a.cos())(b, abs, angle)?;
    let im = pair(|r, a| r * a.sin())(b, abs, angle)?;
    complex(b, re, im)
}

/// The size of `x` with the sign of `y`.
fn copysign<'s>(x: X<'s>, y: X<'s>) -> X<'s> {
    let size = x.abs();
    y.sign_bit().pick(-size, size)
}

/// The angle of `other + i self`. The barrier hides from XLA that `other` may be 1 in a graph, for
/// the reason that [`crate::pointwise`] gives at `atan`.
fn atan2(b: &mut B, x: Value, other: Value) -> Result<Value> {
    let dtype = float_type(b, &[x, other])?;
    let other = if b.is_weak(other) {
        b.convert(other, dtype)
    } else {
        other
    };
    let other = b.optimization_barrier(other);
    reals("atan2", |x, y| x.atan2(y))(b, x, other)
}

/// 0, `values` or 1 for a negative, zero or positive element.
fn heaviside(b: &mut B, x: Value, values: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    ensure!(
        !dtype.is_complex() && !b.dtype(values).is_complex(),
        "heaviside is not yet implemented for complex tensors."
    );
    ensure!(
        dtype == b.dtype(values),
        "heaviside is not yet implemented for tensors with different dtypes."
    );
    let xs = together_as(b, &[x, values], dtype)?;
    formula(b, [xs[0], xs[1]], |[x, at_zero]| {
        let step = x.gt(0.0).pick(x.full(1.0), 0.0);
        x.eq(0.0).pick(at_zero, step)
    })
}

/// `√(x² + y²)` without overflow on the way.
fn hypot(b: &mut B, x: Value, y: Value) -> Result<Value> {
    let dtype = result_type(b, &[x, y])?;
    implemented(dtype.is_float(), "hypot", dtype)?;
    pair(|x, y| {
        let (x, y) = (x.abs(), y.abs());
        let (big, small) = (x.maximum(y), x.minimum(y));
        let length = big * ((small / big).square() + 1.0).sqrt();
        let inf = x.full(f64::INFINITY);
        let length = big.eq(0.0).pick(big, length);
        x.eq(inf).or(y.eq(inf)).pick(inf, length)
    })(b, x, y)
}

/// `self · 2^other`; for a whole exponent in three steps, so that no power overflows before the
/// product does.
fn ldexp(b: &mut B, x: Value, other: Value) -> Result<Value> {
    let power = float_type(b, &[other])?;
    let dtype = float_type(b, &[x, other])?;
    if !b.dtype(x).is_float() || !b.dtype(other).is_int() {
        let power = compute(b, power, [other], [], |[n], []| n.full(2.0).pow(n))?;
        return mul(b, x, power);
    }
    compute(b, dtype, [x, other], [], |[x, n], []| {
        let most = if x.dtype() == DType::F64 {
            3000.0
        } else {
            360.0
        };
        let n = n.maximum(-most).minimum(most);
        let part = trunc(n / 3.0);
        let (step, rest) = (part.full(2.0).pow(part), part.full(2.0).pow(n - 2.0 * part));
        x * step * step * rest
    })
}

/// `start + weight · (end - start)`, from the nearer end.
pub(crate) fn lerp(b: &mut B, x: Value, end: Value, weight: Value) -> Result<Value> {
    let (dtype, other) = (b.dtype(x), b.dtype(end));
    ensure!(
        dtype == other,
        "expected dtype {} for `end` but got dtype {}",
        dtype.cpp(),
        other.cpp()
    );
    implemented(
        dtype.is_float() || dtype.is_complex(),
        "lerp_kernel_scalar",
        dtype,
    )?;
    compute(b, dtype, [x, end, weight], [], |[x, end, w], []| {
        let near = w.abs().lt(0.5);
        near.pick(x + w * (end - x), end - (end - x) * (1.0 - w))
    })
}

fn lerp_number(b: &mut B, x: Value, end: Value, weight: Scalar) -> Result<Value> {
    lerp(b, x, end, weight.0)
}

fn lerp_tensor(b: &mut B, x: Value, end: Value, weight: Value) -> Result<Value> {
    let (dtype, other) = (b.dtype(x), b.dtype(weight));
    ensure!(
        dtype == other || b.is_weak(weight),
        "expected dtype {} for `weight` but got dtype {}",
        dtype.cpp(),
        other.cpp()
    );
    lerp(b, x, end, weight)
}

/// `log(eˣ + eʸ)`
fn logaddexp<'s>(x: X<'s>, y: X<'s>) -> X<'s> {
    if x.dtype().is_complex() {
        let first = x.real().lt(y.real());
        let (low, high) = (first.pick(x, y), first.pick(y, x));
        return high + (low - high).exp().log1p();
    }
    let sum = x.maximum(y) + (-(x - y).abs()).exp().log1p();
    x.abs().eq(f64::INFINITY).and(x.eq(y)).pick(x, sum)
}

/// `log₂(2ˣ + 2ʸ)`
fn logaddexp2<'s>(x: X<'s>, y: X<'s>) -> X<'s> {
    let gap = -(x - y).abs();
    let sum = x.maximum(y) + (gap * LN_2).exp().log1p() / LN_2;
    x.abs().eq(f64::INFINITY).and(x.eq(y)).pick(x, sum)
}

/// The next representable number after `self` towards `other`.
fn nextafter(b: &mut B, x: Value, other: Value) -> Result<Value> {
    let dtype = result_type(b, &[x, other])?;
    implemented(dtype.is_float(), "nextafter", dtype)?;
    let xs = together_as(b, &[x, other], dtype)?;
    Ok(b.next_after(xs[0], xs[1])?)
}

/// `self ^ exponent`
pub(crate) fn pow(b: &mut B, x: Value, exponent: Value) -> Result<Value> {
    let dtype = result_type(b, &[x, exponent])?;
    implemented(dtype != DType::Bool, "pow", dtype)?;
    if dtype.is_int() {
        return integer::power(b, dtype, x, exponent);
    }
    pair(|x, y| x.pow(y))(b, x, exponent)
}

/// `self ^ exponent` by multiplication, division or roots where the exponent allows it.
pub(crate) fn pow_number(b: &mut B, x: Value, exponent: Exponent) -> Result<Value> {
    let n = match exponent {
        Exponent::Fixed(n) => n,
        Exponent::Free(e) => return pow_free(b, x, e),
    };
    let dtype = number_type(b, b.dtype(x), n);
    let kept = [0.0, 1.0].contains(&n.to_f64());
    implemented(dtype != DType::Bool || kept, "pow", dtype)?;
    ensure!(
        !dtype.is_int() || n.to_f64() >= 0.0,
        "Integers to negative integer powers are not allowed."
    );
    if dtype.is_int() && !(0.0..=3.0).contains(&n.to_f64()) {
        let exponent = b.scalar(n, dtype);
        return integer::power(b, dtype, x, exponent);
    }
    compute(b, dtype, [x], [], |[x], []| match n.to_f64() {
        0.0 => x.full(1.0),
        1.0 => x,
        2.0 => x * x,
        3.0 => x * x * x,
        0.5 => x.sqrt(),
        -0.5 => x.rsqrt(),
        -1.0 => 1.0 / x,
        -2.0 => 1.0 / (x * x),
        e => x.pow(e),
    })
}

fn pow_free(b: &mut B, x: Value, exponent: Value) -> Result<Value> {
    if result_type(b, &[x, exponent])?.is_int() {
        let zero = b.full_like(exponent, 0);
        let bad = b.compare(exponent, Direction::LT, zero)?;
        let message = "RuntimeError: Integers to negative integer powers are not allowed.";
        check::nowhere(b, bad, message)?;
    }
    pow(b, x, exponent)
}

/// Result type of a tensor of `dtype` and the number `n`.
fn number_type(b: &B, dtype: DType, n: Number) -> DType {
    let default = b.settings.default_dtype;
    match n {
        Number::Int(_) if dtype == DType::Bool => DType::I64,
        Number::Float(_) if !dtype.is_float() && !dtype.is_complex() => default,
        Number::Complex(..) if dtype.is_float() => dtype.complex(),
        Number::Complex(..) if !dtype.is_complex() => default.complex(),
        _ => dtype,
    }
}

/// `self · log(1 + other)`, 0 where `self` is 0 and `other` is not NaN.
fn xlog1py<'s>(x: X<'s>, y: X<'s>) -> X<'s> {
    let product = x.eq(0.0).pick(x.full(0.0), x * y.log1p());
    y.is_nan().pick(y, product)
}

/// `self · log(other)`, 0 where `self` is 0 and `other` is not NaN.
fn xlogy<'s>(x: X<'s>, y: X<'s>) -> X<'s> {
    let product = x.eq(0.0).pick(x.full(0.0), x * y.log());
    y.is_nan().pick(y, product)
}

/// `x × y` along `dim`, where both have three elements after broadcasting.
fn cross(b: &mut B, x: Value, y: Value, dim: i64) -> Result<Value> {
    let (rx, ry) = (b.rank(x), b.rank(y));
    ensure!(
        rx == ry,
        "linalg.cross: inputs must have the same number of dimensions."
    );
    let both = together(b, &[x, y])?;
    let (asked, dim) = (dim, check::dim(dim, rx)?);
    let sizes = [b.dims(x), b.dims(y)].map(|d| d.get(dim as usize).copied().unwrap_or(1));
    ensure!(
        sizes == [3, 3],
        "linalg.cross: inputs dimension {asked} must have length 3. Got {} and {}",
        sizes[0],
        sizes[1]
    );
    let [x1, y1] = [rotated(b, both[0], dim, 1)?, rotated(b, both[1], dim, 1)?];
    let [x2, y2] = [rotated(b, both[0], dim, 2)?, rotated(b, both[1], dim, 2)?];
    formula(b, [x1, y2, x2, y1], |[x1, y2, x2, y1]| x1 * y2 - x2 * y1)
}

/// Element `i` of `dim` is element `i + by` of the operand, around the end.
fn rotated(b: &mut B, x: Value, dim: i64, by: i64) -> Result<Value> {
    let size = b.dims(x)[dim as usize];
    let (head, tail) = (b.slice_dim(x, dim, 0, by)?, b.slice_dim(x, dim, by, size)?);
    Ok(b.concatenate(&[tail, head], dim)?)
}

#[cfg(test)]
mod tests;
