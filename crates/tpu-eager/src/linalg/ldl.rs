//! Bunch and Kaufman's factorisation of symmetric and hermitian matrices, packed as LAPACK's
//! `sytf2` and `hetf2` leave the lower triangle.
use super::matrix::Matrix;
use super::number::Number;

/// `(1 + sqrt(17)) / 8`, which bounds the growth of elements.
const ALPHA: f64 = 0.640_388_203_202_208_4;

/// The mirrored element: conjugate in a hermitian matrix.
fn mirror<T: Number>(x: T, hermitian: bool) -> T {
    if hermitian { x.conj() } else { x }
}

/// Overwrites `a`, of which the lower triangle is read, with its factors. Returns the exchanges
/// (from 1, negative for both rows of a block of two) and the first zero block, or 0.
pub(super) fn factor<T: Number>(a: &mut Matrix<T>, hermitian: bool) -> (Vec<i32>, i32) {
    let n = a.columns();
    let (mut pivots, mut info, mut k) = (vec![0; n], 0, 0);
    while k < n {
        let Some((p, two)) = choose(a, k) else {
            info = if info == 0 { count(k) } else { info };
            pivots[k] = count(k);
            k += 1;
            continue;
        };
        let size = 1 + usize::from(two);
        exchange(a, k, k + size - 1, p, hermitian);
        if two {
            eliminate_two(a, k, hermitian);
            pivots[k] = -count(p);
            pivots[k + 1] = -count(p);
        } else {
            eliminate_one(a, k, hermitian);
            pivots[k] = count(p);
        }
        k += size;
    }
    for j in 0..n {
        a.column_mut(j)[..j].fill(T::zero());
    }
    (pivots, info)
}

/// `index` counted from 1.
fn count(index: usize) -> i32 {
    i32::try_from(index + 1).unwrap_or(i32::MAX)
}

/// The row to exchange with, and whether the block has two rows; `None` for a zero column.
fn choose<T: Number>(a: &Matrix<T>, k: usize) -> Option<(usize, bool)> {
    let n = a.columns();
    let diagonal = a[(k, k)].abs1();
    let most = |range: std::ops::Range<usize>, at: &dyn Fn(usize) -> f64| {
        range.fold(
            (k, 0.0),
            |best, i| if at(i) > best.1 { (i, at(i)) } else { best },
        )
    };
    let (row, below) = most(k + 1..n, &|i| a[(i, k)].abs1());
    if diagonal.max(below) == 0.0 || diagonal.is_nan() {
        return None;
    }
    if diagonal >= ALPHA * below {
        return Some((k, false));
    }
    let beside = most(k..row, &|j| a[(row, j)].abs1()).1;
    let beside = beside.max(most(row + 1..n, &|i| a[(i, row)].abs1()).1);
    if diagonal >= ALPHA * below * (below / beside) {
        return Some((k, false));
    }
    Some((row, a[(row, row)].abs1() < ALPHA * beside))
}

/// Exchanges rows and columns `from` and `to` of what remains from `k` on.
fn exchange<T: Number>(a: &mut Matrix<T>, k: usize, from: usize, to: usize, hermitian: bool) {
    if from == to {
        return;
    }
    for i in to + 1..a.rows() {
        (a[(i, from)], a[(i, to)]) = (a[(i, to)], a[(i, from)]);
    }
    for j in from + 1..to {
        let (x, y) = (a[(j, from)], a[(to, j)]);
        a[(j, from)] = mirror(y, hermitian);
        a[(to, j)] = mirror(x, hermitian);
    }
    a[(to, from)] = mirror(a[(to, from)], hermitian);
    (a[(from, from)], a[(to, to)]) = (a[(to, to)], a[(from, from)]);
    if from > k {
        (a[(from, k)], a[(to, k)]) = (a[(to, k)], a[(from, k)]);
    }
}

/// Takes the column of a block of one row out of what remains.
fn eliminate_one<T: Number>(a: &mut Matrix<T>, k: usize, hermitian: bool) {
    let pivot = if hermitian {
        T::new(a[(k, k)].re(), 0.0)
    } else {
        a[(k, k)]
    };
    a[(k, k)] = pivot;
    for j in k + 1..a.columns() {
        let factor = mirror(a[(j, k)] / pivot, hermitian);
        for i in j..a.rows() {
            a[(i, j)] = a[(i, j)] - a[(i, k)] * factor;
        }
    }
    for i in k + 1..a.rows() {
        a[(i, k)] = a[(i, k)] / pivot;
    }
}

/// The block of two rows at `k`: its diagonal, the element below it, and its determinant.
fn block<T: Number>(a: &Matrix<T>, k: usize, hermitian: bool) -> (T, T, T, T) {
    let (first, below, second) = (a[(k, k)], a[(k + 1, k)], a[(k + 1, k + 1)]);
    (
        first,
        below,
        second,
        first * second - below * mirror(below, hermitian),
    )
}

/// Takes the columns of a block of two rows out of what remains.
fn eliminate_two<T: Number>(a: &mut Matrix<T>, k: usize, hermitian: bool) {
    let (first, below, second, det) = block(a, k, hermitian);
    for j in k + 2..a.columns() {
        let (x, y) = (a[(j, k)], a[(j, k + 1)]);
        let left = (second * x - below * y) / det;
        let right = (first * y - mirror(below, hermitian) * x) / det;
        let (by_left, by_right) = (mirror(left, hermitian), mirror(right, hermitian));
        for i in j..a.rows() {
            a[(i, j)] = a[(i, j)] - a[(i, k)] * by_left - a[(i, k + 1)] * by_right;
        }
        a[(j, k)] = left;
        a[(j, k + 1)] = right;
    }
}

/// Overwrites `x` with the solution for the matrix with factors `a`.
pub(super) fn solve<T: Number>(a: &Matrix<T>, pivots: &[i32], x: &mut Matrix<T>, hermitian: bool) {
    let row = |k: usize| usize::try_from(pivots[k].unsigned_abs()).map_or(k, |p| p - 1);
    let n = a.columns();
    let mut k = 0;
    while k < n {
        let last = if pivots[k] > 0 || k + 1 == n {
            k
        } else {
            k + 1
        };
        x.swap_rows(last, row(k).min(n - 1));
        for j in 0..x.columns() {
            let x = x.column_mut(j);
            for c in k..=last {
                let share = x[c];
                for i in last + 1..n {
                    x[i] = x[i] - a[(i, c)] * share;
                }
            }
            divide(a, k, last, x, hermitian);
        }
        k = last + 1;
    }
    while k > 0 {
        let last = k - 1;
        let first = if pivots[last] > 0 || last == 0 {
            last
        } else {
            last - 1
        };
        for j in 0..x.columns() {
            let x = x.column_mut(j);
            for c in first..=last {
                let below = (last + 1..n).map(|i| mirror(a[(i, c)], hermitian) * x[i]);
                x[c] = x[c] - below.fold(T::zero(), |sum, y| sum + y);
            }
        }
        x.swap_rows(last, row(last).min(n - 1));
        k = first;
    }
}

/// Divides by the diagonal block of the rows from `k` to `last`.
fn divide<T: Number>(a: &Matrix<T>, k: usize, last: usize, x: &mut [T], hermitian: bool) {
    if k == last {
        x[k] = x[k] / a[(k, k)];
        return;
    }
    let (first, below, second, det) = block(a, k, hermitian);
    let (u, v) = (x[k], x[last]);
    x[k] = (second * u - mirror(below, hermitian) * v) / det;
    x[last] = (first * v - below * u) / det;
}
