//! Distances between rows.
use crate::{
    Op, Result,
    error::ensure,
    op::op,
    promote::{broadcast_shapes, cast, widen},
    reduce::Fold,
    statistics::p_norm,
};
use tpu_hlo::{Builder, Dims, Direction, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_cdist_backward", cdist_backward),
    op!("_cdist_forward",  cdist),
    op!("_pdist_backward", pdist_backward),
    op!("_pdist_forward",  pdist),
];

/// `x1[.., i, :] - x2[.., j, :]` for all `i` and `j`.
fn differences(b: &mut B, x1: Value, x2: Value) -> Result<Value> {
    let (left, right) = (b.dims(x1), b.dims(x2));
    ensure!(
        left.len() >= 2,
        "cdist only supports at least 2D tensors, X1 got: {}D",
        left.len()
    );
    ensure!(
        right.len() >= 2,
        "cdist only supports at least 2D tensors, X2 got: {}D",
        right.len()
    );
    let ((lead1, [r1, c1]), (lead2, [r2, c2])) = (matrices(&left), matrices(&right));
    ensure!(
        c1 == c2,
        "X1 and X2 must have the same number of columns. X1: {c1} X2: {c2}"
    );
    let lead = broadcast_shapes(&[lead1, lead2])?;
    let (x1, x2) = (
        b.reshape(x1, &[lead1, &[r1, 1, c1]].concat())?,
        b.reshape(x2, &[lead2, &[1, r2, c1]].concat())?,
    );
    let dims = [&lead, &[r1, r2, c1][..]].concat();
    let (x1, x2) = (b.broadcast(x1, &dims)?, b.broadcast(x2, &dims)?);
    Ok(b.subtract(x1, x2)?)
}

fn matrices(dims: &[i64]) -> (&[i64], [i64; 2]) {
    let (lead, last) = dims.split_at(dims.len() - 2);
    (lead, [last[0], last[1]])
}

/// The p-norm of the last dimension; zero when it is empty.
fn lengths(b: &mut B, off: Value, p: f64) -> Result<Value> {
    let fold = Fold::one(b, off, -1, false)?;
    if fold.count == 0 {
        return Ok(b.full(0, b.dtype(off), &fold.dims));
    }
    p_norm(b, off, p, &fold)
}

/// The p-norm of the difference of each row of `x1` and each of `x2`. `compute_mode` chooses
/// between ways of the same result.
fn cdist(b: &mut B, x1: Value, x2: Value, p: f64, _mode: Option<i64>) -> Result<Value> {
    ensure!(p >= 0.0, "cdist only supports non-negative p values");
    let dtype = b.dtype(x1);
    let (x1, x2) = (widen(b, x1), widen(b, x2));
    let off = differences(b, x1, x2)?;
    let y = lengths(b, off, p)?;
    Ok(cast(b, y, dtype))
}

/// The gradient of `x1`.
fn cdist_backward(b: &mut B, grad: Value, x1: Value, x2: Value, p: f64, y: Value) -> Result<Value> {
    let dtype = b.dtype(x1);
    let (grad, x1, x2, y) = (widen(b, grad), widen(b, x1), widen(b, x2), widen(b, y));
    let off = differences(b, x1, x2)?;
    let dims = b.dims(off);
    let slope = slope(b, off, y, p)?;
    let axes: Dims = (0..dims.len() as i64 - 1).collect();
    let grad = b.broadcast_in_dim(grad, &dims, &axes)?;
    let each = b.multiply(slope, grad)?;
    let sum = b.sum(each, &[dims.len() as i64 - 2])?;
    Ok(cast(b, sum, dtype))
}

/// The derivative of the p-norm `y` by the differences `off`; zero where the norm is.
fn slope(b: &mut B, off: Value, y: Value, p: f64) -> Result<Value> {
    let dims = b.dims(off);
    let axes: Dims = (0..dims.len() as i64 - 1).collect();
    let y = b.broadcast_in_dim(y, &dims, &axes)?;
    let (zero, sign, size) = (b.full_like(off, 0), b.sign(off), b.abs(off));
    let raw = if p == 0.0 {
        return Ok(zero);
    } else if p == 1.0 {
        return Ok(sign);
    } else if p == f64::INFINITY {
        let largest = b.compare(size, Direction::EQ, y)?;
        let at = b.convert(largest, b.dtype(off));
        b.multiply(sign, at)?
    } else if p == 2.0 {
        b.divide(off, y)?
    } else {
        let exponent = b.full_like(off, p - 1.0);
        let (above, below) = (b.power(size, exponent)?, b.power(y, exponent)?);
        let ratio = b.divide(above, below)?;
        b.multiply(sign, ratio)?
    };
    let still = b.compare(y, Direction::EQ, zero)?;
    let flat = b.compare(off, Direction::EQ, zero)?;
    let none = b.or(still, flat)?;
    Ok(b.select(none, zero, raw)?)
}

/// First and second row of every pair, in PyTorch's order.
fn pairs(b: &mut B, n: i64) -> Result<(Value, Value)> {
    let both = crate::factory::triangle_pairs(b, n)?;
    let count = b.dims(both)[1];
    let (first, second) = (b.slice_dim(both, 0, 0, 1)?, b.slice_dim(both, 0, 1, 2)?);
    Ok((b.reshape(first, &[count])?, b.reshape(second, &[count])?))
}

/// The p-norm of the difference of every pair of rows.
fn pdist(b: &mut B, x: Value, p: f64) -> Result<Value> {
    let dtype = b.dtype(x);
    let x = widen(b, x);
    let off = pair_differences(b, x)?;
    let y = lengths(b, off, p)?;
    Ok(cast(b, y, dtype))
}

fn pair_differences(b: &mut B, x: Value) -> Result<Value> {
    ensure!(
        b.rank(x) == 2,
        "_pdist_forward only supports 2D tensors, got: {}D",
        b.rank(x)
    );
    let (first, second) = pairs(b, b.dims(x)[0])?;
    let (first, second) = (
        crate::index::take_slices(b, x, 0, first)?,
        crate::index::take_slices(b, x, 0, second)?,
    );
    Ok(b.subtract(first, second)?)
}

fn pdist_backward(b: &mut B, grad: Value, x: Value, p: f64, y: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    let (grad, x, y) = (widen(b, grad), widen(b, x), widen(b, y));
    let none = b.full_like(x, 0);
    if b.ty(y).numel() == 0 {
        return Ok(cast(b, none, dtype));
    }
    let off = pair_differences(b, x)?;
    let slope = slope(b, off, y, p)?;
    let grad = b.broadcast_in_dim(grad, &b.dims(off), &[0])?;
    let each = b.multiply(slope, grad)?;
    let back = b.negate(each);
    let (first, second) = pairs(b, b.dims(x)[0])?;
    let sum = crate::scatter::add_slices(b, none, 0, first, each)?;
    let sum = crate::scatter::add_slices(b, sum, 0, second, back)?;
    Ok(cast(b, sum, dtype))
}

#[cfg(test)]
mod tests;
