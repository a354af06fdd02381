//! Random numbers.
mod choice;
mod draw;
mod gradient;
mod integer;
mod philox;
mod sample;

use crate::{
    Class, Error, Generator, Op, OutDtype, Result, Scalar, check,
    error::ensure,
    formula::{formula, formulas},
    op::{op, pointwise},
    promote::{broadcast_shapes, cast, float_of, opmath, pair, scalar_like},
};
pub(crate) use draw::{Stream, bits, normal, open_uniform, uniform};
use tpu_hlo::{Builder, DType, Direction, Number, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_dirichlet_grad",          gradient::dirichlet),
    op!("_fused_dropout",           fused_dropout),
    op!("_philox_key_fold_in",      philox::fold_in),
    op!("_philox_key_fold_in.Tensor", philox::fold_in_tensor),
    op!("_philox_key_split",        philox::split),
    op!("_philox_normal",           philox::normal),
    op!("_philox_uniform",          philox::uniform),
    op!("_sample_dirichlet",        sample::dirichlet),
    op!("_standard_gamma",          sample::standard_gamma),
    op!("_standard_gamma_grad",     gradient::standard_gamma),
    op!("bernoulli",                bernoulli),
    op!("bernoulli.out",            |b: &mut B, p, g: Generator, out: DType| {
        let y = bernoulli(b, p, g)?;
        Ok::<_, Error>(cast(b, y, out))
    }),
    op!("bernoulli.p",       bernoulli_p).follows_inputs().guarded(probability),
    op!("bernoulli.Tensor",  bernoulli_tensor).follows_inputs(),
    op!("binomial",                 sample::binomial),
    op!("cauchy",            cauchy).follows_inputs().guarded(cauchy_sigma),
    op!("exponential",       exponential).follows_inputs().guarded(exponential_lambda),
    op!("geometric",         geometric).follows_inputs().guarded(geometric_p),
    op!("log_normal",        log_normal).follows_inputs().guarded(log_normal_std),
    op!("multinomial",              choice::multinomial)
        .out(OutDtype::Exact("multinomial expects Long tensor out, got: {out}")),
    op!("native_dropout",    native_dropout).follows_inputs().guarded(dropout_probability),
    op!("native_dropout_backward", native_dropout_backward).follows_inputs(),
    op!("normal.float_Tensor",      normal_float_tensor),
    op!("normal.float_Tensor_out",  |b: &mut B, mean: Scalar, std, _: Generator, out| {
        check_std(b, std)?;
        normal_out(b, mean.0, std, out)
    }),
    op!("normal.Tensor_float",      normal_tensor_float).guarded(std_only),
    op!("normal.Tensor_float_out",  |b: &mut B, mean, std: Scalar, _: Generator, out| {
        normal_out(b, mean, std.0, out)
    }).guarded(std_only),
    op!("normal.Tensor_Tensor",     normal_tensor_tensor),
    op!("normal.Tensor_Tensor_out", |b: &mut B, mean, std, _: Generator, out| {
        check_std(b, std)?;
        normal_out(b, mean, std, out)
    }),
    op!("normal_functional", normal_functional).follows_inputs().guarded(mean_std),
    op!("poisson",                  sample::poisson),
    op!("random",            integer::random).follows_inputs(),
    op!("random.from",       integer::random_from).follows_inputs(),
    op!("random.to",         integer::random_to).follows_inputs(),
    op!("randperm.generator_out",   choice::randperm).out(OutDtype::Cast),
    pointwise!("rrelu_with_noise_functional", rrelu_with_noise).out(OutDtype::ITERATED),
    op!("uniform",           uniform_row).follows_inputs().guarded(uniform_range),
];

/// Refuses dtypes that PyTorch's kernel has no code for.
fn supported(name: &str, dtype: DType, fine: bool) -> Result<()> {
    ensure!(
        fine,
        NotImplemented,
        "\"{name}\" not implemented for '{}'",
        dtype.torch()
    );
    Ok(())
}

fn is_float(dtype: DType) -> bool {
    dtype.is_float() && !dtype.is_float8()
}

fn refuse(message: String) -> Result<()> {
    Err(Error::Torch {
        class: Class::Runtime,
        message,
    })
}

/// The `n`-th run-time number of the call.
fn number(numbers: &[Number], n: usize) -> f64 {
    numbers.get(n).map_or(0.0, |x| x.to_f64())
}

fn uniform_range(numbers: &[Number]) -> Result<()> {
    let (from, to) = (number(numbers, 0), number(numbers, 1));
    if from <= to {
        return Ok(());
    }
    refuse(format!(
        "uniform_ expects to return a [from, to) range, but found from={from} > to={to}"
    ))
}

/// A real draw of `like`'s type, or a complex one with two independent parts.
fn real_or_complex(
    b: &mut B,
    like: Value,
    draw: impl Fn(&mut B, DType, &[i64]) -> Result<Value>,
) -> Result<Value> {
    let (dtype, dims) = (b.dtype(like), b.dims(like));
    let real = opmath(dtype.real());
    if !dtype.is_complex() {
        let x = draw(b, real, &dims)?;
        return Ok(cast(b, x, dtype));
    }
    let (re, im) = (draw(b, real, &dims)?, draw(b, real, &dims)?);
    Ok(b.complex(re, im)?)
}

/// `from + (to - from) * u` for `u` in `[0, 1)`; what rounding carries up to `to` becomes `from`.
fn uniform_row(b: &mut B, x: Value, from: Scalar, to: Scalar, _: Generator) -> Result<Value> {
    let dtype = b.dtype(x);
    supported("check_uniform_bounds", dtype, is_float(dtype.real()))?;
    real_or_complex(b, x, |b, real, dims| {
        let u = uniform(b, real, dims)?;
        let (from, to) = (scalar_like(b, from.0, u)?, scalar_like(b, to.0, u)?);
        let y = formula(b, [u, from, to], |[u, from, to]| u * (to - from) + from)?;
        let narrow = |b: &mut B, x| cast(b, x, dtype.real());
        let (y, from, to) = (narrow(b, y), narrow(b, from), narrow(b, to));
        let y = formula(b, [y, from, to], |[y, from, to]| y.ge(to).pick(from, y))?;
        Ok(cast(b, y, real))
    })
}

fn expect_std(std: f64) -> Result<()> {
    if std >= 0.0 {
        return Ok(());
    }
    refuse(format!("normal expects std >= 0.0, but found std {std}"))
}

fn mean_std(numbers: &[Number]) -> Result<()> {
    expect_std(number(numbers, 1))
}

fn std_only(numbers: &[Number]) -> Result<()> {
    expect_std(number(numbers, 0))
}

/// A standard normal number per element of `like`, in its opmath type; complex ones have variance
/// 1 in all.
fn standard_normal(b: &mut B, like: Value) -> Result<Value> {
    let dtype = b.dtype(like);
    supported("normal_kernel_cpu", dtype, is_float(dtype.real()))?;
    let dims = b.dims(like);
    if !dtype.is_complex() {
        return normal(b, opmath(dtype), &dims);
    }
    real_or_complex(b, like, |b, real, dims| {
        let z = normal(b, real, dims)?;
        let z = formula(b, [z], |[z]| z * std::f64::consts::FRAC_1_SQRT_2)?;
        Ok(z)
    })
}

/// `mean + std * z`
fn normal_functional(
    b: &mut B,
    x: Value,
    mean: Scalar,
    std: Scalar,
    _: Generator,
) -> Result<Value> {
    let z = standard_normal(b, x)?;
    let (mean, std) = (scalar_like(b, mean.0, z)?, scalar_like(b, std.0, z)?);
    let y = formula(b, [z, mean, std], |[z, mean, std]| z * std + mean)?;
    Ok(cast(b, y, b.dtype(x)))
}

/// `mean + std * z` with tensors, in `dtype`.
fn normal_of(b: &mut B, mean: Value, std: Value, dtype: DType) -> Result<Value> {
    let dims = broadcast_shapes(&[&b.dims(mean), &b.dims(std)])?;
    let like = b.full(0, dtype, &dims);
    let z = standard_normal(b, like)?;
    let wide = b.dtype(z);
    let (mean, std) = (cast(b, mean, wide), cast(b, std, wide));
    let (mean, std) = (b.broadcast(mean, &dims)?, b.broadcast(std, &dims)?);
    let y = formula(b, [z, mean, std], |[z, mean, std]| z * std + mean)?;
    Ok(cast(b, y, dtype))
}

/// [`normal_of`] in the dtype of `out=`.
fn normal_out(b: &mut B, mean: Value, std: Value, out: DType) -> Result<Value> {
    let from = b.dtype(mean);
    ensure!(
        out.is_complex() || !from.is_complex(),
        "result type {} can't be cast to the desired output type {}",
        from.torch(),
        out.torch()
    );
    normal_of(b, mean, std, out)
}

fn check_std(b: &mut B, std: Value) -> Result<()> {
    ensure!(
        !b.dtype(std).is_complex(),
        "normal expects standard deviation to be non-complex"
    );
    let zero = b.full_like(std, 0);
    let fine = b.compare(std, Direction::GE, zero)?;
    let bad = b.not(fine);
    check::nowhere(
        b,
        bad,
        "RuntimeError: normal expects all elements of std >= 0.0",
    )
}

fn normal_tensor_tensor(b: &mut B, mean: Value, std: Value, _: Generator) -> Result<Value> {
    check_std(b, std)?;
    normal_of(b, mean, std, b.dtype(mean))
}

fn normal_tensor_float(b: &mut B, mean: Value, std: Scalar, _: Generator) -> Result<Value> {
    normal_of(b, mean, std.0, b.dtype(mean))
}

fn normal_float_tensor(b: &mut B, mean: Scalar, std: Value, _: Generator) -> Result<Value> {
    check_std(b, std)?;
    normal_of(b, mean.0, std, b.dtype(std))
}

fn probability(numbers: &[Number]) -> Result<()> {
    let p = number(numbers, 0);
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    refuse(format!(
        "bernoulli_ expects p to be in [0, 1], but got p={p}"
    ))
}

/// `u < p` of `p`'s shape, for `p` in its opmath type.
fn below(b: &mut B, p: Value) -> Result<Value> {
    let u = uniform(b, b.dtype(p), &b.dims(p))?;
    Ok(b.compare(u, Direction::LT, p)?)
}

/// `1` with probability `p`, else `0`
fn bernoulli_p(b: &mut B, x: Value, p: Scalar, _: Generator) -> Result<Value> {
    let dtype = b.dtype(x);
    supported("bernoulli_scalar_cpu_", dtype, !dtype.is_complex())?;
    let p = cast(b, p.0, opmath(float_of(b, dtype)));
    let p = b.broadcast(p, &b.dims(x))?;
    let hit = below(b, p)?;
    Ok(cast(b, hit, dtype))
}

/// `1` with the probability in `p`, else `0`, in `x`'s type and shape
fn bernoulli_tensor(b: &mut B, x: Value, p: Value, _: Generator) -> Result<Value> {
    let (dtype, given) = (b.dtype(x), b.dtype(p));
    supported("bernoulli_tensor_cpu_self_", dtype, !dtype.is_complex())?;
    supported("bernoulli_tensor_cpu_p_", given, is_float(given))?;
    check::expand(&b.dims(p), &b.dims(x))?;
    let wide = b.convert(p, opmath(given));
    let fine = formula(b, [wide], |[p]| p.ge(0.0) & p.le(1.0))?;
    let bad = b.not(fine);
    let message = "RuntimeError: Expected p_in >= 0 && p_in <= 1 to be true, but got false.";
    check::nowhere(b, bad, message)?;
    let p = b.broadcast(wide, &b.dims(x))?;
    let hit = below(b, p)?;
    Ok(cast(b, hit, dtype))
}

fn bernoulli(b: &mut B, p: Value, generator: Generator) -> Result<Value> {
    bernoulli_tensor(b, p, p, generator)
}

fn dropout_probability(numbers: &[Number]) -> Result<()> {
    probability(&[Number::Float(1.0 - number(numbers, 0))])
}

/// `(x * mask / (1 - p), mask)`, the mask true with probability `1 - p`; `(x, true)` outside
/// training
fn native_dropout(b: &mut B, x: Value, p: Scalar, train: Option<bool>) -> Result<(Value, Value)> {
    let (dtype, dims) = (b.dtype(x), b.dims(x));
    if train == Some(false) {
        return Ok((x, b.full(true, DType::Bool, &dims)));
    }
    ensure!(
        is_float(dtype.real()),
        "result type Float can't be cast to the desired output type {}",
        dtype.torch()
    );
    let p = cast(b, p.0, opmath(dtype).real());
    let keep = formula(b, [p], |[p]| 1.0 - p)?;
    dropped(b, x, keep)
}

/// Elements kept with probability `keep` (a scalar of `x`'s opmath type) and scaled by its
/// inverse, and the mask.
pub(crate) fn dropped(b: &mut B, x: Value, keep: Value) -> Result<(Value, Value)> {
    let (dtype, dims) = (b.dtype(x), b.dims(x));
    let scale = formula(b, [keep], |[keep]| keep.eq(0.0).pick(keep, 1.0 / keep))?;
    let keep = b.broadcast(keep, &dims)?;
    let mask = below(b, keep)?;
    Ok((masked(b, x, mask, scale, dtype)?, mask))
}

/// `x * mask * scale`; as in PyTorch, an infinite `x` that is dropped gives NaN.
fn masked(b: &mut B, x: Value, mask: Value, scale: Value, dtype: DType) -> Result<Value> {
    let x = b.convert(x, opmath(dtype));
    let (factor, scale) = (b.convert(mask, b.dtype(x)), cast(b, scale, b.dtype(x)));
    let scale = b.broadcast(scale, &b.dims(x))?;
    let y = formula(b, [x, factor, scale], |[x, factor, scale]| {
        x * factor * scale
    })?;
    Ok(b.convert(y, dtype))
}

/// `grad * mask * scale`
fn native_dropout_backward(b: &mut B, grad: Value, mask: Value, scale: Scalar) -> Result<Value> {
    let (grad, mask) = (grad, cast(b, mask, DType::Bool));
    let dims = broadcast_shapes(&[&b.dims(grad), &b.dims(mask)])?;
    let (grad, mask) = (b.broadcast(grad, &dims)?, b.broadcast(mask, &dims)?);
    let dtype = float_of(b, b.dtype(grad));
    masked(b, grad, mask, scale.0, dtype)
}

/// As `native_dropout` with the probability of keeping; the mask is bytes.
fn fused_dropout(b: &mut B, x: Value, keep: Scalar, _: Generator) -> Result<(Value, Value)> {
    let keep = cast(b, keep.0, opmath(b.dtype(x)).real());
    let (y, mask) = dropped(b, x, keep)?;
    Ok((y, b.convert(mask, DType::U8)))
}

/// An element-wise function of `(0, 1)` numbers and run-time numbers, in `x`'s opmath type.
fn transformed<const N: usize>(
    b: &mut B,
    x: Value,
    numbers: [Scalar; N],
    f: impl Fn(&mut B, Value, [Value; N]) -> Result<Value>,
) -> Result<Value> {
    let dtype = b.dtype(x);
    let u = open_uniform(b, opmath(float_of(b, dtype)), &b.dims(x))?;
    let mut broadcast = [u; N];
    for (to, from) in broadcast.iter_mut().zip(numbers) {
        *to = scalar_like(b, from.0, u)?;
    }
    let y = f(b, u, broadcast)?;
    Ok(cast(b, y, dtype))
}

fn exponential_lambda(numbers: &[Number]) -> Result<()> {
    let lambda = number(numbers, 0);
    if lambda > 0.0 {
        return Ok(());
    }
    refuse(format!(
        "exponential_ expects lambda > 0.0, but found lambda={lambda}"
    ))
}

/// `-log(u) / lambda`, never 0
fn exponential(b: &mut B, x: Value, lambda: Scalar, _: Generator) -> Result<Value> {
    let dtype = b.dtype(x);
    ensure!(
        dtype.is_float(),
        "Exponential distribution is a continuous probability distribution. dtype must be a \
         floating point but you specified {}",
        dtype.torch()
    );
    transformed(b, x, [lambda], |b, u, [lambda]| {
        let y = formula(b, [u, lambda], |[u, lambda]| -u.log() / lambda)?;
        Ok(y)
    })
}

fn geometric_p(numbers: &[Number]) -> Result<()> {
    let p = number(numbers, 0);
    if 0.0 < p && p < 1.0 {
        return Ok(());
    }
    refuse(format!(
        "geometric_ expects p to be in (0, 1), but got p={p}"
    ))
}

/// `ceil(log(u) / log(1 - p))`: tries up to the first success
fn geometric(b: &mut B, x: Value, p: Scalar, _: Generator) -> Result<Value> {
    let dtype = b.dtype(x);
    supported("geometric_cpu", dtype, is_float(dtype) || dtype.is_int())?;
    transformed(b, x, [p], |b, u, [p]| {
        let y = formula(b, [u, p], |[u, p]| (u.log() / (-p).log1p()).ceil())?;
        Ok(y)
    })
}

fn cauchy_sigma(numbers: &[Number]) -> Result<()> {
    let sigma = number(numbers, 1);
    if sigma > 0.0 {
        return Ok(());
    }
    refuse(format!(
        "cauchy_ expects sigma > 0.0, but found sigma={sigma}"
    ))
}

/// `median + sigma * tan(pi * (u - 1/2))`
fn cauchy(b: &mut B, x: Value, median: Scalar, sigma: Scalar, _: Generator) -> Result<Value> {
    let dtype = b.dtype(x);
    ensure!(
        dtype.is_float(),
        "Cauchy distribution is a continuous probability distribution. dtype must be a floating \
         point but you specified {}",
        integer::cpp_name(dtype)
    );
    transformed(b, x, [median, sigma], |b, u, [median, sigma]| {
        // The tangent of float32's pi / 2 has the wrong sign: keep clear of it, as PyTorch does.
        let edge = if b.dtype(u) == DType::F32 {
            f64::from(f32::EPSILON)
        } else {
            0.0
        };
        let y = formula(b, [u, median, sigma], |[u, median, sigma]| {
            let u = u.maximum(edge).minimum(1.0 - edge);
            median + sigma * ((u - 0.5) * std::f64::consts::PI).tan()
        })?;
        Ok(y)
    })
}

fn log_normal_std(numbers: &[Number]) -> Result<()> {
    let std = number(numbers, 1);
    if std > 0.0 {
        return Ok(());
    }
    refuse(format!(
        "log_normal_ expects std > 0.0, but found std={std}"
    ))
}

/// `exp(mean + std * z)`
fn log_normal(b: &mut B, x: Value, mean: Scalar, std: Scalar, _: Generator) -> Result<Value> {
    let dtype = b.dtype(x);
    supported("log_normal_cpu", dtype, is_float(dtype))?;
    let z = standard_normal(b, x)?;
    let (mean, std) = (scalar_like(b, mean.0, z)?, scalar_like(b, std.0, z)?);
    let y = formula(b, [z, mean, std], |[z, mean, std]| (z * std + mean).exp())?;
    Ok(cast(b, y, dtype))
}

/// Leaky ReLU whose slope is drawn from `lower..upper` for each negative element while training,
/// and the slopes (1 for positive elements)
fn rrelu_with_noise(
    b: &mut B,
    x: Value,
    noise: Value,
    lower: Scalar,
    upper: Scalar,
    training: bool,
    _: Generator,
) -> Result<(Value, Value)> {
    let dtype = b.dtype(x);
    supported("rrelu_with_noise_out_cpu", dtype, is_float(dtype))?;
    let x = b.convert(x, opmath(dtype));
    let (lower, upper) = (scalar_like(b, lower.0, x)?, scalar_like(b, upper.0, x)?);
    if !training {
        let y = formula(b, [x, lower, upper], |[x, lower, upper]| {
            x.gt(0.0).pick(x, x * ((lower + upper) / 2.0))
        })?;
        return Ok((b.convert(y, dtype), noise));
    }
    let (_, _) = pair(b, x, noise)?;
    let u = uniform(b, b.dtype(x), &b.dims(x))?;
    let [y, slope] = formulas(b, [x, u, lower, upper], |[x, u, lower, upper]| {
        let slope = x.le(0.0).pick(u * (upper - lower) + lower, 1.0);
        [x * slope, slope]
    })?;
    let slope = cast(b, slope, b.dtype(noise));
    Ok((b.convert(y, dtype), slope))
}

#[cfg(test)]
mod tests;
