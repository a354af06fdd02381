//! Factorisations and solvers.
//!
//! XLA has no factorisations of its own on the CPU: the rows call functions of ours by the names
//! `tpu_linalg_*`, which tpu-eager registers with the plugin. Matrices are the last two
//! dimensions, those before are a batch.
mod compiled;
mod exponential;
mod factor;
mod least_squares;
mod solve;
mod spectrum;

use crate::{
    Op, OutDtype, Outs, Result,
    error::ensure,
    matmul::{dims, product},
    op::op,
    promote::broadcast_shapes,
};
use std::marker::PhantomData;
use tpu_hlo::{Builder, DType, Dims, Direction, Type, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_cholesky_solve_helper",      solve::cholesky_solve_helper).column_major(),
    op!("_linalg_det",                 solve::det).column_major(),
    op!("_linalg_eigh",                spectrum::eigh).column_major(),
    op!("_linalg_eigvals",             spectrum::eigvals).out(OutDtype::Cast),
    op!("_linalg_slogdet",             solve::slogdet).column_major(),
    op!("_linalg_solve_ex",            solve::solve_ex).column_major(),
    op!("_linalg_svd",                 spectrum::svd_row).column_major(),
    op!("cholesky_inverse",            solve::cholesky_inverse).column_major().out(OutDtype::Cast),
    op!("geqrf",                       factor::geqrf).column_major().out(OutDtype::Cast),
    op!("linalg_cholesky_ex",          factor::cholesky_ex).column_major(),
    op!("linalg_eig",                  spectrum::eig).column_major().out(OutDtype::Cast),
    op!("linalg_householder_product",  factor::householder_product).column_major()
        .out(OutDtype::Cast),
    op!("linalg_inv_ex",               solve::inv_ex).column_major(),
    op!("linalg_ldl_factor_ex",        factor::ldl_factor_ex).column_major(),
    op!("linalg_ldl_solve",            solve::ldl_solve).column_major(),
    op!("linalg_lstsq",                least_squares::lstsq).column_major()
        .counted(&crate::op::Plain(least_squares::full_rank, PhantomData)).out(OutDtype::Cast),
    op!("linalg_lu",                   factor::lu),
    op!("linalg_lu_factor_ex",         factor::lu_factor_ex).column_major(),
    op!("linalg_lu_solve",             solve::lu_solve).column_major(),
    op!("linalg_matrix_exp",           exponential::matrix_exp),
    op!("linalg_matrix_sqrth",         spectrum::matrix_sqrth),
    op!("linalg_polar",                spectrum::polar),
    op!("linalg_qr",                   factor::qr).column_major(),
    op!("linalg_solve_triangular",     solve::solve_triangular).column_major()
        .out(OutDtype::Exact("expected scalar type {result} but found {out}")),
    op!("lu_unpack",                   factor::lu_unpack),
    op!("ormqr",                       factor::ormqr).column_major()
        .out(OutDtype::Exact(
            "torch.ormqr: Expected input and result to have the same dtype, but input has \
             dtype{result} and result has dtype {out}",
        )),
    op!("triangular_solve",            solve::triangular_solve).column_major(),
];

/// A batch of matrices.
#[derive(Clone)]
struct Matrices {
    batch: Dims,
    rows: i64,
    columns: i64,
    dtype: DType,
}

impl Matrices {
    /// Of a value that has at least two dimensions.
    fn of(b: &B, a: Value) -> Self {
        let mut batch = b.dims(a);
        let (columns, rows) = (batch.pop().unwrap_or(1), batch.pop().unwrap_or(1));
        Self {
            batch,
            rows,
            columns,
            dtype: b.dtype(a),
        }
    }

    /// The smaller of the two sizes.
    fn rank(&self) -> i64 {
        self.rows.min(self.columns)
    }

    /// `tail` sizes for every matrix of the batch.
    fn each(&self, dtype: DType, tail: &[i64]) -> Type {
        let mut dims = self.batch.clone();
        dims.extend_from_slice(tail);
        Type { dtype, dims }
    }
}

/// A batch of matrices of float or complex numbers.
fn matrices(b: &B, a: Value, name: &str, kernel: &str) -> Result<Matrices> {
    ensure!(
        b.rank(a) >= 2,
        "{name}: The input tensor A must have at least 2 dimensions."
    );
    floating(b, a, name, kernel)?;
    Ok(Matrices::of(b, a))
}

fn floating(b: &B, a: Value, name: &str, kernel: &str) -> Result<()> {
    let dtype = b.dtype(a);
    ensure!(
        dtype.is_float() || dtype.is_complex(),
        "{name}: Expected a floating point or complex tensor as input. Got {}",
        dtype.torch()
    );
    let wide = matches!(dtype.real(), DType::F32 | DType::F64);
    ensure!(
        wide,
        NotImplemented,
        "\"{kernel}\" not implemented for '{}'",
        dtype.torch()
    );
    Ok(())
}

/// A batch of square matrices; `name` with a colon starts the message.
fn square(b: &B, a: Value, name: &str, kernel: &str) -> Result<Matrices> {
    let m = matrices(b, a, name, kernel)?;
    is_square(&m, &format!("{name}: "))?;
    Ok(m)
}

fn is_square(m: &Matrices, prefix: &str) -> Result<()> {
    let (rows, columns) = (m.rows, m.columns);
    ensure!(
        rows == columns,
        "{prefix}A must be batches of square matrices, but they are {rows} by {columns} matrices"
    );
    Ok(())
}

/// Calls a function of ours on the host.
fn call(b: &mut B, name: &str, xs: &[Value], attributes: &str, types: &[Type]) -> Result<Outs> {
    ensure!(
        !b.settings.tpu,
        NotImplemented,
        "`{name}` runs on the CPU only"
    );
    Ok(b.custom_call(&format!("tpu_linalg_{name}"), xs, attributes, types))
}

fn last_two_swapped(rank: usize) -> Dims {
    let mut order: Dims = (0..rank as i64).collect();
    order.swap(rank - 1, rank - 2);
    order
}

/// The transposed matrices.
fn transpose(b: &mut B, a: Value) -> Result<Value> {
    Ok(b.transpose(a, &last_two_swapped(b.rank(a)))?)
}

/// The complex conjugate; a real value itself.
fn conjugate(b: &mut B, a: Value) -> Result<Value> {
    if !b.dtype(a).is_complex() {
        return Ok(a);
    }
    let (re, im) = (b.real(a), b.imag(a));
    let im = b.negate(im);
    Ok(b.complex(re, im)?)
}

/// The conjugate transposed matrices.
fn adjoint(b: &mut B, a: Value) -> Result<Value> {
    let a = transpose(b, a)?;
    conjugate(b, a)
}

/// Products of matrices whose batches are equal.
fn multiply(b: &mut B, x: Value, y: Value) -> Result<Value> {
    let n = b.rank(x) as i64;
    let batch: Vec<(i64, i64)> = (0..n - 2).map(|i| (i, i)).collect();
    product(b, x, y, &dims(&batch, &[(n - 1, n - 2)]))
}

/// Repeats the matrices of `x` and `y` so that their batches are equal.
fn broadcast_batches(b: &mut B, x: Value, y: Value) -> Result<(Value, Value)> {
    let (m, n) = (Matrices::of(b, x), Matrices::of(b, y));
    let batch = broadcast_shapes(&[&m.batch, &n.batch])?;
    let mut spread = |x: Value, m: Matrices| {
        let to = Matrices {
            batch: batch.clone(),
            ..m
        };
        let dims = to.each(to.dtype, &[to.rows, to.columns]).dims;
        b.broadcast(x, &dims)
    };
    Ok((spread(x, m)?, spread(y, n)?))
}

/// How the row index of an element of `dims` compares with its column index plus `shift`.
fn triangle(b: &mut B, dims: &[i64], direction: Direction, shift: i64) -> Result<Value> {
    let plane: Dims = dims[dims.len() - 2..].into();
    let (row, column) = (b.iota(DType::I32, &plane, 0), b.iota(DType::I32, &plane, 1));
    let shift = b.full_like(column, shift);
    let column = b.add(column, shift)?;
    let inside = b.compare(row, direction, column)?;
    Ok(b.broadcast(inside, dims)?)
}

/// The elements on and below (`GE`) or on and above (`LE`) the diagonal, zero elsewhere.
fn keep(b: &mut B, a: Value, direction: Direction) -> Result<Value> {
    let inside = triangle(b, &b.dims(a), direction, 0)?;
    let zero = b.full_like(a, 0);
    Ok(b.select(inside, a, zero)?)
}

/// Identity matrices.
fn identity(b: &mut B, ty: &Type) -> Result<Value> {
    let diagonal = triangle(b, &ty.dims, Direction::EQ, 0)?;
    Ok(b.convert(diagonal, ty.dtype))
}

/// The diagonals of square matrices.
fn diagonal(b: &mut B, a: Value) -> Result<Value> {
    let a = keep_diagonal(b, a)?;
    Ok(b.sum(a, &[b.rank(a) as i64 - 1])?)
}

fn keep_diagonal(b: &mut B, a: Value) -> Result<Value> {
    let inside = triangle(b, &b.dims(a), Direction::EQ, 0)?;
    let zero = b.full_like(a, 0);
    Ok(b.select(inside, a, zero)?)
}

/// `a` with column `j` multiplied by `factors[j]`.
fn scale_columns(b: &mut B, a: Value, factors: Value) -> Result<Value> {
    let to = b.dims(a);
    let n = to.len() as i64;
    let axes: Dims = (0..n - 2).chain([n - 1]).collect();
    let factors = b.convert(factors, b.dtype(a));
    let factors = b.broadcast_in_dim(factors, &to, &axes)?;
    Ok(b.multiply(a, factors)?)
}

/// Demands that no element of `info` is set; `{}` in the message stands for the largest.
fn expect_success(b: &mut B, info: Value, message: &str) -> Result<()> {
    let info = b.convert(info, DType::I64);
    let zero = b.full_like(info, 0);
    let failed = b.compare(info, Direction::NE, zero)?;
    let fine = b.full_like(info, i64::MIN);
    let bad = b.select(failed, info, fine)?;
    let none = b.scalar(i64::MIN, DType::I64);
    let axes: Dims = (0..b.rank(bad) as i64).collect();
    let worst = b.reduce(bad, none, &axes, B::maximum)?;
    b.check(worst, message);
    Ok(())
}

/// What PyTorch returns for a part that was not asked for.
fn nothing(b: &mut B, dtype: DType) -> Value {
    b.full(0, dtype, &[0])
}

#[cfg(test)]
mod tests;
