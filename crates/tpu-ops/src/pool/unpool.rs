//! The inverse of max pooling, and pooling over windows that lie at random.
use super::max::{Found, follow, larger, position_type, scatter};
use super::windows::split;
use crate::{Result, check, error::ensure, promote};
use tpu_hlo::{Builder, DType, Dims, GatherDims, Value};

type B = Builder;

/// Puts every element of `self` at its position in the flattened plane; the rest is zero.
fn unpool<const N: usize>(b: &mut B, x: Value, indices: Value, output_size: Dims) -> Result<Value> {
    let (from, at, rank) = (b.dims(x), b.dims(indices), b.rank(x));
    let dtype = b.dtype(indices);
    ensure!(
        dtype == DType::I64,
        "elements in indices should be type int64 but got: {}",
        dtype.torch()
    );
    let (few, many) = (N + 1, N + 2);
    ensure!(
        rank == few || rank == many,
        "Input to max_unpooling{N}d should be a {few}d or {many}d Tensor, but got a tensor with \
         {rank} dimensions."
    );
    let names = [
        "",
        "",
        "two elements (height, width)",
        "three elements (depth, height, width)",
    ];
    ensure!(
        output_size.len() == N,
        "There should be exactly {} in output_size, but got {} elements.",
        names[N],
        output_size.len()
    );
    ensure!(
        from == at,
        "Expected shape of indices to be same as that of the input tensor ({:?}) but got indices \
         tensor with shape: {:?}",
        from.as_slice(),
        at.as_slice()
    );
    let volume: Vec<String> = output_size.iter().map(i64::to_string).collect();
    let message = format!(
        "RuntimeError: Found an invalid max index: {{}} (output volumes are of size {})",
        volume.join("x")
    );
    check::bounds(b, indices, (0, output_size.iter().product()), message)?;
    let mut dims: Dims = from[..rank - N].into();
    dims.extend_from_slice(&output_size);
    scatter::<N>(b, x, indices, &dims, |_, _, new| Ok(new))
}

/// `max_unpool2d`
pub(super) fn unpool2d(b: &mut B, x: Value, indices: Value, output_size: Dims) -> Result<Value> {
    unpool::<2>(b, x, indices, output_size)
}

/// `max_unpool3d`; the sizes of the result are given, so that stride and padding say nothing more.
pub(super) fn unpool3d(
    b: &mut B,
    x: Value,
    indices: Value,
    output_size: Dims,
    _stride: Dims,
    _padding: Dims,
) -> Result<Value> {
    unpool::<3>(b, x, indices, output_size)
}

/// Dimensions by the names that errors call them.
const AXES: [[&str; 3]; 4] = [
    [""; 3],
    [""; 3],
    ["height", "width", ""],
    ["time", "height", "width"],
];

/// Max pooling over `output_size` windows, whose places are drawn: `random_samples` (`[N, C,
/// dimensions]`) holds one number in `[0, 1)` per plane and dimension.
pub(super) fn fractional<const N: usize>(
    b: &mut B,
    input: Value,
    kernel_size: Dims,
    output_size: Dims,
    random_samples: Value,
) -> Result<(Value, Value)> {
    let (lead, spatial) = split::<N>(b, input)?;
    let dtype = b.dtype(input);
    ensure!(
        b.dtype(random_samples) == dtype,
        "Expect _random_samples to have the same dtype as input"
    );
    ensure!(
        kernel_size.len() == N && output_size.len() == N,
        "fractional_max_pool{N}d: kernel_size and output_size must have {N} elements"
    );
    for (i, name) in AXES[N].iter().enumerate().take(N) {
        let (kernel, input) = (kernel_size[i], spatial[i]);
        ensure!(
            output_size[i] + kernel - 1 <= input,
            "fractional_max_pool{N}d(): pool {name} {kernel} too large relative to input {name} \
             {input}"
        );
    }
    let planes: i64 = lead.iter().product();
    let samples = b.reshape(random_samples, &[planes, N as i64])?;
    let position = starts::<N>(b, samples, &spatial, &kernel_size, &output_size)?;
    let x = b.reshape(input, &[planes, spatial.iter().product()])?;
    let found = largest(b, x, position, &spatial, &kernel_size)?;
    let mut outer = lead;
    outer.extend_from_slice(&output_size);
    let position = b.convert(found.1, DType::I64);
    Ok((b.reshape(found.0, &outer)?, b.reshape(position, &outer)?))
}

/// Position of the first element of every window, `[planes, windows...]`.
fn starts<const N: usize>(
    b: &mut B,
    samples: Value,
    spatial: &[i64],
    kernel: &[i64],
    out: &[i64],
) -> Result<Value> {
    let planes = b.dims(samples)[0];
    let dtype = position_type(spatial);
    let mut dims: Dims = [planes].as_slice().into();
    dims.extend_from_slice(out);
    let mut sum = b.full(0, dtype, &dims);
    for i in 0..N {
        // The 2-dimensional form takes its samples in the order width, height.
        let from = if N == 2 { 1 - i as i64 } else { i as i64 };
        let sample = b.slice_dim(samples, 1, from, from + 1)?;
        let start = interval(b, sample, spatial[i] - kernel[i], out[i])?;
        let start = b.convert(start, dtype);
        let step: i64 = spatial[i + 1..].iter().product();
        let step = b.full_like(start, step);
        let start = b.multiply(start, step)?;
        let start = b.broadcast_in_dim(start, &dims, &[0, i as i64 + 1])?;
        sum = b.add(sum, start)?;
    }
    Ok(sum)
}

/// `trunc((o + sample) * alpha) - trunc(sample * alpha)` with `alpha = room / (out - 1)`; the last
/// window ends where the input does. `[planes, out]` in `I32`.
fn interval(b: &mut B, sample: Value, room: i64, out: i64) -> Result<Value> {
    let planes = b.dims(sample)[0];
    let dims = [planes, out];
    let sample = promote::widen(b, sample);
    let dtype = b.dtype(sample);
    let alpha = room as f64 / (out - 1).max(1) as f64;
    let (alpha, index) = (b.full(alpha, dtype, &dims), b.iota(DType::I32, &dims, 1));
    let sample = b.broadcast(sample, &dims)?;
    let moved = b.convert(index, dtype);
    let moved = b.add(moved, sample)?;
    let moved = b.multiply(moved, alpha)?;
    let offset = b.multiply(sample, alpha)?;
    let (moved, offset) = (b.convert(moved, DType::I32), b.convert(offset, DType::I32));
    let start = b.subtract(moved, offset)?;
    let last = b.full(out - 1, DType::I32, &dims);
    let is_last = b.compare(index, tpu_hlo::Direction::EQ, last)?;
    let end = b.full(room, DType::I32, &dims);
    Ok(b.select(is_last, end, start)?)
}

/// The largest element of the windows that start at `base`.
fn largest(b: &mut B, x: Value, base: Value, spatial: &[i64], kernel: &[i64]) -> Result<Found> {
    let dims = b.dims(base);
    let lowest = b.lowest(b.dtype(x));
    let mut found = (b.broadcast(lowest, &dims)?, base);
    for mut flat in 0..kernel.iter().product::<i64>() {
        let (mut away, mut step) = (0, 1);
        for (k, n) in kernel.iter().zip(spatial).rev() {
            away += flat % k * step;
            (flat, step) = (flat / k, step * n);
        }
        let away = b.full_like(base, away);
        let position = b.add(base, away)?;
        let value = take(b, x, position)?;
        found = larger(b, found, (value, position))?;
    }
    Ok(found)
}

/// Elements of the flattened planes `[planes, elements]` at `position`, `[planes, ...]`.
fn take(b: &mut B, x: Value, position: Value) -> Result<Value> {
    let dims = b.dims(position);
    let count: i64 = dims[1..].iter().product();
    let at = b.reshape(position, &[dims[0], count, 1])?;
    let numbers = GatherDims {
        collapsed_slice_dims: [1].as_slice().into(),
        operand_batching_dims: [0].as_slice().into(),
        start_indices_batching_dims: [0].as_slice().into(),
        start_index_map: [1].as_slice().into(),
        index_vector_dim: 2,
        ..GatherDims::default()
    };
    let out = b.gather(x, at, &numbers, &[1, 1])?;
    Ok(b.reshape(out, &dims)?)
}

/// The gradient of [`fractional`].
pub(super) fn fractional_backward<const N: usize>(
    b: &mut B,
    grad_output: Value,
    input: Value,
    _kernel_size: Dims,
    _output_size: Dims,
    indices: Value,
) -> Result<Value> {
    split::<N>(b, input)?;
    follow::<N>(b, grad_output, input, indices)
}
