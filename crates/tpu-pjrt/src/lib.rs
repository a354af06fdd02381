//! The PJRT C API made safe: load a plugin, make a client, move data, compile and run programs.
//!
//! ```no_run
//! use std::path::Path;
//! use tpu_pjrt::{CompileOptions, ElementType, Platform, Plugin, Shape, Signature, arguments};
//!
//! let plugin = Plugin::load(Path::new("pjrt_c_api_cpu_plugin.so"))?;
//! let client = Platform::Cpu.client(&plugin)?;
//! let shape = Shape::new(ElementType::F32, &[2]);
//! let text = "module @m { func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
//!     %y = stablehlo.add %x, %x : tensor<2xf32>
//!     return %y : tensor<2xf32> } }";
//! let signature = Signature { inputs: vec![shape.clone()], outputs: vec![shape.clone()] };
//! let program = client.compile(text, &signature, &CompileOptions::default())?;
//! let x = client.buffer_from_host(&[0; 8], &shape, 0)?;
//! let outputs = program.execute(&mut arguments([x.into()]), 0)?;
//! let mut bytes = [0; 8];
//! outputs[0].to_host(&mut bytes)?;
//! # Ok::<(), tpu_pjrt::Error>(())
//! ```
//!
//! Objects keep their client alive; all are `Send` and `Sync`. Buffers are immutable. Every call
//! made in a forked child gives [`Code::Forked`], since the plugin would hang there.
#![expect(unsafe_code, reason = "this crate is the boundary to C")]

mod buffer;
mod call;
mod client;
mod custom_call;
mod error;
mod event;
mod executable;
#[expect(
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    reason = "generated: names and extent of the C headers"
)]
mod ffi;
mod fork;
mod options;
pub mod platform;
mod plugin;
mod shape;
mod topology;

pub use buffer::{Buffer, HostData};
pub use client::{Client, Device};
pub use custom_call::{Attributes, CustomCall, View, ViewMut};
pub use error::{Code, Error, Result};
pub use executable::{Arg, Args, Executable, MemoryStats, Outputs, Signature, arguments};
pub use fork::is_forked;
pub use options::{CompileOptions, EFFORTS, LEVELS, OptionValue, check_override};
pub use platform::Platform;
pub use plugin::Plugin;
pub use shape::{Dims, Element, ElementType, Shape};
pub use topology::{Compiled, Topology};
