//! Calls from the dispatcher.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::slice;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use smallvec::SmallVec;
use tpu_eager::{
    Arg, Call, Context, DType, Entry, Error, Host, Kernel, Number, Outcome, Precision, Settings,
    Tensor, from_scalar_type, runtime, scalar_type,
};
use tpu_obs::{counters, settings};
use tpu_ops::schema::{Schema, plan};

use crate::error::{guard, refuse};
use crate::graph;
use crate::storage::{cell, into_raw, unsupported};

/// `TpuTensor` of shim.h.
#[repr(C)]
pub(crate) struct TpuTensor {
    cell: *mut c_void,
    sizes: *const i64,
    strides: *const i64,
    offset: i64,
    ndim: i32,
    dtype: i8,
    flags: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Payload {
    int: i64,
    float: f64,
    pointer: *const c_void,
}

/// `TpuArg` of shim.h.
#[repr(C)]
struct TpuArg {
    tag: u8,
    number: u8,
    dtype: i8,
    wrapped: u8,
    len: u32,
    payload: Payload,
    imaginary: f64,
}

/// `TpuContext` of shim.h.
#[repr(C)]
struct TpuContext {
    default_dtype: i8,
    deterministic: u8,
}

/// `TpuResult` of shim.h.
#[repr(C)]
struct TpuResult {
    cell: *mut c_void,
    sizes: *const i64,
    strides: *const i64,
    nbytes: usize,
    ndim: i32,
    index: i32,
    dtype: i8,
}

unsafe extern "C" {
    /// shim/runtime.cc
    fn tpu_generator_reserve(generator: *mut c_void, blocks: u64, seed: *mut u64, offset: *mut u64);
    /// shim/boxed.cc: of float32 products; 0 highest, 1 high, 2 medium.
    fn tpu_precision() -> u8;
    /// shim/boxed.cc
    fn tpu_register_kernels();
    /// shim/boxed.cc: runs `body(argument)` as an event of PyTorch's profiler.
    fn tpu_span(name: *const c_char, body: extern "C" fn(*mut c_void), argument: *mut c_void);
}

/// Registers a kernel for every overload that the table serves.
pub(crate) fn register() {
    // SAFETY: the interpreter lock makes this call the only one, and the device is registered.
    unsafe { tpu_register_kernels() }
}

/// Whether Ctrl-C was pressed. The exception itself cannot pass through the C++ frames between
/// here and Python: it is raised again as soon as Python runs.
fn interrupted() -> bool {
    Python::try_attach(|py| {
        let pressed = py.check_signals().is_err();
        if pressed {
            // SAFETY: the interpreter is attached.
            unsafe { pyo3::ffi::PyErr_SetInterrupt() };
        }
        pressed
    })
    .unwrap_or(false)
}

/// Kernels by id, and for each the arguments that are a `ScalarType`, which the dispatcher passes
/// as an integer.
static KERNELS: OnceLock<Vec<(Kernel, SmallVec<[u8; 2]>)>> = OnceLock::new();

/// The kernel that stands for the graph whose id is the first argument.
const GRAPH: u32 = u32::MAX;
/// Return code of `tpu_call`: `out=` tensors have to be resized.
const RESIZE: i32 = 100;

thread_local! {
    /// Holds the shapes that the results of the thread's last call point at.
    static SHAPES: RefCell<Option<Arc<Entry>>> = const { RefCell::new(None) };
}

/// A tensor of the device.
///
/// # Safety
/// The description's pointers are live during `'a`.
pub(crate) unsafe fn tensor<'a>(t: &TpuTensor) -> Result<Tensor<'a>, Error> {
    let dtype = from_scalar_type(t.dtype).ok_or_else(|| unsupported(t.dtype))?;
    static NOTHING: std::sync::LazyLock<tpu_eager::Cell> =
        std::sync::LazyLock::new(|| tpu_eager::Cell::undefined(0));
    let n = t.ndim as usize;
    // SAFETY: by the contract above; a storage without memory has a null data pointer.
    let (cell, sizes, strides) = unsafe {
        let cell = if t.cell.is_null() {
            &*NOTHING
        } else {
            cell(t.cell)
        };
        (
            cell,
            slice::from_raw_parts(t.sizes, n),
            slice::from_raw_parts(t.strides, n),
        )
    };
    let (conj, neg) = (t.flags & 1 != 0, t.flags & 2 != 0);
    Ok(Tensor {
        cell,
        dtype,
        sizes,
        strides,
        offset: t.offset,
        conj,
        neg,
    })
}

fn number(tag: u8, a: &TpuArg) -> Number {
    // SAFETY: the tag says which member the shim has written.
    unsafe {
        match tag {
            4 => Number::Int(a.payload.int),
            6 => Number::Bool(a.payload.int != 0),
            7 => Number::Complex(a.payload.float, a.imaginary),
            _ => Number::Float(a.payload.float),
        }
    }
}

/// An argument.
///
/// # Safety
/// What the argument points at is live during `'a` and of the type that the tag says.
unsafe fn argument<'a>(a: &TpuArg) -> Result<Arg<'a>, Error> {
    // SAFETY: by the contract above, in every arm.
    unsafe {
        let pointer = a.payload.pointer;
        Ok(match a.tag {
            1 => Arg::Tensor(tensor(&*pointer.cast())?),
            2 => Arg::Host {
                number: number(a.number, a),
                dtype: from_scalar_type(a.dtype).ok_or_else(|| unsupported(a.dtype))?,
                wrapped: a.wrapped != 0,
            },
            3 => {
                let member = |t: &TpuTensor| {
                    if t.sizes.is_null() {
                        Ok(None)
                    } else {
                        tensor(t).map(Some)
                    }
                };
                Arg::Tensors(
                    list(pointer, a.len)
                        .iter()
                        .map(member)
                        .collect::<Result<_, _>>()?,
                )
            }
            4..=7 => Arg::Number(number(a.tag, a)),
            8 => Arg::Ints(numbers(pointer, a.len).map(Number::to_i64).collect()),
            9 => Arg::Floats(numbers(pointer, a.len).map(Number::to_f64).collect()),
            10 => Arg::Bools(numbers(pointer, a.len).map(Number::to_bool).collect()),
            11 => Arg::Numbers(numbers(pointer, a.len).collect()),
            12 => Arg::Str(std::str::from_utf8(list(pointer, a.len)).unwrap_or_default()),
            _ => Arg::None,
        })
    }
}

/// # Safety
/// `pointer` points at `len` numbers that live during `'a`; it may be null for none.
unsafe fn numbers<'a>(pointer: *const c_void, len: u32) -> impl Iterator<Item = Number> + 'a {
    // SAFETY: by the contract above.
    unsafe { list::<'a, TpuArg>(pointer, len) }
        .iter()
        .map(|n| number(n.tag, n))
}

/// # Safety
/// `pointer` points at `len` values of type `T` that live during `'a`; it may be null for none.
unsafe fn list<'a, T>(pointer: *const c_void, len: u32) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: by the contract above.
    unsafe { slice::from_raw_parts(pointer.cast::<T>(), len as usize) }
}

/// Sets `blocks` of a generator's random bits aside (null: the default generator's); seed, and
/// blocks given out before.
pub(crate) fn reserve(generator: *mut c_void, blocks: u64) -> (u64, u64) {
    let (mut seed, mut offset) = (0, 0);
    // SAFETY: a live generator of the device, or null; both results outlive the call.
    unsafe { tpu_generator_reserve(generator, blocks, &raw mut seed, &raw mut offset) };
    (seed, offset)
}

/// The process that calls: its generator, its signals, its profiler.
struct Caller(*mut c_void);

impl Host for Caller {
    fn reserve(&self, blocks: u64) -> (u64, u64) {
        reserve(self.0, blocks)
    }

    fn precision(&self) -> Precision {
        // SAFETY: PyTorch's settings are there as long as the process.
        let asked = unsafe { tpu_precision() };
        match (asked, settings::matmul_precision()) {
            (2, _) | (_, settings::MatmulPrecision::Medium) => Precision::Default,
            (1, _) | (_, settings::MatmulPrecision::High) => Precision::High,
            _ => Precision::Highest,
        }
    }

    fn interrupted(&self) -> bool {
        interrupted()
    }

    fn line(&self) -> String {
        Python::try_attach(|py| {
            let explain = py.import("torch_tpu._explain")?;
            explain.call_method0("line")?.extract()
        })
        .and_then(PyResult::ok)
        .unwrap_or_default()
    }

    fn span(&self, name: &str, mut run: &mut dyn FnMut()) {
        extern "C" fn body(run: *mut c_void) {
            // SAFETY: `tpu_span` passes on what it was given below, during that call.
            unsafe { (*run.cast::<&mut dyn FnMut()>())() }
        }
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the shim calls `body` once, before it returns.
        unsafe { tpu_span(name.as_ptr(), body, (&raw mut run).cast()) };
    }
}

fn context(c: &TpuContext) -> Context {
    let default_dtype = from_scalar_type(c.default_dtype).unwrap_or(DType::F32);
    let deterministic = c.deterministic != 0;
    Context {
        settings: Settings {
            default_dtype,
            deterministic,
            tpu: runtime::is_tpu(),
            ..Settings::default()
        },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_plan(schemas: *const *const c_char, count: u32, ids: *mut u32) {
    guard(|| {
        // SAFETY: the shim passes `count` schema strings and room for as many ids.
        let (texts, ids) = unsafe {
            (
                slice::from_raw_parts(schemas, count as usize),
                slice::from_raw_parts_mut(ids, count as usize),
            )
        };
        // SAFETY: as above.
        let parse =
            |text: &*const c_char| Schema::parse(unsafe { CStr::from_ptr(*text) }.to_str().ok()?);
        let parsed: Vec<Option<Schema>> = texts.iter().map(parse).collect();
        let known: Vec<Schema> = parsed.iter().flatten().cloned().collect();
        let mut plans = plan(&known).into_iter();
        let mut kernels = Vec::new();
        for (schema, id) in parsed.iter().zip(ids) {
            *id = u32::MAX;
            let Some(schema) = schema else { continue };
            if let Some(Some(plan)) = plans.next() {
                *id = kernels.len() as u32;
                let types = schema
                    .args
                    .iter()
                    .enumerate()
                    .filter(|(_, a)| a.ty == "ScalarType");
                kernels.push((Kernel::new(plan), types.map(|(i, _)| i as u8).collect()));
            }
        }
        // The shim registers once; a second registration would find the first one's kernels.
        let _ = KERNELS.set(kernels);
        Ok(0)
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_call(
    kernel: u32,
    args: *const TpuArg,
    count: u32,
    ctx: *const TpuContext,
    generator: *mut c_void,
    results: *mut TpuResult,
    capacity: u32,
    produced: *mut u32,
) -> i32 {
    guard(|| {
        // SAFETY: the shim passes live arguments and a context for the call's duration.
        let (raw, ctx) = unsafe { (slice::from_raw_parts(args, count as usize), &*ctx) };
        let kernels = KERNELS.get().map(Vec::as_slice).unwrap_or_default();
        let known = match (kernel, raw.first()) {
            (GRAPH, Some(id)) => graph::find(number(id.tag, id).to_i64()).map(|k| (k, &[][..])),
            _ => kernels
                .get(kernel as usize)
                .map(|(k, types)| (k, &types[..])),
        };
        let Some((kernel, types)) = known else {
            return Ok(refuse(
                1,
                "TPU9002: a kernel was called that is not registered",
            ));
        };
        let mut args = SmallVec::<[Arg<'_>; 12]>::new();
        for a in raw {
            // SAFETY: as above.
            args.push(unsafe { argument(a)? });
        }
        for i in types {
            if let Arg::Number(Number::Int(n)) = args[*i as usize] {
                let dtype = from_scalar_type(n as i8).ok_or_else(|| unsupported(n as i8))?;
                args[*i as usize] = Arg::DType(dtype);
            }
        }
        let host = Caller(generator);
        let call = Call {
            kernel,
            args: &args,
            context: context(ctx),
            host: &host,
        };
        let outcome = call.run()?;
        // SAFETY: the shim passes room for `capacity` results and for their number.
        Ok(unsafe { give(outcome, results, capacity, produced) })
    })
}

/// Writes what came of a call for the shim.
///
/// # Safety
/// `results` has room for `capacity` entries, `produced` for one.
unsafe fn give(
    outcome: Outcome,
    results: *mut TpuResult,
    capacity: u32,
    produced: *mut u32,
) -> i32 {
    let (entry, list, code) = match outcome {
        Outcome::Done(entry, cells) => {
            let mut list = SmallVec::<[TpuResult; 2]>::new();
            for (shape, cell) in entry.fresh.iter().zip(cells) {
                list.push(fresh(shape.as_ref(), cell));
            }
            (entry, list, 0)
        }
        Outcome::Resize(entry) => {
            let list = entry.resize.iter().map(|(index, like)| TpuResult {
                cell: std::ptr::null_mut(),
                sizes: like.sizes.as_ptr(),
                strides: like.strides.as_ptr(),
                nbytes: 0,
                ndim: like.sizes.len() as i32,
                index: *index as i32,
                dtype: 0,
            });
            let list = list.collect();
            (entry, list, RESIZE)
        }
    };
    if list.len() > capacity as usize {
        return refuse(
            1,
            "TPU9003: an operator gave more results than its schema has",
        );
    }
    // SAFETY: by the contract above, and the length was checked.
    unsafe {
        produced.write(list.len() as u32);
        for (i, result) in list.into_iter().enumerate() {
            results.add(i).write(result);
        }
    }
    SHAPES.with(|shapes| *shapes.borrow_mut() = Some(entry));
    code
}

fn fresh(shape: Option<&tpu_eager::Fresh>, cell: Option<tpu_eager::Cell>) -> TpuResult {
    let (Some(f), Some(cell)) = (shape, cell) else {
        return TpuResult {
            cell: std::ptr::null_mut(),
            sizes: std::ptr::null(),
            strides: std::ptr::null(),
            nbytes: 0,
            ndim: 0,
            index: 0,
            dtype: 0,
        };
    };
    TpuResult {
        cell: into_raw(cell),
        sizes: f.sizes.as_ptr(),
        strides: f.strides.as_ptr(),
        nbytes: f.nbytes,
        ndim: f.sizes.len() as i32,
        index: 0,
        dtype: scalar_type(f.dtype),
    }
}

/// Whether the results of an operator are sparse or quantised, and could not come back.
fn makes_other_layouts(op: &str) -> bool {
    let base = op.rsplit("::").next().unwrap_or(op);
    let base = base.trim_start_matches('_');
    [
        "to_sparse",
        "quantize_per_",
        "sparse_coo",
        "sparse_compressed",
    ]
    .iter()
    .any(|start| base.starts_with(start))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tpu_fallback(op: *const c_char, bytes: u64, first: *mut u8) -> i32 {
    guard(|| {
        // SAFETY: the shim passes a NUL-terminated name and a byte to write to.
        let op = unsafe { CStr::from_ptr(op) }.to_string_lossy();
        if makes_other_layouts(&op) {
            let message = format!(
                "TPU2003: {op}: the device \"tpu\" has dense tensors only; hint: use the CPU"
            );
            return Ok(refuse(5, &message));
        }
        let policy = settings::fallback();
        if policy == settings::Fallback::Error {
            let message = format!(
                "TPU2002: {op} has no kernel for the device \"tpu\"; hint: \
                 TORCH_TPU_FALLBACK=warn runs it on the CPU"
            );
            return Ok(refuse(5, &message));
        }
        let before = counters::fallback(&op, bytes);
        let warn = policy == settings::Fallback::Warn && before == 0;
        if warn {
            refuse(
                0,
                &format!(
                    "TPU2002: {op} has no kernel for the device \"tpu\" and runs on the CPU; hint: \
                 torch_tpu.stats() counts such calls, TORCH_TPU_FALLBACK=error forbids them"
                ),
            );
        }
        // SAFETY: as above.
        unsafe { first.write(u8::from(warn)) };
        Ok(0)
    })
}
