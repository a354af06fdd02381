use crate::{
    Arg,
    golden::{
        self,
        Given::{self, A, Launch, T},
        NONE, flag, hlo, int, line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

fn ints(list: &[i64]) -> Given {
    A(Arg::Ints(list.into()))
}

fn float(x: f64) -> Given {
    A(Arg::Number(Number::Float(x)))
}

fn launch(i: i64) -> Given {
    Launch(Number::Int(i))
}

#[test]
fn rows() {
    let lines = [
        line("count_nonzero", &[T(BF16, &[2, 3]), NONE]),
        line(
            "count_nonzero.dim_IntList",
            &[T(F32, &[2, 3, 4]), ints(&[0, 2])],
        ),
        line(
            "kthvalue",
            &[T(F32, &[2, 3, 4]), int(2), int(1), flag(true)],
        ),
        line(
            "kthvalue",
            &[T(F32, &[2, 3, 4]), int(4), int(1), flag(true)],
        ),
        line(
            "linalg_vector_norm",
            &[T(F32, &[2, 3, 4]), int(2), NONE, flag(false), NONE],
        ),
        line(
            "linalg_vector_norm",
            &[T(C64, &[3]), int(1), ints(&[0]), flag(true), NONE],
        ),
        line(
            "linalg_vector_norm",
            &[T(F16, &[3]), float(f64::INFINITY), NONE, flag(false), NONE],
        ),
        line(
            "linalg_vector_norm",
            &[
                T(F32, &[2, 3, 4]),
                float(2.5),
                ints(&[0, 1]),
                flag(false),
                A(Arg::DType(F64)),
            ],
        ),
        line(
            "linalg_vector_norm",
            &[T(F32, &[0]), float(f64::INFINITY), NONE, flag(false), NONE],
        ),
        line(
            "linalg_vector_norm",
            &[T(I64, &[3]), int(2), NONE, flag(false), NONE],
        ),
        line(
            "linalg_vector_norm",
            &[T(F32, &[2, 3, 4]), int(0), NONE, flag(false), NONE],
        ),
        line("logsumexp", &[T(I64, &[2, 3]), ints(&[1]), flag(false)]),
        line("logsumexp", &[T(BF16, &[2, 3]), ints(&[0, 1]), flag(true)]),
        line("median", &[T(F32, &[5])]),
        line("median", &[T(I64, &[0])]),
        line("median.dim", &[T(I64, &[2, 4]), int(1), flag(false)]),
        line("mode", &[T(I64, &[2, 40]), int(1), flag(false)]),
        line("nanmedian", &[T(F64, &[4])]),
        line("nanmedian.dim", &[T(F32, &[2, 4]), int(0), flag(true)]),
        line(
            "norm.ScalarOpt_dim",
            &[T(F32, &[2, 3, 4]), NONE, ints(&[0]), flag(false)],
        ),
        line(
            "norm.ScalarOpt_dim_dtype",
            &[
                T(BF16, &[4]),
                int(1),
                ints(&[]),
                flag(false),
                A(Arg::DType(F32)),
            ],
        ),
        line(
            "norm.ScalarOpt_dim",
            &[T(I64, &[3]), NONE, ints(&[0]), flag(false)],
        ),
        line("renorm", &[T(F32, &[2, 3, 4]), int(2), int(1), launch(1)]),
        line("renorm", &[T(F32, &[3]), int(2), int(0), launch(1)]),
        line(
            "std.correction",
            &[T(F32, &[2, 3, 4]), ints(&[1]), NONE, flag(false)],
        ),
        line(
            "std_mean.correction",
            &[T(F16, &[5]), NONE, int(0), flag(true)],
        ),
        line("trace", &[T(I32, &[3, 4])]),
        line("trace", &[T(I32, &[3])]),
        line(
            "var.correction",
            &[T(C64, &[5]), NONE, float(0.5), flag(false)],
        ),
        line(
            "var_mean.correction",
            &[T(F32, &[2, 3, 4]), ints(&[-1]), int(0), flag(true)],
        ),
        line("var.correction", &[T(I64, &[5]), NONE, NONE, flag(false)]),
    ];
    expect![[r#"
        count_nonzero: compare convert reduce add convert -> tensor<i64>
        count_nonzero.dim_IntList: compare convert reduce add convert -> tensor<3xi64>
        kthvalue: iota sort compare compare compare and or slice slice convert -> tensor<2x1x4xf32> tensor<2x1x4xi64>
        kthvalue: Runtime: kthvalue(): selected number k out of range for dimension 1
        linalg_vector_norm: multiply reduce add sqrt -> tensor<f32>
        linalg_vector_norm: abs reduce add reshape -> tensor<1xf32>
        linalg_vector_norm: convert abs reduce maximum convert -> tensor<f16>
        linalg_vector_norm: convert abs power reduce add power -> tensor<4xf64>
        linalg_vector_norm: Runtime: linalg.vector_norm cannot compute the inf norm on an empty tensor because the operation does not have an identity
        linalg_vector_norm: Runtime: linalg.vector_norm: Expected a floating point or complex tensor as input. Got Long
        linalg_vector_norm: abs compare convert reduce add -> tensor<f32>
        logsumexp: convert reduce maximum is_finite select reshape broadcast_in_dim subtract exponential reduce add log add -> tensor<2xf32>
        logsumexp: convert reduce maximum reshape is_finite select broadcast_in_dim subtract exponential reduce add reshape log add convert -> tensor<1x1xbf16>
        median: iota sort compare compare compare and or compare convert reduce add reshape compare select reshape gather reshape gather convert reshape reshape -> tensor<f32>
        median: -> tensor<i64>
        median.dim: iota sort compare reshape gather reshape gather convert reshape reshape -> tensor<2xi64> tensor<2xi64>
        mode: iota sort compare iota slice slice compare concatenate select pad reshape reduce_window maximum slice reshape reduce_window maximum pad broadcast_in_dim maximum reshape slice subtract iota reduce compare compare compare and or select select reshape reshape gather reshape gather convert reshape reshape -> tensor<2xi64> tensor<2xi64>
        nanmedian: iota sort compare compare compare and or compare convert reduce add reshape subtract shift_right_arithmetic maximum reshape gather reshape gather convert reshape reshape -> tensor<f64>
        nanmedian.dim: iota sort compare compare compare and or compare convert reduce add reshape subtract shift_right_arithmetic maximum reshape gather reshape gather convert -> tensor<1x4xf32> tensor<1x4xi64>
        norm.ScalarOpt_dim: multiply reduce add sqrt -> tensor<3x4xf32>
        norm.ScalarOpt_dim_dtype: convert abs reduce add -> tensor<f32>
        norm.ScalarOpt_dim: Runtime: norm(): the desired output dtype should be either floating point or complex. Got Long instead.
        renorm: multiply reduce add reshape sqrt broadcast_in_dim compare add divide select broadcast_in_dim multiply -> tensor<2x3x4xf32>
        renorm: Runtime: renorm: input needs at least 2 dimensions, got 1 dimensions
        std.correction: reduce add compare select divide reshape broadcast_in_dim subtract multiply reduce add divide sqrt -> tensor<2x4xf32>
        std_mean.correction: convert reduce add reshape compare select divide broadcast_in_dim subtract multiply reduce add reshape divide sqrt convert convert -> tensor<1xf16> tensor<1xf16>
        trace: iota iota compare convert select reduce add -> tensor<i64>
        trace: Runtime: trace: expected a matrix, but got tensor with dim 1
        var.correction: reduce add divide reshape broadcast_in_dim subtract real imag multiply multiply add reduce add divide -> tensor<f32>
        var_mean.correction: reduce add reshape compare select divide broadcast_in_dim subtract multiply reduce add reshape divide -> tensor<2x3x1xf32> tensor<2x3x1xf32>
        var.correction: Runtime: std and var only support floating point and complex dtypes
    "#]].assert_eq(&lines.concat());
}

#[test]
fn a_variance_is_taken_about_the_mean() {
    let text = hlo(
        "var_mean.correction",
        &[golden::T(F32, &[2, 3])],
        &[
            Arg::Ints([1].as_slice().into()),
            Arg::Number(Number::Int(0)),
            Arg::Number(Number::Bool(false)),
        ],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
            %1 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %5 = "stablehlo.reduce"(%p0, %1) <{dimensions = array<i64: 1>}> ({
              ^bb0(%2: tensor<f32>, %3: tensor<f32>):
              %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%4) : (tensor<f32>) -> ()
            }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
            %6 = "stablehlo.constant"() <{value = dense<3.0> : tensor<2xf32>}> : () -> tensor<2xf32>
            %7 = "stablehlo.compare"(%5, %5) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
            %8 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<2xf32>}> : () -> tensor<2xf32>
            %9 = "stablehlo.select"(%7, %6, %8) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            %10 = "stablehlo.divide"(%5, %9) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            %11 = "stablehlo.reshape"(%10) : (tensor<2xf32>) -> tensor<2x1xf32>
            %12 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> tensor<2x3xf32>
            %13 = "stablehlo.subtract"(%p0, %12) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %14 = "stablehlo.multiply"(%13, %13) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %15 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %19 = "stablehlo.reduce"(%14, %15) <{dimensions = array<i64: 1>}> ({
              ^bb0(%16: tensor<f32>, %17: tensor<f32>):
              %18 = "stablehlo.add"(%16, %17) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%18) : (tensor<f32>) -> ()
            }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
            %20 = "stablehlo.constant"() <{value = dense<3.0> : tensor<2xf32>}> : () -> tensor<2xf32>
            %21 = "stablehlo.divide"(%19, %20) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            return %21, %10 : tensor<2xf32>, tensor<2xf32>
          }
        }
    "#]].assert_eq(&text);
}
