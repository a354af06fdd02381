//! Golden StableHLO.
use crate::{
    Arg,
    golden::{T, hlo},
};
use tpu_hlo::{DType::F32, Number};

/// XLA's CPU compiler fuses scores, softmax and the product with the values into one kernel, unless
/// a comparison, a selection or a dimension of one lies between.
#[test]
fn softmax_is_plain_arithmetic_between_its_products() {
    let shape = &[2, 4, 8, 16];
    let off = Arg::Number(Number::Bool(false));
    let p = Arg::Number(Number::Float(0.0));
    let text = hlo(
        "_scaled_dot_product_fused_attention_overrideable",
        &[T(F32, shape), T(F32, shape), T(F32, shape)],
        &[Arg::None, p, off.clone(), off, Arg::None],
    );
    let start = text.find("dot_general").expect("a product");
    let end = text.rfind("dot_general").expect("a product");
    let between = &text[start..end];
    assert!(start < end && between.contains("exponential"), "{text}");
    assert!(
        !between.contains("select") && !between.contains("compare"),
        "{text}"
    );
    assert!(!between.contains("2x4x1x8"), "{text}");
}
