use crate::{
    Arg,
    golden::{
        self,
        Given::{A, T},
        NONE, hlo, int, line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

#[test]
fn rows() {
    let lines = [
        line("_logcumsumexp", &[T(F64, &[2]), int(0)]),
        line(
            "cumprod.out",
            &[T(I64, &[2]), int(0), NONE, A(Arg::DType(Bool))],
        ),
        line(
            "cumsum.out",
            &[T(F32, &[2]), int(0), NONE, A(Arg::DType(I8))],
        ),
        line("cummax", &[T(F32, &[2, 3, 4]), int(1)]),
        line("cummin", &[T(I64, &[20]), int(0)]),
        line("cummin", &[T(C64, &[2]), int(0)]),
        line("cumprod", &[T(Bool, &[3]), int(0), NONE]),
        line("cumsum", &[T(F16, &[40]), int(0), NONE]),
        line("cumsum", &[T(I8, &[3]), int(0), A(Arg::DType(I16))]),
        line("cumsum", &[T(F32, &[]), int(-1), NONE]),
        line("cumsum", &[T(F32, &[2, 3, 4]), int(3), NONE]),
        line("logcumsumexp", &[T(F32, &[2, 3, 4]), int(0)]),
        line("logcumsumexp", &[T(C64, &[3]), int(0)]),
        line("logcumsumexp", &[T(I64, &[3]), int(0)]),
    ];
    expect![[r#"
        _logcumsumexp: reduce_window compare select compare subtract exponential select multiply compare subtract exponential select multiply add log add -> tensor<2xf64>
        cumprod.out: NotImplemented: "cumprod_out" not implemented for 'Bool'
        cumsum.out: convert convert reduce_window add -> tensor<2xi8>
        cummax: reduce_window maximum compare compare or iota select reduce_window maximum convert -> tensor<2x3x4xf32> tensor<2x3x4xi64>
        cummin: pad reshape reduce_window minimum slice reshape reduce_window minimum pad broadcast_in_dim minimum reshape slice compare iota select pad reshape reduce_window maximum slice reshape reduce_window maximum pad broadcast_in_dim maximum reshape slice convert -> tensor<20xi64> tensor<20xi64>
        cummin: NotImplemented: "cummin" not implemented for 'ComplexFloat'
        cumprod: convert reduce_window multiply -> tensor<3xi64>
        cumsum: convert pad reshape reduce_window add slice reshape reduce_window add pad broadcast_in_dim add reshape slice convert -> tensor<40xf16>
        cumsum: convert reduce_window add -> tensor<3xi16>
        cumsum: -> tensor<f32>
        cumsum: Index: Dimension out of range (expected to be in range of [-3, 2], but got 3)
        logcumsumexp: reduce_window compare select compare subtract exponential select multiply compare subtract exponential select multiply add log add -> tensor<2x3x4xf32>
        logcumsumexp: real imag cosine sine complex reduce_window compare select compare subtract exponential select convert multiply compare subtract exponential select convert multiply add log convert add real real imag real imag pad pad compare subtract subtract select compare select subtract subtract select compare select complex exponential log_plus_one imag add select reduce_window add and select complex -> tensor<3xcomplex<f32>>
        logcumsumexp: NotImplemented: "logcumsumexp" not implemented for 'Long'
    "#]].assert_eq(&lines.concat());
}

#[test]
fn a_short_dimension_is_one_window() {
    let text = hlo(
        "cumsum",
        &[golden::T(I32, &[2, 3])],
        &[Arg::Number(Number::Int(1)), Arg::None],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xi32>) -> (tensor<2x3xi64>) {
            %1 = "stablehlo.convert"(%p0) : (tensor<2x3xi32>) -> tensor<2x3xi64>
            %2 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
            %6 = "stablehlo.reduce_window"(%1, %2) <{window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 1>, base_dilations = array<i64: 1, 1>, window_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [2, 0]]> : tensor<2x2xi64>}> ({
              ^bb0(%3: tensor<i64>, %4: tensor<i64>):
              %5 = "stablehlo.add"(%3, %4) : (tensor<i64>, tensor<i64>) -> tensor<i64>
              "stablehlo.return"(%5) : (tensor<i64>) -> ()
            }) : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi64>
            return %6 : tensor<2x3xi64>
          }
        }
    "#]].assert_eq(&text);
}

#[test]
fn a_long_dimension_is_scanned_in_pieces() {
    let text = hlo(
        "cumsum",
        &[golden::T(F32, &[40])],
        &[Arg::Number(Number::Int(0)), Arg::None],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<40xf32>) -> (tensor<40xf32>) {
            %1 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %2 = "stablehlo.pad"(%p0, %1) <{edge_padding_low = array<i64: 0>, edge_padding_high = array<i64: 8>, interior_padding = array<i64: 0>}> : (tensor<40xf32>, tensor<f32>) -> tensor<48xf32>
            %3 = "stablehlo.reshape"(%2) : (tensor<48xf32>) -> tensor<3x16xf32>
            %7 = "stablehlo.reduce_window"(%3, %1) <{window_dimensions = array<i64: 1, 16>, window_strides = array<i64: 1, 1>, base_dilations = array<i64: 1, 1>, window_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [15, 0]]> : tensor<2x2xi64>}> ({
              ^bb0(%4: tensor<f32>, %5: tensor<f32>):
              %6 = "stablehlo.add"(%4, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%6) : (tensor<f32>) -> ()
            }) : (tensor<3x16xf32>, tensor<f32>) -> tensor<3x16xf32>
            %8 = "stablehlo.slice"(%7) <{start_indices = array<i64: 0, 15>, limit_indices = array<i64: 3, 16>, strides = array<i64: 1, 1>}> : (tensor<3x16xf32>) -> tensor<3x1xf32>
            %9 = "stablehlo.reshape"(%8) : (tensor<3x1xf32>) -> tensor<3xf32>
            %13 = "stablehlo.reduce_window"(%9, %1) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 1>, base_dilations = array<i64: 1>, window_dilations = array<i64: 1>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}> ({
              ^bb0(%10: tensor<f32>, %11: tensor<f32>):
              %12 = "stablehlo.add"(%10, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%12) : (tensor<f32>) -> ()
            }) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
            %14 = "stablehlo.pad"(%13, %1) <{edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: -1>, interior_padding = array<i64: 0>}> : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
            %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64: 0>}> : (tensor<3xf32>) -> tensor<3x16xf32>
            %16 = "stablehlo.add"(%15, %7) : (tensor<3x16xf32>, tensor<3x16xf32>) -> tensor<3x16xf32>
            %17 = "stablehlo.reshape"(%16) : (tensor<3x16xf32>) -> tensor<48xf32>
            %18 = "stablehlo.slice"(%17) <{start_indices = array<i64: 0>, limit_indices = array<i64: 40>, strides = array<i64: 1>}> : (tensor<48xf32>) -> tensor<40xf32>
            return %18 : tensor<40xf32>
          }
        }
    "#]].assert_eq(&text);
}
