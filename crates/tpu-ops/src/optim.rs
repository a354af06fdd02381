//! Fused optimizer steps and gradient scaling.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
