//! Singular values by one-sided Jacobi rotations, which find small ones to full precision.
use super::matrix::{Matrix, dot, norm};
use super::number::Number;
use super::qr;

/// Sweeps over all pairs of columns before giving up; ten are usual.
const MOST_SWEEPS: usize = 60;

/// `U`, descending singular values and `V^H`; square `U` and `V` when `full`.
pub(super) fn decompose<T: Number>(a: Matrix<T>, full: bool) -> (Matrix<T>, Vec<f64>, Matrix<T>) {
    if a.rows() >= a.columns() {
        let (u, s, v) = of_tall(a, full);
        return (u, s, v.adjoint());
    }
    let (v, s, u) = of_tall(a.adjoint(), full);
    (u, s, v.adjoint())
}

/// `U`, singular values and `V` of a matrix with no more columns than rows.
fn of_tall<T: Number>(mut a: Matrix<T>, full: bool) -> (Matrix<T>, Vec<f64>, Matrix<T>) {
    let (m, n) = (a.rows(), a.columns());
    let largest = a.largest();
    let scale = if largest > 0.0 && largest.is_finite() {
        largest
    } else {
        1.0
    };
    a.map(|x| x.scale(1.0 / scale));
    let tau = qr::factor(&mut a);
    // R^H = W S Z^H gives A = (Q Z) S W^H, and rotations converge faster on R^H than on A.
    let mut w = lower_of_adjoint(&a, n);
    let z = rotate(&mut w);
    let mut s: Vec<f64> = (0..n).map(|j| norm(w.column(j))).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| s[*j].total_cmp(&s[*i]));
    s = order.iter().map(|j| s[*j]).collect();
    let w = orthonormal(w.select(&order), &s);
    let z = z.select(&order);
    let q = qr::product(&a, &tau, if full { m } else { n });
    let u = left_vectors(&q, &z);
    s.iter_mut().for_each(|s| *s *= scale);
    (u, s, w)
}

/// `R^H` of a packed QR factorisation.
fn lower_of_adjoint<T: Number>(packed: &Matrix<T>, n: usize) -> Matrix<T> {
    let mut lower = Matrix::zeros(n, n);
    for j in 0..n {
        for i in 0..=j {
            lower[(j, i)] = packed[(i, j)].conj();
        }
    }
    lower
}

/// `Q @ Z`; columns of `Q` beyond those of `Z` stay.
fn left_vectors<T: Number>(q: &Matrix<T>, z: &Matrix<T>) -> Matrix<T> {
    let n = z.columns();
    let first: Vec<usize> = (0..n).collect();
    let turned = q.select(&first).multiply(z);
    let mut u = q.clone();
    for j in 0..n {
        u.column_mut(j).copy_from_slice(turned.column(j));
    }
    u
}

/// Makes the columns of `x` orthogonal; returns the product of the rotations.
fn rotate<T: Number>(x: &mut Matrix<T>) -> Matrix<T> {
    let n = x.columns();
    let mut turns = Matrix::identity(n, n);
    for _ in 0..MOST_SWEEPS {
        let mut still = true;
        for p in 0..n {
            for q in p + 1..n {
                if let Some(turn) = rotation(x.column(p), x.column(q)) {
                    still = false;
                    turn.apply(x.columns_mut(p, q));
                    turn.apply(turns.columns_mut(p, q));
                }
            }
        }
        if still {
            break;
        }
    }
    turns
}

/// A rotation of two columns after the second one's phase is taken off.
struct Rotation<T> {
    cosine: f64,
    sine: f64,
    phase: T,
}

impl<T: Number> Rotation<T> {
    fn apply(&self, (p, q): (&mut [T], &mut [T])) {
        for (x, y) in p.iter_mut().zip(q) {
            let turned = *y * self.phase.conj();
            let first = x.scale(self.cosine) - turned.scale(self.sine);
            *y = x.scale(self.sine) + turned.scale(self.cosine);
            *x = first;
        }
    }
}

/// The rotation that makes two columns orthogonal, unless they are.
fn rotation<T: Number>(p: &[T], q: &[T]) -> Option<Rotation<T>> {
    let (a, b) = (dot(p, p).re(), dot(q, q).re());
    let c = dot(p, q);
    let size = c.abs();
    let noise = f64::EPSILON * (a * b).sqrt();
    if size <= noise.max(f64::MIN_POSITIVE) || size.is_nan() || noise.is_nan() {
        return None;
    }
    let zeta = (b - a) / (2.0 * size);
    let tangent = 1.0f64.copysign(zeta) / (zeta.abs() + zeta.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    Some(Rotation {
        cosine,
        sine: cosine * tangent,
        phase: c.scale(1.0 / size),
    })
}

/// Columns divided by their norms; those of norm 0 are replaced by vectors orthogonal to the
/// others.
fn orthonormal<T: Number>(mut w: Matrix<T>, norms: &[f64]) -> Matrix<T> {
    for (j, norm) in norms.iter().enumerate() {
        if *norm > 0.0 {
            w.column_mut(j)
                .iter_mut()
                .for_each(|x| *x = x.scale(1.0 / norm));
        } else {
            let new = complement(&w, j);
            w.column_mut(j).copy_from_slice(&new);
        }
    }
    w
}

/// A unit vector orthogonal to the first `count` columns: the unit vector that they cover least,
/// with their share taken out twice.
fn complement<T: Number>(w: &Matrix<T>, count: usize) -> Vec<T> {
    let covered = |i: usize| (0..count).map(|j| w[(i, j)].norm2()).sum::<f64>();
    let best = (0..w.rows())
        .min_by(|i, j| covered(*i).total_cmp(&covered(*j)))
        .unwrap_or(0);
    let mut x = vec![T::zero(); w.rows()];
    x[best] = T::one();
    for _ in 0..2 {
        for j in 0..count {
            let share = dot(w.column(j), &x);
            super::matrix::add_multiple(&mut x, -share, w.column(j));
        }
        let size = norm(&x);
        x.iter_mut().for_each(|x| *x = x.scale(1.0 / size));
    }
    x
}
