//! Convolutions and their gradients.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
