//! Adaptive pooling: windows that cover the input evenly.
use super::average::divide;
use super::max::{Found, follow, largest, position_type};
use crate::upsample::{Table, pick};
use crate::{Result, error::ensure, promote};
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;

/// Leading dimensions, the last `N`, and the wanted sizes of those.
struct Sizes {
    lead: Dims,
    input: Dims,
    out: Dims,
}

/// First element and end of window `o`.
fn window(input: i64, out: i64, o: i64) -> (i64, i64) {
    (o * input / out, ((o + 1) * input + out - 1) / out)
}

/// Refuses an argument of shape `dims` that has no elements along a dimension from `first` on.
fn filled(op: &str, argument: &str, dims: &Dims, first: usize) -> Result<()> {
    for (i, n) in dims.iter().enumerate().skip(first) {
        ensure!(
            *n > 0,
            "{op}(): Expected {argument} to have non-zero size for non-batch dimensions, but \
             {argument} has sizes {:?} with dimension {i} being empty",
            dims.as_slice()
        );
    }
    Ok(())
}

fn sizes<const N: usize>(b: &B, op: &str, x: Value, out: &[i64]) -> Result<Sizes> {
    let dims = b.dims(x);
    let (few, many) = (N + 1, N + 2);
    let of_max = op.contains("max");
    ensure!(
        dims.len() == few || dims.len() == many,
        "{op}(): Expected {few}D or {many}D tensor, but got{} {:?}",
        if of_max { ":" } else { "" },
        dims.as_slice()
    );
    ensure!(out.len() == N || of_max, "{op}: output_size must be {N}");
    ensure!(
        out.len() == N,
        "{op}(): internal error: output_size.size() must be {N}"
    );
    let batch = dims.len() - few;
    // The average of planes looks at the planes only, the others at all but the first dimension,
    // whether that is the batch or not.
    let first = if op == "adaptive_avg_pool2d" {
        dims.len() - N
    } else {
        1
    };
    filled(op, "input", &dims, first)?;
    let negative = out.iter().find(|n| **n < 0).copied().unwrap_or(0);
    let result = [&dims[..=batch], out].concat();
    ensure!(
        negative == 0 || !of_max,
        "Trying to create tensor with negative dimension {negative}: {result:?}"
    );
    ensure!(
        negative == 0,
        "{op}: elements of output_size must be greater than or \
             equal to 0"
    );
    let dtype = b.dtype(x);
    ensure!(
        dtype.is_float(),
        NotImplemented,
        "\"{op}\" not implemented for '{}'",
        dtype.torch()
    );
    Ok(Sizes {
        lead: dims[..=batch].into(),
        input: dims[batch + 1..].into(),
        out: out.into(),
    })
}

impl Sizes {
    fn flat(&self, spatial: &[i64]) -> Dims {
        let mut dims: Dims = [self.lead.iter().product()].as_slice().into();
        dims.extend_from_slice(spatial);
        dims
    }

    fn outer(&self, spatial: &[i64]) -> Dims {
        let mut dims = self.lead.clone();
        dims.extend_from_slice(spatial);
        dims
    }

    /// Whether the windows of dimension `i` are of one size and do not overlap.
    fn even(&self, i: usize) -> bool {
        self.out[i] > 0 && self.input[i] % self.out[i] == 0
    }

    fn windows(&self, i: usize) -> Vec<(i64, i64)> {
        (0..self.out[i])
            .map(|o| window(self.input[i], self.out[i], o))
            .collect()
    }

    fn counts(&self) -> Vec<Vec<i64>> {
        let count = |i| {
            self.windows(i)
                .iter()
                .map(|(start, end)| end - start)
                .collect()
        };
        (0..self.input.len()).map(count).collect()
    }

    fn table(&self, i: usize) -> Table {
        let row = |(start, end)| (start..end).map(|e| (e, 1.0)).collect();
        Table::new(
            self.windows(i).into_iter().map(row).collect(),
            self.input[i],
        )
    }

    /// The input's dimensions with the evenly covered ones split into window and place therein,
    /// and the axes of those places.
    fn split(&self) -> (Dims, Dims) {
        let (mut dims, mut axes) = (self.flat(&[]), Dims::new());
        for (i, n) in self.input.iter().enumerate() {
            if self.even(i) {
                dims.push(self.out[i]);
                axes.push(dims.len() as i64);
                dims.push(n / self.out[i]);
            } else {
                dims.push(*n);
            }
        }
        (dims, axes)
    }
}

const AVERAGE: [&str; 4] = ["", "", "adaptive_avg_pool2d", "adaptive_avg_pool3d"];
const MAX: [&str; 4] = ["", "", "adaptive_max_pool2d", "adaptive_max_pool3d"];

/// Means of the windows.
pub(super) fn avg_pool<const N: usize>(b: &mut B, input: Value, out: Dims) -> Result<Value> {
    let s = sizes::<N>(b, AVERAGE[N], input, &out)?;
    let dtype = b.dtype(input);
    let x = promote::widen(b, input);
    let (split, axes) = s.split();
    let x = b.reshape(x, &split)?;
    let mut x = b.sum(x, &axes)?;
    for i in (0..N).filter(|i| !s.even(*i)) {
        x = s.table(i).apply(b, x, i as i64 + 1)?;
    }
    let mean = divide(b, x, &s.counts(), 1, None)?;
    let mean = b.convert(mean, dtype);
    Ok(b.reshape(mean, &s.outer(&s.out))?)
}

/// The gradient of [`avg_pool`].
pub(super) fn avg_pool_backward<const N: usize>(
    b: &mut B,
    grad_output: Value,
    input: Value,
) -> Result<Value> {
    let grads = b.dims(grad_output);
    let (rank, want) = (grads.len(), b.rank(input));
    ensure!(
        rank == want,
        "{}_backward: Expected dimensions {want} for `grad_output` but got dimensions {rank}",
        AVERAGE[N]
    );
    filled(
        &format!("{}_backward", AVERAGE[N]),
        "grad_output",
        &grads,
        1,
    )?;
    let s = sizes::<N>(b, AVERAGE[N], input, &grads[rank.saturating_sub(N)..])?;
    let dtype = b.dtype(input);
    let grad = promote::widen(b, grad_output);
    let grad = b.reshape(grad, &s.flat(&s.out))?;
    let mut grad = divide(b, grad, &s.counts(), 1, None)?;
    for i in (0..N).filter(|i| !s.even(*i)) {
        grad = s.table(i).transposed().apply(b, grad, i as i64 + 1)?;
    }
    let (split, axes) = s.split();
    let kept: Dims = (0..split.len() as i64)
        .filter(|i| !axes.contains(i))
        .collect();
    let grad = b.broadcast_in_dim(grad, &split, &kept)?;
    let grad = b.convert(grad, dtype);
    Ok(b.reshape(grad, &s.outer(&s.input))?)
}

/// The largest element of each window and its position in the flattened plane (`I64`): the first of
/// equal ones, the last of NaNs.
pub(super) fn max_pool<const N: usize>(
    b: &mut B,
    input: Value,
    out: Dims,
) -> Result<(Value, Value)> {
    let s = sizes::<N>(b, MAX[N], input, &out)?;
    let dims = s.flat(&s.input);
    let x = b.reshape(input, &dims)?;
    let plane: i64 = s.input.iter().product();
    let position = b.iota(position_type(&s.input), &[plane], 0);
    let position = b.reshape(position, &s.input)?;
    let axes: Dims = (1..=N as i64).collect();
    let position = b.broadcast_in_dim(position, &dims, &axes)?;
    let mut found = (x, position);
    for i in 0..N {
        found = fold(b, found, &s, i)?;
    }
    let (value, position) = found;
    let position = b.convert(position, DType::I64);
    let outer = s.outer(&s.out);
    Ok((b.reshape(value, &outer)?, b.reshape(position, &outer)?))
}

/// The largest elements of the windows of dimension `i`.
fn fold(b: &mut B, found: Found, s: &Sizes, i: usize) -> Result<Found> {
    let axis = i as i64 + 1;
    let windows = s.windows(i);
    let width = windows
        .iter()
        .map(|(start, end)| end - start)
        .max()
        .unwrap_or(1);
    let all = |f: fn(i64, i64) -> i64| -> Vec<i64> {
        let window = |(start, end): &(i64, i64)| {
            let (start, end) = (*start, *end);
            (0..width).map(move |k| f(start + k, end))
        };
        windows.iter().flat_map(window).collect()
    };
    let elements = all(|e, end| e.min(end - 1));
    let mut dims = b.dims(found.0);
    dims[axis as usize] = windows.len() as i64;
    dims.insert(axis as usize + 1, width);
    let mut shaped = |v| -> Result<Value> {
        let v = pick(b, v, axis, &elements)?;
        Ok(b.reshape(v, &dims)?)
    };
    let found = (shaped(found.0)?, shaped(found.1)?);
    let mut there = None;
    if !s.even(i) {
        let places = b.constant_ints(&all(|e, end| i64::from(e < end)), DType::Bool);
        let places = b.reshape(places, &[windows.len() as i64, width])?;
        there = Some(b.broadcast_in_dim(places, &dims, &[axis, axis + 1])?);
    }
    largest(b, found, there, &[axis + 1])
}

/// The gradient of [`max_pool`]: every element goes to the position that was found.
pub(super) fn max_pool_backward<const N: usize>(
    b: &mut B,
    grad_output: Value,
    input: Value,
    indices: Value,
) -> Result<Value> {
    let grads = b.dims(grad_output);
    filled(&format!("{}_backward", MAX[N]), "grad_output", &grads, 1)?;
    sizes::<N>(b, MAX[N], input, &grads[grads.len().saturating_sub(N)..])?;
    follow::<N>(b, grad_output, input, indices)
}
