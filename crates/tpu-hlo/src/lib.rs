//! StableHLO as text: one builder, one printer, one place where result types are inferred.
//!
//! [`Builder`] methods carry the names of the StableHLO specification; each checks the constraints
//! that a caller can break and infers the result type. Ops are printed in MLIR's generic form, so
//! that a single printer serves all of them, regions included.
mod build;
mod contract;
mod control;
mod dtype;
mod elementwise;
mod error;
mod index;
mod mask;
mod number;
mod padding;
mod reduce;
mod shape;
mod size;
mod ty;

pub use build::{Builder, Input, Module, Settings, Slot, Value};
pub use contract::{Convolution, DotDims, Precision};
pub use dtype::DType;
pub use elementwise::Direction;
pub use error::{Error, Result};
pub use index::{GatherDims, ScatterDims};
pub use number::Number;
pub use padding::{Atom, Factor, Factors, generic_point};
pub use reduce::Window;
pub use size::{Linear, Size, Symbols};
pub use ty::{Dims, Type};
