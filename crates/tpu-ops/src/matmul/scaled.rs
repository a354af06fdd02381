//! Products of narrow types with scales.
use super::{dims, matrices_fit, product};
use crate::{Ignored, Result, error::ensure, promote};
use tpu_hlo::{Builder, DType, Value};

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
    // Eight-bit floats of two formats may meet; in float32 both are exact.
    let (x, mat2) = (promote::widen(b, x), promote::widen(b, mat2));
    let out = product(b, x, mat2, &dims(&[], &[(1, 0)]))?;
    let out = rescale(b, out, scale_a)?;
    let mut out = rescale(b, out, scale_b)?;
    if let Some(bias) = bias {
        let bias = b.convert(bias, b.dtype(out));
        let bias = b.broadcast(bias, &b.dims(out))?;
        out = b.add(out, bias)?;
    }
    if let Some(scale) = scale_result.filter(|_| out_dtype.is_float8()) {
        out = rescale(b, out, scale)?;
    }
    Ok(b.convert(out, out_dtype))
}
