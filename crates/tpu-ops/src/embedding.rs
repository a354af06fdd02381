//! Rows of a weight, one by one or by the bag.
use crate::{
    Ignored, Op, Result, check,
    error::ensure,
    index::{is_position, narrow, take_slices},
    op::op,
    promote::{cast, opmath, widen},
    reduce::position_dtype,
    scatter::{Merge, Place, add_slices, set_slices},
    sort::{Side, count_before},
};
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_embedding_bag",                      forward),
    op!("_embedding_bag_backward",             backward),
    op!("_embedding_bag_dense_backward",       dense_backward),
    op!("_embedding_bag_forward_only",         forward),
    op!("_embedding_bag_per_sample_weights_backward", weights_backward),
    op!("embedding",                           embedding),
    op!("embedding_dense_backward",            embedding_backward),
    op!("embedding_renorm",                    renorm),
];

const OUT_OF_RANGE: &str = "IndexError: index out of range in self";

/// What a bag becomes.
const SUM: i64 = 0;
const MEAN: i64 = 1;
const MAX: i64 = 2;

/// Rows of `weight`.
fn embedding(
    b: &mut B,
    weight: Value,
    indices: Value,
    _padding_idx: Ignored,
    _scale_grad_by_freq: Ignored,
    _sparse: Ignored,
) -> Result<Value> {
    ensure!(b.rank(weight) == 2, "'weight' must be 2-D");
    ensure!(
        is_position(b.dtype(indices)),
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: \
         Long, Int; but got torch.{}Tensor instead (while checking arguments for embedding)",
        b.dtype(indices).torch()
    );
    let size = b.dims(weight)[0];
    check::bounds(b, indices, (0, size), OUT_OF_RANGE)?;
    take_slices(b, weight, 0, indices)
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
    check::bounds(b, indices, (0, rows), OUT_OF_RANGE)?;
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

/// Result, `offset2bag`, `bag_size` and `max_indices`, as PyTorch's GPU implementation shapes them.
type Bags = (Value, Value, Value, Value);

/// Sums, means or maxima of rows of `weight`, one per bag of consecutive `indices`.
fn forward(
    b: &mut B,
    weight: Value,
    indices: Value,
    offsets: Value,
    _scale_grad_by_freq: Ignored,
    mode: i64,
    _sparse: Ignored,
    weights: Option<Value>,
    include_last_offset: bool,
    padding: i64,
) -> Result<Bags> {
    ensure!(
        is_position(b.dtype(indices)) && is_position(b.dtype(offsets)),
        "embedding_bag: expected indices and offsets to be long or int"
    );
    ensure!(
        (SUM..=MAX).contains(&mode),
        "Expected mode to be 0, 1 or 2, got {mode}"
    );
    ensure!(
        weights.is_none() || mode == SUM,
        "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for \
         mode='sum' (got mode={}). Please open a feature request on GitHub.",
        if mode == MEAN { "'mean'" } else { "'max'" }
    );
    let (rows, width, n) = (b.dims(weight)[0], b.dims(weight)[1], b.ty(indices).numel());
    check::bounds(b, indices, (0, rows), OUT_OF_RANGE)?;
    sound_offsets(b, offsets, n)?;
    let given = b.ty(offsets).numel();
    let bags = if include_last_offset {
        given - 1
    } else {
        given
    };
    ensure!(
        bags >= 0,
        "include_last_offset: numBags should be at least 1"
    );
    let bag = bag_of_each(b, offsets, n, bags)?;
    let counted = not_padding(b, indices, padding)?;
    let sizes = bag_sizes(b, bag, counted, given)?;
    let values = take_slices(b, weight, 0, indices)?;
    let wide = widen(b, values);
    let (y, most) = if mode == MAX {
        maxima(b, wide, bag, counted, indices, bags)?
    } else {
        let factors = factors(b, b.dtype(wide), counted, weights)?;
        let factors = b.broadcast_in_dim(factors, &[n, width], &[0])?;
        let wide = b.multiply(wide, factors)?;
        let none = b.full(0, b.dtype(wide), &[bags, width]);
        let mut y = add_slices(b, none, 0, bag, wide)?;
        if mode == MEAN {
            y = per_bag(b, y, sizes)?;
        }
        (y, b.full(0, b.dtype(indices), &[0]))
    };
    let y = cast(b, y, b.dtype(weight));
    let to = b.dtype(indices);
    Ok((y, b.convert(bag, to), b.convert(sizes, to), most))
}

/// Offsets start at 0 and stay within the indices.
fn sound_offsets(b: &mut B, offsets: Value, n: i64) -> Result<()> {
    if b.ty(offsets).numel() == 0 {
        return Ok(());
    }
    let first = b.slice_dim(offsets, 0, 0, 1)?;
    let message = "RuntimeError: offsets[0] has to be 0, i.e., the first sequence in the \
                   mini-batch has to start from position 0. However, got {}";
    check::bounds(b, first, (0, 1), message)?;
    let message = format!(
        "RuntimeError: offsets[-1] can not be greater than input's length({n}) but got \
         offsets[-1] of {{}}"
    );
    check::bounds(b, offsets, (0, n + 1), message)
}

/// The bag that each of `n` indices is in.
fn bag_of_each(b: &mut B, offsets: Value, n: i64, bags: i64) -> Result<Value> {
    let at = position_dtype(n.max(bags));
    let offsets = b.convert(offsets, at);
    let starts = b.slice_dim(offsets, 0, 0, bags)?;
    let nth = b.iota(at, &[n], 0);
    let upto = count_before(b, starts, nth, Side::Right)?;
    let one = b.full_like(upto, 1);
    let bag = b.subtract(upto, one)?;
    Ok(b.convert(bag, at))
}

/// Which indices count.
fn not_padding(b: &mut B, indices: Value, padding: i64) -> Result<Value> {
    let pad = b.full_like(indices, padding);
    Ok(b.compare(indices, Direction::NE, pad)?)
}

/// How many indices that count are in each bag.
fn bag_sizes(b: &mut B, bag: Value, counted: Value, bags: i64) -> Result<Value> {
    let ones = b.convert(counted, b.dtype(bag));
    let none = b.full(0, b.dtype(bag), &[bags]);
    add_slices(b, none, 0, bag, ones)
}

/// What each row is multiplied with: its weight, and zero where it does not count.
fn factors(b: &mut B, dtype: DType, counted: Value, weights: Option<Value>) -> Result<Value> {
    let counts = b.convert(counted, dtype);
    let Some(weights) = weights else {
        return Ok(counts);
    };
    let weights = cast(b, weights, dtype);
    Ok(b.multiply(weights, counts)?)
}

/// Rows of `x` divided by the sizes of their bags.
fn per_bag(b: &mut B, x: Value, sizes: Value) -> Result<Value> {
    let dims = b.dims(x);
    let sizes = b.slice_dim(sizes, 0, 0, dims[0])?;
    let one = b.full_like(sizes, 1);
    let sizes = b.maximum(sizes, one)?;
    let sizes = b.convert(sizes, b.dtype(x));
    let sizes = b.broadcast_in_dim(sizes, &dims, &[0])?;
    Ok(b.divide(x, sizes)?)
}

/// The maximum of every bag, zero where there is nothing, and the index of the first row that
/// has it.
fn maxima(
    b: &mut B,
    values: Value,
    bag: Value,
    counted: Value,
    indices: Value,
    bags: i64,
) -> Result<(Value, Value)> {
    let dims = b.dims(values);
    let (n, width) = (dims[0], dims[1]);
    let to = b.dtype(indices);
    if n == 0 {
        let none = b.full(0, b.dtype(values), &[bags, width]);
        return Ok((none, b.full(0, to, &[bags, width])));
    }
    let counted = b.broadcast_in_dim(counted, &dims, &[0])?;
    let low = b.full_like(values, f64::NEG_INFINITY);
    let values = b.select(counted, values, low)?;
    let lowest = b.full(f64::NEG_INFINITY, b.dtype(values), &[bags, width]);
    let largest = Place::Slices(bag).write(b, lowest, 0, values, Merge::Max)?;
    let own = take_slices(b, largest, 0, bag)?;
    let is_it = b.compare(values, Direction::EQ, own)?;
    let is_it = b.and(is_it, counted)?;
    let at = position_dtype(n);
    let (nth, nowhere) = (b.iota(at, &dims, 0), b.full(n, at, &dims));
    let nth = b.select(is_it, nth, nowhere)?;
    let nowhere = b.full(n, at, &[bags, width]);
    let first = Place::Slices(bag).write(b, nowhere, 0, nth, Merge::Min)?;
    let found = b.compare(first, Direction::LT, nowhere)?;
    let index = take_slices(b, indices, 0, first)?;
    let (none, zero) = (b.full_like(index, 0), b.full_like(largest, 0));
    Ok((
        b.select(found, largest, zero)?,
        b.select(found, index, none)?,
    ))
}

/// The gradient of `weight`; bags are found again where the forward pass did not keep them.
fn backward(
    b: &mut B,
    grad: Value,
    indices: Value,
    offsets: Value,
    offset2bag: Value,
    bag_size: Value,
    max_indices: Value,
    rows: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    _sparse: Ignored,
    weights: Option<Value>,
    padding: i64,
) -> Result<Value> {
    let n = b.ty(indices).numel();
    let known = b.ty(offset2bag).numel() == n;
    let bags = b.dims(grad)[0];
    let bag = if known {
        offset2bag
    } else {
        bag_of_each(b, offsets, n, bags)?
    };
    dense_backward(
        b,
        grad,
        indices,
        bag,
        bag_size,
        max_indices,
        rows,
        scale_grad_by_freq,
        mode,
        weights,
        padding,
    )
}

fn dense_backward(
    b: &mut B,
    grad: Value,
    indices: Value,
    offset2bag: Value,
    bag_size: Value,
    max_indices: Value,
    rows: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    weights: Option<Value>,
    padding: i64,
) -> Result<Value> {
    let dtype = b.dtype(grad);
    let mut grad = widen(b, grad);
    let width = b.dims(grad)[1];
    let none = b.full(0, b.dtype(grad), &[rows, width]);
    if mode == MAX {
        let y = maxima_backward(b, none, grad, max_indices, bag_size)?;
        return Ok(cast(b, y, dtype));
    }
    let n = b.ty(indices).numel();
    if mode == MEAN {
        grad = per_bag(b, grad, bag_size)?;
    }
    let mut each = take_slices(b, grad, 0, offset2bag)?;
    let counted = not_padding(b, indices, padding)?;
    let factors = factors(b, b.dtype(each), counted, weights)?;
    let factors = b.broadcast_in_dim(factors, &[n, width], &[0])?;
    each = b.multiply(each, factors)?;
    let index = narrow(b, indices, rows);
    if scale_grad_by_freq {
        each = per_use(b, each, index, rows)?;
    }
    let y = add_slices(b, none, 0, index, each)?;
    Ok(cast(b, y, dtype))
}

/// Each bag's gradient goes to the row that had its maximum.
fn maxima_backward(
    b: &mut B,
    none: Value,
    grad: Value,
    max_indices: Value,
    bag_size: Value,
) -> Result<Value> {
    let dims = b.dims(grad);
    let sizes = b.slice_dim(bag_size, 0, 0, dims[0])?;
    let zero = b.full_like(sizes, 0);
    let full = b.compare(sizes, Direction::GT, zero)?;
    let full = b.broadcast_in_dim(full, &dims, &[0])?;
    let nothing = b.full_like(grad, 0);
    let grad = b.select(full, grad, nothing)?;
    Place::Elements(max_indices).write(b, none, 0, grad, Merge::Add)
}

/// `grad[bag] . weight[index]` for every index.
fn weights_backward(
    b: &mut B,
    grad: Value,
    weight: Value,
    indices: Value,
    offsets: Value,
    offset2bag: Value,
    mode: i64,
    padding: i64,
) -> Result<Value> {
    ensure!(
        mode == SUM,
        "embedding_bag_backward: per_sample_weights only supported for mode='sum'"
    );
    let dtype = b.dtype(grad);
    let n = b.ty(indices).numel();
    let known = b.ty(offset2bag).numel() == n;
    let bags = b.dims(grad)[0];
    let bag = if known {
        offset2bag
    } else {
        bag_of_each(b, offsets, n, bags)?
    };
    let (grad, weight) = (
        take_slices(b, grad, 0, bag)?,
        take_slices(b, weight, 0, indices)?,
    );
    let (grad, weight) = (widen(b, grad), widen(b, weight));
    let product = b.multiply(grad, weight)?;
    let y = b.sum(product, &[1])?;
    let counted = not_padding(b, indices, padding)?;
    let zero = b.full_like(y, 0);
    let y = b.select(counted, y, zero)?;
    Ok(cast(b, y, dtype))
}

/// Rows of `weight` at `indices` scaled down to `max_norm` where they are longer.
fn renorm(b: &mut B, weight: Value, indices: Value, max_norm: f64, p: f64) -> Result<Value> {
    let (rows, width) = (b.dims(weight)[0], b.dims(weight)[1]);
    let n = b.ty(indices).numel();
    check::bounds(b, indices, (0, rows), OUT_OF_RANGE)?;
    let index = b.reshape(indices, &[n])?;
    let dtype = opmath(b.dtype(weight));
    let used = take_slices(b, weight, 0, index)?;
    let used = cast(b, used, dtype);
    let axes = Some(Dims::from_slice(&[1]));
    let norm = crate::statistics::vector_norm(b, used, p.into(), axes, false, None)?;
    let (most, little) = (b.full_like(norm, max_norm), b.full_like(norm, 1e-7));
    let long = b.compare(norm, Direction::GT, most)?;
    let safe = b.add(norm, little)?;
    let (scale, one) = (b.divide(most, safe)?, b.full_like(norm, 1));
    let scale = b.select(long, scale, one)?;
    let scale = b.broadcast_in_dim(scale, &[n, width], &[0])?;
    let scaled = b.multiply(used, scale)?;
    let scaled = cast(b, scaled, b.dtype(weight));
    set_slices(b, weight, 0, index, scaled)
}

#[cfg(test)]
mod tests;
