//! Running sums and their relatives.
use crate::{
    Op, Result, check,
    op::op,
    promote::{cast, widen},
    reduce::sum_dtype,
};
use smallvec::SmallVec;
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;
type Values = SmallVec<[Value; 2]>;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("cumprod", |b: &mut B, x, d, t| running(b, x, d, t, 1, B::multiply)),
    op!("cumsum",  |b: &mut B, x, d, t| running(b, x, d, t, 0, B::add)),
];

/// Elements that are scanned in one piece; longer dimensions are scanned piece by piece, then the
/// pieces' totals, so that the work stays proportional to the length.
const PIECE: i64 = 64;

/// Inclusive scan along `axis`: `combine` gets what is left of an element and the element, is
/// associative, and `identity` (scalars) changes nothing on its left.
pub(crate) fn scan(
    b: &mut B,
    xs: &[Value],
    axis: i64,
    identity: &[Value],
    combine: &dyn Fn(&mut B, &[Value], &[Value]) -> Result<Values>,
) -> Result<Values> {
    let dims = b.dims(xs[0]);
    let n = dims[axis as usize];
    if n <= PIECE {
        return scan_piece(b, xs, axis, identity, combine);
    }
    let pieces = (n + PIECE - 1) / PIECE;
    let mut split: Dims = dims.clone();
    split[axis as usize] = pieces;
    split.insert(axis as usize + 1, PIECE);
    let mut cut = Values::new();
    for (x, id) in xs.iter().zip(identity) {
        let x = shift(b, *x, axis, 0, pieces * PIECE - n, *id)?;
        cut.push(b.reshape(x, &split)?);
    }
    let inner = scan_piece(b, &cut, axis + 1, identity, combine)?;
    let before = totals_before(b, &inner, axis, identity, combine)?;
    let whole = combine(b, &before, &inner)?;
    let (mut long, ones) = (dims.clone(), dims.iter().map(|_| 1).collect::<Dims>());
    long[axis as usize] = pieces * PIECE;
    let start: Dims = dims.iter().map(|_| 0).collect();
    whole
        .iter()
        .map(|y| {
            let y = b.reshape(*y, &long)?;
            Ok(b.slice(y, &start, &dims, &ones)?)
        })
        .collect()
}

/// For every piece (`axis`) the combination of all pieces before it, spread over the piece.
fn totals_before(
    b: &mut B,
    inner: &[Value],
    axis: i64,
    identity: &[Value],
    combine: &dyn Fn(&mut B, &[Value], &[Value]) -> Result<Values>,
) -> Result<Values> {
    let split = b.dims(inner[0]);
    let mut totals = Values::new();
    for x in inner {
        let last = b.slice_dim(*x, axis + 1, PIECE - 1, PIECE)?;
        let mut dims = split.clone();
        dims.remove(axis as usize + 1);
        totals.push(b.reshape(last, &dims)?);
    }
    let totals = scan(b, &totals, axis, identity, combine)?;
    let others: Dims = (0..split.len() as i64).filter(|i| *i != axis + 1).collect();
    let spread = totals.iter().zip(identity).map(|(x, id)| {
        let x = shift(b, *x, axis, 1, -1, *id)?;
        Ok(b.broadcast_in_dim(x, &split, &others)?)
    });
    spread.collect()
}

/// Each round combines every element with the one `step` before it, `step` doubling.
fn scan_piece(
    b: &mut B,
    xs: &[Value],
    axis: i64,
    identity: &[Value],
    combine: &dyn Fn(&mut B, &[Value], &[Value]) -> Result<Values>,
) -> Result<Values> {
    let n = b.dims(xs[0])[axis as usize];
    let mut xs: Values = xs.into();
    let mut step = 1;
    while step < n {
        let mut before = Values::new();
        for (x, id) in xs.iter().zip(identity) {
            before.push(shift(b, *x, axis, step, -step, *id)?);
        }
        xs = combine(b, &before, &xs)?;
        step *= 2;
    }
    Ok(xs)
}

/// `x` with `low` and `high` more elements (fewer when negative) along `axis`.
fn shift(b: &mut B, x: Value, axis: i64, low: i64, high: i64, fill: Value) -> Result<Value> {
    let zeros: Dims = b.dims(x).iter().map(|_| 0).collect();
    let (mut lows, mut highs) = (zeros.clone(), zeros.clone());
    (lows[axis as usize], highs[axis as usize]) = (low, high);
    Ok(b.pad(x, fill, &lows, &highs, &zeros)?)
}

/// The running sum along `axis`, in `x`'s dtype.
pub(crate) fn cumulative_sum(b: &mut B, x: Value, axis: i64) -> Result<Value> {
    let zero = b.scalar(0, b.dtype(x));
    let y = scan(b, &[x], axis, &[zero], &|b, before, x| {
        Ok(smallvec::smallvec![b.add(before[0], x[0])?])
    })?;
    Ok(y[0])
}

/// `cumsum` and `cumprod`; integers are added up in 64 bits.
fn running(
    b: &mut B,
    x: Value,
    dim: i64,
    dtype: Option<DType>,
    identity: i64,
    op: fn(&mut B, Value, Value) -> tpu_hlo::Result<Value>,
) -> Result<Value> {
    let axis = check::dim(dim, b.rank(x))?;
    let to = dtype.unwrap_or(sum_dtype(b.dtype(x)));
    let x = cast(b, x, to);
    if b.rank(x) == 0 {
        return Ok(x);
    }
    let x = widen(b, x);
    let identity = b.scalar(identity, b.dtype(x));
    let y = scan(b, &[x], axis, &[identity], &|b, before, x| {
        Ok(smallvec::smallvec![op(b, before[0], x[0])?])
    })?;
    Ok(cast(b, y[0], to))
}
