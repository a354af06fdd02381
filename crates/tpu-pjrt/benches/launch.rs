//! What the safe API costs on top of the plugin: the same calls made raw and made through it,
//! taking turns, the best turn of both: what is left when nothing disturbs.
//!
//! ```sh
//! TORCH_TPU_TEST_PLUGINS=... cargo bench -p tpu-pjrt
//! ```
#![expect(
    unsafe_code,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark"
)]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;
use tpu_pjrt::{
    Arg, Buffer, Client, CompileOptions, ElementType, Executable, HostData, Platform, Plugin,
    Shape, Signature, arguments,
};

/// What `ffi.rs` expects of the crate that includes it.
mod call {
    /// See `src/call.rs`.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe trait Args {
        const SLOT: usize;
        #[expect(dead_code, reason = "only for messages")]
        const NAME: &'static str;
    }
}

#[path = "../src/ffi.rs"]
#[expect(
    non_upper_case_globals,
    non_snake_case,
    dead_code,
    reason = "names of the C headers"
)]
mod ffi;

const TURNS: usize = 200;
const CALLS: usize = 200;

fn main() {
    let plugins = std::env::var("TORCH_TPU_TEST_PLUGINS").unwrap_or_default();
    for path in plugins.split(':').filter(|path| !path.is_empty()) {
        let plugin = Plugin::load(path.as_ref()).unwrap();
        println!("{}", plugin.path().display());
        let client = Platform::Cpu.client(&plugin).unwrap();
        let raw = Raw::new(path);
        launches(&client, &raw, &[1]);
        launches(&client, &raw, &[1000]);
        transfers(&client, &raw, 1);
        transfers(&client, &raw, 1000);
    }
}

/// The figures of an addition of two arrays.
fn launches(client: &Arc<Client>, raw: &Raw, dims: &[i64]) {
    let shape = Shape::new(ElementType::F32, dims);
    let size = dims[0];
    let add = program(client, &shape, "");
    let donating = program(client, &shape, "{tf.aliasing_output = 0 : i32}");
    let bytes = vec![0; shape.size_bytes()];
    let x = Arc::new(client.buffer_from_host(&bytes, &shape, 0).unwrap());
    let raw_add = raw.compile(&module(size, ""));
    let raw_donating = raw.compile(&module(size, "{tf.aliasing_output = 0 : i32}"));
    let raw_x = raw.buffer(&bytes, &shape);
    let mut chain = client
        .buffer_from_host(&bytes, &shape, 0)
        .ok()
        .map(Arc::new);
    let mut raw_chain = raw.buffer(&bytes, &shape);
    let safe = || {
        let mut args = arguments([Arg::Keep(Arc::clone(&x)), Arg::Keep(Arc::clone(&x))]);
        drop(add.execute(&mut args, 0).unwrap());
    };
    compare(
        &format!("add[{size}]"),
        || raw.drop(raw.execute(raw_add, &[raw_x, raw_x])),
        safe,
    );
    let safe = || {
        let mut args = arguments([
            Arg::Donate(chain.take().unwrap()),
            Arg::Keep(Arc::clone(&x)),
        ]);
        chain = donating.execute(&mut args, 0).unwrap().pop();
    };
    let step = || {
        let next = raw.execute(raw_donating, &[raw_chain, raw_x]);
        raw.drop(raw_chain);
        raw_chain = next;
    };
    compare(&format!("add[{size}], donated"), step, safe);
    let spare = raw.compile(&spared(size));
    let mut dead = raw.buffer(&bytes, &shape);
    let given = || {
        let next = raw.execute(spare, &[raw_x, raw_x, dead]);
        raw.drop(dead);
        dead = next;
    };
    let fresh = || raw.drop(raw.execute(raw_add, &[raw_x, raw_x]));
    let (given, fresh) = alternate(given, fresh);
    println!(
        "  add[{size}], raw: {given:.3} us with the result's memory given, {fresh:.3} us without"
    );
}

/// The figures of copies between the host and the device.
fn transfers(client: &Arc<Client>, raw: &Raw, size: usize) {
    let shape = Shape::new(ElementType::F32, &[size as i64]);
    let bytes = vec![0; shape.size_bytes()];
    let copy = || drop(client.buffer_from_host(&bytes, &shape, 0).unwrap());
    compare(
        &format!("from host[{size}]"),
        || raw.drop(raw.buffer(&bytes, &shape)),
        copy,
    );
    let owner: Arc<Aligned> = Arc::new(Aligned([0; 4096]));
    let adopt = || {
        let address = owner.0.as_ptr();
        // SAFETY: the owner goes with the buffer and nobody writes to it.
        let data = unsafe { HostData::new(address, bytes.len(), Box::new(Arc::clone(&owner))) };
        drop(client.buffer_from_host_zero_copy(data, &shape, 0).unwrap());
    };
    println!("  zero copy[{size}]: {:.3} us", single(adopt));
    let buffer = client.buffer_from_host(&bytes, &shape, 0).unwrap();
    let mut target = bytes.clone();
    println!(
        "  to host[{size}]: {:.3} us",
        single(|| buffer.to_host(&mut target).unwrap())
    );
    println!("  host slice[{size}]: {:.3} us", single(|| read(&buffer)));
}

#[repr(align(64))]
struct Aligned([u8; 4096]);

fn read(buffer: &Buffer) {
    std::hint::black_box(buffer.host_slice().unwrap()[0]);
}

fn module(size: i64, attribute: &str) -> String {
    let ty = format!("tensor<{size}xf32>");
    format!(
        "module @m {{ func.func public @main(%x: {ty} {attribute}, %y: {ty}) -> {ty} {{
            %z = stablehlo.add %x, %y : {ty}
            return %z : {ty} }} }}"
    )
}

/// An addition that is given memory for its result.
fn spared(size: i64) -> String {
    let ty = format!("tensor<{size}xf32>");
    format!(
        "module @m {{ func.func public @main(%x: {ty}, %y: {ty}, %spare: {ty}
            {{tf.aliasing_output = 0 : i32}}) -> {ty} {{
            %z = stablehlo.add %x, %y : {ty}
            return %z : {ty} }} }}"
    )
}

fn program(client: &Arc<Client>, shape: &Shape, attribute: &str) -> Executable {
    let signature = Signature {
        inputs: vec![shape.clone(), shape.clone()],
        outputs: vec![shape.clone()],
    };
    let text = module(shape.dims[0], attribute);
    client
        .compile(&text, &signature, &CompileOptions::quick())
        .unwrap()
}

/// The best times of two calls that take turns.
fn alternate(mut one: impl FnMut(), mut other: impl FnMut()) -> (f64, f64) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        first.push(time(&mut one));
        second.push(time(&mut other));
    }
    (best(first), best(second))
}

fn compare(what: &str, raw: impl FnMut(), safe: impl FnMut()) {
    let (raw, safe) = alternate(raw, safe);
    println!(
        "  {what}: raw {raw:.3} us, safe {safe:.3} us, difference {:.3} us",
        safe - raw
    );
}

fn single(mut call: impl FnMut()) -> f64 {
    best((0..TURNS).map(|_| time(&mut call)).collect())
}

fn best(times: Vec<f64>) -> f64 {
    times.into_iter().fold(f64::INFINITY, f64::min)
}

/// Microseconds of one call, as the mean of a few.
fn time(call: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    start.elapsed().as_secs_f64() * 1e6 / CALLS as f64
}

/// The plugin with nothing in between.
struct Raw {
    table: *mut c_void,
    client: ffi::Ptr,
    device: ffi::Ptr,
}

impl Raw {
    fn new(path: &str) -> Self {
        // SAFETY: the library is loaded already, and stays so.
        let table = unsafe {
            let library = libloading::Library::new(path).unwrap();
            let get: libloading::Symbol<unsafe extern "C" fn() -> *mut c_void> =
                library.get(b"GetPjrtApi").unwrap();
            let table = get();
            std::mem::forget(library);
            table
        };
        let mut raw = Self {
            table,
            client: null_mut(),
            device: null_mut(),
        };
        let count = ffi::PJRT_NamedValue {
            name: "cpu_device_count".as_ptr().cast_mut().cast(),
            name_size: 16,
            type_: ffi::PJRT_NamedValue_kInt64,
            value: ffi::PJRT_NamedValue_value { int64_value: 1 },
            value_size: 1,
            ..ffi::PJRT_NamedValue::NEW
        };
        let inline = ffi::PJRT_NamedValue {
            name: "asynchronous".as_ptr().cast_mut().cast(),
            name_size: 12,
            type_: ffi::PJRT_NamedValue_kBool,
            value: ffi::PJRT_NamedValue_value { bool_value: false },
            value_size: 1,
            ..ffi::PJRT_NamedValue::NEW
        };
        let options = [count, inline];
        let mut args = ffi::PJRT_Client_Create_Args {
            create_options: options.as_ptr().cast_mut().cast(),
            num_options: 2,
            ..ffi::PJRT_Client_Create_Args::NEW
        };
        raw.call(&mut args);
        raw.client = args.client;
        let mut args = ffi::PJRT_Client_AddressableDevices_Args {
            client: raw.client,
            ..ffi::PJRT_Client_AddressableDevices_Args::NEW
        };
        raw.call(&mut args);
        // SAFETY: the client has a device.
        raw.device = unsafe { args.addressable_devices.cast::<ffi::Ptr>().read() };
        raw
    }

    fn call<A: call::Args>(&self, args: &mut A) {
        // SAFETY: the slot holds the function that takes these arguments.
        let status = unsafe {
            let entry = self.table.byte_add(ffi::TABLE_OFFSET + A::SLOT * 8);
            let function = entry
                .cast::<unsafe extern "C" fn(ffi::Ptr) -> ffi::Ptr>()
                .read();
            function((&raw mut *args).cast())
        };
        assert!(status.is_null());
    }

    fn compile(&self, text: &str) -> ffi::Ptr {
        let options = CompileOptions {
            portable: false,
            ..CompileOptions::quick()
        };
        let options = options.encode(&[]);
        let program = ffi::PJRT_Program {
            code: text.as_ptr().cast_mut().cast(),
            code_size: text.len(),
            format: "mlir".as_ptr().cast_mut().cast(),
            format_size: 4,
            ..ffi::PJRT_Program::NEW
        };
        let mut args = ffi::PJRT_Client_Compile_Args {
            client: self.client,
            program: (&raw const program).cast_mut().cast(),
            compile_options: options.as_ptr().cast_mut().cast(),
            compile_options_size: options.len(),
            ..ffi::PJRT_Client_Compile_Args::NEW
        };
        self.call(&mut args);
        args.executable
    }

    fn buffer(&self, bytes: &[u8], shape: &Shape) -> ffi::Ptr {
        let mut args = ffi::PJRT_Client_BufferFromHostBuffer_Args {
            client: self.client,
            data: bytes.as_ptr().cast_mut().cast(),
            type_: shape.ty.number(),
            dims: shape.dims.as_ptr().cast_mut().cast(),
            num_dims: shape.dims.len(),
            device: self.device,
            ..ffi::PJRT_Client_BufferFromHostBuffer_Args::NEW
        };
        self.call(&mut args);
        let mut event = ffi::PJRT_Event_Destroy_Args {
            event: args.done_with_host_buffer,
            ..ffi::PJRT_Event_Destroy_Args::NEW
        };
        self.call(&mut event);
        args.buffer
    }

    fn execute(&self, executable: ffi::Ptr, inputs: &[ffi::Ptr]) -> ffi::Ptr {
        let mut output: ffi::Ptr = null_mut();
        let (list, outputs) = (inputs.as_ptr(), &raw mut output);
        let options = ffi::PJRT_ExecuteOptions::NEW;
        let mut args = ffi::PJRT_LoadedExecutable_Execute_Args {
            executable,
            options: (&raw const options).cast_mut().cast(),
            argument_lists: (&raw const list).cast_mut().cast(),
            num_devices: 1,
            num_args: inputs.len(),
            output_lists: (&raw const outputs).cast_mut().cast(),
            ..ffi::PJRT_LoadedExecutable_Execute_Args::NEW
        };
        self.call(&mut args);
        output
    }

    fn drop(&self, buffer: ffi::Ptr) {
        let mut args = ffi::PJRT_Buffer_Destroy_Args {
            buffer,
            ..ffi::PJRT_Buffer_Destroy_Args::NEW
        };
        self.call(&mut args);
    }
}
