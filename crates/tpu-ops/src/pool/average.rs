//! Average pooling: sums along one dimension after the other, then one division.
use super::windows::{Windows, not_bool};
use crate::{Result, error::ensure, promote};
use tpu_hlo::{Builder, DType, Dims, Value, Window};

type B = Builder;

/// Longer windows are folded by one op instead of one addition per element.
const UNROLLED: i64 = 16;

const NAMES: [&str; 4] = ["", "", "avg_pool2d", "avg_pool3d"];

/// Sums of `kernel` neighbours of dimension `axis`, `stride` apart, after padding with zeros.
struct WindowSum {
    axis: i64,
    kernel: i64,
    stride: i64,
    /// Zeros between neighbours.
    interior: i64,
    low: i64,
    out: i64,
}

impl WindowSum {
    fn apply(&self, b: &mut B, x: Value) -> Result<Value> {
        let dims = b.dims(x);
        let at = self.axis as usize;
        let spaced = (dims[at] - 1) * (self.interior + 1) + 1;
        let reach = (self.out - 1) * self.stride + self.kernel;
        let none: Dims = dims.iter().map(|_| 0).collect();
        let (mut low, mut high, mut interior) = (none.clone(), none.clone(), none);
        (low[at], high[at], interior[at]) = (self.low, reach - spaced - self.low, self.interior);
        let zero = b.scalar(0, b.dtype(x));
        let x = b.pad(x, zero, &low, &high, &interior)?;
        if self.kernel <= UNROLLED {
            self.unrolled(b, x)
        } else {
            self.folded(b, x)
        }
    }

    fn unrolled(&self, b: &mut B, x: Value) -> Result<Value> {
        let dims = b.dims(x);
        let at = self.axis as usize;
        let mut start: Dims = dims.iter().map(|_| 0).collect();
        let mut strides: Dims = dims.iter().map(|_| 1).collect();
        let mut limit = dims;
        strides[at] = self.stride;
        let mut sum = None;
        for k in 0..self.kernel {
            (start[at], limit[at]) = (k, k + (self.out - 1) * self.stride + 1);
            let next = b.slice(x, &start, &limit, &strides)?;
            sum = Some(match sum {
                Some(sum) => b.add(sum, next)?,
                None => next,
            });
        }
        Ok(sum.unwrap_or(x))
    }

    fn folded(&self, b: &mut B, x: Value) -> Result<Value> {
        let mut window = Window::ones(b.rank(x));
        window.dimensions[self.axis as usize] = self.kernel;
        window.strides[self.axis as usize] = self.stride;
        let zero = b.scalar(0, b.dtype(x));
        Ok(b.reduce_window(x, zero, &window, B::add)?)
    }
}

/// `x / (product of counts)`: `counts[i]` has one count per element of dimension `first + i`.
pub(super) fn divide(
    b: &mut B,
    x: Value,
    counts: &[Vec<i64>],
    first: i64,
    one_divisor: Option<i64>,
) -> Result<Value> {
    let (dtype, dims) = (b.dtype(x), b.dims(x));
    let mut common = one_divisor.unwrap_or(1);
    let mut divisor = None;
    for (i, counts) in counts.iter().enumerate().filter(|_| one_divisor.is_none()) {
        let first_count = counts.first().copied().unwrap_or(1);
        if counts.iter().all(|n| *n == first_count) {
            common *= first_count;
            continue;
        }
        let along = b.constant_ints(counts, DType::I32);
        let along = b.convert(along, dtype);
        let along = b.broadcast_in_dim(along, &dims, &[first + i as i64])?;
        divisor = Some(match divisor {
            Some(d) => b.multiply(d, along)?,
            None => along,
        });
    }
    let uniform = b.full(common, dtype, &dims);
    let divisor = match divisor {
        Some(d) if common == 1 => d,
        Some(d) => b.multiply(d, uniform)?,
        None => uniform,
    };
    Ok(b.divide_exactly(x, divisor)?)
}

/// How many elements count in each window of dimension `i`.
fn counts(w: &Windows, i: usize, count_include_pad: bool) -> Vec<i64> {
    let count = |o| {
        let start = w.start(i, o);
        if count_include_pad {
            (start + w.kernel[i]).min(w.input[i] + w.padding[i]) - start
        } else {
            (start + w.kernel[i]).min(w.input[i]) - start.max(0)
        }
    };
    (0..w.out[i]).map(count).collect()
}

fn all_counts(w: &Windows, count_include_pad: bool) -> Vec<Vec<i64>> {
    (0..w.kernel.len())
        .map(|i| counts(w, i, count_include_pad))
        .collect()
}

fn not_zero(divisor: Option<i64>) -> Result<()> {
    ensure!(divisor != Some(0), "divisor must be not zero");
    Ok(())
}

/// Means of windows. Padding counts with `count_include_pad`; `divisor_override` replaces the
/// count.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn avg_pool<const N: usize>(
    b: &mut B,
    input: Value,
    kernel: Dims,
    stride: Dims,
    padding: Dims,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Value> {
    not_zero(divisor_override)?;
    not_bool(b, input, NAMES[N])?;
    let parameters = [kernel, stride, padding, [1].as_slice().into()];
    let w = Windows::new::<N>(b, NAMES[N], input, parameters, ceil_mode)?;
    let dtype = b.dtype(input);
    let x = promote::widen(b, input);
    let mut x = b.reshape(x, &w.flat(&w.input))?;
    for i in 0..N {
        let sum = WindowSum {
            axis: i as i64 + 1,
            kernel: w.kernel[i],
            stride: w.stride[i],
            interior: 0,
            low: w.padding[i],
            out: w.out[i],
        };
        x = sum.apply(b, x)?;
    }
    let mean = divide(
        b,
        x,
        &all_counts(&w, count_include_pad),
        1,
        divisor_override,
    )?;
    let mean = b.convert(mean, dtype);
    Ok(b.reshape(mean, &w.outer(&w.out))?)
}

/// The gradient of [`avg_pool`]: every element is spread evenly over its window.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn avg_pool_backward<const N: usize>(
    b: &mut B,
    grad_output: Value,
    input: Value,
    kernel: Dims,
    stride: Dims,
    padding: Dims,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<Value> {
    not_zero(divisor_override)?;
    let parameters = [kernel, stride, padding, [1].as_slice().into()];
    let both = (grad_output, input);
    let w = Windows::backward::<N>(b, NAMES[N], both, parameters, ceil_mode)?;
    let dtype = b.dtype(input);
    let grad = promote::widen(b, grad_output);
    let grad = b.reshape(grad, &w.flat(&w.out))?;
    let mut grad = divide(
        b,
        grad,
        &all_counts(&w, count_include_pad),
        1,
        divisor_override,
    )?;
    for i in 0..N {
        let sum = WindowSum {
            axis: i as i64 + 1,
            kernel: w.kernel[i],
            stride: 1,
            interior: w.stride[i] - 1,
            low: w.kernel[i] - 1 - w.padding[i],
            out: w.input[i],
        };
        grad = sum.apply(b, grad)?;
    }
    let grad = b.convert(grad, dtype);
    Ok(b.reshape(grad, &w.outer(&w.input))?)
}
