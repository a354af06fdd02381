//! A client: the devices of one plugin, opened.

use crate::call::{self, Api, Handle};
use crate::ffi::{self, Ptr};
use crate::options::named_values;
use crate::{
    Buffer, Code, CompileOptions, Error, Executable, HostData, OptionValue, Plugin, Result, Shape,
    Signature, fork,
};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// One device of a client.
pub struct Device {
    raw: Handle,
    id: i32,
    kind: String,
    debug: String,
}

impl Device {
    /// The plugin's number for it, unique among the devices of all processes.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The model, such as `TPU v6 lite`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The plugin's own description.
    pub fn debug_string(&self) -> &str {
        &self.debug
    }

    pub(crate) fn raw(&self) -> Handle {
        self.raw
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.debug)
    }
}

/// The devices of one plugin, opened by this process. What is made from a client keeps it alive.
/// Keep one for as long as the process lives: at exit it is better left open than closed, since
/// the plugin's own static objects may be gone by then.
pub struct Client {
    plugin: Arc<Plugin>,
    api: Api,
    raw: Handle,
    devices: Vec<Device>,
    platform_name: String,
    platform_version: String,
    host_memory: bool,
    /// Flags of ours that the plugin does not know.
    unknown_flags: Mutex<Vec<&'static str>>,
}

impl Client {
    /// Opens the devices of `plugin`. Platforms have options that suit them:
    /// [`crate::Platform::client`].
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for an unknown option or a value that it does not take, and
    /// whatever the plugin reports.
    pub fn new(plugin: &Arc<Plugin>, options: &[(&str, OptionValue)]) -> Result<Arc<Self>> {
        let api = plugin.api();
        let named = named_values(options)?;
        let mut args = ffi::PJRT_Client_Create_Args {
            create_options: call::address(named.as_slice()),
            num_options: named.len(),
            ..ffi::PJRT_Client_Create_Args::NEW
        };
        // SAFETY: the options outlive the call; without callbacks there is no user data.
        unsafe { api.call(&mut args)? };
        fork::watch();
        let mut client = Self {
            plugin: Arc::clone(plugin),
            api,
            raw: Handle::new(args.client, "client")?,
            devices: Vec::new(),
            platform_name: String::new(),
            platform_version: String::new(),
            host_memory: false,
            unknown_flags: Mutex::default(),
        };
        client.devices = client.read_devices()?;
        client.platform_name = client.read_platform_name()?;
        client.platform_version = client.read_platform_version()?;
        client.host_memory = client.platform_name == "cpu";
        client.tell_limits();
        Ok(Arc::new(client))
    }

    /// The plugin that this client was made from.
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// The platform as XLA calls it, such as `cpu` or `tpu`.
    pub fn platform_name(&self) -> &str {
        &self.platform_name
    }

    /// The version of the platform; for `cpu` it says nothing.
    pub fn platform_version(&self) -> &str {
        &self.platform_version
    }

    /// The devices that this process can use. Their position is the device index everywhere here.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// True where buffers lie in the memory of this process, so that reading one is a copy at most.
    pub fn has_host_memory(&self) -> bool {
        self.host_memory
    }

    /// Compiles a StableHLO module. The plugin takes arguments of a wrong type without a word, so
    /// `signature` is what launches are checked against.
    ///
    /// # Errors
    /// [`Code::Signature`] where the compiled program has other outputs, and whatever the compiler
    /// reports.
    pub fn compile(
        self: &Arc<Self>,
        module: &str,
        signature: &Signature,
        options: &CompileOptions,
    ) -> Result<Executable> {
        let portable = options.portable && !self.prefers_bound();
        let options = CompileOptions {
            portable,
            ..options.clone()
        };
        let raw = loop {
            let unknown = self.unknown_flags();
            match self.compile_raw(module, &options.encode(&unknown)) {
                Ok(raw) => break raw,
                Err(error) => match options.refused_flag(error.message()) {
                    Some(flag) if !unknown.contains(&flag) => self.forget_flag(flag),
                    _ => return Err(error),
                },
            }
        };
        // SAFETY: the executable is new, live, and ours.
        unsafe { Executable::new(self, raw, signature, true) }
    }

    /// Loads what [`Executable::serialize`] gave, in this or another process with the same plugin.
    /// Whether the bytes are intact is not checked by every plugin: store a checksum with them.
    ///
    /// # Errors
    /// [`Code::Signature`] where the program has other outputs, and whatever the plugin reports.
    pub fn deserialize(
        self: &Arc<Self>,
        bytes: &[u8],
        signature: &Signature,
    ) -> Result<Executable> {
        let mut args = ffi::PJRT_Executable_DeserializeAndLoad_Args {
            client: self.raw.raw(),
            serialized_executable: call::address(bytes),
            serialized_executable_size: bytes.len(),
            ..ffi::PJRT_Executable_DeserializeAndLoad_Args::NEW
        };
        // SAFETY: the client is live and the bytes outlive the call.
        unsafe { self.api.call(&mut args)? };
        let raw = Handle::new(args.loaded_executable, "executable")?;
        // SAFETY: the executable is new, live, and ours.
        unsafe { Executable::new(self, raw, signature, false) }
    }

    /// Copies `data`, dense and row-major, to a device. `data` is free again on return.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] where the length does not fit the shape or there is no such
    /// device, and whatever the plugin reports.
    #[inline]
    pub fn buffer_from_host(
        self: &Arc<Self>,
        data: &[u8],
        shape: &Shape,
        device: usize,
    ) -> Result<Buffer> {
        Buffer::copied(self, data, shape, device)
    }

    /// Makes `data` itself the buffer where the device can read it there: on `cpu`, at an address
    /// divisible by 64. Otherwise copies it and lets it go at once.
    ///
    /// # Errors
    /// As for [`Client::buffer_from_host`].
    pub fn buffer_from_host_zero_copy(
        self: &Arc<Self>,
        data: HostData,
        shape: &Shape,
        device: usize,
    ) -> Result<Buffer> {
        Buffer::adopted(self, data, shape, device)
    }

    /// Bytes that device `device` has in all, where the plugin or the system knows.
    pub fn memory_limit(&self, device: usize) -> Option<u64> {
        if self.host_memory {
            return tpu_obs::memory::host_total();
        }
        let mut args = ffi::PJRT_Device_MemoryStats_Args {
            device: self.devices.get(device)?.raw.raw(),
            ..ffi::PJRT_Device_MemoryStats_Args::NEW
        };
        // SAFETY: the device is live while its client is.
        unsafe { self.api.call(&mut args).ok()? };
        args.bytes_limit_is_set
            .then_some(args.bytes_limit.cast_unsigned())
    }

    pub(crate) fn api(&self) -> Api {
        self.api
    }

    pub(crate) fn raw(&self) -> Handle {
        self.raw
    }

    #[inline]
    pub(crate) fn device(&self, index: usize) -> Result<&Device> {
        self.devices
            .get(index)
            .ok_or_else(|| no_device(index, self.devices.len()))
    }

    /// True where programs had better be bound to the only device there is: the CPU plugin launches
    /// such programs faster, and the device has the same number in every process, so that they
    /// can be stored.
    fn prefers_bound(&self) -> bool {
        self.host_memory && matches!(self.devices.as_slice(), [device] if device.id == 0)
    }

    fn compile_raw(&self, module: &str, options: &[u8]) -> Result<Handle> {
        let program = call::program(module);
        let mut args = ffi::PJRT_Client_Compile_Args {
            client: self.raw.raw(),
            program: call::address(&program),
            compile_options: call::address(options),
            compile_options_size: options.len(),
            ..ffi::PJRT_Client_Compile_Args::NEW
        };
        // SAFETY: the client is live; module and options outlive the call.
        unsafe { self.api.call(&mut args)? };
        Handle::new(args.executable, "executable")
    }

    /// The compiler flags of this crate that the plugin turned out not to know, and that later
    /// compilations therefore leave out.
    pub fn unknown_flags(&self) -> Vec<&'static str> {
        self.unknown_flags
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn forget_flag(&self, flag: &'static str) {
        let mut flags = self
            .unknown_flags
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !flags.contains(&flag) {
            flags.push(flag);
        }
    }

    fn tell_limits(&self) {
        for device in 0..self.devices.len() {
            if let Some(limit) = self.memory_limit(device) {
                tpu_obs::memory::set_limit(device, limit);
            }
        }
    }

    fn read_devices(&self) -> Result<Vec<Device>> {
        let mut args = ffi::PJRT_Client_AddressableDevices_Args {
            client: self.raw.raw(),
            ..ffi::PJRT_Client_AddressableDevices_Args::NEW
        };
        // SAFETY: the client is live.
        unsafe { self.api.call(&mut args)? };
        // SAFETY: the call succeeded, so both fields describe an array of the client.
        let devices: &[Ptr] =
            unsafe { call::array(args.addressable_devices, args.num_addressable_devices) };
        devices
            .iter()
            .map(|&device| self.read_device(device))
            .collect()
    }

    fn read_device(&self, raw: Ptr) -> Result<Device> {
        let mut described = ffi::PJRT_Device_GetDescription_Args {
            device: raw,
            ..ffi::PJRT_Device_GetDescription_Args::NEW
        };
        // SAFETY: the device is live while its client is; the same goes for its description.
        unsafe { self.api.call(&mut described)? };
        let device_description = described.device_description;
        let mut id = ffi::PJRT_DeviceDescription_Id_Args {
            device_description,
            ..ffi::PJRT_DeviceDescription_Id_Args::NEW
        };
        let mut kind = ffi::PJRT_DeviceDescription_Kind_Args {
            device_description,
            ..ffi::PJRT_DeviceDescription_Kind_Args::NEW
        };
        let mut debug = ffi::PJRT_DeviceDescription_DebugString_Args {
            device_description,
            ..ffi::PJRT_DeviceDescription_DebugString_Args::NEW
        };
        // SAFETY: as above; the texts are the description's.
        unsafe {
            self.api.call(&mut id)?;
            self.api.call(&mut kind)?;
            self.api.call(&mut debug)?;
            Ok(Device {
                raw: Handle::new(raw, "device")?,
                id: id.id,
                kind: call::text(kind.device_kind, kind.device_kind_size),
                debug: call::text(debug.debug_string, debug.debug_string_size),
            })
        }
    }

    fn read_platform_name(&self) -> Result<String> {
        let mut args = ffi::PJRT_Client_PlatformName_Args {
            client: self.raw.raw(),
            ..ffi::PJRT_Client_PlatformName_Args::NEW
        };
        // SAFETY: the client is live; the text is the client's.
        unsafe {
            self.api.call(&mut args)?;
            Ok(call::text(args.platform_name, args.platform_name_size))
        }
    }

    fn read_platform_version(&self) -> Result<String> {
        let mut args = ffi::PJRT_Client_PlatformVersion_Args {
            client: self.raw.raw(),
            ..ffi::PJRT_Client_PlatformVersion_Args::NEW
        };
        // SAFETY: the client is live; the text is the client's.
        unsafe {
            self.api.call(&mut args)?;
            Ok(call::text(
                args.platform_version,
                args.platform_version_size,
            ))
        }
    }
}

#[cold]
fn no_device(index: usize, count: usize) -> Error {
    Error::new(
        Code::InvalidArgument,
        format!("no device `{index}`: there are `{count}`"),
    )
}

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Client")
            .field("platform", &self.platform_name)
            .field("devices", &self.devices)
            .field("unknown_flags", &self.unknown_flags())
            .finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut args = ffi::PJRT_Client_Destroy_Args {
            client: self.raw.raw(),
            ..ffi::PJRT_Client_Destroy_Args::NEW
        };
        // SAFETY: the client is live, and nothing made from it is: all of that holds an `Arc` of
        // this client. An error has no reader: in a forked child the client is left alone.
        let _ = unsafe { self.api.call(&mut args) };
    }
}
