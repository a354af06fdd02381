//! Operators on lists of tensors: one program for a whole list.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
