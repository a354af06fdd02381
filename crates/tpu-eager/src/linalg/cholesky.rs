//! Cholesky's factorisation.
use super::matrix::{Matrix, add_multiple};
use super::number::Number;

/// Overwrites `a` with its lower (or upper) factor, of which it reads that triangle alone. Returns
/// the order of the first leading minor that is not positive, else 0; the factor is then complete
/// up to that column.
pub(super) fn factor<T: Number>(a: &mut Matrix<T>, upper: bool) -> i32 {
    if upper {
        let mut lower = a.adjoint();
        let info = of_lower(&mut lower);
        *a = lower.adjoint();
        return info;
    }
    of_lower(a)
}

fn of_lower<T: Number>(a: &mut Matrix<T>) -> i32 {
    let n = a.columns();
    let mut info = 0;
    for j in 0..n {
        a.column_mut(j)[..j].fill(T::zero());
        if info != 0 {
            continue;
        }
        for k in 0..j {
            let factor = a[(j, k)].conj();
            let (from, to) = a.two_columns(k, j);
            add_multiple(&mut to[j..], -factor, &from[j..]);
        }
        let pivot = a[(j, j)].re();
        if pivot <= 0.0 || pivot.is_nan() {
            info = i32::try_from(j + 1).unwrap_or(i32::MAX);
            continue;
        }
        let root = pivot.sqrt();
        a[(j, j)] = T::new(root, 0.0);
        for x in &mut a.column_mut(j)[j + 1..] {
            *x = x.scale(1.0 / root);
        }
    }
    info
}
