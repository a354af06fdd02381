//! Compiled programs and their launch.

use crate::call::{self, Api, Handle};
use crate::ffi::{self, Ptr};
use crate::{Buffer, Client, Code, ElementType, Error, Result, Shape};
use smallvec::SmallVec;
use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;

/// What a program takes and returns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The shape of each argument of `main`.
    pub inputs: Vec<Shape>,
    /// The shape of each of its results.
    pub outputs: Vec<Shape>,
}

/// An argument of a launch.
#[derive(Debug)]
pub enum Arg {
    /// Stays as it is.
    Keep(Arc<Buffer>),
    /// Is used up; nobody else holds it. Where the module aliases this argument with a result, its
    /// memory becomes the result's.
    Donate(Arc<Buffer>),
}

impl Arg {
    /// The buffer itself, no matter how it was to be passed.
    #[inline]
    pub fn into_buffer(self) -> Arc<Buffer> {
        match self {
            Self::Keep(buffer) | Self::Donate(buffer) => buffer,
        }
    }

    /// The buffer itself.
    #[inline]
    pub fn buffer(&self) -> &Buffer {
        match self {
            Self::Keep(buffer) | Self::Donate(buffer) => buffer,
        }
    }
}

impl From<Arc<Buffer>> for Arg {
    fn from(buffer: Arc<Buffer>) -> Self {
        Self::Keep(buffer)
    }
}

impl From<Buffer> for Arg {
    fn from(buffer: Buffer) -> Self {
        Self::Donate(Arc::new(buffer))
    }
}

/// The arguments of a launch.
pub type Args = SmallVec<[Arg; 4]>;

/// The results of a launch.
pub type Outputs = SmallVec<[Arc<Buffer>; 4]>;

/// The arguments of a launch, from an array.
pub fn arguments<const N: usize>(args: [Arg; N]) -> Args {
    args.into_iter().collect()
}

/// Bytes that a program needs on a device, as its compiler counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Arguments.
    pub arguments: u64,
    /// Results, those that alias arguments included.
    pub outputs: u64,
    /// Results that lie in the memory of donated arguments.
    pub aliased: u64,
    /// Memory that is only used while the program runs.
    pub temporary: u64,
    /// The most at any moment; 0 where the plugin does not count it.
    pub peak: u64,
}

/// A compiled program, loaded.
pub struct Executable {
    client: Arc<Client>,
    api: Api,
    loaded: Handle,
    /// The part that is not tied to devices: what can be serialised and asked.
    program: Handle,
    inputs: Vec<Shape>,
    outputs: Vec<Output>,
    /// True where an argument that is not protected might be taken away by a launch.
    aliases: bool,
    /// The index of the device that it was compiled for; `None` where it runs on any.
    device: Option<usize>,
    /// True where it was compiled here, false where it was loaded from bytes.
    compiled: bool,
}

/// What a program needs.
///
/// # Safety
/// `program` is a live executable, loaded or not.
pub(crate) unsafe fn memory_stats(api: Api, program: Handle) -> Result<MemoryStats> {
    let mut args = ffi::PJRT_Executable_GetCompiledMemoryStats_Args {
        executable: program.raw(),
        ..ffi::PJRT_Executable_GetCompiledMemoryStats_Args::NEW
    };
    // SAFETY: the caller's promise.
    unsafe { api.call(&mut args)? };
    let count = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
    Ok(MemoryStats {
        arguments: count(args.argument_size_in_bytes),
        outputs: count(args.output_size_in_bytes),
        aliased: count(args.alias_size_in_bytes),
        temporary: count(args.temp_size_in_bytes),
        peak: count(args.peak_memory_in_bytes),
    })
}

struct Output {
    shape: Shape,
    bytes: usize,
}

impl Executable {
    /// Takes the executable `loaded` over.
    ///
    /// # Safety
    /// `loaded` is a live executable of `client` that nobody else destroys.
    pub(crate) unsafe fn new(
        client: &Arc<Client>,
        loaded: Handle,
        signature: &Signature,
        compiled: bool,
    ) -> Result<Self> {
        let api = client.api();
        let program = program(api, loaded).inspect_err(|_| destroy_loaded(api, loaded))?;
        let mut executable = Self {
            client: Arc::clone(client),
            api,
            loaded,
            program,
            inputs: signature.inputs.clone(),
            outputs: Vec::with_capacity(signature.outputs.len()),
            aliases: true,
            device: None,
            compiled,
        };
        executable.check_signature(signature)?;
        for shape in &signature.outputs {
            let bytes = shape.size_bytes();
            executable.outputs.push(Output {
                shape: shape.clone(),
                bytes,
            });
        }
        executable.aliases = executable.may_take_arguments()?;
        executable.device = executable.read_device()?;
        Ok(executable)
    }

    /// The client that it belongs to.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The program in a form that [`Client::deserialize`] reads, here or in another process with
    /// the same plugin.
    ///
    /// # Errors
    /// [`Code::FailedPrecondition`] where the program itself was loaded from bytes: CPU plugins
    /// then return bytes that load but do not run. Else whatever the plugin reports.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        if !self.compiled {
            let message = "a program that was loaded from bytes cannot be serialized again";
            return Err(Error::new(Code::FailedPrecondition, message));
        }
        let mut args = ffi::PJRT_Executable_Serialize_Args {
            executable: self.program.raw(),
            ..ffi::PJRT_Executable_Serialize_Args::NEW
        };
        // SAFETY: the program is live.
        unsafe { self.api.call(&mut args)? };
        type Deleter = unsafe extern "C" fn(Ptr);
        // SAFETY: the bytes belong to an object that lives until its deleter is called, which has
        // this signature; `Option` of a function pointer is a nullable pointer.
        unsafe {
            let bytes = call::array(args.serialized_bytes, args.serialized_bytes_size).to_vec();
            let deleter = args.serialized_executable_deleter;
            if let Some(delete) = std::mem::transmute::<Ptr, Option<Deleter>>(deleter) {
                delete(args.serialized_executable);
            }
            Ok(bytes)
        }
    }

    /// What the program needs.
    ///
    /// # Errors
    /// Whatever the plugin reports.
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        // SAFETY: the program is live.
        unsafe { memory_stats(self.api, self.program) }
    }

    /// Starts the program on device `device` and returns its results, which may not be ready yet.
    /// Plugins limit how many programs are in flight: it blocks at that limit.
    ///
    /// On success `args` is empty. On failure the arguments are still there; where the failure was
    /// the plugin's, donated ones may be [deleted](Buffer::is_deleted).
    ///
    /// # Errors
    /// [`Code::Signature`] where number, type, shape or place of the arguments is not what the
    /// program was declared with; else whatever the plugin reports.
    #[inline]
    pub fn execute(&self, args: &mut Args, device: usize) -> Result<Outputs> {
        self.check_arguments(args, device)?;
        let raw = self.launch(args, device)?;
        if self.aliases {
            // Donated memory is the results' now: free it first, or the peak counts it twice.
            args.retain(|arg| matches!(arg, Arg::Keep(_)));
        }
        let mut outputs = Outputs::new();
        for (output, raw) in self.outputs.iter().zip(raw) {
            let raw = Handle::new(raw, "result")?;
            // SAFETY: the launch made this buffer for us, on this device, and the shape was
            // compared with the program's when it was loaded.
            outputs.push(Arc::new(unsafe {
                Buffer::from_raw(&self.client, raw, &output.shape, output.bytes, device)
            }));
        }
        args.clear();
        Ok(outputs)
    }

    #[inline]
    fn launch(&self, args: &Args, device: usize) -> Result<SmallVec<[Ptr; 4]>> {
        let inputs: SmallVec<[Ptr; 16]> = args.iter().map(|arg| arg.buffer().raw().raw()).collect();
        let execute_device = self.device_to_name(device)?;
        let mut kept: SmallVec<[i64; 16]> = SmallVec::new();
        if self.aliases {
            let is_kept =
                |(index, arg): (usize, &Arg)| matches!(arg, Arg::Keep(_)).then_some(index as i64);
            kept.extend(args.iter().enumerate().filter_map(is_kept));
        }
        let mut outputs: SmallVec<[Ptr; 4]> = SmallVec::from_elem(null_mut(), self.outputs.len());
        let options = ffi::PJRT_ExecuteOptions {
            non_donatable_input_indices: call::address(kept.as_slice()),
            num_non_donatable_input_indices: kept.len(),
            ..ffi::PJRT_ExecuteOptions::NEW
        };
        let (input_list, output_list) = (inputs.as_ptr(), outputs.as_mut_ptr());
        let mut call = ffi::PJRT_LoadedExecutable_Execute_Args {
            executable: self.loaded.raw(),
            options: call::address(&options),
            argument_lists: call::address(&input_list),
            num_devices: 1,
            num_args: inputs.len(),
            output_lists: call::address(&output_list),
            execute_device,
            ..ffi::PJRT_LoadedExecutable_Execute_Args::NEW
        };
        // SAFETY: all handles are live and of this client; there is room for as many results as
        // the program has; kept arguments are listed wherever a launch could take them.
        unsafe { self.api.call(&mut call)? };
        Ok(outputs)
    }

    /// The device to name in a launch: none where the program knows it. Launches of small programs
    /// take two thirds longer where it is named, on the preferred CPU plugin.
    #[inline]
    fn device_to_name(&self, device: usize) -> Result<Ptr> {
        match self.device {
            Some(own) if own == device => Ok(null_mut()),
            Some(own) => Err(wrong_device(own, device)),
            None => Ok(self.client.device(device)?.raw().raw()),
        }
    }

    #[inline]
    fn check_arguments(&self, args: &Args, device: usize) -> Result<()> {
        if args.len() != self.inputs.len() {
            return Err(wrong_count(args.len(), self.inputs.len()));
        }
        for (index, (arg, shape)) in args.iter().zip(&self.inputs).enumerate() {
            let buffer = arg.buffer();
            if buffer.shape() != shape {
                return Err(wrong_shape(index, buffer.shape(), shape));
            }
            if buffer.device() != device || !Arc::ptr_eq(buffer.client(), &self.client) {
                return Err(wrong_place(index, buffer, device));
            }
            if let Arg::Donate(buffer) = arg
                && Arc::strong_count(buffer) > 1
            {
                return Err(shared(index));
            }
        }
        Ok(())
    }

    /// Without this, a wrong declaration would let readers run past the end of a result.
    fn check_signature(&self, signature: &Signature) -> Result<()> {
        let actual = self.output_shapes()?;
        if actual != signature.outputs {
            return Err(wrong_outputs(&actual, &signature.outputs));
        }
        match signature
            .inputs
            .iter()
            .find(|shape| shape.checked_bytes().is_none())
        {
            Some(shape) => {
                let message = format!("`{shape}` is no shape that an argument can have");
                Err(Error::new(Code::Signature, message))
            }
            None => Ok(()),
        }
    }

    fn read_device(&self) -> Result<Option<usize>> {
        let mut args = ffi::PJRT_LoadedExecutable_AddressableDevices_Args {
            executable: self.loaded.raw(),
            ..ffi::PJRT_LoadedExecutable_AddressableDevices_Args::NEW
        };
        // SAFETY: the executable is live, and the array is its own.
        let devices: &[Ptr] = unsafe {
            self.api.call(&mut args)?;
            call::array(args.addressable_devices, args.num_addressable_devices)
        };
        let index_of = |raw: Ptr| {
            let mut devices = self.client.devices().iter();
            devices.position(|device| device.raw().raw() == raw)
        };
        match devices {
            [] => Ok(None),
            [device] => index_of(*device).map(Some).ok_or_else(|| {
                Error::new(
                    Code::Internal,
                    "the program was compiled for an unknown device",
                )
            }),
            _ => Err(Error::new(
                Code::Unimplemented,
                "the program runs on several devices at once",
            )),
        }
    }

    fn output_shapes(&self) -> Result<Vec<Shape>> {
        let mut types = ffi::PJRT_Executable_OutputElementTypes_Args {
            executable: self.program.raw(),
            ..ffi::PJRT_Executable_OutputElementTypes_Args::NEW
        };
        let mut dims = ffi::PJRT_Executable_OutputDimensions_Args {
            executable: self.program.raw(),
            ..ffi::PJRT_Executable_OutputDimensions_Args::NEW
        };
        // SAFETY: the program is live, and the arrays are its own: one type and one rank for each
        // result, and the sizes of all results one after the other.
        let (types, ranks, mut sizes) = unsafe {
            self.api.call(&mut types)?;
            self.api.call(&mut dims)?;
            let ranks: &[usize] = call::array(dims.dim_sizes, dims.num_outputs);
            let types: &[u32] = call::array(types.output_types, types.num_output_types);
            let sizes: &[i64] = call::array(dims.dims, ranks.iter().sum());
            (types, ranks, sizes)
        };
        let shape = |(&ty, &rank): (&u32, &usize)| {
            let (own, rest) = sizes.split_at_checked(rank)?;
            sizes = rest;
            Some(Shape::new(ElementType::from_number(ty)?, own))
        };
        let shapes: Option<Vec<Shape>> = types.iter().zip(ranks).map(shape).collect();
        shapes.ok_or_else(|| {
            Error::new(
                Code::Unimplemented,
                "the program returns a type that buffers cannot hold",
            )
        })
    }

    /// Aliasing is in the module's text; what counts is what the compiler made of it. Arguments
    /// without elements do not show in its figures.
    fn may_take_arguments(&self) -> Result<bool> {
        let aliased = match self.memory_stats() {
            Ok(stats) => stats.aliased > 0,
            Err(error) if error.is_unimplemented() => true,
            Err(error) => return Err(error),
        };
        Ok(aliased || self.inputs.iter().any(|shape| shape.size_bytes() == 0))
    }
}

fn program(api: Api, loaded: Handle) -> Result<Handle> {
    let mut args = ffi::PJRT_LoadedExecutable_GetExecutable_Args {
        loaded_executable: loaded.raw(),
        ..ffi::PJRT_LoadedExecutable_GetExecutable_Args::NEW
    };
    // SAFETY: the executable is live.
    unsafe { api.call(&mut args)? };
    Handle::new(args.executable, "program")
}

fn destroy_loaded(api: Api, loaded: Handle) {
    let mut args = ffi::PJRT_LoadedExecutable_Destroy_Args {
        executable: loaded.raw(),
        ..ffi::PJRT_LoadedExecutable_Destroy_Args::NEW
    };
    // SAFETY: the caller owns the executable and does not use it again; launches in flight keep
    // what they need. An error has no reader: in a forked child it is left alone.
    let _ = unsafe { api.call(&mut args) };
}

#[cold]
fn wrong_count(got: usize, expected: usize) -> Error {
    let message = format!("the program takes `{expected}` arguments, got `{got}`");
    Error::new(Code::Signature, message)
}

#[cold]
fn wrong_shape(index: usize, got: &Shape, expected: &Shape) -> Error {
    let message = format!("argument `{index}` is `{got}`, but the program takes `{expected}`");
    Error::new(Code::Signature, message)
}

#[cold]
fn wrong_place(index: usize, buffer: &Buffer, device: usize) -> Error {
    let place = buffer.device();
    let message = format!(
        "argument `{index}` is on device `{place}` of its client, but the program was started on \
         device `{device}` of its own"
    );
    Error::new(Code::Signature, message)
}

#[cold]
fn shared(index: usize) -> Error {
    let message = format!("argument `{index}` is donated, but is held elsewhere as well");
    Error::new(Code::Signature, message)
}

#[cold]
fn wrong_device(own: usize, device: usize) -> Error {
    let message = format!("the program was compiled for device `{own}`, not for `{device}`");
    Error::new(Code::Signature, message)
}

#[cold]
fn wrong_outputs(actual: &[Shape], declared: &[Shape]) -> Error {
    let list = |shapes: &[Shape]| {
        let shapes: Vec<String> = shapes.iter().map(Shape::to_string).collect();
        shapes.join(", ")
    };
    let (actual, declared) = (list(actual), list(declared));
    let message = format!("the program returns `{actual}`, but is declared to return `{declared}`");
    Error::new(Code::Signature, message)
}

impl fmt::Debug for Executable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outputs: Vec<&Shape> = self.outputs.iter().map(|output| &output.shape).collect();
        out.debug_struct("Executable")
            .field("inputs", &self.inputs)
            .field("outputs", &outputs)
            .finish_non_exhaustive()
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        let mut args = ffi::PJRT_Executable_Destroy_Args {
            executable: self.program.raw(),
            ..ffi::PJRT_Executable_Destroy_Args::NEW
        };
        // SAFETY: the program is live and nothing refers to it any more. An error has no reader.
        let _ = unsafe { self.api.call(&mut args) };
        destroy_loaded(self.api, self.loaded);
    }
}
