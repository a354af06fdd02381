//! Linear maps along one dimension that are known at lowering: for each element of the result the
//! elements of the input that it is made of.
use crate::Result;
use tpu_hlo::{Builder, DType, Dims, GatherDims, Value};

type B = Builder;

/// Beyond this many terms per element the terms are a dimension of their own instead of ops.
const UNROLLED: usize = 16;

/// Rows of `(input element, weight)`, one row per element of the result.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<(i64, f64)>>,
    input: i64,
}

impl Table {
    /// A table over a dimension of `input` elements.
    pub(crate) fn new(rows: Vec<Vec<(i64, f64)>>, input: i64) -> Self {
        Self { rows, input }
    }

    /// The transposed map, which is the gradient of this one.
    pub(crate) fn transposed(&self) -> Self {
        let mut rows = vec![Vec::new(); self.input as usize];
        for (o, row) in self.rows.iter().enumerate() {
            for &(i, weight) in row {
                rows[i as usize].push((o as i64, weight));
            }
        }
        Self {
            rows,
            input: self.rows.len() as i64,
        }
    }

    /// The map as a matrix.
    #[cfg(test)]
    pub(super) fn dense(&self) -> Vec<Vec<f64>> {
        let dense = |row: &Vec<(i64, f64)>| {
            let mut all = vec![0.0; self.input as usize];
            row.iter()
                .for_each(|(i, weight)| all[*i as usize] += weight);
            all
        };
        self.rows.iter().map(dense).collect()
    }

    fn width(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The input elements of the `k`-th term, and whether each row has one.
    fn term(&self, k: usize) -> (Vec<i64>, Vec<bool>) {
        let any = |row: &Vec<(i64, f64)>| row.get(k).or(row.last()).map_or(0, |t| t.0);
        let there = |row: &Vec<(i64, f64)>| k < row.len();
        (
            self.rows.iter().map(any).collect(),
            self.rows.iter().map(there).collect(),
        )
    }

    fn weights(&self, k: usize) -> Vec<f64> {
        self.rows
            .iter()
            .map(|row| row.get(k).map_or(0.0, |t| t.1))
            .collect()
    }

    /// The map along dimension `dim` of `x`, of a floating-point type.
    pub(crate) fn apply(&self, b: &mut B, x: Value, dim: i64) -> Result<Value> {
        let width = self.width();
        if width > UNROLLED {
            return self.apply_wide(b, x, dim);
        }
        let mut sum = None;
        for k in 0..width {
            let (elements, there) = self.term(k);
            let term = pick(b, x, dim, &elements)?;
            let term = weigh(b, term, &[dim], &self.weights(k), &there)?;
            sum = Some(match sum {
                Some(sum) => b.add(sum, term)?,
                None => term,
            });
        }
        let mut dims = b.dims(x);
        dims[dim as usize] = self.rows.len() as i64;
        Ok(sum.unwrap_or_else(|| b.full(0, b.dtype(x), &dims)))
    }

    fn apply_wide(&self, b: &mut B, x: Value, dim: i64) -> Result<Value> {
        let (rows, width) = (self.rows.len(), self.width());
        let (mut elements, mut there, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for row in &self.rows {
            for k in 0..width {
                elements.push(row.get(k).or(row.last()).map_or(0, |t| t.0));
                there.push(k < row.len());
                weights.push(row.get(k).map_or(0.0, |t| t.1));
            }
        }
        let terms = pick(b, x, dim, &elements)?;
        let terms = weigh(b, terms, &[dim], &weights, &there)?;
        let mut split = b.dims(terms);
        split[dim as usize] = rows as i64;
        split.insert(dim as usize + 1, width as i64);
        let terms = b.reshape(terms, &split)?;
        Ok(b.sum(terms, &[dim + 1])?)
    }
}

/// `x` times one weight per element of dimension `axes`; zero, whatever `x` holds, where no term
/// is there.
fn weigh(b: &mut B, x: Value, axes: &[i64], weights: &[f64], there: &[bool]) -> Result<Value> {
    let (dtype, dims) = (b.dtype(x), b.dims(x));
    let mut out = x;
    let trivial = weights
        .iter()
        .zip(there)
        .all(|(w, there)| *w == 1.0 || !there);
    if !trivial {
        let weights = b.constant_floats(weights, dtype);
        let weights = b.broadcast_in_dim(weights, &dims, axes)?;
        out = b.multiply(out, weights)?;
    }
    if there.contains(&false) {
        let there: Vec<i64> = there.iter().map(|t| i64::from(*t)).collect();
        let there = b.constant_ints(&there, DType::Bool);
        let there = b.broadcast_in_dim(there, &dims, axes)?;
        let zeros = b.full(0, dtype, &dims);
        out = b.select(there, out, zeros)?;
    }
    Ok(out)
}

/// Elements `elements` of dimension `dim`, in that order: a slice or repetition where they are
/// regular, else a gather.
pub(crate) fn pick(b: &mut B, x: Value, dim: i64, elements: &[i64]) -> Result<Value> {
    let dims = b.dims(x);
    let (from, to) = (dims[dim as usize], elements.len() as i64);
    if let Some(step) = progression(elements) {
        let (mut start, mut limit) = (zeros(dims.len()), dims.clone());
        let mut strides: Dims = dims.iter().map(|_| 1).collect();
        start[dim as usize] = elements[0];
        limit[dim as usize] = elements[elements.len() - 1] + 1;
        strides[dim as usize] = step;
        return Ok(b.slice(x, &start, &limit, &strides)?);
    }
    let times = if from > 0 && to % from == 0 {
        to / from
    } else {
        0
    };
    if times > 0
        && elements
            .iter()
            .enumerate()
            .all(|(o, i)| o as i64 / times == *i)
    {
        return repeat(b, x, dim, times);
    }
    gather(b, x, dim, elements)
}

fn zeros(n: usize) -> Dims {
    (0..n).map(|_| 0).collect()
}

/// The positive difference of neighbours, where it is the same everywhere.
fn progression(elements: &[i64]) -> Option<i64> {
    let step = match elements {
        [] => return None,
        [_] => 1,
        [first, second, ..] => second - first,
    };
    let even = elements.windows(2).all(|pair| pair[1] - pair[0] == step);
    (even && step > 0).then_some(step)
}

/// Every element of dimension `dim`, `times` times in a row.
fn repeat(b: &mut B, x: Value, dim: i64, times: i64) -> Result<Value> {
    let mut dims = b.dims(x);
    let kept: Dims = (0..=dims.len() as i64).filter(|i| *i != dim + 1).collect();
    let mut stretched = dims.clone();
    stretched.insert(dim as usize + 1, times);
    let x = b.broadcast_in_dim(x, &stretched, &kept)?;
    dims[dim as usize] *= times;
    Ok(b.reshape(x, &dims)?)
}

fn gather(b: &mut B, x: Value, dim: i64, elements: &[i64]) -> Result<Value> {
    let mut sizes = b.dims(x);
    let rank = sizes.len() as i64;
    sizes[dim as usize] = 1;
    let indices = b.constant_ints(elements, DType::I32);
    let numbers = GatherDims {
        offset_dims: (0..rank).filter(|i| *i != dim).collect(),
        collapsed_slice_dims: [dim].as_slice().into(),
        start_index_map: [dim].as_slice().into(),
        index_vector_dim: 1,
        ..GatherDims::default()
    };
    Ok(b.gather(x, indices, &numbers, &sizes)?)
}
