//! Writing through `Tensor?[]` indices and masks, and to flattened positions.
use crate::{
    Counts, Op, Result, check,
    error::ensure,
    index::{
        out_of_range,
        pick::{Pick, count_true, fits_mask, is_mask, mask_counts, true_positions},
        take_slices, wrap,
    },
    op::{Plain, op},
    promote::{broadcast_shapes, cast},
    reduce::position_dtype,
    scan::cumulative_sum,
    scatter::{Merge, Place},
};
use std::marker::PhantomData;
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_index_put_impl",         |b: &mut B, x, i, v, a, _: bool, n| index_put(b, x, i, v, a, n))
                                       .counted(&Plain(put_counts, PhantomData)),
    op!("_unsafe_index_put",       index_put).counted(&Plain(put_counts, PhantomData)),
    op!("index_put",               index_put).counted(&Plain(put_counts, PhantomData)),
    op!("masked_scatter",          masked_scatter),
    op!("masked_scatter_backward", masked_scatter_backward),
    op!("put",                     put).apart(&[1, 2]),
];

/// Writes to positions of the flattened tensor.
fn put(b: &mut B, x: Value, index: Value, source: Value, accumulate: bool) -> Result<Value> {
    ensure!(
        b.dtype(index) == DType::I64,
        "put_(): Expected a long tensor for index"
    );
    ensure!(
        b.dtype(x) == b.dtype(source),
        "put_(): self and source expected to have the same dtype"
    );
    let (size, n) = (b.ty(x).numel(), b.ty(index).numel());
    ensure!(
        n == b.ty(source).numel(),
        "put_(): Expected source and index to have the same number of elements"
    );
    ensure!(
        size > 0 || n == 0,
        Index,
        "put_(): Expected self to be non-empty"
    );
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
    let mut given = indices
        .iter()
        .enumerate()
        .filter_map(|(i, v)| v.map(|v| (i, v)));
    match (given.next(), given.next()) {
        (Some((at, mask)), None) if is_mask(b, mask) => Some((at, mask)),
        _ => None,
    }
}

fn put_counts(b: &mut B, x: Value, indices: Vec<Option<Value>>) -> Result<Vec<Value>> {
    if lone_mask(b, &indices).is_some() {
        Ok(Vec::new())
    } else {
        mask_counts(b, x, indices)
    }
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
    let mask = lone_mask(b, &indices);
    // One number for all masked elements is `masked_fill`, which casts it.
    let filled = mask.is_some() && b.rank(values) == 0 && !accumulate;
    let values = if filled || b.is_weak(values) {
        cast(b, values, b.dtype(x))
    } else {
        values
    };
    ensure!(
        b.dtype(x) == b.dtype(values),
        "Index put requires the source and destination dtypes match, got {} for the destination \
         and {} for the source.",
        b.dtype(x).torch(),
        b.dtype(values).torch()
    );
    if let Some((at, mask)) = mask {
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
    let new = if accumulate {
        Merge::Add.apply(b, x, values)?
    } else {
        values
    };
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
            && have
                .iter()
                .rev()
                .zip(want.iter().rev())
                .all(|(h, w)| h == w || *h == 1)
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
    ensure!(
        fits(leading, lead) && fits(back, tail),
        "{}",
        message.replace("{}", &rows.to_string())
    );
    if rows == 1 {
        let ones = covered.iter().map(|_| 1);
        let dims: Dims = leading
            .iter()
            .copied()
            .chain(ones)
            .chain(back.iter().copied())
            .collect();
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
    b.check(
        bad,
        "RuntimeError: Number of elements of source < number of ones in mask",
    );
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

#[cfg(test)]
mod tests;
