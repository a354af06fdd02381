//! What the factorisations have to reproduce, over random matrices.
use super::matrix::{Matrix, norm};
use super::number::{Complex, Number};
use super::{cholesky, eig, eigh, ldl, lu, qr, svd, triangular::Rule};
use proptest::prelude::*;

const TOLERANCE: f64 = 1e-9;

/// A matrix of numbers between -1 and 1.
fn matrix<T: Number>(rows: usize, columns: usize, seed: u64) -> Matrix<T> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    let elements: Vec<[f64; 2]> = (0..rows * columns).map(|_| [next(), next()]).collect();
    Matrix::from_rows(rows, columns, &elements, |[re, im]| T::new(re, im))
}

fn distance<T: Number>(a: &Matrix<T>, b: &Matrix<T>) -> f64 {
    assert_eq!((a.rows(), a.columns()), (b.rows(), b.columns()));
    let gap = |j: usize| {
        let gaps = a.column(j).iter().zip(b.column(j)).map(|(x, y)| *x - *y);
        norm(&gaps.collect::<Vec<T>>())
    };
    (0..a.columns()).map(gap).fold(0.0, f64::max)
}

fn is_unitary<T: Number>(q: &Matrix<T>) -> bool {
    let n = q.columns();
    distance(&q.adjoint().multiply(q), &Matrix::identity(n, n)) < TOLERANCE
}

/// `a` with column `j` multiplied by `factors[j]`.
fn scaled<T: Number>(a: &Matrix<T>, factors: &[f64]) -> Matrix<T> {
    let mut a = a.clone();
    for (j, factor) in factors.iter().enumerate() {
        a.column_mut(j)
            .iter_mut()
            .for_each(|x| *x = x.scale(*factor));
    }
    a
}

fn lower_part<T: Number>(a: &Matrix<T>, unit: bool) -> Matrix<T> {
    let rank = a.rows().min(a.columns());
    let mut l = Matrix::zeros(a.rows(), rank);
    for j in 0..rank {
        for i in j..a.rows() {
            l[(i, j)] = if unit && i == j { T::one() } else { a[(i, j)] };
        }
    }
    l
}

fn upper_part<T: Number>(a: &Matrix<T>) -> Matrix<T> {
    let rank = a.rows().min(a.columns());
    let mut u = Matrix::zeros(rank, a.columns());
    for j in 0..a.columns() {
        for i in 0..rank.min(j + 1) {
            u[(i, j)] = a[(i, j)];
        }
    }
    u
}

fn hermitian<T: Number>(n: usize, seed: u64) -> Matrix<T> {
    let a = matrix::<T>(n, n, seed);
    let other = a.adjoint();
    let mut sum = a.clone();
    for j in 0..n {
        for i in 0..n {
            sum[(i, j)] = a[(i, j)] + other[(i, j)];
        }
    }
    sum
}

fn lu_reproduces<T: Number>(rows: usize, columns: usize, seed: u64) {
    let a = matrix::<T>(rows, columns, seed);
    let mut packed = a.clone();
    let (pivots, info) = lu::factor(&mut packed, true);
    assert_eq!(info, 0);
    let product = lower_part(&packed, true).multiply(&upper_part(&packed));
    let mut exchanged = a.clone();
    for (i, from) in lu::order(&pivots, rows).iter().enumerate() {
        for j in 0..columns {
            exchanged[(i, j)] = a[(usize::try_from(*from).unwrap(), j)];
        }
    }
    assert!(distance(&product, &exchanged) < TOLERANCE);
}

fn systems_are_solved<T: Number>(n: usize, seed: u64) {
    let (a, x) = (matrix::<T>(n, n, seed), matrix::<T>(n, 2, seed ^ 7));
    let mut packed = a.clone();
    let (pivots, _) = lu::factor(&mut packed, true);
    for adjoint in [false, true] {
        let of = if adjoint { a.adjoint() } else { a.clone() };
        let mut y = of.multiply(&x);
        lu::solve(&packed, &pivots, &mut y, adjoint);
        assert!(distance(&x, &y) < 1e-6);
        for upper in [false, true] {
            let part = if upper {
                upper_part(&a)
            } else {
                lower_part(&a, false)
            };
            let mut y = if adjoint { part.adjoint() } else { part }.multiply(&x);
            Rule {
                upper,
                unit: false,
                adjoint,
            }
            .solve(&a, &mut y);
            assert!(y.column(0).iter().all(|y| y.abs().is_finite()));
        }
    }
    for is_hermitian in [false, true] {
        let mut a = hermitian::<T>(n, seed);
        if !is_hermitian {
            for j in 0..n {
                for i in 0..j {
                    a[(i, j)] = a[(j, i)];
                }
            }
        }
        let mut y = a.multiply(&x);
        let (pivots, info) = ldl::factor(&mut a, is_hermitian);
        ldl::solve(&a, &pivots, &mut y, is_hermitian);
        assert!(info != 0 || distance(&x, &y) < 1e-6);
    }
}

fn qr_reproduces<T: Number>(rows: usize, columns: usize, seed: u64) {
    let a = matrix::<T>(rows, columns, seed);
    let mut packed = a.clone();
    let tau = qr::factor(&mut packed);
    let q = qr::product(&packed, &tau, rows);
    assert!(is_unitary(&q));
    let mut r = Matrix::zeros(rows, columns);
    let upper = upper_part(&packed);
    for j in 0..columns {
        r.column_mut(j)[..upper.rows()].copy_from_slice(upper.column(j));
    }
    assert!(distance(&q.multiply(&r), &a) < TOLERANCE);
}

fn svd_reproduces<T: Number>(rows: usize, columns: usize, seed: u64) {
    let a = matrix::<T>(rows, columns, seed);
    for full in [false, true] {
        let (u, s, vh) = svd::decompose(a.clone(), full);
        assert!(is_unitary(&u) && is_unitary(&vh.adjoint()));
        assert!(s.windows(2).all(|pair| pair[0] >= pair[1]));
        let first: Vec<usize> = (0..s.len()).collect();
        let v = vh.adjoint().select(&first);
        let back = scaled(&u.select(&first), &s).multiply(&v.adjoint());
        assert!(distance(&back, &a) < TOLERANCE);
    }
}

fn eigenvalues_hold<T: Number>(n: usize, seed: u64) {
    let a = hermitian::<T>(n, seed);
    let (values, vectors) = eigh::decompose(a.clone(), seed.is_multiple_of(2));
    assert!(is_unitary(&vectors));
    assert!(values.windows(2).all(|pair| pair[0] <= pair[1]));
    assert!(distance(&a.multiply(&vectors), &scaled(&vectors, &values)) < TOLERANCE);
    let mut positive = a.multiply(&a.adjoint());
    for i in 0..n {
        positive[(i, i)] = positive[(i, i)] + T::one();
    }
    let mut factor = positive.clone();
    assert_eq!(cholesky::factor(&mut factor, false), 0);
    assert!(distance(&factor.multiply(&factor.adjoint()), &positive) < TOLERANCE);
}

fn eigenvectors_hold<T: Number>(n: usize, seed: u64) {
    let a = matrix::<T>(n, n, seed);
    let (values, vectors) = eig::decompose(&a);
    let mut complex = Matrix::<Complex>::zeros(n, n);
    for j in 0..n {
        for i in 0..n {
            complex[(i, j)] = Complex::new(a[(i, j)].re(), a[(i, j)].im());
        }
    }
    let image = complex.multiply(&vectors);
    for (j, value) in values.iter().enumerate() {
        let gap: Vec<Complex> = image
            .column(j)
            .iter()
            .zip(vectors.column(j))
            .map(|(x, v)| *x - *v * *value)
            .collect();
        assert!(norm(&gap) < 1e-6, "{n} {seed}: {}", norm(&gap));
        assert!((norm(vectors.column(j)) - 1.0).abs() < TOLERANCE);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn factors_reproduce_the_matrix(rows in 1usize..9, columns in 1usize..9, seed: u64) {
        lu_reproduces::<f64>(rows, columns, seed);
        lu_reproduces::<Complex>(rows, columns, seed);
        qr_reproduces::<f64>(rows, columns, seed);
        qr_reproduces::<Complex>(rows, columns, seed);
        svd_reproduces::<f64>(rows, columns, seed);
        svd_reproduces::<Complex>(rows, columns, seed);
    }

    #[test]
    fn eigenvectors_are_eigenvectors(n in 1usize..12, seed: u64) {
        eigenvalues_hold::<f64>(n, seed);
        eigenvalues_hold::<Complex>(n, seed);
        eigenvectors_hold::<f64>(n, seed);
        eigenvectors_hold::<Complex>(n, seed);
    }

    #[test]
    fn solutions_solve(n in 1usize..8, seed: u64) {
        systems_are_solved::<f64>(n, seed);
        systems_are_solved::<Complex>(n, seed);
    }
}

#[test]
fn singular_matrices_are_named() {
    let ones = Matrix::<f64>::from_rows(3, 3, &[1.0; 9], |x| x);
    assert_eq!(lu::factor(&mut ones.clone(), true).1, 2);
    assert_eq!(cholesky::factor(&mut ones.clone(), true), 2);
    let (u, s, vh) = svd::decompose(ones, true);
    assert!(is_unitary(&u) && is_unitary(&vh));
    assert!((s[0] - 3.0).abs() < TOLERANCE && s[1] < TOLERANCE);
}

#[test]
fn a_rotation_has_conjugate_eigenvalues() {
    let turn = Matrix::<f64>::from_rows(2, 2, &[0.0, -1.0, 1.0, 0.0], |x| x);
    let (values, _) = eig::decompose(&turn);
    assert_eq!(values[0], values[1].conj());
    assert!((values[0].im().abs() - 1.0).abs() < TOLERANCE);
}

#[test]
fn what_is_not_finite_gives_nan() {
    let broken = Matrix::<f64>::from_rows(2, 2, &[f64::NAN, 1.0, 1.0, 0.0], |x| x);
    assert!(eigh::decompose(broken.clone(), false).0[0].is_nan());
    assert!(eig::decompose(&broken).0[0].re().is_nan());
}
