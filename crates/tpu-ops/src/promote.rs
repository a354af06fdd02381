//! PyTorch's type promotion, broadcasting and casts, once.
use crate::{Result, error::ensure};
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

/// Result type of two tensors of the same category: c10's `promoteTypes`.
///
/// # Errors
/// Unsigned types wider than 8 bits and 8-bit floats promote with nothing but themselves.
pub fn promote_types(a: DType, b: DType) -> Result<DType> {
    use DType::{BF16, Bool, C64, C128, F16, F32, F64, U8, U16, U32, U64};
    if a == b {
        return Ok(a);
    }
    let narrow = |t: DType| t.is_float8() || matches!(t, U16 | U32 | U64);
    if narrow(a) || narrow(b) {
        let (n, other) = if narrow(a) { (a, b) } else { (b, a) };
        if !n.is_float8() && (other.is_float() || other.is_complex()) && !other.is_float8() {
            return Ok(other);
        }
        if other == Bool {
            return Ok(n);
        }
        let (x, y) = (a.torch(), b.torch());
        ensure!(
            false,
            "Promotion for {x} and {y} is not supported, attempted to promote {x} and {y}"
        );
    }
    let rank = |t: DType| match t {
        Bool => 0,
        t if t.is_int() => 1,
        t if t.is_float() => 2,
        _ => 3,
    };
    let (lo, hi) = if (rank(a), a.size()) <= (rank(b), b.size()) {
        (a, b)
    } else {
        (b, a)
    };
    Ok(match (lo, hi) {
        (U8, hi) if hi.is_int() && hi.size() == 1 => DType::I16,
        (F16, BF16) | (BF16, F16) => F32,
        (F64, C64) => C128,
        (_, hi) if hi.is_complex() => hi,
        (lo, hi) if rank(lo) < rank(hi) => hi,
        (lo, hi) if lo.is_int() && hi.is_int() && lo == U8 && hi.size() > 1 => hi,
        (_, hi) => hi,
    })
}

/// Result type of operands by PyTorch's three categories: tensors with dimensions beat
/// 0-dimensional tensors, those beat numbers, unless the lower one is of a higher kind
/// (boolean < integer < float < complex).
pub fn result_type(b: &Builder, xs: &[Value]) -> Result<DType> {
    let (mut dim, mut zero, mut wrapped) = (None, None, None);
    for &x in xs {
        let dtype = b.dtype(x);
        let (category, dtype) = if b.is_weak(x) {
            (&mut wrapped, default_of(b, dtype))
        } else if b.rank(x) == 0 {
            (&mut zero, dtype)
        } else {
            (&mut dim, dtype)
        };
        *category = Some(match *category {
            None => dtype,
            Some(known) => promote_types(known, dtype)?,
        });
    }
    combine(combine(dim, zero)?, wrapped)?
        .ok_or_else(|| crate::Error::runtime("at least one tensor is needed to find a result type"))
}

/// A Python float counts as the default dtype, a Python complex as its complex.
fn default_of(b: &Builder, dtype: DType) -> DType {
    match dtype {
        DType::F64 => b.settings.default_dtype,
        DType::C128 => b.settings.default_dtype.complex(),
        other => other,
    }
}

fn combine(higher: Option<DType>, lower: Option<DType>) -> Result<Option<DType>> {
    let kind = |t: DType| match t {
        DType::Bool => 0,
        t if t.is_int() => 1,
        t if t.is_float() => 2,
        _ => 3,
    };
    Ok(match (higher, lower) {
        (None, lower) => lower,
        (higher, None) => higher,
        (Some(h), Some(l)) if kind(h) >= kind(l) => Some(h),
        (Some(h), Some(l)) if kind(l) == 3 && kind(h) == 2 => Some(h.complex()),
        (Some(h), Some(l)) => Some(promote_types(h, l)?),
    })
}

/// The broadcast shape of several shapes.
///
/// # Errors
/// PyTorch's `The size of tensor a (..) must match the size of tensor b (..)`.
pub fn broadcast_shapes(shapes: &[&[i64]]) -> Result<Dims> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut out: Dims = (0..rank).map(|_| 1).collect();
    for shape in shapes {
        let shift = rank - shape.len();
        for (i, &n) in shape.iter().enumerate() {
            let known = &mut out[shift + i];
            ensure!(
                *known == n || *known == 1 || n == 1,
                "The size of tensor a ({known}) must match the size of tensor b ({n}) at \
                 non-singleton dimension {}",
                shift + i
            );
            if *known == 1 {
                *known = n;
            }
        }
    }
    Ok(out)
}

/// Converts with PyTorch's semantics: to `Bool` by "differs from zero", float to integer by
/// cutting off the fraction and wrapping, complex to real by dropping the imaginary part.
pub fn cast(b: &mut Builder, x: Value, to: DType) -> Value {
    let from = b.dtype(x);
    if from == to || (b.is_weak(x) && !from.is_complex()) {
        return b.convert(x, to);
    }
    if to == DType::Bool {
        let zero = b.full_like(x, 0);
        // Both operands are of x's type, so that compare cannot fail.
        return b.compare(x, Direction::NE, zero).unwrap_or(x);
    }
    if from.is_complex() && !to.is_complex() {
        let re = b.real(x);
        return cast(b, re, to);
    }
    if from.is_float() && to.is_int() && to.size() < 8 {
        let wide = if to.size() < 4 {
            DType::I32
        } else {
            DType::I64
        };
        let x = b.convert(x, wide);
        return b.convert(x, to);
    }
    if !from.is_complex() && to.is_complex() && from != to.real() {
        let re = b.convert(x, to.real());
        return b.convert(re, to);
    }
    b.convert(x, to)
}

/// Casts all to their common type and broadcasts them to their common shape.
pub fn together(b: &mut Builder, xs: &[Value]) -> Result<Vec<Value>> {
    let dtype = result_type(b, xs)?;
    together_as(b, xs, dtype)
}

/// Casts all to `dtype` and broadcasts them to their common shape.
pub fn together_as(b: &mut Builder, xs: &[Value], dtype: DType) -> Result<Vec<Value>> {
    let shapes: Vec<Dims> = xs.iter().map(|x| b.dims(*x)).collect();
    let refs: Vec<&[i64]> = shapes.iter().map(|s| s.as_slice()).collect();
    let dims = broadcast_shapes(&refs)?;
    xs.iter()
        .map(|x| {
            let x = cast(b, *x, dtype);
            Ok(b.broadcast(x, &dims)?)
        })
        .collect()
}

/// Two operands promoted and broadcast.
pub fn pair(b: &mut Builder, x: Value, y: Value) -> Result<(Value, Value)> {
    let both = together(b, &[x, y])?;
    Ok((both[0], both[1]))
}

/// The dtype that float ops compute a tensor of `dtype` in: integers and `Bool` become the
/// default dtype.
pub fn float_of(b: &Builder, dtype: DType) -> DType {
    if dtype.is_float() || dtype.is_complex() {
        dtype
    } else {
        b.settings.default_dtype
    }
}

/// Casts integers and `Bool` to the default dtype.
pub fn float(b: &mut Builder, x: Value) -> Value {
    let dtype = float_of(b, b.dtype(x));
    cast(b, x, dtype)
}

/// PyTorch's opmath type: half-width floats are computed in float32.
pub fn opmath(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        t if t.is_float8() => DType::F32,
        other => other,
    }
}

/// Casts to the opmath type; cast the result back with [`cast`].
pub fn widen(b: &mut Builder, x: Value) -> Value {
    let dtype = opmath(b.dtype(x));
    b.convert(x, dtype)
}

/// A run-time number as a scalar of `dtype`, broadcast to `like`'s shape.
pub fn scalar_like(b: &mut Builder, n: Value, like: Value) -> Result<Value> {
    let n = cast(b, n, b.dtype(like));
    Ok(b.broadcast(n, &b.dims(like))?)
}
