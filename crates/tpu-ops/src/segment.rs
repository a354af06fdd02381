//! Reductions of consecutive segments of a dimension.
use crate::index::take_slices;
use crate::{
    Op, Result, Scalar, check,
    error::ensure,
    op::op,
    pointwise::implemented,
    promote::{cast, opmath},
    reduce::position_dtype,
    scan::cumulative_sum,
    scatter::{Merge, Place, add_slices},
    sort::{Side, count_before},
};
use std::sync::Arc;
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_segment_reduce_backward", backward),
    op!("segment_reduce",           forward),
];

/// Data as `[elements, width]`, its elements of all batches in one row, and for each the segment
/// it is in; the number of segments where it is in none.
struct Segments {
    data: Value,
    segment: Value,
    /// Elements in each segment.
    lengths: Value,
    count: i64,
    /// Elements and segments of each batch.
    elements: i64,
    each: i64,
    /// Shape of the result.
    dims: Dims,
}

impl Segments {
    fn new(
        b: &mut B,
        data: Value,
        lengths: Option<Value>,
        offsets: Option<Value>,
        axis: i64,
    ) -> Result<Self> {
        let from = b.dims(data);
        let axis = check::dim(axis, from.len())?;
        let at = axis as usize;
        ensure!(
            lengths.is_some() || offsets.is_some(),
            "segment_reduce(): Either lengths or offsets must be defined."
        );
        let given = lengths.or(offsets).unwrap_or(data);
        ensure!(
            b.rank(given) as i64 - 1 == axis && at < from.len(),
            "segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}."
        );
        let lead = &b.dims(given)[..at];
        ensure!(
            *lead == from[..at],
            "segment_reduce(): Expected all leading dimensions of lengths to match those of data."
        );
        implemented(b.dtype(given).is_int(), "_segment_reduce", b.dtype(given))?;
        let number = position_dtype(from.iter().product::<i64>().max(1));
        let (starts, ends) = bounds(b, lengths, offsets, axis, number)?;
        let (n, each) = (from[at], b.dims(ends)[at]);
        let batch: i64 = from[..at].iter().product();
        let width = from[at + 1..].iter().product();
        let segment = segment_of_each(b, starts, ends, (batch, n, each))?;
        let (lengths, data) = (
            b.subtract(ends, starts)?,
            b.reshape(data, &[batch * n, width])?,
        );
        let zero = b.full_like(lengths, 0);
        let negative = b.compare(lengths, Direction::LT, zero)?;
        check::nowhere(
            b,
            negative,
            "RuntimeError: lengths contains negative value!",
        )?;
        let lengths = b.reshape(lengths, &[batch * each])?;
        let mut dims = from;
        dims[at] = each;
        Ok(Self {
            data,
            segment,
            lengths,
            count: batch * each,
            elements: n,
            each,
            dims,
        })
    }

    /// Demands that the segments end where the data does.
    fn check_ends(&self, b: &mut B) -> Result<()> {
        let (batch, each) = (self.count / self.each.max(1), self.each);
        let lengths = b.reshape(self.lengths, &[batch, each])?;
        let sums = b.sum(lengths, &[1])?;
        let all = b.full_like(sums, self.elements);
        let other = b.compare(sums, Direction::NE, all)?;
        let message = "RuntimeError: segment_reduce(): Expected all rows of lengths along axis to \
                       sum to data.size(lengths.dim()-1) when !unsafe.";
        check::nowhere(b, other, message)
    }

    fn reduce(&self, b: &mut B, data: Value, start: Value, merge: Merge) -> Result<Value> {
        Place::Slices(self.segment).write(b, start, 0, data, merge)
    }

    /// A value of each segment for its elements.
    fn back(&self, b: &mut B, y: Value) -> Result<Value> {
        let width = b.dims(self.data)[1];
        let y = b.reshape(y, &[self.count, width])?;
        take_slices(b, y, 0, self.segment)
    }

    fn spread_lengths(&self, b: &mut B, dtype: DType) -> Result<Value> {
        let width = b.dims(self.data)[1];
        let lengths = b.convert(self.lengths, dtype);
        Ok(b.broadcast_in_dim(lengths, &[self.count, width], &[0])?)
    }
}

/// First element of each segment, and the one after its last.
fn bounds(
    b: &mut B,
    lengths: Option<Value>,
    offsets: Option<Value>,
    axis: i64,
    number: DType,
) -> Result<(Value, Value)> {
    if let Some(lengths) = lengths {
        let lengths = b.convert(lengths, number);
        let ends = cumulative_sum(b, lengths, axis)?;
        return Ok((b.subtract(ends, lengths)?, ends));
    }
    let offsets = offsets.ok_or_else(|| crate::Error::runtime("segments without offsets"))?;
    let offsets = b.convert(offsets, number);
    let n = b.dims(offsets)[axis as usize];
    ensure!(
        n > 0,
        "segment_reduce(): Expected offsets to hold at least one element"
    );
    Ok((
        b.slice_dim(offsets, axis, 0, n - 1)?,
        b.slice_dim(offsets, axis, 1, n)?,
    ))
}

/// For the elements of all batches the segment among those of all batches.
fn segment_of_each(
    b: &mut B,
    starts: Value,
    ends: Value,
    (batch, n, each): (i64, i64, i64),
) -> Result<Value> {
    let number = b.dtype(ends);
    let (starts, ends) = (
        b.reshape(starts, &[batch, each])?,
        b.reshape(ends, &[batch, each])?,
    );
    let nth = b.iota(number, &[batch, n], 1);
    let over = count_before(b, ends, nth, Side::Right)?;
    let begun = count_before(b, starts, nth, Side::Right)?;
    let (over, begun) = (b.convert(over, number), b.convert(begun, number));
    let within = b.compare(over, Direction::LT, begun)?;
    let batch_of = b.iota(number, &[batch, n], 0);
    let segments = b.full(each, number, &[batch, n]);
    let first = b.multiply(batch_of, segments)?;
    let segment = b.add(first, over)?;
    let nowhere = b.full(batch * each, number, &[batch, n]);
    let segment = b.select(within, segment, nowhere)?;
    Ok(b.reshape(segment, &[batch * n])?)
}

fn kind(reduce: &str) -> Result<(Merge, bool)> {
    Ok(match reduce {
        "sum" => (Merge::Add, false),
        "mean" => (Merge::Add, true),
        "max" => (Merge::Max, false),
        "min" => (Merge::Min, false),
        "prod" => (Merge::Multiply, false),
        _ => {
            return Err(crate::Error::runtime(format!(
                "reduce argument must be either max, min, mean, sum or prod, got {reduce}"
            )));
        }
    })
}

/// Each segment folded, `initial` included.
fn forward(
    b: &mut B,
    data: Value,
    reduce: Arc<str>,
    lengths: Option<Value>,
    indices: Option<Value>,
    offsets: Option<Value>,
    axis: i64,
    is_unsafe: bool,
    initial: Option<Scalar>,
) -> Result<Value> {
    let (merge, mean) = kind(&reduce)?;
    let dtype = b.dtype(data);
    ensure!(
        indices.is_none(),
        "segment_reduce(): indices based reduction is not supported yet."
    );
    let data = cast(b, data, opmath(dtype));
    let segments = Segments::new(b, data, lengths, offsets, axis)?;
    implemented(dtype.is_float(), "_segment_reduce", dtype)?;
    if lengths.is_some() && !is_unsafe {
        segments.check_ends(b)?;
    }
    let wide = b.dtype(segments.data);
    let width = b.dims(segments.data)[1];
    let start = match initial {
        Some(initial) => cast(b, initial.0, wide),
        None => merge.identity(b, wide),
    };
    let start = b.broadcast(start, &[segments.count, width])?;
    let mut y = segments.reduce(b, segments.data, start, merge)?;
    if mean {
        let lengths = segments.spread_lengths(b, wide)?;
        let (zero, ratio) = (b.full_like(lengths, 0), b.divide(y, lengths)?);
        let empty = b.compare(lengths, Direction::EQ, zero)?;
        let nothing = if initial.is_some() {
            start
        } else {
            b.full_like(y, f64::NAN)
        };
        y = b.select(empty, nothing, ratio)?;
    }
    let y = cast(b, y, dtype);
    Ok(b.reshape(y, &segments.dims)?)
}

/// The gradient of `data`.
fn backward(
    b: &mut B,
    grad: Value,
    output: Value,
    data: Value,
    reduce: Arc<str>,
    lengths: Option<Value>,
    offsets: Option<Value>,
    axis: i64,
    initial: Option<Scalar>,
) -> Result<Value> {
    let (merge, mean) = kind(&reduce)?;
    let (dtype, dims) = (b.dtype(data), b.dims(data));
    let wide = opmath(dtype);
    let (grad, output, data) = (
        cast(b, grad, wide),
        cast(b, output, wide),
        cast(b, data, wide),
    );
    let segments = Segments::new(b, data, lengths, offsets, axis)?;
    let grad = segments.back(b, grad)?;
    let y = match merge {
        Merge::Max | Merge::Min => extreme_backward(b, &segments, grad, output)?,
        Merge::Multiply => product_backward(b, &segments, grad, initial)?,
        _ if mean => {
            let lengths = segments.spread_lengths(b, wide)?;
            let lengths = segments.back(b, lengths)?;
            b.divide(grad, lengths)?
        }
        _ => grad,
    };
    let y = within(b, &segments, y)?;
    let y = cast(b, y, dtype);
    Ok(b.reshape(y, &dims)?)
}

/// Zero for the elements of no segment.
fn within(b: &mut B, segments: &Segments, y: Value) -> Result<Value> {
    let end = b.full_like(segments.segment, segments.count);
    let inside = b.compare(segments.segment, Direction::LT, end)?;
    let inside = b.broadcast_in_dim(inside, &b.dims(y), &[0])?;
    let zero = b.full_like(y, 0);
    Ok(b.select(inside, y, zero)?)
}

/// The elements that are the extreme share the gradient; NaN is one.
fn extreme_backward(b: &mut B, segments: &Segments, grad: Value, output: Value) -> Result<Value> {
    let data = segments.data;
    let output = segments.back(b, output)?;
    let equal = b.compare(data, Direction::EQ, output)?;
    let nan = b.compare(data, Direction::NE, data)?;
    let hit = b.or(equal, nan)?;
    let ones = b.convert(hit, b.dtype(data));
    let none = b.full(0, b.dtype(data), &[segments.count, b.dims(data)[1]]);
    let count = add_slices(b, none, 0, segments.segment, ones)?;
    let count = segments.back(b, count)?;
    let (share, zero) = (b.divide(grad, count)?, b.full_like(grad, 0));
    Ok(b.select(hit, share, zero)?)
}

/// `grad` times the product of all other elements, zeros counted apart.
fn product_backward(
    b: &mut B,
    segments: &Segments,
    grad: Value,
    initial: Option<Scalar>,
) -> Result<Value> {
    let data = segments.data;
    let (dtype, shape) = (b.dtype(data), [segments.count, b.dims(data)[1]]);
    let (zero, one) = (b.full_like(data, 0), b.full_like(data, 1));
    let is_zero = b.compare(data, Direction::EQ, zero)?;
    let others = b.select(is_zero, one, data)?;
    let start = match initial {
        Some(initial) => cast(b, initial.0, dtype),
        None => b.scalar(1, dtype),
    };
    let start = b.broadcast(start, &shape)?;
    let product = segments.reduce(b, others, start, Merge::Multiply)?;
    let product = segments.back(b, product)?;
    let (zeros, none) = (b.convert(is_zero, dtype), b.full(0, dtype, &shape));
    let zeros_there = add_slices(b, none, 0, segments.segment, zeros)?;
    let zeros_there = segments.back(b, zeros_there)?;
    let other_zeros = b.subtract(zeros_there, zeros)?;
    let clean = b.compare(other_zeros, Direction::EQ, zero)?;
    let rest = b.divide(product, others)?;
    let rest = b.select(clean, rest, zero)?;
    Ok(b.multiply(grad, rest)?)
}

#[cfg(test)]
mod tests;
