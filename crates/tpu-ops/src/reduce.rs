//! Many elements to one.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
