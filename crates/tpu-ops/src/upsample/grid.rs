//! Sampling of images at the points of a grid.
use super::sampling::{Axis, Interpolation, Outside, Tap, Taps};
use crate::{Error, Result, error::ensure, promote};
use tpu_hlo::{Builder, DType, Dims, GatherDims, ScatterDims, Value};

type B = Builder;

/// Images `[N, C, elements]`, points `[N, points]`.
struct Sampler {
    n: i64,
    channels: i64,
    elements: i64,
    points: i64,
    axes: Vec<Axis>,
    interpolation: Interpolation,
}

fn modes(interpolation: i64, padding: i64) -> Result<(Interpolation, Outside)> {
    let interpolation = match interpolation {
        0 => Interpolation::Linear,
        1 => Interpolation::Nearest,
        2 => Interpolation::Cubic,
        other => {
            return Err(Error::runtime(format!(
                "unknown interpolation mode {other}"
            )));
        }
    };
    let outside = match padding {
        0 => Outside::Zeros,
        1 => Outside::Border,
        2 => Outside::Reflection,
        other => return Err(Error::runtime(format!("unknown padding mode {other}"))),
    };
    Ok((interpolation, outside))
}

/// An element of an image and its weight: a tap of every dimension.
struct Corner<'a> {
    taps: Vec<&'a Tap>,
    /// Which element, `[N, points, 1]`.
    index: Value,
    /// Whether there is one.
    there: Value,
}

impl Sampler {
    fn new<const N: usize>(
        b: &B,
        input: Value,
        grid: Value,
        (interpolation, padding): (i64, i64),
        align_corners: bool,
    ) -> Result<Self> {
        let (x, g) = (b.dims(input), b.dims(grid));
        let (interpolation, outside) = modes(interpolation, padding)?;
        ensure!(
            x.len() == N + 2 && g.len() == N + 2 && x[0] == g[0] && g[N + 1] == N as i64,
            "grid_sampler(): expected grid and input to have same batch size and {N} spatial \
             dimensions, but got input with sizes {:?} and grid with sizes {:?}",
            x.as_slice(),
            g.as_slice()
        );
        ensure!(
            x[2..].iter().all(|n| *n > 0),
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has \
             sizes {:?}",
            x.as_slice()
        );
        ensure!(
            N == 2 || interpolation != Interpolation::Cubic,
            "grid_sampler(): bicubic interpolation only supports 4D input"
        );
        let axes = x[2..].iter().map(|&size| Axis {
            size,
            align_corners,
            outside,
        });
        Ok(Self {
            n: x[0],
            channels: x[1],
            elements: x[2..].iter().product(),
            points: g[1..=N].iter().product(),
            axes: axes.collect(),
            interpolation,
        })
    }

    /// Taps of every dimension; the grid's last dimension starts with the innermost one.
    fn taps(&self, b: &mut B, grid: Value) -> Result<Vec<Taps>> {
        let rank = self.axes.len() as i64;
        let grid = b.reshape(grid, &[self.n, self.points, rank])?;
        let mut all = Vec::new();
        for (i, axis) in self.axes.iter().enumerate() {
            let from = rank - 1 - i as i64;
            let x = b.slice_dim(grid, 2, from, from + 1)?;
            let x = b.reshape(x, &[self.n, self.points])?;
            all.push(axis.taps(b, x, self.interpolation)?);
        }
        Ok(all)
    }

    /// Every combination of taps.
    fn corners<'a>(&self, b: &mut B, taps: &'a [Taps]) -> Result<Vec<Corner<'a>>> {
        let count: usize = taps.iter().map(|t| t.taps.len()).product();
        (0..count).map(|flat| self.corner(b, taps, flat)).collect()
    }

    fn corner<'a>(&self, b: &mut B, all: &'a [Taps], mut flat: usize) -> Result<Corner<'a>> {
        let mut taps = Vec::new();
        for t in all.iter().rev() {
            taps.insert(0, &t.taps[flat % t.taps.len()]);
            flat /= t.taps.len();
        }
        let dims = [self.n, self.points];
        let (mut index, mut there) = (
            b.full(0, DType::I32, &dims),
            b.full(true, DType::Bool, &dims),
        );
        for (axis, tap) in self.axes.iter().zip(&taps) {
            let inside = axis.contains(b, tap.at)?;
            there = b.and(there, inside)?;
            let zero = b.full_like(tap.at, 0);
            let at = b.select(inside, tap.at, zero)?;
            let at = b.convert(at, DType::I32);
            let size = b.full_like(index, axis.size);
            index = b.multiply(index, size)?;
            index = b.add(index, at)?;
        }
        let index = b.reshape(index, &[self.n, self.points, 1])?;
        Ok(Corner { taps, index, there })
    }

    /// `[N, points]` as `[N, C, points]`.
    fn per_channel(&self, b: &mut B, x: Value) -> Result<Value> {
        Ok(b.broadcast_in_dim(x, &[self.n, self.channels, self.points], &[0, 2])?)
    }

    /// The elements of a corner, `[N, C, points]`, zero where there are none.
    fn read(&self, b: &mut B, image: Value, corner: &Corner<'_>) -> Result<Value> {
        let numbers = GatherDims {
            offset_dims: [1].as_slice().into(),
            collapsed_slice_dims: [2].as_slice().into(),
            operand_batching_dims: [0].as_slice().into(),
            start_indices_batching_dims: [0].as_slice().into(),
            start_index_map: [2].as_slice().into(),
            index_vector_dim: 2,
        };
        let found = b.gather(image, corner.index, &numbers, &[1, self.channels, 1])?;
        self.keep(b, found, corner)
    }

    /// `x` where the corner has an element, else zero.
    fn keep(&self, b: &mut B, x: Value, corner: &Corner<'_>) -> Result<Value> {
        let there = self.per_channel(b, corner.there)?;
        let zeros = b.full_like(x, 0);
        Ok(b.select(there, x, zeros)?)
    }

    fn image(&self, b: &mut B, input: Value) -> Result<Value> {
        let input = promote::widen(b, input);
        Ok(b.reshape(input, &[self.n, self.channels, self.elements])?)
    }

    /// The gradient for the image: every corner gets its share of the gradient.
    fn image_gradient(&self, b: &mut B, corners: &[Corner<'_>], grad: Value) -> Result<Value> {
        let (mut shares, mut indices) = (Vec::new(), Vec::new());
        for corner in corners {
            let weight = weight(b, &corner.taps, None)?;
            let weight = self.per_channel(b, weight)?;
            let share = b.multiply(grad, weight)?;
            shares.push(self.keep(b, share, corner)?);
            indices.push(corner.index);
        }
        let shares = b.concatenate(&shares, 2)?;
        let indices = b.concatenate(&indices, 1)?;
        let numbers = ScatterDims {
            update_window_dims: [1].as_slice().into(),
            inserted_window_dims: [2].as_slice().into(),
            input_batching_dims: [0].as_slice().into(),
            scatter_indices_batching_dims: [0].as_slice().into(),
            scatter_dims_to_operand_dims: [2].as_slice().into(),
            index_vector_dim: 2,
        };
        let empty = b.full(0, b.dtype(grad), &[self.n, self.channels, self.elements]);
        Ok(b.scatter(empty, indices, shares, &numbers, false, B::add)?)
    }

    /// The gradient for the grid, `[N, points, dimensions]`.
    fn grid_gradient(
        &self,
        b: &mut B,
        all: &[Taps],
        corners: &[Corner<'_>],
        (grad, image): (Value, Value),
    ) -> Result<Value> {
        let mut parts = vec![b.full(0, b.dtype(grad), &[self.n, self.points]); all.len()];
        for corner in corners {
            let found = self.read(b, image, corner)?;
            let products = b.multiply(found, grad)?;
            let effect = b.sum(products, &[1])?;
            for (i, part) in parts.iter_mut().enumerate() {
                let slope = weight(b, &corner.taps, Some(i))?;
                let change = b.multiply(effect, slope)?;
                *part = b.add(*part, change)?;
            }
        }
        for (part, taps) in parts.iter_mut().zip(all) {
            *part = b.multiply(*part, taps.stretch)?;
            *part = b.reshape(*part, &[self.n, self.points, 1])?;
        }
        parts.reverse();
        Ok(b.concatenate(&parts, 2)?)
    }
}

/// The product of the taps' weights, or its derivative by coordinate `by`.
fn weight(b: &mut B, taps: &[&Tap], by: Option<usize>) -> Result<Value> {
    let factor = |(i, tap): (usize, &&Tap)| if by == Some(i) { tap.slope } else { tap.weight };
    let factors: Vec<Value> = taps.iter().enumerate().map(factor).collect();
    let mut product = factors[0];
    for factor in &factors[1..] {
        product = b.multiply(product, *factor)?;
    }
    Ok(product)
}

/// Samples of `[N, C, ...]` at the points of `[N, ..., dimensions]`: `[N, C, ...]`.
pub(super) fn sample<const N: usize>(
    b: &mut B,
    input: Value,
    grid: Value,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Value> {
    let modes = (interpolation_mode, padding_mode);
    let sampler = Sampler::new::<N>(b, input, grid, modes, align_corners)?;
    let (dtype, g) = (b.dtype(input), b.dims(grid));
    let image = sampler.image(b, input)?;
    let grid = b.convert(grid, b.dtype(image));
    let taps = sampler.taps(b, grid)?;
    let mut sum = b.full(
        0,
        b.dtype(image),
        &[sampler.n, sampler.channels, sampler.points],
    );
    for corner in sampler.corners(b, &taps)? {
        let found = sampler.read(b, image, &corner)?;
        let weight = weight(b, &corner.taps, None)?;
        let weight = sampler.per_channel(b, weight)?;
        let share = b.multiply(found, weight)?;
        sum = b.add(sum, share)?;
    }
    let mut dims: Dims = [sampler.n, sampler.channels].as_slice().into();
    dims.extend_from_slice(&g[1..=N]);
    let out = b.reshape(sum, &dims)?;
    Ok(b.convert(out, dtype))
}

/// Gradients of [`sample`] for input and grid.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn sample_backward<const N: usize>(
    b: &mut B,
    grad_output: Value,
    input: Value,
    grid: Value,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
    output_mask: Vec<bool>,
) -> Result<(Value, Value)> {
    let modes = (interpolation_mode, padding_mode);
    let sampler = Sampler::new::<N>(b, input, grid, modes, align_corners)?;
    let (dtype, x, g) = (b.dtype(input), b.dims(input), b.dims(grid));
    let image = sampler.image(b, input)?;
    let wide = b.dtype(image);
    let (grid, grad) = (b.convert(grid, wide), b.convert(grad_output, wide));
    let grad = b.reshape(grad, &[sampler.n, sampler.channels, sampler.points])?;
    let taps = sampler.taps(b, grid)?;
    let corners = sampler.corners(b, &taps)?;
    let grad_input = if output_mask[0] {
        let out = sampler.image_gradient(b, &corners, grad)?;
        let out = b.convert(out, dtype);
        b.reshape(out, &x)?
    } else {
        b.undefined()
    };
    let grad_grid = if output_mask[1] {
        let out = sampler.grid_gradient(b, &taps, &corners, (grad, image))?;
        let out = b.convert(out, dtype);
        b.reshape(out, &g)?
    } else {
        b.undefined()
    };
    Ok((grad_input, grad_grid))
}

/// Numbers that span `-1..1`, ends included with `align_corners`, else inset by half a step.
fn span(n: i64, align_corners: bool) -> Vec<f64> {
    let inset = if align_corners {
        1.0
    } else {
        (n - 1) as f64 / n as f64
    };
    let at = |i: i64| {
        if n <= 1 {
            0.0
        } else {
            (2 * i - (n - 1)) as f64 / (n - 1) as f64
        }
    };
    (0..n).map(|i| at(i) * inset).collect()
}

/// The grid of an affine map: `theta` `[N, D, D + 1]` on the coordinates of images of `size`
/// `[N, C, ...]`, as `[N, ..., D]`.
pub(super) fn affine_grid(
    b: &mut B,
    theta: Value,
    size: Dims,
    align_corners: bool,
) -> Result<Value> {
    let rank = size.len();
    ensure!(
        rank == 4 || rank == 5,
        "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs."
    );
    let d = rank as i64 - 2;
    let given = b.dims(theta);
    ensure!(
        given.as_slice() == [size[0], d, d + 1],
        "Expected a batch of affine matrices of shape {:?} for size {:?}. Got {:?}.",
        [size[0], d, d + 1],
        size.as_slice(),
        given.as_slice()
    );
    let dtype = b.dtype(theta);
    let theta = promote::widen(b, theta);
    let wide = b.dtype(theta);
    let mut dims: Dims = [size[0]].as_slice().into();
    dims.extend_from_slice(&size[2..]);
    dims.push(d);
    let column = |b: &mut B, k: i64| -> Result<Value> {
        let column = b.slice_dim(theta, 2, k, k + 1)?;
        let column = b.reshape(column, &[size[0], d])?;
        Ok(b.broadcast_in_dim(column, &dims, &[0, d + 1])?)
    };
    let mut sum = column(b, d)?;
    for k in 0..d {
        let axis = d - k;
        let along = b.constant_floats(&span(size[axis as usize + 1], align_corners), wide);
        let along = b.broadcast_in_dim(along, &dims, &[axis])?;
        let column = column(b, k)?;
        let term = b.multiply(along, column)?;
        sum = b.add(sum, term)?;
    }
    Ok(b.convert(sum, dtype))
}
