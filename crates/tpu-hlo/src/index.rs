//! Gather and scatter.
use crate::{Builder, Dims, Error, Result, Type, Value, shape::array};
use smallvec::SmallVec;

/// Dimension numbers of [`Builder::gather`], named as in the specification.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub struct GatherDims {
    pub offset_dims: Dims,
    pub collapsed_slice_dims: Dims,
    pub operand_batching_dims: Dims,
    pub start_indices_batching_dims: Dims,
    pub start_index_map: Dims,
    pub index_vector_dim: i64,
}

/// Dimension numbers of [`Builder::scatter`], named as in the specification.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub struct ScatterDims {
    pub update_window_dims: Dims,
    pub inserted_window_dims: Dims,
    pub input_batching_dims: Dims,
    pub scatter_indices_batching_dims: Dims,
    pub scatter_dims_to_operand_dims: Dims,
    pub index_vector_dim: i64,
}

fn list(name: &str, xs: &[i64]) -> Option<String> {
    let items: Vec<String> = xs.iter().map(i64::to_string).collect();
    (!xs.is_empty()).then(|| format!("{name} = [{}]", items.join(", ")))
}

fn dimension_numbers(lists: [Option<String>; 5], index_vector_dim: i64) -> String {
    let mut parts: Vec<String> = lists.into_iter().flatten().collect();
    parts.push(format!("index_vector_dim = {index_vector_dim}"));
    parts.join(", ")
}

impl Builder {
    /// `stablehlo.gather`. Start indices are clamped by XLA: check bounds before (`check`).
    pub fn gather(
        &mut self,
        x: Value,
        indices: Value,
        dims: &GatherDims,
        slice_sizes: &[i64],
    ) -> Result<Value> {
        if slice_sizes.len() != self.rank(x) {
            return Err(self.misfit("stablehlo.gather", x, slice_sizes));
        }
        let from = self.dims(x);
        let part = |i: usize| slice_sizes[i] != from[i] && slice_sizes[i] != 1;
        if (0..from.len()).any(|i| self.is_growing(from[i]) && part(i)) {
            self.refuse_padding("`gather` of a part of a padded dimension");
        }
        self.expect_in_order(&from, &dims.start_index_map);
        let mut batch = self.dims(indices);
        if (dims.index_vector_dim as usize) < batch.len() {
            batch.remove(dims.index_vector_dim as usize);
        }
        let dropped = |i: &i64| {
            dims.collapsed_slice_dims.contains(i) || dims.operand_batching_dims.contains(i)
        };
        let mut window = (0..slice_sizes.len() as i64)
            .filter(|i| !dropped(i))
            .map(|i| slice_sizes[i as usize]);
        let rank = batch.len() + dims.offset_dims.len();
        let mut batch = batch.into_iter();
        let out: Option<Dims> = (0..rank as i64)
            .map(|i| {
                if dims.offset_dims.contains(&i) {
                    window.next()
                } else {
                    batch.next()
                }
            })
            .collect();
        let out = out.ok_or_else(|| self.misfit("stablehlo.gather", x, slice_sizes))?;
        let numbers = dimension_numbers(
            [
                list("offset_dims", &dims.offset_dims),
                list("collapsed_slice_dims", &dims.collapsed_slice_dims),
                list("operand_batching_dims", &dims.operand_batching_dims),
                list(
                    "start_indices_batching_dims",
                    &dims.start_indices_batching_dims,
                ),
                list("start_index_map", &dims.start_index_map),
            ],
            dims.index_vector_dim,
        );
        let attrs = format!(
            " <{{dimension_numbers = #stablehlo.gather<{numbers}>, \
             indices_are_sorted = false, slice_sizes = {}}}>",
            array(&self.capacities(slice_sizes))
        );
        let ty = self.ty(x).with_dims(&out);
        Ok(self.emit("stablehlo.gather", &[x, indices], &attrs, ty))
    }

    /// An index counts elements, and has to be their place.
    fn expect_in_order(&mut self, dims: &[i64], axes: &[i64]) {
        if !axes.iter().all(|a| self.is_in_order(dims[*a as usize])) {
            self.refuse_padding("an index into merged dimensions that are padded");
        }
    }

    /// Indices that behind a logical size are out of bounds, so that nothing is written there.
    fn nowhere_behind(&mut self, indices: Value, index_vector_dim: i64) -> Result<Value> {
        if !self.is_padded() {
            return Ok(indices);
        }
        let nowhere = self.highest(self.dtype(indices));
        let batch: Dims = (0..self.rank(indices) as i64)
            .filter(|i| *i != index_vector_dim)
            .collect();
        self.fill_behind(indices, &batch, nowhere)
    }

    /// `stablehlo.scatter` of `updates` into `x`; `body` gets the present and the new element.
    /// Updates out of bounds are dropped by XLA: check bounds before (`check`).
    pub fn scatter<E: From<Error>>(
        &mut self,
        x: Value,
        indices: Value,
        updates: Value,
        dims: &ScatterDims,
        unique_indices: bool,
        body: impl FnOnce(&mut Self, Value, Value) -> Result<Value, E>,
    ) -> Result<Value, E> {
        let ty = self.ty(x).clone();
        self.expect_in_order(&ty.dims, &dims.scatter_dims_to_operand_dims);
        let indices = self.nowhere_behind(indices, dims.index_vector_dim)?;
        // XLA's CPU compiler fuses what computes the updates into the scatter's loop, and there
        // gives wrong elements for some of it (arc tangents).
        let updates = self.optimization_barrier(updates);
        let scalar = Type::scalar(ty.dtype);
        let region = self.region(&[scalar.clone(), scalar], |b, v| {
            Ok::<SmallVec<[Value; 2]>, E>(smallvec::smallvec![body(b, v[0], v[1])?])
        })?;
        let numbers = dimension_numbers(
            [
                list("update_window_dims", &dims.update_window_dims),
                list("inserted_window_dims", &dims.inserted_window_dims),
                list("input_batching_dims", &dims.input_batching_dims),
                list(
                    "scatter_indices_batching_dims",
                    &dims.scatter_indices_batching_dims,
                ),
                list(
                    "scatter_dims_to_operand_dims",
                    &dims.scatter_dims_to_operand_dims,
                ),
            ],
            dims.index_vector_dim,
        );
        let attrs = format!(
            " <{{indices_are_sorted = false, scatter_dimension_numbers = \
             #stablehlo.scatter<{numbers}>, unique_indices = {unique_indices}}}> ({region})"
        );
        Ok(self.emit("stablehlo.scatter", &[x, indices, updates], &attrs, ty))
    }
}
