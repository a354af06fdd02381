//! Writing at computed positions.
use crate::{
    Counts, Factor, Op, Result, Scalar, check,
    error::ensure,
    index::{
        at_least_1d, corner, is_position, narrow, out_of_bounds, out_of_range,
        pick::{Pick, count_true, fits_mask, is_mask, mask_counts, true_positions},
        take_slices, wrap,
    },
    op::{Plain, op},
    promote::{broadcast_shapes, cast, opmath, scalar_like, widen},
    reduce::position_dtype,
    scan::cumulative_sum,
};
use std::{marker::PhantomData, sync::Arc};
use tpu_hlo::{Builder, DType, Dims, Direction, ScatterDims, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_index_put_impl",        |b: &mut B, x, i, v, a, _: bool, n| index_put(b, x, i, v, a, n))
                                      .counted(&Plain(put_counts, PhantomData)),
    op!("_unsafe_index_put",      index_put).counted(&Plain(put_counts, PhantomData)),
    op!("embedding_dense_backward", embedding_backward),
    op!("index_add",              index_add),
    op!("index_copy",             index_copy),
    op!("index_fill.int_Scalar",  |b: &mut B, x, d, i, v: Scalar| index_fill(b, x, d, i, v.0)),
    op!("index_fill.int_Tensor",  index_fill),
    op!("index_put",              index_put).counted(&Plain(put_counts, PhantomData)),
    op!("index_reduce",           index_reduce),
    op!("masked_scatter",         masked_scatter),
    op!("masked_scatter_backward", masked_scatter_backward),
    op!("put",                    put),
    op!("scatter.reduce",         |b: &mut B, x, d, i, s, r: Arc<str>| scatter(b, x, d, i, s, named(&r)?)),
    op!("scatter.src",            |b: &mut B, x, d, i, s| scatter(b, x, d, i, s, Merge::Set)),
    op!("scatter.value",          |b: &mut B, x, d, i, v| scatter_value(b, x, d, i, v, Merge::Set)),
    op!("scatter.value_reduce",   |b: &mut B, x, d, i, v, r: Arc<str>| scatter_value(b, x, d, i, v, named(&r)?)),
    op!("scatter_add",            |b: &mut B, x, d, i, s| scatter(b, x, d, i, s, Merge::Add)),
    op!("scatter_reduce.two",     scatter_reduce),
];

/// What becomes of an element and what is written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Merge {
    Set,
    Add,
    Multiply,
    Max,
    Min,
}

impl Merge {
    fn apply(self, b: &mut B, old: Value, new: Value) -> Result<Value> {
        let truth = b.dtype(old) == DType::Bool;
        Ok(match self {
            Self::Set => new,
            Self::Add if truth => b.or(old, new)?,
            Self::Multiply if truth => b.and(old, new)?,
            Self::Add => b.add(old, new)?,
            Self::Multiply => b.multiply(old, new)?,
            Self::Max => b.maximum(old, new)?,
            Self::Min => b.minimum(old, new)?,
        })
    }

    /// The scalar that any element replaces.
    fn identity(self, b: &mut B, dtype: DType) -> Value {
        match self {
            Self::Set | Self::Add => b.scalar(0, dtype),
            Self::Multiply => b.scalar(1, dtype),
            Self::Max => b.lowest(dtype),
            Self::Min => b.highest(dtype),
        }
    }

    /// Sums and products of half-width floats are made in float32.
    fn dtype(self, dtype: DType) -> DType {
        if matches!(self, Self::Add | Self::Multiply) { opmath(dtype) } else { dtype }
    }
}

fn named(reduce: &str) -> Result<Merge> {
    match reduce {
        "add" => Ok(Merge::Add),
        "multiply" => Ok(Merge::Multiply),
        _ => Err(crate::Error::runtime(format!(
            "reduce argument must be either add or multiply, got {reduce}"
        ))),
    }
}

/// Where to write, along one dimension: element by element, or slice by slice.
enum Place {
    Elements(Value),
    Slices(Value),
}

impl Place {
    /// `x` with `updates` merged in along `axis`; positions are within bounds.
    fn write(&self, b: &mut B, x: Value, axis: i64, updates: Value, merge: Merge) -> Result<Value> {
        if b.ty(updates).numel() == 0 || b.ty(x).numel() == 0 {
            return Ok(x);
        }
        let dtype = b.dtype(x);
        let wide = merge.dtype(dtype);
        let (from, updates) = (cast(b, x, wide), cast(b, updates, wide));
        let y = match *self {
            Self::Elements(index) => write_elements(b, from, axis, index, updates, merge)?,
            Self::Slices(index) => write_slices(b, from, axis, index, updates, merge)?,
        };
        Ok(cast(b, y, dtype))
    }
}

fn write_elements(
    b: &mut B,
    x: Value,
    axis: i64,
    index: Value,
    updates: Value,
    merge: Merge,
) -> Result<Value> {
    let dims = b.dims(x);
    let mut reach = b.dims(index);
    let mut column = reach.clone();
    column.push(1);
    reach[axis as usize] = dims[axis as usize];
    let index = narrow(b, index, dims[axis as usize]);
    let index = b.reshape(index, &column)?;
    let others: Dims = (0..dims.len() as i64).filter(|i| *i != axis).collect();
    let numbers = ScatterDims {
        inserted_window_dims: Dims::from_slice(&[axis]),
        input_batching_dims: others.clone(),
        scatter_indices_batching_dims: others,
        scatter_dims_to_operand_dims: Dims::from_slice(&[axis]),
        index_vector_dim: dims.len() as i64,
        ..ScatterDims::default()
    };
    let part = corner(b, x, &reach)?;
    let part = b.scatter(part, index, updates, &numbers, false, |b, old, new| {
        merge.apply(b, old, new)
    })?;
    if reach == dims {
        return Ok(part);
    }
    let zero = b.scalar(0, DType::I32);
    let start: Vec<Value> = dims.iter().map(|_| zero).collect();
    Ok(b.dynamic_update_slice(x, part, &start)?)
}

fn write_slices(
    b: &mut B,
    x: Value,
    axis: i64,
    index: Value,
    updates: Value,
    merge: Merge,
) -> Result<Value> {
    let rank = b.rank(x) as i64;
    let index = narrow(b, index, b.dims(x)[axis as usize]);
    let numbers = ScatterDims {
        update_window_dims: (0..rank).filter(|i| *i != axis).collect(),
        inserted_window_dims: Dims::from_slice(&[axis]),
        scatter_dims_to_operand_dims: Dims::from_slice(&[axis]),
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    b.scatter(x, index, updates, &numbers, false, |b, old, new| merge.apply(b, old, new))
}

/// `x` with slices added along `axis`; positions are within bounds.
pub(crate) fn add_slices(
    b: &mut B,
    x: Value,
    axis: i64,
    index: Value,
    slices: Value,
) -> Result<Value> {
    Place::Slices(index).write(b, x, axis, slices, Merge::Add)
}

/// What `scatter` and its relatives write, checked and cut to the index.
struct Written {
    axis: i64,
    x: Value,
    index: Value,
    src: Value,
}

fn written(b: &mut B, x: Value, dim: i64, index: Value, src: Value, op: &str) -> Result<Written> {
    ensure!(
        is_position(b.dtype(index)) || b.ty(index).numel() == 0,
        "{op}(): Expected dtype int32/int64 for index"
    );
    ensure!(
        b.dtype(x) == b.dtype(src),
        "{op}(): Expected self.dtype to be equal to src.dtype"
    );
    let axis = check::dim(dim, b.rank(x))?;
    let (x, index, src) = (at_least_1d(b, x)?, at_least_1d(b, index)?, at_least_1d(b, src)?);
    let (from, at, given) = (b.dims(x), b.dims(index), b.dims(src));
    if at.contains(&0) {
        return Ok(Written { axis, x, index, src: b.full(0, b.dtype(src), &at) });
    }
    ensure!(
        from.len() == at.len(),
        "Index tensor must have the same number of dimensions as self tensor"
    );
    ensure!(
        given.len() == at.len(),
        "Index tensor must have the same number of dimensions as src tensor"
    );
    let fits = |i: usize| (i as i64 == axis || at[i] <= from[i]) && at[i] <= given[i];
    ensure!(
        (0..at.len()).all(fits),
        "Expected index {at:?} to be no larger than self {from:?} apart from dimension {axis} and \
         to be no larger size than src {given:?}"
    );
    let size = from[axis as usize];
    check::bounds(b, index, (0, size), out_of_bounds("RuntimeError", axis, size))?;
    let src = corner(b, src, &at)?;
    Ok(Written { axis, x, index, src })
}

/// `self[index[i][j]][j]` becomes `src[i][j]` or the like, for `dim` 0.
fn scatter(
    b: &mut B,
    x: Value,
    dim: i64,
    index: Value,
    src: Value,
    merge: Merge,
) -> Result<Value> {
    let dims = b.dims(x);
    let op = if merge == Merge::Add { "scatter_add" } else { "scatter" };
    let w = written(b, x, dim, index, src, op)?;
    let y = Place::Elements(w.index).write(b, w.x, w.axis, w.src, merge)?;
    Ok(b.reshape(y, &dims)?)
}

fn scatter_value(
    b: &mut B,
    x: Value,
    dim: i64,
    index: Value,
    value: Scalar,
    merge: Merge,
) -> Result<Value> {
    let value = cast(b, value.0, b.dtype(x));
    let src = b.broadcast(value, &b.dims(index))?;
    scatter(b, x, dim, index, src, merge)
}

/// How `scatter_reduce` and `index_reduce` fold: with what, and whether into a mean.
fn reduction(reduce: &str) -> Result<(Merge, bool)> {
    Ok(match reduce {
        "sum" => (Merge::Add, false),
        "mean" => (Merge::Add, true),
        "prod" => (Merge::Multiply, false),
        "amax" => (Merge::Max, false),
        "amin" => (Merge::Min, false),
        _ => {
            return Err(crate::Error::runtime(format!(
                "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
            )));
        }
    })
}

fn scatter_reduce(
    b: &mut B,
    x: Value,
    dim: i64,
    index: Value,
    src: Value,
    reduce: Arc<str>,
    include_self: bool,
) -> Result<Value> {
    let dims = b.dims(x);
    let w = written(b, x, dim, index, src, "scatter_reduce")?;
    let y = fold_in(b, &Place::Elements(w.index), w.x, w.axis, w.src, &reduce, include_self)?;
    Ok(b.reshape(y, &dims)?)
}

/// Folds `src` into the elements of `x` at `place`, which count as well with `include_self`.
fn fold_in(
    b: &mut B,
    place: &Place,
    x: Value,
    axis: i64,
    src: Value,
    reduce: &str,
    include_self: bool,
) -> Result<Value> {
    let (merge, mean) = reduction(reduce)?;
    let dtype = b.dtype(x);
    let (x, src) = if mean { (widen(b, x), widen(b, src)) } else { (x, src) };
    let mut start = x;
    if !include_self {
        let identity = merge.identity(b, b.dtype(x));
        let fresh = b.broadcast(identity, &b.dims(src))?;
        start = place.write(b, x, axis, fresh, Merge::Set)?;
    }
    let mut y = place.write(b, start, axis, src, merge)?;
    if mean {
        let (seed, ones) = (b.full_like(x, i64::from(include_self)), b.full_like(src, 1));
        let count = place.write(b, seed, axis, ones, Merge::Add)?;
        let one = b.full_like(count, 1);
        let count = b.maximum(count, one)?;
        y = floor_divide(b, y, count)?;
    }
    Ok(cast(b, y, dtype))
}

/// `x / y` for a positive `y`, rounded down for integers.
fn floor_divide(b: &mut B, x: Value, y: Value) -> Result<Value> {
    let quotient = b.divide(x, y)?;
    if !b.dtype(x).is_int() {
        return Ok(quotient);
    }
    let rest = b.remainder(x, y)?;
    let (zero, one) = (b.full_like(rest, 0), b.full_like(rest, 1));
    let below = b.compare(rest, Direction::LT, zero)?;
    let lower = b.subtract(quotient, one)?;
    Ok(b.select(below, lower, quotient)?)
}

/// Checks the index of an op that writes slices: a vector along an existing dimension.
fn slices(
    b: &mut B,
    x: Value,
    dim: i64,
    index: Value,
    source: Option<Value>,
    op: &str,
) -> Result<(i64, Value, Value)> {
    let axis = check::dim(dim, b.rank(x))?;
    ensure!(b.rank(index) <= 1, Index, "{op}(): Index is supposed to be a vector");
    ensure!(is_position(b.dtype(index)), "{op}(): Expected dtype int32/int64 for index");
    let (x, index) = (at_least_1d(b, x)?, at_least_1d(b, index)?);
    if let Some(source) = source {
        let mut want = b.dims(x);
        want[axis as usize] = b.ty(index).numel();
        let got = if b.rank(source) == 0 { Dims::from_slice(&[1]) } else { b.dims(source) };
        ensure!(
            b.dtype(x) == b.dtype(source),
            "{op}(): self and source expected to have the same dtype, but got (self) {} and \
             (source) {}",
            b.dtype(x).torch(),
            b.dtype(source).torch()
        );
        ensure!(
            got == want,
            Index,
            "{op}(): Source/destination tensor must have same slice shapes except at dimension \
             {axis}; expected {want:?} and got {got:?}"
        );
    }
    Ok((axis, x, index))
}

/// `self[index[i]] += alpha * source[i]`
fn index_add(
    b: &mut B,
    x: Value,
    dim: i64,
    index: Value,
    source: Value,
    alpha: Factor,
) -> Result<Value> {
    let dims = b.dims(x);
    let (axis, x, index) = slices(b, x, dim, index, Some(source), "index_add")?;
    let size = b.dims(x)[axis as usize];
    check::bounds(b, index, (0, size), "IndexError: index out of range in self")?;
    let source = at_least_1d(b, source)?;
    let source = match alpha {
        Factor::One => source,
        Factor::Times(alpha) => {
            let alpha = scalar_like(b, alpha, source)?;
            b.multiply(source, alpha)?
        }
    };
    let y = Place::Slices(index).write(b, x, axis, source, Merge::Add)?;
    Ok(b.reshape(y, &dims)?)
}

fn index_copy(b: &mut B, x: Value, dim: i64, index: Value, source: Value) -> Result<Value> {
    let dims = b.dims(x);
    let (axis, x, index) = slices(b, x, dim, index, Some(source), "index_copy")?;
    let size = b.dims(x)[axis as usize];
    let message = format!(
        "IndexError: index_copy_(): index {{}} is out of bounds for dimension {axis} with size \
         {size}"
    );
    check::bounds(b, index, (0, size), message)?;
    let source = at_least_1d(b, source)?;
    let y = Place::Slices(index).write(b, x, axis, source, Merge::Set)?;
    Ok(b.reshape(y, &dims)?)
}

fn index_fill(b: &mut B, x: Value, dim: i64, index: Value, value: Value) -> Result<Value> {
    ensure!(
        b.rank(value) == 0,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} \
         dimension(s).",
        b.rank(value)
    );
    let dims = b.dims(x);
    let (axis, x, index) = slices(b, x, dim, index, None, "index_fill_")?;
    let size = b.dims(x)[axis as usize];
    check::bounds(b, index, (-size, size), out_of_bounds("IndexError", axis, size))?;
    let index = wrap(b, index, size)?;
    let mut shape = b.dims(x);
    shape[axis as usize] = b.ty(index).numel();
    let value = cast(b, value, b.dtype(x));
    let values = b.broadcast(value, &shape)?;
    let y = Place::Slices(index).write(b, x, axis, values, Merge::Set)?;
    Ok(b.reshape(y, &dims)?)
}

fn index_reduce(
    b: &mut B,
    x: Value,
    dim: i64,
    index: Value,
    source: Value,
    reduce: Arc<str>,
    include_self: bool,
) -> Result<Value> {
    ensure!(
        matches!(&*reduce, "prod" | "mean" | "amax" | "amin"),
        "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
    );
    let dims = b.dims(x);
    let (axis, x, index) = slices(b, x, dim, index, Some(source), "index_reduce")?;
    let size = b.dims(x)[axis as usize];
    check::bounds(b, index, (0, size), "IndexError: index out of range in self")?;
    let source = at_least_1d(b, source)?;
    let y = fold_in(b, &Place::Slices(index), x, axis, source, &reduce, include_self)?;
    Ok(b.reshape(y, &dims)?)
}

/// Writes to positions of the flattened tensor.
fn put(b: &mut B, x: Value, index: Value, source: Value, accumulate: bool) -> Result<Value> {
    ensure!(b.dtype(index) == DType::I64, "put_(): Expected a long tensor for index");
    ensure!(
        b.dtype(x) == b.dtype(source),
        "put_(): self and source expected to have the same dtype"
    );
    let (size, n) = (b.ty(x).numel(), b.ty(index).numel());
    ensure!(
        n == b.ty(source).numel(),
        "put_(): Expected source and index to have the same number of elements"
    );
    ensure!(size > 0 || n == 0, Index, "put_(): Expected self to be non-empty");
    check::bounds(b, index, (-size, size), out_of_range(size))?;
    let (flat, index) = (b.reshape(x, &[size])?, b.reshape(index, &[n])?);
    let source = b.reshape(source, &[n])?;
    let index = wrap(b, index, size)?;
    let merge = if accumulate { Merge::Add } else { Merge::Set };
    let y = Place::Slices(index).write(b, flat, 0, source, merge)?;
    Ok(b.reshape(y, &b.dims(x))?)
}

/// The mask and where it stands, when it is the only index; such a write needs no count.
fn lone_mask(b: &B, indices: &[Option<Value>]) -> Option<(usize, Value)> {
    let mut given = indices.iter().enumerate().filter_map(|(i, v)| v.map(|v| (i, v)));
    match (given.next(), given.next()) {
        (Some((at, mask)), None) if is_mask(b, mask) => Some((at, mask)),
        _ => None,
    }
}

fn put_counts(b: &mut B, x: Value, indices: Vec<Option<Value>>) -> Result<Vec<Value>> {
    if lone_mask(b, &indices).is_some() { Ok(Vec::new()) } else { mask_counts(b, x, indices) }
}

/// `self[indices] = values`, or `+=`
fn index_put(
    b: &mut B,
    x: Value,
    indices: Vec<Option<Value>>,
    values: Value,
    accumulate: bool,
    counts: Counts,
) -> Result<Value> {
    let values = if b.is_weak(values) { cast(b, values, b.dtype(x)) } else { values };
    ensure!(
        b.dtype(x) == b.dtype(values),
        "Index put requires the source and destination dtypes match, got {} for the destination \
         and {} for the source.",
        b.dtype(x).torch(),
        b.dtype(values).torch()
    );
    if let Some((at, mask)) = lone_mask(b, &indices) {
        return masked_put(b, x, at, mask, values, accumulate);
    }
    let pick = Pick::new(b, x, &indices, &counts)?;
    let shape = b.dims(values);
    ensure!(
        broadcast_shapes(&[&shape, &pick.dims]).is_ok_and(|d| d == pick.dims),
        "shape mismatch: value tensor of shape {shape:?} cannot be broadcast to indexing result \
         of shape {:?}",
        pick.dims
    );
    if pick.dims.contains(&0) {
        return Ok(x);
    }
    let merge = if accumulate { Merge::Add } else { Merge::Set };
    let (dtype, wide) = (b.dtype(x), merge.dtype(b.dtype(x)));
    let (x, values) = (cast(b, x, wide), cast(b, values, wide));
    let values = b.broadcast(values, &pick.dims)?;
    let y = pick.write(b, x, values, |b, old, new| merge.apply(b, old, new))?;
    Ok(cast(b, y, dtype))
}

/// `self[:, mask] = values` as a select: the number of true elements decides no size.
fn masked_put(
    b: &mut B,
    x: Value,
    at: usize,
    mask: Value,
    values: Value,
    accumulate: bool,
) -> Result<Value> {
    let (dims, covered) = (b.dims(x), b.rank(mask));
    fits_mask(&dims, at, &b.dims(mask))?;
    let after = dims.len() - at - covered;
    let values = spread(b, x, (at, after), mask, values)?;
    let values = b.broadcast(values, &dims)?;
    let mask = cast(b, mask, DType::Bool);
    let axes: Dims = (at as i64..(at + covered) as i64).collect();
    let mask = b.broadcast_in_dim(mask, &dims, &axes)?;
    let new = if accumulate { Merge::Add.apply(b, x, values)? } else { values };
    Ok(b.select(mask, new, x)?)
}

/// `values` for `before` dimensions, those of the masked elements, and `after` more, with each
/// element put where the mask wants it; broadcastable to `x`'s shape.
fn spread(
    b: &mut B,
    x: Value,
    (before, after): (usize, usize),
    mask: Value,
    values: Value,
) -> Result<Value> {
    let (from, given, covered) = (b.dims(x), b.dims(values), b.dims(mask));
    let trailing = given.len().min(after);
    let (front, back) = given.split_at(given.len() - trailing);
    let fits = |have: &[i64], want: &[i64]| {
        have.len() <= want.len()
            && have.iter().rev().zip(want.iter().rev()).all(|(h, w)| h == w || *h == 1)
    };
    let leading = &front[..front.len().saturating_sub(1)];
    let rows = front.last().copied().unwrap_or(1);
    let (lead, tail) = (&from[..before], &from[from.len() - after..]);
    let there = lead.iter().map(i64::to_string).chain(["{}".to_owned()]);
    let there: Vec<String> = there.chain(tail.iter().map(i64::to_string)).collect();
    let shape = there.join(", ");
    let message = format!(
        "shape mismatch: value tensor of shape {given:?} cannot be broadcast to indexing result \
         of shape [{shape}]"
    );
    ensure!(fits(leading, lead) && fits(back, tail), "{message}");
    if rows == 1 {
        let ones = covered.iter().map(|_| 1);
        let dims: Dims = leading.iter().copied().chain(ones).chain(back.iter().copied()).collect();
        return Ok(b.reshape(values, &dims)?);
    }
    let count = count_true(b, mask)?;
    let rows_there = b.scalar(rows, DType::I64);
    let right = b.compare(count, Direction::EQ, rows_there)?;
    let fine = b.scalar(i64::MIN, DType::I64);
    let bad = b.select(right, fine, count)?;
    b.check(bad, format!("RuntimeError: {message}"));
    if rows == 0 {
        return Ok(b.full(0, b.dtype(x), &from));
    }
    let order = order_among_true(b, mask)?;
    take_slices(b, values, leading.len() as i64, order)
}

/// For each element how many true ones come before it; meaningless where the mask does not hold.
fn order_among_true(b: &mut B, mask: Value) -> Result<Value> {
    let dims = b.dims(mask);
    let numel = b.ty(mask).numel();
    let mask = cast(b, mask, DType::Bool);
    let mask = b.reshape(mask, &[numel])?;
    let ones = b.convert(mask, position_dtype(numel));
    let upto = cumulative_sum(b, ones, 0)?;
    let order = b.subtract(upto, ones)?;
    Ok(b.reshape(order, &dims)?)
}

/// The elements where `mask` holds become those of `source`, in order.
fn masked_scatter(b: &mut B, x: Value, mask: Value, source: Value) -> Result<Value> {
    ensure!(
        b.dtype(x) == b.dtype(source),
        "masked_scatter: expected self and source to have same dtypes but got {} and {}",
        b.dtype(x).torch(),
        b.dtype(source).torch()
    );
    ensure!(
        b.dtype(mask) == DType::Bool,
        "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
        b.dtype(mask).torch()
    );
    let dims = broadcast_shapes(&[&b.dims(x), &b.dims(mask)])?;
    let (x, mask) = (b.broadcast(x, &dims)?, b.broadcast(mask, &dims)?);
    let n = b.ty(source).numel();
    let count = count_true(b, mask)?;
    let there = b.scalar(n, DType::I64);
    let enough = b.compare(count, Direction::LE, there)?;
    let fine = b.scalar(i64::MIN, DType::I64);
    let bad = b.select(enough, fine, count)?;
    b.check(bad, "RuntimeError: Number of elements of source < number of ones in mask");
    if n == 0 || b.ty(x).numel() == 0 {
        return Ok(x);
    }
    let source = b.reshape(source, &[n])?;
    let order = order_among_true(b, mask)?;
    let values = take_slices(b, source, 0, order)?;
    Ok(b.select(mask, values, x)?)
}

/// The gradient of `source`: the elements of `grad` where `mask` holds, then zeros.
fn masked_scatter_backward(b: &mut B, grad: Value, mask: Value, sizes: Dims) -> Result<Value> {
    let dims = b.dims(grad);
    let mask = b.broadcast(mask, &dims)?;
    let n: i64 = sizes.iter().product();
    let numel = b.ty(grad).numel();
    if n == 0 || numel == 0 {
        return Ok(b.full(0, b.dtype(grad), &sizes));
    }
    let positions = true_positions(b, mask, n)?;
    let flat = b.reshape(grad, &[numel])?;
    let found = take_slices(b, flat, 0, positions)?;
    let (end, zero) = (b.full_like(positions, numel), b.full_like(found, 0));
    let there = b.compare(positions, Direction::LT, end)?;
    let y = b.select(there, found, zero)?;
    Ok(b.reshape(y, &sizes)?)
}

/// Sums up the gradients of each row of the weight.
fn embedding_backward(
    b: &mut B,
    grad: Value,
    indices: Value,
    rows: i64,
    padding: i64,
    scale_by_frequency: bool,
) -> Result<Value> {
    let width = b.dims(grad).last().copied().unwrap_or(1);
    let n = b.ty(indices).numel();
    let dtype = b.dtype(grad);
    if n == 0 || rows * width == 0 {
        return Ok(b.full(0, dtype, &[rows, width]));
    }
    check::bounds(b, indices, (0, rows), "IndexError: index out of range in self")?;
    let (mut grad, indices) = (b.reshape(grad, &[n, width])?, b.reshape(indices, &[n])?);
    let mut index = narrow(b, indices, rows);
    if scale_by_frequency {
        grad = per_use(b, grad, index, rows)?;
    }
    if padding >= 0 {
        // XLA drops what is written out of bounds.
        let (pad, nowhere) = (b.full_like(index, padding), b.full_like(index, rows));
        let padded = b.compare(index, Direction::EQ, pad)?;
        index = b.select(padded, nowhere, index)?;
    }
    let zeros = b.full(0, dtype, &[rows, width]);
    Place::Slices(index).write(b, zeros, 0, grad, Merge::Add)
}

/// Each row of `grad` divided by how often its index occurs.
fn per_use(b: &mut B, grad: Value, index: Value, rows: i64) -> Result<Value> {
    let dtype = opmath(b.dtype(grad));
    let (none, ones) = (b.full(0, dtype, &[rows]), b.full(1, dtype, &b.dims(index)));
    let uses = Place::Slices(index).write(b, none, 0, ones, Merge::Add)?;
    let uses = take_slices(b, uses, 0, index)?;
    let wide = cast(b, grad, dtype);
    let uses = b.broadcast_in_dim(uses, &b.dims(wide), &[0])?;
    let y = b.divide(wide, uses)?;
    Ok(cast(b, y, b.dtype(grad)))
}
