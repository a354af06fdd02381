//! Factorisations, solvers and transforms.
use crate::Op;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
];
