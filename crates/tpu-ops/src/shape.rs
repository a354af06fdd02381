//! Moving elements without computing.
use crate::{
    Op, Result, Scalar, check,
    error::ensure,
    op::op,
    promote::{cast, result_type},
};
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("cat",             cat),
    op!("constant_pad_nd", constant_pad),
    op!("flip",            flip),
    op!("tril",            |b: &mut B, x, k| triangle(b, x, k, Direction::LE)),
    op!("triu",            |b: &mut B, x, k| triangle(b, x, k, Direction::GE)),
];

/// Tensors joined along `dim`; vectors of no elements join anything.
fn cat(b: &mut B, xs: Vec<Value>, dim: i64) -> Result<Value> {
    ensure!(!xs.is_empty(), Value, "torch.cat(): expected a non-empty list of Tensors");
    if let Some(i) = xs.iter().position(|x| b.rank(*x) == 0) {
        ensure!(false, "zero-dimensional tensor (at position {i}) cannot be concatenated");
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
        if !(b.ty(x).dims.as_slice() == [0]) {
            joins(&b.dims(first), &b.dims(x), axis, i)?;
            parts.push(cast(b, x, dtype));
        }
    }
    Ok(b.concatenate(&parts, axis)?)
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
    ensure!(pad.len().is_multiple_of(2), "Length of pad must be even but instead it equals {}", pad.len());
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
    let axes = if dims.is_empty() { dims } else { check::dims(Some(&dims), b.rank(x))? };
    Ok(if axes.is_empty() { x } else { b.reverse(x, &axes) })
}

/// The elements whose column minus row is `keep` than `diagonal`; zero elsewhere.
fn triangle(b: &mut B, x: Value, diagonal: i64, keep: Direction) -> Result<Value> {
    let dims = b.dims(x);
    ensure!(dims.len() >= 2, "tril: input tensor must have at least 2 dimensions");
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
