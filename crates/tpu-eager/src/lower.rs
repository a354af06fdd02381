//! From a call's arguments to its program: reads, the operator, writes.
use crate::{
    Arg, Cell, Context, Kernel, Result, Tensor, bucket,
    call::SMALL,
    gather::{Inputs, view_of},
    layout,
    padded::Room,
    view::{View, reinterpret},
};
use smallvec::SmallVec;
use std::sync::Arc;
use tpu_exec::Program;
use tpu_hlo::{Atom, Builder, DType, Dims, Module, Number, Slot, Type, Value};
use tpu_ops::{Arg as OpArg, Error as OpError, Layout, Outs, Param, promote};

/// A compiled signature.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The program; `None` when there is nothing to compute.
    pub(crate) program: Option<Arc<Program>>,
    /// What the program's parameters are bound to.
    pub(crate) slots: Vec<(Slot, DType)>,
    /// Parameters whose buffer a result may take over, and the buffer slots they are bound to.
    pub(crate) donates: SmallVec<[(usize, u32); 2]>,
    /// New tensors, in order; `None` for undefined ones.
    pub fresh: Vec<Option<Fresh>>,
    /// Storages written: buffer slots, in the order of the outputs after those of new tensors.
    pub(crate) written: Vec<u32>,
    /// `out=` tensors that have to be resized before the call can run: position among the
    /// mutated tensors, and what they have to be like.
    pub resize: Vec<(usize, Fresh)>,
    /// Messages of the trailing check outputs.
    pub(crate) checks: Vec<Arc<str>>,
    /// Random blocks that a launch draws.
    pub(crate) drawn: u64,
    /// The program's sizes that only a launch knows.
    pub(crate) atoms: Vec<Atom>,
}

/// Shape of a new tensor.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub sizes: Dims,
    /// Strides in elements.
    pub strides: Dims,
    /// Bytes of the storage.
    pub nbytes: usize,
    /// How sizes follow from those that only a launch knows; those above are then of no meaning
    /// until it is there.
    pub(crate) open: Option<bucket::Shape>,
    /// How the tensor lies in its buffer, if that is larger.
    pub(crate) room: Option<Arc<Room>>,
}

/// A lowered call that is not compiled yet.
pub(crate) struct Lowered {
    pub(crate) module: Module,
    pub(crate) entry: Entry,
}

pub(crate) struct Lowering<'a> {
    pub(crate) b: Builder,
    pub(crate) inputs: Inputs<'a>,
    numbers: u32,
    /// Sizes and strides of the tensors read, for the layout of results.
    pub(crate) operands: Vec<(Dims, Dims)>,
    /// Their storages.
    read: Vec<&'a Cell>,
}

/// A mutated tensor, with the slots it was given.
pub(crate) struct Target<'a> {
    tensor: Tensor<'a>,
    slot: Option<u32>,
    view: Option<View>,
    offset: u32,
}

/// Lowers a call.
///
/// # Errors
/// What the operator refuses, in PyTorch's words.
pub(crate) fn lower(
    kernel: &Kernel,
    args: &[Arg<'_>],
    context: &Context,
    counts: &[i64],
) -> Result<Lowered> {
    let (mut l, op_args, targets) = start(kernel, args, context)?;
    let mut op_args = op_args;
    op_args.extend(counts.iter().map(|n| OpArg::Number(Number::Int(*n))));
    let outs = kernel.plan.op.lower(&mut l.b, &op_args)?;
    l.finish(kernel, outs, &targets)
}

/// Lowers the program that counts a data-dependent size.
///
/// # Errors
/// As [`lower`].
pub(crate) fn lower_count(kernel: &Kernel, args: &[Arg<'_>], context: &Context) -> Result<Lowered> {
    let (mut l, op_args, _) = start(kernel, args, context)?;
    let count = kernel.plan.op.count();
    let count = count.ok_or_else(|| OpError::runtime("the operator has no count"))?;
    let outs = count.call(&mut l.b, &op_args)?;
    l.finish(kernel, outs, &[])
}

type Started<'a> = (Lowering<'a>, Vec<OpArg>, Vec<Target<'a>>);

fn start<'a>(kernel: &Kernel, args: &[Arg<'a>], context: &Context) -> Result<Started<'a>> {
    let mut l = Lowering::new(context);
    let mut op_args = Vec::with_capacity(kernel.params.len() + 1);
    for (param, index) in kernel.params.iter().zip(&kernel.plan.args) {
        op_args.push(l.argument(*param, args.get(*index).unwrap_or(&Arg::None))?);
    }
    let targets = l.targets(kernel, args);
    if kernel.plan.dtype_of_out
        && let Some(t) = targets.first()
    {
        op_args.push(OpArg::DType(t.tensor.dtype));
    }
    Ok((l, op_args, targets))
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            b: Builder::new(context.settings),
            inputs: Inputs::default(),
            numbers: 0,
            operands: Vec::new(),
            read: Vec::new(),
        }
    }

    fn argument(&mut self, param: Param, arg: &Arg<'a>) -> Result<OpArg> {
        if matches!(param.ty, "*" | "Generator") {
            return Ok(OpArg::None);
        }
        Ok(match arg {
            Arg::None => OpArg::None,
            Arg::Tensor(t) => OpArg::Tensor(self.tensor(t)?),
            Arg::Host {
                number,
                dtype,
                wrapped,
            } => OpArg::Tensor(self.host(*number, *dtype, *wrapped)),
            Arg::Tensors(list) => {
                let read = |t: &Option<Tensor<'a>>| match t {
                    Some(t) => self.tensor(t).map(Some),
                    None => Ok(None),
                };
                OpArg::Tensors(list.iter().map(read).collect::<Result<_>>()?)
            }
            Arg::Number(n) if param.bound.fixes(*n) => OpArg::Number(*n),
            Arg::Number(n) => OpArg::Scalar(self.number(n.dtype())),
            Arg::Numbers(list) => {
                OpArg::Scalars(list.iter().map(|n| self.number(n.dtype())).collect())
            }
            Arg::Ints(list) => OpArg::Ints(list.clone()),
            Arg::Floats(list) => OpArg::Floats(list.to_vec()),
            Arg::Bools(list) => OpArg::Bools(list.to_vec()),
            Arg::Str(s) => OpArg::Str((*s).into()),
            Arg::DType(dtype) => OpArg::DType(*dtype),
        })
    }

    fn next_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers - 1
    }

    fn number(&mut self, dtype: DType) -> Value {
        let slot = self.next_number();
        self.b.number(slot, dtype)
    }

    fn host(&mut self, number: Number, dtype: DType, wrapped: bool) -> Value {
        if wrapped {
            return self.number(number.dtype());
        }
        let slot = self.next_number();
        self.b.param(Slot::Number(slot), Type::scalar(dtype))
    }

    pub(crate) fn tensor(&mut self, t: &Tensor<'a>) -> Result<Value> {
        self.operands.push((t.sizes.into(), t.strides.into()));
        self.read.push(t.cell);
        if t.sizes.contains(&0) {
            return Ok(self.b.full(0, t.dtype, t.sizes));
        }
        let view = view_of(t);
        let slot = self.inputs.slot(t, view.as_ref());
        let base = self.storage(t, slot)?;
        let x = match view {
            None => self.b.reshape(base, t.sizes)?,
            Some(view) => {
                let offset = if view.needs_offset() {
                    self.next_number()
                } else {
                    0
                };
                view.read(&mut self.b, base, offset)?
            }
        };
        let x = self.conjugated(t, x)?;
        if !t.is_contiguous() {
            self.b.mark_strided(x);
        }
        Ok(x)
    }

    /// What is stored as the tensor reads it.
    pub(crate) fn conjugated(&mut self, t: &Tensor<'a>, x: Value) -> Result<Value> {
        let x = if t.conj {
            conjugate(&mut self.b, x)?
        } else {
            x
        };
        Ok(if t.neg { self.b.negate(x) } else { x })
    }

    /// The storage's elements as the tensor's type, in any shape.
    fn storage(&mut self, t: &Tensor<'a>, slot: u32) -> Result<Value> {
        let held = self.inputs[slot as usize].held();
        let dtype = held.dtype;
        let base = self.b.param(Slot::Buffer(slot), held);
        if dtype == t.dtype {
            return Ok(base);
        }
        Ok(reinterpret(&mut self.b, base, t.dtype)?)
    }

    fn targets(&mut self, kernel: &Kernel, args: &[Arg<'a>]) -> Vec<Target<'a>> {
        let mut targets = Vec::new();
        for index in &kernel.plan.mutated {
            match args.get(*index) {
                Some(Arg::Tensor(t)) => targets.push(self.target(t)),
                Some(Arg::Tensors(list)) => {
                    for t in list.iter().flatten() {
                        let target = self.target(t);
                        targets.push(target);
                    }
                }
                _ => {}
            }
        }
        targets
    }

    pub(crate) fn target(&mut self, t: &Tensor<'a>) -> Target<'a> {
        if t.sizes.contains(&0) {
            return Target {
                tensor: *t,
                slot: None,
                view: None,
                offset: 0,
            };
        }
        let view = view_of(t);
        let slot = self.inputs.slot(t, view.as_ref());
        let needs = view.as_ref().is_some_and(View::needs_offset);
        let offset = if needs { self.next_number() } else { 0 };
        Target {
            tensor: *t,
            slot: Some(slot),
            view,
            offset,
        }
    }

    pub(crate) fn finish(
        mut self,
        kernel: &Kernel,
        outs: Outs,
        targets: &[Target<'a>],
    ) -> Result<Lowered> {
        let fresh = outs.len().saturating_sub(targets.len());
        let mut values = Vec::new();
        let mut new = Vec::with_capacity(fresh);
        for v in &outs[..fresh] {
            new.push(self.fresh(kernel, *v, &mut values)?);
        }
        let made = values.len();
        let resize = self.resizes(kernel, &outs[fresh..], targets)?;
        let mut written = Vec::new();
        let mut aliases = Vec::new();
        if resize.is_empty() {
            self.write(kernel, &outs[fresh..], targets, &mut values, &mut written)?;
            for (slot, output) in &written {
                let ty = self.inputs[*slot as usize].held();
                let param = self.b.param(Slot::Buffer(*slot), ty);
                aliases.push((*output, param));
            }
        }
        self.spare(kernel, &values[..made], &mut aliases);
        let mut checks = Vec::new();
        for (bad, message) in self.b.take_checks() {
            values.push(bad);
            let message = if self.b.is_padded() {
                self.b.named_sizes(&message)
            } else {
                message
            };
            checks.push(message.into());
        }
        let drawn = self.b.drawn();
        let atoms = self.b.atoms().to_vec();
        let module = self.b.finish(&values, &aliases);
        let slots: Vec<(Slot, DType)> =
            module.inputs.iter().map(|i| (i.slot, i.ty.dtype)).collect();
        let donated = |n: &usize| match slots[*n].0 {
            Slot::Buffer(slot) => Some((*n, slot)),
            _ => None,
        };
        let donates = module
            .aliases
            .iter()
            .flatten()
            .filter_map(donated)
            .collect();
        let entry = Entry {
            program: None,
            slots,
            donates,
            fresh: new,
            written: written.into_iter().map(|(slot, _)| slot).collect(),
            resize,
            checks,
            drawn,
            atoms,
        };
        Ok(Lowered { module, entry })
    }

    /// Gives small new tensors memory to be written into.
    fn spare(&mut self, kernel: &Kernel, fresh: &[Value], aliases: &mut Vec<(usize, Value)>) {
        if self.b.settings.tpu || kernel.is_graph() {
            return;
        }
        for (output, value) in fresh.iter().enumerate() {
            let ty = self.b.ty(*value).clone();
            if ty.numel() <= SMALL as i64 {
                aliases.push((output, self.b.spare(output, ty)));
            }
        }
    }

    fn fresh(
        &mut self,
        kernel: &Kernel,
        v: Value,
        values: &mut Vec<Value>,
    ) -> Result<Option<Fresh>> {
        if self.b.is_undefined(v) {
            return Ok(None);
        }
        let order = self.order(kernel, v);
        let mut fresh = self.described(v, &order);
        if fresh.nbytes > 0 {
            let permutation: Dims = order.iter().map(|d| *d as i64).collect();
            let stored = self.b.transpose(v, &permutation)?;
            fresh.open = bucket::Shape::of(&self.b, v, &order);
            values.push(match &fresh.open {
                None => stored,
                Some(shape) => {
                    let room = shape.room(self.b.atoms(), &[]);
                    self.b.as_padded(stored, &room.dims())?
                }
            });
        }
        Ok(Some(fresh))
    }

    /// Dimensions of a result from the slowest to the fastest in memory.
    fn order(&self, kernel: &Kernel, v: Value) -> layout::Order {
        let dims = &self.b.ty(v).dims;
        let rank = dims.len();
        if let Some(order) = self.b.order(v) {
            return order.iter().map(|d| *d as usize).collect();
        }
        match kernel.plan.op.layout {
            Layout::Inputs if self.operands.iter().any(is_permuted) => {
                layout::order(dims, &self.operands)
            }
            Layout::MemoryFormat if layout::is_channels_last(rank, &self.operands) => {
                layout::channels_last(rank)
            }
            Layout::ColumnMajor if layout::has_matrices(rank, &self.operands) => {
                layout::column_major(rank)
            }
            _ => (0..rank).collect(),
        }
    }

    /// A tensor of the value's type in that order.
    fn described(&self, v: Value, order: &[usize]) -> Fresh {
        let Type { dtype, dims } = self.b.ty(v).clone();
        let strides = layout::strides(&dims, order);
        let nbytes = dims.iter().product::<i64>() as usize * dtype.size();
        Fresh {
            dtype,
            sizes: dims,
            strides,
            nbytes,
            open: None,
            room: None,
        }
    }

    /// Targets that have to be resized. One that is read as well would change under the call.
    fn resizes(
        &self,
        kernel: &Kernel,
        outs: &[Value],
        targets: &[Target<'_>],
    ) -> Result<Vec<(usize, Fresh)>> {
        if !kernel.plan.out {
            return Ok(Vec::new());
        }
        let mut list = Vec::new();
        for (i, (v, t)) in outs.iter().zip(targets).enumerate() {
            if !self.b.is_undefined(*v) {
                kernel
                    .plan
                    .op
                    .out_dtype
                    .check(self.b.dtype(*v), t.tensor.dtype)?;
            }
            if self.b.ty(*v).dims.as_slice() == t.tensor.sizes || self.b.is_undefined(*v) {
                continue;
            }
            if self.read.iter().any(|c| std::ptr::eq(*c, t.tensor.cell)) {
                return Err(OpError::runtime(
                    "unsupported operation: some elements of the input tensor and the written-to \
                     tensor refer to a single memory location. Please clone() the tensor before \
                     performing the operation.",
                )
                .into());
            }
            list.push((i, self.described(*v, &self.order(kernel, *v))));
        }
        Ok(list)
    }

    fn write(
        &mut self,
        kernel: &Kernel,
        outs: &[Value],
        targets: &[Target<'a>],
        values: &mut Vec<Value>,
        written: &mut Vec<(u32, usize)>,
    ) -> Result<()> {
        for (value, target) in outs.iter().zip(targets) {
            if self.b.is_undefined(*value) {
                continue; // The row leaves this tensor alone.
            }
            target.tensor.expect_apart()?;
            let value = self.fit(kernel, *value, &target.tensor)?;
            let Some(slot) = target.slot else {
                continue;
            };
            // A storage that is written twice, through two views, gets both values.
            let before = written.iter().position(|(s, _)| *s == slot);
            let base = before.map(|i| values[written[i].1]);
            let new = self.write_one(value, target, slot, base)?;
            match before {
                Some(i) => values[written[i].1] = new,
                None => {
                    values.push(new);
                    written.push((slot, values.len() - 1));
                }
            }
        }
        Ok(())
    }

    /// The value as the target stores it.
    fn fit(&mut self, kernel: &Kernel, v: Value, t: &Tensor<'a>) -> Result<Value> {
        let from = self.b.dtype(v);
        if !can_cast(from, t.dtype) && !self.b.is_weak(v) {
            return Err(OpError::runtime(format!(
                "result type {} can't be cast to the desired output type {}",
                from.torch(),
                t.dtype.torch()
            ))
            .into());
        }
        let v = promote::cast(&mut self.b, v, t.dtype);
        if !kernel.plan.out && self.b.ty(v).dims.as_slice() != t.sizes {
            return Err(OpError::runtime(format!(
                "output with shape {:?} doesn't match the broadcast shape {:?}",
                t.sizes,
                self.b.ty(v).dims.as_slice()
            ))
            .into());
        }
        let v = if t.conj {
            conjugate(&mut self.b, v)?
        } else {
            v
        };
        Ok(if t.neg { self.b.negate(v) } else { v })
    }

    fn write_one(
        &mut self,
        value: Value,
        target: &Target<'a>,
        slot: u32,
        base: Option<Value>,
    ) -> Result<Value> {
        let t = &target.tensor;
        let held = self.inputs[slot as usize].held();
        let same = held.dtype == t.dtype;
        let mut failed = None;
        let new = match &target.view {
            None => value,
            Some(view) => {
                let storage = match base {
                    Some(base) => Ok(base),
                    None if view.is_whole() => Ok(value),
                    None => self.storage(t, slot),
                };
                let storage = storage.unwrap_or_else(|e| {
                    failed = Some(e);
                    value
                });
                view.write(&mut self.b, |_| storage, value, target.offset)?
            }
        };
        if let Some(e) = failed {
            return Err(e);
        }
        // The storage keeps its shape, so that its buffer can be taken over.
        let fits = same && self.b.ty(new).numel() == held.numel();
        Ok(if fits {
            self.b.reshape(new, &held.dims)?
        } else {
            new
        })
    }
}

/// Whether dense strides are in another order than row-major.
fn is_permuted((sizes, strides): &(Dims, Dims)) -> bool {
    let moving = sizes
        .iter()
        .zip(strides)
        .filter(|(n, s)| **n > 1 && **s > 0);
    let moving: SmallVec<[i64; 6]> = moving.map(|(_, s)| *s).collect();
    moving.windows(2).any(|w| w[0] < w[1])
}

fn conjugate(b: &mut Builder, x: Value) -> Result<Value> {
    let (re, im) = (b.real(x), b.imag(x));
    let im = b.negate(im);
    Ok(b.complex(re, im)?)
}

/// c10's `canCast`: no complex to real, float to integer, or anything but `Bool` to `Bool`.
fn can_cast(from: DType, to: DType) -> bool {
    if from.is_complex() && !to.is_complex() {
        return false;
    }
    if from.is_float() && !to.is_float() && !to.is_complex() {
        return false;
    }
    from == to || to != DType::Bool
}
