//! Comparisons, logic and selection.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
