//! LU factorisation with row exchanges.
use super::matrix::{Matrix, add_multiple};
use super::number::Number;
use super::triangular::Rule;

/// Overwrites `a` with its packed factors. Returns the row that each row was exchanged with,
/// counted from 1, and the first zero pivot, counted from 1, or 0.
pub(super) fn factor<T: Number>(a: &mut Matrix<T>, pivot: bool) -> (Vec<i32>, i32) {
    let steps = a.rows().min(a.columns());
    let (mut pivots, mut info) = (Vec::with_capacity(steps), 0);
    for j in 0..a.columns() {
        for k in 0..j.min(a.rows()) {
            let (from, to) = a.two_columns(k, j);
            let factor = to[k];
            add_multiple(&mut to[k + 1..], -factor, &from[k + 1..]);
        }
        if j >= steps {
            continue;
        }
        let p = if pivot {
            largest_from(a.column(j), j)
        } else {
            j
        };
        pivots.push(count(p));
        let best = a[(p, j)];
        if best == T::zero() {
            info = if info == 0 { count(j) } else { info };
            continue;
        }
        a.swap_rows(j, p);
        for x in &mut a.column_mut(j)[j + 1..] {
            *x = *x / best;
        }
    }
    (pivots, info)
}

/// `index` counted from 1.
fn count(index: usize) -> i32 {
    i32::try_from(index + 1).unwrap_or(i32::MAX)
}

/// The place of the largest element from `start` on.
fn largest_from<T: Number>(column: &[T], start: usize) -> usize {
    let mut best = start;
    for i in start + 1..column.len() {
        if column[i].abs1() > column[best].abs1() {
            best = i;
        }
    }
    best
}

/// The rows to exchange, from 0, as far as they exist.
fn exchanges(pivots: &[i32], rows: usize) -> impl DoubleEndedIterator<Item = (usize, usize)> {
    let pair = move |(i, p): (usize, &i32)| {
        let p = usize::try_from(*p - 1).unwrap_or(i);
        (i, if p < rows { p } else { i })
    };
    pivots.iter().enumerate().map(pair)
}

/// Overwrites `x` with the solution for the matrix whose packed factors are `a`, or its adjoint.
pub(super) fn solve<T: Number>(a: &Matrix<T>, pivots: &[i32], x: &mut Matrix<T>, adjoint: bool) {
    let lower = Rule {
        upper: false,
        unit: true,
        adjoint,
    };
    let upper = Rule {
        upper: true,
        unit: false,
        adjoint,
    };
    if adjoint {
        upper.solve(a, x);
        lower.solve(a, x);
        for (i, p) in exchanges(pivots, x.rows()).rev() {
            x.swap_rows(i, p);
        }
        return;
    }
    for (i, p) in exchanges(pivots, x.rows()) {
        x.swap_rows(i, p);
    }
    lower.solve(a, x);
    upper.solve(a, x);
}

/// Where each of `rows` rows came from after all exchanges.
pub(super) fn order(pivots: &[i32], rows: usize) -> Vec<i32> {
    let mut order: Vec<i32> = (0..rows)
        .map(|i| i32::try_from(i).unwrap_or(i32::MAX))
        .collect();
    for (i, p) in exchanges(pivots, rows) {
        order.swap(i, p);
    }
    order
}
