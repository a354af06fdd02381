//! Moving elements without computing.
use crate::{
    Counts, Ignored, Op, OutDtype, Result, Scalar, check,
    error::ensure,
    op::{Plain, op},
    pad::place,
    promote::{cast, result_type},
    reduce::position_dtype,
    scan::cumulative_sum,
    sort::{Side, count_before},
};
use std::marker::PhantomData;
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_stack",                   stack).out(OutDtype::Cast),
    op!("block_diag",               block_diagonal),
    op!("cat",                      cat).keeps_format(),
    op!("cat.out",                  |b: &mut B, xs, d, out: DType| {
        let y = cat(b, xs, d)?;
        fits(b, y, out)
    }).keeps_format().apart(&[0]).out(OutDtype::Cast),
    op!("channel_shuffle",          channel_shuffle).keeps_format(),
    op!("constant_pad_nd",          constant_pad).keeps_format(),
    op!("diag_embed",               diagonal_embed),
    op!("diagonal_backward",        diagonal_backward),
    op!("flip",                     flip).follows_inputs(),
    op!("narrow_copy",              narrow_copy),
    op!("pixel_shuffle",            pixel_shuffle).keeps_format(),
    op!("pixel_unshuffle",          pixel_unshuffle).keeps_format(),
    op!("repeat",                   repeat),
    op!("repeat_interleave.Tensor", repeat_interleave).counted(&Plain(repeat_count, PhantomData)),
    op!("roll",                     roll).follows_inputs(),
    op!("select_backward",          select_backward),
    op!("slice_backward",           slice_backward),
    op!("stack",                    stack),
    op!("stack.out",                |b: &mut B, xs, d, out: DType| {
        let y = stack(b, xs, d)?;
        fits(b, y, out)
    }).out(OutDtype::Cast),
    op!("tril",                     |b: &mut B, x, k| triangle(b, x, k, "tril")),
    op!("triu",                     |b: &mut B, x, k| triangle(b, x, k, "triu")),
];

/// Tensors joined along `dim`; vectors of no elements join anything.
fn cat(b: &mut B, xs: Vec<Value>, dim: i64) -> Result<Value> {
    ensure!(
        !xs.is_empty(),
        Value,
        "torch.cat(): expected a non-empty list of Tensors"
    );
    if let Some(i) = xs.iter().position(|x| b.rank(*x) == 0) {
        ensure!(
            false,
            "zero-dimensional tensor (at position {i}) cannot be concatenated"
        );
    }
    let dtype = result_type(b, &xs)?;
    let skipped = |x: Value| b.ty(x).dims.as_slice() == [0];
    let Some(&first) = xs.iter().find(|x| !skipped(**x)) else {
        check::dim(dim, 1)?;
        return Ok(cast(b, xs[0], dtype));
    };
    let axis = check::dim(dim, b.rank(first))?;
    let mut parts = Vec::with_capacity(xs.len());
    for (i, &x) in xs.iter().enumerate() {
        if b.ty(x).dims.as_slice() != [0] {
            joins(&b.dims(first), &b.dims(x), axis, i)?;
            parts.push(cast(b, x, dtype));
        }
    }
    Ok(b.concatenate(&parts, axis)?)
}

/// `length` elements of `dim`, from `start` on.
fn narrow_copy(b: &mut B, x: Value, dim: i64, start: i64, length: i64) -> Result<Value> {
    let rank = b.rank(x);
    ensure!(rank > 0, "narrow() cannot be applied to a 0-dim tensor.");
    let axis = check::dim(dim, rank)?;
    let n = b.dims(x)[axis as usize];
    ensure!(
        -n <= start && start <= n,
        Index,
        "start out of range (expected to be in range of [-{n}, {n}], but got {start})"
    );
    let start = if start < 0 { start + n } else { start };
    ensure!(
        length >= 0 && start + length <= n,
        "start ({start}) + length ({length}) exceeds dimension size ({n})."
    );
    Ok(b.slice_dim(x, axis, start, start + length)?)
}

/// Demands that `out` can hold what [`cat`] and [`stack`] give.
fn fits(b: &B, y: Value, out: DType) -> Result<Value> {
    let from = b.dtype(y);
    let kind = |t: DType| {
        (
            t != DType::Bool,
            t.is_float() || t.is_complex(),
            t.is_complex(),
        )
    };
    let (have, hold) = (kind(from), kind(out));
    ensure!(
        have.0 <= hold.0 && have.1 <= hold.1 && have.2 <= hold.2,
        Type,
        "torch.cat(): input types can't be cast to the desired output type {}",
        out.torch()
    );
    Ok(y)
}

fn joins(first: &Dims, dims: &Dims, axis: i64, at: usize) -> Result<()> {
    ensure!(
        first.len() == dims.len(),
        "Tensors must have same number of dimensions: got {} and {}",
        first.len(),
        dims.len()
    );
    for (i, (n, m)) in first.iter().zip(dims).enumerate() {
        ensure!(
            i as i64 == axis || n == m,
            "Sizes of tensors must match except in dimension {axis}. Expected size {n} but got \
             size {m} for tensor number {at} in the list."
        );
    }
    Ok(())
}

/// Pads from the last dimension on, `(low, high)` each; negative numbers crop.
fn constant_pad(b: &mut B, x: Value, pad: Dims, value: Scalar) -> Result<Value> {
    let (dims, rank) = (b.dims(x), b.rank(x));
    ensure!(
        pad.len().is_multiple_of(2),
        "Length of pad must be even but instead it equals {}",
        pad.len()
    );
    ensure!(
        pad.len() <= 2 * rank,
        "Length of pad should be no more than twice the number of dimensions of the input. Pad \
         length is {}while the input has {rank}dimensions.",
        pad.len()
    );
    let zeros: Dims = dims.iter().map(|_| 0).collect();
    let (mut low, mut high) = (zeros.clone(), zeros.clone());
    for (i, pair) in pad.chunks_exact(2).enumerate() {
        let axis = rank - 1 - i;
        (low[axis], high[axis]) = (pair[0], pair[1]);
        ensure!(
            dims[axis] + pair[0] + pair[1] >= 0,
            "The input size {}, plus negative padding {} and {} resulted in a negative output \
             size, which is invalid. Check dimension {axis} of your input.",
            dims[axis],
            pair[0],
            pair[1]
        );
    }
    let value = cast(b, value.0, b.dtype(x));
    Ok(b.pad(x, value, &low, &high, &zeros)?)
}

fn flip(b: &mut B, x: Value, dims: Dims) -> Result<Value> {
    let axes = if dims.is_empty() {
        dims
    } else {
        check::dims(Some(&dims), b.rank(x))?
    };
    Ok(if axes.is_empty() {
        x
    } else {
        b.reverse(x, &axes)
    })
}

/// The elements up to `diagonal`, or from it on; zero elsewhere.
fn triangle(b: &mut B, x: Value, diagonal: i64, op: &str) -> Result<Value> {
    let keep = if op == "tril" {
        Direction::LE
    } else {
        Direction::GE
    };
    let dims = b.dims(x);
    ensure!(
        dims.len() >= 2,
        "{op}: input tensor must have at least 2 dimensions"
    );
    let matrix = &dims[dims.len() - 2..];
    // Diagonals beyond the matrix are all alike.
    let diagonal = diagonal.clamp(-matrix[0] - 1, matrix[1] + 1);
    let (row, column) = (b.iota(DType::I32, matrix, 0), b.iota(DType::I32, matrix, 1));
    let offset = b.full_like(row, diagonal);
    let row = b.add(row, offset)?;
    let inside = b.compare(column, keep, row)?;
    let inside = b.broadcast(inside, &dims)?;
    let zero = b.full_like(x, 0);
    Ok(b.select(inside, x, zero)?)
}

/// Tensors of one shape joined along a new dimension.
fn stack(b: &mut B, xs: Vec<Value>, dim: i64) -> Result<Value> {
    ensure!(!xs.is_empty(), "stack expects a non-empty TensorList");
    let dims = b.dims(xs[0]);
    let axis = check::dim(dim, dims.len() + 1)?;
    let dtype = result_type(b, &xs)?;
    let mut long = dims.clone();
    long.insert(axis as usize, 1);
    let mut parts = Vec::with_capacity(xs.len());
    for (i, x) in xs.into_iter().enumerate() {
        ensure!(
            b.dims(x) == dims,
            "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at \
             entry {i}",
            dims.as_slice(),
            b.dims(x).as_slice()
        );
        let x = cast(b, x, dtype);
        parts.push(b.reshape(x, &long)?);
    }
    Ok(b.concatenate(&parts, axis)?)
}

/// Matrices along a diagonal, zeros elsewhere.
fn block_diagonal(b: &mut B, xs: Vec<Value>) -> Result<Value> {
    if xs.is_empty() {
        return Ok(b.full(0, b.settings.default_dtype, &[1, 0]));
    }
    let dtype = result_type(b, &xs)?;
    let mut blocks = Vec::with_capacity(xs.len());
    for (i, x) in xs.into_iter().enumerate() {
        let dims = b.dims(x);
        ensure!(
            dims.len() <= 2,
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {} \
             dimensions",
            dims.len()
        );
        let x = cast(b, x, dtype);
        let [rows, columns] = match dims.as_slice() {
            [] => [1, 1],
            [n] => [1, *n],
            [n, m, ..] => [*n, *m],
        };
        blocks.push((b.reshape(x, &[rows, columns])?, rows, columns));
    }
    let width = blocks.iter().map(|(_, _, columns)| columns).sum();
    let (mut left, mut bands) = (0, Vec::with_capacity(blocks.len()));
    for (x, _, columns) in blocks {
        bands.push(place(b, x, 1, left, width)?);
        left += columns;
    }
    Ok(b.concatenate(&bands, 0)?)
}

/// The groups of channels, interleaved.
fn channel_shuffle(b: &mut B, x: Value, groups: i64) -> Result<Value> {
    let dims = b.dims(x);
    ensure!(
        dims.len() > 2,
        "channel_shuffle expects input with > 2 dims, but got input with sizes {:?}",
        dims.as_slice()
    );
    ensure!(
        groups > 0,
        "Number of groups to divide channels in must be positive. Value of groups:{groups}"
    );
    ensure!(
        dims[1] % groups == 0,
        "Number of channels must be divisible by groups. Got {} channels and {groups} groups.",
        dims[1]
    );
    let rest: i64 = dims[2..].iter().product();
    let x = b.reshape(x, &[dims[0], groups, dims[1] / groups, rest])?;
    let x = b.transpose(x, &[0, 2, 1, 3])?;
    Ok(b.reshape(x, &dims)?)
}

/// `[.., C * r^2, H, W]` to `[.., C, H * r, W * r]`
fn pixel_shuffle(b: &mut B, x: Value, r: i64) -> Result<Value> {
    let dims = b.dims(x);
    ensure!(
        dims.len() >= 3,
        "pixel_shuffle expects input to have at least 3 dimensions, but got input with {} \
         dimension(s)",
        dims.len()
    );
    ensure!(
        r > 0,
        "pixel_shuffle expects a positive upscale_factor, but got {r}"
    );
    let (lead, [c, h, w]) = last_three(&dims);
    ensure!(
        c % (r * r) == 0,
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of \
         upscale_factor, but input.size(-3)={c} is not divisible by {}",
        r * r
    );
    let n: i64 = lead.iter().product();
    let x = b.reshape(x, &[n, c / (r * r), r, r, h, w])?;
    let x = b.transpose(x, &[0, 1, 4, 2, 5, 3])?;
    let out: Dims = [lead, &[c / (r * r), h * r, w * r]].concat().into();
    Ok(b.reshape(x, &out)?)
}

/// The inverse of [`pixel_shuffle`].
fn pixel_unshuffle(b: &mut B, x: Value, r: i64) -> Result<Value> {
    let dims = b.dims(x);
    ensure!(
        dims.len() >= 3,
        "pixel_unshuffle expects input to have at least 3 dimensions, but got input with {} \
         dimension(s)",
        dims.len()
    );
    ensure!(
        r > 0,
        "pixel_unshuffle expects a positive downscale_factor, but got {r}"
    );
    let (lead, [c, h, w]) = last_three(&dims);
    for (name, at, n) in [("height", -2, h), ("width", -1, w)] {
        ensure!(
            n % r == 0,
            "pixel_unshuffle expects {name} to be divisible by downscale_factor, but \
             input.size({at})={n} is not divisible by {r}"
        );
    }
    let n: i64 = lead.iter().product();
    let x = b.reshape(x, &[n, c, h / r, r, w / r, r])?;
    let x = b.transpose(x, &[0, 1, 3, 5, 2, 4])?;
    let out: Dims = [lead, &[c * r * r, h / r, w / r]].concat().into();
    Ok(b.reshape(x, &out)?)
}

fn last_three(dims: &[i64]) -> (&[i64], [i64; 3]) {
    let (lead, last) = dims.split_at(dims.len() - 3);
    (lead, [last[0], last[1], last[2]])
}

/// Copies side by side in every dimension.
fn repeat(b: &mut B, x: Value, repeats: Dims) -> Result<Value> {
    let dims = b.dims(x);
    ensure!(
        repeats.len() >= dims.len(),
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of \
         tensor"
    );
    if let Some(negative) = repeats.iter().find(|r| **r < 0) {
        ensure!(
            false,
            "Trying to create tensor with negative dimension {negative}"
        );
    }
    let shift = repeats.len() - dims.len();
    let (mut stretched, mut out, mut axes) = (Dims::new(), Dims::new(), Dims::new());
    for (i, &r) in repeats.iter().enumerate() {
        let n = if i < shift { 1 } else { dims[i - shift] };
        stretched.extend_from_slice(&[r, n]);
        out.push(r * n);
        if i >= shift {
            axes.push(2 * i as i64 + 1);
        }
    }
    let x = b.broadcast_in_dim(x, &stretched, &axes)?;
    Ok(b.reshape(x, &out)?)
}

fn repeat_count(b: &mut B, repeats: Value, output_size: Option<i64>) -> Result<Vec<Value>> {
    if output_size.is_some() {
        return Ok(Vec::new());
    }
    let repeats = b.convert(repeats, DType::I64);
    Ok(vec![b.sum(repeats, &[0])?])
}

/// Each position as often as `repeats` says.
fn repeat_interleave(
    b: &mut B,
    repeats: Value,
    output_size: Option<i64>,
    counts: Counts,
) -> Result<Value> {
    ensure!(
        b.rank(repeats) == 1,
        "repeat_interleave only accept 1D vector as repeat"
    );
    let dtype = b.dtype(repeats);
    ensure!(
        matches!(dtype, DType::I32 | DType::I64),
        "repeats has to be Long or Int tensor"
    );
    let zero = b.full_like(repeats, 0);
    let negative = b.compare(repeats, Direction::LT, zero)?;
    check::nowhere(b, negative, "RuntimeError: repeats can not be negative")?;
    let size = output_size.or(counts.0.first().copied()).unwrap_or(0);
    let at = position_dtype(size);
    let lengths = b.convert(repeats, at);
    let ends = cumulative_sum(b, lengths, 0)?;
    let nth = b.iota(at, &[size], 0);
    let index = count_before(b, ends, nth, Side::Right)?;
    Ok(b.convert(index, dtype))
}

/// Elements moved on, those at the end to the start.
fn roll(b: &mut B, x: Value, shifts: Dims, dims: Dims) -> Result<Value> {
    ensure!(!shifts.is_empty(), "`shifts` required");
    if dims.is_empty() && shifts.len() == 1 {
        let flat = b.reshape(x, &[b.ty(x).numel()])?;
        let y = roll_axis(b, flat, 0, shifts[0])?;
        return Ok(b.reshape(y, &b.dims(x))?);
    }
    ensure!(
        shifts.len() == dims.len(),
        "shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        dims.len()
    );
    let mut y = x;
    for (shift, dim) in shifts.iter().zip(&dims) {
        ensure!(
            b.rank(x) > 0,
            Index,
            "Dimension specified as {dim} but tensor has no dimensions"
        );
        let axis = check::dim(*dim, b.rank(x))?;
        y = roll_axis(b, y, axis, *shift)?;
    }
    Ok(y)
}

fn roll_axis(b: &mut B, x: Value, axis: i64, shift: i64) -> Result<Value> {
    let n = b.dims(x)[axis as usize];
    if n == 0 || shift.rem_euclid(n) == 0 {
        return Ok(x);
    }
    let cut = n - shift.rem_euclid(n);
    let (front, back) = (b.slice_dim(x, axis, 0, cut)?, b.slice_dim(x, axis, cut, n)?);
    Ok(b.concatenate(&[back, front], axis)?)
}

/// The gradient of the view `select`: zeros around `grad`.
fn select_backward(b: &mut B, grad: Value, sizes: Dims, dim: i64, index: i64) -> Result<Value> {
    let axis = check::dim(dim, sizes.len())?;
    let n = sizes[axis as usize];
    ensure!(
        -n <= index && index < n,
        Index,
        "select(): index {index} out of range for tensor of size {:?} at dimension {axis}",
        sizes.as_slice()
    );
    let mut one = sizes.clone();
    one[axis as usize] = 1;
    let grad = b.reshape(grad, &one)?;
    place(b, grad, axis, index.rem_euclid(n), n)
}

/// The gradient of the view `slice`: zeros around and between.
fn slice_backward(
    b: &mut B,
    grad: Value,
    sizes: Dims,
    dim: i64,
    start: i64,
    _end: Ignored,
    step: i64,
) -> Result<Value> {
    let axis = check::dim(dim, sizes.len())?;
    let (n, m) = (sizes[axis as usize], b.dims(grad)[axis as usize]);
    if m == 0 {
        return Ok(b.full(0, b.dtype(grad), &sizes));
    }
    let start = if start < 0 { start + n } else { start }.clamp(0, n);
    let zeros: Dims = sizes.iter().map(|_| 0).collect();
    let (mut low, mut high, mut between) = (zeros.clone(), zeros.clone(), zeros);
    low[axis as usize] = start;
    between[axis as usize] = step - 1;
    high[axis as usize] = n - start - (m - 1) * step - 1;
    let zero = b.scalar(0, b.dtype(grad));
    Ok(b.pad(grad, zero, &low, &high, &between)?)
}

/// `x` along the diagonal of two new dimensions.
fn diagonal_embed(b: &mut B, x: Value, offset: i64, dim1: i64, dim2: i64) -> Result<Value> {
    let rank = b.rank(x) + 1;
    let (first, second) = (check::dim(dim1, rank)?, check::dim(dim2, rank)?);
    ensure!(
        first != second,
        "diagonal dimensions cannot be identical {dim1}, {dim2}"
    );
    let mut sizes = b.dims(x);
    let n = sizes.pop().unwrap_or(1) + offset.abs();
    for axis in [first.min(second), first.max(second)] {
        sizes.insert(axis as usize, n);
    }
    spread_diagonal(b, x, &sizes, offset, (first, second))
}

/// The gradient of the view `diagonal`.
fn diagonal_backward(
    b: &mut B,
    grad: Value,
    sizes: Dims,
    offset: i64,
    dim1: i64,
    dim2: i64,
) -> Result<Value> {
    let (first, second) = (
        check::dim(dim1, sizes.len())?,
        check::dim(dim2, sizes.len())?,
    );
    spread_diagonal(b, grad, &sizes, offset, (first, second))
}

/// The last dimension of `x` laid along the diagonal `offset` of dimensions `first` and `second`
/// of a tensor of zeros.
fn spread_diagonal(
    b: &mut B,
    x: Value,
    sizes: &Dims,
    offset: i64,
    (first, second): (i64, i64),
) -> Result<Value> {
    let length = b.dims(x).last().copied().unwrap_or(0);
    if length == 0 || sizes.contains(&0) {
        return Ok(b.full(0, b.dtype(x), sizes));
    }
    // The element of row r stands at r + offset, or with a negative offset at the column's place.
    let along = if offset >= 0 { first } else { second };
    let last = b.rank(x) as i64 - 1;
    let x = place(b, x, last, 0, sizes[along as usize])?;
    let others = (0..sizes.len() as i64).filter(|i| *i != first && *i != second);
    let axes: Dims = others.chain([along]).collect();
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|i| axes[*i]);
    let permutation: Dims = order.iter().map(|i| *i as i64).collect();
    let ascending: Dims = order.iter().map(|i| axes[*i]).collect();
    let x = b.transpose(x, &permutation)?;
    let x = b.broadcast_in_dim(x, sizes, &ascending)?;
    let (row, column) = (
        b.iota(DType::I32, sizes, first),
        b.iota(DType::I32, sizes, second),
    );
    let shift = b.full_like(row, offset);
    let row = b.add(row, shift)?;
    let on = b.compare(row, Direction::EQ, column)?;
    let zero = b.full_like(x, 0);
    Ok(b.select(on, x, zero)?)
}

#[cfg(test)]
mod tests;
