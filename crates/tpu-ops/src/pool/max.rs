//! Max pooling with positions, and the gradient that follows them.
use super::windows::{Windows, not_bool};
use crate::{Result, error::ensure, promote};
use tpu_hlo::{Builder, DType, Dims, Direction, ScatterDims, Value, Window};

type B = Builder;

/// Windows of more elements are folded by one op; smaller ones, which are the rule, element by
/// element: XLA fuses that into one loop without branches.
const UNROLLED: i64 = 64;

/// A value and its position in the plane.
pub(super) type Found = (Value, Value);

const NAMES: [&str; 4] = ["", "", "max_pool2d", "max_pool3d"];

/// The largest element of each window and its position in the flattened plane (`I64`): the first of
/// equal ones, the last of NaNs.
pub(super) fn max_pool<const N: usize>(
    b: &mut B,
    input: Value,
    kernel: Dims,
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    ceil_mode: bool,
) -> Result<(Value, Value)> {
    not_bool(b, input, NAMES[N])?;
    let parameters = [kernel, stride, padding, dilation];
    let windows = Windows::new::<N>(b, NAMES[N], input, parameters, ceil_mode)?;
    let x = b.reshape(input, &windows.flat(&windows.input))?;
    let (value, position) = if windows.kernel.iter().product::<i64>() <= UNROLLED {
        unrolled(b, x, &windows)?
    } else {
        folded(b, x, &windows)?
    };
    let outer = windows.outer(&windows.out);
    let position = b.convert(position, DType::I64);
    Ok((b.reshape(value, &outer)?, b.reshape(position, &outer)?))
}

/// The type that positions in a plane are computed in.
pub(super) fn position_type(plane: &[i64]) -> DType {
    if plane.iter().product::<i64>() < i64::from(i32::MAX) {
        DType::I32
    } else {
        DType::I64
    }
}

/// Positions in a plane of sizes `plane` from coordinates: `coordinates(i)` has one per element of
/// dimension `i + 1` of `dims`.
fn positions(
    b: &mut B,
    dims: &[i64],
    plane: &[i64],
    coordinates: impl Fn(usize) -> Vec<i64>,
) -> Result<Value> {
    let dtype = position_type(plane);
    let mut sum = b.full(0, dtype, dims);
    for i in 0..plane.len() {
        let step: i64 = plane[i + 1..].iter().product();
        let along: Vec<i64> = coordinates(i).iter().map(|c| c * step).collect();
        let along = b.constant_ints(&along, dtype);
        let along = b.broadcast_in_dim(along, dims, &[i as i64 + 1])?;
        sum = b.add(sum, along)?;
    }
    Ok(sum)
}

/// Offsets inside a window, in row-major order.
fn offsets(kernel: &[i64]) -> impl Iterator<Item = Dims> + '_ {
    (0..kernel.iter().product::<i64>()).map(move |mut flat| {
        let mut offset: Dims = kernel.iter().map(|_| 0).collect();
        for (o, k) in offset.iter_mut().zip(kernel).rev() {
            *o = flat % k;
            flat /= k;
        }
        offset
    })
}

fn unrolled(b: &mut B, x: Value, w: &Windows) -> Result<Found> {
    let n = w.kernel.len();
    let dims = w.flat(&w.out);
    let padded = pad_lowest(b, x, w)?;
    let base = positions(b, &dims, &w.input, |i| {
        (0..w.out[i]).map(|o| w.start(i, o)).collect()
    })?;
    let first = positions(b, &dims, &w.input, |i| {
        let inside = |start: i64| start.max(start.rem_euclid(w.dilation[i]));
        (0..w.out[i]).map(|o| inside(w.start(i, o))).collect()
    })?;
    let lowest = b.lowest(b.dtype(x));
    let mut found = (b.broadcast(lowest, &dims)?, first);
    let ones: Dims = (0..=n).map(|_| 1).collect();
    for offset in offsets(&w.kernel) {
        let (mut start, mut limit, mut strides) = (ones.clone(), dims.clone(), ones.clone());
        (start[0], strides[0]) = (0, 1);
        let mut away = 0;
        for i in 0..n {
            let at = offset[i] * w.dilation[i];
            start[i + 1] = at;
            limit[i + 1] = at + (w.out[i] - 1) * w.stride[i] + 1;
            strides[i + 1] = w.stride[i];
            away = away * w.input[i] + at;
        }
        let value = b.slice(padded, &start, &limit, &strides)?;
        let away = b.full_like(base, away);
        let position = b.add(base, away)?;
        found = larger(b, found, (value, position))?;
    }
    Ok(found)
}

/// The input with the smallest value around it, as far as windows reach.
fn pad_lowest(b: &mut B, x: Value, w: &Windows) -> Result<Value> {
    let lowest = b.lowest(b.dtype(x));
    let (mut low, mut high, mut interior) = (Dims::new(), Dims::new(), Dims::new());
    low.push(0);
    high.push(0);
    interior.push(0);
    for (low_, high_) in padding(w) {
        low.push(low_);
        high.push(high_);
        interior.push(0);
    }
    Ok(b.pad(x, lowest, &low, &high, &interior)?)
}

/// Padding on both sides, so that the windows end where the padded input does.
fn padding(w: &Windows) -> impl Iterator<Item = (i64, i64)> + '_ {
    (0..w.kernel.len()).map(|i| {
        let end = w.start(i, w.out[i] - 1) + w.dilation[i] * (w.kernel[i] - 1) + 1;
        (w.padding[i], end - w.input[i])
    })
}

fn is_nan(b: &mut B, x: Value) -> Result<Option<Value>> {
    if !b.dtype(x).is_float() {
        return Ok(None);
    }
    Ok(Some(b.compare(x, Direction::NE, x)?))
}

/// The `next` where it is larger than what was `found` or NaN.
pub(super) fn larger(b: &mut B, found: Found, next: Found) -> Result<Found> {
    let mut better = b.compare(next.0, Direction::GT, found.0)?;
    if let Some(nan) = is_nan(b, next.0)? {
        better = b.or(better, nan)?;
    }
    Ok((
        b.select(better, next.0, found.0)?,
        b.select(better, next.1, found.1)?,
    ))
}

/// As [`larger`] in any order: equal values are decided by position, the last of NaNs wins.
fn larger_of(b: &mut B, found: Found, next: Found) -> Result<Found> {
    let larger = b.compare(next.0, Direction::GT, found.0)?;
    let equal = b.compare(next.0, Direction::EQ, found.0)?;
    let earlier = b.compare(next.1, Direction::LT, found.1)?;
    let first = b.and(equal, earlier)?;
    let mut better = b.or(larger, first)?;
    if let (Some(nan), Some(was_nan)) = (is_nan(b, next.0)?, is_nan(b, found.0)?) {
        let later = b.not(earlier);
        let number = b.not(was_nan);
        let newer = b.or(number, later)?;
        let newer = b.and(nan, newer)?;
        better = b.or(better, newer)?;
    }
    Ok((
        b.select(better, next.0, found.0)?,
        b.select(better, next.1, found.1)?,
    ))
}

/// What an element that is not there counts as.
fn nothing(b: &mut B, x: Value, position: Value) -> Found {
    (b.lowest(b.dtype(x)), b.highest(b.dtype(position)))
}

fn folded(b: &mut B, x: Value, w: &Windows) -> Result<Found> {
    let dims = b.dims(x);
    let n = w.kernel.len();
    let position = positions(b, &dims, &w.input, |i| (0..w.input[i]).collect())?;
    let mut window = Window::ones(n + 1);
    for (i, padding) in padding(w).enumerate() {
        window.dimensions[i + 1] = w.kernel[i];
        window.strides[i + 1] = w.stride[i];
        window.dilations[i + 1] = w.dilation[i];
        window.padding[i + 1] = padding;
    }
    let (value, none) = nothing(b, x, position);
    let found = b.reduce_window_n(&[x, position], &[value, none], &window, |b, acc, next| {
        let (value, position) = larger_of(b, (acc[0], acc[1]), (next[0], next[1]))?;
        Ok::<_, crate::Error>(smallvec::smallvec![value, position])
    })?;
    Ok((found[0], found[1]))
}

/// The largest element over `axes` and its position; elements that are not `there` do not count.
pub(super) fn largest(
    b: &mut B,
    (x, position): Found,
    there: Option<Value>,
    axes: &[i64],
) -> Result<Found> {
    let (lowest, none) = nothing(b, x, position);
    let (mut x, mut position) = (x, position);
    if let Some(there) = there {
        let dims = b.dims(x);
        let (a, c) = (b.broadcast(lowest, &dims)?, b.broadcast(none, &dims)?);
        x = b.select(there, x, a)?;
        position = b.select(there, position, c)?;
    }
    let found = b.reduce_n(&[x, position], &[lowest, none], axes, |b, acc, next| {
        let (value, position) = larger_of(b, (acc[0], acc[1]), (next[0], next[1]))?;
        Ok::<_, crate::Error>(smallvec::smallvec![value, position])
    })?;
    Ok((found[0], found[1]))
}

/// The gradient of [`max_pool`]: every element goes to the position that was found.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn max_pool_backward<const N: usize>(
    b: &mut B,
    grad_output: Value,
    input: Value,
    kernel: Dims,
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    ceil_mode: bool,
    indices: Value,
) -> Result<Value> {
    let parameters = [kernel, stride, padding, dilation];
    let both = (grad_output, input);
    Windows::backward::<N>(b, NAMES[N], both, parameters, ceil_mode)?;
    follow::<N>(b, grad_output, input, indices)
}

/// A tensor like `input`, of the sums of the elements of `grad` that `indices`, positions in the
/// flattened plane of the last `N` dimensions, send to each place.
pub(super) fn follow<const N: usize>(
    b: &mut B,
    grad: Value,
    input: Value,
    indices: Value,
) -> Result<Value> {
    let (dtype, dims) = (b.dtype(input), b.dims(input));
    let (from, at) = (b.dims(grad), b.dims(indices));
    ensure!(
        from == at,
        "expected indices of the size of grad_output {:?}, but got {:?}",
        from.as_slice(),
        at.as_slice()
    );
    let grad = promote::widen(b, grad);
    let sum = scatter::<N>(b, grad, indices, &dims, B::add)?;
    Ok(b.convert(sum, dtype))
}

/// A tensor of sizes `dims`, zero but where `indices`, positions in the flattened plane of the last
/// `N` dimensions, send elements of `x`; `fold` joins what is there with what comes.
pub(super) fn scatter<const N: usize>(
    b: &mut B,
    x: Value,
    indices: Value,
    dims: &[i64],
    fold: fn(&mut B, Value, Value) -> tpu_hlo::Result<Value>,
) -> Result<Value> {
    let split = dims.len() - N;
    let lead: i64 = dims[..split].iter().product();
    let plane: i64 = dims[split..].iter().product();
    let from = b.dims(x);
    let count: i64 = from[split..].iter().product();
    let indices = b.convert(indices, position_type(&dims[split..]));
    let indices = b.reshape(indices, &[lead, count, 1])?;
    let x = b.reshape(x, &[lead, count])?;
    let empty = b.full(0, b.dtype(x), &[lead, plane]);
    let numbers = ScatterDims {
        inserted_window_dims: [1].as_slice().into(),
        input_batching_dims: [0].as_slice().into(),
        scatter_indices_batching_dims: [0].as_slice().into(),
        scatter_dims_to_operand_dims: [1].as_slice().into(),
        index_vector_dim: 2,
        ..ScatterDims::default()
    };
    let sum = b.scatter(empty, indices, x, &numbers, false, fold)?;
    Ok(b.reshape(sum, dims)?)
}
