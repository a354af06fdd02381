//! Element by element.
use crate::{
    Factor, Op, Result,
    op::pointwise,
    promote::{cast, float as to_float, pair as to_pair},
};
use tpu_hlo::{Builder, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    pointwise!("add.Tensor", add),
    pointwise!("mul.Tensor", pair(B::multiply)),
    pointwise!("sin",        float(B::sine)),
];

/// `self + alpha * other`
fn add(b: &mut B, x: Value, other: Value, alpha: Factor) -> Result<Value> {
    let (x, y) = to_pair(b, x, other)?;
    let y = times(b, y, alpha)?;
    if b.dtype(x) == tpu_hlo::DType::Bool {
        Ok(b.or(x, y)?)
    } else {
        Ok(b.add(x, y)?)
    }
}

/// `alpha * x`
pub(crate) fn times(b: &mut B, x: Value, alpha: Factor) -> Result<Value> {
    let Factor::Times(alpha) = alpha else {
        return Ok(x);
    };
    let alpha = cast(b, alpha, b.dtype(x));
    let alpha = b.broadcast(alpha, &b.dims(x))?;
    Ok(b.multiply(x, alpha)?)
}

/// An op on floats; integers are cast to the default dtype.
pub(crate) const fn float(
    f: fn(&mut B, Value) -> Value,
) -> impl Fn(&mut B, Value) -> Value + Sync + Copy {
    move |b, x| {
        let x = to_float(b, x);
        f(b, x)
    }
}

/// An op on two tensors of one type and shape, after promotion and broadcasting.
pub(crate) const fn pair(
    f: fn(&mut B, Value, Value) -> tpu_hlo::Result<Value>,
) -> impl Fn(&mut B, Value, Value) -> Result<Value> + Sync + Copy {
    move |b, x, y| {
        let (x, y) = to_pair(b, x, y)?;
        Ok(f(b, x, y)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::golden::{T, hlo};
    use expect_test::expect;
    use tpu_hlo::DType::*;

    #[test]
    fn mul_promotes_and_broadcasts() {
        expect![[r#"
            module {
              func.func public @main(%p0: tensor<3xi32>, %p1: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
              %2 = "stablehlo.convert"(%p0) : (tensor<3xi32>) -> tensor<3xf32>
              %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<2x3xf32>
              %4 = "stablehlo.multiply"(%3, %p1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
                return %4 : tensor<2x3xf32>
              }
            }
        "#]].assert_eq(&hlo("mul.Tensor", &[T(I32, &[3]), T(F32, &[2, 3])], &[]));
    }
}
