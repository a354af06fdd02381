//! QR factorisation by Householder reflections `1 - tau * v @ v^H`, as LAPACK stores them.
use super::matrix::{Matrix, add_multiple, dot, norm};
use super::number::Number;

/// Makes the reflection whose adjoint maps `x` to a multiple of the first unit vector: `x` becomes
/// `[beta, v[1..]]` with `v[0] = 1`; the result is `tau`.
pub(super) fn reflection<T: Number>(x: &mut [T]) -> T {
    let Some((head, rest)) = x.split_first_mut() else {
        return T::zero();
    };
    let below = norm(rest);
    if below == 0.0 && head.im() == 0.0 {
        return T::zero();
    }
    let alpha = *head;
    let beta = -alpha.abs().hypot(below).copysign(alpha.re());
    let inverse = T::one() / (alpha - T::new(beta, 0.0));
    rest.iter_mut().for_each(|x| *x = *x * inverse);
    *head = T::new(beta, 0.0);
    T::new((beta - alpha.re()) / beta, -alpha.im() / beta)
}

/// `x -= tau * v * (v^H @ x)`, where `tail` is `v` without its leading 1.
pub(super) fn reflect<T: Number>(x: &mut [T], tail: &[T], tau: T) {
    let Some((head, rest)) = x.split_first_mut() else {
        return;
    };
    let share = tau * (*head + dot(tail, rest));
    *head = *head - share;
    add_multiple(rest, -share, tail);
}

/// Overwrites `a` with `R` and, below the diagonal, the reflections; returns their `tau`.
pub(super) fn factor<T: Number>(a: &mut Matrix<T>) -> Vec<T> {
    let steps = a.rows().min(a.columns());
    let step = |i: usize| {
        let tau = reflection(&mut a.column_mut(i)[i..]);
        for j in i + 1..a.columns() {
            let (from, to) = a.two_columns(i, j);
            reflect(&mut to[i..], &from[i + 1..], tau.conj());
        }
        tau
    };
    (0..steps).map(step).collect()
}

/// The first `columns` columns of the product of the reflections in `a`.
pub(super) fn product<T: Number>(a: &Matrix<T>, tau: &[T], columns: usize) -> Matrix<T> {
    let mut q = Matrix::identity(a.rows(), columns);
    for (i, tau) in tau.iter().enumerate().rev() {
        let tail = &a.column(i)[i + 1..];
        for j in 0..columns {
            reflect(&mut q.column_mut(j)[i..], tail, *tau);
        }
    }
    q
}
