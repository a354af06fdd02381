//! Ops that move elements without computing.
use crate::{Builder, DType, Dims, Result, Type, Value};

/// `array<i64: 1, 2>`, StableHLO's notation for integer lists.
pub(crate) fn array(xs: &[i64]) -> String {
    if xs.is_empty() {
        return "array<i64>".into();
    }
    let list: Vec<String> = xs.iter().map(i64::to_string).collect();
    format!("array<i64: {}>", list.join(", "))
}

impl Builder {
    /// `stablehlo.reshape`; the same value when the shape already fits.
    pub fn reshape(&mut self, x: Value, dims: &[i64]) -> Result<Value> {
        let ty = self.ty(x).with_dims(dims);
        if *self.ty(x) == ty {
            return Ok(x);
        }
        if self.is_padded() {
            return self.reshape_padded(x, dims);
        }
        if ty.numel() != self.ty(x).numel() {
            return Err(self.misfit("stablehlo.reshape", x, dims));
        }
        Ok(self.emit("stablehlo.reshape", &[x], "", ty))
    }

    /// `stablehlo.transpose`: result dimension `i` is operand dimension `permutation[i]`.
    pub fn transpose(&mut self, x: Value, permutation: &[i64]) -> Result<Value> {
        let dims = self.dims(x);
        if permutation.iter().enumerate().all(|(i, p)| i as i64 == *p) {
            return Ok(x);
        }
        if permutation.len() != dims.len() {
            return Err(self.misfit("stablehlo.transpose", x, permutation));
        }
        let to: Dims = permutation.iter().map(|&p| dims[p as usize]).collect();
        let attrs = format!(" <{{permutation = {}}}>", array(permutation));
        let ty = self.ty(x).with_dims(&to);
        let v = self.emit("stablehlo.transpose", &[x], &attrs, ty);
        self.set_transposed(v, x, permutation);
        Ok(v)
    }

    /// `stablehlo.broadcast_in_dim`: operand dimension `i` becomes result dimension `axes[i]`.
    pub fn broadcast_in_dim(&mut self, x: Value, dims: &[i64], axes: &[i64]) -> Result<Value> {
        let from = self.dims(x);
        let fits = axes.len() == from.len()
            && from.iter().zip(axes).all(|(d, a)| {
                dims.get(*a as usize).is_some_and(|to| *d == 1 || d == to) // (C5)
            });
        if !fits {
            return Err(self.misfit("stablehlo.broadcast_in_dim", x, dims));
        }
        let ty = self.ty(x).with_dims(dims);
        let attrs = format!(" <{{broadcast_dimensions = {}}}>", array(axes));
        Ok(self.emit("stablehlo.broadcast_in_dim", &[x], &attrs, ty))
    }

    /// Broadcasts by PyTorch's rules: trailing dimensions are aligned, ones stretch.
    pub fn broadcast(&mut self, x: Value, dims: &[i64]) -> Result<Value> {
        if self.ty(x).dims.as_slice() == dims {
            return Ok(x);
        }
        let Some(shift) = dims.len().checked_sub(self.rank(x)) else {
            return Err(self.misfit("stablehlo.broadcast_in_dim", x, dims));
        };
        let axes: Dims = (shift as i64..dims.len() as i64).collect();
        self.broadcast_in_dim(x, dims, &axes)
    }

    /// `stablehlo.slice` with `strides`.
    pub fn slice(
        &mut self,
        x: Value,
        start: &[i64],
        limit: &[i64],
        strides: &[i64],
    ) -> Result<Value> {
        let from = self.dims(x);
        let part = |i: &usize| (start[*i], limit[*i]) != (0, from[*i]) || strides[*i] != 1;
        let open = |i: &usize| {
            [start[*i], limit[*i], from[*i]]
                .iter()
                .any(|n| self.depends(*n))
        };
        if self.is_padded()
            && start.len() == from.len()
            && let Some(i) = (0..from.len()).find(|i| part(i) && open(i))
        {
            return self.slice_around(x, i, (start, limit, strides));
        }
        let fits = start.len() == from.len()
            && (0..from.len()).all(|i| {
                0 <= start[i] && start[i] <= limit[i] && limit[i] <= from[i] && strides[i] > 0
            });
        if !fits {
            return Err(self.misfit("stablehlo.slice", x, limit));
        }
        let dims: Dims = (0..from.len())
            .map(|i| (limit[i] - start[i] + strides[i] - 1) / strides[i])
            .collect();
        if dims == from {
            return Ok(x);
        }
        let (from, limit) = (self.capacities(&from), self.capacities(limit));
        debug_assert!(limit.iter().zip(&from).all(|(l, n)| l <= n));
        let attrs = format!(
            " <{{start_indices = {}, limit_indices = {}, strides = {}}}>",
            array(start),
            array(&limit),
            array(strides)
        );
        let ty = self.ty(x).with_dims(&dims);
        Ok(self.emit("stablehlo.slice", &[x], &attrs, ty))
    }

    /// A slice that takes a part of dimension `dim`, which is padded, and then of the others.
    fn slice_around(
        &mut self,
        x: Value,
        dim: usize,
        (start, limit, strides): (&[i64], &[i64], &[i64]),
    ) -> Result<Value> {
        let x = self.slice_padded(x, dim, (start[dim], limit[dim], strides[dim]))?;
        let (mut start, mut limit, mut strides): (Dims, Dims, Dims) =
            (start.into(), limit.into(), strides.into());
        (start[dim], limit[dim], strides[dim]) = (0, self.dims(x)[dim], 1);
        self.slice(x, &start, &limit, &strides)
    }

    /// Elements `start..limit` of dimension `dim`.
    pub fn slice_dim(&mut self, x: Value, dim: i64, start: i64, limit: i64) -> Result<Value> {
        let to = self.dims(x);
        let (mut lo, mut hi): (Dims, Dims) = (to.iter().map(|_| 0).collect(), to.clone());
        (lo[dim as usize], hi[dim as usize]) = (start, limit);
        let ones: Dims = to.iter().map(|_| 1).collect();
        self.slice(x, &lo, &hi, &ones)
    }

    /// `stablehlo.dynamic_slice`: `start` is one integer scalar per dimension, clamped so that the
    /// slice stays inside.
    pub fn dynamic_slice(&mut self, x: Value, start: &[Value], sizes: &[i64]) -> Result<Value> {
        let from = self.dims(x);
        if start.len() != from.len() || from.iter().zip(sizes).any(|(d, s)| s > d) {
            return Err(self.misfit("stablehlo.dynamic_slice", x, sizes));
        }
        if from
            .iter()
            .zip(sizes)
            .any(|(d, s)| d != s && self.is_growing(*d))
        {
            self.refuse_padding("a slice at a run-time position of a padded dimension");
        }
        let mut operands = vec![x];
        operands.extend_from_slice(start);
        let attrs = format!(" <{{slice_sizes = {}}}>", array(&self.capacities(sizes)));
        let ty = self.ty(x).with_dims(sizes);
        Ok(self.emit("stablehlo.dynamic_slice", &operands, &attrs, ty))
    }

    /// `stablehlo.dynamic_update_slice`: `x` with `update` written at `start`.
    pub fn dynamic_update_slice(
        &mut self,
        x: Value,
        update: Value,
        start: &[Value],
    ) -> Result<Value> {
        let (to, part) = (self.dims(x), self.dims(update));
        if start.len() != to.len() || part.len() != to.len() {
            return Err(self.misfit("stablehlo.dynamic_update_slice", x, &part));
        }
        let grows = |(d, s): (&i64, &i64)| d != s && (self.is_growing(*d) || self.is_growing(*s));
        if to.iter().zip(&part).any(grows) {
            self.refuse_padding("a write at a run-time position of a padded dimension");
        }
        let mut operands = vec![x, update];
        operands.extend_from_slice(start);
        let ty = self.ty(x).clone();
        Ok(self.emit("stablehlo.dynamic_update_slice", &operands, "", ty))
    }

    /// `stablehlo.pad` with `value` (a scalar of `x`'s dtype); negative `low` and `high` crop.
    pub fn pad(
        &mut self,
        x: Value,
        value: Value,
        low: &[i64],
        high: &[i64],
        interior: &[i64],
    ) -> Result<Value> {
        let from = self.dims(x);
        if low.len() != from.len() || self.dtype(value) != self.dtype(x) || self.rank(value) != 0 {
            return Err(self.misfit("stablehlo.pad", x, low));
        }
        let dims: Dims = (0..from.len())
            .map(|i| from[i] + low[i] + high[i] + (from[i] - 1).max(0) * interior[i])
            .collect();
        if dims == from && low.iter().all(|l| *l == 0) {
            return Ok(x);
        }
        let moved = |i: &usize| low[*i] != 0 || dims[*i] != from[*i];
        let grows = |i: &usize| moved(i) && (self.depends(from[*i]) || self.depends(dims[*i]));
        if let Some(i) = self
            .is_padded()
            .then(|| (0..from.len()).find(grows))
            .flatten()
        {
            return self.pad_around(x, value, i, (low, high, interior));
        }
        let attrs = format!(
            " <{{edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}}}>",
            array(low),
            array(high),
            array(interior)
        );
        let ty = self.ty(x).with_dims(&dims);
        Ok(self.emit("stablehlo.pad", &[x, value], &attrs, ty))
    }

    /// Padding of dimension `dim`, which is padded already or becomes so, and then of the others.
    fn pad_around(
        &mut self,
        x: Value,
        value: Value,
        dim: usize,
        (low, high, interior): (&[i64], &[i64], &[i64]),
    ) -> Result<Value> {
        if interior[dim] != 0 {
            return Err(self.misfit("stablehlo.pad", x, interior));
        }
        let x = self.pad_padded(x, value, dim, (low[dim], high[dim]))?;
        let (mut low, mut high): (Dims, Dims) = (low.into(), high.into());
        (low[dim], high[dim]) = (0, 0);
        self.pad(x, value, &low, &high, interior)
    }

    /// `stablehlo.concatenate` along `dim`; operands agree in all other dimensions (C2).
    pub fn concatenate(&mut self, xs: &[Value], dim: i64) -> Result<Value> {
        if let [x] = xs {
            return Ok(*x);
        }
        let mut ty = self.ty(xs[0]).clone();
        for x in &xs[1..] {
            let next = self.dims(*x);
            let alike = next.len() == ty.rank()
                && self.dtype(*x) == ty.dtype
                && (0..next.len()).all(|i| i as i64 == dim || next[i] == ty.dims[i]);
            if !alike {
                return Err(self.misfit("stablehlo.concatenate", *x, &ty.dims));
            }
            ty.dims[dim as usize] += next[dim as usize];
        }
        if xs
            .iter()
            .any(|x| self.is_growing(self.dims(*x)[dim as usize]))
        {
            return self.concatenate_padded(xs, dim as usize, &ty);
        }
        let attrs = format!(" <{{dimension = {dim} : i64}}>");
        Ok(self.emit("stablehlo.concatenate", xs, &attrs, ty))
    }

    /// `stablehlo.iota`: each element is its index along `dim`.
    pub fn iota(&mut self, dtype: DType, dims: &[i64], dim: i64) -> Value {
        if !self.is_in_order(dims[dim as usize]) {
            self.refuse_padding("positions in merged dimensions that are padded");
        }
        let attrs = format!(" <{{iota_dimension = {dim} : i64}}>");
        self.emit("stablehlo.iota", &[], &attrs, Type::new(dtype, dims))
    }

    /// `stablehlo.reverse` along `axes`.
    pub fn reverse(&mut self, x: Value, axes: &[i64]) -> Value {
        let ty = self.ty(x).clone();
        if axes.iter().any(|d| self.is_growing(ty.dims[*d as usize])) {
            self.refuse_padding("`reverse` of a padded dimension");
        }
        let attrs = format!(" <{{dimensions = {}}}>", array(axes));
        self.emit("stablehlo.reverse", &[x], &attrs, ty)
    }
}
