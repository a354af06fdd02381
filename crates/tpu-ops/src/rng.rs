//! Random numbers.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
