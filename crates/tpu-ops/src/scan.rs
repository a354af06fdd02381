//! Running sums, products and extremes.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
