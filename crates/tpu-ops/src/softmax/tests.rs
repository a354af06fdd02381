use crate::{
    Arg,
    golden::{
        self,
        Given::{A, T},
        NONE, flag, hlo, int, line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

#[test]
fn rows() {
    let lines = [
        line("_log_softmax", &[T(F32, &[2, 3, 4]), int(1), flag(false)]),
        line(
            "_log_softmax_backward_data",
            &[
                T(BF16, &[2, 3]),
                T(BF16, &[2, 3]),
                int(1),
                A(Arg::DType(BF16)),
            ],
        ),
        line(
            "_masked_softmax",
            &[T(F32, &[2, 3, 4, 4]), T(Bool, &[4, 4]), int(3), int(0)],
        ),
        line(
            "_masked_softmax",
            &[T(F32, &[2, 3, 4, 4]), T(Bool, &[2, 4]), NONE, int(1)],
        ),
        line(
            "_masked_softmax",
            &[T(F32, &[2, 3, 4]), T(Bool, &[3]), NONE, int(2)],
        ),
        line(
            "_masked_softmax_backward",
            &[
                T(F32, &[2, 3, 4]),
                T(F32, &[2, 3, 4]),
                T(Bool, &[2, 3, 4]),
                NONE,
            ],
        ),
        line(
            "_safe_softmax",
            &[T(F32, &[2, 3, 4]), int(-1), A(Arg::DType(F64))],
        ),
        line("_softmax", &[T(F16, &[2, 3]), int(0), flag(true)]),
        line("_softmax", &[T(F32, &[]), int(0), flag(false)]),
        line("_softmax", &[T(F32, &[2, 3, 4]), int(0), flag(true)]),
        line("_softmax", &[T(I64, &[2]), int(0), flag(false)]),
        line("_softmax", &[T(F32, &[2, 3, 4]), int(3), flag(false)]),
        line(
            "_softmax_backward_data",
            &[T(F32, &[2, 3]), T(F32, &[2, 3]), int(0), A(Arg::DType(F16))],
        ),
    ];
    expect![[r#"
        _log_softmax: reduce maximum reshape broadcast_in_dim subtract exponential reduce add reshape log broadcast_in_dim subtract -> tensor<2x3x4xf32>
        _log_softmax_backward_data: convert convert reduce add reshape broadcast_in_dim exponential multiply subtract convert -> tensor<2x3xbf16>
        _masked_softmax: broadcast_in_dim select reduce maximum reshape broadcast_in_dim subtract exponential reduce add reshape broadcast_in_dim divide -> tensor<2x3x4x4xf32>
        _masked_softmax: broadcast_in_dim select reduce maximum reshape broadcast_in_dim subtract exponential reduce add reshape broadcast_in_dim divide -> tensor<2x3x4x4xf32>
        _masked_softmax: Runtime: Mask shape should match input shape
        _masked_softmax_backward: select multiply reduce add reshape broadcast_in_dim subtract multiply -> tensor<2x3x4xf32>
        _safe_softmax: convert reduce maximum reshape broadcast_in_dim subtract exponential reduce add reshape broadcast_in_dim divide compare reduce and reshape broadcast_in_dim select -> tensor<2x3x4xf64>
        _softmax: convert reduce maximum reshape broadcast_in_dim subtract exponential reduce add reshape broadcast_in_dim divide -> tensor<2x3xf32>
        _softmax: reduce maximum subtract exponential reduce add divide -> tensor<f32>
        _softmax: Runtime: conversion is supported for Half type only
        _softmax: NotImplemented: "softmax" not implemented for 'Long'
        _softmax: Index: Dimension out of range (expected to be in range of [-3, 2], but got 3)
        _softmax_backward_data: multiply reduce add reshape broadcast_in_dim subtract multiply convert -> tensor<2x3xf16>
    "#]].assert_eq(&lines.concat());
}

#[test]
fn half_widths_are_computed_in_f32() {
    let text = hlo(
        "_softmax",
        &[golden::T(BF16, &[2, 3])],
        &[
            Arg::Number(Number::Int(1)),
            Arg::Number(Number::Bool(false)),
        ],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xbf16>) -> (tensor<2x3xbf16>) {
            %1 = "stablehlo.convert"(%p0) : (tensor<2x3xbf16>) -> tensor<2x3xf32>
            %2 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
            %6 = "stablehlo.reduce"(%1, %2) <{dimensions = array<i64: 1>}> ({
              ^bb0(%3: tensor<f32>, %4: tensor<f32>):
              %5 = "stablehlo.maximum"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%5) : (tensor<f32>) -> ()
            }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
            %7 = "stablehlo.reshape"(%6) : (tensor<2xf32>) -> tensor<2x1xf32>
            %8 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> tensor<2x3xf32>
            %9 = "stablehlo.subtract"(%1, %8) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %10 = "stablehlo.exponential"(%9) : (tensor<2x3xf32>) -> tensor<2x3xf32>
            %11 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %15 = "stablehlo.reduce"(%10, %11) <{dimensions = array<i64: 1>}> ({
              ^bb0(%12: tensor<f32>, %13: tensor<f32>):
              %14 = "stablehlo.add"(%12, %13) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%14) : (tensor<f32>) -> ()
            }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
            %16 = "stablehlo.reshape"(%15) : (tensor<2xf32>) -> tensor<2x1xf32>
            %17 = "stablehlo.broadcast_in_dim"(%16) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> tensor<2x3xf32>
            %18 = "stablehlo.divide"(%10, %17) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %19 = "stablehlo.convert"(%18) : (tensor<2x3xf32>) -> tensor<2x3xbf16>
            return %19 : tensor<2x3xbf16>
          }
        }
    "#]].assert_eq(&text);
}
