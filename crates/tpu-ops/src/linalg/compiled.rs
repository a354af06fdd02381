//! Factorisations that a TPU's compiler brings along, in place of the host's.
//!
//! XLA expands `Qr`, `ProductOfElementaryHouseholderReflectors` and `Eigh` into programs of its own
//! on every platform; `LuDecomposition` is known to a TPU's compiler only.
use super::factor::{Triangular, permutation};
use super::{Matrices, diagonal, multiply, transpose};
use crate::{Outs, Result, error::ensure, formula::formula};
use tpu_hlo::{Builder, DType, Direction, Type, Value};

type B = Builder;

/// The packed factors, the row exchanges (1-based) and the first zero pivot (1-based, 0 if none).
pub(super) fn packed_lu(b: &mut B, a: Value, pivot: bool) -> Result<[Value; 3]> {
    ensure!(
        pivot,
        NotImplemented,
        "a TPU factorises with row exchanges only (`pivot=True`)"
    );
    let m = Matrices::of(b, a);
    let exchanges = m.each(DType::I32, &[m.rank()]);
    let order = m.each(DType::I32, &[m.rows]);
    let types = [b.ty(a).clone(), exchanges, order];
    let outs = b.compiler_call("LuDecomposition", &[a], "", &types);
    let one = b.full_like(outs[1], 1);
    let pivots = b.add(outs[1], one)?;
    let info = first_zero_pivot(b, &m, outs[0])?;
    Ok([outs[0], pivots, info])
}

fn first_zero_pivot(b: &mut B, m: &Matrices, lu: Value) -> Result<Value> {
    let (n, rank) = (m.batch.len() as i64, m.rank());
    let lu = b.slice_dim(lu, n, 0, rank)?;
    let lu = b.slice_dim(lu, n + 1, 0, rank)?;
    let pivots = diagonal(b, lu)?;
    let zero = b.full_like(pivots, 0);
    let broken = b.compare(pivots, Direction::EQ, zero)?;
    let place = b.iota(DType::I32, &b.dims(pivots), n);
    let place = formula(b, [place], |[place]| place + 1.0)?;
    let none = b.full_like(place, rank + 1);
    let place = b.select(broken, place, none)?;
    let last = b.scalar(rank + 1, DType::I32);
    let first = b.reduce(place, last, &[n], B::minimum)?;
    let none = b.full_like(first, rank + 1);
    let fine = b.compare(first, Direction::EQ, none)?;
    let zero = b.full_like(first, 0);
    Ok(b.select(fine, zero, first)?)
}

/// The order of rows after exchanges (1-based), one after the other.
pub(super) fn order_of_rows(b: &mut B, m: &Matrices, pivots: Value) -> Result<Value> {
    let (n, to) = (m.batch.len() as i64, m.each(DType::I32, &[m.rows]));
    let count = b.dims(pivots).last().copied().unwrap_or(0);
    let row = b.iota(DType::I32, &to.dims, n);
    let state = [b.scalar(0, DType::I32), row];
    let end = b.scalar(count, DType::I32);
    let outs = b.while_loop::<crate::Error>(
        &state,
        |b, s| Ok(b.compare(s[0], Direction::LT, end)?),
        |b, s| {
            let other = element(b, pivots, s[0])?;
            let one = b.full_like(other, 1);
            let other = b.subtract(other, one)?;
            let order = exchanged(b, s[1], s[0], other)?;
            let one = b.full_like(s[0], 1);
            Ok(Outs::from_slice(&[b.add(s[0], one)?, order]))
        },
    )?;
    Ok(outs[1])
}

/// `x` with the elements at `at` and at `other`, one for each vector of the batch, exchanged.
fn exchanged(b: &mut B, x: Value, at: Value, other: Value) -> Result<Value> {
    let dims = b.dims(x);
    let n = dims.len() as i64 - 1;
    let at = b.broadcast(at, &b.dims(other))?;
    let (first, second) = (element(b, x, at)?, element(b, x, other)?);
    let axes: Vec<i64> = (0..n).collect();
    let place = b.iota(DType::I32, &dims, n);
    let mut put = |x: Value, at: Value, element: Value| {
        let at = b.broadcast_in_dim(at, &dims, &axes)?;
        let element = b.broadcast_in_dim(element, &dims, &axes)?;
        let here = b.compare(place, Direction::EQ, at)?;
        b.select(here, element, x)
    };
    let x = put(x, at, second)?;
    Ok(put(x, other, first)?)
}

/// The element at `at` of each vector of the batch; `at` is one number or one for each.
fn element(b: &mut B, x: Value, at: Value) -> Result<Value> {
    let dims = b.dims(x);
    let n = dims.len() as i64 - 1;
    let axes: Vec<i64> = (0..b.rank(at) as i64).collect();
    let at = b.broadcast_in_dim(at, &dims, &axes)?;
    let place = b.iota(DType::I32, &dims, n);
    let here = b.compare(place, Direction::EQ, at)?;
    let zero = b.full_like(x, 0);
    let x = b.select(here, x, zero)?;
    Ok(b.sum(x, &[n])?)
}

/// Solves `a @ x = y` from packed factors of `a`, or with its adjoint.
pub(super) fn from_packed_lu(
    b: &mut B,
    lu: Value,
    pivots: Value,
    y: Value,
    of_adjoint: bool,
) -> Result<Value> {
    let m = Matrices::of(b, lu);
    let p = permutation(b, &m, pivots)?;
    let side = |upper| Triangular {
        upper,
        unit: !upper,
        adjoint: of_adjoint,
    };
    if of_adjoint {
        let y = side(true).solve(b, lu, y)?;
        let y = side(false).solve(b, lu, y)?;
        return multiply(b, p, y);
    }
    let p = transpose(b, p)?;
    let y = multiply(b, p, y)?;
    let y = side(false).solve(b, lu, y)?;
    side(true).solve(b, lu, y)
}

/// Householder vectors below the diagonal of `R`, and their factors.
pub(super) fn packed_qr(b: &mut B, a: Value, types: &[Type]) -> Outs {
    b.compiler_call("Qr", &[a], "", types)
}

/// The first `columns` columns of the product of Householder reflections.
pub(super) fn reflections(b: &mut B, vectors: Value, tau: Value, columns: i64) -> Result<Value> {
    let m = Matrices::of(b, vectors);
    let (rank, last) = (b.rank(vectors), b.rank(vectors) - 1);
    let mut high = vec![0; rank];
    high[last] = columns - m.columns;
    let none = vec![0; rank];
    let zero = b.scalar(0, m.dtype);
    let vectors = b.pad(vectors, zero, &none, &high, &none)?;
    let types = [b.ty(vectors).clone()];
    let target = "ProductOfElementaryHouseholderReflectors";
    Ok(b.compiler_call(target, &[vectors, tau], "", &types)[0])
}

/// Ascending eigenvalues and eigenvectors of hermitian matrices, by Jacobi's method.
pub(super) fn eigh(b: &mut B, a: Value, upper: bool) -> Result<(Value, Value)> {
    let m = Matrices::of(b, a);
    ensure!(
        m.dtype.real() == DType::F32,
        NotImplemented,
        "a TPU's compiler finds eigenvectors with the accuracy of float32 only, not of {}",
        m.dtype.torch()
    );
    // Which triangle is read, whether to sort, how many sweeps, and where to stop.
    let config = format!("{},1,100,1e-6", u8::from(!upper));
    let types = [b.ty(a).clone(), m.each(m.dtype.real(), &[m.rows])];
    let outs = b.compiler_call("Eigh", &[a], &config, &types);
    Ok((outs[1], outs[0]))
}
