use crate::{
    Arg,
    golden::{Given, T, hlo, line},
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

#[test]
fn an_observer_moves_its_grid() {
    let mut given = vec![
        Given::T(F32, &[2, 3]),
        Given::T(I64, &[1]),
        Given::T(I64, &[1]),
        Given::T(F32, &[2]),
        Given::T(F32, &[2]),
        Given::T(F32, &[2]),
        Given::T(I32, &[2]),
        Given::Launch(Number::Float(0.01)),
    ];
    let fixed = [0, 255, 0].map(Number::Int);
    let flags = [true, false].map(Number::Bool);
    given.extend(
        fixed
            .into_iter()
            .chain(flags)
            .map(|n| Given::A(Arg::Number(n))),
    );
    expect![[r#"
        _fused_moving_avg_obs_fq_helper_functional: compare reshape compare reshape reduce minimum reduce maximum abs compare subtract broadcast_in_dim multiply add select select abs compare subtract broadcast_in_dim multiply add select select convert convert compare compare and minimum maximum subtract divide convert convert convert divide compare select divide maximum maximum multiply divide multiply divide abs subtract abs subtract compare subtract subtract select round_nearest_even maximum minimum convert broadcast_in_dim select convert convert broadcast_in_dim select broadcast_in_dim convert broadcast_in_dim divide multiply round_nearest_even add compare select maximum minimum subtract multiply compare compare and broadcast_in_dim select broadcast_in_dim select -> tensor<2x3xf32> tensor<2x3xi1> tensor<2xf32> tensor<2xf32> tensor<2xf32> tensor<2xi32>
    "#]].assert_eq(&line("_fused_moving_avg_obs_fq_helper_functional", &given));
}
