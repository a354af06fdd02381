//! Pooling. Half-width floats are averaged in float32 and rounded once.
mod adaptive;
mod average;
mod max;
mod unpool;
mod windows;

use crate::{Op, OutDtype, op::op};

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_adaptive_avg_pool2d",             adaptive::avg_pool::<2>).keeps_format()
        .out(OutDtype::Exact("expected dtype {result++} for `output` but got dtype {out++}")),
    op!("_adaptive_avg_pool2d_backward",    adaptive::avg_pool_backward::<2>).keeps_format(),
    op!("_adaptive_avg_pool3d",             adaptive::avg_pool::<3>),
    op!("_adaptive_avg_pool3d_backward",    adaptive::avg_pool_backward::<3>).keeps_format(),
    op!("adaptive_max_pool2d",              adaptive::max_pool::<2>).keeps_format(),
    op!("adaptive_max_pool2d_backward",     adaptive::max_pool_backward::<2>).keeps_format(),
    op!("adaptive_max_pool3d",              adaptive::max_pool::<3>).keeps_format(),
    op!("adaptive_max_pool3d_backward",     adaptive::max_pool_backward::<3>).keeps_format(),
    op!("avg_pool2d",                       average::avg_pool::<2>).keeps_format(),
    op!("avg_pool2d_backward",              average::avg_pool_backward::<2>).keeps_format(),
    op!("avg_pool3d",                       average::avg_pool::<3>),
    op!("avg_pool3d_backward",              average::avg_pool_backward::<3>).keeps_format(),
    op!("fractional_max_pool2d",            unpool::fractional::<2>).keeps_format(),
    op!("fractional_max_pool2d_backward",   unpool::fractional_backward::<2>).keeps_format(),
    op!("fractional_max_pool3d",            unpool::fractional::<3>).keeps_format(),
    op!("fractional_max_pool3d_backward",   unpool::fractional_backward::<3>).keeps_format(),
    op!("max_pool2d_with_indices",          max::max_pool::<2>).keeps_format(),
    op!("max_pool2d_with_indices_backward", max::max_pool_backward::<2>).keeps_format(),
    op!("max_pool3d_with_indices",          max::max_pool::<3>).keeps_format(),
    op!("max_pool3d_with_indices_backward", max::max_pool_backward::<3>).keeps_format(),
    op!("max_unpool2d",                     unpool::unpool2d).keeps_format(),
    op!("max_unpool3d",                     unpool::unpool3d).keeps_format(),
];

#[cfg(test)]
mod tests;
