//! Lists of tensors: a whole list is one program.
//!
//! Every row here applies another row to each element, so that there is one formula for both.
use crate::{
    Arg, Exponent, Factor, Ignored, Op, Result, Scalar, error::ensure, get, op::op, promote::cast,
    statistics::vector_norm,
};
use tpu_hlo::{Builder, DType, Number, Value};

type B = Builder;
type List = Vec<Value>;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_foreach_abs",        each("abs")),
    op!("_foreach_acos",       each("acos")),
    op!("_foreach_add.List",   |b: &mut B, x, y, alpha| pairs_times(b, "add.Tensor", x, y, alpha)),
    op!("_foreach_add.Scalar", each_number("add.Scalar")),
    op!("_foreach_add.ScalarList", each_numbers("add.Scalar")),
    op!("_foreach_add.Tensor", |b: &mut B, x, y, alpha| tensor_times(b, "add.Tensor", x, y, alpha)),
    op!("_foreach_addcdiv.Scalar", |b: &mut B, x, y, z, v| triples(b, "addcdiv", x, y, z, v)),
    op!("_foreach_addcdiv.ScalarList", |b: &mut B, x, y, z, v| triples_by(b, "addcdiv", x, y, z, v)),
    op!("_foreach_addcdiv.Tensor", |b: &mut B, x, y, z, v| triples_tensor(b, "addcdiv", x, y, z, v)),
    op!("_foreach_addcmul.Scalar", |b: &mut B, x, y, z, v| triples(b, "addcmul", x, y, z, v)),
    op!("_foreach_addcmul.ScalarList", |b: &mut B, x, y, z, v| triples_by(b, "addcmul", x, y, z, v)),
    op!("_foreach_addcmul.Tensor", |b: &mut B, x, y, z, v| triples_tensor(b, "addcmul", x, y, z, v)),
    op!("_foreach_asin",       each("asin")),
    op!("_foreach_atan",       each("atan")),
    op!("_foreach_ceil",       each("ceil")),
    op!("_foreach_clamp_max.List", each_pair("clamp_max.Tensor")),
    op!("_foreach_clamp_max.Scalar", each_number("clamp_max")),
    op!("_foreach_clamp_max.ScalarList", each_numbers("clamp_max")),
    op!("_foreach_clamp_min.List", each_pair("clamp_min.Tensor")),
    op!("_foreach_clamp_min.Scalar", each_number("clamp_min")),
    op!("_foreach_clamp_min.ScalarList", each_numbers("clamp_min")),
    op!("_foreach_clone",      |_: &mut B, x: List, _: Ignored| x),
    op!("_foreach_copy",       copy),
    op!("_foreach_cos",        each("cos")),
    op!("_foreach_cosh",       each("cosh")),
    op!("_foreach_div.List",   each_pair("div.Tensor")),
    op!("_foreach_div.Scalar", each_number("div.Scalar")),
    op!("_foreach_div.ScalarList", each_numbers("div.Scalar")),
    op!("_foreach_div.Tensor", each_tensor("div.Tensor")),
    op!("_foreach_erf",        each("erf")),
    op!("_foreach_erfc",       each("erfc")),
    op!("_foreach_exp",        each("exp")),
    op!("_foreach_expm1",      each("expm1")),
    op!("_foreach_floor",      each("floor")),
    op!("_foreach_frac",       each("frac")),
    op!("_foreach_lerp.List",  lerp),
    op!("_foreach_lerp.Scalar", lerp_number),
    op!("_foreach_lerp.ScalarList", lerp_numbers),
    op!("_foreach_lgamma",     each("lgamma")),
    op!("_foreach_log",        each("log")),
    op!("_foreach_log10",      each("log10")),
    op!("_foreach_log1p",      each("log1p")),
    op!("_foreach_log2",       each("log2")),
    op!("_foreach_max",        each("max")),
    op!("_foreach_maximum.List", each_pair("maximum")),
    op!("_foreach_maximum.Scalar", each_number("clamp_min")),
    op!("_foreach_maximum.ScalarList", each_numbers("clamp_min")),
    op!("_foreach_minimum.List", each_pair("minimum")),
    op!("_foreach_minimum.Scalar", each_number("clamp_max")),
    op!("_foreach_minimum.ScalarList", each_numbers("clamp_max")),
    op!("_foreach_mm",         each_pair("mm")),
    op!("_foreach_mul.List",   each_pair("mul.Tensor")),
    op!("_foreach_mul.Scalar", each_number("mul.Scalar")),
    op!("_foreach_mul.ScalarList", each_numbers("mul.Scalar")),
    op!("_foreach_mul.Tensor", each_tensor("mul.Tensor")),
    op!("_foreach_neg",        each("neg")),
    op!("_foreach_norm.Scalar", norm),
    op!("_foreach_pow.List",   each_pair("pow.Tensor_Tensor")),
    op!("_foreach_pow.Scalar", pow),
    op!("_foreach_pow.ScalarAndTensor", pow_of_number),
    op!("_foreach_pow.ScalarList", each_numbers("pow.Tensor_Scalar")),
    op!("_foreach_powsum.Scalar", power_sum),
    op!("_foreach_reciprocal", each("reciprocal")),
    op!("_foreach_round",      each("round")),
    op!("_foreach_rsqrt",      each("rsqrt")),
    op!("_foreach_sigmoid",    each("sigmoid")),
    op!("_foreach_sign",       each("sign")),
    op!("_foreach_sin",        each("sin")),
    op!("_foreach_sinh",       each("sinh")),
    op!("_foreach_sqrt",       each("sqrt")),
    op!("_foreach_sub.List",   |b: &mut B, x, y, alpha| pairs_times(b, "sub.Tensor", x, y, alpha)),
    op!("_foreach_sub.Scalar", each_number("sub.Scalar")),
    op!("_foreach_sub.ScalarList", each_numbers("sub.Scalar")),
    op!("_foreach_tan",        each("tan")),
    op!("_foreach_tanh",       each("tanh")),
    op!("_foreach_trunc",      each("trunc")),
    op!("_foreach_zero",       each("zero")),
];

/// What `alpha` and `value` are where a list operator has none.
const ONE: Arg = Arg::Number(Number::Int(1));

/// The only result of the row `name`.
fn row(b: &mut B, name: &str, args: &[Arg]) -> Result<Value> {
    let outs = get(name).map(|op| op.lower(b, args)).transpose()?;
    outs.and_then(|outs| outs.first().copied())
        .ok_or_else(|| crate::Error::runtime(format!("no row `{name}`")))
}

fn not_empty(x: &List) -> Result<()> {
    ensure!(!x.is_empty(), "Tensor list must have at least one tensor.");
    Ok(())
}

fn same_length(x: &List, y: &List) -> Result<()> {
    not_empty(x)?;
    let (n, m) = (x.len(), y.len());
    ensure!(
        n == m,
        "Tensor lists must have the same number of tensors, got {n} and {m}"
    );
    Ok(())
}

fn one_number_each(x: &List, numbers: usize) -> Result<()> {
    not_empty(x)?;
    let n = x.len();
    ensure!(
        n == numbers,
        "Tensor list must have same number of elements as scalar list."
    );
    Ok(())
}

/// A row of one tensor.
const fn each(name: &'static str) -> impl Fn(&mut B, List) -> Result<List> + Sync + Copy {
    move |b, x| {
        not_empty(&x)?;
        x.into_iter()
            .map(|x| row(b, name, &[Arg::Tensor(x)]))
            .collect()
    }
}

/// A row of two tensors.
const fn each_pair(
    name: &'static str,
) -> impl Fn(&mut B, List, List) -> Result<List> + Sync + Copy {
    move |b, x, y| {
        same_length(&x, &y)?;
        let pairs = x.into_iter().zip(y);
        pairs
            .map(|(x, y)| row(b, name, &[Arg::Tensor(x), Arg::Tensor(y)]))
            .collect()
    }
}

/// A row of two tensors, the second one for all.
const fn each_tensor(
    name: &'static str,
) -> impl Fn(&mut B, List, Value) -> Result<List> + Sync + Copy {
    move |b, x, y| {
        scalar_tensor(b, y)?;
        not_empty(&x)?;
        x.into_iter()
            .map(|x| row(b, name, &[Arg::Tensor(x), Arg::Tensor(y)]))
            .collect()
    }
}

/// A row of a tensor and a number.
const fn each_number(
    name: &'static str,
) -> impl Fn(&mut B, List, Scalar) -> Result<List> + Sync + Copy {
    move |b, x, n| {
        not_empty(&x)?;
        x.into_iter()
            .map(|x| row(b, name, &[Arg::Tensor(x), Arg::Scalar(n.0), ONE]))
            .collect()
    }
}

/// A row of a tensor and a number of its own.
const fn each_numbers(
    name: &'static str,
) -> impl Fn(&mut B, List, Vec<Scalar>) -> Result<List> + Sync + Copy {
    move |b, x, ns| {
        one_number_each(&x, ns.len())?;
        let pairs = x.into_iter().zip(ns);
        pairs
            .map(|(x, n)| row(b, name, &[Arg::Tensor(x), Arg::Scalar(n.0), ONE]))
            .collect()
    }
}

fn scalar_tensor(b: &B, x: Value) -> Result<()> {
    let ty = b.ty(x);
    ensure!(
        ty.rank() == 0 && ty.numel() == 1,
        "scalar tensor expected to be 0 dim but it has {} dimensions and {} elements.",
        ty.rank(),
        ty.numel()
    );
    Ok(())
}

/// The factor as an argument of a row.
fn factor(alpha: Factor) -> Arg {
    match alpha {
        Factor::One => ONE,
        Factor::Times(v) => Arg::Scalar(v),
    }
}

fn pairs_times(b: &mut B, name: &str, x: List, y: List, alpha: Factor) -> Result<List> {
    same_length(&x, &y)?;
    let pairs = x.into_iter().zip(y);
    pairs
        .map(|(x, y)| row(b, name, &[Arg::Tensor(x), Arg::Tensor(y), factor(alpha)]))
        .collect()
}

fn tensor_times(b: &mut B, name: &str, x: List, y: Value, alpha: Factor) -> Result<List> {
    scalar_tensor(b, y)?;
    not_empty(&x)?;
    x.into_iter()
        .map(|x| row(b, name, &[Arg::Tensor(x), Arg::Tensor(y), factor(alpha)]))
        .collect()
}

fn triples(b: &mut B, name: &str, x: List, y: List, z: List, value: Factor) -> Result<List> {
    let values = vec![factor(value); x.len()];
    zip_triples(b, name, x, y, z, values)
}

fn triples_by(
    b: &mut B,
    name: &str,
    x: List,
    y: List,
    z: List,
    values: Vec<Scalar>,
) -> Result<List> {
    one_number_each(&x, values.len())?;
    let values = values.into_iter().map(|v| Arg::Scalar(v.0)).collect();
    zip_triples(b, name, x, y, z, values)
}

/// [`triples_by`] with the numbers in one tensor.
fn triples_tensor(b: &mut B, name: &str, x: List, y: List, z: List, values: Value) -> Result<List> {
    let (rank, n) = (b.rank(values), b.ty(values).numel());
    ensure!(
        rank == 1,
        "Expected packed scalar Tensor to be of dimension 1. Got {rank} instead."
    );
    ensure!(
        n == x.len() as i64,
        "Expected length of scalars to match input of length {} but got {n} instead.",
        x.len()
    );
    let mut each = Vec::new();
    for i in 0..n {
        let one = b.slice(values, &[i], &[i + 1], &[1])?;
        each.push(Arg::Scalar(b.reshape(one, &[])?));
    }
    zip_triples(b, name, x, y, z, each)
}

fn zip_triples(b: &mut B, name: &str, x: List, y: List, z: List, values: Vec<Arg>) -> Result<List> {
    same_length(&x, &y)?;
    same_length(&x, &z)?;
    let all = x.into_iter().zip(y).zip(z).zip(values);
    all.map(|(((x, y), z), v)| {
        row(
            b,
            name,
            &[Arg::Tensor(x), Arg::Tensor(y), Arg::Tensor(z), v],
        )
    })
    .collect()
}

/// Each of `src` in the type and shape of its target.
fn copy(b: &mut B, x: List, src: List, _non_blocking: bool) -> Result<List> {
    same_length(&x, &src)?;
    let pairs = x.into_iter().zip(src);
    pairs
        .map(|(x, src)| {
            let src = cast(b, src, b.dtype(x));
            Ok(b.broadcast(src, &b.dims(x))?)
        })
        .collect()
}

fn lerp(b: &mut B, x: List, end: List, weights: List) -> Result<List> {
    same_length(&x, &weights)?;
    let weights = weights.into_iter().map(Arg::Tensor).collect();
    lerps(b, "lerp.Tensor", x, end, weights)
}

fn lerp_number(b: &mut B, x: List, end: List, weight: Scalar) -> Result<List> {
    let weights = vec![Arg::Scalar(weight.0); x.len()];
    lerps(b, "lerp.Scalar", x, end, weights)
}

fn lerp_numbers(b: &mut B, x: List, end: List, weights: Vec<Scalar>) -> Result<List> {
    one_number_each(&x, weights.len())?;
    let weights = weights.into_iter().map(|w| Arg::Scalar(w.0)).collect();
    lerps(b, "lerp.Scalar", x, end, weights)
}

fn lerps(b: &mut B, name: &str, x: List, end: List, weights: Vec<Arg>) -> Result<List> {
    same_length(&x, &end)?;
    let all = x.into_iter().zip(end).zip(weights);
    all.map(|((x, end), w)| row(b, name, &[Arg::Tensor(x), Arg::Tensor(end), w]))
        .collect()
}

fn norm(b: &mut B, x: List, ord: Number, dtype: Option<DType>) -> Result<List> {
    not_empty(&x)?;
    x.into_iter()
        .map(|x| vector_norm(b, x, ord, None, false, dtype))
        .collect()
}

fn pow(b: &mut B, x: List, exponent: Exponent) -> Result<List> {
    not_empty(&x)?;
    let exponent = match exponent {
        Exponent::Fixed(n) => Arg::Number(n),
        Exponent::Free(v) => Arg::Scalar(v),
    };
    let each = |x| row(b, "pow.Tensor_Scalar", &[Arg::Tensor(x), exponent.clone()]);
    x.into_iter().map(each).collect()
}

fn pow_of_number(b: &mut B, base: Scalar, exponents: List) -> Result<List> {
    not_empty(&exponents)?;
    let each = |e| row(b, "pow.Scalar", &[Arg::Scalar(base.0), Arg::Tensor(e)]);
    exponents.into_iter().map(each).collect()
}

/// `sum(|x|^ord)` of each tensor: a norm without its root.
fn power_sum(b: &mut B, x: List, ord: Number, dtype: Option<DType>) -> Result<List> {
    not_empty(&x)?;
    let mut each = |x| {
        let dtype = dtype.unwrap_or(b.dtype(x));
        let x = cast(b, x, dtype);
        let wide = crate::promote::widen(b, x);
        let size = b.abs(wide);
        let ord = if [0.0, 1.0, 2.0].contains(&ord.to_f64()) {
            Arg::Number(ord)
        } else {
            Arg::Scalar(b.scalar(ord, b.dtype(size)))
        };
        let powers = row(b, "pow.Tensor_Scalar", &[Arg::Tensor(size), ord])?;
        let axes: Vec<i64> = (0..b.rank(powers) as i64).collect();
        let sum = b.sum(powers, &axes)?;
        Ok(cast(b, sum, dtype.real()))
    };
    x.into_iter().map(&mut each).collect()
}

#[cfg(test)]
mod tests;
