use crate::{
    Arg,
    golden::{
        self,
        Given::{self, A, T},
        NONE, flag, hlo, int, line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

fn float(x: f64) -> Given {
    A(Arg::Number(Number::Float(x)))
}

#[test]
fn rows() {
    let lines = [
        line(
            "_embedding_bag",
            &[
                T(F32, &[6, 4]),
                T(I64, &[9]),
                T(I64, &[3]),
                flag(false),
                int(0),
                flag(false),
                NONE,
                flag(false),
                int(-1),
            ],
        ),
        line(
            "_embedding_bag",
            &[
                T(BF16, &[6, 4]),
                T(I32, &[9]),
                T(I32, &[3]),
                flag(false),
                int(1),
                flag(false),
                NONE,
                flag(true),
                int(2),
            ],
        ),
        line(
            "_embedding_bag_forward_only",
            &[
                T(F32, &[6, 4]),
                T(I64, &[9]),
                T(I64, &[3]),
                flag(false),
                int(2),
                flag(false),
                NONE,
                flag(false),
                int(-1),
            ],
        ),
        line(
            "_embedding_bag",
            &[
                T(F32, &[6, 4]),
                T(I64, &[9]),
                T(I64, &[3]),
                flag(false),
                int(2),
                flag(false),
                T(F32, &[9]),
                flag(false),
                int(-1),
            ],
        ),
        line(
            "_embedding_bag_backward",
            &[
                T(F32, &[3, 4]),
                T(I64, &[9]),
                T(I64, &[3]),
                T(I64, &[0]),
                T(I64, &[3]),
                T(I64, &[0]),
                int(6),
                flag(false),
                int(0),
                flag(false),
                T(F32, &[9]),
                int(-1),
            ],
        ),
        line(
            "_embedding_bag_dense_backward",
            &[
                T(F32, &[3, 4]),
                T(I64, &[9]),
                T(I64, &[9]),
                T(I64, &[3]),
                T(I64, &[3, 4]),
                int(6),
                flag(true),
                int(1),
                NONE,
                int(-1),
            ],
        ),
        line(
            "_embedding_bag_dense_backward",
            &[
                T(F32, &[3, 4]),
                T(I64, &[9]),
                T(I64, &[9]),
                T(I64, &[3]),
                T(I64, &[3, 4]),
                int(6),
                flag(false),
                int(2),
                NONE,
                int(-1),
            ],
        ),
        line(
            "_embedding_bag_per_sample_weights_backward",
            &[
                T(F32, &[3, 4]),
                T(F32, &[6, 4]),
                T(I64, &[9]),
                T(I64, &[3]),
                T(I64, &[9]),
                int(0),
                int(1),
            ],
        ),
        line(
            "embedding",
            &[
                T(BF16, &[6, 4]),
                T(I64, &[2, 3]),
                int(-1),
                flag(false),
                flag(false),
            ],
        ),
        line(
            "embedding",
            &[
                T(F32, &[4]),
                T(I64, &[2, 3]),
                int(-1),
                flag(false),
                flag(false),
            ],
        ),
        line(
            "embedding",
            &[
                T(F32, &[6, 4]),
                T(F32, &[2, 3]),
                int(-1),
                flag(false),
                flag(false),
            ],
        ),
        line(
            "embedding_dense_backward",
            &[
                T(BF16, &[2, 3, 4]),
                T(I64, &[2, 3]),
                int(6),
                int(1),
                flag(true),
            ],
        ),
        line(
            "embedding_renorm",
            &[T(F32, &[6, 4]), T(I64, &[2]), float(1.0), float(2.0)],
        ),
    ];
    expect![[r#"
        _embedding_bag: compare compare or select reduce maximum slice compare compare or select reduce maximum compare compare or select reduce maximum convert iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract compare convert optimization_barrier scatter add convert gather convert broadcast_in_dim multiply optimization_barrier scatter add convert convert -> tensor<3x4xf32> tensor<9xi64> tensor<3xi64> tensor<0xi64>; else IndexError: index out of range in self; else RuntimeError: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {}; else RuntimeError: offsets[-1] can not be greater than input's length(9) but got offsets[-1] of {}
        _embedding_bag: convert compare compare or select reduce maximum slice convert compare compare or select reduce maximum convert compare compare or select reduce maximum slice iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract compare convert optimization_barrier scatter add gather convert convert broadcast_in_dim multiply optimization_barrier scatter add slice maximum convert broadcast_in_dim divide convert -> tensor<2x4xbf16> tensor<9xi32> tensor<3xi32> tensor<0xi32>; else IndexError: index out of range in self; else RuntimeError: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {}; else RuntimeError: offsets[-1] can not be greater than input's length(9) but got offsets[-1] of {}
        _embedding_bag_forward_only: compare compare or select reduce maximum slice compare compare or select reduce maximum compare compare or select reduce maximum convert iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract compare convert optimization_barrier scatter add convert gather broadcast_in_dim select optimization_barrier scatter maximum gather compare and iota select optimization_barrier scatter minimum compare gather select select convert convert -> tensor<3x4xf32> tensor<9xi64> tensor<3xi64> tensor<3x4xi64>; else IndexError: index out of range in self; else RuntimeError: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {}; else RuntimeError: offsets[-1] can not be greater than input's length(9) but got offsets[-1] of {}
        _embedding_bag: Runtime: embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='max'). Please open a feature request on GitHub.
        _embedding_bag_backward: convert iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract gather compare convert multiply broadcast_in_dim multiply convert optimization_barrier scatter add -> tensor<6x4xf32>
        _embedding_bag_dense_backward: maximum convert broadcast_in_dim divide convert gather compare convert broadcast_in_dim multiply convert optimization_barrier scatter add gather broadcast_in_dim divide optimization_barrier scatter add -> tensor<6x4xf32>
        _embedding_bag_dense_backward: compare broadcast_in_dim select convert reshape optimization_barrier scatter add -> tensor<6x4xf32>
        _embedding_bag_per_sample_weights_backward: convert gather convert gather multiply reduce add compare select -> tensor<9xf32>
        embedding: compare compare or select reduce maximum convert gather -> tensor<2x3x4xbf16>; else IndexError: index out of range in self
        embedding: Runtime: 'weight' must be 2-D
        embedding: Runtime: Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead (while checking arguments for embedding)
        embedding_dense_backward: compare compare or select reduce maximum reshape reshape convert optimization_barrier scatter add gather convert broadcast_in_dim divide convert compare select convert convert optimization_barrier scatter add convert -> tensor<6x4xbf16>; else IndexError: index out of range in self
        embedding_renorm: compare compare or select reduce maximum convert gather multiply reduce add sqrt compare add divide select broadcast_in_dim multiply convert optimization_barrier scatter -> tensor<6x4xf32>; else IndexError: index out of range in self
    "#]].assert_eq(&lines.concat());
}

#[test]
fn gradients_of_padding_go_nowhere() {
    let text = hlo(
        "embedding_dense_backward",
        &[golden::T(F32, &[2, 4]), crate::golden::T(I64, &[2])],
        &[
            Arg::Number(Number::Int(6)),
            Arg::Number(Number::Int(0)),
            Arg::Number(Number::Bool(false)),
        ],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x4xf32>, %p1: tensor<2xi64>) -> (tensor<6x4xf32>) {
            %2 = "stablehlo.constant"() <{value = dense<0> : tensor<2xi64>}> : () -> tensor<2xi64>
            %3 = "stablehlo.constant"() <{value = dense<6> : tensor<2xi64>}> : () -> tensor<2xi64>
            %4 = "stablehlo.compare"(%p1, %2) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
            %5 = "stablehlo.compare"(%p1, %3) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
            %6 = "stablehlo.or"(%4, %5) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
            %7 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<2xi64>}> : () -> tensor<2xi64>
            %8 = "stablehlo.select"(%6, %p1, %7) : (tensor<2xi1>, tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
            %9 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<i64>}> : () -> tensor<i64>
            %13 = "stablehlo.reduce"(%8, %9) <{dimensions = array<i64: 0>}> ({
              ^bb0(%10: tensor<i64>, %11: tensor<i64>):
              %12 = "stablehlo.maximum"(%10, %11) : (tensor<i64>, tensor<i64>) -> tensor<i64>
              "stablehlo.return"(%12) : (tensor<i64>) -> ()
            }) : (tensor<2xi64>, tensor<i64>) -> tensor<i64>
            %14 = "stablehlo.convert"(%p1) : (tensor<2xi64>) -> tensor<2xi32>
            %15 = "stablehlo.constant"() <{value = dense<0> : tensor<2xi32>}> : () -> tensor<2xi32>
            %16 = "stablehlo.constant"() <{value = dense<6> : tensor<2xi32>}> : () -> tensor<2xi32>
            %17 = "stablehlo.compare"(%14, %15) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
            %18 = "stablehlo.select"(%17, %16, %14) : (tensor<2xi1>, tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
            %19 = "stablehlo.constant"() <{value = dense<0.0> : tensor<6x4xf32>}> : () -> tensor<6x4xf32>
            %20 = "stablehlo.optimization_barrier"(%p0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
            %24 = "stablehlo.scatter"(%19, %18, %20) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
              ^bb0(%21: tensor<f32>, %22: tensor<f32>):
              %23 = "stablehlo.add"(%21, %22) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%23) : (tensor<f32>) -> ()
            }) : (tensor<6x4xf32>, tensor<2xi32>, tensor<2x4xf32>) -> tensor<6x4xf32>
            return %24 : tensor<6x4xf32>
          }
        }
    "#]].assert_eq(&text);
}
