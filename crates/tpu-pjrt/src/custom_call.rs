//! Rust functions that programs call: handlers of the XLA FFI, for `stablehlo.custom_call` with
//! `api_version = 4`.

use crate::call;
use crate::ffi::{self, Ptr};
use crate::shape::Element;
use crate::{Code, Dims, ElementType, Error, Plugin, Result, Shape};
use smallvec::SmallVec;
use std::any::Any;
use std::ffi::CString;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null_mut};

/// Number of the FFI extension.
const FFI_EXTENSION: u32 = 5;
/// The name under which XLA's CPU compiler looks handlers up.
const HOST_PLATFORM: &str = "Host";

/// One call of a handler: operands to read, results to fill, and the attributes of the call site
/// (its `backend_config` dictionary).
pub struct CustomCall<'a> {
    /// The operands, in order.
    pub inputs: SmallVec<[View<'a>; 4]>,
    /// The results, in order. Their contents are arbitrary at first.
    pub outputs: SmallVec<[ViewMut<'a>; 4]>,
    /// The attributes.
    pub attributes: Attributes<'a>,
}

/// An operand of a [`CustomCall`], dense and row-major.
pub struct View<'a> {
    array: Array,
    lifetime: PhantomData<&'a [u8]>,
}

/// A result of a [`CustomCall`], dense and row-major.
pub struct ViewMut<'a> {
    array: Array,
    lifetime: PhantomData<&'a mut [u8]>,
}

struct Array {
    data: Ptr,
    elements: usize,
    shape: Shape,
}

impl View<'_> {
    /// Element type and sizes.
    pub fn shape(&self) -> &Shape {
        &self.array.shape
    }

    /// The elements.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] where they are not of type `T`.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        let data = self.array.data_as::<T>()?;
        // SAFETY: the array holds this many elements of a type that `T` stands for; nobody writes
        // to it during the call, since results that overlap operands are refused.
        Ok(unsafe { std::slice::from_raw_parts(data.as_ptr(), self.array.elements) })
    }
}

impl ViewMut<'_> {
    /// Element type and sizes.
    pub fn shape(&self) -> &Shape {
        &self.array.shape
    }

    /// The elements.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] where they are not of type `T`.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        let data = self.array.data_as::<T>()?;
        // SAFETY: the array has room for this many elements of a type that `T` stands for, which
        // any bits are a value of; it overlaps no other operand or result.
        Ok(unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), self.array.elements) })
    }
}

impl Array {
    /// Reads the description of an array.
    ///
    /// # Safety
    /// `raw` points to an `XLA_FFI_Buffer` that is live while the handler runs.
    unsafe fn read(raw: Ptr) -> Result<Self> {
        // SAFETY: the caller's promise; there are `rank` sizes at `dims`.
        let (buffer, dims) = unsafe {
            let buffer = raw.cast::<ffi::XLA_FFI_Buffer>().read();
            let rank = usize::try_from(buffer.rank).unwrap_or(0);
            (buffer, Dims::from_slice(call::array(buffer.dims, rank)))
        };
        let Some(ty) = ElementType::from_ffi_number(buffer.dtype) else {
            return Err(invalid(format!("unknown element type `{}`", buffer.dtype)));
        };
        let shape = Shape { ty, dims };
        let elements = shape.checked_elements().filter(|_| !ty.is_packed());
        match elements {
            Some(elements) => Ok(Self {
                data: buffer.data,
                elements,
                shape,
            }),
            None => Err(invalid(format!("handlers cannot take `{shape}`"))),
        }
    }

    fn data_as<T: Element>(&self) -> Result<NonNull<T>> {
        if !T::TYPES.contains(&self.shape.ty) {
            let (shape, name) = (&self.shape, std::any::type_name::<T>());
            return Err(invalid(format!(
                "`{shape}` does not hold elements of type `{name}`"
            )));
        }
        if self.elements == 0 {
            return Ok(NonNull::dangling());
        }
        let data = self.data.cast::<T>();
        NonNull::new(data)
            .filter(|data| data.is_aligned())
            .ok_or_else(|| {
                let shape = &self.shape;
                Error::new(
                    Code::Internal,
                    format!("`{shape}` lies at a misaligned address"),
                )
            })
    }

    fn overlaps(&self, other: &Self) -> bool {
        let range = |array: &Self| {
            let start = array.data.addr();
            (start, start + array.elements * array.shape.ty.size_bytes())
        };
        let ((start, end), (other_start, other_end)) = (range(self), range(other));
        self.elements > 0 && other.elements > 0 && start < other_end && other_start < end
    }
}

/// The attributes of a call site.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    names: &'a [Ptr],
    types: &'a [u32],
    values: &'a [Ptr],
}

impl Attributes<'_> {
    /// An integer of any width.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] where there is none of this name and type; so for all getters.
    pub fn int(&self, name: &str) -> Result<i64> {
        let scalar = self.scalar(name)?;
        let value = scalar.value;
        // SAFETY: the type says what the value points to.
        let read = unsafe {
            match scalar.dtype {
                ffi::XLA_FFI_DataType_S8 => i64::from(value.cast::<i8>().read()),
                ffi::XLA_FFI_DataType_S16 => i64::from(value.cast::<i16>().read()),
                ffi::XLA_FFI_DataType_S32 => i64::from(value.cast::<i32>().read()),
                ffi::XLA_FFI_DataType_S64 => value.cast::<i64>().read(),
                ffi::XLA_FFI_DataType_U8 => i64::from(value.cast::<u8>().read()),
                ffi::XLA_FFI_DataType_U16 => i64::from(value.cast::<u16>().read()),
                ffi::XLA_FFI_DataType_U32 => i64::from(value.cast::<u32>().read()),
                _ => return Err(no_attribute(name, "an integer")),
            }
        };
        Ok(read)
    }

    /// A number of type `f32` or `f64`.
    pub fn float(&self, name: &str) -> Result<f64> {
        let scalar = self.scalar(name)?;
        // SAFETY: the type says what the value points to.
        unsafe {
            match scalar.dtype {
                ffi::XLA_FFI_DataType_F32 => Ok(f64::from(scalar.value.cast::<f32>().read())),
                ffi::XLA_FFI_DataType_F64 => Ok(scalar.value.cast::<f64>().read()),
                _ => Err(no_attribute(name, "a number")),
            }
        }
    }

    /// True or false.
    pub fn bool(&self, name: &str) -> Result<bool> {
        let scalar = self.scalar(name)?;
        if scalar.dtype != ffi::XLA_FFI_DataType_PRED {
            return Err(no_attribute(name, "a bool"));
        }
        // SAFETY: the type says that the value points to a byte.
        Ok(unsafe { scalar.value.cast::<u8>().read() } != 0)
    }

    /// A text.
    pub fn text(&self, name: &str) -> Result<&str> {
        let missing = || no_attribute(name, "a text");
        let value = self
            .find(name, ffi::XLA_FFI_AttrType_STRING)
            .ok_or_else(missing)?;
        // SAFETY: the type says that the value points to a span of bytes, live during the call.
        let bytes = unsafe { span(value) };
        std::str::from_utf8(bytes).map_err(|_| missing())
    }

    fn scalar(&self, name: &str) -> Result<ffi::XLA_FFI_Scalar> {
        let value = self.find(name, ffi::XLA_FFI_AttrType_SCALAR);
        let value = value.ok_or_else(|| no_attribute(name, "a scalar"))?;
        // SAFETY: the type says that the value points to a scalar, live during the call.
        Ok(unsafe { value.cast::<ffi::XLA_FFI_Scalar>().read() })
    }

    fn find(&self, name: &str, ty: u32) -> Option<Ptr> {
        // SAFETY: names are spans of bytes, live during the call.
        let is_name = |&raw: &Ptr| unsafe { span(raw) } == name.as_bytes();
        let index = self.names.iter().position(is_name)?;
        (self.types[index] == ty).then_some(self.values[index])
    }
}

/// The bytes of a span.
///
/// # Safety
/// `raw` points to an `XLA_FFI_ByteSpan` that is live for `'a`, and so are its bytes.
unsafe fn span<'a>(raw: Ptr) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe {
        let span = raw.cast::<ffi::XLA_FFI_ByteSpan>().read();
        call::array(span.ptr, span.len)
    }
}

impl Plugin {
    /// Makes `handler` the target of `stablehlo.custom_call @name` with `api_version = 4`, in every
    /// program that this plugin compiles or loads from now on. Handlers run in the thread of the
    /// launch or in one of the plugin's. An error or a panic fails the launch.
    ///
    /// `handler` must be a plain function or a closure that captures nothing: the FFI has no room
    /// for more.
    ///
    /// # Errors
    /// [`Code::Unimplemented`] where the plugin has no FFI (its devices do not run host code), and
    /// whatever the plugin reports, such as a name that is taken.
    pub fn register_ffi<F>(&self, name: &str, handler: F) -> Result<()>
    where
        F: Fn(&mut CustomCall<'_>) -> Result<()> + Copy + Send + Sync + 'static,
    {
        const { assert!(size_of::<F>() == 0, "a handler cannot capture anything") };
        let _ = handler;
        let extension = self.api().extension(FFI_EXTENSION).ok_or_else(|| {
            Error::new(
                Code::Unimplemented,
                "the plugin does not run custom calls on the host",
            )
        })?;
        // SAFETY: the extension with this number is of this type and never freed.
        let extension = unsafe { extension.raw().cast::<ffi::PJRT_FFI_Extension>().read() };
        let target: unsafe extern "C" fn(Ptr) -> Ptr = run_handler::<F>;
        let mut args = ffi::PJRT_FFI_Register_Handler_Args {
            target_name: call::address(name.as_bytes()),
            target_name_size: name.len(),
            handler: target as Ptr,
            platform_name: call::address(HOST_PLATFORM.as_bytes()),
            platform_name_size: HOST_PLATFORM.len(),
            ..ffi::PJRT_FFI_Register_Handler_Args::NEW
        };
        // SAFETY: the function takes these arguments; the handler has the FFI's signature.
        unsafe {
            self.api()
                .call_extension(extension.register_handler, &mut args)
        }
    }
}

/// A call, as the plugin passes it. Frames of older versions end before the last field: no
/// reference to a whole one is ever made.
type Frame = *const ffi::XLA_FFI_CallFrame;

/// What the plugin calls. It is given either a request for the handler's version, or a call.
///
/// # Safety
/// `raw` points to an `XLA_FFI_CallFrame`, live during the call.
unsafe extern "C" fn run_handler<F>(raw: Ptr) -> Ptr
where
    F: Fn(&mut CustomCall<'_>) -> Result<()> + Copy + Send + Sync + 'static,
{
    let frame: Frame = raw.cast();
    // SAFETY: the frame and its extensions are live.
    let is_call =
        unsafe { !answer_metadata(frame) && (*frame).stage == ffi::XLA_FFI_ExecutionStage_EXECUTE };
    if !is_call {
        return null_mut();
    }
    // SAFETY: `F` has no bytes, so any aligned address holds one; `register_ffi` was given one.
    let handler = unsafe { NonNull::<F>::dangling().as_ref() };
    // SAFETY: what the frame points to is live during the call.
    let run = || unsafe { read_call(frame) }.and_then(|mut call| handler(&mut call));
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let message = format!("a custom call handler panicked: {}", panic_message(&*panic));
        Err(Error::new(Code::Internal, message))
    });
    match result {
        Ok(()) => null_mut(),
        // SAFETY: the frame holds the function table of the FFI.
        Err(error) => unsafe { status(frame, &error) },
    }
}

/// Answers a request for the handler's version with the plugin's own, which it knows for sure.
///
/// # Safety
/// The frame and its extensions are live.
unsafe fn answer_metadata(frame: Frame) -> bool {
    // SAFETY: the caller's promise.
    let mut next = unsafe { (*frame).extension_start };
    while !next.is_null() {
        // SAFETY: every extension begins with its base; one of this type holds metadata, and the
        // frame its table, both with an `XLA_FFI_Api_Version` after their size.
        unsafe {
            let base = next.cast::<ffi::XLA_FFI_Extension_Base>().read();
            if base.type_ == ffi::XLA_FFI_Extension_Metadata {
                let extension = next.cast::<ffi::XLA_FFI_Metadata_Extension>().read();
                let metadata = extension.metadata.cast::<ffi::XLA_FFI_Metadata>();
                let known = (*(*frame).api.cast::<ffi::XLA_FFI_Api>()).api_version;
                (*metadata).api_version.major_version = known.major_version;
                (*metadata).api_version.minor_version = known.minor_version;
                return true;
            }
            next = base.next;
        }
    }
    false
}

/// # Safety
/// The frame and everything that it points to is live for `'a`.
unsafe fn read_call<'a>(frame: Frame) -> Result<CustomCall<'a>> {
    let count = |size: i64| usize::try_from(size).unwrap_or(0);
    // SAFETY: the caller's promise; sizes go with the pointers.
    unsafe {
        let (args, rets, attrs) = ((*frame).args, (*frame).rets, (*frame).attrs);
        let inputs = read_arrays(args.types, args.args, count(args.size))?;
        let outputs = read_arrays(rets.types, rets.rets, count(rets.size))?;
        check_overlap(&inputs, &outputs)?;
        let view = |array| View {
            array,
            lifetime: PhantomData,
        };
        let view_mut = |array| ViewMut {
            array,
            lifetime: PhantomData,
        };
        Ok(CustomCall {
            inputs: inputs.into_iter().map(view).collect(),
            outputs: outputs.into_iter().map(view_mut).collect(),
            attributes: Attributes {
                names: call::array(attrs.names, count(attrs.size)),
                types: call::array(attrs.types, count(attrs.size)),
                values: call::array(attrs.attrs, count(attrs.size)),
            },
        })
    }
}

/// # Safety
/// There are `len` types and as many descriptions, live during the call.
unsafe fn read_arrays(types: Ptr, values: Ptr, len: usize) -> Result<SmallVec<[Array; 4]>> {
    // SAFETY: the caller's promise. The numbers of buffers among operands and results are equal.
    let (types, values): (&[u32], &[Ptr]) =
        unsafe { (call::array(types, len), call::array(values, len)) };
    let read = |(&ty, &value): (&u32, &Ptr)| {
        if ty != ffi::XLA_FFI_ArgType_BUFFER {
            return Err(invalid("handlers take arrays only".to_owned()));
        }
        // SAFETY: a value of this type is an `XLA_FFI_Buffer`.
        unsafe { Array::read(value) }
    };
    types.iter().zip(values).map(read).collect()
}

/// A module may ask for results in place of operands; that would be a write behind a shared slice.
fn check_overlap(inputs: &[Array], outputs: &[Array]) -> Result<()> {
    for (index, output) in outputs.iter().enumerate() {
        let others = inputs.iter().chain(&outputs[index + 1..]);
        if others.into_iter().any(|other| output.overlaps(other)) {
            return Err(invalid(format!(
                "result `{index}` of the custom call is aliased"
            )));
        }
    }
    Ok(())
}

/// The plugin's own error object for `error`; null, which means success, only without memory.
///
/// # Safety
/// The frame is live and holds the function table of the FFI.
unsafe fn status(frame: Frame, error: &Error) -> Ptr {
    let message = error.message().replace('\0', " ");
    let message = CString::new(message).unwrap_or_default();
    let mut args = ffi::XLA_FFI_Error_Create_Args {
        message: message.as_ptr().cast_mut().cast(),
        errc: error.code().number(),
        ..ffi::XLA_FFI_Error_Create_Args::NEW
    };
    // SAFETY: the table has this function since the FFI's first version; it copies the message.
    unsafe {
        let create = (*(*frame).api.cast::<ffi::XLA_FFI_Api>()).XLA_FFI_Error_Create;
        let create = std::mem::transmute::<Ptr, unsafe extern "C" fn(Ptr) -> Ptr>(create);
        create((&raw mut args).cast())
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

fn invalid(message: String) -> Error {
    Error::new(Code::InvalidArgument, message)
}

#[cold]
fn no_attribute(name: &str, kind: &str) -> Error {
    invalid(format!(
        "the custom call has no attribute `{name}` that is {kind}"
    ))
}
