//! Products of groups of rows, as mixtures of experts need them. The groups' sizes are data: the
//! rows are worked off in tiles that do not cross a group's border, one after the other, so that
//! the work is that of the rows there are, not rows times groups.
use super::{batches, dims, product};
use crate::{Result, error::ensure, promote};
use tpu_hlo::{Builder, DType, Direction, Value};

type B = Builder;

/// Where the tiles lie, each a vector with one element per tile.
struct Tiles {
    /// Rows per tile.
    size: i64,
    group: Value,
    /// First row.
    start: Value,
    /// How many of the tile's rows belong to the group.
    rows: Value,
    /// How many tiles there are: a scalar, at most the vectors' length.
    count: Value,
}

/// Rows of a tile: about as many as a group has, which keeps the waste at half.
fn tile_size(rows: i64, groups: i64) -> i64 {
    let even = (rows + groups - 1) / groups.max(1);
    (even.max(1) as u64).next_power_of_two().clamp(8, 128) as i64
}

impl Tiles {
    /// `ends` (`[groups]`) holds the end of each group among `rows` rows.
    fn new(b: &mut B, ends: Value, rows: i64) -> Result<Self> {
        let groups = b.dims(ends)[0];
        let size = tile_size(rows, groups);
        let most = rows / size + groups;
        let ends = b.convert(ends, DType::I32);
        let starts = previous(b, ends)?;
        let lengths = b.subtract(ends, starts)?;
        let up = b.full_like(lengths, size - 1);
        let padded = b.add(lengths, up)?;
        let by = b.full_like(lengths, size);
        let counts = b.divide(padded, by)?;
        let tile_ends = running_sum(b, counts)?;
        let tile_starts = previous(b, tile_ends)?;
        let both = [most, groups];
        let index = b.iota(DType::I32, &both, 0);
        let along = |b: &mut B, v| b.broadcast_in_dim(v, &both, &[1]);
        let (first, end) = (along(b, tile_starts)?, along(b, tile_ends)?);
        let after = b.compare(index, Direction::GE, first)?;
        let before = b.compare(index, Direction::LT, end)?;
        let mine = b.and(after, before)?;
        let (starts, ends) = (along(b, starts)?, along(b, ends)?);
        let number = b.subtract(index, first)?;
        let by = b.full_like(number, size);
        let offset = b.multiply(number, by)?;
        let start = b.add(starts, offset)?;
        let rows = b.subtract(ends, start)?;
        let group = b.iota(DType::I32, &both, 1);
        let all = b.slice_dim(tile_ends, 0, groups - 1, groups)?;
        Ok(Self {
            size,
            group: only(b, mine, group)?,
            start: only(b, mine, start)?,
            rows: only(b, mine, rows)?,
            count: b.reshape(all, &[])?,
        })
    }

    /// Runs `body` for every tile with `state`, the tile's group, first row and number of rows.
    fn each(
        &self,
        b: &mut B,
        state: Value,
        body: impl FnOnce(&mut B, Value, [Value; 3]) -> Result<Value>,
    ) -> Result<Value> {
        let zero = b.scalar(0, DType::I32);
        let ended = |b: &mut B, v: &[Value]| Ok(b.compare(v[0], Direction::LT, self.count)?);
        let step = |b: &mut B, v: &[Value]| {
            let at = |b: &mut B, x| -> Result<Value> {
                let one = b.dynamic_slice(x, &[v[0]], &[1])?;
                Ok(b.reshape(one, &[])?)
            };
            let tile = [at(b, self.group)?, at(b, self.start)?, at(b, self.rows)?];
            let next = body(b, v[1], tile)?;
            let one = b.scalar(1, DType::I32);
            Ok::<_, crate::Error>(smallvec::smallvec![b.add(v[0], one)?, next])
        };
        Ok(b.while_loop(&[zero, state], ended, step)?[1])
    }

    /// Which rows of a tile belong to the group, along dimension `axis` of `dims`.
    fn mask(&self, b: &mut B, rows: Value, dims: &[i64], axis: i64) -> Result<Value> {
        let index = b.iota(DType::I32, dims, axis);
        let rows = b.broadcast(rows, dims)?;
        Ok(b.compare(index, Direction::LT, rows)?)
    }
}

/// Each element's predecessor, 0 for the first.
fn previous(b: &mut B, x: Value) -> Result<Value> {
    let zero = b.scalar(0, b.dtype(x));
    Ok(b.pad(x, zero, &[1], &[-1], &[0])?)
}

/// Sums of all elements up to each.
fn running_sum(b: &mut B, x: Value) -> Result<Value> {
    let n = b.dims(x)[0];
    let (row, column) = (
        b.iota(DType::I32, &[n, n], 0),
        b.iota(DType::I32, &[n, n], 1),
    );
    let upto = b.compare(column, Direction::LE, row)?;
    let terms = b.broadcast_in_dim(x, &[n, n], &[1])?;
    only(b, upto, terms)
}

/// Sums of the elements of each row that are `chosen`.
fn only(b: &mut B, chosen: Value, x: Value) -> Result<Value> {
    let zeros = b.full_like(x, 0);
    let x = b.select(chosen, x, zeros)?;
    Ok(b.sum(x, &[1])?)
}

/// `x` with `extra` more rows of zeros along `axis`: the last tile may reach beyond the end.
fn extended(b: &mut B, x: Value, axis: usize, extra: i64) -> Result<Value> {
    let zero = b.scalar(0, b.dtype(x));
    let none = vec![0; b.rank(x)];
    let mut high = none.clone();
    high[axis] = extra;
    Ok(b.pad(x, zero, &none, &high, &none)?)
}

/// `x[rows of group g] @ y[g]`: `[M, K]` and `[G, K, N]` give `[M, N]`; rows of no group are zero.
fn rows_by_matrices(b: &mut B, x: Value, y: Value, ends: Value) -> Result<Value> {
    let (from, by) = (b.dims(x), b.dims(y));
    let (m, k, n) = (from[0], from[1], by[2]);
    let tiles = Tiles::new(b, ends, m)?;
    let x = extended(b, x, 0, tiles.size)?;
    let wide = promote::opmath(b.dtype(x));
    let out = b.full(0, wide, &[m + tiles.size, n]);
    let out = tiles.each(b, out, |b, out, [group, start, rows]| {
        let zero = b.scalar(0, DType::I32);
        let part = b.dynamic_slice(x, &[start, zero], &[tiles.size, k])?;
        let matrix = b.dynamic_slice(y, &[group, zero, zero], &[1, k, n])?;
        let matrix = b.reshape(matrix, &[k, n])?;
        let new = product(b, part, matrix, &dims(&[], &[(1, 0)]))?;
        let old = b.dynamic_slice(out, &[start, zero], &[tiles.size, n])?;
        let mine = tiles.mask(b, rows, &[tiles.size, n], 0)?;
        let new = b.select(mine, new, old)?;
        Ok(b.dynamic_update_slice(out, new, &[start, zero])?)
    })?;
    Ok(b.slice_dim(out, 0, 0, m)?)
}

/// `x[:, group g] @ y[group g]`: `[M, K]` and `[K, N]` give `[G, M, N]`.
fn contracted_by_group(b: &mut B, x: Value, y: Value, ends: Value) -> Result<Value> {
    let (from, by) = (b.dims(x), b.dims(y));
    let (m, k, n) = (from[0], from[1], by[1]);
    let groups = b.dims(ends)[0];
    let tiles = Tiles::new(b, ends, k)?;
    let size = tiles.size;
    let x = extended(b, x, 1, size)?;
    let y = extended(b, y, 0, size)?;
    let wide = promote::opmath(b.dtype(x));
    let out = b.full(0, wide, &[groups, m, n]);
    tiles.each(b, out, |b, out, [group, start, rows]| {
        let zero = b.scalar(0, DType::I32);
        let left = b.dynamic_slice(x, &[zero, start], &[m, size])?;
        let right = b.dynamic_slice(y, &[start, zero], &[size, n])?;
        let left = keep(b, &tiles, rows, left, 1)?;
        let right = keep(b, &tiles, rows, right, 0)?;
        let new = product(b, left, right, &dims(&[], &[(1, 0)]))?;
        let new = b.reshape(new, &[1, m, n])?;
        let old = b.dynamic_slice(out, &[group, zero, zero], &[1, m, n])?;
        let sum = b.add(old, new)?;
        Ok(b.dynamic_update_slice(out, sum, &[group, zero, zero])?)
    })
}

/// `x` with zeros where the tile's rows belong to the next group.
fn keep(b: &mut B, tiles: &Tiles, rows: Value, x: Value, axis: i64) -> Result<Value> {
    let mine = tiles.mask(b, rows, &b.dims(x), axis)?;
    let zeros = b.full_like(x, 0);
    Ok(b.select(mine, x, zeros)?)
}

/// `self @ mat2` for groups of rows, of columns or of the contracted dimension, whichever both
/// sides leave to `offs`, the ends of the groups. Elements of no group are zero.
pub(super) fn grouped_mm(
    b: &mut B,
    x: Value,
    mat2: Value,
    offs: Option<Value>,
    bias: Option<Value>,
    out_dtype: Option<DType>,
) -> Result<Value> {
    let (from, by) = (b.dims(x), b.dims(mat2));
    let dtype = b.dtype(x);
    ensure!(
        from.len() == 2 || from.len() == 3,
        "mat_a has to be 2 or 3d"
    );
    ensure!(by.len() == 2 || by.len() == 3, "mat_b has to be 2 or 3d");
    ensure!(
        dtype == b.dtype(mat2),
        "mat_a and mat_b must have the same dtype"
    );
    ensure!(bias.is_none(), "Bias not supported yet");
    ensure!(
        from[from.len() - 1] == by[by.len() - 2],
        "contraction dimension of mat_a and mat_b must match"
    );
    let both_batched = from.len() == 3 && by.len() == 3;
    let Some(offs) = offs.filter(|_| !both_batched) else {
        ensure!(
            both_batched && offs.is_none(),
            "Have to provide offsets if there is a 2d matrix, and no offset if both are 3d"
        );
        let out = batches(b, x, mat2)?;
        return Ok(b.convert(out, out_dtype.unwrap_or(dtype)));
    };
    ensure!(b.rank(offs) == 1, "offs has to be 1D");
    ensure!(b.dtype(offs) == DType::I32, "Offsets have to be int32");
    let groups = b.dims(offs)[0];
    for batched in [&from, &by].into_iter().filter(|d| d.len() == 3) {
        ensure!(batched[0] == groups, "matrix batch sizes have to match");
    }
    let out = match (from.len(), by.len()) {
        (2, 3) => rows_by_matrices(b, x, mat2, offs)?,
        (2, _) => contracted_by_group(b, x, mat2, offs)?,
        _ => {
            // The groups are columns: those of the transposed product are rows.
            let rows = b.transpose(mat2, &[1, 0])?;
            let matrices = b.transpose(x, &[0, 2, 1])?;
            let out = rows_by_matrices(b, rows, matrices, offs)?;
            b.transpose(out, &[1, 0])?
        }
    };
    Ok(b.convert(out, out_dtype.unwrap_or(dtype)))
}
