use super::{compute, formula};
use crate::Scalar;
use expect_test::expect;
use tpu_hlo::{
    Builder,
    DType::{self, *},
    Slot, Type, Value,
};

fn param(b: &mut Builder, slot: u32, dtype: DType, dims: &[i64]) -> Value {
    b.param(Slot::Buffer(slot), Type::new(dtype, dims))
}

#[test]
fn operands_of_two_types_are_a_fault_and_the_builder_survives_it() {
    let mut b = Builder::default();
    let (x, y) = (param(&mut b, 0, F32, &[2]), param(&mut b, 1, I32, &[2]));
    assert!(formula(&mut b, [x, y], |[x, y]| x + y).is_err());
    let z = formula(&mut b, [x], |[x]| 1.0 - x).unwrap();
    assert_eq!(b.ty(z), &Type::new(F32, &[2]));
}

#[test]
fn single_numbers_join_any_shape() {
    let mut b = Builder::default();
    let (x, n) = (param(&mut b, 0, F32, &[2]), param(&mut b, 1, F32, &[]));
    let z = formula(&mut b, [x, n], |[x, n]| n.lt(x).pick(n, x)).unwrap();
    assert_eq!(b.ty(z), &Type::new(F32, &[2]));
}

#[test]
fn half_types_are_rounded_once() {
    let mut b = Builder::default();
    let (x, y) = (
        param(&mut b, 0, BF16, &[2, 1]),
        param(&mut b, 1, BF16, &[3]),
    );
    let n = Scalar(b.number(0, F64));
    let z = compute(&mut b, BF16, [x, y], [n], |[x, y], [n]| (x + y) * n).unwrap();
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x1xbf16>, %p1: tensor<3xbf16>, %p7: tensor<f32>) -> (tensor<2x3xbf16>) {
            %3 = "stablehlo.convert"(%p0) : (tensor<2x1xbf16>) -> tensor<2x1xf32>
            %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> tensor<2x3xf32>
            %5 = "stablehlo.convert"(%p1) : (tensor<3xbf16>) -> tensor<3xf32>
            %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<2x3xf32>
            %8 = "stablehlo.add"(%4, %6) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %9 = "stablehlo.broadcast_in_dim"(%p7) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
            %10 = "stablehlo.multiply"(%8, %9) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %11 = "stablehlo.convert"(%10) : (tensor<2x3xf32>) -> tensor<2x3xbf16>
            return %11 : tensor<2x3xbf16>
          }
        }
    "#]].assert_eq(&b.finish(&[z], &[]).text);
}
