//! How often values occur.
use crate::{
    Ignored, Op, Result, check,
    error::ensure,
    index::{
        pick::{count_true, true_positions},
        take_slices,
    },
    op::{Plain, op},
    promote::cast,
    reduce::position_dtype,
    scan::cumulative_sum,
    scatter::{add_slices, set_slices},
    sort::{precedes, run_starts, sorted},
};
use std::marker::PhantomData;
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;
type Unique = (Value, Value, Value);

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_unique",                |b: &mut B, x, _: Ignored, i, n| {
        let (y, inverse, _) = unique(b, x, i, false, n)?;
        Ok::<_, crate::Error>((y, inverse))
    }).counted(&Plain(unique_count, PhantomData)),
    op!("_unique2",               |b: &mut B, x, _: Ignored, i, c, n| unique(b, x, i, c, n))
                                      .counted(&Plain(unique_count, PhantomData)),
    op!("bincount",               bincount).counted(&Plain(bincount_size, PhantomData)),
    op!("unique_consecutive",     unique_consecutive)
                                      .counted(&Plain(consecutive_count, PhantomData)),
    op!("unique_dim",             |b: &mut B, x, d, _: Ignored, i, c, n| {
        unique_dim(b, x, d, i, c, n)
    }).counted(&Plain(unique_dim_count, PhantomData)),
    op!("unique_dim_consecutive", |b: &mut B, x, d: i64, i, c, n| {
        unique_consecutive(b, x, i, c, Some(d), n)
    }).counted(&Plain(dim_consecutive_count, PhantomData)),
];

/// Runs of equal slices in the leading dimension of a tensor.
struct Runs {
    /// Whether a slice differs from the one before, `[N]`.
    starts: Value,
    length: i64,
}

impl Runs {
    /// Of a vector, or of the rows of a matrix.
    fn of(b: &mut B, x: Value) -> Result<Self> {
        let length = b.dims(x)[0];
        let mut starts = run_starts(b, x, 0)?;
        if b.rank(x) > 1 {
            starts = b.any(starts, &[1])?;
        }
        Ok(Self { starts, length })
    }

    /// Where the `count` runs start.
    fn positions(&self, b: &mut B, count: i64) -> Result<Value> {
        true_positions(b, self.starts, count)
    }

    /// For each slice the number of its run.
    fn numbers(&self, b: &mut B) -> Result<Value> {
        let ones = b.convert(self.starts, position_dtype(self.length));
        let upto = cumulative_sum(b, ones, 0)?;
        let one = b.full_like(upto, 1);
        let number = b.subtract(upto, one)?;
        Ok(b.convert(number, DType::I64))
    }

    /// How long the runs that start at `positions` are.
    fn lengths(&self, b: &mut B, positions: Value) -> Result<Value> {
        let count = b.ty(positions).numel();
        let later = b.slice_dim(positions, 0, count.min(1), count)?;
        let end = b.full(self.length, b.dtype(positions), &[count.min(1)]);
        let ends = b.concatenate(&[later, end], 0)?;
        let lengths = b.subtract(ends, positions)?;
        Ok(b.convert(lengths, DType::I64))
    }
}

/// The empty tensor that stands for a result nobody asked for.
fn nothing(b: &mut B) -> Value {
    b.full(0, DType::I64, &[0])
}

fn flat(b: &mut B, x: Value) -> Result<Value> {
    ensure!(
        !b.dtype(x).is_complex(),
        NotImplemented,
        "\"unique\" not implemented for '{}'",
        b.dtype(x).torch()
    );
    Ok(b.reshape(x, &[b.ty(x).numel()])?)
}

fn unique_count(b: &mut B, x: Value) -> Result<Value> {
    let x = flat(b, x)?;
    let (y, _) = sorted(b, x, 0, false)?;
    let starts = run_starts(b, y, 0)?;
    count_true(b, starts)
}

/// The distinct values in order, for each element the place of its value, and how often each
/// occurs.
fn unique(b: &mut B, x: Value, inverse: bool, counts: bool, n: i64) -> Result<Unique> {
    let dims = b.dims(x);
    let x = flat(b, x)?;
    if n == 0 {
        let (y, none) = (b.full(0, b.dtype(x), &[0]), nothing(b));
        let places = if inverse {
            b.full(0, DType::I64, &dims)
        } else {
            none
        };
        return Ok((y, places, none));
    }
    let (y, from) = sorted(b, x, 0, false)?;
    let runs = Runs::of(b, y)?;
    let positions = runs.positions(b, n)?;
    let values = take_slices(b, y, 0, positions)?;
    let places = if inverse {
        let places = put_back(b, &runs, from)?;
        b.reshape(places, &dims)?
    } else {
        nothing(b)
    };
    let counts = if counts {
        runs.lengths(b, positions)?
    } else {
        nothing(b)
    };
    Ok((values, places, counts))
}

/// The number of each slice's run, in the order before sorting.
fn put_back(b: &mut B, runs: &Runs, from: Value) -> Result<Value> {
    let numbers = runs.numbers(b)?;
    let empty = b.full_like(numbers, 0);
    set_slices(b, empty, 0, from, numbers)
}

/// The slices along `dim` as rows.
fn rows(b: &mut B, x: Value, dim: i64) -> Result<Value> {
    let axis = check::dim(dim, b.rank(x))?;
    let dims = b.dims(x);
    let order: Dims = std::iter::once(axis)
        .chain((0..dims.len() as i64).filter(|i| *i != axis))
        .collect();
    let x = b.transpose(x, &order)?;
    let n = dims[axis as usize];
    let width = dims.iter().product::<i64>() / n.max(1);
    let width = if n == 0 { 1 } else { width };
    Ok(b.reshape(x, &[n, width])?)
}

/// The inverse of [`rows`] for `n` rows, `dims` being the shape it started from. In memory the rows
/// stay one after the other.
fn from_rows(b: &mut B, y: Value, dims: &[i64], axis: i64, n: i64) -> Result<Value> {
    let others = (0..dims.len() as i64).filter(|i| *i != axis);
    let mut shape: Dims = Dims::from_slice(&[n]);
    shape.extend(others.map(|i| dims[i as usize]));
    let y = b.reshape(y, &shape)?;
    let mut order: Dims = (1..dims.len() as i64).collect();
    order.insert(axis as usize, 0);
    let y = b.transpose(y, &order)?;
    let mut in_memory: Dims = (0..dims.len() as i64).filter(|i| *i != axis).collect();
    in_memory.insert(0, axis);
    b.set_order(y, &in_memory);
    Ok(y)
}

fn consecutive_count(
    b: &mut B,
    x: Value,
    _inverse: bool,
    _counts: bool,
    dim: Option<i64>,
) -> Result<Value> {
    let x = match dim {
        Some(dim) if b.rank(x) > 0 => rows(b, x, dim)?,
        _ => flat(b, x)?,
    };
    let runs = Runs::of(b, x)?;
    count_true(b, runs.starts)
}

fn dim_consecutive_count(b: &mut B, x: Value, dim: i64) -> Result<Value> {
    consecutive_count(b, x, false, false, Some(dim))
}

/// The first of each run of equal elements or slices.
fn unique_consecutive(
    b: &mut B,
    x: Value,
    inverse: bool,
    counts: bool,
    dim: Option<i64>,
    n: i64,
) -> Result<Unique> {
    let dims = b.dims(x);
    let dim = dim.filter(|_| !dims.is_empty());
    let axis = dim.map_or(Ok(0), |dim| check::dim(dim, dims.len()))?;
    let lines = match dim {
        Some(dim) => rows(b, x, dim)?,
        None => flat(b, x)?,
    };
    let runs = Runs::of(b, lines)?;
    let positions = runs.positions(b, n)?;
    let mut values = take_slices(b, lines, 0, positions)?;
    if dim.is_some() {
        values = from_rows(b, values, &dims, axis, n)?;
    }
    let places = match (inverse, dim) {
        (false, _) => nothing(b),
        (true, Some(_)) => runs.numbers(b)?,
        (true, None) => {
            let numbers = runs.numbers(b)?;
            b.reshape(numbers, &dims)?
        }
    };
    let counts = if counts {
        runs.lengths(b, positions)?
    } else {
        nothing(b)
    };
    Ok((values, places, counts))
}

/// The order of the rows that sorts them by their first element, equals by their second, and so
/// on: stable sorts by each column, from the last to the first.
fn order_of_rows(b: &mut B, x: Value) -> Result<Value> {
    let (n, width) = (b.dims(x)[0], b.dims(x)[1]);
    let columns = b.transpose(x, &[1, 0])?;
    let order = b.iota(position_dtype(n), &[n], 0);
    let last = b.scalar(width - 1, DType::I32);
    let state = b.while_loop(
        &[last, order, columns],
        |b, s| {
            let zero = b.scalar(0, DType::I32);
            Ok::<_, crate::Error>(b.compare(s[0], Direction::GE, zero)?)
        },
        |b, s| {
            let zero = b.scalar(0, DType::I32);
            let column = b.dynamic_slice(s[2], &[s[0], zero], &[1, n])?;
            let column = b.reshape(column, &[n])?;
            let key = take_slices(b, column, 0, s[1])?;
            let y = b.sort(&[key, s[1]], 0, true, |b, l, r| {
                precedes(b, l[0], r[0], false)
            })?;
            let one = b.scalar(1, DType::I32);
            let next = b.subtract(s[0], one)?;
            Ok(smallvec::smallvec![next, y[1], s[2]])
        },
    )?;
    Ok(state[1])
}

/// Whether there are slices to compare.
fn comparable(dims: &[i64], axis: i64) -> Result<()> {
    let zeros = dims.iter().filter(|d| **d == 0).count();
    if dims.get(axis as usize) == Some(&0) {
        ensure!(
            zeros == 1,
            "Number of zero sized dimensions is more than one, so unique cannot be applied "
        );
    } else {
        ensure!(
            zeros == 0,
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        );
    }
    Ok(())
}

fn sorted_rows(b: &mut B, x: Value, dim: i64) -> Result<(Value, Value)> {
    comparable(&b.dims(x), check::dim(dim, b.rank(x))?)?;
    let x = if b.rank(x) == 0 {
        b.reshape(x, &[1])?
    } else {
        x
    };
    let lines = rows(b, x, dim)?;
    let order = order_of_rows(b, lines)?;
    Ok((take_slices(b, lines, 0, order)?, order))
}

fn unique_dim_count(b: &mut B, x: Value, dim: i64) -> Result<Value> {
    let (lines, _) = sorted_rows(b, x, dim)?;
    let runs = Runs::of(b, lines)?;
    count_true(b, runs.starts)
}

/// The distinct slices along `dim`, in order.
fn unique_dim(
    b: &mut B,
    x: Value,
    dim: i64,
    inverse: bool,
    counts: bool,
    n: i64,
) -> Result<Unique> {
    let dims = b.dims(x);
    let axis = check::dim(dim, dims.len())?;
    if n == 0 {
        let (y, none) = (b.full(0, b.dtype(x), &dims), nothing(b));
        return Ok((y, none, none));
    }
    let (lines, order) = sorted_rows(b, x, dim)?;
    let runs = Runs::of(b, lines)?;
    let positions = runs.positions(b, n)?;
    let values = take_slices(b, lines, 0, positions)?;
    let shape = if dims.is_empty() {
        Dims::from_slice(&[1])
    } else {
        dims
    };
    let values = from_rows(b, values, &shape, axis, n)?;
    let places = if inverse {
        put_back(b, &runs, order)?
    } else {
        nothing(b)
    };
    let counts = if counts {
        runs.lengths(b, positions)?
    } else {
        nothing(b)
    };
    Ok((values, places, counts))
}

fn countable(b: &B, x: Value) -> Result<()> {
    ensure!(
        b.rank(x) == 1 && b.dtype(x).is_int(),
        "bincount only supports 1-d non-negative integral inputs."
    );
    Ok(())
}

fn bincount_size(b: &mut B, x: Value, _weights: Option<Value>, least: i64) -> Result<Vec<Value>> {
    countable(b, x)?;
    let least = b.scalar(least, DType::I64);
    let x = b.convert(x, DType::I64);
    let below = b.scalar(-1, DType::I64);
    let largest = b.reduce(x, below, &[0], B::maximum)?;
    let one = b.scalar(1, DType::I64);
    let size = b.add(largest, one)?;
    Ok(vec![b.maximum(size, least)?])
}

/// How often each number occurs, or the sum of its weights.
fn bincount(b: &mut B, x: Value, weights: Option<Value>, least: i64, size: i64) -> Result<Value> {
    countable(b, x)?;
    ensure!(least >= 0, "minlength should be >= 0");
    let message = "RuntimeError: bincount only supports 1-d non-negative integral inputs.";
    check::bounds(b, x, (0, i64::MAX), message)?;
    let n = b.dims(x)[0];
    let weights = match weights {
        Some(w) => {
            ensure!(
                b.dims(w).as_slice() == [n],
                "weights should be 1-d and have the same length as input"
            );
            let to = if b.dtype(w) == DType::F32 {
                DType::F32
            } else {
                DType::F64
            };
            cast(b, w, to)
        }
        None => b.full(1, DType::I64, &[n]),
    };
    let dtype = if n == 0 { DType::I64 } else { b.dtype(weights) };
    let none = b.full(0, dtype, &[size]);
    if n == 0 {
        return Ok(none);
    }
    let x = b.convert(x, DType::I64);
    add_slices(b, none, 0, x, weights)
}

#[cfg(test)]
mod tests;
