//! Jagged tensors: a batch's members one after the other, `offsets` says where each begins and ends.
use crate::index::take_slices;
use crate::{
    Counts, Op, Result, check,
    error::ensure,
    op::{Plain, op},
    reduce::position_dtype,
    sort::{Side, count_before},
};
use std::marker::PhantomData;
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_jagged_to_padded_dense_forward", to_padded),
    op!("_padded_dense_to_jagged_forward", to_jagged).counted(&Plain(total, PhantomData)),
];

const TO_PADDED: &str = "_jagged_to_padded_dense_forward";
const TO_JAGGED: &str = "_padded_dense_to_jagged_forward";
const OUTSIDE: &str = "IndexError: offsets of a jagged tensor lie outside of its values";

/// `[N, max_length, ...]`: `values[offsets[n]..offsets[n + 1]]`, cut off or padded, for each `n`.
fn to_padded(
    b: &mut B,
    values: Value,
    offsets: Vec<Value>,
    max_lengths: Dims,
    padding: f64,
) -> Result<Value> {
    ensure!(
        max_lengths.len() == 1,
        "{TO_PADDED}(): only a single jagged dim is supported for now"
    );
    let offsets = only(b, TO_PADDED, &offsets)?;
    let (size, length) = (b.dims(values)[0], max_lengths[0]);
    check::bounds(b, offsets, (0, size + 1), OUTSIDE)?;
    let dims = [b.dims(offsets)[0] - 1, length];
    let full: Dims = [&dims[..], &b.dims(values)[1..]].concat().into();
    let padding = b.full(padding, b.dtype(values), &full);
    if b.ty(values).numel() == 0 {
        return Ok(padding);
    }
    let offsets = b.convert(offsets, position_dtype(size + length));
    let [starts, ends] = ends(b, offsets)?;
    let (starts, ends) = (
        b.broadcast_in_dim(starts, &dims, &[0])?,
        b.broadcast_in_dim(ends, &dims, &[0])?,
    );
    let nth = b.iota(b.dtype(offsets), &dims, 1);
    let index = b.add(starts, nth)?;
    let inside = b.compare(index, Direction::LT, ends)?;
    let inside = b.broadcast_in_dim(inside, &full, &[0, 1])?;
    // What lies outside is clamped by `gather`, and not taken.
    let taken = take_slices(b, values, 0, index)?;
    Ok(b.select(inside, taken, padding)?)
}

/// `dense[n, 0..offsets[n + 1] - offsets[n]]` for each `n`, one after the other.
fn to_jagged(
    b: &mut B,
    dense: Value,
    offsets: Vec<Value>,
    total: Option<i64>,
    counts: Counts,
) -> Result<Value> {
    let offsets = only(b, TO_JAGGED, &offsets)?;
    let dims = b.dims(dense);
    let n = b.dims(offsets)[0] - 1;
    ensure!(
        dims.len() >= 2 && dims[0] == n,
        "{TO_JAGGED}(): padded has {} members, offsets are those of {n}",
        dims.first().copied().unwrap_or(0)
    );
    let size = total.or(counts.0.first().copied()).unwrap_or(0);
    let [starts, ends] = ends(b, offsets)?;
    check_lengths(b, [starts, ends], dims[1], size)?;
    let at = position_dtype((n * dims[1]).max(size) + 1);
    let (starts, ends) = (b.convert(starts, at), b.convert(ends, at));
    let nth = b.iota(at, &[size], 0);
    let member = count_before(b, ends, nth, Side::Right)?;
    let start = take_slices(b, starts, 0, member)?;
    let (column, member) = (b.subtract(nth, start)?, b.convert(member, at));
    let length = b.full_like(column, dims[1]);
    let row = b.multiply(member, length)?;
    let index = b.add(row, column)?;
    let flat: Dims = [&[n * dims[1]], &dims[2..]].concat().into();
    let flat = b.reshape(dense, &flat)?;
    take_slices(b, flat, 0, index)
}

/// That members fit into rows of `length` and end at `total`, in PyTorch's words.
fn check_lengths(b: &mut B, [starts, ends]: [Value; 2], length: i64, total: i64) -> Result<()> {
    let n = b.dims(ends)[0];
    let last = b.slice_dim(ends, 0, (n - 1).max(0), n)?;
    let message = format!("RuntimeError: {TO_JAGGED}(): final offset should match total_L value");
    check::bounds(b, last, (total, total + 1), &message)?;
    let lengths = b.subtract(ends, starts)?;
    let message = format!(
        "RuntimeError: {TO_JAGGED}(): found batch item of length {{}} when max length specified \
         by padded input is {length}"
    );
    check::bounds(b, lengths, (0, length + 1), &message)
}

/// Where the last member ends.
fn total(b: &mut B, _dense: Value, offsets: Vec<Value>, total: Option<i64>) -> Result<Vec<Value>> {
    if total.is_some() {
        return Ok(Vec::new());
    }
    let offsets = only(b, TO_JAGGED, &offsets)?;
    let n = b.dims(offsets)[0];
    let last = b.slice_dim(offsets, 0, n - 1, n)?;
    let last = b.convert(last, DType::I64);
    Ok(vec![b.reshape(last, &[])?])
}

/// Where each member starts and where it ends, `[N]` each.
fn ends(b: &mut B, offsets: Value) -> Result<[Value; 2]> {
    let n = b.dims(offsets)[0] - 1;
    Ok([
        b.slice_dim(offsets, 0, 0, n)?,
        b.slice_dim(offsets, 0, 1, n + 1)?,
    ])
}

/// The offsets, of which there is one list.
fn only(b: &B, op: &str, offsets: &[Value]) -> Result<Value> {
    ensure!(
        offsets.len() == 1,
        "{op}(): only a single jagged dim is supported for now"
    );
    ensure!(
        b.rank(offsets[0]) == 1 && b.dims(offsets[0])[0] > 0 && b.dtype(offsets[0]).is_int(),
        "{op}(): offsets are a vector of integers"
    );
    Ok(offsets[0])
}

#[cfg(test)]
mod tests {
    use crate::{
        Arg,
        golden::{
            Given::{A, List, T},
            NONE, int, ints, line,
        },
    };
    use expect_test::expect;
    use tpu_hlo::{DType::*, Number};

    #[test]
    fn rows() {
        let padding = || A(Arg::Number(Number::Float(0.0)));
        let lines = [
            line(
                "_jagged_to_padded_dense_forward",
                &[
                    T(F32, &[5, 2]),
                    List(vec![Some((I64, &[4]))]),
                    ints(&[3]),
                    padding(),
                ],
            ),
            line(
                "_padded_dense_to_jagged_forward",
                &[T(F32, &[3, 4, 2]), List(vec![Some((I64, &[4]))]), int(5)],
            ),
            line(
                "_padded_dense_to_jagged_forward",
                &[T(F32, &[3, 4]), List(vec![Some((I64, &[3]))]), NONE, int(5)],
            ),
        ];
        expect![[r#"
            _jagged_to_padded_dense_forward: compare compare or select reduce maximum convert slice slice broadcast_in_dim broadcast_in_dim iota add compare broadcast_in_dim gather select -> tensor<3x3x2xf32>; else IndexError: offsets of a jagged tensor lie outside of its values
            _padded_dense_to_jagged_forward: slice slice slice compare compare or select reduce maximum subtract compare compare or select reduce maximum convert convert iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical gather subtract multiply add reshape gather -> tensor<5x2xf32>; else RuntimeError: _padded_dense_to_jagged_forward(): final offset should match total_L value; else RuntimeError: _padded_dense_to_jagged_forward(): found batch item of length {} when max length specified by padded input is 4
            _padded_dense_to_jagged_forward: Runtime: _padded_dense_to_jagged_forward(): padded has 3 members, offsets are those of 2
        "#]].assert_eq(&lines.concat());
    }
}
