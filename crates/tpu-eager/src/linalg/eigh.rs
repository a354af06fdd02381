//! Eigenvalues and eigenvectors of hermitian matrices: Householder's tridiagonal form, then QL
//! steps with implicit shifts.
use super::matrix::{Matrix, add_multiple, dot};
use super::number::Number;
use super::qr::{reflect, reflection};

/// QL steps per eigenvalue before giving up; three are usual.
const MOST_STEPS: usize = 60;

/// Ascending eigenvalues, and the eigenvectors as columns, of the matrix whose lower (or upper)
/// triangle is given; NaN where the iteration does not converge.
pub(super) fn decompose<T: Number>(mut a: Matrix<T>, upper: bool) -> (Vec<f64>, Matrix<T>) {
    complete(&mut a, upper);
    let (mut diagonal, mut beside, mut vectors) = tridiagonal(&mut a);
    if !iterate(&mut diagonal, &mut beside, &mut vectors) {
        diagonal.fill(f64::NAN);
        vectors.map(|_| T::new(f64::NAN, f64::NAN));
        return (diagonal, vectors);
    }
    let mut order: Vec<usize> = (0..diagonal.len()).collect();
    order.sort_by(|i, j| diagonal[*i].total_cmp(&diagonal[*j]));
    let values = order.iter().map(|i| diagonal[*i]).collect();
    (values, vectors.select(&order))
}

/// Fills the triangle that is not given.
fn complete<T: Number>(a: &mut Matrix<T>, upper: bool) {
    for j in 0..a.columns() {
        a[(j, j)] = T::new(a[(j, j)].re(), 0.0);
        for i in j + 1..a.rows() {
            if upper {
                a[(i, j)] = a[(j, i)].conj();
            } else {
                a[(j, i)] = a[(i, j)].conj();
            }
        }
    }
}

/// Diagonal, subdiagonal and transformation of a similar real tridiagonal matrix.
fn tridiagonal<T: Number>(a: &mut Matrix<T>) -> (Vec<f64>, Vec<f64>, Matrix<T>) {
    let n = a.columns();
    let mut taus = Vec::with_capacity(n);
    let mut beside = vec![0.0; n];
    for k in 0..n.saturating_sub(1) {
        let tau = reflection(&mut a.column_mut(k)[k + 1..]);
        beside[k] = a[(k + 1, k)].re();
        taus.push(tau);
        if tau != T::zero() {
            apply_both_sides(a, k, tau);
        }
    }
    let diagonal = (0..n).map(|k| a[(k, k)].re()).collect();
    let mut q = Matrix::identity(n, n);
    for (k, tau) in taus.iter().enumerate().rev() {
        for j in k + 1..n {
            reflect(&mut q.column_mut(j)[k + 1..], &a.column(k)[k + 2..], *tau);
        }
    }
    (diagonal, beside, q)
}

/// What remains after column `k`, with the reflection applied from both sides: a matrix `r`
/// becomes `r - v w^H - w v^H`.
fn apply_both_sides<T: Number>(a: &mut Matrix<T>, k: usize, tau: T) {
    let n = a.columns();
    let mut v: Vec<T> = a.column(k)[k + 1..].to_vec();
    v[0] = T::one();
    let mut w = vec![T::zero(); v.len()];
    for (j, x) in v.iter().enumerate() {
        add_multiple(&mut w, tau * *x, &a.column(k + 1 + j)[k + 1..]);
    }
    let half = -(tau * dot(&w, &v)).scale(0.5);
    add_multiple(&mut w, half, &v);
    for j in k + 1..n {
        let column = &mut a.column_mut(j)[k + 1..];
        add_multiple(column, -w[j - k - 1].conj(), &v);
        add_multiple(column, -v[j - k - 1].conj(), &w);
    }
}

/// Makes the tridiagonal matrix diagonal; false when it does not converge.
fn iterate<T: Number>(d: &mut [f64], e: &mut [f64], vectors: &mut Matrix<T>) -> bool {
    let n = d.len();
    for l in 0..n {
        let mut steps = 0;
        loop {
            let Some(m) = (l..n).find(|m| *m + 1 == n || is_small(d, e, *m)) else {
                return false;
            };
            if m == l {
                break;
            }
            steps += 1;
            if steps > MOST_STEPS || !d[l].is_finite() {
                return false;
            }
            step(d, e, vectors, l, m);
        }
    }
    d.iter().all(|x| x.is_finite())
}

/// Whether the element beside `m` is too small to matter.
fn is_small(d: &[f64], e: &[f64], m: usize) -> bool {
    e[m].abs() <= f64::EPSILON * (d[m].abs() + d[m + 1].abs()).max(f64::MIN_POSITIVE)
}

/// One implicit QL step on rows `l..=m`.
fn step<T: Number>(d: &mut [f64], e: &mut [f64], vectors: &mut Matrix<T>, l: usize, m: usize) {
    let slope = (d[l + 1] - d[l]) / (2.0 * e[l]);
    let root = slope.hypot(1.0);
    let mut g = d[m] - d[l] + e[l] / (slope + root.copysign(slope));
    let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
    for i in (l..m).rev() {
        let (f, b) = (s * e[i], c * e[i]);
        let r = f.hypot(g);
        e[i + 1] = r;
        if r == 0.0 {
            d[i + 1] -= p;
            e[m] = 0.0;
            return;
        }
        (s, c) = (f / r, g / r);
        g = d[i + 1] - p;
        let t = (d[i] - g) * s + 2.0 * c * b;
        p = s * t;
        d[i + 1] = g + p;
        g = c * t - b;
        let (x, y) = vectors.columns_mut(i, i + 1);
        for (x, y) in x.iter_mut().zip(y) {
            (*x, *y) = (x.scale(c) - y.scale(s), x.scale(s) + y.scale(c));
        }
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0.0;
}
