//! Activation functions and their derivatives.
use crate::{
    Op, OutDtype, Result, Scalar, Threshold, check,
    error::ensure,
    formula::{Binary, Unary, X, compute, formula, formulas},
    op::{op, pointwise},
    pointwise::{float, floats, implemented, largest},
    promote::{cast, opmath, result_type, together_as},
};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};
use std::sync::Arc;
use tpu_hlo::{Builder, DType, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    pointwise!("elu",                   elu).out(OutDtype::ITERATED),
    pointwise!("elu_backward",          elu_backward),
    pointwise!("gelu",                  gelu).out(OutDtype::ITERATED),
    pointwise!("gelu_backward",         gelu_backward),
    op!("glu",                          glu).out(OutDtype::Cast),
    op!("glu_backward",                 glu_backward),
    op!("glu_backward_jvp",             glu_backward_jvp),
    op!("glu_jvp",                      glu_jvp),
    pointwise!("hardshrink",            hardshrink).out(OutDtype::ITERATED),
    pointwise!("hardshrink_backward",   shrink_backward),
    pointwise!("hardsigmoid",           floats("hardsigmoid", |x| relu6(x + 3.0) / 6.0))
        .out(OutDtype::ITERATED),
    pointwise!("hardsigmoid_backward",  slopes("hardsigmoid_backward", hardsigmoid_backward)),
    pointwise!("hardswish",             floats("hardswish", |x| x * relu6(x + 3.0) / 6.0))
        .out(OutDtype::ITERATED),
    op!("hardswish_backward",    slopes("hardswish_backward", hardswish_backward)).follows_inputs(),
    pointwise!("hardtanh",              hardtanh).out(OutDtype::ITERATED),
    pointwise!("hardtanh_backward",     hardtanh_backward),
    pointwise!("leaky_relu",            leaky_relu).out(OutDtype::ITERATED),
    pointwise!("leaky_relu_backward",   leaky_relu_backward),
    pointwise!("log_sigmoid_backward",  log_sigmoid_backward).out(OutDtype::ITERATED),
    pointwise!("log_sigmoid_forward",   log_sigmoid_forward)
        .out(OutDtype::Exact("expected scalar type {result} but found {out}")),
    pointwise!("logit_backward",        logit_backward),
    pointwise!("mish",                  floats("mish", |x| x * softplus_tanh(x)))
        .out(OutDtype::ITERATED),
    pointwise!("mish_backward",         slopes("mish_backward", mish_backward)),
    pointwise!("_prelu_kernel",         prelu),
    pointwise!("_prelu_kernel_backward", prelu_backward),
    op!("relu",                  relu).follows_inputs(),
    pointwise!("sigmoid_backward",      slope(|g, y| g * conj((1.0 - y) * y))),
    pointwise!("silu",                  silu).out(OutDtype::ITERATED),
    pointwise!("silu_backward",         slope(silu_backward)),
    pointwise!("softplus",              softplus).out(OutDtype::ITERATED),
    pointwise!("softplus_backward",     softplus_backward),
    pointwise!("softshrink",            softshrink).out(OutDtype::ITERATED),
    pointwise!("softshrink_backward",   shrink_backward),
    pointwise!("tanh_backward",         slope(|g, y| g * conj(1.0 - y * y))),
    pointwise!("threshold",             threshold),
    pointwise!("threshold_backward",    threshold_backward),
];

/// The chain rule: `f` of the incoming gradient and of the input or the result.
const fn slope(f: Binary) -> impl Fn(&mut B, Value, Value) -> Result<Value> + Sync + Copy {
    move |b, grad, x| {
        let dtype = result_type(b, &[grad, x])?;
        compute(b, dtype, [grad, x], [], |[g, x], []| f(g, x))
    }
}

/// [`slope`] for real floats alone.
const fn slopes(
    name: &'static str,
    f: Binary,
) -> impl Fn(&mut B, Value, Value) -> Result<Value> + Sync + Copy {
    move |b, grad, x| {
        float_only(b, name, grad)?;
        slope(f)(b, grad, x)
    }
}

/// The dtype of `x`, which has to be a real float.
fn float_only(b: &B, name: &str, x: Value) -> Result<DType> {
    let dtype = b.dtype(x);
    implemented(dtype.is_float(), name, dtype)?;
    Ok(dtype)
}

fn conj(x: X<'_>) -> X<'_> {
    if x.dtype().is_complex() {
        x.real().complex(-x.imag())
    } else {
        x
    }
}

fn relu6(x: X<'_>) -> X<'_> {
    x.maximum(0.0).minimum(6.0)
}

/// `scale · x` above 0, `scale · alpha · (exp(input_scale · x) - 1)` below.
fn elu(b: &mut B, x: Value, alpha: Scalar, scale: Scalar, input_scale: Scalar) -> Result<Value> {
    let dtype = float_only(b, "elu", x)?;
    compute(
        b,
        dtype,
        [x],
        [alpha, scale, input_scale],
        |[x], [alpha, scale, inner]| {
            x.le(0.0)
                .pick((x * inner).expm1() * alpha * scale, x * scale)
        },
    )
}

fn elu_backward(
    b: &mut B,
    grad: Value,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    x: Value,
) -> Result<Value> {
    let dtype = result_type(b, &[grad, x])?;
    compute(
        b,
        dtype,
        [grad, x],
        [alpha, scale, input_scale],
        |[g, x], [alpha, scale, inner]| {
            let height = alpha * scale;
            let below = if is_result {
                inner * (x + height)
            } else {
                inner * height * (x * inner).exp()
            };
            x.le(0.0).pick(g * below, g * scale)
        },
    )
}

const SQRT_2_OVER_PI: f64 = FRAC_2_SQRT_PI / SQRT_2;
const CUBIC: f64 = 0.044715;

/// `x · Φ(x)`, with `Φ` by the error function or by its approximation with tanh.
fn gelu(b: &mut B, x: Value, approximate: Arc<str>) -> Result<Value> {
    let f: Unary = match &*approximate {
        "none" => |x| 0.5 * x * (1.0 + (x * FRAC_1_SQRT_2).erf()),
        "tanh" => |x| 0.5 * x * (1.0 + gelu_inner(x).tanh()),
        _ => return Err(unknown_gelu()),
    };
    floats("gelu", f)(b, x)
}

fn gelu_inner(x: X<'_>) -> X<'_> {
    SQRT_2_OVER_PI * (x + CUBIC * x * x * x)
}

fn unknown_gelu() -> crate::Error {
    crate::Error::runtime("approximate argument must be either none or tanh.")
}

fn gelu_backward(b: &mut B, grad: Value, x: Value, approximate: Arc<str>) -> Result<Value> {
    let f: Binary = match &*approximate {
        "none" => |g, x| {
            let cdf = 0.5 * (1.0 + (x * FRAC_1_SQRT_2).erf());
            let pdf = (-0.5 * x * x).exp() * (SQRT_2_OVER_PI / 2.0);
            g * (cdf + x * pdf)
        },
        "tanh" => |g, x| {
            let tanh = gelu_inner(x).tanh();
            let inner = SQRT_2_OVER_PI * (1.0 + 3.0 * CUBIC * x * x);
            g * (0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner)
        },
        _ => return Err(unknown_gelu()),
    };
    slopes("gelu_backward", f)(b, grad, x)
}

/// Both halves of `x` along `dim`, and `dim` counted from the front.
fn halves(b: &mut B, x: Value, dim: i64) -> Result<(Value, Value, i64)> {
    ensure!(b.rank(x) > 0, "glu does not support 0-dimensional tensors");
    let at = check::dim(dim, b.rank(x))?;
    let size = b.dims(x)[at as usize];
    ensure!(
        size % 2 == 0,
        "Halving dimension must be even, but dimension {at} is size {size}"
    );
    let first = b.slice_dim(x, at, 0, size / 2)?;
    Ok((first, b.slice_dim(x, at, size / 2, size)?, at))
}

/// The first half times the sigmoid of the second.
fn glu(b: &mut B, x: Value, dim: i64) -> Result<Value> {
    let dtype = float_only(b, "glu", x)?;
    let (a, gate, _) = halves(b, x, dim)?;
    compute(b, dtype, [a, gate], [], |[a, gate], []| a * gate.sigmoid())
}

fn glu_backward(b: &mut B, grad: Value, x: Value, dim: i64) -> Result<Value> {
    let dtype = float_only(b, "glu_backward", x)?;
    let (a, gate, at) = halves(b, x, dim)?;
    let first = compute(b, dtype, [grad, gate], [], |[g, gate], []| {
        g * gate.sigmoid()
    })?;
    let second = compute(b, dtype, [grad, a, gate], [], |[g, a, gate], []| {
        let s = gate.sigmoid();
        (1.0 - s) * s * g * a
    })?;
    Ok(b.concatenate(&[first, second], at)?)
}

/// Derivative of [`glu`] in direction `dx`.
fn glu_jvp(b: &mut B, glu: Value, x: Value, dx: Value, dim: i64) -> Result<Value> {
    let dtype = float_only(b, "glu_jvp", x)?;
    let (_, gate, _) = halves(b, x, dim)?;
    let (da, dgate, _) = halves(b, dx, dim)?;
    compute(
        b,
        dtype,
        [glu, gate, da, dgate],
        [],
        |[glu, gate, da, dgate], []| {
            let s = gate.sigmoid();
            da * s + glu * (dgate - s * dgate)
        },
    )
}

/// Derivative of [`glu_backward`] in direction `(dgrad_glu, dx)`.
fn glu_backward_jvp(
    b: &mut B,
    _grad_x: Value,
    grad_glu: Value,
    x: Value,
    dgrad_glu: Value,
    dx: Value,
    dim: i64,
) -> Result<Value> {
    let dtype = float_only(b, "glu_backward_jvp", x)?;
    let (a, gate, at) = halves(b, x, dim)?;
    let (da, dgate, _) = halves(b, dx, dim)?;
    let xs = [grad_glu, dgrad_glu, gate, dgate];
    let first = compute(b, dtype, xs, [], |[g, dg, gate, dgate], []| {
        let s = gate.sigmoid();
        dg * s + g * s * (1.0 - s) * dgate
    })?;
    let xs = [grad_glu, dgrad_glu, a, da, gate, dgate];
    let second = compute(b, dtype, xs, [], |[g, dg, a, da, gate, dgate], []| {
        let s = gate.sigmoid();
        s * (1.0 - s) * (dg * a + g * da + g * a * (1.0 - 2.0 * s) * dgate)
    })?;
    Ok(b.concatenate(&[first, second], at)?)
}

/// 0 within `lambd` of 0.
fn hardshrink(b: &mut B, x: Value, lambd: Scalar) -> Result<Value> {
    let dtype = float_only(b, "hardshrink", x)?;
    compute(b, dtype, [x], [lambd], |[x], [lambd]| {
        x.ge(-lambd).and(x.le(lambd)).pick(x.full(0.0), x)
    })
}

fn shrink_backward(b: &mut B, grad: Value, x: Value, lambd: Scalar) -> Result<Value> {
    let dtype = result_type(b, &[grad, x])?;
    compute(b, dtype, [grad, x], [lambd], |[g, x], [lambd]| {
        x.ge(-lambd).and(x.le(lambd)).pick(g.full(0.0), g)
    })
}

/// Nearer to 0 by `lambd`, and 0 within that.
fn softshrink(b: &mut B, x: Value, lambd: Threshold) -> Result<Value> {
    let dtype = float_only(b, "softshrink_check", x)?;
    let lambd = match lambd {
        Threshold::Free(lambd) => lambd,
        Threshold::Fixed(lambd) => {
            let (lambd, most) = (lambd.to_f64(), largest(dtype));
            ensure!(
                (0.0..=most).contains(&lambd),
                "lambda must be in range [0, {most:e}] for input dtype {}, but found {lambd}",
                dtype.torch()
            );
            b.full(lambd, DType::F64, &[])
        }
    };
    compute(b, dtype, [x], [Scalar(lambd)], |[x], [lambd]| {
        let low = x.lt(-lambd).pick(x + lambd, x * 0.0);
        x.gt(lambd).pick(x - lambd, low)
    })
}

fn hardsigmoid_backward<'s>(g: X<'s>, x: X<'s>) -> X<'s> {
    x.gt(-3.0).and(x.lt(3.0)).pick(g / 6.0, 0.0)
}

fn hardswish_backward<'s>(g: X<'s>, x: X<'s>) -> X<'s> {
    let middle = x.lt(3.0).pick(g * (x / 3.0 + 0.5), g);
    x.le(-3.0).pick(g.full(0.0), middle)
}

/// Clamped to `[min_val, max_val]`.
fn hardtanh(b: &mut B, x: Value, min_val: Scalar, max_val: Scalar) -> Result<Value> {
    let dtype = b.dtype(x);
    implemented(
        dtype != DType::Bool && !dtype.is_complex(),
        "hardtanh",
        dtype,
    )?;
    compute(b, dtype, [x], [min_val, max_val], |[x], [lo, hi]| {
        x.maximum(lo).minimum(hi)
    })
}

fn hardtanh_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    min_val: Scalar,
    max_val: Scalar,
) -> Result<Value> {
    let dtype = result_type(b, &[grad, x])?;
    compute(
        b,
        dtype,
        [grad, x],
        [min_val, max_val],
        |[g, x], [lo, hi]| x.le(lo).or(x.ge(hi)).pick(g.full(0.0), g),
    )
}

/// `x` above 0, `negative_slope · x` below.
fn leaky_relu(b: &mut B, x: Value, negative_slope: Scalar) -> Result<Value> {
    let dtype = float_only(b, "leaky_relu", x)?;
    compute(b, dtype, [x], [negative_slope], |[x], [slope]| {
        x.gt(0.0).pick(x, x * slope)
    })
}

fn leaky_relu_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    negative_slope: Scalar,
    _self_is_result: bool,
) -> Result<Value> {
    let dtype = result_type(b, &[grad, x])?;
    compute(b, dtype, [grad, x], [negative_slope], |[g, x], [slope]| {
        x.gt(0.0).pick(g, g * slope)
    })
}

/// `log σ(x)`, and `exp(-|x|)` for the backward pass.
fn log_sigmoid_forward(b: &mut B, x: Value) -> Result<(Value, Value)> {
    let dtype = float_only(b, "log_sigmoid", x)?;
    let wide = b.convert(x, opmath(dtype));
    let [y, buffer] = formulas(b, [wide], |[x]| {
        let buffer = (-x.abs()).exp();
        [x.minimum(0.0) - buffer.log1p(), buffer]
    })?;
    Ok((cast(b, y, dtype), cast(b, buffer, dtype)))
}

fn log_sigmoid_backward(b: &mut B, grad: Value, x: Value, _buffer: Value) -> Result<Value> {
    slopes("log_sigmoid_backward", |g, x| g * (-x).sigmoid())(b, grad, x)
}

/// Slope of `log(x / (1 - x))`; 0 outside `[eps, 1 - eps]`, NaN outside `[0, 1]` without `eps`.
fn logit_backward(b: &mut B, grad: Value, x: Value, eps: Option<Scalar>) -> Result<Value> {
    float_only(b, "logit_backward", x)?;
    let dtype = result_type(b, &[grad, x])?;
    fn inside<'s>(g: X<'s>, x: X<'s>) -> X<'s> {
        let slope = g / (x * (1.0 - x));
        x.eq(0.0).or(x.eq(1.0)).pick(g * f64::INFINITY, slope)
    }
    fn open<'s>(g: X<'s>, x: X<'s>) -> X<'s> {
        x.lt(0.0).or(x.gt(1.0)).pick(g.full(f64::NAN), inside(g, x))
    }
    let Some(eps) = eps else {
        return compute(b, dtype, [grad, x], [], |[g, x], []| open(g, x));
    };
    compute(b, dtype, [grad, x], [eps], |[g, x], [eps]| {
        let out = x.lt(eps).or(x.gt(1.0 - eps));
        eps.lt(0.0)
            .pick(open(g, x), out.pick(g.full(0.0), inside(g, x)))
    })
}

/// `tanh(log(1 + eˣ))`
fn softplus_tanh(x: X<'_>) -> X<'_> {
    x.exp().log1p().tanh()
}

fn mish_backward<'s>(g: X<'s>, x: X<'s>) -> X<'s> {
    let t = softplus_tanh(x);
    g * (t + x * x.sigmoid() * (1.0 - t * t))
}

/// `x` above 0, `weight · x` below.
fn prelu(b: &mut B, x: Value, weight: Value) -> Result<Value> {
    let dtype = float_only(b, "prelu", x)?;
    compute(b, dtype, [x, weight], [], |[x, w], []| {
        x.gt(0.0).pick(x, w * x)
    })
}

fn prelu_backward(b: &mut B, grad: Value, x: Value, weight: Value) -> Result<(Value, Value)> {
    let dtype = float_only(b, "prelu_backward", x)?;
    let xs = together_as(b, &[grad, x, weight], opmath(dtype))?;
    let [gx, gw] = formulas(b, [xs[0], xs[1], xs[2]], |[g, x, w]| {
        let up = x.gt(0.0);
        [up.pick(g, w * g), up.pick(g.full(0.0), x * g)]
    })?;
    Ok((cast(b, gx, dtype), cast(b, gw, dtype)))
}

/// `max(x, 0)`; NaN stays.
fn relu(b: &mut B, x: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    ensure!(
        dtype != DType::Bool,
        NotImplemented,
        "Boolean inputs not supported for relu"
    );
    implemented(!dtype.is_complex(), "relu", dtype)?;
    formula(b, [x], |[x]| x.maximum(0.0))
}

/// `x · σ(x)`
fn silu(b: &mut B, x: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    implemented(dtype.is_float() || dtype.is_complex(), "silu", dtype)?;
    float(|x| x * x.sigmoid())(b, x)
}

fn silu_backward<'s>(g: X<'s>, x: X<'s>) -> X<'s> {
    let s = x.sigmoid();
    g * conj(s * (1.0 + x * (1.0 - s)))
}

/// `log(1 + exp(beta · x)) / beta`; `x` itself where `beta · x` exceeds `threshold`.
fn softplus(b: &mut B, x: Value, beta: Scalar, threshold: Scalar) -> Result<Value> {
    let dtype = float_only(b, "softplus", x)?;
    compute(
        b,
        dtype,
        [x],
        [beta, threshold],
        |[x], [beta, threshold]| {
            let t = x * beta;
            t.gt(threshold).pick(x, t.exp().log1p() / beta)
        },
    )
}

fn softplus_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    beta: Scalar,
    threshold: Scalar,
) -> Result<Value> {
    let dtype = result_type(b, &[grad, x])?;
    compute(
        b,
        dtype,
        [grad, x],
        [beta, threshold],
        |[g, x], [beta, threshold]| {
            let t = x * beta;
            t.gt(threshold).pick(g, g * t.sigmoid())
        },
    )
}

/// `x` above `threshold`, else `value`; NaN stays.
fn threshold(b: &mut B, x: Value, threshold: Scalar, value: Scalar) -> Result<Value> {
    let dtype = b.dtype(x);
    implemented(
        dtype != DType::Bool && !dtype.is_complex(),
        "threshold",
        dtype,
    )?;
    compute(
        b,
        dtype,
        [x],
        [threshold, value],
        |[x], [threshold, value]| x.le(threshold).pick(value, x),
    )
}

fn threshold_backward(b: &mut B, grad: Value, x: Value, threshold: Scalar) -> Result<Value> {
    let dtype = result_type(b, &[grad, x])?;
    compute(b, dtype, [grad, x], [threshold], |[g, x], [threshold]| {
        x.le(threshold).pick(g.full(0.0), g)
    })
}

#[cfg(test)]
mod tests;
