use crate::{
    Arg,
    golden::{
        self,
        Given::{self, A, T},
        hlo, line,
    },
};
use expect_test::expect;
use tpu_hlo::DType::*;

fn ints(list: &[i64]) -> Given {
    A(Arg::Ints(list.into()))
}

#[test]
fn rows() {
    let lines = [
        line("reflection_pad1d", &[T(F32, &[2, 3, 4]), ints(&[1, 2])]),
        line(
            "reflection_pad1d_backward",
            &[T(F32, &[2, 3, 7]), T(F32, &[2, 3, 4]), ints(&[1, 2])],
        ),
        line(
            "reflection_pad2d",
            &[T(F32, &[2, 3, 4, 4]), ints(&[0, 0, 1, 2])],
        ),
        line(
            "reflection_pad2d_backward",
            &[
                T(F32, &[2, 3, 7, 4]),
                T(F32, &[2, 3, 4, 4]),
                ints(&[0, 0, 1, 2]),
            ],
        ),
        line(
            "reflection_pad3d",
            &[T(F32, &[2, 3, 4, 4, 4]), ints(&[0, 0, 0, 0, 1, 2])],
        ),
        line(
            "reflection_pad3d_backward",
            &[
                T(F32, &[2, 3, 7, 4, 4]),
                T(F32, &[2, 3, 4, 4, 4]),
                ints(&[0, 0, 0, 0, 1, 2]),
            ],
        ),
        line("replication_pad1d", &[T(F32, &[2, 3, 4]), ints(&[1, 2])]),
        line(
            "replication_pad1d_backward",
            &[T(F32, &[2, 3, 7]), T(F32, &[2, 3, 4]), ints(&[1, 2])],
        ),
        line(
            "replication_pad2d",
            &[T(F32, &[2, 3, 4, 4]), ints(&[0, 0, 1, 2])],
        ),
        line(
            "replication_pad2d_backward",
            &[
                T(F32, &[2, 3, 7, 4]),
                T(F32, &[2, 3, 4, 4]),
                ints(&[0, 0, 1, 2]),
            ],
        ),
        line(
            "replication_pad3d",
            &[T(F32, &[2, 3, 4, 4, 4]), ints(&[0, 0, 0, 0, 1, 2])],
        ),
        line(
            "replication_pad3d_backward",
            &[
                T(F32, &[2, 3, 7, 4, 4]),
                T(F32, &[2, 3, 4, 4, 4]),
                ints(&[0, 0, 0, 0, 1, 2]),
            ],
        ),
        line("reflection_pad1d", &[T(F32, &[2, 3]), ints(&[3, 0])]),
        line("reflection_pad1d", &[T(F32, &[3]), ints(&[1, 0])]),
        line(
            "replication_pad2d",
            &[T(F32, &[1, 3, 3]), ints(&[-2, -1, 0, 0])],
        ),
        line(
            "replication_pad1d_backward",
            &[T(F32, &[2, 3]), T(F32, &[2, 3]), ints(&[1, 1])],
        ),
    ];
    expect![[r#"
        reflection_pad1d: slice reverse slice reverse concatenate -> tensor<2x3x7xf32>
        reflection_pad1d_backward: slice slice reverse pad add slice reverse pad add -> tensor<2x3x4xf32>
        reflection_pad2d: slice reverse slice reverse concatenate -> tensor<2x3x7x4xf32>
        reflection_pad2d_backward: slice slice reverse pad add slice reverse pad add -> tensor<2x3x4x4xf32>
        reflection_pad3d: slice reverse slice reverse concatenate -> tensor<2x3x7x4x4xf32>
        reflection_pad3d_backward: slice slice reverse pad add slice reverse pad add -> tensor<2x3x4x4x4xf32>
        replication_pad1d: slice slice broadcast_in_dim concatenate -> tensor<2x3x7xf32>
        replication_pad1d_backward: slice slice reduce add reshape pad add slice reduce add reshape pad add -> tensor<2x3x4xf32>
        replication_pad2d: slice slice broadcast_in_dim concatenate -> tensor<2x3x7x4xf32>
        replication_pad2d_backward: slice slice reduce add reshape pad add slice reduce add reshape pad add -> tensor<2x3x4x4xf32>
        replication_pad3d: slice slice broadcast_in_dim concatenate -> tensor<2x3x7x4x4xf32>
        replication_pad3d_backward: slice slice reduce add reshape pad add slice reduce add reshape pad add -> tensor<2x3x4x4x4xf32>
        reflection_pad1d: Runtime: Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (3, 0) at dimension 1 of input [2, 3]
        reflection_pad1d: Runtime: Expected 2D or 3D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: [3]
        replication_pad2d: Runtime: input is too small for replication_pad2d: dimension 2 of size 3 with padding (-2, -1)
        replication_pad1d_backward: Runtime: grad_output has the wrong shape: expected [2, 5], got [2, 3]
    "#]].assert_eq(&lines.concat());
}

#[test]
fn a_mirrored_edge_flows_back_inside() {
    let text = hlo(
        "reflection_pad1d_backward",
        &[golden::T(F32, &[1, 6]), golden::T(F32, &[1, 3])],
        &[Arg::Ints([2, 1].as_slice().into())],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<1x6xf32>) -> (tensor<1x3xf32>) {
            %2 = "stablehlo.slice"(%p0) <{start_indices = array<i64: 0, 2>, limit_indices = array<i64: 1, 5>, strides = array<i64: 1, 1>}> : (tensor<1x6xf32>) -> tensor<1x3xf32>
            %3 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %4 = "stablehlo.slice"(%p0) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 2>, strides = array<i64: 1, 1>}> : (tensor<1x6xf32>) -> tensor<1x2xf32>
            %5 = "stablehlo.reverse"(%4) <{dimensions = array<i64: 1>}> : (tensor<1x2xf32>) -> tensor<1x2xf32>
            %6 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %7 = "stablehlo.pad"(%5, %6) <{edge_padding_low = array<i64: 0, 1>, edge_padding_high = array<i64: 0, 0>, interior_padding = array<i64: 0, 0>}> : (tensor<1x2xf32>, tensor<f32>) -> tensor<1x3xf32>
            %8 = "stablehlo.add"(%2, %7) : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
            %9 = "stablehlo.slice"(%p0) <{start_indices = array<i64: 0, 5>, limit_indices = array<i64: 1, 6>, strides = array<i64: 1, 1>}> : (tensor<1x6xf32>) -> tensor<1x1xf32>
            %10 = "stablehlo.reverse"(%9) <{dimensions = array<i64: 1>}> : (tensor<1x1xf32>) -> tensor<1x1xf32>
            %11 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %12 = "stablehlo.pad"(%10, %11) <{edge_padding_low = array<i64: 0, 1>, edge_padding_high = array<i64: 0, 1>, interior_padding = array<i64: 0, 0>}> : (tensor<1x1xf32>, tensor<f32>) -> tensor<1x3xf32>
            %13 = "stablehlo.add"(%8, %12) : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<1x3xf32>
            return %13 : tensor<1x3xf32>
          }
        }
    "#]].assert_eq(&text);
}
