//! Padding with what is already there.
use crate::{
    Op, Result,
    error::ensure,
    op::op,
    promote::{cast, widen},
};
use tpu_hlo::{Builder, Dims, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("reflection_pad1d",           |b: &mut B, x, p| pad::<1>(b, x, p, &REFLECTION)),
    op!("reflection_pad1d_backward",  |b: &mut B, g, x, p| backward::<1>(b, g, x, p, &REFLECTION)),
    op!("reflection_pad2d",           |b: &mut B, x, p| pad::<2>(b, x, p, &REFLECTION)).keeps_format(),
    op!("reflection_pad2d_backward",  |b: &mut B, g, x, p| backward::<2>(b, g, x, p, &REFLECTION)).keeps_format(),
    op!("reflection_pad3d",           |b: &mut B, x, p| pad::<3>(b, x, p, &REFLECTION)).keeps_format(),
    op!("reflection_pad3d_backward",  |b: &mut B, g, x, p| backward::<3>(b, g, x, p, &REFLECTION)).keeps_format(),
    op!("replication_pad1d",          |b: &mut B, x, p| pad::<1>(b, x, p, &REPLICATION)),
    op!("replication_pad1d_backward", |b: &mut B, g, x, p| backward::<1>(b, g, x, p, &REPLICATION)),
    op!("replication_pad2d",          |b: &mut B, x, p| pad::<2>(b, x, p, &REPLICATION)).keeps_format(),
    op!("replication_pad2d_backward", |b: &mut B, g, x, p| backward::<2>(b, g, x, p, &REPLICATION)).keeps_format(),
    op!("replication_pad3d",          |b: &mut B, x, p| pad::<3>(b, x, p, &REPLICATION)).keeps_format(),
    op!("replication_pad3d_backward", |b: &mut B, g, x, p| backward::<3>(b, g, x, p, &REPLICATION)).keeps_format(),
];

/// Where the elements outside come from.
struct Kind {
    name: &'static str,
    /// The inside is mirrored at the edge, else the edge is repeated.
    mirror: bool,
}

const REFLECTION: Kind = Kind {
    name: "reflection_pad",
    mirror: true,
};
const REPLICATION: Kind = Kind {
    name: "replication_pad",
    mirror: false,
};

/// The padded dimensions with their `(low, high)`, checked: the last `N`, one or none for batch
/// and one for channels in front.
fn sides<const N: usize>(
    dims: &Dims,
    padding: &Dims,
    kind: &Kind,
) -> Result<Vec<(usize, i64, i64)>> {
    let (name, rank) = (kind.name, dims.len());
    ensure!(
        padding.len() == 2 * N,
        "padding size is expected to be {}",
        2 * N
    );
    let batched = rank == N + 2;
    let valid = (rank == N + 1 || batched) && dims[usize::from(batched)..].iter().all(|d| *d > 0);
    let want = ["2D or 3D", "3D or 4D", "4D or 5D"][N - 1];
    ensure!(
        valid,
        "Expected {want} (batch mode) tensor with possibly 0 batch size and other non-zero \
         dimensions for input, but got: {:?}",
        dims.as_slice()
    );
    let mut sides = Vec::new();
    for (i, pair) in padding.chunks_exact(2).enumerate() {
        let axis = rank - 1 - i;
        let (low, high, n) = (pair[0], pair[1], dims[axis]);
        ensure!(
            !kind.mirror || (low < n && high < n),
            "Argument #{}: Padding size should be less than the corresponding input dimension, \
             but got: padding ({low}, {high}) at dimension {axis} of input {:?}",
            4 + 2 * i,
            dims.as_slice()
        );
        ensure!(
            n + low + high >= 1,
            "input is too small for {name}{N}d: dimension {axis} of size {n} with padding \
             ({low}, {high})"
        );
        sides.push((axis, low, high));
    }
    Ok(sides)
}

fn pad<const N: usize>(b: &mut B, x: Value, padding: Dims, kind: &Kind) -> Result<Value> {
    let mut y = x;
    for (axis, low, high) in sides::<N>(&b.dims(x), &padding, kind)? {
        y = pad_axis(b, y, axis as i64, (low, high), kind)?;
    }
    Ok(y)
}

fn pad_axis(b: &mut B, x: Value, axis: i64, (low, high): (i64, i64), kind: &Kind) -> Result<Value> {
    let n = b.dims(x)[axis as usize];
    let center = b.slice_dim(x, axis, (-low).clamp(0, n), n - (-high).clamp(0, n))?;
    let mut parts = vec![center];
    if low > 0 {
        let edge = if kind.mirror {
            mirrored(b, x, axis, 1, low)?
        } else {
            repeated(b, x, axis, 0, low)?
        };
        parts.insert(0, edge);
    }
    if high > 0 {
        let edge = if kind.mirror {
            mirrored(b, x, axis, n - 1 - high, high)?
        } else {
            repeated(b, x, axis, n - 1, high)?
        };
        parts.push(edge);
    }
    Ok(b.concatenate(&parts, axis)?)
}

/// `count` elements from `start` on, in reverse.
fn mirrored(b: &mut B, x: Value, axis: i64, start: i64, count: i64) -> Result<Value> {
    let inside = b.slice_dim(x, axis, start, start + count)?;
    Ok(b.reverse(inside, &[axis]))
}

/// The element at `at`, `count` times.
fn repeated(b: &mut B, x: Value, axis: i64, at: i64, count: i64) -> Result<Value> {
    let mut dims = b.dims(x);
    dims[axis as usize] = count;
    let one = b.slice_dim(x, axis, at, at + 1)?;
    Ok(b.broadcast(one, &dims)?)
}

/// The gradient outside is added to where it came from.
fn backward<const N: usize>(
    b: &mut B,
    grad: Value,
    x: Value,
    padding: Dims,
    kind: &Kind,
) -> Result<Value> {
    let dims = b.dims(x);
    let sides = sides::<N>(&dims, &padding, kind)?;
    let mut want = dims.clone();
    for (axis, low, high) in &sides {
        want[*axis] += low + high;
    }
    ensure!(
        b.dims(grad) == want,
        "grad_output has the wrong shape: expected {:?}, got {:?}",
        want.as_slice(),
        b.dims(grad).as_slice()
    );
    let dtype = b.dtype(grad);
    let mut y = widen(b, grad);
    for (axis, low, high) in sides {
        y = fold_axis(b, y, axis as i64, (low, high), dims[axis], kind)?;
    }
    Ok(cast(b, y, dtype))
}

fn fold_axis(
    b: &mut B,
    grad: Value,
    axis: i64,
    (low, high): (i64, i64),
    n: i64,
    kind: &Kind,
) -> Result<Value> {
    let long = b.dims(grad)[axis as usize];
    let (first, end) = (low.max(0), long - high.max(0));
    let center = b.slice_dim(grad, axis, first, end)?;
    let mut y = place(b, center, axis, (-low).max(0), n)?;
    if low > 0 {
        let outside = b.slice_dim(grad, axis, 0, low)?;
        let inside = gathered(b, outside, axis, kind)?;
        let inside = place(b, inside, axis, i64::from(kind.mirror), n)?;
        y = b.add(y, inside)?;
    }
    if high > 0 {
        let outside = b.slice_dim(grad, axis, end, long)?;
        let inside = gathered(b, outside, axis, kind)?;
        let at = if kind.mirror { n - 1 - high } else { n - 1 };
        let inside = place(b, inside, axis, at, n)?;
        y = b.add(y, inside)?;
    }
    Ok(y)
}

/// What flows back to the inside from one edge.
fn gathered(b: &mut B, outside: Value, axis: i64, kind: &Kind) -> Result<Value> {
    if kind.mirror {
        return Ok(b.reverse(outside, &[axis]));
    }
    let mut dims = b.dims(outside);
    dims[axis as usize] = 1;
    let sum = b.sum(outside, &[axis])?;
    Ok(b.reshape(sum, &dims)?)
}

/// `x` from `at` on, among zeros, in a dimension of size `n`.
pub(crate) fn place(b: &mut B, x: Value, axis: i64, at: i64, n: i64) -> Result<Value> {
    let zeros: Dims = b.dims(x).iter().map(|_| 0).collect();
    let (mut low, mut high) = (zeros.clone(), zeros.clone());
    low[axis as usize] = at;
    high[axis as usize] = n - at - b.dims(x)[axis as usize];
    let zero = b.scalar(0, b.dtype(x));
    Ok(b.pad(x, zero, &low, &high, &zeros)?)
}

#[cfg(test)]
mod tests;
