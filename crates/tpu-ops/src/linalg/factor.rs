//! Factorisations: Cholesky, LU, LDL and QR.
use super::{
    Matrices, adjoint, call, compiled, expect_success, identity, is_square, keep, matrices,
    multiply, nothing, square, triangle,
};
use crate::{Result, error::ensure};
use std::sync::Arc;
use tpu_hlo::{Builder, DType, Direction, Value};

type B = Builder;

/// `a = L @ L^H` (or `U^H @ U`) of the lower (upper) triangle, and the order of the first minor
/// that is not positive-definite, 0 if all are
pub(super) fn cholesky_ex(
    b: &mut B,
    a: Value,
    upper: bool,
    check_errors: bool,
) -> Result<(Value, Value)> {
    let m = square(b, a, "linalg.cholesky", "cholesky_cpu")?;
    let (factor, info) = if b.settings.tpu {
        compiled_cholesky(b, a, upper, &m)?
    } else {
        let types = [b.ty(a).clone(), m.each(DType::I32, &[])];
        let outs = call(b, "cholesky", &[a], &format!("upper = {upper}"), &types)?;
        (outs[0], outs[1])
    };
    if check_errors {
        expect_success(
            b,
            info,
            "LinAlgError: linalg.cholesky_ex: The factorization could not be completed because \
             the input is not positive-definite (the leading minor of order {} is not \
             positive-definite).",
        )?;
    }
    Ok((factor, info))
}

/// XLA's own factorisation, which fills the result with NaN when it fails: which minor failed is
/// not known, and reported as the first.
fn compiled_cholesky(b: &mut B, a: Value, upper: bool, m: &Matrices) -> Result<(Value, Value)> {
    let lower = b.cholesky(a, !upper);
    let factor = keep(b, lower, if upper { Direction::LE } else { Direction::GE })?;
    let broken = b.compare(factor, Direction::NE, factor)?;
    let n = m.batch.len() as i64;
    let broken = b.any(broken, &[n, n + 1])?;
    Ok((factor, b.convert(broken, DType::I32)))
}

/// The packed factors, the row exchanges (1-based) and the first zero pivot of each matrix.
pub(super) fn packed_lu(b: &mut B, a: Value, pivot: bool) -> Result<[Value; 3]> {
    if b.settings.tpu {
        return compiled::packed_lu(b, a, pivot);
    }
    let m = Matrices::of(b, a);
    let types = [
        b.ty(a).clone(),
        m.each(DType::I32, &[m.rank()]),
        m.each(DType::I32, &[]),
    ];
    let outs = call(b, "lu", &[a], &format!("pivot = {pivot}"), &types)?;
    Ok([outs[0], outs[1], outs[2]])
}

fn lu_checked(b: &B, a: Value) -> Result<()> {
    let dims = b.dims(a);
    ensure!(
        dims.len() >= 2,
        "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {dims:?} instead"
    );
    let dtype = b.dtype(a);
    let known = matches!(dtype.real(), DType::F32 | DType::F64);
    ensure!(
        known,
        NotImplemented,
        "\"lu_cpu\" not implemented for '{}'",
        dtype.torch()
    );
    Ok(())
}

/// `a = P @ L @ U` packed into one matrix, with row exchanges and the first zero pivot
pub(super) fn lu_factor_ex(
    b: &mut B,
    a: Value,
    pivot: bool,
    check_errors: bool,
) -> Result<(Value, Value, Value)> {
    lu_checked(b, a)?;
    let [lu, pivots, info] = packed_lu(b, a, pivot)?;
    if check_errors {
        expect_success(
            b,
            info,
            "RuntimeError: torch.linalg.lu_factor_ex: U[{},{}] is zero and using it on lu_solve \
             would result in a division by zero. If you still want to perform the factorization, \
             consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)",
        )?;
    }
    Ok((lu, pivots, info))
}

/// `a = P @ L @ U`; without exchanges no `P`
pub(super) fn lu(b: &mut B, a: Value, pivot: bool) -> Result<(Value, Value, Value)> {
    lu_checked(b, a)?;
    let [lu, pivots, _] = packed_lu(b, a, pivot)?;
    lu_unpack(b, lu, pivots, true, pivot)
}

/// The factors `P`, `L` and `U` of packed ones, as far as they are asked for
pub(super) fn lu_unpack(
    b: &mut B,
    lu: Value,
    pivots: Value,
    unpack_data: bool,
    unpack_pivots: bool,
) -> Result<(Value, Value, Value)> {
    ensure!(
        b.rank(lu) >= 2,
        "torch.lu_unpack: The input tensor A must have at least 2 dimensions."
    );
    let m = Matrices::of(b, lu);
    ensure!(
        !unpack_pivots || b.dtype(pivots) == DType::I32,
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n\
         Note: this function is intended to be used with the output produced by \
         torch.linalg.lu_factor"
    );
    let p = if unpack_pivots {
        permutation(b, &m, pivots)?
    } else {
        nothing(b, m.dtype)
    };
    if !unpack_data {
        return Ok((p, nothing(b, m.dtype), nothing(b, m.dtype)));
    }
    let (n, rank) = (b.rank(lu) as i64, m.rank());
    let l = b.slice_dim(lu, n - 1, 0, rank)?;
    let one = b.full_like(l, 1);
    let diagonal = triangle(b, &b.dims(l), Direction::EQ, 0)?;
    let l = b.select(diagonal, one, l)?;
    let l = keep(b, l, Direction::GE)?;
    let u = b.slice_dim(lu, n - 2, 0, rank)?;
    let u = keep(b, u, Direction::LE)?;
    Ok((p, l, u))
}

/// The matrix `P` that undoes row exchanges: a column for every row of the factors.
pub(super) fn permutation(b: &mut B, m: &Matrices, pivots: Value) -> Result<Value> {
    let order = if b.settings.tpu {
        compiled::order_of_rows(b, m, pivots)?
    } else {
        let types = [m.each(DType::I32, &[m.rows])];
        call(b, "permutation", &[pivots], "", &types)?[0]
    };
    let full = m.each(DType::I32, &[m.rows, m.rows]);
    let n = m.batch.len() as i64;
    let axes: Vec<i64> = (0..n).chain([n + 1]).collect();
    let order = b.broadcast_in_dim(order, &full.dims, &axes)?;
    let row = b.iota(DType::I32, &full.dims, n);
    let hit = b.compare(row, Direction::EQ, order)?;
    Ok(b.convert(hit, m.dtype))
}

/// `a = L @ D @ L^T` (or `L^H` if hermitian) by Bunch and Kaufman's pivoting, packed as LAPACK
/// does, with its exchanges and the first zero block
pub(super) fn ldl_factor_ex(
    b: &mut B,
    a: Value,
    hermitian: bool,
    check_errors: bool,
) -> Result<(Value, Value, Value)> {
    let m = square(b, a, "torch.linalg.ldl_factor_ex", "ldl_factor_kernel")?;
    let types = [
        b.ty(a).clone(),
        m.each(DType::I32, &[m.rows]),
        m.each(DType::I32, &[]),
    ];
    let attributes = format!("hermitian = {hermitian}");
    let outs = call(b, "ldl", &[a], &attributes, &types)?;
    if check_errors {
        expect_success(
            b,
            outs[2],
            "LinAlgError: torch.linalg.ldl_factor_ex: D[{},{}] is zero and using it on \
             torch.linalg.ldl_solve would result in a division by zero.",
        )?;
    }
    Ok((outs[0], outs[1], outs[2]))
}

/// Householder vectors below the diagonal of `R`, and their factors: LAPACK's form of QR
fn packed_qr(b: &mut B, a: Value) -> Result<(Value, Value)> {
    let m = Matrices::of(b, a);
    let types = [b.ty(a).clone(), m.each(m.dtype, &[m.rank()])];
    let outs = if b.settings.tpu {
        compiled::packed_qr(b, a, &types)
    } else {
        call(b, "geqrf", &[a], "", &types)?
    };
    Ok((outs[0], outs[1]))
}

/// LAPACK's packed QR factorisation
pub(super) fn geqrf(b: &mut B, a: Value) -> Result<(Value, Value)> {
    ensure!(
        b.rank(a) >= 2,
        "torch.geqrf: input must have at least 2 dimensions."
    );
    super::floating(b, a, "torch.geqrf", "geqrf_cpu")?;
    packed_qr(b, a)
}

/// The first `columns` columns of the product of Householder reflections.
fn reflections(b: &mut B, vectors: Value, tau: Value, columns: i64) -> Result<Value> {
    if b.settings.tpu {
        return compiled::reflections(b, vectors, tau, columns);
    }
    let m = Matrices::of(b, vectors);
    let types = [m.each(m.dtype, &[m.rows, columns])];
    Ok(call(b, "householder", &[vectors, tau], "", &types)?[0])
}

/// `a = Q @ R`, `Q` with as many columns as needed (`reduced`), all (`complete`) or none (`r`)
pub(super) fn qr(b: &mut B, a: Value, mode: Arc<str>) -> Result<(Value, Value)> {
    let known = matches!(&*mode, "reduced" | "complete" | "r");
    ensure!(
        known,
        "qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or \
         'complete'"
    );
    let m = matrices(b, a, "linalg.qr", "geqrf_cpu")?;
    let (packed, tau) = packed_qr(b, a)?;
    let columns = if &*mode == "complete" {
        m.rows
    } else {
        m.rank()
    };
    let r = b.slice_dim(packed, m.batch.len() as i64, 0, columns)?;
    let r = keep(b, r, Direction::LE)?;
    if &*mode == "r" {
        return Ok((nothing(b, m.dtype), r));
    }
    let vectors = b.slice_dim(packed, m.batch.len() as i64 + 1, 0, m.rank())?;
    Ok((reflections(b, vectors, tau, columns)?, r))
}

fn check_reflections(b: &B, input: Value, tau: Value, name: &str) -> Result<()> {
    let (x, t) = (b.dims(input), b.dims(tau));
    ensure!(
        x.len() >= 2,
        "{name}: input must have at least 2 dimensions."
    );
    let (rows, columns) = (x[x.len() - 2], x[x.len() - 1]);
    ensure!(
        rows >= columns,
        "{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
    );
    let count = t.last().copied().unwrap_or(0);
    ensure!(
        columns >= count,
        "{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
    );
    ensure!(
        x.len() == t.len() + 1,
        "{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {} \
         and input.ndim is equal to {}",
        t.len(),
        x.len()
    );
    let (dtype, of_tau) = (b.dtype(input), b.dtype(tau));
    ensure!(
        dtype == of_tau,
        "{name}: tau dtype {} does not match input dtype {}",
        of_tau.torch(),
        dtype.torch()
    );
    super::floating(b, input, name, "orgqr_cpu")
}

/// The first columns of a product of Householder reflections
pub(super) fn householder_product(b: &mut B, input: Value, tau: Value) -> Result<Value> {
    check_reflections(b, input, tau, "torch.linalg.householder_product")?;
    let columns = Matrices::of(b, input).columns;
    reflections(b, input, tau, columns)
}

/// `other` multiplied by a product of Householder reflections, or its adjoint, from either side
pub(super) fn ormqr(
    b: &mut B,
    input: Value,
    tau: Value,
    other: Value,
    left: bool,
    transposed: bool,
) -> Result<Value> {
    let (name, side) = ("torch.ormqr", if left { "-2" } else { "-1" });
    ensure!(
        b.rank(input) >= 2,
        "{name}: input must have at least 2 dimensions."
    );
    ensure!(
        b.rank(other) >= 2,
        "{name}: other must have at least 2 dimensions."
    );
    let (m, c) = (Matrices::of(b, input), Matrices::of(b, other));
    let size = if left { c.rows } else { c.columns };
    let count = b.dims(tau).last().copied().unwrap_or(0);
    ensure!(
        size == m.rows,
        "{name}: other.shape[{side}] must be equal to input.shape[-2]"
    );
    ensure!(
        count == size.min(m.columns),
        "{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
    );
    super::floating(b, input, name, "ormqr_cpu")?;
    let q = reflections(b, input, tau, m.rows)?;
    let q = if transposed { adjoint(b, q)? } else { q };
    if left {
        multiply(b, q, other)
    } else {
        multiply(b, other, q)
    }
}

/// Solves with triangular matrices `a`, or their adjoints, from the left.
pub(super) struct Triangular {
    /// Which triangle is read.
    pub(super) upper: bool,
    /// Whether the diagonal counts as ones.
    pub(super) unit: bool,
    /// Whether the system is `a^H x = b`.
    pub(super) adjoint: bool,
}

impl Triangular {
    /// The solution for `a` and `x` of equal batches.
    pub(super) fn solve(&self, b: &mut B, a: Value, x: Value) -> Result<Value> {
        let Self {
            upper,
            unit,
            adjoint,
        } = *self;
        if b.settings.tpu {
            let op = if adjoint { "ADJOINT" } else { "NO_TRANSPOSE" };
            return Ok(b.triangular_solve(a, x, true, !upper, unit, op));
        }
        let attributes = format!("adjoint = {adjoint}, unit = {unit}, upper = {upper}");
        let types = [b.ty(x).clone()];
        Ok(call(b, "triangular", &[a, x], &attributes, &types)?[0])
    }
}

/// An identity of the size of `m`'s rows.
pub(super) fn identity_like(b: &mut B, m: &Matrices) -> Result<Value> {
    is_square(m, "")?;
    identity(b, &m.each(m.dtype, &[m.rows, m.rows]))
}

/// Solves `a @ x = b` from packed factors of `a`, or with its adjoint.
pub(super) fn from_packed_lu(
    b: &mut B,
    lu: Value,
    pivots: Value,
    x: Value,
    adjoint: bool,
) -> Result<Value> {
    if b.settings.tpu {
        return compiled::from_packed_lu(b, lu, pivots, x, adjoint);
    }
    let types = [b.ty(x).clone()];
    let attributes = format!("adjoint = {adjoint}");
    Ok(call(b, "lu_solve", &[lu, pivots, x], &attributes, &types)?[0])
}
