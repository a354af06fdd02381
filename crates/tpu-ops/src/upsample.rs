//! Resampling of images: along one dimension after the other, by tables that are known at
//! lowering. Half-width floats and bytes are computed in float32 and rounded once.
mod grid;
mod kernel;
mod sampling;
mod table;

use crate::{Op, Result, error::ensure, op::op, promote};
use kernel::{Filter, Kernel, Resampling};
pub(crate) use table::{Table, pick};
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;

const BILINEAR_AA: Kernel = Kernel::Area(Filter::Linear);
const BICUBIC_AA: Kernel = Kernel::Area(Filter::Cubic);
const LANCZOS_AA: Kernel = Kernel::Area(Filter::Lanczos);

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_upsample_bicubic2d_aa",             aligned2(BICUBIC_AA)).keeps_format(),
    op!("_upsample_bicubic2d_aa_backward",    aligned2_backward(BICUBIC_AA)).keeps_format(),
    op!("_upsample_bilinear2d_aa",            aligned2(BILINEAR_AA)).keeps_format(),
    op!("_upsample_bilinear2d_aa_backward",   aligned2_backward(BILINEAR_AA)).keeps_format(),
    op!("_upsample_lanczos2d_aa",             aligned2(LANCZOS_AA)).keeps_format(),
    op!("_upsample_lanczos2d_aa_backward",    aligned2_backward(LANCZOS_AA)).keeps_format(),
    op!("_upsample_nearest_exact1d",          plain1(Kernel::NearestExact)),
    op!("_upsample_nearest_exact1d_backward", plain1_backward(Kernel::NearestExact)),
    op!("_upsample_nearest_exact2d",          plain2(Kernel::NearestExact)).keeps_format(),
    op!("_upsample_nearest_exact2d_backward", plain2_backward(Kernel::NearestExact)).keeps_format(),
    op!("_upsample_nearest_exact3d",          plain3(Kernel::NearestExact)).keeps_format(),
    op!("_upsample_nearest_exact3d_backward", plain3_backward(Kernel::NearestExact)).keeps_format(),
    op!("affine_grid_generator",              grid::affine_grid),
    op!("grid_sampler_2d",                    grid::sample::<2>),
    op!("grid_sampler_2d_backward",           grid::sample_backward::<2>),
    op!("grid_sampler_3d",                    grid::sample::<3>),
    op!("grid_sampler_3d_backward",           grid::sample_backward::<3>),
    op!("upsample_bicubic2d",                 aligned2(Kernel::Cubic)).keeps_format(),
    op!("upsample_bicubic2d_backward",        aligned2_backward(Kernel::Cubic)).keeps_format(),
    op!("upsample_bilinear2d",                aligned2(Kernel::Linear)).keeps_format(),
    op!("upsample_bilinear2d_backward",       aligned2_backward(Kernel::Linear)).keeps_format(),
    op!("upsample_linear1d",                  aligned1(Kernel::Linear)),
    op!("upsample_linear1d_backward",         aligned1_backward(Kernel::Linear)),
    op!("upsample_nearest1d",                 plain1(Kernel::Nearest)),
    op!("upsample_nearest1d_backward",        plain1_backward(Kernel::Nearest)),
    op!("upsample_nearest2d",                 plain2(Kernel::Nearest)).keeps_format(),
    op!("upsample_nearest2d_backward",        plain2_backward(Kernel::Nearest)).keeps_format(),
    op!("upsample_nearest3d",                 plain3(Kernel::Nearest)).keeps_format(),
    op!("upsample_nearest3d_backward",        plain3_backward(Kernel::Nearest)).keeps_format(),
    op!("upsample_trilinear3d",               aligned3(Kernel::Linear)).keeps_format(),
    op!("upsample_trilinear3d_backward",      aligned3_backward(Kernel::Linear)).keeps_format(),
];

type Factor = Option<f64>;

/// Rows without `align_corners`, by number of dimensions; then their gradients.
const fn plain1(k: Kernel) -> impl Fn(&mut B, Value, Dims, Factor) -> Result<Value> + Sync + Copy {
    move |b, x, out, w| forward(b, k, x, &out, false, &[w])
}

const fn plain2(
    k: Kernel,
) -> impl Fn(&mut B, Value, Dims, Factor, Factor) -> Result<Value> + Sync + Copy {
    move |b, x, out, h, w| forward(b, k, x, &out, false, &[h, w])
}

const fn plain3(
    k: Kernel,
) -> impl Fn(&mut B, Value, Dims, Factor, Factor, Factor) -> Result<Value> + Sync + Copy {
    move |b, x, out, d, h, w| forward(b, k, x, &out, false, &[d, h, w])
}

const fn plain1_backward(
    k: Kernel,
) -> impl Fn(&mut B, Value, Dims, Dims, Factor) -> Result<Value> + Sync + Copy {
    move |b, g, out, input, w| backward(b, k, g, &out, &input, false, &[w])
}

const fn plain2_backward(
    k: Kernel,
) -> impl Fn(&mut B, Value, Dims, Dims, Factor, Factor) -> Result<Value> + Sync + Copy {
    move |b, g, out, input, h, w| backward(b, k, g, &out, &input, false, &[h, w])
}

const fn plain3_backward(
    k: Kernel,
) -> impl Fn(&mut B, Value, Dims, Dims, Factor, Factor, Factor) -> Result<Value> + Sync + Copy {
    move |b, g, out, input, d, h, w| backward(b, k, g, &out, &input, false, &[d, h, w])
}

/// Rows with `align_corners`, by number of dimensions; then their gradients.
const fn aligned1(
    k: Kernel,
) -> impl Fn(&mut B, Value, Dims, bool, Factor) -> Result<Value> + Sync + Copy {
    move |b, x, out, align, w| forward(b, k, x, &out, align, &[w])
}

const fn aligned2(
    k: Kernel,
) -> impl Fn(&mut B, Value, Dims, bool, Factor, Factor) -> Result<Value> + Sync + Copy {
    move |b, x, out, align, h, w| forward(b, k, x, &out, align, &[h, w])
}

const fn aligned3(
    k: Kernel,
) -> impl Fn(&mut B, Value, Dims, bool, Factor, Factor, Factor) -> Result<Value> + Sync + Copy {
    move |b, x, out, align, d, h, w| forward(b, k, x, &out, align, &[d, h, w])
}

const fn aligned1_backward(
    k: Kernel,
) -> impl Fn(&mut B, Value, Dims, Dims, bool, Factor) -> Result<Value> + Sync + Copy {
    move |b, g, out, input, align, w| backward(b, k, g, &out, &input, align, &[w])
}

const fn aligned2_backward(
    k: Kernel,
) -> impl Fn(&mut B, Value, Dims, Dims, bool, Factor, Factor) -> Result<Value> + Sync + Copy {
    move |b, g, out, input, align, h, w| backward(b, k, g, &out, &input, align, &[h, w])
}

const fn aligned3_backward(
    k: Kernel,
) -> impl Fn(&mut B, Value, Dims, Dims, bool, Factor, Factor, Factor) -> Result<Value> + Sync + Copy
{
    move |b, g, out, input, align, d, h, w| backward(b, k, g, &out, &input, align, &[d, h, w])
}

/// Sizes as `H: 2, W: 3`.
fn labelled(sizes: &[i64]) -> String {
    let names = &["D", "H", "W"][3 - sizes.len()..];
    let all = names
        .iter()
        .zip(sizes)
        .map(|(name, n)| format!("{name}: {n}"));
    all.collect::<Vec<_>>().join(", ")
}

fn sizes_fit(input: &[i64], out: &[i64], n: usize) -> Result<()> {
    ensure!(
        out.len() == n,
        "It is expected output_size equals to {n}, but got size {}",
        out.len()
    );
    ensure!(
        input.len() == n + 2,
        "It is expected input_size equals to {}, but got size {}",
        n + 2,
        input.len()
    );
    let spatial = &input[2..];
    ensure!(
        spatial.iter().chain(out).all(|n| *n > 0),
        "Input and output sizes should be greater than 0, but got input ({}) output ({})",
        labelled(spatial),
        labelled(out)
    );
    ensure!(
        input[1] > 0,
        "Non-empty {}D data tensor expected but got a tensor with sizes {input:?}",
        n + 2
    );
    Ok(())
}

/// Whether the image stays as it is whatever the factors: PyTorch's exception for nearest elements
/// in two dimensions.
fn keeps(kernel: Kernel, input: &[i64], out: &[i64]) -> bool {
    let nearest = matches!(kernel, Kernel::Nearest | Kernel::NearestExact);
    nearest && out.len() == 2 && input[2..] == *out
}

/// `[N, C, ...]` resampled to `[N, C, out...]`, the innermost dimension first.
fn forward(
    b: &mut B,
    kernel: Kernel,
    x: Value,
    out: &[i64],
    align_corners: bool,
    factors: &[Factor],
) -> Result<Value> {
    let (dtype, dims) = (b.dtype(x), b.dims(x));
    sizes_fit(&dims, out, factors.len())?;
    if keeps(kernel, &dims, out) {
        return Ok(x);
    }
    let copies = matches!(kernel, Kernel::Nearest | Kernel::NearestExact);
    let mut y = if copies { x } else { to_compute(b, x)? };
    for i in (0..factors.len()).rev() {
        let sizes = (dims[i + 2], out[i]);
        let along = Resampling::new(dtype, sizes, align_corners, factors[i]);
        y = along.table(kernel).apply(b, y, i as i64 + 2)?;
    }
    from_compute(b, y, dtype)
}

/// The gradient of [`forward`].
fn backward(
    b: &mut B,
    kernel: Kernel,
    grad: Value,
    out: &[i64],
    input: &[i64],
    align_corners: bool,
    factors: &[Factor],
) -> Result<Value> {
    sizes_fit(input, out, factors.len())?;
    let (dtype, got) = (b.dtype(grad), b.dims(grad));
    let want: Dims = input[..2].iter().chain(out).copied().collect();
    ensure!(
        got == want,
        "Expected grad_output to have the same shape as output; output.size() = {:?} but got \
         grad_output.size() = {:?}",
        want.as_slice(),
        got.as_slice()
    );
    if keeps(kernel, input, out) {
        return Ok(grad);
    }
    let mut g = to_compute(b, grad)?;
    for i in 0..factors.len() {
        let sizes = (input[i + 2], out[i]);
        let along = Resampling::new(dtype, sizes, align_corners, factors[i]);
        g = along.table(kernel).transposed().apply(b, g, i as i64 + 2)?;
    }
    from_compute(b, g, dtype)
}

/// Bytes become float32, half-width floats too.
fn to_compute(b: &mut B, x: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    ensure!(
        dtype.is_float() || dtype == DType::U8,
        NotImplemented,
        "\"upsample\" not implemented for '{}'",
        dtype.torch()
    );
    if dtype == DType::U8 {
        return Ok(b.convert(x, DType::F32));
    }
    Ok(promote::widen(b, x))
}

/// Bytes are rounded to nearest and kept in range.
fn from_compute(b: &mut B, x: Value, dtype: DType) -> Result<Value> {
    if dtype != DType::U8 || b.dtype(x) == DType::U8 {
        return Ok(b.convert(x, dtype));
    }
    let x = b.round_nearest_even(x);
    let (low, high) = (b.full_like(x, 0), b.full_like(x, 255));
    let x = b.maximum(x, low)?;
    let x = b.minimum(x, high)?;
    Ok(b.convert(x, dtype))
}

#[cfg(test)]
mod tests;
