//! Order: sorting, selection, searching, counting.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
