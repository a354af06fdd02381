//! Comparisons, logic and choices.
use crate::{
    Op, OutDtype, Outs, Result, Scalar,
    binary::{of_number, pair, with_number},
    check,
    error::ensure,
    formula::{Binary, X, compute, formula},
    op::{op, pointwise},
    pointwise::implemented,
    promote::{broadcast_shapes, cast, result_type, together, together_as},
};
use std::sync::Arc;
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_assert_async",                           assert_async),
    op!("_assert_async.msg",                       assert_async_saying),
    pointwise!("bitwise_and.Scalar",               with_number(bits("bitwise_and", |x, y| x.and(y)))),
    op!("bitwise_and.Scalar_Tensor",        of_number(bits("bitwise_and", |x, y| x.and(y))))
        .follows_inputs(),
    pointwise!("bitwise_and.Tensor",               bits("bitwise_and", |x, y| x.and(y))),
    op!("bitwise_left_shift.Scalar_Tensor", of_number(left_shift)).follows_inputs(),
    pointwise!("bitwise_left_shift.Tensor",        left_shift),
    pointwise!("bitwise_left_shift.Tensor_Scalar", with_number(left_shift)),
    pointwise!("bitwise_or.Scalar",                with_number(bits("bitwise_or", |x, y| x.or(y)))),
    op!("bitwise_or.Scalar_Tensor",         of_number(bits("bitwise_or", |x, y| x.or(y))))
        .follows_inputs(),
    pointwise!("bitwise_or.Tensor",                bits("bitwise_or", |x, y| x.or(y))),
    op!("bitwise_right_shift.Scalar_Tensor", of_number(right_shift)).follows_inputs(),
    pointwise!("bitwise_right_shift.Tensor",       right_shift),
    pointwise!("bitwise_right_shift.Tensor_Scalar", with_number(right_shift)),
    pointwise!("bitwise_xor.Scalar",               with_number(bits("bitwise_xor", |x, y| x.xor(y)))),
    op!("bitwise_xor.Scalar_Tensor",        of_number(bits("bitwise_xor", |x, y| x.xor(y))))
        .follows_inputs(),
    pointwise!("bitwise_xor.Tensor",               bits("bitwise_xor", |x, y| x.xor(y))),
    op!("__lshift__.Scalar",                with_number(left_shift)).follows_inputs(),
    op!("__lshift__.Tensor",                left_shift).follows_inputs(),
    op!("__rshift__.Scalar",                with_number(right_shift)).follows_inputs(),
    op!("__rshift__.Tensor",                right_shift).follows_inputs(),
    pointwise!("eq.Scalar",           with_number(compare("eq", Direction::EQ))),
    pointwise!("eq.Tensor",           compare("eq", Direction::EQ)),
    pointwise!("fmax",                ordered("fmax", |x, y| beyond_nan(x, y, |x, y| x.maximum(y)))),
    pointwise!("fmin",                ordered("fmin", |x, y| beyond_nan(x, y, |x, y| x.minimum(y)))),
    pointwise!("gcd",                 gcd),
    pointwise!("ge.Scalar",           with_number(compare("ge", Direction::GE))),
    pointwise!("ge.Tensor",           compare("ge", Direction::GE)),
    pointwise!("gt.Scalar",           with_number(compare("gt", Direction::GT))),
    pointwise!("gt.Tensor",           compare("gt", Direction::GT)),
    op!("_functional_assert_async.msg", assert_async_functional),
    op!("isin.Scalar_Tensor",         number_isin),
    op!("isin.Tensor_Scalar",  isin_number).follows_inputs(),
    op!("isin.Tensor_Tensor",         isin),
    pointwise!("lcm",                 lcm),
    pointwise!("le.Scalar",           with_number(compare("le", Direction::LE))),
    pointwise!("le.Tensor",           compare("le", Direction::LE)),
    pointwise!("logical_and",         logical(B::and)),
    pointwise!("logical_not",         logical_not),
    pointwise!("logical_or",          logical(B::or)),
    pointwise!("logical_xor",         logical(B::xor)),
    pointwise!("lt.Scalar",           with_number(compare("lt", Direction::LT))),
    pointwise!("lt.Tensor",           compare("lt", Direction::LT)),
    op!("masked_fill.Scalar",  masked_fill_number).follows_inputs(),
    pointwise!("masked_fill.Tensor",  masked_fill),
    pointwise!("maximum",             ordered("maximum", |x, y| x.maximum(y))),
    pointwise!("minimum",             ordered("minimum", |x, y| x.minimum(y))),
    pointwise!("ne.Scalar",           with_number(compare("ne", Direction::NE))),
    pointwise!("ne.Tensor",           compare("ne", Direction::NE)),
    pointwise!("where.self",          where_self)
        .out(OutDtype::Exact("Expected out type to be {result} but got {out}")),
];

/// Demands that the only element of `x` is not zero; raised where the results are waited for.
fn assert_async(b: &mut B, x: Value) -> Result<Outs> {
    demand(
        b,
        x,
        "Expected Tensor with single nonzero value, but got zero",
    )
}

fn assert_async_saying(b: &mut B, x: Value, message: Arc<str>) -> Result<Outs> {
    demand(b, x, &message)
}

fn assert_async_functional(b: &mut B, x: Value, message: Arc<str>, token: Value) -> Result<Value> {
    demand(b, x, &message)?;
    Ok(token)
}

fn demand(b: &mut B, x: Value, message: &str) -> Result<Outs> {
    let n = b.ty(x).numel();
    ensure!(
        n != 0,
        "Boolean value of Tensor with no values is ambiguous"
    );
    ensure!(
        n == 1,
        "Boolean value of Tensor with more than one value is ambiguous"
    );
    let zero = logical_not(b, x)?;
    // `{}` would be replaced by a value.
    let message = message.replace("{}", "{ }");
    check::nowhere(b, zero, format!("RuntimeError: {message}"))?;
    Ok(Outs::new())
}

/// An op on the bits of two integers or booleans.
const fn bits(
    name: &'static str,
    f: Binary,
) -> impl Fn(&mut B, Value, Value) -> Result<Value> + Sync + Copy {
    move |b, x, y| {
        let dtype = result_type(b, &[x, y])?;
        implemented(dtype.is_int() || dtype == DType::Bool, name, dtype)?;
        pair(f)(b, x, y)
    }
}

/// `self << other`, 0 for negative and for too large distances.
fn left_shift(b: &mut B, x: Value, other: Value) -> Result<Value> {
    let dtype = result_type(b, &[x, other])?;
    implemented(dtype.is_int(), "lshift", dtype)?;
    let width = f64::from(dtype.bits());
    compute(b, dtype, [x, other], [], |[x, n], []| {
        within(n, width).pick(x.shift_left(n), 0.0)
    })
}

/// `self >> other`, filled with the sign; negative and too large distances shift all bits out.
fn right_shift(b: &mut B, x: Value, other: Value) -> Result<Value> {
    let dtype = result_type(b, &[x, other])?;
    implemented(dtype.is_int(), "rshift", dtype)?;
    let (signed, width) = (dtype.is_signed(), f64::from(dtype.bits()));
    compute(b, dtype, [x, other], [], |[x, n], []| {
        if signed {
            let far = x.full(width - 1.0);
            x.shift_right(within(n, width).pick(n, far))
        } else {
            within(n, width).pick(x.shift_right_logical(n), 0.0)
        }
    })
}

fn within<'s>(n: X<'s>, width: f64) -> X<'s> {
    n.ge(0.0).and(n.lt(width))
}

/// A comparison of two tensors after promotion and broadcasting.
const fn compare(
    name: &'static str,
    direction: Direction,
) -> impl Fn(&mut B, Value, Value) -> Result<Value> + Sync + Copy {
    move |b, x, y| {
        let xs = together(b, &[x, y])?;
        let dtype = b.dtype(xs[0]);
        let equality = matches!(direction, Direction::EQ | Direction::NE);
        implemented(equality || !dtype.is_complex(), name, dtype)?;
        Ok(b.compare(xs[0], direction, xs[1])?)
    }
}

/// An op on two ordered tensors.
const fn ordered(
    name: &'static str,
    f: Binary,
) -> impl Fn(&mut B, Value, Value) -> Result<Value> + Sync + Copy {
    move |b, x, y| {
        ensure!(
            !result_type(b, &[x, y])?.is_complex(),
            "{name} not implemented for complex tensors."
        );
        pair(f)(b, x, y)
    }
}

/// The choice `f` makes of two numbers; the other one where one is NaN.
fn beyond_nan<'s>(x: X<'s>, y: X<'s>, f: Binary) -> X<'s> {
    if !x.dtype().is_float() {
        return f(x, y);
    }
    let both = f(x, y);
    let y_or_both = y.is_nan().pick(x, both);
    x.is_nan().pick(y, y_or_both)
}

/// Greatest common divisor by Euclid's algorithm; not negative.
fn gcd(b: &mut B, x: Value, y: Value) -> Result<Value> {
    let dtype = result_type(b, &[x, y])?;
    implemented(dtype.is_int(), "gcd", dtype)?;
    ensure!(
        !(b.settings.tpu && dtype == DType::I64),
        NotImplemented,
        "a TPU's compiler does not finish a loop over remainders of 64-bit integers"
    );
    let xs = together_as(b, &[x, y], dtype)?;
    let size = |b: &mut B, v| if dtype.is_signed() { b.abs(v) } else { v };
    let (x, y) = (size(b, xs[0]), size(b, xs[1]));
    let axes: Dims = (0..b.rank(x) as i64).collect();
    let outs = b.while_loop::<crate::Error>(
        &[x, y],
        |b, s| {
            let left = formula(b, [s[1]], |[y]| y.ne(0.0))?;
            Ok(b.any(left, &axes)?)
        },
        |b, s| {
            let done = formula(b, [s[1]], |[y]| y.eq(0.0))?;
            let rest = formula(b, [done, s[0], s[1]], |[done, x, y]| {
                done.pick(y, x.rem(done.pick(y.full(1.0), y)))
            })?;
            Ok(smallvec::smallvec![b.select(done, s[0], s[1])?, rest])
        },
    )?;
    let low = outs[0];
    Ok(size(b, low))
}

/// Least common multiple; not negative.
fn lcm(b: &mut B, x: Value, y: Value) -> Result<Value> {
    let g = gcd(b, x, y)?;
    let dtype = b.dtype(g);
    let xs = together_as(b, &[x, y], dtype)?;
    formula(b, [g, xs[0], xs[1]], |[g, x, y]| {
        let none = g.eq(0.0);
        let product = x / none.pick(g.full(1.0), g) * y;
        let product = if dtype.is_signed() {
            product.abs()
        } else {
            product
        };
        none.pick(g, product)
    })
}

/// The most elements that [`isin`] compares with each element one by one.
const FEW: i64 = 64;

/// Whether each element of `x` is among the elements of `set`, or is not if `invert`.
fn isin(b: &mut B, x: Value, set: Value, _assume_unique: bool, invert: bool) -> Result<Value> {
    let dtype = result_type(b, &[x, set])?;
    implemented(!dtype.is_complex(), "isin", dtype)?;
    let (x, set) = (cast(b, x, dtype), cast(b, set, dtype));
    let n = b.ty(set).numel();
    let set = b.reshape(set, &[n])?;
    let found = if n <= FEW {
        among(b, x, set)?
    } else {
        among_sorted(b, x, set)?
    };
    Ok(if invert { b.not(found) } else { found })
}

fn number_isin(b: &mut B, x: Scalar, set: Value, unique: bool, invert: bool) -> Result<Value> {
    isin(b, x.0, set, unique, invert)
}

fn isin_number(b: &mut B, x: Value, n: Scalar, unique: bool, invert: bool) -> Result<Value> {
    isin(b, x, n.0, unique, invert)
}

/// Compares every element with the whole of `set`.
fn among(b: &mut B, x: Value, set: Value) -> Result<Value> {
    let (mut dims, rank) = (b.dims(x), b.rank(x) as i64);
    let axes: Dims = (0..rank).collect();
    dims.push(b.dims(set)[0]);
    let x = b.broadcast_in_dim(x, &dims, &axes)?;
    let set = b.broadcast_in_dim(set, &dims, &[rank])?;
    let same = b.compare(x, Direction::EQ, set)?;
    Ok(b.any(same, &[rank])?)
}

/// Sorts `set` and searches every element in it.
fn among_sorted(b: &mut B, x: Value, set: Value) -> Result<Value> {
    let dims = b.dims(x);
    let (n, m) = (b.ty(x).numel(), b.dims(set)[0]);
    let flat = b.reshape(x, &[n])?;
    let set = b.sort::<crate::Error>(&[set], 0, false, |b, l, r| {
        Ok(b.compare(l[0], Direction::LT, r[0])?)
    })?[0];
    let found = search(b, flat, set, n, m)?;
    Ok(b.reshape(found, &dims)?)
}

/// Binary search of every element in the sorted `set`.
fn search(b: &mut B, x: Value, set: Value, n: i64, m: i64) -> Result<Value> {
    let mut low = b.full(0, DType::I32, &[n]);
    let mut step = 1i64 << (63 - (m as u64).leading_zeros());
    while step > 0 {
        let next = formula(b, [low], |[low]| low + step as f64)?;
        let value = take(b, set, next)?;
        let ahead = formula(b, [next, value, x], |[next, value, x]| {
            next.lt(m as f64).and(value.le(x))
        })?;
        low = b.select(ahead, next, low)?;
        step /= 2;
    }
    let value = take(b, set, low)?;
    Ok(b.compare(value, Direction::EQ, x)?)
}

fn take(b: &mut B, x: Value, at: Value) -> Result<Value> {
    let n = b.dims(at)[0];
    let at = b.reshape(at, &[n, 1])?;
    let dims = tpu_hlo::GatherDims {
        collapsed_slice_dims: [0].as_slice().into(),
        start_index_map: [0].as_slice().into(),
        index_vector_dim: 1,
        ..Default::default()
    };
    Ok(b.gather(x, at, &dims, &[1])?)
}

/// An op on the truth of two tensors.
const fn logical(
    f: fn(&mut B, Value, Value) -> tpu_hlo::Result<Value>,
) -> impl Fn(&mut B, Value, Value) -> Result<Value> + Sync + Copy {
    move |b, x, y| {
        let xs = together_as(b, &[x, y], DType::Bool)?;
        Ok(f(b, xs[0], xs[1])?)
    }
}

/// Whether the element is zero.
fn logical_not(b: &mut B, x: Value) -> Result<Value> {
    let x = cast(b, x, DType::Bool);
    Ok(b.not(x))
}

/// `value` where `mask` holds.
fn masked_fill(b: &mut B, x: Value, mask: Value, value: Value) -> Result<Value> {
    let (kind, rank) = (b.dtype(mask), b.rank(value));
    ensure!(
        kind == DType::Bool,
        "masked_fill_ only supports boolean masks, but got mask with dtype {}",
        kind.cpp()
    );
    ensure!(
        rank == 0,
        "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {rank} \
         dimension(s)."
    );
    let dtype = b.dtype(x);
    ensure!(
        dtype.is_complex() || !b.dtype(value).is_complex(),
        "value cannot be converted to type {} without overflow",
        dtype.cpp()
    );
    let dims = broadcast_shapes(&[&b.dims(x), &b.dims(mask)])?;
    let (mask, x, value) = (
        b.broadcast(mask, &dims)?,
        b.broadcast(x, &dims)?,
        cast(b, value, dtype),
    );
    let value = b.broadcast(value, &dims)?;
    Ok(b.select(mask, value, x)?)
}

fn masked_fill_number(b: &mut B, x: Value, mask: Value, value: Scalar) -> Result<Value> {
    masked_fill(b, x, mask, value.0)
}

/// `self` where `condition` holds, else `other`.
fn where_self(b: &mut B, condition: Value, x: Value, other: Value) -> Result<Value> {
    let kind = b.dtype(condition);
    ensure!(
        matches!(kind, DType::Bool | DType::U8),
        "where expected condition to be a boolean tensor, but got a tensor with dtype {}",
        kind.torch()
    );
    let condition = cast(b, condition, DType::Bool);
    let dtype = result_type(b, &[x, other])?;
    let dims = broadcast_shapes(&[&b.dims(condition), &b.dims(x), &b.dims(other)])?;
    let (x, other) = (cast(b, x, dtype), cast(b, other, dtype));
    let (x, other) = (b.broadcast(x, &dims)?, b.broadcast(other, &dims)?);
    let condition = b.broadcast(condition, &dims)?;
    Ok(b.select(condition, x, other)?)
}

#[cfg(test)]
mod tests;
