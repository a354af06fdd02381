//! Element by element, of one tensor.
use crate::{
    Op, OutDtype, Result, Scalar,
    error::ensure,
    formula::{Unary, X, compute, formula, formulas},
    op::{op, pointwise},
    promote::{cast, float_of, opmath, scalar_like},
};
use std::f64::consts::{LN_2, LN_10, PI, SQRT_2};
use tpu_hlo::{Builder, DType, Number, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    pointwise!("abs",            abs),
    pointwise!("abs.out",        |b: &mut B, x, out: DType| {
        if out.is_complex() || !b.dtype(x).is_complex() {
            OutDtype::ITERATED.check(b.dtype(x), out)?;
        }
        abs(b, x)
    }),
    pointwise!("acos",           float(|x| x.acos())),
    pointwise!("acosh",          float(|x| x.acosh())),
    pointwise!("angle",          angle),
    pointwise!("asin",           float(|x| x.asin())),
    pointwise!("asinh",          float(|x| x.asinh())),
    pointwise!("atan",           atan),
    pointwise!("atanh",          float(|x| x.atanh())),
    pointwise!("bitwise_not",    bitwise_not).out(OutDtype::ITERATED),
    pointwise!("ceil",           whole("ceil", |x| x.ceil())).out(OutDtype::ITERATED),
    op!("_conj_physical", conj_physical).follows_inputs(),
    pointwise!("conj_physical.out", |b: &mut B, x, _: DType| conj_physical(b, x))
        .out(OutDtype::ITERATED),
    pointwise!("cos",            float(|x| x.cos())),
    pointwise!("cosh",           float(|x| x.cosh())),
    pointwise!("deg2rad",        real("deg2rad", |x| x * (PI / 180.0))),
    pointwise!("exp",            float(|x| x.exp())),
    pointwise!("exp2",           float(exp2)),
    pointwise!("expm1",          float(|x| x.expm1())),
    op!("fill.Scalar",    fill_scalar).follows_inputs(),
    pointwise!("fill.Tensor",    fill_tensor),
    pointwise!("floor",          whole("floor", |x| x.floor())).out(OutDtype::ITERATED),
    pointwise!("frac",           floats("frac", |x| x - trunc(x))).out(OutDtype::ITERATED),
    pointwise!("frexp.Tensor",   frexp)
        .out(OutDtype::Exact(
            "torch.frexp() expects mantissa to have dtype {result++} but got {out++}",
        )),
    op!("isinf",          isinf).follows_inputs(),
    op!("isnan",          isnan).follows_inputs(),
    pointwise!("isneginf",       infinite("isneginf", f64::NEG_INFINITY))
        .out(OutDtype::Exact("isneginf does not support non-boolean outputs.")),
    pointwise!("isposinf",       infinite("isposinf", f64::INFINITY))
        .out(OutDtype::Exact("isposinf does not support non-boolean outputs.")),
    pointwise!("log",            float(|x| x.log())),
    pointwise!("log10",          float(log10)),
    pointwise!("log1p",          float(|x| x.log1p())),
    pointwise!("log2",           float(log2)),
    pointwise!("logit",          logit),
    pointwise!("nan_to_num",     nan_to_num)
        .out(OutDtype::Exact(
            "nan_to_num: dtype of out: {out} should be same as input: {result}",
        )),
    pointwise!("neg",            neg).out(OutDtype::ITERATED),
    pointwise!("rad2deg",        real("rad2deg", |x| x * (180.0 / PI))),
    pointwise!("reciprocal",     float(|x| 1.0 / x)),
    pointwise!("round",          whole("round", |x| x.round())).out(OutDtype::ITERATED),
    pointwise!("round.decimals", round_decimals).out(OutDtype::ITERATED),
    pointwise!("rsqrt",          float(|x| x.rsqrt())),
    pointwise!("sgn",            sgn).out(OutDtype::ITERATED),
    pointwise!("sigmoid",        float(|x| x.sigmoid())),
    pointwise!("sign",           sign).out(OutDtype::ITERATED),
    pointwise!("signbit",        signbit)
        .out(OutDtype::Exact("signbit does not support non-boolean outputs.")),
    pointwise!("sin",            float(|x| x.sin())),
    pointwise!("sinc",           float(sinc)),
    pointwise!("sinh",           float(|x| x.sinh())),
    pointwise!("sqrt",           float(|x| x.sqrt())),
    pointwise!("tan",            float(|x| x.tan())),
    pointwise!("tanh",           float(|x| x.tanh())),
    pointwise!("trunc",          whole("trunc", trunc)).out(OutDtype::ITERATED),
    op!("zero",           zero).follows_inputs(),
];

/// `"name" not implemented for 'Type'` unless the condition holds.
pub(crate) fn implemented(cond: bool, name: &str, dtype: DType) -> Result<()> {
    ensure!(
        cond,
        NotImplemented,
        "\"{name}\" not implemented for '{}'",
        dtype.torch()
    );
    Ok(())
}

/// An op on floats: integers become the default dtype; half types are computed in float32 and
/// rounded once.
pub(crate) const fn float(f: Unary) -> impl Fn(&mut B, Value) -> Result<Value> + Sync + Copy {
    move |b, x| {
        let dtype = float_of(b, b.dtype(x));
        compute(b, dtype, [x], [], |[x], []| f(x))
    }
}

/// [`float`], not for complex.
pub(crate) const fn real(
    name: &'static str,
    f: Unary,
) -> impl Fn(&mut B, Value) -> Result<Value> + Sync + Copy {
    move |b, x| {
        implemented(!b.dtype(x).is_complex(), name, b.dtype(x))?;
        float(f)(b, x)
    }
}

/// [`float`], for real floats alone.
pub(crate) const fn floats(
    name: &'static str,
    f: Unary,
) -> impl Fn(&mut B, Value) -> Result<Value> + Sync + Copy {
    move |b, x| {
        implemented(b.dtype(x).is_float(), name, b.dtype(x))?;
        float(f)(b, x)
    }
}

/// Rounding to whole numbers: integers are that already.
const fn whole(
    name: &'static str,
    f: Unary,
) -> impl Fn(&mut B, Value) -> Result<Value> + Sync + Copy {
    move |b, x| {
        let dtype = b.dtype(x);
        ensure!(
            !dtype.is_complex(),
            NotImplemented,
            "{name} is not supported for complex inputs"
        );
        implemented(dtype != DType::Bool, name, dtype)?;
        if dtype.is_int() {
            return Ok(x);
        }
        compute(b, dtype, [x], [], |[x], []| f(x))
    }
}

/// `|x|`; the magnitude of a complex number.
fn abs(b: &mut B, x: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    implemented(dtype != DType::Bool, "abs", dtype)?;
    Ok(if dtype.is_signed() { b.abs(x) } else { x })
}

/// The arc tangent. XLA makes `atan2(x, 1)` and its own arc tangent one op, of which its CPU
/// compiler writes nothing in a fusion; of `atan2(2x, 2)` it does not.
fn atan(b: &mut B, x: Value) -> Result<Value> {
    if b.dtype(x).is_complex() {
        return formula(b, [x], |[x]| x.atan());
    }
    float(|x| (x + x).atan2(x.full(2.0)))(b, x)
}

/// `atan2(imag, real)`: 0 or π for real numbers, NaN for NaN.
fn angle(b: &mut B, x: Value) -> Result<Value> {
    let dtype = float_of(b, b.dtype(x));
    if dtype.is_complex() {
        return formula(b, [x], |[x]| x.imag().atan2(x.real()));
    }
    compute(b, dtype, [x], [], |[x], []| {
        let turned = x.lt(0.0).pick(x.full(PI), 0.0);
        x.is_nan().pick(x, turned)
    })
}

/// `~x`
fn bitwise_not(b: &mut B, x: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    implemented(dtype.is_int() || dtype == DType::Bool, "bitwise_not", dtype)?;
    Ok(b.not(x))
}

/// `real - i imag`
fn conj_physical(b: &mut B, x: Value) -> Result<Value> {
    if !b.dtype(x).is_complex() {
        return Ok(x);
    }
    formula(b, [x], |[x]| x.real().complex(-x.imag()))
}

/// `2ˣ`
fn exp2(x: X<'_>) -> X<'_> {
    if x.dtype().is_complex() {
        scaled(x, LN_2).exp()
    } else {
        x.full(2.0).pow(x)
    }
}

/// Every element `value`.
fn fill_scalar(b: &mut B, x: Value, value: Scalar) -> Result<Value> {
    scalar_like(b, value.0, x)
}

/// Every element the element of `value`.
fn fill_tensor(b: &mut B, x: Value, value: Value) -> Result<Value> {
    let rank = b.rank(value);
    ensure!(
        rank == 0,
        "fill_ only supports 0-dimension value tensor but got tensor with {rank} dimensions."
    );
    scalar_like(b, value, x)
}

/// Fraction in [0.5, 1) and exponent with `x = fraction · 2^exponent`, of a float32 or float64.
pub(crate) fn fraction_and_exponent(x: X<'_>) -> (X<'_>, X<'_>) {
    let (int, bits, bias) = match x.dtype() {
        DType::F64 => (DType::I64, 52, 1022),
        _ => (DType::I32, 23, 126),
    };
    let field = if bits == 52 { 0x7ff } else { 0xff };
    let tiny = x.abs().lt(2f64.powi(1 - bias));
    let scaled = tiny.pick(x * 2f64.powi(bits + 1), x).bits(int);
    let exponent = scaled
        .shift_right(scaled.full(bits))
        .and(scaled.full(field));
    let lost = tiny.pick(scaled.full(bits + 1), scaled.full(0));
    let exponent = exponent - scaled.full(bias) - lost;
    let mantissa = scaled.and(scaled.full(!(i64::from(field) << bits)));
    let fraction = mantissa
        .or(scaled.full(i64::from(bias) << bits))
        .bits(x.dtype());
    let plain = x.is_finite().and(x.ne(0.0));
    (
        plain.pick(fraction, x),
        plain.pick(exponent, exponent.full(0)),
    )
}

/// Mantissa in [0.5, 1) and `I32` exponent.
fn frexp(b: &mut B, x: Value) -> Result<(Value, Value)> {
    let dtype = b.dtype(x);
    ensure!(
        dtype.is_float(),
        "torch.frexp() only supports floating-point dtypes"
    );
    let wide = b.convert(x, opmath(dtype));
    let [m, e] = formulas(b, [wide], |[x]| {
        let (m, e) = fraction_and_exponent(x);
        [m, e]
    })?;
    Ok((cast(b, m, dtype), cast(b, e, DType::I32)))
}

/// Whether the element, or a part of it, is infinite.
fn isinf(b: &mut B, x: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    if dtype.is_complex() {
        return formula(b, [x], |[x]| {
            let inf = f64::INFINITY;
            x.real().abs().eq(inf).or(x.imag().abs().eq(inf))
        });
    }
    nowhere_unless_float(b, x, |x| x.abs().eq(f64::INFINITY))
}

/// Whether the element, or a part of it, is NaN.
fn isnan(b: &mut B, x: Value) -> Result<Value> {
    if b.dtype(x).is_complex() {
        return formula(b, [x], |[x]| x.real().is_nan().or(x.imag().is_nan()));
    }
    nowhere_unless_float(b, x, |x| x.is_nan())
}

fn nowhere_unless_float(b: &mut B, x: Value, f: Unary) -> Result<Value> {
    if b.dtype(x).is_float() {
        return formula(b, [x], |[x]| f(x));
    }
    let dims = b.dims(x);
    Ok(b.full(false, DType::Bool, &dims))
}

/// Whether the element is the given infinity.
const fn infinite(
    name: &'static str,
    infinity: f64,
) -> impl Fn(&mut B, Value) -> Result<Value> + Sync + Copy {
    move |b, x| {
        ensure!(
            !b.dtype(x).is_complex(),
            "{name} does not support complex inputs."
        );
        if b.dtype(x).is_float() {
            return formula(b, [x], |[x]| x.eq(infinity));
        }
        let dims = b.dims(x);
        Ok(b.full(false, DType::Bool, &dims))
    }
}

/// `x · factor`, part by part: complex arithmetic makes NaN of infinity times a real number.
fn scaled(x: X<'_>, factor: f64) -> X<'_> {
    if x.dtype().is_complex() {
        (x.real() * factor).complex(x.imag() * factor)
    } else {
        x * factor
    }
}

/// `log₁₀ x`, exact for powers of ten.
fn log10(x: X<'_>) -> X<'_> {
    let y = scaled(x.log(), 1.0 / LN_10);
    if x.dtype().is_complex() {
        return y;
    }
    let whole = y.round();
    x.eq(x.full(10.0).pow(whole)).pick(whole, y)
}

/// `log₂ x`, exact for powers of two: the exponent never passes through a logarithm.
fn log2(x: X<'_>) -> X<'_> {
    if x.dtype().is_complex() {
        return scaled(x.log(), 1.0 / LN_2);
    }
    let (m, e) = fraction_and_exponent(x);
    let small = m.abs().lt(SQRT_2 / 2.0);
    let m = small.pick(m + m, m);
    let e = small.pick(e - e.full(1), e).to(x.dtype());
    m.log() / LN_2 + e
}

/// `log(x / (1 - x))`, of `x` clamped to `[eps, 1 - eps]` if `eps` is given and not negative.
fn logit(b: &mut B, x: Value, eps: Option<Scalar>) -> Result<Value> {
    implemented(!b.dtype(x).is_complex(), "logit", b.dtype(x))?;
    let dtype = float_of(b, b.dtype(x));
    match eps {
        None => compute(b, dtype, [x], [], |[x], []| odds(x).log()),
        Some(eps) => compute(b, dtype, [x], [eps], |[x], [eps]| {
            let inside = x.lt(eps).pick(eps, x.minimum(1.0 - eps));
            odds(eps.lt(0.0).pick(x, inside)).log()
        }),
    }
}

fn odds(x: X<'_>) -> X<'_> {
    x / (1.0 - x)
}

/// NaN becomes `nan` (0), infinities `posinf` and `neginf` (the largest and smallest number).
fn nan_to_num(
    b: &mut B,
    x: Value,
    nan: Option<Scalar>,
    posinf: Option<Scalar>,
    neginf: Option<Scalar>,
) -> Result<Value> {
    let dtype = b.dtype(x);
    if dtype.is_complex() {
        let (re, im) = (b.real(x), b.imag(x));
        let re = nan_to_num(b, re, nan, posinf, neginf)?;
        let im = nan_to_num(b, im, nan, posinf, neginf)?;
        return Ok(b.complex(re, im)?);
    }
    if !dtype.is_float() {
        return Ok(x);
    }
    let mut given = |n: Option<Scalar>, default: f64| match n {
        Some(n) => scalar_like(b, n.0, x),
        None => Ok(b.full_like(x, default)),
    };
    let nan = given(nan, 0.0)?;
    let posinf = given(posinf, largest(dtype))?;
    let neginf = given(neginf, -largest(dtype))?;
    formula(b, [x, nan, posinf, neginf], |[x, nan, posinf, neginf]| {
        let y = x.is_nan().pick(nan, x);
        let y = x.eq(f64::INFINITY).pick(posinf, y);
        x.eq(f64::NEG_INFINITY).pick(neginf, y)
    })
}

/// The largest finite value of a float type.
pub(crate) fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(f32::from_bits(0x7f7f_0000)),
        DType::F32 => f64::from(f32::MAX),
        DType::F64 => f64::MAX,
        DType::F8E5M2 | DType::F8E5M2FNUZ => 57344.0,
        DType::F8E4M3FN => 448.0,
        _ => 240.0,
    }
}

/// `-x`; integers wrap.
fn neg(b: &mut B, x: Value) -> Result<Value> {
    ensure!(
        b.dtype(x) != DType::Bool,
        NotImplemented,
        "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to \
         invert a mask, use the `~` or `logical_not()` operator instead."
    );
    Ok(b.negate(x))
}

/// Rounded, halves to even, to `decimals` places after the point; before it when negative.
fn round_decimals(b: &mut B, x: Value, decimals: i64) -> Result<Value> {
    if decimals == 0 {
        return whole("round", |x| x.round())(b, x);
    }
    let dtype = b.dtype(x);
    implemented(dtype.is_float(), "round", dtype)?;
    let ten = 10f64.powi(decimals.unsigned_abs().min(400) as i32);
    compute(b, dtype, [x], [], |[x], []| {
        if decimals > 0 {
            (x * ten).round() / ten
        } else {
            (x / ten).round() * ten
        }
    })
}

/// `x / |x|`, 0 for 0; as [`sign`] for real numbers.
fn sgn(b: &mut B, x: Value) -> Result<Value> {
    if !b.dtype(x).is_complex() {
        return sign(b, x);
    }
    formula(b, [x], |[x]| {
        let size = x.abs();
        let (re, im) = (x.real() / size, x.imag() / size);
        let zero = size.eq(0.0);
        zero.pick(re.full(0.0), re)
            .complex(zero.pick(im.full(0.0), im))
    })
}

/// -1, 0 or 1; 0 for NaN.
fn sign(b: &mut B, x: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    ensure!(
        !dtype.is_complex(),
        NotImplemented,
        "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use \
         torch.sgn instead."
    );
    if dtype == DType::Bool {
        return Ok(x);
    }
    formula(b, [x], |[x]| {
        let negative = x.lt(0.0).pick(x.full(-1.0), 0.0);
        x.gt(0.0).pick(x.full(1.0), negative)
    })
}

/// Whether the sign bit is set; -0.0 has it.
fn signbit(b: &mut B, x: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    ensure!(
        !dtype.is_complex(),
        NotImplemented,
        "signbit is not implemented for complex tensors."
    );
    if dtype == DType::Bool {
        return Ok(b.full_like(x, false));
    }
    formula(b, [x], |[x]| x.sign_bit())
}

/// `sin(πx) / πx`, 1 at 0.
fn sinc(x: X<'_>) -> X<'_> {
    let t = x * PI;
    x.eq(0.0).pick(x.full(1.0), t.sin() / t)
}

/// Without the fraction.
pub(crate) fn trunc(x: X<'_>) -> X<'_> {
    x.lt(0.0).pick(x.ceil(), x.floor())
}

/// Every element 0.
fn zero(b: &mut B, x: Value) -> Value {
    b.full_like(x, Number::Int(0))
}

#[cfg(test)]
mod tests;
