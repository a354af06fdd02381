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

fn word(s: &str) -> Given {
    A(Arg::Str(s.into()))
}

fn launch(i: i64) -> Given {
    Launch(Number::Int(i))
}

#[test]
fn rows() {
    let lines = [
        line(
            "bucketize.Scalar",
            &[launch(3), T(I64, &[5]), flag(true), flag(false)],
        ),
        line(
            "bucketize.Tensor",
            &[T(F32, &[2, 3]), T(F32, &[5]), flag(false), flag(true)],
        ),
        line(
            "bucketize.Tensor",
            &[T(F32, &[2, 3]), T(F32, &[5, 1]), flag(false), flag(true)],
        ),
        line(
            "searchsorted.Scalar",
            &[
                T(F32, &[5]),
                launch(3),
                flag(false),
                flag(false),
                word("right"),
                NONE,
            ],
        ),
        line(
            "searchsorted.Tensor",
            &[
                T(F32, &[2, 5]),
                T(I32, &[2, 3]),
                flag(false),
                flag(false),
                NONE,
                T(I64, &[2, 5]),
            ],
        ),
        line(
            "searchsorted.Tensor",
            &[
                T(F32, &[2, 5]),
                T(F32, &[3, 3]),
                flag(false),
                flag(false),
                NONE,
                NONE,
            ],
        ),
        line(
            "searchsorted.Tensor",
            &[
                T(F32, &[5]),
                T(F32, &[3]),
                flag(false),
                flag(true),
                word("left"),
                NONE,
            ],
        ),
        line("sort", &[T(F32, &[2, 3]), int(0), flag(true)]),
        line("sort", &[T(F32, &[]), int(0), flag(false)]),
        line(
            "sort.stable",
            &[T(I64, &[2, 3]), NONE, int(-1), flag(false)],
        ),
        line("sort", &[T(C64, &[2]), int(0), flag(false)]),
        line(
            "topk",
            &[T(BF16, &[3, 2]), int(1), int(0), flag(false), flag(true)],
        ),
        line(
            "topk",
            &[T(I64, &[4]), int(2), int(0), flag(false), flag(false)],
        ),
        line(
            "topk",
            &[T(F32, &[4]), int(5), int(0), flag(true), flag(true)],
        ),
    ];
    expect![[r#"
        bucketize.Scalar: while compare add subtract gather compare not compare and select shift_right_logical -> tensor<i32>
        bucketize.Tensor: while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical convert -> tensor<2x3xi64>
        bucketize.Tensor: Runtime: boundaries tensor must be 1 dimension, but got dim(2)
        searchsorted.Scalar: while compare add subtract gather compare not compare and select shift_right_logical convert -> tensor<i64>
        searchsorted.Tensor: compare compare or select reduce maximum convert reshape gather convert while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical convert -> tensor<2x3xi64>; else RuntimeError: torch.searchsorted(): sorter index out of range
        searchsorted.Tensor: Runtime: torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor [2, 5] and input value tensor [3, 3]
        searchsorted.Tensor: Runtime: torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True
        sort: iota sort compare compare compare and or convert -> tensor<2x3xf32> tensor<2x3xi64>
        sort: -> tensor<f32> tensor<i64>
        sort.stable: iota sort compare convert -> tensor<2x3xi64> tensor<2x3xi64>
        sort: Runtime: sort(): complex dtypes are not supported
        topk: transpose convert compare negate negate select top_k transpose reshape gather convert -> tensor<1x2xbf16> tensor<1x2xi64>
        topk: not top_k reshape gather convert -> tensor<2xi64> tensor<2xi64>
        topk: Runtime: selected index k out of range
    "#]].assert_eq(&lines.concat());
}

#[test]
fn nan_is_the_largest_in_a_sort() {
    let text = hlo(
        "sort",
        &[golden::T(F32, &[4])],
        &[
            Arg::Number(Number::Int(0)),
            Arg::Number(Number::Bool(false)),
        ],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
            %1 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<4xi32>
            %11:2 = "stablehlo.sort"(%p0, %1) <{dimension = 0 : i64, is_stable = true}> ({
              ^bb0(%2: tensor<f32>, %3: tensor<f32>, %4: tensor<i32>, %5: tensor<i32>):
              %6 = "stablehlo.compare"(%2, %3) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
              %7 = "stablehlo.compare"(%3, %3) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
              %8 = "stablehlo.compare"(%2, %2) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
              %9 = "stablehlo.and"(%7, %8) : (tensor<i1>, tensor<i1>) -> tensor<i1>
              %10 = "stablehlo.or"(%6, %9) : (tensor<i1>, tensor<i1>) -> tensor<i1>
              "stablehlo.return"(%10) : (tensor<i1>) -> ()
            }) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
            %13 = "stablehlo.convert"(%11#1) : (tensor<4xi32>) -> tensor<4xi64>
            return %11#0, %13 : tensor<4xf32>, tensor<4xi64>
          }
        }
    "#]].assert_eq(&text);
}

#[test]
fn a_search_halves_its_step() {
    let text = hlo(
        "bucketize.Tensor",
        &[golden::T(I32, &[3]), crate::golden::T(I32, &[5])],
        &[
            Arg::Number(Number::Bool(false)),
            Arg::Number(Number::Bool(false)),
        ],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<3xi32>, %p1: tensor<5xi32>) -> (tensor<3xi64>) {
            %2 = "stablehlo.constant"() <{value = dense<0> : tensor<3xi32>}> : () -> tensor<3xi32>
            %3 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
            %27:4 = "stablehlo.while"(%3, %2, %p1, %p0) ({
              ^bb0(%4: tensor<i32>, %5: tensor<3xi32>, %6: tensor<5xi32>, %7: tensor<3xi32>):
              %8 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
              %9 = "stablehlo.compare"(%4, %8) <{comparison_direction = #stablehlo<comparison_direction GT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
              "stablehlo.return"(%9) : (tensor<i1>) -> ()
            }, {
              ^bb0(%10: tensor<i32>, %11: tensor<3xi32>, %12: tensor<5xi32>, %13: tensor<3xi32>):
              %14 = "stablehlo.broadcast_in_dim"(%10) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<3xi32>
              %15 = "stablehlo.add"(%11, %14) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
              %16 = "stablehlo.constant"() <{value = dense<1> : tensor<3xi32>}> : () -> tensor<3xi32>
              %17 = "stablehlo.constant"() <{value = dense<5> : tensor<3xi32>}> : () -> tensor<3xi32>
              %18 = "stablehlo.subtract"(%15, %16) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
              %19 = "stablehlo.gather"(%12, %18) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<5xi32>, tensor<3xi32>) -> tensor<3xi32>
              %20 = "stablehlo.compare"(%19, %13) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
              %21 = "stablehlo.not"(%20) : (tensor<3xi1>) -> tensor<3xi1>
              %22 = "stablehlo.compare"(%15, %17) <{comparison_direction = #stablehlo<comparison_direction LE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
              %23 = "stablehlo.and"(%22, %21) : (tensor<3xi1>, tensor<3xi1>) -> tensor<3xi1>
              %24 = "stablehlo.select"(%23, %15, %11) : (tensor<3xi1>, tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
              %25 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
              %26 = "stablehlo.shift_right_logical"(%10, %25) : (tensor<i32>, tensor<i32>) -> tensor<i32>
              "stablehlo.return"(%26, %24, %12, %13) : (tensor<i32>, tensor<3xi32>, tensor<5xi32>, tensor<3xi32>) -> ()
            }) : (tensor<i32>, tensor<3xi32>, tensor<5xi32>, tensor<3xi32>) -> (tensor<i32>, tensor<3xi32>, tensor<5xi32>, tensor<3xi32>)
            %31 = "stablehlo.convert"(%27#1) : (tensor<3xi32>) -> tensor<3xi64>
            return %31 : tensor<3xi64>
          }
        }
    "#]].assert_eq(&text);
}

#[test]
fn the_largest_are_taken_of_keys() {
    let text = hlo(
        "topk",
        &[golden::T(F32, &[2, 8])],
        &[
            Arg::Number(Number::Int(2)),
            Arg::Number(Number::Int(-1)),
            Arg::Number(Number::Bool(true)),
            Arg::Number(Number::Bool(true)),
        ],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x8xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>) {
            %1 = "stablehlo.compare"(%p0, %p0) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xi1>
            %2 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<2x8xf32>}> : () -> tensor<2x8xf32>
            %3 = "stablehlo.select"(%1, %2, %p0) : (tensor<2x8xi1>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
            %4:2 = "chlo.top_k"(%3) <{k = 2 : i64}> : (tensor<2x8xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
            %6 = "stablehlo.reshape"(%4#1) : (tensor<2x2xi32>) -> tensor<2x2x1xi32>
            %7 = "stablehlo.gather"(%p0, %6) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<2x8xf32>, tensor<2x2x1xi32>) -> tensor<2x2xf32>
            %8 = "stablehlo.convert"(%4#1) : (tensor<2x2xi32>) -> tensor<2x2xi64>
            return %7, %8 : tensor<2x2xf32>, tensor<2x2xi64>
          }
        }
    "#]].assert_eq(&text);
}
