//! Joining, padding, flipping, triangles: elements moved, not computed.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
