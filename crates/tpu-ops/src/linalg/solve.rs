//! Linear systems, inverses and determinants.
use super::{
    Matrices, adjoint, broadcast_batches, call, diagonal, expect_success, factor,
    factor::Triangular, is_square, square, transpose,
};
use crate::{Outs, Result, error::ensure, promote::broadcast_shapes};
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;

/// PyTorch's `linearSolveCheckInputs` and the shapes of `AX = B` or `XA = B`.
fn compatible(b: &B, a: Value, x: Value, left: bool, name: &str) -> Result<()> {
    let (m, n) = (Matrices::of(b, a), Matrices::of(b, x));
    let equation = if left { "AX = B" } else { "XA = B" };
    ensure!(
        m.rows == if left { n.rows } else { n.columns },
        "{name}: Incompatible shapes of A and B for the equation {equation} ({}x{} and {}x{})",
        m.rows,
        m.columns,
        n.rows,
        n.columns
    );
    Ok(())
}

fn same_dtype(b: &B, a: Value, x: Value, name: &str, first: &str) -> Result<()> {
    let (t, u) = (b.dtype(a), b.dtype(x));
    ensure!(
        t == u,
        "{name}: Expected {first} and B to have the same dtype, but found {first} of type {} and \
         B of type {} instead",
        t.torch(),
        u.torch()
    );
    Ok(())
}

/// Whether `x` is a batch of vectors for the matrices `a`.
pub(super) fn is_vector(b: &B, a: Value, x: Value) -> bool {
    let (of_a, of_x) = (b.dims(a), b.dims(x));
    of_x.len() == 1 || (of_x.len() + 1 == of_a.len() && of_a[..of_x.len()] == of_x[..])
}

/// `x` as matrices of one column.
pub(super) fn column(b: &mut B, x: Value) -> Result<Value> {
    let mut dims = b.dims(x);
    dims.push(1);
    Ok(b.reshape(x, &dims)?)
}

/// Matrices of one column as vectors again.
pub(super) fn flat(b: &mut B, x: Value) -> Result<Value> {
    let mut dims = b.dims(x);
    dims.pop();
    Ok(b.reshape(x, &dims)?)
}

/// The solution of `a @ x = b` (or `x @ a = b`), with the packed factors of `a`, its exchanges and
/// the first zero pivot
pub(super) fn solve_ex(
    b: &mut B,
    a: Value,
    x: Value,
    left: bool,
    check_errors: bool,
) -> Result<(Value, Value, Value, Value)> {
    let name = "linalg.solve";
    square(b, a, name, "linalg_solve_ex_cpu")?;
    same_dtype(b, a, x, name, "A")?;
    let vector = is_vector(b, a, x);
    let x = if vector { column(b, x)? } else { x };
    compatible(b, a, x, left, name)?;
    ensure!(
        left || !vector,
        "{name}: Vector broadcasting of the left hand side is not supported for left=False. In \
         this case linalg.solve is equivalent to B / A.squeeze(-1)"
    );
    let [lu, pivots, info] = factor::packed_lu(b, a, true)?;
    let solution = from_lu(b, lu, pivots, x, left, false)?;
    if check_errors {
        let message = "LinAlgError: torch.linalg.solve_ex: The solver failed because the input \
                       matrix is singular.";
        expect_success(b, info, message)?;
    }
    let solution = if vector { flat(b, solution)? } else { solution };
    if vector && b.rank(solution) > 1 {
        // PyTorch lays a batch of vectors out as if it were one matrix.
        let mut order: Dims = (0..b.rank(solution) as i64).collect();
        let last = order.len() - 1;
        order.swap(last - 1, last);
        b.set_order(solution, &order);
    }
    Ok((solution, lu, pivots, info))
}

/// Solves from packed factors; batches are broadcast.
fn from_lu(
    b: &mut B,
    lu: Value,
    pivots: Value,
    x: Value,
    left: bool,
    of_adjoint: bool,
) -> Result<Value> {
    let (m, n) = (Matrices::of(b, lu), Matrices::of(b, x));
    let batch = broadcast_shapes(&[&m.batch, &n.batch])?;
    let (lu, x) = broadcast_batches(b, lu, x)?;
    let mut dims: Dims = batch;
    dims.push(m.rows);
    let pivots = b.broadcast(pivots, &dims)?;
    if left {
        return factor::from_packed_lu(b, lu, pivots, x, of_adjoint);
    }
    // x @ a = b is a^H @ x^H = b^H.
    let x = adjoint(b, x)?;
    let y = factor::from_packed_lu(b, lu, pivots, x, !of_adjoint)?;
    let y = adjoint(b, y)?;
    let in_rows: Dims = (0..b.rank(y) as i64).collect();
    b.set_order(y, &in_rows);
    Ok(y)
}

/// Solves `a @ x = b`, `x @ a = b` or the same with `a^H`, from packed factors
pub(super) fn lu_solve(
    b: &mut B,
    lu: Value,
    pivots: Value,
    x: Value,
    left: bool,
    of_adjoint: bool,
) -> Result<Value> {
    let name = "linalg.lu_solve";
    super::floating(b, lu, name, "linalg_lu_solve_cpu")?;
    same_dtype(b, lu, x, name, "LU")?;
    ensure!(
        b.dtype(pivots) == DType::I32,
        "{name}: pivots should be a Tensor of scalar type torch.int32"
    );
    let m = square(b, lu, "torch.linalg.lu_solve", "linalg_lu_solve_cpu")?;
    ensure!(
        b.rank(x) >= 2,
        "{name}: The input tensor B must have at least 2 dimensions."
    );
    compatible(b, lu, x, left, name)?;
    let of_pivots = b.dims(pivots);
    let (count, batch) = of_pivots.split_last().unwrap_or((&0, &[]));
    ensure!(
        *count == m.columns,
        "{name}: Number of pivots per batch should be same as the dimension of the matrix"
    );
    ensure!(
        *batch == m.batch[..],
        "{name}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape \
         {of_pivots:?} instead"
    );
    from_lu(b, lu, pivots, x, left, of_adjoint)
}

/// The inverse, and the first zero pivot
pub(super) fn inv_ex(b: &mut B, a: Value, check_errors: bool) -> Result<(Value, Value)> {
    let m = square(b, a, "linalg.inv", "inv_cpu")?;
    let [lu, pivots, info] = factor::packed_lu(b, a, true)?;
    let eye = factor::identity_like(b, &m)?;
    let inverse = factor::from_packed_lu(b, lu, pivots, eye, false)?;
    if check_errors {
        expect_success(
            b,
            info,
            "LinAlgError: linalg.inv_ex: The diagonal element {} is zero, the inversion could not \
             be completed because the input matrix is singular.",
        )?;
    }
    Ok((inverse, info))
}

/// 1 or -1: the sign of the exchanges.
fn parity(b: &mut B, pivots: Value, dtype: DType) -> Result<Value> {
    let last = b.rank(pivots) as i64 - 1;
    let place = b.iota(DType::I32, &b.dims(pivots), last);
    let one = b.full_like(place, 1);
    let place = b.add(place, one)?;
    let moved = b.compare(pivots, Direction::NE, place)?;
    let none = b.scalar(false, DType::Bool);
    let odd = b.reduce(moved, none, &[last], B::xor)?;
    let (plus, minus) = (b.scalar(1, dtype), b.scalar(-1, dtype));
    let dims = b.dims(odd);
    let (plus, minus) = (b.broadcast(plus, &dims)?, b.broadcast(minus, &dims)?);
    Ok(b.select(odd, minus, plus)?)
}

fn product_of(b: &mut B, x: Value) -> Result<Value> {
    let one = b.scalar(1, b.dtype(x));
    Ok(b.reduce(x, one, &[b.rank(x) as i64 - 1], B::multiply)?)
}

/// The packed factors of `a`, or of its transpose when it is real and contiguous: the derivatives
/// of determinants expect so.
fn packed_for_determinant(b: &mut B, a: Value) -> Result<(Value, Value)> {
    let turned = !b.is_strided(a) && !b.dtype(a).is_complex();
    let a = if turned { transpose(b, a)? } else { a };
    let [lu, pivots, _] = factor::packed_lu(b, a, true)?;
    Ok((lu, pivots))
}

/// The determinant, with the packed factors and exchanges that it came from
pub(super) fn det(b: &mut B, a: Value) -> Result<(Value, Value, Value)> {
    square(b, a, "linalg.det", "det_cpu")?;
    let (lu, pivots) = packed_for_determinant(b, a)?;
    let pivot = diagonal(b, lu)?;
    let det = product_of(b, pivot)?;
    let sign = parity(b, pivots, b.dtype(a))?;
    Ok((b.multiply(det, sign)?, lu, pivots))
}

/// Sign and logarithm of the determinant's magnitude, with the packed factors and exchanges
pub(super) fn slogdet(b: &mut B, a: Value) -> Result<(Value, Value, Value, Value)> {
    square(b, a, "linalg.slogdet", "slogdet_cpu")?;
    let (lu, pivots) = packed_for_determinant(b, a)?;
    let pivot = diagonal(b, lu)?;
    let size = b.abs(pivot);
    let unit = b.sign(pivot);
    let sign = product_of(b, unit)?;
    let exchanged = parity(b, pivots, b.dtype(a))?;
    let sign = b.multiply(sign, exchanged)?;
    let log = b.log(size);
    let log = b.sum(log, &[b.rank(log) as i64 - 1])?;
    Ok((sign, log, lu, pivots))
}

/// Solves `a @ x = b` or `x @ a = b` with triangular `a`
pub(super) fn solve_triangular(
    b: &mut B,
    a: Value,
    x: Value,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<Value> {
    let name = "linalg.solve_triangular";
    same_dtype(b, a, x, name, "A")?;
    ensure!(
        b.rank(a) >= 2,
        "{name}: The input tensor A must have at least 2 dimensions."
    );
    ensure!(
        b.rank(x) >= 2,
        "{name}: The input tensor B must have at least 2 dimensions."
    );
    let m = Matrices::of(b, a);
    is_square(&m, &format!("{name}: "))?;
    compatible(b, a, x, left, name)?;
    let known = matches!(m.dtype.real(), DType::F32 | DType::F64);
    ensure!(
        known,
        NotImplemented,
        "\"triangular_solve_cpu\" not implemented for '{}'",
        m.dtype.torch()
    );
    let (a, x) = broadcast_batches(b, a, x)?;
    if left {
        return Triangular {
            upper,
            unit: unitriangular,
            adjoint: false,
        }
        .solve(b, a, x);
    }
    // x @ a = b is a^H @ x^H = b^H.
    let x = adjoint(b, x)?;
    let y = Triangular {
        upper,
        unit: unitriangular,
        adjoint: true,
    }
    .solve(b, a, x)?;
    adjoint(b, y)
}

/// Solves `op(a) @ x = b` with triangular `a`; also returns `a`, with its batch broadcast
pub(super) fn triangular_solve(
    b: &mut B,
    x: Value,
    a: Value,
    upper: bool,
    transposed: bool,
    unitriangular: bool,
) -> Result<(Value, Value)> {
    ensure!(
        b.rank(x) >= 2,
        "torch.triangular_solve: Expected b to have at least 2 dimensions, but it has {} \
         dimensions instead",
        b.rank(x)
    );
    ensure!(
        b.rank(a) >= 2,
        "torch.triangular_solve: Expected A to have at least 2 dimensions, but it has {} \
         dimensions instead",
        b.rank(a)
    );
    let (t, u) = (b.dtype(x), b.dtype(a));
    ensure!(
        t == u,
        "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
        t.torch(),
        u.torch()
    );
    let (m, n) = (Matrices::of(b, a), Matrices::of(b, x));
    is_square(&m, "")?;
    ensure!(
        m.rows == n.rows,
        "Incompatible matrix sizes for triangular_solve: each A matrix is {} by {} but each b \
         matrix is {} by {}",
        m.rows,
        m.columns,
        n.rows,
        n.columns
    );
    super::floating(b, a, "torch.triangular_solve", "triangular_solve_cpu")?;
    let (a, x) = broadcast_batches(b, a, x)?;
    let (matrix, upper) = if transposed {
        (transpose(b, a)?, !upper)
    } else {
        (a, upper)
    };
    let rule = Triangular {
        upper,
        unit: unitriangular,
        adjoint: false,
    };
    Ok((rule.solve(b, matrix, x)?, a))
}

/// Solves `L @ L^H @ x = b` (or `U^H @ U @ x = b`)
pub(super) fn cholesky_solve_helper(b: &mut B, x: Value, a: Value, upper: bool) -> Result<Value> {
    super::floating(b, a, "cholesky_solve", "cholesky_solve_cpu")?;
    let (a, x) = broadcast_batches(b, a, x)?;
    let first = Triangular {
        upper,
        unit: false,
        adjoint: upper,
    };
    let second = Triangular {
        upper,
        unit: false,
        adjoint: !upper,
    };
    let y = first.solve(b, a, x)?;
    second.solve(b, a, y)
}

/// The inverse of `L @ L^H` (or `U^H @ U`)
pub(super) fn cholesky_inverse(b: &mut B, a: Value, upper: bool) -> Result<Value> {
    let m = square(b, a, "cholesky_inverse", "cholesky_inverse_out_cpu")?;
    let eye = factor::identity_like(b, &m)?;
    cholesky_solve_helper(b, eye, a, upper)
}

/// Solves from the packed factors of `ldl_factor_ex`
pub(super) fn ldl_solve(
    b: &mut B,
    ld: Value,
    pivots: Value,
    x: Value,
    hermitian: bool,
) -> Result<Value> {
    let name = "torch.linalg.ldl_solve";
    let m = square(b, ld, name, "ldl_solve_kernel")?;
    let _ = crate::check::dim(-2, b.rank(x))?;
    let n = Matrices::of(b, x);
    ensure!(
        m.rows == n.rows,
        "Incompatible matrix sizes for {name}: each A matrix is {} by {} but each b matrix is {} \
         by {}",
        m.rows,
        m.columns,
        n.rows,
        n.columns
    );
    let dtype = b.dtype(pivots);
    ensure!(
        dtype.is_int(),
        "{name}: Expected pivots to be integers. Got {}",
        dtype.torch()
    );
    let batch = broadcast_shapes(&[&m.batch, &n.batch])?;
    let (ld, x) = broadcast_batches(b, ld, x)?;
    let mut dims = batch;
    dims.push(m.rows);
    let pivots = b.convert(pivots, DType::I32);
    let pivots = b.broadcast(pivots, &dims)?;
    let types = [b.ty(x).clone()];
    let outs: Outs = call(
        b,
        "ldl_solve",
        &[ld, pivots, x],
        &format!("hermitian = {hermitian}"),
        &types,
    )?;
    Ok(outs[0])
}
