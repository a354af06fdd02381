//! A dense matrix, and the loops over its columns.
use super::number::Number;
use std::ops::{Index, IndexMut};

/// A matrix stored by columns.
#[derive(Clone, Debug)]
pub(super) struct Matrix<T> {
    rows: usize,
    columns: usize,
    data: Vec<T>,
}

impl<T: Number> Matrix<T> {
    /// All zeros.
    pub(super) fn zeros(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            data: vec![T::zero(); rows * columns],
        }
    }

    /// Ones on the diagonal.
    pub(super) fn identity(rows: usize, columns: usize) -> Self {
        let mut a = Self::zeros(rows, columns);
        for i in 0..rows.min(columns) {
            a[(i, i)] = T::one();
        }
        a
    }

    /// One column.
    pub(super) fn column_of(data: Vec<T>) -> Self {
        Self {
            rows: data.len(),
            columns: 1,
            data,
        }
    }

    /// From elements stored by rows.
    pub(super) fn from_rows<E: Copy>(
        rows: usize,
        columns: usize,
        elements: &[E],
        number: impl Fn(E) -> T,
    ) -> Self {
        let at = |k: usize| number(elements[(k % rows) * columns + k / rows]);
        let data = (0..rows * columns).map(at).collect();
        Self {
            rows,
            columns,
            data,
        }
    }

    /// To elements stored by rows.
    pub(super) fn to_rows<E>(&self, elements: &mut [E], element: impl Fn(T) -> E) {
        for (k, to) in elements.iter_mut().enumerate() {
            *to = element(self[(k / self.columns, k % self.columns)]);
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn column(&self, j: usize) -> &[T] {
        &self.data[j * self.rows..(j + 1) * self.rows]
    }

    pub(super) fn column_mut(&mut self, j: usize) -> &mut [T] {
        &mut self.data[j * self.rows..(j + 1) * self.rows]
    }

    /// Two different columns, the first to read.
    pub(super) fn two_columns(&mut self, from: usize, to: usize) -> (&[T], &mut [T]) {
        let (low, high) = (from.min(to), from.max(to));
        let (head, rest) = self.data.split_at_mut(high * self.rows);
        let first = &mut head[low * self.rows..(low + 1) * self.rows];
        let second = &mut rest[..self.rows];
        if from < to {
            (first, second)
        } else {
            (second, first)
        }
    }

    /// Two different columns to write.
    pub(super) fn columns_mut(&mut self, p: usize, q: usize) -> (&mut [T], &mut [T]) {
        debug_assert!(p < q, "columns come in order");
        let (head, rest) = self.data.split_at_mut(q * self.rows);
        (
            &mut head[p * self.rows..(p + 1) * self.rows],
            &mut rest[..self.rows],
        )
    }

    /// The conjugate transpose.
    pub(super) fn adjoint(&self) -> Self {
        let mut to = Self::zeros(self.columns, self.rows);
        for j in 0..self.columns {
            for (i, x) in self.column(j).iter().enumerate() {
                to[(j, i)] = x.conj();
            }
        }
        to
    }

    /// `self @ other`
    pub(super) fn multiply(&self, other: &Self) -> Self {
        let mut to = Self::zeros(self.rows, other.columns);
        for j in 0..other.columns {
            for (k, f) in other.column(j).iter().enumerate() {
                add_multiple(to.column_mut(j), *f, self.column(k));
            }
        }
        to
    }

    /// Exchanges two rows.
    pub(super) fn swap_rows(&mut self, p: usize, q: usize) {
        if p != q {
            for j in 0..self.columns {
                self.data.swap(j * self.rows + p, j * self.rows + q);
            }
        }
    }

    /// The largest magnitude of an element.
    pub(super) fn largest(&self) -> f64 {
        self.data.iter().fold(0.0, |most, x| x.abs().max(most))
    }

    /// Applies a function to every element.
    pub(super) fn map(&mut self, f: impl Fn(T) -> T) {
        self.data.iter_mut().for_each(|x| *x = f(*x));
    }

    /// The given columns, in their order.
    pub(super) fn select(&self, order: &[usize]) -> Self {
        let data = order
            .iter()
            .flat_map(|j| self.column(*j).iter().copied())
            .collect();
        Self {
            rows: self.rows,
            columns: order.len(),
            data,
        }
    }
}

impl<T> Index<(usize, usize)> for Matrix<T> {
    type Output = T;
    fn index(&self, (i, j): (usize, usize)) -> &T {
        &self.data[j * self.rows + i]
    }
}
impl<T> IndexMut<(usize, usize)> for Matrix<T> {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut T {
        &mut self.data[j * self.rows + i]
    }
}

/// `to += factor * from`
pub(super) fn add_multiple<T: Number>(to: &mut [T], factor: T, from: &[T]) {
    for (y, x) in to.iter_mut().zip(from) {
        *y = *y + factor * *x;
    }
}

/// `sum(conj(x) * y)`
pub(super) fn dot<T: Number>(x: &[T], y: &[T]) -> T {
    x.iter()
        .zip(y)
        .fold(T::zero(), |sum, (x, y)| sum + x.conj() * *y)
}

/// The Euclidean norm, without overflow on the way.
pub(super) fn norm<T: Number>(x: &[T]) -> f64 {
    let most = x.iter().fold(0.0, |most: f64, x| x.abs().max(most));
    if most == 0.0 || !most.is_finite() {
        return x.iter().map(|x| x.norm2()).sum::<f64>().sqrt();
    }
    let sum: f64 = x.iter().map(|x| x.scale(1.0 / most).norm2()).sum();
    most * sum.sqrt()
}
