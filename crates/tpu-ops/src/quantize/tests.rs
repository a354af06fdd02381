use crate::{
    Arg,
    golden::{T, hlo},
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

#[test]
fn channels_have_scales_of_their_own() {
    let rest = [0, -8, 7].map(|n| Arg::Number(Number::Int(n)));
    let tensors = [T(F32, &[2, 3]), T(F32, &[2]), T(I32, &[2])];
    let text = hlo(
        "fake_quantize_per_channel_affine_cachemask",
        &tensors,
        &rest,
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xf32>, %p1: tensor<2xf32>, %p2: tensor<2xi32>) -> (tensor<2x3xf32>, tensor<2x3xi1>) {
            %3 = "stablehlo.broadcast_in_dim"(%p1) <{broadcast_dimensions = array<i64: 0>}> : (tensor<2xf32>) -> tensor<2x3xf32>
            %4 = "stablehlo.convert"(%p2) : (tensor<2xi32>) -> tensor<2xf32>
            %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64: 0>}> : (tensor<2xf32>) -> tensor<2x3xf32>
            %6 = "stablehlo.constant"() <{value = dense<1.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
            %7 = "stablehlo.divide"(%6, %3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %8 = "stablehlo.multiply"(%p0, %7) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %9 = "stablehlo.round_nearest_even"(%8) : (tensor<2x3xf32>) -> tensor<2x3xf32>
            %10 = "stablehlo.add"(%9, %5) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %11 = "stablehlo.compare"(%p0, %p0) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
            %12 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
            %13 = "stablehlo.select"(%11, %12, %10) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %14 = "stablehlo.constant"() <{value = dense<-8.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
            %15 = "stablehlo.maximum"(%13, %14) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %16 = "stablehlo.constant"() <{value = dense<7.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
            %17 = "stablehlo.minimum"(%15, %16) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %18 = "stablehlo.subtract"(%17, %5) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %19 = "stablehlo.multiply"(%18, %3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %20 = "stablehlo.constant"() <{value = dense<-8.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
            %21 = "stablehlo.compare"(%13, %20) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
            %22 = "stablehlo.constant"() <{value = dense<7.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
            %23 = "stablehlo.compare"(%13, %22) <{comparison_direction = #stablehlo<comparison_direction LE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
            %24 = "stablehlo.and"(%21, %23) : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
            return %19, %24 : tensor<2x3xf32>, tensor<2x3xi1>
          }
        }
    "#]].assert_eq(&text);
}
