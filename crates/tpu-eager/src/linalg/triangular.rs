//! Triangular systems.
use super::matrix::{Matrix, add_multiple, dot};
use super::number::Number;

/// Which system a triangular matrix stands for.
pub(super) struct Rule {
    /// The upper triangle is read, else the lower.
    pub(super) upper: bool,
    /// The diagonal counts as ones.
    pub(super) unit: bool,
    /// The system is that of the adjoint.
    pub(super) adjoint: bool,
}

impl Rule {
    /// Overwrites the right-hand sides `x` with the solutions.
    pub(super) fn solve<T: Number>(&self, a: &Matrix<T>, x: &mut Matrix<T>) {
        for j in 0..x.columns() {
            let x = x.column_mut(j);
            if self.adjoint {
                self.backwards(a, x)
            } else {
                self.forwards(a, x)
            }
        }
    }

    /// `a @ x = b`: each solved element is taken out of those that remain.
    fn forwards<T: Number>(&self, a: &Matrix<T>, x: &mut [T]) {
        let n = x.len();
        for step in 0..n {
            let k = if self.upper { n - 1 - step } else { step };
            if !self.unit {
                x[k] = x[k] / a[(k, k)];
            }
            let (before, rest) = x.split_at_mut(k);
            let (at, after) = rest.split_at_mut(1);
            let column = a.column(k);
            if self.upper {
                add_multiple(before, -at[0], &column[..k]);
            } else {
                add_multiple(after, -at[0], &column[k + 1..]);
            }
        }
    }

    /// `a^H @ x = b`: each element is what the solved ones leave.
    fn backwards<T: Number>(&self, a: &Matrix<T>, x: &mut [T]) {
        let n = x.len();
        for step in 0..n {
            let k = if self.upper { step } else { n - 1 - step };
            let column = a.column(k);
            let sum = if self.upper {
                dot(&column[..k], &x[..k])
            } else {
                dot(&column[k + 1..], &x[k + 1..])
            };
            x[k] = x[k] - sum;
            if !self.unit {
                x[k] = x[k] / column[k].conj();
            }
        }
    }
}
