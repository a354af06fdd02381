//! Uniform integers: `random_`.
use super::{bits, is_float, supported};
use crate::{Generator, Result, error::ensure, promote::cast};
use tpu_hlo::{Builder, DType, Value};

type B = Builder;

/// Ranges of at least this many numbers take 64 bits, so that folding them distorts little.
const WIDE: u64 = 1 << 28;

/// C++ name of an element type, as PyTorch prints it in messages about bounds.
pub(super) fn cpp_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::U16 => "short unsigned int",
        DType::I32 => "int",
        DType::U32 => "unsigned int",
        DType::I64 => "long",
        DType::U64 => "unsigned long",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::C64 => "c10::complex<float>",
        DType::C128 => "c10::complex<double>",
        other => other.torch(),
    }
}

/// Bits of the significand: integers up to `2^digits` are exact.
fn digits(dtype: DType) -> u32 {
    match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        _ => 53,
    }
}

/// The largest and smallest integer that a number of the type may be bounded by.
fn limits(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::Bool => (0, 1),
        DType::F16 => (-65504, 65504),
        d if d.is_float() => (i64::MIN, i64::MAX),
        DType::U64 => (0, i64::MAX),
        d if d.is_signed() => (i64::MIN >> (64 - d.bits()), i64::MAX >> (64 - d.bits())),
        d => (0, (1 << d.bits()) - 1),
    }
}

/// `x` rounded to `dtype`, as an integer again.
fn rounded(x: i64, dtype: DType) -> i64 {
    let drop = (64 - x.unsigned_abs().leading_zeros()).saturating_sub(digits(dtype));
    if drop == 0 {
        return x;
    }
    let (unit, magnitude) = (1u128 << drop, u128::from(x.unsigned_abs()));
    let (floor, rest) = (magnitude / unit, magnitude % unit);
    let up = rest > unit / 2 || (rest == unit / 2 && floor % 2 == 1);
    let rounded = ((floor + u128::from(up)) * unit) as i128 * i128::from(x.signum());
    rounded.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Steps `x` by one unit in the last place of `dtype`, `x` being at `near`.
fn ulp(near: i64, dtype: DType) -> i64 {
    let log2 = 63 - near.unsigned_abs().max(1).leading_zeros();
    1 << (log2 + 1).saturating_sub(digits(dtype))
}

/// The bounds moved inwards to where conversion to a float `dtype` cannot leave them.
fn inward(from: i64, to: i64, dtype: DType) -> (i64, i64) {
    let after = rounded(from.saturating_add(1), dtype);
    let from = if after < from {
        after + ulp(from + 1, dtype)
    } else {
        from
    };
    let before = rounded(to.saturating_sub(1), dtype);
    let to = if before >= to {
        before - ulp(to - 1, dtype)
    } else {
        to
    };
    (from, to)
}

fn in_limits(name: &str, x: i64, dtype: DType) -> Result<()> {
    let (low, high) = limits(dtype);
    ensure!(
        (low..=high).contains(&x),
        "{name} is out of bounds for {}",
        cpp_name(dtype)
    );
    Ok(())
}

/// `base + bits % range` in `x`'s type; a `range` of 0 stands for 2^64.
fn draw(b: &mut B, x: Value, base: i64, range: u64) -> Result<Value> {
    let (dtype, dims) = (b.dtype(x), b.dims(x));
    let wide = range == 0 || range >= WIDE;
    let word = if wide { DType::U64 } else { DType::U32 };
    let mut n = bits(b, word, &dims)?;
    if range != 0 {
        let range = b.full_like(n, range as i64);
        n = b.remainder(n, range)?;
    }
    let n = if wide {
        b.bitcast_convert(n, DType::I64)
    } else {
        b.convert(n, DType::I64)
    };
    let base = b.full_like(n, base);
    let n = b.add(n, base)?;
    Ok(cast(b, n, dtype))
}

/// Integers from 0 to the largest of the type; for floats, to the last before integers have gaps
pub(super) fn random(b: &mut B, x: Value, _: Generator) -> Result<Value> {
    let dtype = b.dtype(x);
    let known = is_float(dtype)
        || (!dtype.is_complex() && !dtype.is_float8())
            && !matches!(dtype, DType::U16 | DType::U32 | DType::U64);
    supported("random_kernel_cpu", dtype, known)?;
    let range = match dtype {
        d if d.is_float() => (1 << digits(d)) + 1,
        d => limits(d).1 as u64 + 1,
    };
    draw(b, x, 0, range)
}

/// Integers in `from..to`, or from `from` to the largest of the type
pub(super) fn random_from(
    b: &mut B,
    x: Value,
    from: i64,
    to: Option<i64>,
    _: Generator,
) -> Result<Value> {
    let dtype = b.dtype(x);
    if to.is_none() && from == i64::MIN {
        return draw(b, x, 0, 0);
    }
    if let Some(to) = to {
        ensure!(
            from < to,
            "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}"
        );
    }
    ensure!(
        !dtype.is_complex(),
        "check_random_bounds handles only integral, floating-point and boolean types"
    );
    supported("random_update_from_to", dtype, !dtype.is_float8())?;
    let (from, last) = bounds(from, to, dtype)?;
    in_limits("from", from, dtype)?;
    in_limits("to - 1", last, dtype)?;
    draw(
        b,
        x,
        from,
        (last as u64).wrapping_sub(from as u64).wrapping_add(1),
    )
}

/// The first and the last number to draw.
fn bounds(from: i64, to: Option<i64>, dtype: DType) -> Result<(i64, i64)> {
    if !dtype.is_float() {
        return Ok((from, to.map_or(limits(dtype).1, |to| to - 1)));
    }
    let Some(to) = to else {
        let last = 1 << digits(dtype);
        let (from, _) = inward(from, i64::MAX, dtype);
        ensure!(
            from < last,
            "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted \
             to dtype, but got from={from} > to_inc={last}"
        );
        return Ok((from, last));
    };
    let (from, to) = inward(from, to, dtype);
    ensure!(
        from < to,
        "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got \
         from={from} >= to={to}"
    );
    Ok((from, to - 1))
}

/// Integers in `0..to`
pub(super) fn random_to(b: &mut B, x: Value, to: i64, generator: Generator) -> Result<Value> {
    random_from(b, x, 0, Some(to), generator)
}
