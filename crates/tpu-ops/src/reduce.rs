//! Many elements to one.
use crate::{
    Op, OutDtype, Result, check,
    error::ensure,
    op::op,
    promote::{cast, widen},
};
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;

// Where `out=` decides what a reduction computes in, the row is named after that overload.
const ALL_OUT_DTYPE: OutDtype =
    OutDtype::Exact("all only supports bool tensor for result, got: {out}");
const ANY_OUT_DTYPE: OutDtype =
    OutDtype::Exact("any only supports bool tensor for result, got: {out}");

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_aminmax",                |b: &mut B, x| aminmax(b, x, None, false)),
    op!("_aminmax.dim",            |b: &mut B, x, d: i64, k| aminmax(b, x, Some(d), k)),
    op!("all",                     |b: &mut B, x| truth(b, x, None, false, B::all))
        .out(ALL_OUT_DTYPE),
    op!("all.dim",                 |b: &mut B, x, d: i64, k| truth(b, x, Some(&[d]), k, B::all))
        .out(ALL_OUT_DTYPE),
    op!("all.dims",                |b: &mut B, x, d, k| truth_dims(b, x, d, k, B::all))
        .out(ALL_OUT_DTYPE),
    op!("amax",                    |b: &mut B, x, d, k| extremes(b, x, d, k, (&MAX, "amax"))),
    op!("amax.out",                |b: &mut B, x, d, k, out| {
        same_as_out(b, x, out)?;
        extremes(b, x, d, k, (&MAX, "amax"))
    }),
    op!("amin",                    |b: &mut B, x, d, k| extremes(b, x, d, k, (&MIN, "amin"))),
    op!("amin.out",                |b: &mut B, x, d, k, out| {
        same_as_out(b, x, out)?;
        extremes(b, x, d, k, (&MIN, "amin"))
    }),
    op!("aminmax",                 aminmax),
    op!("any",                     |b: &mut B, x| truth(b, x, None, false, B::any))
        .out(ANY_OUT_DTYPE),
    op!("any.dim",                 |b: &mut B, x, d: i64, k| truth(b, x, Some(&[d]), k, B::any))
        .out(ANY_OUT_DTYPE),
    op!("any.dims",                |b: &mut B, x, d, k| truth_dims(b, x, d, k, B::any))
        .out(ANY_OUT_DTYPE),
    op!("argmax",                  |b: &mut B, x, d, k| arg(b, x, d, k, &MAX)),
    op!("argmin",                  |b: &mut B, x, d, k| arg(b, x, d, k, &MIN)),
    op!("hash_tensor",             hash)
        .out(OutDtype::Exact("Expected result to be of dtype uint64, but got {out}")),
    op!("max",                     |b: &mut B, x| extremes(b, x, Dims::new(), false, MAX_OF_ALL))
        .out(OutDtype::Cast),
    op!("max.dim",                 |b: &mut B, x, d, k| with_position(b, x, d, k, &MAX)),
    op!("mean",                    |b: &mut B, x, t| mean(b, x, None, false, t))
        .out(OutDtype::Cast),
    op!("mean.dim",                mean),
    op!("mean.out",                |b: &mut B, x, d, k, t: Option<DType>, out| {
        mean(b, x, d, k, t.or(Some(out)))
    }),
    op!("min",                     |b: &mut B, x| extremes(b, x, Dims::new(), false, MIN_OF_ALL))
        .out(OutDtype::Cast),
    op!("min.dim",                 |b: &mut B, x, d, k| with_position(b, x, d, k, &MIN)),
    op!("nansum",                  nansum).out(OutDtype::Cast),
    op!("nansum.out",              |b: &mut B, x, d, k, t: Option<DType>, out: DType| {
        ensure!(
            out.is_float() || !b.dtype(x).is_float(),
            NotImplemented,
            "\"nansum\" not implemented for '{}'",
            out.torch()
        );
        nansum(b, x, d, k, t.or(Some(out)))
    }).out(OutDtype::Exact(
        "nansum: provided dtype must match dtype of result. Got {result} and {out}.",
    )),
    op!("prod",                    |b: &mut B, x, t| prod(b, x, None, false, t)),
    op!("prod.dim_int",            |b: &mut B, x, d: i64, k, t| prod(b, x, Some(&[d]), k, t)),
    op!("prod.int_out",            |b: &mut B, x, d: i64, k, t: Option<DType>, out| {
        prod(b, x, Some(&[d]), k, t.or(Some(out)))
    }),
    op!("sum",                     |b: &mut B, x, t| sum(b, x, None, false, t)),
    op!("sum.IntList_out",         |b: &mut B, x, d, k, t: Option<DType>, out| {
        sum(b, x, d, k, t.or(Some(out)))
    }),
    op!("sum.dim_IntList",         sum),
];

/// The axes that a reduction folds, and the shape that it leaves.
pub(crate) struct Fold {
    pub(crate) axes: Dims,
    /// The result's shape, `keepdim` applied.
    pub(crate) dims: Dims,
    /// The result's shape with every axis kept.
    pub(crate) kept: Dims,
    /// How many elements become one.
    pub(crate) count: i64,
}

impl Fold {
    /// Folds `dim`, all dimensions when none is given.
    pub(crate) fn new(b: &B, x: Value, dim: Option<&[i64]>, keepdim: bool) -> Result<Self> {
        Ok(Self::of(b, x, check::dims(dim, b.rank(x))?, keepdim))
    }

    /// Folds the one dimension `dim`; a 0-dimensional tensor has none to fold.
    pub(crate) fn one(b: &B, x: Value, dim: i64, keepdim: bool) -> Result<Self> {
        Self::new(b, x, Some(&[dim]), keepdim)
    }

    fn of(b: &B, x: Value, axes: Dims, keepdim: bool) -> Self {
        let from = b.dims(x);
        let folded = |i: usize| axes.contains(&(i as i64));
        let count = axes.iter().map(|a| from[*a as usize]).product();
        let kept: Dims = (0..from.len())
            .map(|i| if folded(i) { 1 } else { from[i] })
            .collect();
        let free = (0..from.len()).filter(|i| !folded(*i)).map(|i| from[i]);
        let dims = if keepdim {
            kept.clone()
        } else {
            free.collect()
        };
        Self {
            axes,
            dims,
            kept,
            count,
        }
    }

    /// The sum, added up in float32 for half-width floats and rounded once.
    pub(crate) fn sum(&self, b: &mut B, x: Value) -> Result<Value> {
        let dtype = b.dtype(x);
        let x = widen(b, x);
        let sum = b.sum(x, &self.axes)?;
        let sum = b.reshape(sum, &self.dims)?;
        Ok(cast(b, sum, dtype))
    }

    /// The mean of a float or complex tensor; NaN of nothing.
    pub(crate) fn mean(&self, b: &mut B, x: Value) -> Result<Value> {
        let dtype = b.dtype(x);
        let x = widen(b, x);
        let sum = self.sum(b, x)?;
        let count = b.size_like(sum, self.count)?;
        let mean = b.divide_exactly(sum, count)?;
        Ok(cast(b, mean, dtype))
    }

    /// A result of this reduction, stretched back over `x`.
    pub(crate) fn spread(&self, b: &mut B, folded: Value, x: Value) -> Result<Value> {
        let kept = b.reshape(folded, &self.kept)?;
        Ok(b.broadcast(kept, &b.dims(x))?)
    }

    /// The extreme of a real tensor, NaN if there is one.
    pub(crate) fn extreme(&self, b: &mut B, x: Value, end: &Extreme) -> Result<Value> {
        let init = (end.init)(b, b.dtype(x));
        let y = b.reduce(x, init, &self.axes, end.op)?;
        Ok(b.reshape(y, &self.dims)?)
    }
}

/// One end of the order.
pub(crate) struct Extreme {
    pub(crate) name: &'static str,
    pub(crate) op: fn(&mut B, Value, Value) -> tpu_hlo::Result<Value>,
    /// The scalar that any element replaces.
    pub(crate) init: fn(&mut B, DType) -> Value,
    beats: Direction,
}

pub(crate) const MAX: Extreme = Extreme {
    name: "max",
    op: B::maximum,
    init: B::lowest,
    beats: Direction::GT,
};
pub(crate) const MIN: Extreme = Extreme {
    name: "min",
    op: B::minimum,
    init: B::highest,
    beats: Direction::LT,
};

const MAX_OF_ALL: (&Extreme, &str) = (&MAX, "max");
const MIN_OF_ALL: (&Extreme, &str) = (&MIN, "min");

/// The dtype that sums of integers are made in.
pub(crate) fn sum_dtype(dtype: DType) -> DType {
    if dtype == DType::Bool || dtype.is_int() {
        DType::I64
    } else {
        dtype
    }
}

fn sum(
    b: &mut B,
    x: Value,
    dim: Option<Dims>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Value> {
    let fold = Fold::new(b, x, dim.as_deref(), keepdim)?;
    let x = cast(b, x, dtype.unwrap_or(sum_dtype(b.dtype(x))));
    fold.sum(b, x)
}

/// The sum with NaN counted as zero.
fn nansum(
    b: &mut B,
    x: Value,
    dim: Option<Dims>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Value> {
    ensure!(
        !b.dtype(x).is_complex(),
        "nansum does not support complex inputs"
    );
    let mut y = cast(b, x, dtype.unwrap_or(sum_dtype(b.dtype(x))));
    if b.dtype(x).is_float() {
        let (number, zero) = (b.compare(y, Direction::EQ, y)?, b.full_like(y, 0));
        y = b.select(number, y, zero)?;
    }
    Fold::new(b, y, dim.as_deref(), keepdim)?.sum(b, y)
}

fn mean(
    b: &mut B,
    x: Value,
    dim: Option<Dims>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Value> {
    let to = dtype.unwrap_or(b.dtype(x));
    let what = if dtype.is_some() {
        "Optional dtype"
    } else {
        "Input dtype"
    };
    ensure!(
        to.is_float() || to.is_complex(),
        "mean(): could not infer output dtype. {what} must be either a floating point or complex \
         dtype. Got: {}",
        to.torch()
    );
    let fold = Fold::new(b, x, dim.as_deref(), keepdim)?;
    let x = cast(b, x, to);
    fold.mean(b, x)
}

fn prod(
    b: &mut B,
    x: Value,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Value> {
    let fold = Fold::new(b, x, dim, keepdim)?;
    let to = dtype.unwrap_or(sum_dtype(b.dtype(x)));
    let x = cast(b, x, to);
    let x = widen(b, x);
    let one = b.scalar(1, b.dtype(x));
    let y = b.reduce(x, one, &fold.axes, B::multiply)?;
    let y = b.reshape(y, &fold.dims)?;
    Ok(cast(b, y, to))
}

/// `all` and `any`: the result is `Bool`, but `U8` stays.
fn truth(
    b: &mut B,
    x: Value,
    dim: Option<&[i64]>,
    keepdim: bool,
    op: fn(&mut B, Value, &[i64]) -> tpu_hlo::Result<Value>,
) -> Result<Value> {
    let fold = Fold::new(b, x, dim, keepdim)?;
    let to = if b.dtype(x) == DType::U8 {
        DType::U8
    } else {
        DType::Bool
    };
    let x = cast(b, x, DType::Bool);
    let y = op(b, x, &fold.axes)?;
    let y = b.reshape(y, &fold.dims)?;
    Ok(cast(b, y, to))
}

/// Unlike other reductions, an empty list of dimensions folds nothing here.
fn truth_dims(
    b: &mut B,
    x: Value,
    dim: Option<Dims>,
    keepdim: bool,
    op: fn(&mut B, Value, &[i64]) -> tpu_hlo::Result<Value>,
) -> Result<Value> {
    match dim.as_deref() {
        Some([]) if b.dtype(x) == DType::U8 => {
            let x = cast(b, x, DType::Bool);
            Ok(cast(b, x, DType::U8))
        }
        Some([]) => Ok(cast(b, x, DType::Bool)),
        dim => truth(b, x, dim, keepdim, op),
    }
}

/// PyTorch has no order of complex numbers.
pub(crate) fn ordered(b: &B, x: Value, op: &str) -> Result<()> {
    let dtype = b.dtype(x);
    ensure!(
        !dtype.is_complex(),
        NotImplemented,
        "\"{op}\" not implemented for '{}'",
        dtype.torch()
    );
    Ok(())
}

/// An extreme of nothing is an error.
fn some(b: &B, x: Value, fold: &Fold, op: &str) -> Result<()> {
    if b.ty(x).numel() > 0 {
        return Ok(());
    }
    for &axis in &fold.axes {
        ensure!(
            b.dims(x)[axis as usize] > 0,
            Index,
            "{op}: Expected reduction dim {axis} to have non-zero size."
        );
    }
    Ok(())
}

/// `amax` and `amin` cast nothing.
fn same_as_out(b: &B, x: Value, out: DType) -> Result<()> {
    let dtype = b.dtype(x);
    ensure!(
        dtype == out,
        "Expected the dtype for input and out to match, but got {} for input's dtype and {} for \
         out's dtype.",
        dtype.torch(),
        out.torch()
    );
    Ok(())
}

/// `amax` and `amin`, and with no dimension `max` and `min`.
fn extremes(
    b: &mut B,
    x: Value,
    dim: Dims,
    keepdim: bool,
    (end, op): (&Extreme, &str),
) -> Result<Value> {
    ordered(b, x, op)?;
    let fold = Fold::new(b, x, Some(&dim), keepdim)?;
    let numel = b.ty(x).numel();
    ensure!(
        numel > 0 || !dim.is_empty(),
        "{op}(): Expected reduction dim to be specified for input.numel() == 0. Specify the \
         reduction dim with the 'dim' argument."
    );
    some(b, x, &fold, &format!("{op}()"))?;
    fold.extreme(b, x, end)
}

fn aminmax(b: &mut B, x: Value, dim: Option<i64>, keepdim: bool) -> Result<(Value, Value)> {
    ordered(b, x, "aminmax")?;
    let fold = Fold::new(b, x, Some(dim.as_slice()), keepdim)?;
    ensure!(
        b.ty(x).numel() > 0 || dim.is_some(),
        "aminmax(): cannot compute aminmax over an empty dimension as the operation has no \
         identity."
    );
    some(b, x, &fold, "aminmax")?;
    Ok((fold.extreme(b, x, &MIN)?, fold.extreme(b, x, &MAX)?))
}

/// The dtype that positions along a dimension of size `n` are computed in.
pub(crate) fn position_dtype(n: i64) -> DType {
    if n < i32::MAX.into() {
        DType::I32
    } else {
        DType::I64
    }
}

/// The extreme along `axis` and its position in the narrowest dtype: NaN wins over all, then the
/// first of equals.
fn position(b: &mut B, x: Value, axis: i64, end: &Extreme) -> Result<(Value, Value)> {
    let dims = b.dims(x);
    let at = position_dtype(dims[axis as usize]);
    let index = b.iota(at, &dims, axis);
    let inits = [(end.init)(b, b.dtype(x)), b.highest(at)];
    let y = b.reduce_n(&[x, index], &inits, &[axis], |b, old, new| {
        let keep = wins(b, (old[0], old[1]), (new[0], new[1]), end.beats)?;
        let value = b.select(keep, old[0], new[0])?;
        let index = b.select(keep, old[1], new[1])?;
        Ok::<_, crate::Error>(smallvec::smallvec![value, index])
    })?;
    Ok((y[0], y[1]))
}

/// Whether the `(value, index)` pair `x` comes before the pair `y`; a total order, so that the
/// result does not depend on how XLA splits the reduction.
fn wins(
    b: &mut B,
    (x, i): (Value, Value),
    (y, j): (Value, Value),
    beats: Direction,
) -> Result<Value> {
    let better = b.compare(x, beats, y)?;
    let equal = b.compare(x, Direction::EQ, y)?;
    let first = b.compare(i, Direction::LT, j)?;
    let tie = b.and(equal, first)?;
    let wins = b.or(better, tie)?;
    if !b.dtype(x).is_float() {
        return Ok(wins);
    }
    let nan = b.compare(x, Direction::NE, x)?;
    let number = b.compare(y, Direction::EQ, y)?;
    let alone = b.or(number, first)?;
    let nan = b.and(nan, alone)?;
    Ok(b.or(wins, nan)?)
}

/// The first position of the largest along `axis`, in the narrowest dtype.
pub(crate) fn first_largest(b: &mut B, x: Value, axis: i64) -> Result<Value> {
    Ok(position(b, x, axis, &MAX)?.1)
}

/// The exclusive or of all elements as 64 bits: floats by those of their float64, integers
/// sign-extended.
fn hash(b: &mut B, x: Value, dim: Dims, keepdim: bool, mode: i64) -> Result<Value> {
    ensure!(mode == 0, "hash_tensor: Unknown hash_tensor mode");
    let fold = Fold::new(b, x, Some(&dim), keepdim)?;
    let bits = if b.dtype(x).is_float() {
        let x = b.convert(x, DType::F64);
        b.bitcast_convert(x, DType::U64)
    } else {
        let x = b.convert(x, DType::I64);
        b.bitcast_convert(x, DType::U64)
    };
    let none = b.scalar(0, DType::U64);
    let y = b.reduce(bits, none, &fold.axes, B::xor)?;
    Ok(b.reshape(y, &fold.dims)?)
}

/// `max.dim` and `min.dim`
fn with_position(
    b: &mut B,
    x: Value,
    dim: i64,
    keepdim: bool,
    end: &Extreme,
) -> Result<(Value, Value)> {
    ordered(b, x, end.name)?;
    let fold = Fold::one(b, x, dim, keepdim)?;
    some(b, x, &fold, &format!("{}()", end.name))?;
    let Some(&axis) = fold.axes.first() else {
        return Ok((x, b.scalar(0, DType::I64)));
    };
    let (value, index) = position(b, x, axis, end)?;
    let index = b.convert(index, DType::I64);
    Ok((b.reshape(value, &fold.dims)?, b.reshape(index, &fold.dims)?))
}

/// `argmax` and `argmin`; without `dim` the position in the flattened tensor.
fn arg(b: &mut B, x: Value, dim: Option<i64>, keepdim: bool, end: &Extreme) -> Result<Value> {
    let name = format!("arg{}", end.name);
    ordered(b, x, &name)?;
    let fold = Fold::new(b, x, Some(dim.as_slice()), keepdim)?;
    ensure!(
        b.ty(x).numel() > 0 || dim.is_some(),
        Index,
        "{name}(): Expected reduction dim to be specified for input.numel() == 0."
    );
    some(b, x, &fold, &format!("{name}()"))?;
    let (x, axis) = match (dim, fold.axes.first()) {
        (Some(_), Some(&axis)) => (x, axis),
        _ => (b.reshape(x, &[b.ty(x).numel()])?, 0),
    };
    let (_, index) = position(b, x, axis, end)?;
    let index = b.convert(index, DType::I64);
    Ok(b.reshape(index, &fold.dims)?)
}

#[cfg(test)]
mod tests;
