//! Eager execution: PyTorch's mutable, strided storages over XLA's immutable buffers.
//!
//! A [`Cell`] is what a storage's data pointer points to. A [`Call`] of a [`Kernel`] finds the
//! program of its signature, or lowers it once; reads through views, writes through views, casts
//! into `out=` tensors and random state are all part of that one program.
mod arg;
mod bucket;
mod call;
mod cell;
mod copy;
mod dtype;
mod error;
mod gather;
mod layout;
mod linalg;
mod lower;
mod numbers;
mod overlap;
mod padded;
mod pending;
mod philox;
pub mod runtime;
mod spare;
pub mod view;

pub use arg::{Arg, Tensor};
pub use bucket::Told;
pub use call::{Call, Cells, Context, Host, Kernel, Outcome};
pub use cell::Cell;
pub use copy::{HostBytes, host_bytes, share, upload};
pub use dtype::{dtype_of, element_type, from_scalar_type, scalar_type};
pub use error::{Error, Raise, Result};
pub use lower::{Entry, Fresh};
pub use tpu_exec::inventory;
pub use tpu_hlo::{DType, Number, Precision, Settings, Symbols};
pub use tpu_pjrt::{Buffer, OptionValue, is_forked};
