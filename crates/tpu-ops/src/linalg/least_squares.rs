//! Least squares.
use super::{
    Matrices, adjoint, broadcast_batches, multiply, nothing, scale_columns,
    solve::{column, flat, is_vector},
    spectrum::svd,
    transpose,
};
use crate::{Result, error::ensure, formula::formulas};
use std::sync::Arc;
use tpu_hlo::{Builder, DType, Direction, Value};

type B = Builder;

/// What a driver of LAPACK computes besides the solution.
struct Driver {
    /// Small singular values are cut off and counted: the rank.
    cuts: bool,
    /// The singular values are returned.
    values: bool,
    /// The residuals are returned, for matrices of full rank.
    residuals: bool,
}

impl Driver {
    fn named(name: Option<&str>) -> Result<Self> {
        let (cuts, values, residuals) = match name.unwrap_or("gelsy") {
            "gels" => (false, false, true),
            "gelsy" => (true, false, false),
            "gelsd" | "gelss" => (true, true, true),
            _ => {
                return Err(crate::Error::runtime(
                    "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, \
                     gelss)",
                ));
            }
        };
        Ok(Self {
            cuts,
            values,
            residuals,
        })
    }
}

fn checked(b: &B, a: Value, x: Value) -> Result<()> {
    let name = "torch.linalg.lstsq";
    super::floating(b, a, name, "lstsq_cpu")?;
    ensure!(
        b.rank(a) >= 2,
        "{name}: input must have at least 2 dimensions."
    );
    ensure!(
        b.rank(x) >= 1,
        "{name}: other must have at least 1 dimension."
    );
    let (t, u) = (b.dtype(a), b.dtype(x));
    ensure!(
        t == u,
        "{name}: Expected input and other to have the same dtype, but got input's dtype {} and \
         other's dtype {}",
        t.torch(),
        u.torch()
    );
    let (of_x, rows) = (b.dims(x), Matrices::of(b, a).rows);
    let (side, size) = if is_vector(b, a, x) {
        (-1, of_x[of_x.len() - 1])
    } else {
        (-2, of_x[of_x.len() - 2])
    };
    ensure!(
        rows == size,
        "{name}: input.size(-2) should match other.size({side})"
    );
    Ok(())
}

/// The inverse singular values, zero where they are cut off, and the rank.
fn inverses(b: &mut B, s: Value, driver: &Driver, rcond: f64) -> Result<(Value, Value)> {
    let last = b.rank(s) as i64 - 1;
    let zero = b.scalar(0, b.dtype(s));
    let most = b.reduce(s, zero, &[last], B::maximum)?;
    let kept: Vec<i64> = (0..last).collect();
    let most = b.broadcast_in_dim(most, &b.dims(s), &kept)?;
    let cuts = driver.cuts;
    let [inverse, counted] = formulas(b, [s, most], |[s, most]| {
        let large = if cuts { s.gt(most * rcond) } else { s.eq(s) };
        [large.pick(1.0 / s, 0.0), large.to(DType::I64)]
    })?;
    let rank = b.sum(counted, &[last])?;
    Ok((inverse, rank))
}

/// The cut-off that PyTorch takes when none is given.
fn cutoff(b: &B, a: Value, rcond: Option<f64>) -> f64 {
    let m = Matrices::of(b, a);
    let epsilon = match m.dtype.real() {
        DType::F64 => f64::EPSILON,
        _ => f32::EPSILON.into(),
    };
    rcond.unwrap_or(epsilon * m.rows.max(m.columns) as f64)
}

/// 1 when there are residuals to return: more equations than unknowns, and full rank.
pub(super) fn full_rank(
    b: &mut B,
    a: Value,
    x: Value,
    rcond: Option<f64>,
    driver: Option<Arc<str>>,
) -> Result<Value> {
    checked(b, a, x)?;
    let (m, driver) = (Matrices::of(b, a), Driver::named(driver.as_deref())?);
    if m.rows <= m.columns || !driver.residuals || !driver.cuts {
        let known = driver.residuals && m.rows > m.columns;
        return Ok(b.scalar(i64::from(known), DType::I64));
    }
    let (_, s, _) = svd(b, a, false)?;
    let rcond = cutoff(b, a, rcond);
    let (_, rank) = inverses(b, s, &driver, rcond)?;
    let columns = b.full_like(rank, m.columns);
    let full = b.compare(rank, Direction::EQ, columns)?;
    let axes: Vec<i64> = (0..b.rank(full) as i64).collect();
    let full = b.all(full, &axes)?;
    Ok(b.convert(full, DType::I64))
}

/// The `x` of least norm that minimises `|a @ x - b|`, from singular values; squared residuals,
/// rank and singular values as far as `driver` computes them
pub(super) fn lstsq(
    b: &mut B,
    a: Value,
    x: Value,
    rcond: Option<f64>,
    driver: Option<Arc<str>>,
    with_residuals: i64,
) -> Result<(Value, Value, Value, Value)> {
    checked(b, a, x)?;
    let driver = Driver::named(driver.as_deref())?;
    let vector = is_vector(b, a, x);
    let x = if vector { column(b, x)? } else { x };
    let rcond = cutoff(b, a, rcond);
    let (u, s, vh) = svd(b, a, false)?;
    let (inverse, rank) = inverses(b, s, &driver, rcond)?;
    let v = adjoint(b, vh)?;
    let v = scale_columns(b, v, inverse)?;
    let (u, of_x) = broadcast_batches(b, u, x)?;
    let (v, _) = broadcast_batches(b, v, x)?;
    let back = adjoint(b, u)?;
    let seen = multiply(b, back, of_x)?;
    let solution = multiply(b, v, seen)?;
    let dtype = b.dtype(a);
    let residuals = if with_residuals != 0 {
        squared_residuals(b, a, solution, of_x)?
    } else {
        nothing(b, dtype.real())
    };
    let solution = if vector { flat(b, solution)? } else { solution };
    let rank = if driver.cuts {
        rank
    } else {
        nothing(b, DType::I64)
    };
    let values = if driver.values {
        s
    } else {
        nothing(b, dtype.real())
    };
    Ok((solution, residuals, rank, values))
}

/// `sum(|a @ solution - x|^2)` of every column.
fn squared_residuals(b: &mut B, a: Value, solution: Value, x: Value) -> Result<Value> {
    let (a, solution) = broadcast_batches(b, a, solution)?;
    let y = multiply(b, a, solution)?;
    let rest = b.subtract(y, x)?;
    let size = b.abs(rest);
    let square = b.multiply(size, size)?;
    let square = transpose(b, square)?;
    Ok(b.sum(square, &[b.rank(square) as i64 - 1])?)
}
