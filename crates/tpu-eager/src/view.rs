//! Views over immutable buffers: reading one, and writing through one.
//!
//! PyTorch keeps sizes, strides and offset; a buffer is the storage's elements in row-major order.
//! A [`View`] says how the elements of a tensor lie in the flat storage, and [`View::read`] and
//! [`View::write`] put that into the program that uses the tensor. There is one path for every
//! layout: slices whose start is a run-time number where the strides nest, and a gather or scatter
//! of computed positions where they do not.
use smallvec::SmallVec;
use tpu_hlo::{Builder, DType, Dims, GatherDims, Result, ScatterDims, Slot, Type, Value};

/// How the elements of a tensor lie in a flat storage.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct View {
    sizes: Dims,
    strides: Dims,
    kind: Kind,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kind {
    /// No elements.
    Empty,
    /// The storage seen as `cover` (row-major, with `pad` elements after its end), of which the
    /// block `take` is the tensor, up to a reshape, a permutation and stretching.
    Block {
        cover: Dims,
        take: Dims,
        strides: Dims,
        pad: i64,
    },
    /// Positions that do not nest.
    Scattered,
}

/// A dimension that moves through the storage.
#[derive(Clone, Copy, Debug)]
struct Axis {
    size: i64,
    stride: i64,
    dim: usize,
}

impl View {
    /// The view of `numel` storage elements with the given geometry; `offset` has to be inside.
    pub fn new(numel: i64, sizes: &[i64], strides: &[i64], offset: i64) -> Self {
        let kind = if sizes.contains(&0) {
            Kind::Empty
        } else {
            block(numel, sizes, strides, offset).unwrap_or(Kind::Scattered)
        };
        Self {
            sizes: sizes.into(),
            strides: strides.into(),
            kind,
        }
    }

    /// Whether the tensor is the whole storage, in any dense order.
    pub fn is_whole(&self) -> bool {
        match &self.kind {
            Kind::Block {
                cover, take, pad, ..
            } => cover == take && *pad == 0 && !self.stretches(),
            _ => false,
        }
    }

    /// Whether the program needs the offset as a run-time number.
    pub fn needs_offset(&self) -> bool {
        match &self.kind {
            Kind::Empty => false,
            Kind::Block { cover, take, .. } => cover != take,
            Kind::Scattered => true,
        }
    }

    /// What the program depends on besides sizes and strides: the shape of the covering block.
    pub fn discriminant(&self) -> u8 {
        match self.kind {
            Kind::Empty => 0,
            Kind::Block { .. } => 1,
            Kind::Scattered => 2,
        }
    }

    fn stretches(&self) -> bool {
        self.sizes
            .iter()
            .zip(&self.strides)
            .any(|(n, s)| *n > 1 && *s == 0)
    }

    /// The tensor's elements, in the shape of its sizes. `storage` has the storage's elements in
    /// row-major order and the tensor's dtype; `offset` is the slot of the offset.
    pub fn read(&self, b: &mut Builder, storage: Value, offset: u32) -> Result<Value> {
        match &self.kind {
            Kind::Empty => Ok(b.full(0, b.dtype(storage), &self.sizes)),
            Kind::Block {
                cover,
                take,
                strides,
                pad,
            } => {
                let x = flat(b, storage, *pad, cover)?;
                let x = if cover == take {
                    x
                } else {
                    let starts = starts(b, offset, cover, take, strides);
                    b.dynamic_slice(x, &starts, take)?
                };
                self.arrange(b, x)
            }
            Kind::Scattered => self.gather(b, storage, offset),
        }
    }

    /// The storage after `value` (of the view's shape) has been written through the view. For a
    /// whole view the old storage is not read, and the result has the tensor's dense order.
    pub fn write(
        &self,
        b: &mut Builder,
        storage: impl FnOnce(&mut Builder) -> Value,
        value: Value,
        offset: u32,
    ) -> Result<Value> {
        match &self.kind {
            Kind::Empty => Ok(storage(b)),
            Kind::Block { .. } if self.is_whole() => {
                let order: Dims = self.order().iter().map(|d| *d as i64).collect();
                b.transpose(value, &order)
            }
            Kind::Block {
                cover,
                take,
                strides,
                pad,
            } => {
                let old = storage(b);
                let dims = b.dims(old);
                let base = flat(b, old, *pad, cover)?;
                let order: Dims = self.order().iter().map(|d| *d as i64).collect();
                let value = b.transpose(value, &order)?;
                let value = b.reshape(value, take)?;
                let starts = starts(b, offset, cover, take, strides);
                let new = b.dynamic_update_slice(base, value, &starts)?;
                unflat(b, new, *pad, &dims)
            }
            Kind::Scattered => {
                let old = storage(b);
                self.scatter(b, old, value, offset)
            }
        }
    }

    /// Dimensions by falling stride: the order in which the elements lie in the storage. Those
    /// that do not move come where they stand.
    pub fn order(&self) -> SmallVec<[usize; 6]> {
        let mut order: SmallVec<[usize; 6]> = (0..self.sizes.len()).collect();
        // A dimension of size one may stand anywhere; its stride says nothing.
        let moving: SmallVec<[usize; 6]> = order
            .iter()
            .copied()
            .filter(|d| self.sizes[*d] != 1)
            .collect();
        let mut sorted = moving.clone();
        sorted.sort_by_key(|d| -self.strides[*d]);
        for (place, dim) in moving.iter().zip(sorted) {
            order[*place] = dim;
        }
        order
    }

    /// From the block, whose dimensions are merged and in storage order, to the view's shape.
    fn arrange(&self, b: &mut Builder, x: Value) -> Result<Value> {
        let order = self.order();
        let moving = |d: &usize| self.sizes[*d] == 1 || self.strides[*d] != 0;
        let kept: SmallVec<[usize; 6]> = order.iter().copied().filter(moving).collect();
        let sizes: Dims = kept.iter().map(|d| self.sizes[*d]).collect();
        let x = b.reshape(x, &sizes)?;
        let mut ranked = kept.clone();
        ranked.sort_unstable();
        let permutation: Dims = ranked
            .iter()
            .map(|d| kept.iter().position(|k| k == d).unwrap_or_default() as i64)
            .collect();
        let x = b.transpose(x, &permutation)?;
        if kept.len() == self.sizes.len() {
            return Ok(x);
        }
        let axes: Dims = ranked.iter().map(|d| *d as i64).collect();
        b.broadcast_in_dim(x, &self.sizes, &axes)
    }

    /// Storage position of each element, as a column.
    fn positions(&self, b: &mut Builder, numel: i64, offset: u32) -> Result<Value> {
        let dtype = index_dtype(numel);
        let mut dims = self.sizes.clone();
        dims.push(1);
        let start = b.param(Slot::Number(offset), Type::scalar(dtype));
        let mut sum = b.broadcast(start, &dims)?;
        for (d, stride) in self.strides.iter().enumerate() {
            if self.sizes[d] > 1 && *stride != 0 {
                let step = b.full(*stride, dtype, &dims);
                let at = b.iota(dtype, &dims, d as i64);
                let at = b.multiply(at, step)?;
                sum = b.add(sum, at)?;
            }
        }
        Ok(sum)
    }

    fn gather(&self, b: &mut Builder, storage: Value, offset: u32) -> Result<Value> {
        let numel = b.ty(storage).numel();
        let base = b.reshape(storage, &[numel])?;
        let at = self.positions(b, numel, offset)?;
        let dims = GatherDims {
            collapsed_slice_dims: smallvec::smallvec![0],
            start_index_map: smallvec::smallvec![0],
            index_vector_dim: self.sizes.len() as i64,
            ..GatherDims::default()
        };
        b.gather(base, at, &dims, &[1])
    }

    fn scatter(&self, b: &mut Builder, storage: Value, value: Value, offset: u32) -> Result<Value> {
        let dims = b.dims(storage);
        let numel = b.ty(storage).numel();
        let base = b.reshape(storage, &[numel])?;
        let at = self.positions(b, numel, offset)?;
        let numbers = ScatterDims {
            inserted_window_dims: smallvec::smallvec![0],
            scatter_dims_to_operand_dims: smallvec::smallvec![0],
            index_vector_dim: self.sizes.len() as i64,
            ..ScatterDims::default()
        };
        let new = b.scatter(base, at, value, &numbers, false, |_, _, new| {
            Ok::<_, tpu_hlo::Error>(new)
        })?;
        b.reshape(new, &dims)
    }
}

/// Moving dimensions by falling stride, neighbours that lie without a gap merged.
fn axes(sizes: &[i64], strides: &[i64]) -> SmallVec<[Axis; 6]> {
    let mut axes: SmallVec<[Axis; 6]> = (0..sizes.len())
        .map(|dim| Axis {
            size: sizes[dim],
            stride: strides[dim],
            dim,
        })
        .filter(|a| a.size > 1 && a.stride != 0)
        .collect();
    axes.sort_by_key(|a| (-a.stride, a.dim));
    let mut merged: SmallVec<[Axis; 6]> = SmallVec::new();
    for axis in axes {
        match merged.last_mut() {
            Some(last) if last.stride == axis.size * axis.stride => {
                last.size *= axis.size;
                last.stride = axis.stride;
            }
            _ => merged.push(axis),
        }
    }
    merged
}

/// The covering block, if strides nest and the tensor does not wrap around in it.
fn block(numel: i64, sizes: &[i64], strides: &[i64], offset: i64) -> Option<Kind> {
    let axes = axes(sizes, strides);
    let (mut cover, mut take, mut steps) = (Dims::new(), Dims::new(), Dims::new());
    let mut room = None;
    for axis in &axes {
        if room.is_some_and(|r: i64| r % axis.stride != 0) {
            return None;
        }
        let extent = match room {
            None => (numel + axis.stride - 1) / axis.stride,
            Some(r) => r / axis.stride,
        };
        let at = offset / axis.stride % extent.max(1);
        if at + axis.size > extent {
            return None;
        }
        cover.push(extent);
        take.push(axis.size);
        steps.push(axis.stride);
        room = Some(axis.stride);
    }
    match room {
        Some(1) => {}
        Some(rest) => {
            cover.push(rest);
            take.push(1);
            steps.push(1);
        }
        None => {
            cover.push(numel);
            take.push(1);
            steps.push(1);
        }
    }
    let pad = cover.iter().product::<i64>() - numel;
    Some(Kind::Block {
        cover,
        take,
        strides: steps,
        pad,
    })
}

/// 32-bit positions where they suffice: 64-bit ones are emulated on a TPU.
fn index_dtype(numel: i64) -> DType {
    if numel < i64::from(i32::MAX) {
        DType::I32
    } else {
        DType::I64
    }
}

fn flat(b: &mut Builder, x: Value, pad: i64, cover: &[i64]) -> Result<Value> {
    if pad == 0 {
        return b.reshape(x, cover);
    }
    let numel = b.ty(x).numel();
    let x = b.reshape(x, &[numel])?;
    let zero = b.scalar(0, b.dtype(x));
    let x = b.pad(x, zero, &[0], &[pad], &[0])?;
    b.reshape(x, cover)
}

fn unflat(b: &mut Builder, x: Value, pad: i64, dims: &[i64]) -> Result<Value> {
    if pad == 0 {
        return b.reshape(x, dims);
    }
    let numel = b.ty(x).numel();
    let x = b.reshape(x, &[numel])?;
    let x = b.slice_dim(x, 0, 0, numel - pad)?;
    b.reshape(x, dims)
}

/// Start of the block in each dimension of its cover, computed from the run-time offset.
fn starts(
    b: &mut Builder,
    offset: u32,
    cover: &[i64],
    take: &[i64],
    strides: &[i64],
) -> SmallVec<[Value; 6]> {
    let dtype = index_dtype(cover.iter().product());
    let zero = b.scalar(0, dtype);
    let offset = b.param(Slot::Number(offset), Type::scalar(dtype));
    (0..cover.len())
        .map(|i| {
            if cover[i] == take[i] {
                zero
            } else {
                coordinate(b, offset, strides[i], cover[i], i)
            }
        })
        .collect()
}

fn coordinate(b: &mut Builder, offset: Value, stride: i64, extent: i64, axis: usize) -> Value {
    let dtype = b.dtype(offset);
    let mut at = offset;
    if stride > 1 {
        let by = b.scalar(stride, dtype);
        at = b.divide(at, by).unwrap_or(at);
    }
    // The outermost coordinate cannot exceed its extent.
    if axis > 0 {
        let by = b.scalar(extent, dtype);
        at = b.remainder(at, by).unwrap_or(at);
    }
    at
}

/// The elements of `x` (any shape) reinterpreted as `dtype`, bytes kept: a one-dimensional value.
pub fn reinterpret(b: &mut Builder, x: Value, dtype: DType) -> Result<Value> {
    let n = b.ty(x).numel();
    let x = b.reshape(x, &[n])?;
    let from = b.dtype(x);
    if from == dtype {
        return Ok(x);
    }
    match (from, dtype) {
        (DType::Bool, _) => {
            let x = b.convert(x, DType::U8);
            reinterpret(b, x, dtype)
        }
        (_, DType::Bool) => {
            let x = reinterpret(b, x, DType::U8)?;
            Ok(b.convert(x, DType::Bool))
        }
        (from, _) if from.is_complex() => {
            let parts = [b.real(x), b.imag(x)];
            let parts = [b.reshape(parts[0], &[n, 1])?, b.reshape(parts[1], &[n, 1])?];
            let x = b.concatenate(&parts, 1)?;
            reinterpret(b, x, dtype)
        }
        (_, to) if to.is_complex() => {
            let x = reinterpret(b, x, to.real())?;
            let half = b.ty(x).numel() / 2;
            let x = b.reshape(x, &[half, 2])?;
            let re = b.slice_dim(x, 1, 0, 1)?;
            let im = b.slice_dim(x, 1, 1, 2)?;
            let x = b.complex(re, im)?;
            b.reshape(x, &[half])
        }
        (from, to) => resize(b, x, n, from, to),
    }
}

fn resize(b: &mut Builder, x: Value, n: i64, from: DType, to: DType) -> Result<Value> {
    let (wide, narrow) = (to.size() as i64, from.size() as i64);
    if wide == narrow {
        return Ok(b.bitcast_convert(x, to));
    }
    let x = if wide > narrow {
        let ratio = wide / narrow;
        // A storage may end in the middle of a wider element: the rest is out of reach.
        let whole = n / ratio;
        let x = b.slice_dim(x, 0, 0, whole * ratio)?;
        b.reshape(x, &[whole, ratio])?
    } else {
        x
    };
    let x = b.bitcast_resize(x, to)?;
    let n = b.ty(x).numel();
    b.reshape(x, &[n])
}
