//! Rules for padded dimensions: what each op does with elements behind a logical size.
//!
//! Such elements are garbage, NaN among it, so that they are chosen away and never multiplied away.
use crate::{
    Builder, DType, Dims, Direction, Error, Factor, Factors, Linear, Result, Type, Value,
    padding::Atom, shape::array,
};

/// What [`Builder::slice`] takes of a padded dimension.
enum Part {
    /// All of it, or a beginning whose size is known.
    Front(i64),
    /// From a known position to an end that only a launch knows.
    Tail { start: i64, dim: i64 },
    /// A known number of elements from a position that only a launch knows.
    Moving { start: Linear, size: i64 },
}

fn padded(op: &'static str, why: &'static str) -> Error {
    Error::Padded { op, why }
}

impl Builder {
    /// Whether each element of a value of shape `dims` lies before the logical size in all of
    /// `axes`; `None` where none of these is padded.
    ///
    /// # Errors
    /// [`Error::Padded`] for a dimension that is not clear.
    pub fn logical(&mut self, dims: &[i64], axes: &[i64]) -> Result<Option<Value>> {
        let mut all: Option<Value> = None;
        for &axis in axes {
            let n = dims[axis as usize];
            if !self.is_growing(n) {
                continue;
            }
            let list = self.factors(n);
            let list = list.ok_or_else(|| padded("a mask", "a size is not clear"))?;
            let within = self.within(n, &list)?;
            let within = self.broadcast_in_dim(within, dims, &[axis])?;
            all = Some(match all {
                Some(before) => self.and(before, within)?,
                None => within,
            });
        }
        Ok(all)
    }

    /// For each index along a dimension of these factors whether it lies within the logical size.
    fn within(&mut self, n: i64, list: &Factors) -> Result<Value> {
        let (at, mut step) = (self.places(n), 1);
        let mut all: Option<Value> = None;
        for (place, factor) in list.iter().enumerate().rev() {
            let room = self.capacity_of(*factor);
            if let Factor::Atom(atom) = factor {
                let i = self.coordinate(at, step, (place > 0).then_some(room))?;
                let size = self.atom_value(*atom, DType::I32);
                let size = self.broadcast(size, &[n])?;
                let here = self.compare(i, Direction::LT, size)?;
                all = Some(match all {
                    Some(before) => self.and(before, here)?,
                    None => here,
                });
            }
            step *= room;
        }
        all.ok_or_else(|| padded("a mask", "nothing is padded"))
    }

    /// The index of each place along a dimension, padding included.
    fn places(&mut self, n: i64) -> Value {
        let ty = Type::new(DType::I32, &[n]);
        self.emit("stablehlo.iota", &[], " <{iota_dimension = 0 : i64}>", ty)
    }

    /// `at / step % extent`
    fn coordinate(&mut self, at: Value, step: i64, extent: Option<i64>) -> Result<Value> {
        let mut i = at;
        if step > 1 {
            let by = self.full_like(at, step);
            i = self.divide(i, by)?;
        }
        if let Some(extent) = extent {
            let by = self.full_like(at, extent);
            i = self.remainder(i, by)?;
        }
        Ok(i)
    }

    /// `x` with `fill`, a scalar, behind the logical sizes of `axes`.
    ///
    /// # Errors
    /// As [`Builder::logical`].
    pub fn fill_behind(&mut self, x: Value, axes: &[i64], fill: Value) -> Result<Value> {
        if !self.is_padded() {
            return Ok(x);
        }
        let dims = self.dims(x);
        let Some(logical) = self.logical(&dims, axes)? else {
            return Ok(x);
        };
        let fill = self.broadcast(fill, &dims)?;
        self.select(logical, x, fill)
    }

    /// As [`Builder::fill_behind`], with zeros.
    pub(crate) fn zero_behind(&mut self, x: Value, axes: &[i64]) -> Result<Value> {
        if !self.is_padded() {
            return Ok(x);
        }
        let zero = self.scalar(0, self.dtype(x));
        self.fill_behind(x, axes, zero)
    }

    /// `x` seen with other dimensions that lie alike in memory.
    pub(crate) fn retyped(&mut self, x: Value, dims: &[i64]) -> Value {
        let ty = self.ty(x).with_dims(dims);
        self.emit("stablehlo.reshape", &[x], "", ty)
    }

    /// `x` whose padded dimensions are taken for full: what is behind the logical size is garbage
    /// that the caller has to keep apart.
    pub fn as_full(&mut self, x: Value) -> Value {
        let dims = self.capacities(&self.dims(x));
        self.retyped(x, &dims)
    }

    /// `x` with the dimensions `dims`, of which it has the capacities: [`Builder::as_full`] undone,
    /// and how a buffer that is padded comes in.
    ///
    /// # Errors
    /// [`Error::Padded`] where it has others.
    pub fn as_padded(&mut self, x: Value, dims: &[i64]) -> Result<Value> {
        let want: i64 = self.capacities(dims).iter().product();
        if self.capacities(&self.dims(x)).iter().product::<i64>() != want {
            return Err(padded("stablehlo.reshape", "a buffer has another capacity"));
        }
        Ok(self.retyped(x, dims))
    }

    /// The dimensions of `x` cut and merged to `dims`, as far as no element moves.
    pub(crate) fn reshape_padded(&mut self, x: Value, dims: &[i64]) -> Result<Value> {
        let refuse = || padded("stablehlo.reshape", "it takes a padded dimension apart");
        if dims.contains(&0) || self.dims(x).contains(&0) {
            return Err(padded("stablehlo.reshape", "it has no elements"));
        }
        let mut left = Factors::new();
        for n in self.dims(x) {
            left.extend(self.factors(n).ok_or_else(refuse)?);
        }
        left.reverse();
        let mut to = Dims::new();
        for n in dims {
            let want = self.factors(*n).ok_or_else(refuse)?;
            let list = taken(&mut left, want).ok_or_else(refuse)?;
            to.push(self.dimension(&list));
        }
        if left.iter().any(|f| *f != Factor::Known(1)) {
            return Err(refuse());
        }
        Ok(if to == self.dims(x) {
            x
        } else {
            self.retyped(x, &to)
        })
    }

    /// What a slice takes of the dimension `n`.
    fn taken_of(&self, n: i64, start: i64, limit: i64, stride: i64) -> Result<Part> {
        let refuse = || padded("stablehlo.slice", "a step, or bounds that are not clear");
        let (from, to) = (self.linear(start), self.linear(limit));
        let (from, to) = (from.ok_or_else(refuse)?, to.ok_or_else(refuse)?);
        if start == 0 && limit == n && stride == 1 {
            return Ok(Part::Front(n));
        }
        match (from.terms.is_empty(), to.terms.is_empty()) {
            (true, true) => Ok(Part::Front((limit - start + stride - 1) / stride)),
            _ if stride != 1 => Err(refuse()),
            (true, false) => Ok(Part::Tail {
                start,
                dim: limit - start,
            }),
            (false, false) if from.terms == to.terms => Ok(Part::Moving {
                size: to.constant - from.constant,
                start: from,
            }),
            _ => Err(refuse()),
        }
    }

    /// [`Builder::slice`] of dimension `dim`, which is padded.
    pub(crate) fn slice_padded(
        &mut self,
        x: Value,
        dim: usize,
        (start, limit, stride): (i64, i64, i64),
    ) -> Result<Value> {
        let mut dims = self.dims(x);
        match self.taken_of(dims[dim], start, limit, stride)? {
            Part::Front(size) if size == dims[dim] => Ok(x),
            Part::Front(size) => {
                let room = self.capacities(&dims);
                if limit > room[dim] {
                    return Err(padded("stablehlo.slice", "it ends behind the capacity"));
                }
                let (mut lo, mut hi, mut step) = (Dims::new(), room, Dims::new());
                lo.resize(hi.len(), 0);
                step.resize(hi.len(), 1);
                (lo[dim], hi[dim], step[dim]) = (start, limit, stride);
                dims[dim] = size;
                let attrs = format!(
                    " <{{start_indices = {}, limit_indices = {}, strides = {}}}>",
                    array(&lo),
                    array(&hi),
                    array(&step)
                );
                let ty = self.ty(x).with_dims(&dims);
                Ok(self.emit("stablehlo.slice", &[x], &attrs, ty))
            }
            Part::Tail { start, dim: size } => self.shifted(x, dim, -start, size),
            Part::Moving { start, size } => {
                let mut at = vec![self.scalar(0, DType::I32); dims.len()];
                at[dim] = self.linear_value(start, DType::I32)?;
                dims[dim] = size;
                let attrs = format!(" <{{slice_sizes = {}}}>", array(&self.capacities(&dims)));
                let ty = self.ty(x).with_dims(&dims);
                let operands = [&[x], at.as_slice()].concat();
                Ok(self.emit("stablehlo.dynamic_slice", &operands, &attrs, ty))
            }
        }
    }

    /// The run-time value of a size.
    pub(crate) fn linear_value(&mut self, size: Linear, dtype: DType) -> Result<Value> {
        if size.terms.is_empty() {
            return Ok(self.scalar(size.constant, dtype));
        }
        let near = |a: &Atom| a.size.terms == size.terms;
        let atom = self.atoms().iter().position(near);
        let atom = atom.ok_or_else(|| padded("an index", "it is not clear"))?;
        let off = size.constant - self.atoms()[atom].size.constant;
        let value = self.atom_value(atom as u32, dtype);
        if off == 0 {
            return Ok(value);
        }
        let off = self.scalar(off, dtype);
        self.add(value, off)
    }

    /// `x` moved by `low` elements along `dim`, which becomes the dimension `size`.
    fn shifted(&mut self, x: Value, dim: usize, low: i64, size: i64) -> Result<Value> {
        let zero = self.scalar(0, self.dtype(x));
        self.shifted_with(x, zero, dim, low, size)
    }

    /// As [`Builder::shifted`], with `fill` in the places that nothing was moved to.
    fn shifted_with(
        &mut self,
        x: Value,
        fill: Value,
        dim: usize,
        low: i64,
        size: i64,
    ) -> Result<Value> {
        let mut dims = self.dims(x);
        let size = self.known_size(size)?;
        let from = self.capacities(&dims)[dim];
        dims[dim] = size;
        let high = self.capacities(&dims)[dim] - from - low;
        if low == 0 && high == 0 {
            return Ok(self.retyped(x, &dims));
        }
        let (mut lows, mut highs) = (Dims::new(), Dims::new());
        lows.resize(dims.len(), 0);
        highs.resize(dims.len(), 0);
        let none = array(&lows);
        (lows[dim], highs[dim]) = (low, high);
        let attrs = format!(
            " <{{edge_padding_low = {}, edge_padding_high = {}, interior_padding = {none}}}>",
            array(&lows),
            array(&highs)
        );
        let ty = self.ty(x).with_dims(&dims);
        Ok(self.emit("stablehlo.pad", &[x, fill], &attrs, ty))
    }

    /// A dimension that a row has computed: one that is known or an atom.
    fn known_size(&mut self, n: i64) -> Result<i64> {
        let refuse = || padded("a dimension", "its size is not clear");
        let size = self.linear(n).ok_or_else(refuse)?;
        if !size.terms.is_empty() && self.atom(n).is_none() {
            self.atom_of(size).ok_or_else(refuse)?;
        }
        Ok(n)
    }

    /// [`Builder::pad`] along `dim`, which is padded or becomes so.
    pub(crate) fn pad_padded(
        &mut self,
        x: Value,
        fill: Value,
        dim: usize,
        (low, high): (i64, i64),
    ) -> Result<Value> {
        let n = self.dims(x)[dim];
        let refuse = || padded("stablehlo.pad", "its bounds are not clear");
        let at = self.linear(low).ok_or_else(refuse)?;
        let size = n + low + high;
        let x = self.fill_behind(x, &[dim as i64], fill)?;
        if at.terms.is_empty() {
            return self.shifted_with(x, fill, dim, low, size);
        }
        if self.is_growing(n) {
            return Err(refuse());
        }
        let mut dims = self.dims(x);
        dims[dim] = self.known_size(size)?;
        let base = self.broadcast(fill, &dims)?;
        let mut start = vec![self.scalar(0, DType::I32); dims.len()];
        start[dim] = self.linear_value(at, DType::I32)?;
        let operands = [&[base, x], start.as_slice()].concat();
        let ty = self.ty(base).clone();
        Ok(self.emit("stablehlo.dynamic_update_slice", &operands, "", ty))
    }

    /// [`Builder::concatenate`] to the dimension `size`, where some operand is padded along `dim`:
    /// each is written where the one before it ends, over that one's garbage.
    pub(crate) fn concatenate_padded(
        &mut self,
        xs: &[Value],
        dim: usize,
        ty: &Type,
    ) -> Result<Value> {
        let refuse = || padded("stablehlo.concatenate", "its size is not clear");
        let size = self.known_size(ty.dims[dim])?;
        let room = |b: &Self, n: i64| b.capacities(&[n])[0];
        let rooms: Vec<i64> = xs.iter().map(|x| room(self, self.dims(*x)[dim])).collect();
        let growing = xs[1..].iter().any(|x| self.is_growing(self.dims(*x)[dim]));
        let capacity = room(self, size);
        // What is written may not reach over the end, where it would be moved.
        let all: i64 = rooms.iter().sum();
        let work = if growing { all.max(capacity) } else { capacity };
        let zero = self.scalar(0, ty.dtype);
        let mut whole = self.roomed(xs[0], zero, dim, work)?;
        let mut end = self.linear(self.dims(xs[0])[dim]).ok_or_else(refuse)?;
        for &x in &xs[1..] {
            let n = self.dims(x)[dim];
            let part = self.roomed(x, zero, dim, room(self, n))?;
            let mut start = vec![self.scalar(0, DType::I32); ty.rank()];
            start[dim] = self.linear_value(end.clone(), DType::I32)?;
            let operands = [&[whole, part], start.as_slice()].concat();
            let to = self.ty(whole).clone();
            whole = self.emit("stablehlo.dynamic_update_slice", &operands, "", to);
            end = end.plus(&self.linear(n).ok_or_else(refuse)?);
        }
        let whole = self.roomed(whole, zero, dim, capacity)?;
        let mut dims = ty.dims.clone();
        dims[dim] = size;
        Ok(self.retyped(whole, &dims))
    }

    /// `x` with `room` elements along `dim`, which counts as full.
    fn roomed(&mut self, x: Value, fill: Value, dim: usize, room: i64) -> Result<Value> {
        let mut dims = self.dims(x);
        dims[dim] = self.capacities(&dims)[dim];
        let x = self.retyped(x, &dims);
        if dims[dim] == room {
            return Ok(x);
        }
        self.shifted_with(x, fill, dim, 0, room)
    }

    fn capacity_of(&self, f: Factor) -> i64 {
        match f {
            Factor::Known(n) => n,
            Factor::Atom(i) => {
                let Atom { capacity, .. } = self.atoms()[i as usize];
                capacity
            }
        }
    }
}

/// The next factors of `left`, which has the first one last, whose product is that of `want`.
fn taken(left: &mut Factors, want: Factors) -> Option<Factors> {
    let (mut known, mut atoms) = (1, Vec::new());
    for f in want {
        match f {
            Factor::Known(n) => known *= n,
            atom => atoms.push(atom),
        }
    }
    let mut list = Factors::new();
    while known != 1 || !atoms.is_empty() {
        match left.pop()? {
            Factor::Known(n) if known % n == 0 => {
                known /= n;
                push(&mut list, n);
            }
            Factor::Known(n) if n % known == 0 && atoms.is_empty() => {
                left.push(Factor::Known(n / known));
                push(&mut list, known);
                known = 1;
            }
            Factor::Known(_) => return None,
            atom => {
                let at = atoms.iter().position(|a| *a == atom)?;
                atoms.remove(at);
                list.push(atom);
            }
        }
    }
    if list.is_empty() {
        list.push(Factor::Known(1));
    }
    Some(list)
}

/// Appends a known factor; those next to each other are one.
fn push(list: &mut Factors, n: i64) {
    match list.last_mut() {
        _ if n == 1 => {}
        Some(Factor::Known(last)) => *last *= n,
        _ => list.push(Factor::Known(n)),
    }
}
