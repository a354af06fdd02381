//! Fourier transforms.
use crate::{Op, OutDtype, Result, check, error::ensure, op::op};
use tpu_hlo::{Builder, DType, Dims, Type, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_fft_c2c", c2c).out(OutDtype::Cast),
    op!("_fft_c2r", c2r).out(OutDtype::Cast),
    op!("_fft_r2c", r2c).out(OutDtype::Cast),
];

/// Most dimensions that one `stablehlo.fft` transforms.
const MOST: usize = 3;

/// The transformed dimensions counted from the front.
fn axes(b: &B, x: Value, dim: &[i64]) -> Result<Dims> {
    let rank = b.rank(x);
    dim.iter().map(|d| check::dim(*d, rank)).collect()
}

/// How PyTorch scales a transform of `n` elements: 0 not at all, 1 by the root, 2 by the number.
fn factor(normalization: i64, n: f64) -> Result<f64> {
    match normalization {
        0 => Ok(1.0),
        1 => Ok(1.0 / n.sqrt()),
        2 => Ok(1.0 / n),
        _ => Err(crate::Error::runtime(format!(
            "Unsupported normalization type {normalization}"
        ))),
    }
}

fn scaled(b: &mut B, x: Value, factor: f64) -> Result<Value> {
    if factor == 1.0 {
        return Ok(x);
    }
    let factor = b.full_like(x, factor);
    Ok(b.multiply(x, factor)?)
}

/// The permutation that brings `axes` to the end, in their order, and its inverse.
fn to_end(rank: usize, axes: &[i64]) -> (Dims, Dims) {
    let mut there: Dims = (0..rank as i64).filter(|d| !axes.contains(d)).collect();
    there.extend_from_slice(axes);
    let mut back: Dims = there.clone();
    for (i, d) in there.iter().enumerate() {
        back[*d as usize] = i as i64;
    }
    (there, back)
}

/// One `stablehlo.fft` over up to three `axes`; a real result's last axis has `last` elements.
fn transform(b: &mut B, x: Value, kind: &str, axes: &[i64], last: Option<i64>) -> Result<Value> {
    let (there, back) = to_end(b.rank(x), axes);
    let x = b.transpose(x, &there)?;
    let mut dims = b.dims(x);
    let end = dims.len() - 1;
    let mut length: Dims = dims[dims.len() - axes.len()..].into();
    let mut dtype = b.dtype(x).complex();
    match (kind, last) {
        ("RFFT", _) => dims[end] = dims[end] / 2 + 1,
        ("IRFFT", Some(last)) => {
            (dims[end], length[axes.len() - 1]) = (last, last);
            dtype = dtype.real();
        }
        _ => {}
    }
    let y = b.fft(x, kind, &length, Type::new(dtype, &dims));
    Ok(b.transpose(y, &back)?)
}

/// Complex transforms of all `axes`, a few at a time.
fn complex(b: &mut B, x: Value, axes: &[i64], kind: &str) -> Result<Value> {
    axes.chunks(MOST)
        .try_fold(x, |x, group| transform(b, x, kind, group, None))
}

fn only_complex(b: &B, x: Value) -> Result<()> {
    let dtype = b.dtype(x);
    ensure!(
        dtype.is_complex(),
        "Only supports complex dtypes, but found: {}",
        dtype.torch()
    );
    Ok(())
}

/// Complex to complex over `dim`, forward or back
fn c2c(b: &mut B, x: Value, dim: Dims, normalization: i64, forward: bool) -> Result<Value> {
    only_complex(b, x)?;
    let axes = axes(b, x, &dim)?;
    let n: f64 = axes.iter().map(|a| b.dims(x)[*a as usize] as f64).product();
    let scale = factor(normalization, n)?;
    if axes.is_empty() || b.ty(x).numel() == 0 {
        return Ok(x);
    }
    // `IFFT` divides by the number of elements.
    let (kind, scale) = if forward {
        ("FFT", scale)
    } else {
        ("IFFT", scale * n)
    };
    let y = complex(b, x, &axes, kind)?;
    scaled(b, y, scale)
}

/// Real to complex over `dim`; of the last one either all frequencies or the first half
fn r2c(b: &mut B, x: Value, dim: Dims, normalization: i64, onesided: bool) -> Result<Value> {
    let dtype = b.dtype(x);
    ensure!(
        dtype.is_float(),
        Type,
        "Only supports floating-point dtypes, but found: {}",
        dtype.torch()
    );
    let wide = matches!(dtype, DType::F32 | DType::F64);
    ensure!(wide, NotImplemented, "Unsupported dtype {}", dtype.torch());
    let axes = axes(b, x, &dim)?;
    let n: f64 = axes.iter().map(|a| b.dims(x)[*a as usize] as f64).product();
    let scale = factor(normalization, n)?;
    let Some((last, rest)) = axes.split_last() else {
        return Err(crate::Error::runtime(
            "a real transform needs at least one dimension",
        ));
    };
    if !onesided || b.ty(x).numel() == 0 {
        let size = b.dims(x)[*last as usize];
        let x = b.convert(x, dtype.complex());
        let y = c2c(b, x, dim, normalization, true)?;
        let kept = if onesided { size / 2 + 1 } else { size };
        return Ok(b.slice_dim(y, *last, 0, kept)?);
    }
    let y = transform(b, x, "RFFT", &[*last], None)?;
    let y = complex(b, y, rest, "FFT")?;
    scaled(b, y, scale)
}

/// Complex to real over `dim`, back from the first half of the last dimension's frequencies
fn c2r(b: &mut B, x: Value, dim: Dims, normalization: i64, last_dim_size: i64) -> Result<Value> {
    only_complex(b, x)?;
    let axes = axes(b, x, &dim)?;
    let Some((last, rest)) = axes.split_last() else {
        return Err(crate::Error::runtime(
            "a real transform needs at least one dimension",
        ));
    };
    let others: f64 = rest.iter().map(|a| b.dims(x)[*a as usize] as f64).product();
    let n = others * last_dim_size as f64;
    let scale = factor(normalization, n)? * n;
    let half = last_dim_size / 2 + 1;
    ensure!(
        b.dims(x)[*last as usize] >= half,
        "Expected the signal to have at least {half} frequencies in dimension {last}, got {}",
        b.dims(x)[*last as usize]
    );
    let x = b.slice_dim(x, *last, 0, half)?;
    if b.ty(x).numel() == 0 {
        let mut dims = b.dims(x);
        dims[*last as usize] = last_dim_size;
        return Ok(b.full(0, b.dtype(x).real(), &dims));
    }
    let x = complex(b, x, rest, "IFFT")?;
    let y = transform(b, x, "IRFFT", &[*last], Some(last_dim_size))?;
    scaled(b, y, scale)
}
