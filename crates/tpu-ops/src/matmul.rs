//! Matrix and vector products.
mod grouped;
mod scaled;

use crate::{
    Factor, Op, OutDtype, Result, check,
    error::ensure,
    op::{op, pointwise},
    promote,
};
use tpu_hlo::{Builder, DType, Dims, Direction, DotDims, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_addmm_activation",       addmm_activation),
    op!("_compute_linear_combination", combination),
    op!("_compute_linear_combination.out", combination_onto),
    op!("_grouped_mm",             grouped::grouped_mm),
    op!("_int_mm",                 scaled::int_mm),
    op!("_scaled_mm",              scaled::scaled_mm).out(OutDtype::Cast),
    op!("_scaled_mm_v2",           scaled::scaled_mm_by_recipe).out(OutDtype::Cast),
    op!("_weight_int8pack_mm",     scaled::weight_int8pack_mm),
    op!("addbmm",                  addbmm)
        .out(OutDtype::Exact(
            "self and mat2 must have the same dtype, but got {out} and {result}",
        )),
    op!("addmm",                   addmm),
    op!("addmm.dtype",             addmm_dtype),
    op!("addmv",                   addmv),
    pointwise!("addr",             addr),
    op!("baddbmm",                 baddbmm),
    op!("baddbmm.dtype",           baddbmm_dtype),
    op!("bmm",                     bmm),
    op!("bmm.dtype",               bmm_dtype),
    op!("dot",                     dot)
        .out(OutDtype::Exact("result dtype {out} does not match input dtype {result}")),
    op!("mm",                      mm),
    op!("mm.dtype",                mm_dtype),
    op!("mv",                      mv),
    op!("vdot",                    vdot)
        .out(OutDtype::Exact("result dtype {out} does not match input dtype {result}")),
];

/// `contract` pairs the dimensions that are summed over, `batch` those that go along.
pub(crate) fn dims(batch: &[(i64, i64)], contract: &[(i64, i64)]) -> DotDims {
    let split = |pairs: &[(i64, i64)]| -> (Dims, Dims) { pairs.iter().copied().unzip() };
    DotDims {
        batch: split(batch),
        contract: split(contract),
    }
}

/// A product in its accumulation type: half-width floats give `F32`, integers wrap in their own
/// type.
pub(crate) fn product(b: &mut B, x: Value, y: Value, dims: &DotDims) -> Result<Value> {
    let dtype = promote::opmath(b.dtype(x));
    Ok(b.dot_general(x, y, dims, dtype)?)
}

/// Sums of the slices of `input`, one for each row of `coefficients`.
fn combination(b: &mut B, input: Value, coefficients: Value) -> Result<Value> {
    let (from, by) = (b.dims(input), b.dims(coefficients));
    ensure!(
        !from.is_empty() && b.ty(input).numel() > 0,
        "Empty tensor not supported"
    );
    ensure!(
        by.len() == 2 && by[1] == from[0],
        "Expected coefficients of shape [*, {}], but got {:?}",
        from[0],
        by.as_slice()
    );
    let dtype = b.dtype(input);
    let coefficients = promote::cast(b, coefficients, dtype);
    let y = product(b, coefficients, input, &dims(&[], &[(1, 0)]))?;
    Ok(b.convert(y, dtype))
}

/// [`combination`] added to what `out` holds, in its dtype.
fn combination_onto(b: &mut B, input: Value, coefficients: Value, out: Value) -> Result<Value> {
    let y = combination(b, input, coefficients)?;
    let y = promote::cast(b, y, b.dtype(out));
    ensure!(
        b.dims(y) == b.dims(out),
        "output with shape {:?} doesn't match the broadcast shape {:?}",
        b.dims(out).as_slice(),
        b.dims(y).as_slice()
    );
    Ok(b.add(out, y)?)
}

/// `beta * input + alpha * product`, rounded once to `dtype`; an `input` of any value, NaN too,
/// is ignored when `beta` is zero.
fn blend(
    b: &mut B,
    input: Value,
    product: Value,
    by: (Factor, Factor),
    dtype: DType,
) -> Result<Value> {
    let (beta, alpha) = by;
    let (wide, to) = (b.dtype(product), b.dims(product));
    check::expand(&b.dims(input), &to)?;
    let input = b.convert(input, wide);
    let input = b.broadcast(input, &to)?;
    let input = or_zero(b, input, beta)?;
    let product = times(b, product, alpha)?;
    let sum = b.add(input, product)?;
    Ok(b.convert(sum, dtype))
}

/// `factor * x`
fn times(b: &mut B, x: Value, factor: Factor) -> Result<Value> {
    let Factor::Times(factor) = factor else {
        return Ok(x);
    };
    let factor = promote::scalar_like(b, factor, x)?;
    Ok(if b.dtype(x) == DType::Bool {
        b.and(x, factor)?
    } else {
        b.multiply(x, factor)?
    })
}

/// `factor * x`, but zero when `factor` is zero whatever `x` holds.
fn or_zero(b: &mut B, x: Value, factor: Factor) -> Result<Value> {
    let scaled = times(b, x, factor)?;
    let Factor::Times(factor) = factor else {
        return Ok(x);
    };
    let dtype = b.dtype(x);
    if !dtype.is_float() && !dtype.is_complex() {
        return Ok(scaled);
    }
    let factor = promote::cast(b, factor, dtype);
    let zero = b.scalar(0, dtype);
    let ignored = b.compare(factor, Direction::EQ, zero)?;
    let zeros = b.full_like(x, 0);
    Ok(b.select(ignored, zeros, scaled)?)
}

/// The name of the element type in C++, which some of PyTorch's messages use.
fn cpp(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short int",
        DType::I32 => "int",
        DType::I64 => "long int",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::C64 => "c10::complex<float>",
        DType::C128 => "c10::complex<double>",
        other => other.torch(),
    }
}

fn not_bool(b: &B, x: Value, name: &str) -> Result<()> {
    let dtype = b.dtype(x);
    ensure!(
        dtype != DType::Bool,
        NotImplemented,
        "\"{name}\" not implemented for 'Bool'"
    );
    Ok(())
}

fn matrices_fit(x: &[i64], y: &[i64]) -> Result<()> {
    ensure!(
        x[1] == y[0],
        "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        x[0],
        x[1],
        y[0],
        y[1]
    );
    Ok(())
}

/// The product of two matrices in its accumulation type.
fn matrices(b: &mut B, x: Value, y: Value) -> Result<Value> {
    matrices_fit(&b.dims(x), &b.dims(y))?;
    not_bool(b, x, "addmm")?;
    product(b, x, y, &dims(&[], &[(1, 0)]))
}

/// `self @ mat2` of two matrices.
fn mm(b: &mut B, x: Value, mat2: Value) -> Result<Value> {
    mm_dtype(b, x, mat2, b.dtype(x))
}

/// As [`mm`], accumulated and returned as `out_dtype`.
fn mm_dtype(b: &mut B, x: Value, mat2: Value, out_dtype: DType) -> Result<Value> {
    ensure!(b.rank(x) == 2, "self must be a matrix");
    ensure!(b.rank(mat2) == 2, "mat2 must be a matrix");
    let (m1, m2) = (b.dtype(x), b.dtype(mat2));
    ensure!(
        m1 == m2,
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        cpp(m1),
        cpp(m2)
    );
    let out = matrices(b, x, mat2)?;
    Ok(b.convert(out, out_dtype))
}

/// `beta * self + alpha * mat1 @ mat2`
fn addmm(
    b: &mut B,
    input: Value,
    mat1: Value,
    mat2: Value,
    beta: Factor,
    alpha: Factor,
) -> Result<Value> {
    let (t, t1, t2) = (b.dtype(input), b.dtype(mat1), b.dtype(mat2));
    let (x, y) = if t == t2 { (t1, t2) } else { (t, t2) };
    ensure!(
        t == t2 && t1 == t2,
        "self and mat2 must have the same dtype, but got {} and {}",
        x.torch(),
        y.torch()
    );
    addmm_dtype(b, input, mat1, mat2, t, beta, alpha)
}

/// As [`addmm`], accumulated and returned as `out_dtype`.
fn addmm_dtype(
    b: &mut B,
    input: Value,
    mat1: Value,
    mat2: Value,
    out_dtype: DType,
    beta: Factor,
    alpha: Factor,
) -> Result<Value> {
    let (r1, r2) = (b.rank(mat1), b.rank(mat2));
    ensure!(r1 == 2, "mat1 must be a matrix, got {r1}-D tensor");
    ensure!(r2 == 2, "mat2 must be a matrix, got {r2}-D tensor");
    let out = matrices(b, mat1, mat2)?;
    blend(b, input, out, (beta, alpha), out_dtype)
}

/// [`addmm`], then `relu` or `gelu` (by the error function).
fn addmm_activation(
    b: &mut B,
    input: Value,
    mat1: Value,
    mat2: Value,
    beta: Factor,
    alpha: Factor,
    use_gelu: bool,
) -> Result<Value> {
    let out = addmm(b, input, mat1, mat2, beta, alpha)?;
    let dtype = b.dtype(out);
    let x = promote::widen(b, out);
    let zero = b.full_like(x, 0);
    let y = if use_gelu {
        gelu(b, x)?
    } else {
        b.maximum(x, zero)?
    };
    Ok(b.convert(y, dtype))
}

fn gelu(b: &mut B, x: Value) -> Result<Value> {
    let (half, one) = (b.full_like(x, 0.5), b.full_like(x, 1));
    let root = b.full_like(x, std::f64::consts::FRAC_1_SQRT_2);
    let scaled = b.multiply(x, root)?;
    let erf = b.erf(scaled);
    let erf = b.add(erf, one)?;
    let halved = b.multiply(x, half)?;
    Ok(b.multiply(halved, erf)?)
}

fn batches_fit(b: &B, x: Value, y: Value) -> Result<()> {
    ensure!(b.rank(x) == 3, "batch1 must be a 3D tensor");
    ensure!(b.rank(y) == 3, "batch2 must be a 3D tensor");
    let (x, y) = (b.dims(x), b.dims(y));
    ensure!(
        x[0] == y[0] && x[2] == y[1],
        "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, \
         {}].",
        x[0],
        x[2],
        y[0],
        y[1]
    );
    Ok(())
}

/// Products of pairs of matrices in their accumulation type.
fn batches(b: &mut B, x: Value, y: Value) -> Result<Value> {
    batches_fit(b, x, y)?;
    let (t, other) = (b.dtype(x), b.dtype(y));
    ensure!(
        t == other,
        "expected scalar type {} but found {}",
        t.torch(),
        other.torch()
    );
    not_bool(b, x, "bmm")?;
    product(b, x, y, &dims(&[(0, 0)], &[(2, 1)]))
}

/// `self[i] @ mat2[i]` for each `i`.
fn bmm(b: &mut B, x: Value, mat2: Value) -> Result<Value> {
    bmm_dtype(b, x, mat2, b.dtype(x))
}

/// As [`bmm`], accumulated and returned as `out_dtype`.
fn bmm_dtype(b: &mut B, x: Value, mat2: Value, out_dtype: DType) -> Result<Value> {
    let out = batches(b, x, mat2)?;
    Ok(b.convert(out, out_dtype))
}

/// `beta * self + alpha * batch1[i] @ batch2[i]` for each `i`.
fn baddbmm(
    b: &mut B,
    input: Value,
    batch1: Value,
    batch2: Value,
    beta: Factor,
    alpha: Factor,
) -> Result<Value> {
    let (t, t1, t2) = (b.dtype(input), b.dtype(batch1), b.dtype(batch2));
    ensure!(
        t == t1 && t1 == t2,
        "Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}",
        cpp(t),
        cpp(t1),
        cpp(t2)
    );
    baddbmm_dtype(b, input, batch1, batch2, t, beta, alpha)
}

/// As [`baddbmm`], accumulated and returned as `out_dtype`.
fn baddbmm_dtype(
    b: &mut B,
    input: Value,
    batch1: Value,
    batch2: Value,
    out_dtype: DType,
    beta: Factor,
    alpha: Factor,
) -> Result<Value> {
    let out = batches(b, batch1, batch2)?;
    blend(b, input, out, (beta, alpha), out_dtype)
}

/// `beta * self + alpha * (sum over i of batch1[i] @ batch2[i])`
fn addbmm(
    b: &mut B,
    input: Value,
    batch1: Value,
    batch2: Value,
    beta: Factor,
    alpha: Factor,
) -> Result<Value> {
    ensure!(b.rank(batch1) == 3, "batch1 must be a 3D tensor");
    ensure!(b.rank(batch2) == 3, "batch2 must be a 3D tensor");
    let (x, y) = (b.dims(batch1), b.dims(batch2));
    ensure!(
        x[0] == y[0],
        "batch1 and batch2 must have same number of batches, got {} and {}",
        x[0],
        y[0]
    );
    ensure!(
        x[2] == y[1],
        "Incompatible matrix sizes for bmm ({}x{} and {}x{})",
        x[1],
        x[2],
        y[1],
        y[2]
    );
    let (t, other) = (b.dtype(input), b.dtype(batch2));
    ensure!(
        t == other && b.dtype(batch1) == t,
        "self and mat2 must have the same dtype, but got {} and {}",
        t.torch(),
        other.torch()
    );
    not_bool(b, batch1, "addbmm")?;
    let out = product(b, batch1, batch2, &dims(&[], &[(0, 0), (2, 1)]))?;
    blend(b, input, out, (beta, alpha), t)
}

/// `beta * self + alpha * mat @ vec`
fn addmv(
    b: &mut B,
    input: Value,
    mat: Value,
    vec: Value,
    beta: Factor,
    alpha: Factor,
) -> Result<Value> {
    let (r, rm, rv) = (b.rank(input), b.rank(mat), b.rank(vec));
    ensure!(
        rm == 2 && rv == 1 && r <= 1,
        "vector + matrix @ vector expected, got {r}, {rm}, {rv}"
    );
    let (m, v) = (b.dims(mat), b.dims(vec));
    let n = b.ty(input).numel();
    ensure!(
        m[1] == v[0] && (n == m[0] || n == 1),
        "size mismatch, got input ({n}), mat ({}x{}), vec ({})",
        m[0],
        m[1],
        v[0]
    );
    let (t, tm, tv) = (b.dtype(input), b.dtype(mat), b.dtype(vec));
    ensure!(
        t == tm && tm == tv,
        "addmv input tensors must have the same dtype, but got {}, {}, and {}",
        t.torch(),
        tm.torch(),
        tv.torch()
    );
    not_bool(b, mat, "addmv")?;
    let out = product(b, mat, vec, &dims(&[], &[(1, 0)]))?;
    blend(b, input, out, (beta, alpha), t)
}

/// `self @ vec`
fn mv(b: &mut B, mat: Value, vec: Value) -> Result<Value> {
    let (rm, rv) = (b.rank(mat), b.rank(vec));
    ensure!(
        rm == 2 && rv == 1,
        "vector + matrix @ vector expected, got 1, {rm}, {rv}"
    );
    let (m, v) = (b.dims(mat), b.dims(vec));
    ensure!(
        m[1] == v[0],
        "size mismatch, got input ({}), mat ({}x{}), vec ({})",
        m[0],
        m[0],
        m[1],
        v[0]
    );
    let (tm, tv) = (b.dtype(mat), b.dtype(vec));
    ensure!(
        tm == tv,
        "addmv input tensors must have the same dtype, but got {}, {}, and {}",
        tv.torch(),
        tm.torch(),
        tv.torch()
    );
    not_bool(b, mat, "addmv")?;
    let out = product(b, mat, vec, &dims(&[], &[(1, 0)]))?;
    Ok(b.convert(out, tm))
}

/// `beta * self + alpha * outer(vec1, vec2)`, promoted to the common type.
fn addr(
    b: &mut B,
    input: Value,
    vec1: Value,
    vec2: Value,
    beta: Factor,
    alpha: Factor,
) -> Result<Value> {
    for (name, v) in [("vec1", vec1), ("vec2", vec2)] {
        let rank = b.rank(v);
        ensure!(
            rank == 1,
            "addr: Expected 1-D argument {name}, but got {rank}-D"
        );
    }
    let dtype = promote::result_type(b, &[input, vec1, vec2])?;
    let wide = promote::opmath(dtype);
    let integral = !dtype.is_float() && !dtype.is_complex();
    for (name, factor) in [("beta", beta), ("alpha", alpha)] {
        let float = matches!(factor, Factor::Times(v) if !integral_number(b.dtype(v)));
        ensure!(
            !(integral && float),
            "For integral input tensors, argument {name} must not be a floating point number."
        );
    }
    let to = [b.dims(vec1)[0], b.dims(vec2)[0]];
    check::expand(&b.dims(input), &to)?;
    let input = promote::cast(b, input, wide);
    let input = b.broadcast(input, &to)?;
    let input = or_zero(b, input, beta)?;
    let outer = outer(b, vec1, vec2, wide)?;
    let outer = times(b, outer, alpha)?;
    let sum = if wide == DType::Bool {
        b.or(input, outer)?
    } else {
        b.add(input, outer)?
    };
    Ok(b.convert(sum, dtype))
}

fn integral_number(dtype: DType) -> bool {
    dtype == DType::Bool || dtype.is_int()
}

fn outer(b: &mut B, x: Value, y: Value, dtype: DType) -> Result<Value> {
    let to = [b.dims(x)[0], b.dims(y)[0]];
    let x = promote::cast(b, x, dtype);
    let y = promote::cast(b, y, dtype);
    let x = b.broadcast_in_dim(x, &to, &[0])?;
    let y = b.broadcast_in_dim(y, &to, &[1])?;
    Ok(if dtype == DType::Bool {
        b.and(x, y)?
    } else {
        b.multiply(x, y)?
    })
}

fn vectors_fit(b: &B, x: Value, y: Value, name: &str) -> Result<()> {
    let (r, other) = (b.rank(x), b.rank(y));
    ensure!(
        r == 1 && other == 1,
        "1D tensors expected, but got {r}D and {other}D tensors"
    );
    let (t, u) = (b.dtype(x), b.dtype(y));
    ensure!(
        t == u,
        "{name} : expected both vectors to have same dtype, but found {} and {}",
        t.torch(),
        u.torch()
    );
    let (n, m) = (b.dims(x)[0], b.dims(y)[0]);
    ensure!(
        n == m,
        "inconsistent tensor size, expected tensor [{n}] and src [{m}] to have the same number of \
         elements, but got {n} and {m} elements respectively"
    );
    Ok(())
}

/// Sum of the products of two vectors.
fn dot(b: &mut B, x: Value, y: Value) -> Result<Value> {
    vectors_fit(b, x, y, "dot")?;
    not_bool(b, x, "dot")?;
    let dtype = b.dtype(x);
    let out = product(b, x, y, &dims(&[], &[(0, 0)]))?;
    Ok(b.convert(out, dtype))
}

/// [`dot`] with the conjugate of `self`.
fn vdot(b: &mut B, x: Value, other: Value) -> Result<Value> {
    vectors_fit(b, x, other, "dot")?;
    if !b.dtype(x).is_complex() {
        return dot(b, x, other);
    }
    let (re, im) = (b.real(x), b.imag(x));
    let im = b.negate(im);
    let x = b.complex(re, im)?;
    dot(b, x, other)
}

#[cfg(test)]
mod tests;
