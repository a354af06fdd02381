//! Copies between tensors of the device.
use crate::{
    Ignored, Op, Result,
    op::op,
    promote::{broadcast_shapes, cast},
};
use tpu_hlo::{Builder, Value};

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("copy", copy).follows_inputs(),
];

/// `src` in the dtype and shape of `self`.
fn copy(b: &mut Builder, x: Value, src: Value, _non_blocking: Ignored) -> Result<Value> {
    let src = cast(b, src, b.dtype(x));
    let dims = b.dims(x);
    broadcast_shapes(&[&dims, &b.dims(src)])?;
    Ok(b.broadcast(src, &dims)?)
}

#[cfg(test)]
mod tests {
    use crate::golden::{T, hlo};
    use expect_test::expect;
    use tpu_hlo::DType::*;

    #[test]
    fn copy_does_not_read_the_target() {
        expect![[r#"
            module {
              func.func public @main(%p1: tensor<3xf32>) -> (tensor<2x3xi16>) {
                %2 = "stablehlo.convert"(%p1) : (tensor<3xf32>) -> tensor<3xi32>
                %3 = "stablehlo.convert"(%2) : (tensor<3xi32>) -> tensor<3xi16>
                %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xi16>) -> tensor<2x3xi16>
                return %4 : tensor<2x3xi16>
              }
            }
        "#]].assert_eq(&hlo("copy", &[T(I16, &[2, 3]), T(F32, &[3])], &[]));
    }
}
