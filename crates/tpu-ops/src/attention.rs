//! Scaled dot product attention.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
