//! Order.
use crate::{
    Ignored, Op, OutDtype, Result, Scalar, check,
    error::ensure,
    index::{take_along, take_slices},
    op::op,
    promote::{cast, result_type},
    reduce::position_dtype,
};
use std::sync::Arc;
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;

const OUT_DTYPE: OutDtype = OutDtype::Exact(
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or \
     Long(int64) depending on whether out_int32 flag is True, but we got output tensor's dtype \
     {out}",
);

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("bucketize.Scalar",    |b: &mut B, v: Scalar, s, i, r| bucketize(b, v.0, s, i, r)),
    op!("bucketize.Tensor",    bucketize).out(OUT_DTYPE),
    op!("searchsorted.Scalar", |b: &mut B, s, v: Scalar, i, r, e, o| {
        search(b, s, v.0, i, (r, e), o)
    }).out(OUT_DTYPE),
    op!("searchsorted.Tensor", |b: &mut B, s, v, i, r, e, o| search(b, s, v, i, (r, e), o))
        .out(OUT_DTYPE),
    op!("sort",                |b: &mut B, x, d, r| sort(b, x, d, r)).follows_inputs(),
    op!("sort.stable",         |b: &mut B, x, _: Option<bool>, d, r| sort(b, x, d, r))
        .follows_inputs(),
    op!("topk",                topk),
];

/// Whether `x` comes before `y`: NaN of either sign is the largest.
pub(crate) fn precedes(b: &mut B, x: Value, y: Value, descending: bool) -> Result<Value> {
    let direction = if descending {
        Direction::GT
    } else {
        Direction::LT
    };
    let before = b.compare(x, direction, y)?;
    if !b.dtype(x).is_float() {
        return Ok(before);
    }
    let (nan, number) = if descending { (x, y) } else { (y, x) };
    let nan = b.compare(nan, Direction::NE, nan)?;
    let number = b.compare(number, Direction::EQ, number)?;
    let apart = b.and(nan, number)?;
    Ok(b.or(before, apart)?)
}

/// `x` sorted along `axis`, equals in their order, and the positions they came from in the
/// narrowest dtype.
pub(crate) fn sorted(b: &mut B, x: Value, axis: i64, descending: bool) -> Result<(Value, Value)> {
    let dims = b.dims(x);
    let index = b.iota(position_dtype(dims[axis as usize]), &dims, axis);
    let y = b.sort(&[x, index], axis, true, |b, l, r| {
        precedes(b, l[0], r[0], descending)
    })?;
    Ok((y[0], y[1]))
}

/// Where the sorted elements begin to differ from the one before; NaN differs from NaN.
pub(crate) fn run_starts(b: &mut B, y: Value, axis: i64) -> Result<Value> {
    let dims = b.dims(y);
    let n = dims[axis as usize];
    let mut one = dims.clone();
    one[axis as usize] = n.min(1);
    let first = b.full(true, DType::Bool, &one);
    let (left, right) = (
        b.slice_dim(y, axis, 0, (n - 1).max(0))?,
        b.slice_dim(y, axis, n.min(1), n)?,
    );
    let differs = b.compare(left, Direction::NE, right)?;
    Ok(b.concatenate(&[first, differs], axis)?)
}

fn real(b: &B, x: Value, op: &str) -> Result<()> {
    let dtype = b.dtype(x);
    ensure!(
        !dtype.is_complex(),
        "{op}(): complex dtypes are not supported"
    );
    Ok(())
}

/// Always stable, asked or not.
fn sort(b: &mut B, x: Value, dim: i64, descending: bool) -> Result<(Value, Value)> {
    real(b, x, "sort")?;
    let axis = check::dim(dim, b.rank(x))?;
    if b.rank(x) == 0 {
        return Ok((x, b.scalar(0, DType::I64)));
    }
    let (y, index) = sorted(b, x, axis, descending)?;
    Ok((y, b.convert(index, DType::I64)))
}

/// The `k` largest or smallest, in order whether asked or not.
fn topk(
    b: &mut B,
    x: Value,
    k: i64,
    dim: i64,
    largest: bool,
    _sorted: Ignored,
) -> Result<(Value, Value)> {
    real(b, x, "topk")?;
    let axis = check::dim(dim, b.rank(x))?;
    let n = b.dims(x).get(axis as usize).copied().unwrap_or(1);
    ensure!((0..=n).contains(&k), "selected index k out of range");
    if b.rank(x) == 0 {
        return Ok((x, b.scalar(0, DType::I64)));
    }
    let mut order: Dims = (0..b.rank(x) as i64).collect();
    order.swap(axis as usize, b.rank(x) - 1);
    let last = b.transpose(x, &order)?;
    let key = rank_key(b, last, largest)?;
    let (_, index) = b.top_k(key, k);
    let index = b.transpose(index, &order)?;
    let y = take_along(b, x, axis, index)?;
    Ok((y, b.convert(index, DType::I64)))
}

/// A key whose largest elements are wanted. XLA has a fast way for float32, which every type of 16
/// bits or less fits, and takes NaNs by their sign.
fn rank_key(b: &mut B, x: Value, largest: bool) -> Result<Value> {
    let dtype = b.dtype(x);
    let key = if dtype.size() <= 2 {
        b.convert(x, DType::F32)
    } else {
        x
    };
    if !b.dtype(key).is_float() {
        return Ok(if largest { key } else { b.not(key) });
    }
    let nan = b.compare(key, Direction::NE, key)?;
    let end = b.full_like(key, f64::NAN);
    let (key, end) = if largest {
        (key, end)
    } else {
        (b.negate(key), b.negate(end))
    };
    Ok(b.select(nan, end, key)?)
}

/// On which side of its equals a value is placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Before them.
    Left,
    /// After them.
    Right,
}

/// [`search`] in one vector.
fn bucketize(
    b: &mut B,
    values: Value,
    sorted: Value,
    out_int32: bool,
    right: bool,
) -> Result<Value> {
    let rank = b.rank(sorted);
    ensure!(
        rank == 1,
        "boundaries tensor must be 1 dimension, but got dim({rank})"
    );
    search(b, sorted, values, out_int32, (right, None), None)
}

/// Before which element of `sorted` each value belongs.
fn search(
    b: &mut B,
    sorted: Value,
    values: Value,
    out_int32: bool,
    (right, side): (bool, Option<Arc<str>>),
    sorter: Option<Value>,
) -> Result<Value> {
    let side = match side.as_deref() {
        None if right => Side::Right,
        None => Side::Left,
        Some("left") => {
            ensure!(
                !right,
                "torch.searchsorted(): side and right can't be set to opposites, got side of \
                 left while right was True"
            );
            Side::Left
        }
        Some("right") => Side::Right,
        Some(other) => {
            return Err(crate::Error::runtime(format!(
                "torch.searchsorted(): side can only be 'left' or 'right' but got {other}"
            )));
        }
    };
    searchable(b, sorted, values, sorter)?;
    let dtype = result_type(b, &[sorted, values])?;
    let n = b.dims(sorted)[b.rank(sorted) - 1];
    let sorted = match sorter {
        Some(order) => {
            let message = "RuntimeError: torch.searchsorted(): sorter index out of range";
            check::bounds(b, order, (0, n), message)?;
            take_along(b, sorted, b.rank(sorted) as i64 - 1, order)?
        }
        None => sorted,
    };
    let (sorted, values) = (cast(b, sorted, dtype), cast(b, values, dtype));
    let found = count_before(b, sorted, values, side)?;
    Ok(b.convert(found, if out_int32 { DType::I32 } else { DType::I64 }))
}

fn searchable(b: &B, sorted: Value, values: Value, sorter: Option<Value>) -> Result<()> {
    let (from, at) = (b.dims(sorted), b.dims(values));
    ensure!(
        !from.is_empty(),
        "torch.searchsorted(): boundary tensor should have at least 1 dimension, but got 0"
    );
    ensure!(
        from.len() == 1 || (from.len() == at.len() && from[..from.len() - 1] == at[..at.len() - 1]),
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 \
         dimensions of boundaries tensor and input value tensor must match, but we got \
         boundaries tensor {:?} and input value tensor {:?}",
        from.as_slice(),
        at.as_slice()
    );
    if let Some(sorter) = sorter {
        ensure!(
            b.dims(sorter) == from,
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary \
             tensor {:?} and got sorter tensor {:?}",
            from.as_slice(),
            b.dims(sorter).as_slice()
        );
        ensure!(
            b.dtype(sorter) == DType::I64,
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
            b.dtype(sorter).torch()
        );
    }
    Ok(())
}

/// How many elements of `sorted`, ascending along its last dimension, come before each of
/// `values`, which is of the same dtype. `sorted` is one vector for all values, or has their
/// leading dimensions. The result has the narrowest dtype.
pub(crate) fn count_before(b: &mut B, sorted: Value, values: Value, side: Side) -> Result<Value> {
    let n = b.dims(sorted).last().copied().unwrap_or(1);
    let at = position_dtype(n);
    let found = b.full(0, at, &b.dims(values));
    if n == 0 {
        return Ok(found);
    }
    let step = b.scalar(1_i64 << n.ilog2(), at);
    let state = b.while_loop(
        &[step, found, sorted, values],
        |b, state| {
            let zero = b.scalar(0, at);
            Ok::<_, crate::Error>(b.compare(state[0], Direction::GT, zero)?)
        },
        |b, state| {
            let found = advance(b, state, n, side)?;
            let one = b.scalar(1, at);
            let step = b.shift_right_logical(state[0], one)?;
            Ok(smallvec::smallvec![step, found, state[2], state[3]])
        },
    )?;
    Ok(state[1])
}

/// One round of a binary search: `found`, or `found + step` when the element there comes before.
fn advance(b: &mut B, state: &[Value], n: i64, side: Side) -> Result<Value> {
    let [step, found, sorted, values] = *state else {
        return Err(crate::Error::runtime("a search has four values"));
    };
    let dims = b.dims(found);
    let step = b.broadcast(step, &dims)?;
    let next = b.add(found, step)?;
    let (one, end) = (b.full_like(next, 1), b.full_like(next, n));
    let last = b.subtract(next, one)?;
    let element = if b.rank(sorted) == 1 {
        take_slices(b, sorted, 0, last)?
    } else {
        take_along(b, sorted, dims.len() as i64 - 1, last)?
    };
    let stop = if side == Side::Left {
        Direction::GE
    } else {
        Direction::GT
    };
    let stops = b.compare(element, stop, values)?;
    let before = b.not(stops);
    let inside = b.compare(next, Direction::LE, end)?;
    let go = b.and(inside, before)?;
    Ok(b.select(go, next, found)?)
}

#[cfg(test)]
mod tests;
