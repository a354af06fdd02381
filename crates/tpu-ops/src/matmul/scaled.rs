//! Products of narrow types with scales.
use super::{dims, matrices_fit, product};
use crate::{Class, Error, Ignored, Result, error::ensure, pointwise::largest, promote};
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;

/// `self @ mat2` of 8-bit integers, accumulated in `I32`.
pub(super) fn int_mm(b: &mut B, x: Value, mat2: Value) -> Result<Value> {
    let (r, other) = (b.rank(x), b.rank(mat2));
    ensure!(r == 2, "Expected self to be of dimension 2 but got {r}");
    ensure!(
        other == 2,
        "Expected mat2 to be of dimension 2 but got {other}"
    );
    for (name, v) in [("self", x), ("mat2", mat2)] {
        let dtype = b.dtype(v);
        ensure!(
            matches!(dtype, DType::I8 | DType::U8),
            "_int_mm: Expected {name} dtype to be int8 or uint8 but got {}",
            super::cpp(dtype)
        );
    }
    let (k, n) = (b.dims(x)[1], b.dims(mat2)[0]);
    ensure!(
        k == n,
        "_int_mm: self.size(1) needs to match mat2.size(0) but got {k} and {n}"
    );
    let x = b.convert(x, DType::I32);
    let y = b.convert(mat2, DType::I32);
    product(b, x, y, &dims(&[], &[(1, 0)]))
}

/// `self @ mat2.T * scales`: `[M, K]`, 8-bit integers `[N, K]`, `[N]`.
pub(super) fn weight_int8pack_mm(b: &mut B, x: Value, mat2: Value, scales: Value) -> Result<Value> {
    let (from, by, s) = (b.dims(x), b.dims(mat2), b.dims(scales));
    ensure!(
        from.len() == 2,
        "_weight_int8pack_mm: expect A to be 2D tensor."
    );
    ensure!(
        by.len() == 2 && by[1] == from[1] && b.dtype(mat2) == DType::I8,
        "_weight_int8pack_mm: expect B to be int8 tensor of shape [N, {}]",
        from[1]
    );
    ensure!(
        s.as_slice() == [by[0]],
        "_weight_int8pack_mm: expect scales to be 1d tensor with size {}",
        by[0]
    );
    let dtype = b.dtype(x);
    let mat2 = b.convert(mat2, dtype);
    let out = product(b, x, mat2, &dims(&[], &[(1, 1)]))?;
    let scales = b.convert(scales, b.dtype(out));
    let scales = b.broadcast(scales, &b.dims(out))?;
    let out = b.multiply(out, scales)?;
    Ok(b.convert(out, dtype))
}

/// A scale per tensor, or per row (`[M, 1]`) or column (`[1, N]`), as a factor of the result.
fn rescale(b: &mut B, x: Value, scale: Value) -> Result<Value> {
    let (out, given) = (b.dims(x), b.dims(scale));
    let scale = b.convert(scale, b.dtype(x));
    let one = b.ty(scale).numel() == 1;
    ensure!(
        one || given.len() == 2 && given.iter().zip(&out).all(|(s, n)| *s == 1 || s == n),
        "Invalid scaling configuration: only tensor-wise and row-wise scales are supported, but \
         got a scale of shape {:?} for a result of shape {:?}",
        given.as_slice(),
        out.as_slice()
    );
    let scale = if one { b.reshape(scale, &[])? } else { scale };
    let scale = b.broadcast(scale, &out)?;
    Ok(b.multiply(x, scale)?)
}

/// `(self * scale_a) @ (mat2 * scale_b) + bias` of matrices that fit, not yet rounded.
fn scaled_product(
    b: &mut B,
    (x, mat2): (Value, Value),
    (scale_a, scale_b): (Value, Value),
    bias: Option<Value>,
) -> Result<Value> {
    // Eight-bit floats of two formats may meet; in float32 both are exact.
    let (x, mat2) = (promote::widen(b, x), promote::widen(b, mat2));
    let out = product(b, x, mat2, &dims(&[], &[(1, 0)]))?;
    let out = rescale(b, out, scale_a)?;
    let out = rescale(b, out, scale_b)?;
    let Some(bias) = bias else { return Ok(out) };
    let bias = b.convert(bias, b.dtype(out));
    let bias = b.broadcast(bias, &b.dims(out))?;
    Ok(b.add(out, bias)?)
}

/// `(self * scale_a) @ (mat2 * scale_b) + bias`, times `scale_result` when the result is of an
/// 8-bit float.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn scaled_mm(
    b: &mut B,
    x: Value,
    mat2: Value,
    scale_a: Value,
    scale_b: Value,
    bias: Option<Value>,
    scale_result: Option<Value>,
    out_dtype: Option<DType>,
    _use_fast_accum: Ignored,
) -> Result<Value> {
    ensure!(b.rank(x) == 2, "mat1 must be a matrix");
    ensure!(b.rank(mat2) == 2, "mat2 must be a matrix");
    matrices_fit(&b.dims(x), &b.dims(mat2))?;
    let out_dtype = out_dtype.unwrap_or(b.dtype(x));
    let mut out = scaled_product(b, (x, mat2), (scale_a, scale_b), bias)?;
    if let Some(scale) = scale_result.filter(|_| out_dtype.is_float8()) {
        out = rescale(b, out, scale)?;
    }
    saturated(b, out, out_dtype)
}

/// `x` rounded to `dtype`. Products that are too large for a float that has no infinity become the
/// largest, as in the libraries of CPUs and GPUs, where a conversion makes them NaN.
fn saturated(b: &mut B, x: Value, dtype: DType) -> Result<Value> {
    if dtype != DType::F8E4M3FN {
        return Ok(b.convert(x, dtype));
    }
    let most = largest(dtype);
    let (low, high) = (b.full_like(x, -most), b.full_like(x, most));
    let x = b.maximum(x, low)?;
    let x = b.minimum(x, high)?;
    Ok(b.convert(x, dtype))
}

/// PyTorch's `ScalingType`s that a whole row or column, or a whole matrix, has one scale for.
const TENSOR_WISE: i64 = 0;
const ROW_WISE: i64 = 1;

/// `(self * scale_a) @ (mat2 * scale_b) + bias` with the scales that the recipes name.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn scaled_mm_by_recipe(
    b: &mut B,
    x: Value,
    mat2: Value,
    scale_a: Vec<Value>,
    recipe_a: Dims,
    swizzle_a: Dims,
    scale_b: Vec<Value>,
    recipe_b: Dims,
    swizzle_b: Dims,
    bias: Option<Value>,
    out_dtype: Option<DType>,
    _contraction_dim: Dims,
    _use_fast_accum: Ignored,
) -> Result<Value> {
    ensure!(b.rank(x) == 2, "mat1 must be a matrix");
    ensure!(b.rank(mat2) == 2, "mat2 must be a matrix");
    let (from, to) = (b.dims(x), b.dims(mat2));
    matrices_fit(&from, &to)?;
    let [a, other] = [b.dtype(x), b.dtype(mat2)];
    ensure!(
        a.is_float8() && other.is_float8(),
        Value,
        "Expected both inputs to be fp8 or fp4 types but got mat_a.dtype={} and mat_b.dtype={}",
        a.torch(),
        other.torch()
    );
    let swizzled = swizzle_a.iter().chain(&swizzle_b).any(|s| *s != 0);
    ensure!(!swizzled, Value, "tpu does not support swizzle.");
    let (scale_a, scale_b) = match (&scale_a[..], &recipe_a[..], &scale_b[..], &recipe_b[..]) {
        ([s], [TENSOR_WISE], [t], [TENSOR_WISE]) => (
            one_scale(b, "a", *s, &[1, 1])?,
            one_scale(b, "b", *t, &[1, 1])?,
        ),
        ([s], [ROW_WISE], [t], [ROW_WISE]) => (
            one_scale(b, "a", *s, &[from[0], 1])?,
            one_scale(b, "b", *t, &[1, to[1]])?,
        ),
        _ => {
            return Err(Error::Torch {
                class: Class::Value,
                message: format!(
                    "Invalid scaling configuration for _scaled_mm_v2: unsupported recipe(s). Got \
                     mat_a.dtype={}, mat_b.dtype={}, recipe_a.size()={}, recipe_b.size()={}",
                    a.torch(),
                    other.torch(),
                    recipe_a.len(),
                    recipe_b.len()
                ),
            });
        }
    };
    let out = scaled_product(b, (x, mat2), (scale_a, scale_b), bias)?;
    saturated(b, out, out_dtype.unwrap_or(a))
}

/// A scale of as many elements as `dims` has, in that shape.
fn one_scale(b: &mut B, name: &str, scale: Value, dims: &[i64]) -> Result<Value> {
    let (want, got) = (dims.iter().product::<i64>(), b.ty(scale).numel());
    ensure!(
        want == got,
        Value,
        "scale_{name} must have {want} Float elements, got {got}"
    );
    Ok(b.reshape(scale, dims)?)
}
