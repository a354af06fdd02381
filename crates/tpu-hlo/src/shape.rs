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
        let attrs = format!(
            " <{{start_indices = {}, limit_indices = {}, strides = {}}}>",
            array(start),
            array(limit),
            array(strides)
        );
        let ty = self.ty(x).with_dims(&dims);
        Ok(self.emit("stablehlo.slice", &[x], &attrs, ty))
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
        let mut operands = vec![x];
        operands.extend_from_slice(start);
        let attrs = format!(" <{{slice_sizes = {}}}>", array(sizes));
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
        let attrs = format!(
            " <{{edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}}}>",
            array(low),
            array(high),
            array(interior)
        );
        let ty = self.ty(x).with_dims(&dims);
        Ok(self.emit("stablehlo.pad", &[x, value], &attrs, ty))
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
        let attrs = format!(" <{{dimension = {dim} : i64}}>");
        Ok(self.emit("stablehlo.concatenate", xs, &attrs, ty))
    }

    /// `stablehlo.iota`: each element is its index along `dim`.
    pub fn iota(&mut self, dtype: DType, dims: &[i64], dim: i64) -> Value {
        let attrs = format!(" <{{iota_dimension = {dim} : i64}}>");
        self.emit("stablehlo.iota", &[], &attrs, Type::new(dtype, dims))
    }

    /// `stablehlo.reverse` along `axes`.
    pub fn reverse(&mut self, x: Value, axes: &[i64]) -> Value {
        let ty = self.ty(x).clone();
        let attrs = format!(" <{{dimensions = {}}}>", array(axes));
        self.emit("stablehlo.reverse", &[x], &attrs, ty)
    }
}
