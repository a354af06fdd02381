//! Attention.
mod encoder;
mod fused;

use crate::{
    Op, Result, check,
    error::ensure,
    op::op,
    promote::{cast, widen},
    reduce::{Fold, MAX},
    softmax::softmax,
};
use tpu_hlo::{Builder, DType, Direction, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_masked_softmax",                 encoder::masked_softmax),
    op!("_masked_softmax_backward",        encoder::masked_softmax_backward),
    op!("_native_multi_head_attention",    encoder::multi_head_attention),
    op!("_safe_softmax",                   safe_softmax),
    op!("_scaled_dot_product_fused_attention_overrideable",          fused::forward),
    op!("_scaled_dot_product_fused_attention_overrideable_backward", fused::backward),
    op!("_transform_bias_rescale_qkv",     encoder::transform_bias_rescale_qkv),
    op!("_transformer_encoder_layer_fwd",  encoder::layer),
];

/// Softmax along `dim` that gives zeros where all elements are minus infinity
fn safe_softmax(b: &mut B, x: Value, dim: i64, dtype: Option<DType>) -> Result<Value> {
    let x = cast(b, x, dtype.unwrap_or(b.dtype(x)));
    let dtype = b.dtype(x);
    ensure!(
        dtype.is_float(),
        NotImplemented,
        "\"softmax_lastdim_kernel_impl\" not implemented for '{}'",
        dtype.torch()
    );
    check::dim(dim, b.rank(x))?;
    let x = widen(b, x);
    let y = softmax(b, x, dim)?;
    let fold = Fold::one(b, x, dim, true)?;
    let max = fold.extreme(b, x, &MAX)?;
    let lowest = b.full_like(max, f64::NEG_INFINITY);
    let empty = b.compare(max, Direction::EQ, lowest)?;
    let empty = fold.spread(b, empty, x)?;
    let zero = b.full_like(y, 0);
    let y = b.select(empty, zero, y)?;
    Ok(cast(b, y, dtype))
}

#[cfg(test)]
mod tests;
