//! One walk over a call's arguments: the key of its program, and what the launch binds.
use crate::{Arg, Cell, Context, Kernel, Result, Tensor, dtype::dtype_of, view::View};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::{Deref, DerefMut};
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
    /// Whether the buffer is larger than the tensor in it; other tensors of the storage do not see
    /// it so.
    padded: bool,
}

impl<'a> Input<'a> {
    /// A tensor with its buffer that has room; the lowering needs none.
    pub(crate) fn padded(t: &Tensor<'a>, buffer: Option<Arc<Buffer>>) -> Self {
        Self {
            cell: t.cell,
            held: buffer,
            dtype: t.dtype,
            whole: None,
            padded: true,
        }
    }

    fn address(&self) -> usize {
        address(self.cell)
    }

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
        let Some(mut held) = self.cell.take() else {
            return LaunchArg::Keep(buffer);
        };
        drop((buffer, self.held.take()));
        // Neither is there a weak reference then, which could bring it back before the launch.
        if Arc::get_mut(&mut held).is_some() {
            return LaunchArg::Donate(held);
        }
        self.cell.set(Arc::clone(&held));
        LaunchArg::Keep(held)
    }
}

/// What a program's lowering depends on, as words. Each part begins with a word that says what it
/// is and how many words follow, so that no two calls have the same words by chance.
pub(crate) type Key = SmallVec<[i64; 32]>;

/// What the first word of a part says.
#[derive(Clone, Copy)]
enum Tag {
    None,
    Bucket,
    Padded,
    PaddedTarget,
    Tensor,
    Host,
    Tensors,
    Number,
    Numbers,
    Ints,
    Floats,
    Bools,
    Str,
    DType,
    Target,
    Count,
}

impl Tag {
    /// A first word: four bytes and a length.
    fn word(self, bytes: [u8; 3], len: usize) -> i64 {
        let [a, b, c] = bytes;
        let low = u32::from_le_bytes([self as u8, a, b, c]);
        (i64::from(low)) | (len as i64) << 32
    }
}

/// Key, storages and numbers of a call.
///
/// [`crate::lower`] walks the arguments in the same order and by the same rules, so that slots
/// agree.
pub(crate) struct Gathered<'a> {
    pub(crate) key: Key,
    pub(crate) inputs: Inputs<'a>,
    pub(crate) numbers: SmallVec<[Number; 6]>,
    /// Numbers of the operator's own parameters, for its guard.
    pub(crate) own: SmallVec<[Number; 2]>,
    /// Values of the program's sizes that only a launch knows.
    pub(crate) sizes: SmallVec<[i64; 4]>,
}

/// The storages of a call, in the order of their slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs<'a> {
    list: SmallVec<[Input<'a>; 6]>,
    /// Slots by address, from [`Self::MANY`] storages on.
    slots: FxHashMap<usize, u32>,
}

impl<'a> Inputs<'a> {
    /// Storages from which on a search by hash is faster than by looking at each.
    const MANY: usize = 16;

    /// Slot of the storage that a tensor sees through `view`: one that comes twice has one.
    pub(crate) fn slot(&mut self, t: &Tensor<'a>, view: Option<&View>) -> u32 {
        self.find(t.cell).unwrap_or_else(|| {
            self.add(Input {
                cell: t.cell,
                held: t.cell.get().ok().flatten(),
                dtype: t.dtype,
                whole: view.is_none().then_some(t.sizes),
                padded: false,
            })
        })
    }

    /// A slot of its own.
    pub(crate) fn add(&mut self, input: Input<'a>) -> u32 {
        let (slot, cell) = (self.list.len() as u32, input.cell);
        let shared = !input.padded;
        self.list.push(input);
        match self.list.len() {
            Self::MANY => {
                let all = self.list.iter().zip(0..);
                let shared = all.filter(|(input, _)| !input.padded);
                self.slots = shared
                    .map(|(input, slot)| (input.address(), slot))
                    .collect();
            }
            n if n > Self::MANY && shared => drop(self.slots.insert(address(cell), slot)),
            _ => {}
        }
        slot
    }

    fn find(&self, cell: &Cell) -> Option<u32> {
        if self.list.len() < Self::MANY {
            let mut known = self.list.iter();
            let same = |i: &Input<'_>| !i.padded && std::ptr::eq(i.cell, cell);
            return Some(known.position(same)? as u32);
        }
        self.slots.get(&address(cell)).copied()
    }
}

impl<'a> Deref for Inputs<'a> {
    type Target = [Input<'a>];

    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

impl DerefMut for Inputs<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.list
    }
}

fn address(cell: &Cell) -> usize {
    std::ptr::from_ref(cell).addr()
}

/// The view of a tensor in its storage; `None` when it is the whole in row-major order.
pub(crate) fn view_of(t: &Tensor<'_>) -> Option<View> {
    let numel = t.storage_numel();
    let plain = t.offset == 0 && t.numel() == numel && t.is_contiguous();
    (!plain).then(|| View::new(numel, t.sizes, t.strides, t.offset))
}

impl<'a> Gathered<'a> {
    /// Of a call without arguments.
    pub(crate) fn empty(kernel: &Kernel, context: &Context) -> Self {
        let mut g = Self {
            key: SmallVec::new(),
            inputs: Inputs::default(),
            numbers: SmallVec::new(),
            own: SmallVec::new(),
            sizes: SmallVec::new(),
        };
        g.key.push(first(kernel, context));
        g
    }

    pub(crate) fn new(kernel: &Kernel, args: &[Arg<'a>], context: &Context) -> Self {
        let mut g = Self::empty(kernel, context);
        for (param, index) in kernel.params.iter().zip(&kernel.plan.args) {
            g.argument(*param, args.get(*index).unwrap_or(&Arg::None));
        }
        for index in &kernel.plan.mutated {
            match args.get(*index) {
                Some(Arg::Tensor(t)) => g.target(t),
                Some(Arg::Tensors(list)) => list.iter().flatten().for_each(|t| g.target(t)),
                _ => g.part(Tag::None, 0),
            }
        }
        g
    }

    /// Makes it the key of the program that counts a data-dependent size.
    pub(crate) fn counting(&mut self) {
        self.part(Tag::Count, 0);
    }

    /// Appends counts that were read from the device.
    pub(crate) fn counts(&mut self, counts: &[i64]) {
        self.ints(counts);
    }

    /// Says that the program depends on the precision of products after all.
    pub(crate) fn renew(&mut self, kernel: &Kernel, context: &Context) {
        self.key[0] = first(kernel, context);
    }

    fn part(&mut self, tag: Tag, len: usize) {
        self.key.push(tag.word([0; 3], len));
    }

    fn argument(&mut self, param: Param, arg: &Arg<'a>) {
        if matches!(param.ty, "*" | "Generator") {
            return;
        }
        match arg {
            Arg::None => self.part(Tag::None, 0),
            Arg::Tensor(t) => self.tensor(t),
            Arg::Host {
                number,
                dtype,
                wrapped,
            } => {
                let bytes = [*dtype as u8, u8::from(*wrapped), number.dtype() as u8];
                self.key.push(Tag::Host.word(bytes, 0));
                self.numbers.push(*number);
            }
            Arg::Tensors(list) => {
                self.part(Tag::Tensors, list.len());
                for t in list {
                    match t {
                        Some(t) => self.tensor(t),
                        None => self.part(Tag::None, 0),
                    }
                }
            }
            Arg::Number(n) => self.number(param, *n),
            Arg::Numbers(list) => {
                self.part(Tag::Numbers, list.len());
                list.iter().for_each(|n| self.number(param, *n));
            }
            other => self.fixed(other),
        }
    }

    fn fixed(&mut self, arg: &Arg<'_>) {
        match arg {
            Arg::Ints(list) => self.ints(list),
            Arg::Floats(list) => {
                self.part(Tag::Floats, list.len());
                self.key.extend(list.iter().map(|x| x.to_bits() as i64));
            }
            Arg::Bools(list) => {
                self.part(Tag::Bools, list.len());
                self.key.extend(list.iter().map(|b| i64::from(*b)));
            }
            Arg::Str(s) => {
                self.part(Tag::Str, s.len());
                self.key.extend(s.bytes().map(i64::from));
            }
            Arg::DType(dtype) => self.key.push(Tag::DType.word([*dtype as u8, 0, 0], 0)),
            _ => {}
        }
    }

    fn number(&mut self, param: Param, n: Number) {
        let fixed = param.bound.fixes(n);
        let bytes = [n.dtype() as u8, u8::from(fixed), 0];
        self.key.push(Tag::Number.word(bytes, 0));
        if fixed {
            let (low, high) = n.bits();
            self.key.extend_from_slice(&[low as i64, high as i64]);
        } else {
            self.numbers.push(n);
            self.own.push(n);
        }
    }

    /// A tensor whose buffer has room; the capacities are in the key already.
    pub(crate) fn padded(
        &mut self,
        t: &Tensor<'a>,
        buffer: Arc<Buffer>,
        order: impl Iterator<Item = usize>,
    ) {
        let bits = u8::from(t.conj) | u8::from(t.neg) << 1;
        self.key
            .push(Tag::Padded.word([t.dtype as u8, bits, 0], t.sizes.len()));
        self.key.extend(order.map(|d| d as i64));
        self.inputs.add(Input::padded(t, Some(buffer)));
    }

    /// A tensor that gets a buffer with room.
    pub(crate) fn written_whole(&mut self, t: &Tensor<'a>, order: &[usize]) {
        let head = Tag::PaddedTarget.word([t.dtype as u8, 0, 0], order.len());
        self.key.push(head);
        self.key.extend(order.iter().map(|d| *d as i64));
    }

    /// The bucket that the program is for.
    pub(crate) fn bucket(&mut self, list: impl ExactSizeIterator<Item = i64>) {
        self.part(Tag::Bucket, list.len());
        self.key.extend(list);
    }

    pub(crate) fn tensor(&mut self, t: &Tensor<'a>) {
        let bits = u8::from(t.conj) | u8::from(t.neg) << 1;
        self.geometry(Tag::Tensor, bits, t);
    }

    pub(crate) fn target(&mut self, t: &Tensor<'a>) {
        self.geometry(Tag::Target, 0, t);
    }

    /// Sizes; strides of a view; what its storage holds, unless that is of the same sizes.
    fn geometry(&mut self, tag: Tag, bits: u8, t: &Tensor<'a>) {
        let empty = t.sizes.contains(&0);
        let view = if empty { None } else { view_of(t) };
        let form = match &view {
            None => u8::from(empty),
            Some(view) => 2 + view.discriminant() * 2 + u8::from(view.needs_offset()),
        };
        let head = tag.word([t.dtype as u8, bits, form], t.sizes.len());
        self.key.push(head);
        self.key.extend_from_slice(t.sizes);
        if empty {
            return;
        }
        let slot = self.inputs.slot(t, view.as_ref());
        if let Some(view) = view {
            self.key.extend_from_slice(t.strides);
            if view.needs_offset() {
                self.numbers.push(Number::Int(t.offset));
            }
        }
        self.held(slot, t);
    }

    /// A word for the slot and the type that the storage holds, then its sizes if they are others.
    fn held(&mut self, slot: u32, t: &Tensor<'a>) {
        let word = |dtype: u8, same: bool, len: usize| {
            let low = u32::from_le_bytes([dtype, u8::from(same), len as u8, (len >> 8) as u8]);
            i64::from(low) | i64::from(slot) << 32
        };
        match &self.inputs[slot as usize].held {
            Some(buffer) => {
                let Shape { ty, dims } = buffer.shape();
                let (same, dtype) = (dims.as_slice() == t.sizes, dtype_of(*ty) as u8);
                self.key.push(word(dtype, same, dims.len()));
                if !same {
                    self.key.extend_from_slice(dims);
                }
            }
            None => {
                let words = [word(u8::MAX, false, 0), t.storage_numel()];
                self.key.extend_from_slice(&words);
            }
        }
    }

    fn ints(&mut self, list: &[i64]) {
        self.part(Tag::Ints, list.len());
        self.key.extend_from_slice(list);
    }
}

/// The word of a key that says which kernel is called, and under which settings.
fn first(kernel: &Kernel, context: &Context) -> i64 {
    i64::from(kernel.id) << 32 | i64::from(u32::from_le_bytes(context.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_keeps_its_slot_among_few_and_many() {
        let cells: Vec<Cell> = (0..3 * Inputs::MANY).map(|_| Cell::undefined(8)).collect();
        let mut inputs = Inputs::default();
        let mut slot = |i: usize| {
            let cell = &cells[i];
            let t = Tensor {
                cell,
                dtype: DType::F32,
                sizes: &[2],
                strides: &[1],
                offset: 0,
                conj: false,
                neg: false,
            };
            inputs.slot(&t, None)
        };
        for i in 0..cells.len() {
            assert_eq!(slot(i), i as u32);
            assert_eq!((slot(i), slot(i / 2)), (i as u32, i as u32 / 2));
        }
        assert_eq!(inputs.len(), cells.len());
    }
}
