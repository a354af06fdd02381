//! Histograms.
use crate::{
    Op, OutDtype, Outs, Result, Scalar, check,
    error::ensure,
    factory::spaced,
    op::op,
    promote::cast,
    reduce::{Fold, MAX, MIN},
    scatter::add_slices,
    sort::{Side, count_before},
};
use tpu_hlo::{Builder, DType, Dims, Direction, Number, Value};

type B = Builder;

const OUT_DTYPE: OutDtype = OutDtype::Exact(
    "torch.histogram: input tensor and hist tensor should have the same dtype, but got input \
     {result++} and hist {out++}",
);

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_histogramdd_bin_edges",        edges_by_count),
    op!("_histogramdd_from_bin_cts",     by_counts),
    op!("_histogramdd_from_bin_tensors", by_edges),
    op!("histc",                         histc).guarded(histc_range).out(OUT_DTYPE),
    op!("histogram.bin_ct",              by_count).out(OUT_DTYPE),
    op!("histogram.bins_tensor",         by_edge).out(OUT_DTYPE),
];

/// How far a range of no width is opened on each side.
const HISTC_OPENS: f64 = 1.0;
const HISTOGRAM_OPENS: f64 = 0.5;

fn histc_range(numbers: &[Number]) -> Result<()> {
    let [min, max] = numbers else { return Ok(()) };
    let (min, max) = (min.to_f64(), max.to_f64());
    ensure!(
        min.is_finite() && max.is_finite(),
        "torch.histc: range of [{min}, {max}] is not finite"
    );
    ensure!(min <= max, "torch.histc: max must be larger than min");
    Ok(())
}

/// Counts of the elements in `bins` equal parts of `min..=max`, or of the data's range when the
/// two are equal.
fn histc(b: &mut B, x: Value, bins: i64, min: Scalar, max: Scalar) -> Result<Value> {
    let dtype = b.dtype(x);
    let wide = match dtype {
        DType::F64 => DType::F64,
        t if t.is_float() || b.settings.tpu => DType::F32,
        _ => DType::F64,
    };
    let (n, x) = (b.ty(x).numel(), cast(b, x, wide));
    let x = b.reshape(x, &[n])?;
    let (mut low, mut high) = (cast(b, min.0, wide), cast(b, max.0, wide));
    if n > 0 {
        let same = b.compare(low, Direction::EQ, high)?;
        let fold = Fold::new(b, x, None, false)?;
        let (least, most) = (fold.extreme(b, x, &MIN)?, fold.extreme(b, x, &MAX)?);
        (low, high) = (b.select(same, least, low)?, b.select(same, most, high)?);
    }
    let ends = opened(b, (low, high), HISTC_OPENS, "torch.histc")?;
    let edges = spread(b, ends, bins, 0)?;
    let (bin, inside) = bin_of_each(b, x, edges)?;
    let ones = b.convert(inside, DType::I64);
    let none = b.full(0, DType::I64, &[bins]);
    let counts = add_slices(b, none, 0, bin, ones)?;
    Ok(cast(b, counts, dtype))
}

/// A finite range that has a width.
fn opened(b: &mut B, (low, high): (Value, Value), by: f64, op: &str) -> Result<(Value, Value)> {
    let (first, last) = (b.is_finite(low), b.is_finite(high));
    let finite = b.and(first, last)?;
    let infinite = b.not(finite);
    let message = format!("RuntimeError: {op}: range of the data is not finite");
    check::nowhere(b, infinite, message)?;
    let (by, same) = (b.full_like(low, by), b.compare(low, Direction::EQ, high)?);
    let (down, up) = (b.subtract(low, by)?, b.add(high, by)?);
    Ok((b.select(same, down, low)?, b.select(same, up, high)?))
}

fn spread(b: &mut B, ends: (Value, Value), bins: i64, dim: usize) -> Result<Value> {
    ensure!(
        bins > 0,
        "torch.histogram(): bins must be > 0, but got {bins} for dimension {dim}"
    );
    spaced(b, ends, bins + 1)
}

/// The bin of each element, 0 outside of all, and whether it is inside; the last bin is closed.
fn bin_of_each(b: &mut B, x: Value, edges: Value) -> Result<(Value, Value)> {
    let (dims, bins) = (b.dims(x), b.ty(edges).numel() - 1);
    let found = count_before(b, edges, x, Side::Right)?;
    let (one, last) = (b.full_like(found, 1), b.full_like(found, bins - 1));
    let bin = b.subtract(found, one)?;
    let bin = b.minimum(bin, last)?;
    let (low, high) = (
        b.slice_dim(edges, 0, 0, 1)?,
        b.slice_dim(edges, 0, bins, bins + 1)?,
    );
    let (low, high) = (b.reshape(low, &[])?, b.reshape(high, &[])?);
    let (low, high) = (b.broadcast(low, &dims)?, b.broadcast(high, &dims)?);
    let (above, below) = (
        b.compare(x, Direction::GE, low)?,
        b.compare(x, Direction::LE, high)?,
    );
    let inside = b.and(above, below)?;
    let zero = b.full_like(bin, 0);
    Ok((b.select(inside, bin, zero)?, inside))
}

/// The rows of `[.., D]` as `D` columns.
fn columns(b: &mut B, x: Value) -> Result<Vec<Value>> {
    let dims = b.dims(x);
    ensure!(
        dims.len() >= 2,
        "torch.histogramdd: input tensor should have at least 2 dimensions"
    );
    let d = dims[dims.len() - 1];
    let n = b.ty(x).numel() / d.max(1);
    let x = b.reshape(x, &[n, d])?;
    let column = |i| {
        let column = b.slice_dim(x, 1, i, i + 1)?;
        Ok(b.reshape(column, &[n])?)
    };
    (0..d).map(column).collect()
}

/// Ends of every column: those given, or those of the data; 0 and 1 of nothing.
fn ends(b: &mut B, columns: &[Value], range: Option<&[f64]>) -> Result<Vec<(Value, Value)>> {
    let mut all = Vec::with_capacity(columns.len());
    if let Some(range) = range {
        ensure!(
            range.len() == 2 * columns.len(),
            "torch.histogramdd: for a {}-dimensional histogram range should have {} elements, but \
             got {}",
            columns.len(),
            2 * columns.len(),
            range.len()
        );
    }
    for (i, &x) in columns.iter().enumerate() {
        let dtype = b.dtype(x);
        let ends = match range {
            Some(range) => {
                let (low, high) = (range[2 * i], range[2 * i + 1]);
                ensure!(
                    low <= high,
                    "torch.histogramdd: min should not exceed max, but got min {low} max {high} \
                     for dimension {i}"
                );
                (b.scalar(low, dtype), b.scalar(high, dtype))
            }
            None if b.ty(x).numel() == 0 => (b.scalar(0, dtype), b.scalar(1, dtype)),
            None => {
                let fold = Fold::new(b, x, None, false)?;
                (fold.extreme(b, x, &MIN)?, fold.extreme(b, x, &MAX)?)
            }
        };
        all.push(opened(b, ends, HISTOGRAM_OPENS, "torch.histogramdd")?);
    }
    Ok(all)
}

fn edges_of(
    b: &mut B,
    columns: &[Value],
    bins: &[i64],
    range: Option<&[f64]>,
) -> Result<Vec<Value>> {
    ensure!(
        bins.len() == columns.len(),
        "histogramdd: The size of bins must be equal to the innermost dimension of the input."
    );
    let ends = ends(b, columns, range)?;
    let each = ends.into_iter().zip(bins).enumerate();
    each.map(|(i, (ends, bins))| spread(b, ends, *bins, i))
        .collect()
}

/// How much of `weight`, one each without, is in every cell that `edges` make.
fn fill(
    b: &mut B,
    columns: &[Value],
    edges: &[Value],
    weight: Option<Value>,
    density: bool,
) -> Result<Value> {
    let (n, dtype) = (b.ty(columns[0]).numel(), b.dtype(columns[0]));
    let shape: Dims = edges.iter().map(|e| b.ty(*e).numel() - 1).collect();
    let mut cell = b.full(0, DType::I32, &[n]);
    let mut inside = b.full(true, DType::Bool, &[n]);
    for ((x, edges), bins) in columns.iter().zip(edges).zip(&shape) {
        let (bin, here) = bin_of_each(b, *x, *edges)?;
        let (bin, bins) = (b.convert(bin, DType::I32), b.full_like(cell, *bins));
        let row = b.multiply(cell, bins)?;
        cell = b.add(row, bin)?;
        inside = b.and(inside, here)?;
    }
    let mut share = b.convert(inside, dtype);
    if let Some(weight) = weight {
        let weight = b.reshape(weight, &[n])?;
        let weight = cast(b, weight, dtype);
        let zero = b.full_like(weight, 0);
        share = b.select(inside, weight, zero)?;
    }
    let none = b.full(0, dtype, &[shape.iter().product()]);
    let sums = add_slices(b, none, 0, cell, share)?;
    let sums = b.reshape(sums, &shape)?;
    if density {
        per_volume(b, sums, edges)
    } else {
        Ok(sums)
    }
}

/// Shares of the whole divided by the size of each cell.
fn per_volume(b: &mut B, sums: Value, edges: &[Value]) -> Result<Value> {
    let dims = b.dims(sums);
    let all = Fold::new(b, sums, None, false)?.sum(b, sums)?;
    let all = b.broadcast(all, &dims)?;
    let mut y = b.divide(sums, all)?;
    for (i, &e) in edges.iter().enumerate() {
        let n = dims[i];
        let (low, high) = (b.slice_dim(e, 0, 0, n)?, b.slice_dim(e, 0, 1, n + 1)?);
        let width = b.subtract(high, low)?;
        let width = b.broadcast_in_dim(width, &dims, &[i as i64])?;
        y = b.divide(y, width)?;
    }
    Ok(y)
}

fn edges_by_count(
    b: &mut B,
    x: Value,
    bins: Dims,
    range: Option<Vec<f64>>,
    _weight: Option<Value>,
    _density: bool,
) -> Result<Outs> {
    let columns = columns(b, x)?;
    Ok(edges_of(b, &columns, &bins, range.as_deref())?.into())
}

fn by_counts(
    b: &mut B,
    x: Value,
    bins: Dims,
    range: Option<Vec<f64>>,
    weight: Option<Value>,
    density: bool,
) -> Result<Value> {
    let columns = columns(b, x)?;
    let edges = edges_of(b, &columns, &bins, range.as_deref())?;
    fill(b, &columns, &edges, weight, density)
}

fn by_edges(
    b: &mut B,
    x: Value,
    edges: Vec<Value>,
    weight: Option<Value>,
    density: bool,
) -> Result<Value> {
    let columns = columns(b, x)?;
    ensure!(
        edges.len() == columns.len(),
        "torch.histogramdd: expected {} sequences of bin edges for a {}-dimensional histogram but \
         got {}",
        columns.len(),
        columns.len(),
        edges.len()
    );
    fill(b, &columns, &edges, weight, density)
}

fn by_count(
    b: &mut B,
    x: Value,
    bins: i64,
    range: Option<Vec<f64>>,
    weight: Option<Value>,
    density: bool,
) -> Result<(Value, Value)> {
    let x = b.reshape(x, &[b.ty(x).numel()])?;
    let edges = edges_of(b, &[x], &[bins], range.as_deref())?;
    Ok((fill(b, &[x], &edges, weight, density)?, edges[0]))
}

fn by_edge(
    b: &mut B,
    x: Value,
    edges: Value,
    weight: Option<Value>,
    density: bool,
) -> Result<(Value, Value)> {
    ensure!(
        b.rank(edges) == 1,
        "torch.histogramdd: bins tensor should have one dimension, but got {} dimensions in the \
         bins tensor for dimension 0",
        b.rank(edges)
    );
    let x = b.reshape(x, &[b.ty(x).numel()])?;
    Ok((fill(b, &[x], &[edges], weight, density)?, edges))
}

#[cfg(test)]
mod tests;
