//! Tensors from nothing.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
