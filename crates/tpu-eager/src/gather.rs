//! One walk over a call's arguments: the key of its program, and what the launch binds.
use crate::{Arg, Cell, Context, Kernel, Result, Tensor, dtype::dtype_of, view::View};
use smallvec::SmallVec;
use std::sync::Arc;
use tpu_hlo::{DType, Number, Type};
use tpu_ops::Param;
use tpu_pjrt::{Arg as LaunchArg, Buffer, Shape};

/// A storage that the program may read or overwrite; its index is its buffer slot.
#[derive(Clone, Debug)]
pub(crate) struct Input<'a> {
    pub(crate) cell: &'a Cell,
    /// What it held when the call began.
    held: Option<Arc<Buffer>>,
    dtype: DType,
    /// What an undefined storage is read as: the tensor's own sizes if it is the whole, so that a
    /// program which overwrites it has nothing to read; else all elements in one dimension.
    whole: Option<&'a [i64]>,
}

impl Input<'_> {
    /// Type of the buffer that the storage holds.
    pub(crate) fn held(&self) -> Type {
        match &self.held {
            Some(buffer) => Type {
                dtype: dtype_of(buffer.shape().ty),
                dims: buffer.shape().dims.clone(),
            },
            None => self.undefined(),
        }
    }

    fn undefined(&self) -> Type {
        let flat = [(self.cell.nbytes() / self.dtype.size()) as i64];
        Type::new(self.dtype, self.whole.unwrap_or(&flat))
    }

    /// The buffer; zeros where the storage was never written.
    ///
    /// # Errors
    /// [`crate::Error::Lost`], or what making the zeros meets.
    pub(crate) fn buffer(&self) -> Result<Arc<Buffer>> {
        match &self.held {
            Some(buffer) => Ok(Arc::clone(buffer)),
            None => self.cell.get_or_zeros(&self.undefined()),
        }
    }

    /// The storage's buffer, to be overwritten if nobody else reads it; else it stays, and the
    /// program copies it.
    pub(crate) fn give(&mut self, buffer: Arc<Buffer>) -> LaunchArg {
        let Some(held) = self.cell.take() else {
            return LaunchArg::Keep(buffer);
        };
        drop((buffer, self.held.take()));
        // Unwrapped, so that no weak reference can bring it back before the launch.
        match Arc::try_unwrap(held) {
            Ok(buffer) => buffer.into(),
            Err(shared) => {
                self.cell.set(Arc::clone(&shared));
                LaunchArg::Keep(shared)
            }
        }
    }
}

/// Key, storages and numbers of a call.
///
/// The key holds all that the lowering depends on. [`crate::lower`] walks the arguments in the
/// same order and by the same rules, so that slots agree.
pub(crate) struct Gathered<'a> {
    pub(crate) key: SmallVec<[u8; 256]>,
    pub(crate) inputs: SmallVec<[Input<'a>; 6]>,
    pub(crate) numbers: SmallVec<[Number; 6]>,
    /// Numbers of the operator's own parameters, for its guard.
    pub(crate) own: SmallVec<[Number; 2]>,
}

/// Slot of a storage, which a tensor sees through `view`: a storage that comes twice has one.
pub(crate) fn slot<'a>(
    inputs: &mut SmallVec<[Input<'a>; 6]>,
    t: &Tensor<'a>,
    view: Option<&View>,
) -> u32 {
    let known = inputs.iter().position(|i| std::ptr::eq(i.cell, t.cell));
    known.unwrap_or_else(|| {
        inputs.push(Input {
            cell: t.cell,
            held: t.cell.get().ok().flatten(),
            dtype: t.dtype,
            whole: view.is_none().then_some(t.sizes),
        });
        inputs.len() - 1
    }) as u32
}

/// The view of a tensor in its storage; `None` when it is the whole in row-major order.
pub(crate) fn view_of(t: &Tensor<'_>) -> Option<View> {
    let numel = t.storage_numel();
    let plain = t.offset == 0 && t.numel() == numel && t.is_contiguous();
    (!plain).then(|| View::new(numel, t.sizes, t.strides, t.offset))
}

impl<'a> Gathered<'a> {
    pub(crate) fn new(kernel: &Kernel, args: &[Arg<'a>], context: &Context) -> Self {
        let mut g = Self {
            key: SmallVec::new(),
            inputs: SmallVec::new(),
            numbers: SmallVec::new(),
            own: SmallVec::new(),
        };
        g.key.extend_from_slice(&kernel.id.to_le_bytes());
        g.key.extend_from_slice(&context.bytes());
        for (param, index) in kernel.params.iter().zip(&kernel.plan.args) {
            g.argument(*param, args.get(*index).unwrap_or(&Arg::None));
        }
        for index in &kernel.plan.mutated {
            match args.get(*index) {
                Some(Arg::Tensor(t)) => g.target(t),
                Some(Arg::Tensors(list)) => list.iter().flatten().for_each(|t| g.target(t)),
                _ => g.key.push(0),
            }
        }
        g
    }

    /// Appends counts that were read from the device.
    pub(crate) fn counts(&mut self, counts: &[i64]) {
        self.ints(counts);
    }

    fn argument(&mut self, param: Param, arg: &Arg<'a>) {
        if matches!(param.ty, "*" | "Generator") {
            return;
        }
        match arg {
            Arg::None => self.key.push(0),
            Arg::Tensor(t) => self.tensor(t),
            Arg::Host {
                number,
                dtype,
                wrapped,
            } => {
                self.key
                    .extend_from_slice(&[2, *dtype as u8, u8::from(*wrapped)]);
                self.numbers.push(*number);
            }
            Arg::Tensors(list) => {
                self.key.push(3);
                self.length(list.len());
                for t in list {
                    match t {
                        Some(t) => self.tensor(t),
                        None => self.key.push(0),
                    }
                }
            }
            Arg::Number(n) => self.number(param, *n),
            Arg::Numbers(list) => {
                self.key.push(5);
                self.length(list.len());
                list.iter().for_each(|n| self.number(param, *n));
            }
            other => self.fixed(other),
        }
    }

    fn fixed(&mut self, arg: &Arg<'_>) {
        match arg {
            Arg::Ints(list) => self.ints(list),
            Arg::Floats(list) => {
                self.key.push(7);
                self.length(list.len());
                list.iter()
                    .for_each(|x| self.key.extend_from_slice(&x.to_bits().to_le_bytes()));
            }
            Arg::Bools(list) => {
                self.key.push(8);
                self.length(list.len());
                self.key.extend(list.iter().map(|b| u8::from(*b)));
            }
            Arg::Str(s) => {
                self.key.push(9);
                self.length(s.len());
                self.key.extend_from_slice(s.as_bytes());
            }
            Arg::DType(dtype) => self.key.extend_from_slice(&[10, *dtype as u8]),
            _ => {}
        }
    }

    fn number(&mut self, param: Param, n: Number) {
        let fixed = param.bound.fixes(n);
        self.key
            .extend_from_slice(&[4, n.dtype() as u8, u8::from(fixed)]);
        if fixed {
            let (low, high) = n.bits();
            self.key.extend_from_slice(&low.to_le_bytes());
            self.key.extend_from_slice(&high.to_le_bytes());
        } else {
            self.numbers.push(n);
            self.own.push(n);
        }
    }

    fn tensor(&mut self, t: &Tensor<'a>) {
        let bits = u8::from(t.conj) | u8::from(t.neg) << 1;
        self.key.extend_from_slice(&[1, t.dtype as u8, bits]);
        self.geometry(t);
    }

    fn target(&mut self, t: &Tensor<'a>) {
        self.key.extend_from_slice(&[11, t.dtype as u8, 0]);
        self.geometry(t);
    }

    fn geometry(&mut self, t: &Tensor<'a>) {
        dims(&mut self.key, t.sizes);
        if t.sizes.contains(&0) {
            return;
        }
        let view = view_of(t);
        let slot = slot(&mut self.inputs, t, view.as_ref());
        self.key.extend_from_slice(&(slot as u16).to_le_bytes());
        match view {
            None => self.key.push(0),
            Some(view) => {
                self.key
                    .push(1 + view.discriminant() * 2 + u8::from(view.needs_offset()));
                dims(&mut self.key, t.strides);
                if view.needs_offset() {
                    self.numbers.push(Number::Int(t.offset));
                }
            }
        }
        match &self.inputs[slot as usize].held {
            Some(buffer) => {
                let Shape { ty, dims: held } = buffer.shape();
                self.key.push(dtype_of(*ty) as u8);
                dims(&mut self.key, held);
            }
            None => {
                self.key.push(u8::MAX);
                self.key.extend_from_slice(&t.storage_numel().to_le_bytes());
            }
        }
    }

    fn ints(&mut self, list: &[i64]) {
        self.key.push(6);
        dims(&mut self.key, list);
    }

    fn length(&mut self, n: usize) {
        self.key.extend_from_slice(&(n as u32).to_le_bytes());
    }
}

fn dims(key: &mut SmallVec<[u8; 256]>, list: &[i64]) {
    key.extend_from_slice(&(list.len() as u32).to_le_bytes());
    list.iter()
        .for_each(|d| key.extend_from_slice(&d.to_le_bytes()));
}
