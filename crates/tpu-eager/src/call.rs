//! Calls: from a key to a launch.
use crate::{
    Arg, Cell, Error, Result,
    bucket::Open,
    gather::Gathered,
    lower::{Entry, Lowered, lower, lower_count},
    overlap,
    runtime::{self, Runtime},
};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};
use tpu_exec::{Module, Request, Tier};
use tpu_hlo::{DType, Input, Number, Precision, Settings, Slot, Symbols, Type};
use tpu_obs::{
    launches, settings,
    show::{self, Topic},
};
use tpu_ops::{Arg as OpArg, Op, Param, schema::Plan};
use tpu_pjrt::{Arg as LaunchArg, Args, Buffer, OptionValue, Outputs, Shape};

use crate::element_type;

/// A registered overload.
#[derive(Debug)]
pub struct Kernel {
    /// How the overload is served.
    pub plan: Plan,
    pub(crate) id: u32,
    pub(crate) params: Vec<Param>,
    /// Whether a program of the kernel was seen to depend on the precision of products. Only then
    /// is that part of its keys: to ask PyTorch for it takes as long as all of a key.
    multiplies: AtomicBool,
    /// For a whole graph, which is worth the compiler's full effort: XLA flags of its own.
    graph: Option<Vec<(String, OptionValue)>>,
    /// For a graph, its sizes that only a launch knows.
    pub(crate) open: Option<Open>,
}

impl Kernel {
    /// A kernel for `plan`.
    pub fn new(plan: Plan) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let params = plan.op.params();
        Self {
            plan,
            id: NEXT.fetch_add(1, Relaxed),
            params,
            multiplies: AtomicBool::new(false),
            graph: None,
            open: None,
        }
    }

    /// A kernel for a graph of `torch.compile` with `fresh` new results. It is called with two
    /// things for the caller, the numbers, the tensors it reads and those it writes. It is compiled
    /// with these XLA flags beside the common ones. `open` says which of its sizes only a launch
    /// knows, if some are, or why it has to be compiled for each size all the same.
    pub fn graph(
        op: &'static Op,
        fresh: usize,
        options: Vec<(String, OptionValue)>,
        open: Option<std::result::Result<Symbols, String>>,
    ) -> Self {
        let plan = Plan {
            op,
            args: vec![2, 3],
            fresh,
            mutated: vec![4],
            out: false,
            dtype_of_out: false,
        };
        Self {
            graph: Some(options),
            multiplies: AtomicBool::new(true),
            open: open.map(Open::new),
            ..Self::new(plan)
        }
    }

    /// Whether it is a graph of `torch.compile`.
    pub(crate) fn is_graph(&self) -> bool {
        self.graph.is_some()
    }

    /// A kernel that calls a row as its functional overload.
    pub fn functional(op: &'static Op) -> Self {
        let args = (0..op.params().len()).collect();
        let plan = Plan {
            op,
            args,
            fresh: 1,
            mutated: Vec::new(),
            out: false,
            dtype_of_out: false,
        };
        Self::new(plan)
    }
}

/// What a call's numbers depend on besides its arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// Settings of the lowering.
    pub settings: Settings,
}

impl Context {
    pub(crate) fn bytes(&self) -> [u8; 4] {
        let Settings {
            precision,
            default_dtype,
            deterministic,
            tpu,
        } = self.settings;
        [
            precision as u8,
            default_dtype as u8,
            u8::from(deterministic),
            u8::from(tpu),
        ]
    }
}

/// What a call needs from the process that makes it.
pub trait Host {
    /// Sets `blocks` of 128 random bits aside: the seed, and the blocks given out before.
    fn reserve(&self, blocks: u64) -> (u64, u64);
    /// The precision of float32 products that the user asks for.
    fn precision(&self) -> Precision;
    /// Whether the user wants to stop waiting (Ctrl-C).
    fn interrupted(&self) -> bool;
    /// The line of source that makes the call, as `train.py:12`; empty where that is not known.
    fn line(&self) -> String {
        String::new()
    }
    /// Runs `run` as an event called `name` of the profiler.
    fn span(&self, name: &str, run: &mut dyn FnMut());
}

/// A call of a kernel.
pub struct Call<'c, 'a> {
    /// The overload.
    pub kernel: &'c Kernel,
    /// Its arguments, in the order of its schema.
    pub args: &'c [Arg<'a>],
    /// What else decides its numbers, but for the precision of products, which the host knows.
    pub context: Context,
    /// Its generator, signals and profiler.
    pub host: &'c dyn Host,
}

/// The storages of a call's new tensors; `None` for undefined ones.
pub type Cells = SmallVec<[Option<Cell>; 2]>;

/// What came of a call.
pub enum Outcome {
    /// It ran: [`Entry::fresh`] describes the new tensors, whose storages these are.
    Done(Arc<Entry>, Cells),
    /// `out=` tensors have to be resized first ([`Entry::resize`]).
    Resize(Arc<Entry>),
}

/// Signatures that are remembered; an executable takes about 0.2 MB of host memory.
const MOST_SIGNATURES: usize = 1 << 14;

type Signatures = RwLock<FxHashMap<Box<[i64]>, Arc<Entry>>>;
static SIGNATURES: std::sync::LazyLock<Signatures> = std::sync::LazyLock::new(Signatures::default);

impl Call<'_, '_> {
    /// Runs the call.
    ///
    /// # Errors
    /// What the operator refuses in PyTorch's words, or what compiling or running meets.
    pub fn run(&self) -> Result<Outcome> {
        let runtime = runtime::get()?;
        self.check_devices()?;
        overlap::check(self.kernel, self.args)?;
        let mut context = self.context;
        if self.kernel.multiplies.load(Relaxed) {
            context.settings.precision = self.host.precision();
        }
        if let Some(outcome) = self.run_in_bucket(runtime, &context)? {
            return Ok(outcome);
        }
        let mut gathered = Gathered::new(self.kernel, self.args, &context);
        self.kernel.plan.op.check(&gathered.own)?;
        let mut counts = Vec::new();
        if let Some(size) = self.kernel.plan.op.size() {
            counts.push(size(&self.on_host())?);
        }
        if self.kernel.plan.op.count().is_some() {
            counts = self.count(runtime, &mut gathered)?;
            gathered.counts(&counts);
        } else if !counts.is_empty() {
            gathered.counts(&counts);
        }
        let entry = self.entry(runtime, &mut gathered, |c, context| {
            lower(c.kernel, c.args, context, &counts)
        })?;
        self.finish(runtime, &mut gathered, entry)
    }

    /// Numbers may come from the host; what the call writes may not lie there.
    fn check_devices(&self) -> Result<()> {
        let on_host = |i: &usize| matches!(self.args.get(*i), Some(Arg::Host { .. }));
        if self.kernel.plan.mutated.iter().any(on_host) {
            return Err(tpu_ops::Error::runtime(
                "Expected all tensors to be on the same device, but found at least two devices, \
                 tpu:0 and cpu!",
            )
            .into());
        }
        Ok(())
    }

    /// The arguments as far as the host knows them, in the order of the row's parameters.
    fn on_host(&self) -> Vec<OpArg> {
        let plan = &self.kernel.plan;
        let known = |index: &usize| match self.args.get(*index) {
            Some(Arg::Number(n)) => OpArg::Number(*n),
            Some(Arg::DType(dtype)) => OpArg::DType(*dtype),
            _ => OpArg::None,
        };
        let mut args: Vec<OpArg> = plan.args.iter().map(known).collect();
        if plan.dtype_of_out
            && let Some(Arg::Tensor(t)) = plan.mutated.first().and_then(|i| self.args.get(*i))
        {
            args.push(OpArg::DType(t.dtype));
        }
        args
    }

    fn finish(
        &self,
        runtime: &Runtime,
        gathered: &mut Gathered<'_>,
        entry: Arc<Entry>,
    ) -> Result<Outcome> {
        if !entry.resize.is_empty() {
            return Ok(Outcome::Resize(entry));
        }
        let cells = self.launch(runtime, gathered, &entry)?;
        Ok(Outcome::Done(entry, cells))
    }

    /// Runs the count of a row whose result sizes depend on the data, and reads it.
    fn count(&self, runtime: &Runtime, gathered: &mut Gathered<'_>) -> Result<Vec<i64>> {
        gathered.counting();
        let entry = self.entry(runtime, gathered, |c, context| {
            lower_count(c.kernel, c.args, context)
        })?;
        let cells = self.launch(runtime, gathered, &entry)?;
        let mut counts = Vec::with_capacity(cells.len());
        for cell in cells.iter().flatten() {
            let mut bytes = [0; 8];
            cell.get_or_zeros(&Type::scalar(DType::I64))?
                .to_host(&mut bytes)?;
            counts.push(i64::from_le_bytes(bytes));
        }
        Ok(counts)
    }

    pub(crate) fn entry(
        &self,
        runtime: &Runtime,
        gathered: &mut Gathered<'_>,
        lower: impl FnOnce(&Self, &Context) -> Result<Lowered>,
    ) -> Result<Arc<Entry>> {
        if let Some(entry) = SIGNATURES.read().get(&gathered.key[..]) {
            return Ok(Arc::clone(entry));
        }
        let mut context = self.context;
        context.settings.precision = self.host.precision();
        let lowered = lower(self, &context)?;
        if lowered.module.multiplies() {
            self.kernel.multiplies.store(true, Relaxed);
            gathered.renew(self.kernel, &context);
        }
        let entry = Arc::new(self.compile(runtime, lowered)?);
        let mut known = SIGNATURES.write();
        if known.len() >= MOST_SIGNATURES {
            // A stream of ever new shapes: what is still in use comes back from disk.
            known.clear();
            runtime.clear_programs();
        }
        known.insert(gathered.key.as_slice().into(), Arc::clone(&entry));
        Ok(entry)
    }

    fn compile(&self, runtime: &Runtime, lowered: Lowered) -> Result<Entry> {
        let Lowered { module, mut entry } = lowered;
        if module.outputs.is_empty() || !entry.resize.is_empty() {
            return Ok(entry);
        }
        if show::wants(Topic::Hlo) {
            show::line(
                Topic::Hlo,
                format_args!("{}\n{}", self.kernel.plan.op.name, module.text),
            );
        }
        let shape = |ty: &Type| Shape::new(element_type(ty.dtype), &ty.dims);
        let is_spare = |input: &&Input| matches!(input.slot, Slot::Spare(_));
        let module = Module {
            inputs: module.inputs.iter().map(|i| shape(&i.ty)).collect(),
            spares: module.inputs.iter().filter(is_spare).count(),
            outputs: module.outputs.iter().map(shape).collect(),
            text: module.text,
        };
        let name = self.kernel.plan.op.name;
        let sizes = self.sizes_of(&entry);
        let request = Request {
            options: self.kernel.graph.as_deref().unwrap_or_default(),
            what: name,
            sizes: &sizes,
            line: &|| self.host.line(),
            interrupted: &|| self.host.interrupted(),
            ..Request::new(&module, self.tier(&module))
        };
        let mut program = None;
        self.host.span(&format!("tpu::compile {name}"), &mut || {
            program = Some(runtime.programs.get(&request));
        });
        entry.program = program.transpose()?;
        Ok(entry)
    }

    fn tier(&self, module: &Module) -> Tier {
        match self.kernel.graph {
            Some(_) => Tier::Full,
            None => tier(module),
        }
    }

    pub(crate) fn launch(
        &self,
        runtime: &Runtime,
        gathered: &mut Gathered<'_>,
        entry: &Entry,
    ) -> Result<Cells> {
        if show::wants(Topic::Ops) {
            show::line(Topic::Ops, format_args!("{}", self.describe()));
        }
        let outputs = match &entry.program {
            None => Outputs::new(),
            Some(program) => {
                let mut args = self.bind(runtime, gathered, entry, program.module())?;
                let start = launches::begin();
                let result = program.launch(&mut args);
                if result.is_err() {
                    give_back(entry, gathered, args);
                }
                let outputs = result?;
                self.note(start, &outputs);
                outputs
            }
        };
        self.settle(runtime, gathered, entry, outputs)
    }

    /// Notes a launch for the profile that is taken, if one is.
    fn note(&self, start: Option<u64>, outputs: &Outputs) {
        if let (Some(start), Some(first)) = (start, outputs.first()) {
            let name = self.kernel.plan.op.name;
            let running = launches::note(start, name, self.host.line(), first.device());
            // One whose end nobody tells is left out of the trace.
            let _ = first.on_ready(move || running.end());
        }
    }

    /// The program's arguments. Storages give their buffers away last, when nothing can fail any
    /// more.
    fn bind(
        &self,
        runtime: &Runtime,
        gathered: &mut Gathered<'_>,
        entry: &Entry,
        module: &Module,
    ) -> Result<Args> {
        let (seed, offset) = if entry.drawn > 0 {
            self.host.reserve(entry.drawn)
        } else {
            (0, 0)
        };
        let mut args = Args::new();
        for ((slot, dtype), shape) in entry.slots.iter().zip(&module.inputs) {
            args.push(LaunchArg::Keep(match *slot {
                Slot::Buffer(i) => gathered.inputs[i as usize].buffer()?,
                Slot::SEED => random(runtime, seed)?,
                Slot::OFFSET => random(runtime, offset)?,
                Slot::Size(i) => {
                    let size = Number::Int(gathered.sizes[i as usize]);
                    runtime.numbers.buffer(runtime, size, *dtype)?
                }
                Slot::Number(i) => {
                    let number = gathered.numbers[i as usize];
                    runtime.numbers.buffer(runtime, number, *dtype)?
                }
                Slot::Spare(_) => {
                    args.push(LaunchArg::Donate(runtime.spare(shape)?));
                    continue;
                }
            }));
        }
        for (arg, slot) in &entry.donates {
            let buffer = args.swap_remove(*arg).into_buffer();
            args.push(gathered.inputs[*slot as usize].give(buffer));
            let last = args.len() - 1;
            args.swap(*arg, last);
        }
        Ok(args)
    }

    /// The results go to new tensors, then to storages written, then to checks: the order in
    /// which the program returns them.
    fn settle(
        &self,
        runtime: &Runtime,
        gathered: &Gathered<'_>,
        entry: &Entry,
        outputs: Outputs,
    ) -> Result<Cells> {
        let mut outputs = outputs
            .into_iter()
            .inspect(|buffer| runtime.started(buffer));
        let mut cells = Cells::new();
        for fresh in &entry.fresh {
            cells.push(fresh.as_ref().map(|f| match f.nbytes {
                0 => Cell::undefined(0),
                nbytes => match (outputs.next(), &f.room) {
                    (Some(buffer), Some(room)) => Cell::padded(buffer, Arc::clone(room), nbytes),
                    (Some(buffer), None) => Cell::holding(buffer, nbytes),
                    (None, _) => Cell::undefined(nbytes),
                },
            }));
        }
        for (slot, buffer) in entry.written.iter().zip(&mut outputs) {
            gathered.inputs[*slot as usize].cell.set(buffer);
        }
        if settings::check_bounds() {
            for (message, flag) in entry.checks.iter().zip(outputs) {
                runtime.pending.watch(flag, message)?;
            }
        }
        if settings::eager_mode() == settings::EagerMode::Debug {
            runtime.synchronize()?;
        }
        Ok(cells)
    }

    fn describe(&self) -> String {
        let list: Vec<String> = self
            .args
            .iter()
            .filter_map(|a| match a {
                Arg::Tensor(t) => Some(format!("{}{:?}", t.dtype.mlir(), t.sizes)),
                Arg::Tensors(list) => Some(format!("{} tensors", list.len())),
                Arg::Host { number, .. } | Arg::Number(number) => Some(format!("{number:?}")),
                _ => None,
            })
            .collect();
        format!("{}({})", self.kernel.plan.op.name, list.join(", "))
    }
}

/// Elements up to which a program's run time is that of its launch, whatever its code is like.
pub(crate) const SMALL: usize = 4096;

/// Small programs are compiled quickly: their code is ten times slower, and it does not show. The
/// quick tier wraps nothing into fusions, and the CPU compiler has code for scatters inside
/// fusions only.
fn tier(module: &Module) -> Tier {
    let fused_only = ["\"stablehlo.scatter\"", "\"stablehlo.select_and_scatter\""];
    let elements = |s: &Shape| s.checked_elements().unwrap_or(usize::MAX);
    let largest = module
        .inputs
        .iter()
        .chain(&module.outputs)
        .map(elements)
        .max();
    let small = largest.unwrap_or(0) <= SMALL;
    if small && !fused_only.iter().any(|op| module.text.contains(op)) {
        Tier::Quick
    } else {
        Tier::Full
    }
}

fn random(runtime: &Runtime, bits: u64) -> Result<Arc<Buffer>> {
    let shape = Shape::new(element_type(DType::U64), &[]);
    let bytes = Number::Int(bits as i64).bytes(DType::U64);
    Ok(Arc::new(runtime.upload(&bytes, &shape)?))
}

/// After a failed launch: storages get their buffers back, if those still live.
fn give_back(entry: &Entry, gathered: &Gathered<'_>, args: Args) {
    for ((slot, _), arg) in entry.slots.iter().zip(args) {
        if let (Slot::Buffer(i), LaunchArg::Donate(buffer)) = (*slot, arg) {
            let cell = gathered.inputs[i as usize].cell;
            match buffer.is_deleted() {
                Ok(false) => cell.set(buffer),
                _ => cell.lose(),
            }
        }
    }
}

impl From<tpu_hlo::Error> for Error {
    fn from(e: tpu_hlo::Error) -> Self {
        Self::Op(e.into())
    }
}
