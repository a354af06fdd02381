//! Eigenvalues, singular values, and what is made from them.
use super::{
    Matrices, adjoint, call, compiled, matrices, multiply, nothing, scale_columns, square,
};
use crate::{Result, check, error::ensure, formula::formula};
use std::sync::Arc;
use tpu_hlo::{Builder, Value};

type B = Builder;

/// Eigenvalues, ascending, and eigenvectors of hermitian matrices, of which one triangle is read
pub(super) fn eigh(b: &mut B, a: Value, uplo: Arc<str>, compute_v: bool) -> Result<(Value, Value)> {
    square(b, a, "linalg.eigh", "linalg_eigh_cpu")?;
    let side = uplo.to_ascii_uppercase();
    ensure!(
        side == "L" || side == "U",
        "Expected UPLO argument to be 'L' or 'U', but got {uplo}"
    );
    let (values, vectors) = hermitian(b, a, side == "U")?;
    Ok((
        values,
        if compute_v {
            vectors
        } else {
            nothing(b, b.dtype(a))
        },
    ))
}

fn hermitian(b: &mut B, a: Value, upper: bool) -> Result<(Value, Value)> {
    if b.settings.tpu {
        return compiled::eigh(b, a, upper);
    }
    let m = Matrices::of(b, a);
    let types = [m.each(m.dtype.real(), &[m.rows]), b.ty(a).clone()];
    let outs = call(b, "eigh", &[a], &format!("upper = {upper}"), &types)?;
    Ok((outs[0], outs[1]))
}

/// Eigenvalues and right eigenvectors of any matrices, both complex
pub(super) fn eig(b: &mut B, a: Value) -> Result<(Value, Value)> {
    let m = square(b, a, "linalg.eig", "linalg_eig_cpu")?;
    finite(
        b,
        a,
        "RuntimeError: torch.linalg.eig: input tensor should not contain infs or NaNs.",
    )?;
    let complex = m.dtype.complex();
    let types = [
        m.each(complex, &[m.rows]),
        m.each(complex, &[m.rows, m.rows]),
    ];
    let outs = call(b, "eig", &[a], "", &types)?;
    Ok((outs[0], outs[1]))
}

/// Eigenvalues of any matrices, complex
pub(super) fn eigvals(b: &mut B, a: Value) -> Result<Value> {
    Ok(eig(b, a)?.0)
}

/// Demands that all elements are finite.
fn finite(b: &mut B, a: Value, message: &str) -> Result<()> {
    let size = b.abs(a);
    let fine = b.is_finite(size);
    let bad = b.not(fine);
    check::nowhere(b, bad, message)
}

/// `a = U @ diag(S) @ Vh`
pub(super) fn svd_row(
    b: &mut B,
    a: Value,
    full_matrices: bool,
    compute_uv: bool,
    driver: Option<Arc<str>>,
) -> Result<(Value, Value, Value)> {
    let m = matrices(b, a, "linalg.svd", "linalg_svd_cpu")?;
    ensure!(
        driver.is_none(),
        "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with \
         cuSOLVER backend."
    );
    finite(
        b,
        a,
        "LinAlgError: linalg.svd: The algorithm failed to converge because the input matrix \
         contained non-finite values.",
    )?;
    let (u, s, vh) = svd(b, a, full_matrices)?;
    if compute_uv {
        return Ok((u, s, vh));
    }
    let none = nothing(b, m.dtype);
    Ok((none, s, none))
}

/// Singular vectors and descending singular values.
pub(super) fn svd(b: &mut B, a: Value, full: bool) -> Result<(Value, Value, Value)> {
    let m = Matrices::of(b, a);
    let rank = m.rank();
    let (left, right) = if full {
        (m.rows, m.columns)
    } else {
        (rank, rank)
    };
    let types = [
        m.each(m.dtype, &[m.rows, left]),
        m.each(m.dtype.real(), &[rank]),
        m.each(m.dtype, &[right, m.columns]),
    ];
    let outs = call(b, "svd", &[a], "", &types)?;
    Ok((outs[0], outs[1], outs[2]))
}

/// `a = U @ H` with orthonormal columns in `U` and a hermitian `H` without negative eigenvalues
pub(super) fn polar(b: &mut B, a: Value) -> Result<(Value, Value)> {
    let m = matrices(b, a, "linalg.polar", "linalg_polar_cpu")?;
    ensure!(
        m.rows >= m.columns,
        "linalg.polar: input must have at least as many rows as columns, but got {} by {} matrices",
        m.rows,
        m.columns
    );
    let (u, s, vh) = svd(b, a, false)?;
    let unitary = multiply(b, u, vh)?;
    let v = adjoint(b, vh)?;
    let scaled = scale_columns(b, v, s)?;
    Ok((unitary, multiply(b, scaled, vh)?))
}

/// The hermitian square root of hermitian matrices; negative eigenvalues count as zero
pub(super) fn matrix_sqrth(b: &mut B, a: Value) -> Result<Value> {
    square(b, a, "linalg.matrix_sqrth", "linalg_matrix_sqrth_cpu")?;
    let (values, vectors) = hermitian(b, a, false)?;
    let roots = formula(b, [values], |[x]| x.maximum(0.0).sqrt())?;
    let scaled = scale_columns(b, vectors, roots)?;
    let back = adjoint(b, vectors)?;
    multiply(b, scaled, back)
}
