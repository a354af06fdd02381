use crate::{
    Arg,
    golden::{
        Given::{self, A, Launch, T},
        flag, hlo_with, int, line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number, Slot, Type};

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
            "index_add",
            &[
                T(F32, &[2, 3, 4]),
                int(1),
                T(I64, &[5]),
                T(F32, &[2, 5, 4]),
                int(1),
            ],
        ),
        line(
            "index_add",
            &[
                T(BF16, &[3]),
                int(0),
                T(I64, &[2]),
                T(BF16, &[2]),
                launch(2),
            ],
        ),
        line(
            "index_add",
            &[
                T(F32, &[2, 3, 4]),
                int(1),
                T(I64, &[5]),
                T(F32, &[2, 4, 4]),
                int(1),
            ],
        ),
        line(
            "index_copy",
            &[T(F32, &[2, 3, 4]), int(0), T(I64, &[1]), T(F32, &[1, 3, 4])],
        ),
        line(
            "index_copy",
            &[T(F32, &[2, 3, 4]), int(0), T(I64, &[1]), T(F64, &[1, 3, 4])],
        ),
        line(
            "index_fill.int_Scalar",
            &[T(F32, &[2, 3, 4]), int(0), T(I64, &[1]), launch(0)],
        ),
        line(
            "index_fill.int_Tensor",
            &[T(F32, &[2, 3, 4]), int(0), T(I64, &[1]), T(F64, &[])],
        ),
        line(
            "index_fill.int_Tensor",
            &[T(F32, &[2, 3, 4]), int(0), T(I64, &[1]), T(F32, &[1])],
        ),
        line(
            "index_reduce",
            &[
                T(F32, &[2, 3, 4]),
                int(0),
                T(I64, &[3]),
                T(F32, &[3, 3, 4]),
                word("mean"),
                flag(false),
            ],
        ),
        line(
            "index_reduce",
            &[
                T(F32, &[2, 3, 4]),
                int(0),
                T(I64, &[3]),
                T(F32, &[3, 3, 4]),
                word("sum"),
                flag(false),
            ],
        ),
        line(
            "scatter.reduce",
            &[
                T(I64, &[4]),
                int(0),
                T(I64, &[2]),
                T(I64, &[3]),
                word("multiply"),
            ],
        ),
        line(
            "scatter.reduce",
            &[
                T(I64, &[4]),
                int(0),
                T(I64, &[2]),
                T(I64, &[3]),
                word("amax"),
            ],
        ),
        line(
            "scatter.src",
            &[
                T(F32, &[2, 3, 4]),
                int(1),
                T(I64, &[1, 7, 4]),
                T(F32, &[2, 8, 4]),
            ],
        ),
        line(
            "scatter.src",
            &[
                T(F32, &[2, 3, 4]),
                int(1),
                T(I64, &[3, 1, 1]),
                T(F32, &[3, 1, 1]),
            ],
        ),
        line(
            "scatter.value",
            &[T(F32, &[2, 3, 4]), int(2), T(I64, &[2, 3, 1]), launch(1)],
        ),
        line(
            "scatter.value_reduce",
            &[
                T(F32, &[2, 3, 4]),
                int(2),
                T(I64, &[2, 3, 1]),
                launch(1),
                word("add"),
            ],
        ),
        line(
            "scatter_add",
            &[T(F16, &[4]), int(0), T(I64, &[2]), T(F16, &[2])],
        ),
        line(
            "scatter_add",
            &[T(F16, &[4]), int(0), T(I64, &[0]), T(F16, &[2])],
        ),
        line(
            "scatter_reduce.two",
            &[
                T(I32, &[4]),
                int(0),
                T(I64, &[2]),
                T(I32, &[2]),
                word("mean"),
                flag(true),
            ],
        ),
        line(
            "scatter_reduce.two",
            &[
                T(F32, &[4]),
                int(0),
                T(I64, &[2]),
                T(F32, &[2]),
                word("amax"),
                flag(false),
            ],
        ),
    ];
    expect![[r#"
        index_add: compare compare or select reduce maximum convert optimization_barrier scatter add -> tensor<2x3x4xf32>; else IndexError: index out of range in self
        index_add: compare compare or select reduce maximum broadcast_in_dim multiply convert convert convert optimization_barrier scatter add convert -> tensor<3xbf16>; else IndexError: index out of range in self
        index_add: Runtime: source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = [2, 3, 4] source.shape = [2, 4, 4]
        index_copy: compare compare or select reduce maximum convert optimization_barrier scatter -> tensor<2x3x4xf32>; else IndexError: index_copy_(): index {} is out of bounds for dimension 0 with size 2
        index_copy: Runtime: index_copy(): self and source expected to have the same dtype, but got (self) Float and (source) Double
        index_fill.int_Scalar: compare compare or select reduce maximum compare add select broadcast_in_dim convert optimization_barrier scatter -> tensor<2x3x4xf32>; else IndexError: index {} is out of bounds for dimension 0 with size 2
        index_fill.int_Tensor: compare compare or select reduce maximum compare add select convert broadcast_in_dim convert optimization_barrier scatter -> tensor<2x3x4xf32>; else IndexError: index {} is out of bounds for dimension 0 with size 2
        index_fill.int_Tensor: Runtime: index_fill_ only supports a 0-dimensional value tensor, but got tensor with 1 dimension(s).
        index_reduce: compare compare or select reduce maximum broadcast_in_dim convert optimization_barrier scatter convert optimization_barrier scatter add convert optimization_barrier scatter add maximum divide -> tensor<2x3x4xf32>; else IndexError: index out of range in self
        index_reduce: Runtime: index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got sum.
        scatter.reduce: compare compare or select reduce maximum slice convert reshape optimization_barrier scatter multiply -> tensor<4xi64>; else RuntimeError: index {} is out of bounds for dimension 0 with size 4
        scatter.reduce: Runtime: reduce argument must be either add or multiply, got amax
        scatter.src: compare compare or select reduce maximum slice convert reshape slice optimization_barrier scatter dynamic_update_slice -> tensor<2x3x4xf32>; else RuntimeError: index {} is out of bounds for dimension 1 with size 3
        scatter.src: Runtime: Expected index [3, 1, 1] to be no larger than self [2, 3, 4] apart from dimension 1 and to be no larger size than src [3, 1, 1]
        scatter.value: broadcast_in_dim compare compare or select reduce maximum convert reshape optimization_barrier scatter -> tensor<2x3x4xf32>; else RuntimeError: index {} is out of bounds for dimension 2 with size 4
        scatter.value_reduce: broadcast_in_dim compare compare or select reduce maximum convert reshape optimization_barrier scatter add -> tensor<2x3x4xf32>; else RuntimeError: index {} is out of bounds for dimension 2 with size 4
        scatter_add: compare compare or select reduce maximum convert convert convert reshape optimization_barrier scatter add convert -> tensor<4xf16>; else RuntimeError: index {} is out of bounds for dimension 0 with size 4
        scatter_add: -> tensor<4xf16>
        scatter_reduce.two: compare compare or select reduce maximum convert reshape optimization_barrier scatter add convert reshape optimization_barrier scatter add maximum divide remainder compare subtract select -> tensor<4xi32>; else RuntimeError: index {} is out of bounds for dimension 0 with size 4
        scatter_reduce.two: compare compare or select reduce maximum broadcast_in_dim convert reshape optimization_barrier scatter convert reshape optimization_barrier scatter maximum -> tensor<4xf32>; else RuntimeError: index {} is out of bounds for dimension 0 with size 4
    "#]].assert_eq(&lines.concat());
}

#[test]
fn elements_are_written_to_the_part_that_the_index_reaches() {
    let text = hlo_with("scatter.src", |b| {
        let mut tensor = |slot, dtype, dims: &[i64]| {
            Arg::Tensor(b.param(Slot::Buffer(slot), Type::new(dtype, dims)))
        };
        vec![
            tensor(0, F32, &[2, 3]),
            Arg::Number(Number::Int(1)),
            tensor(1, I64, &[1, 2]),
            tensor(2, F32, &[1, 2]),
        ]
    });
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xf32>, %p1: tensor<1x2xi64>, %p2: tensor<1x2xf32>) -> (tensor<2x3xf32>) {
            %3 = "stablehlo.constant"() <{value = dense<0> : tensor<1x2xi64>}> : () -> tensor<1x2xi64>
            %4 = "stablehlo.constant"() <{value = dense<3> : tensor<1x2xi64>}> : () -> tensor<1x2xi64>
            %5 = "stablehlo.compare"(%p1, %3) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<1x2xi64>, tensor<1x2xi64>) -> tensor<1x2xi1>
            %6 = "stablehlo.compare"(%p1, %4) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<1x2xi64>, tensor<1x2xi64>) -> tensor<1x2xi1>
            %7 = "stablehlo.or"(%5, %6) : (tensor<1x2xi1>, tensor<1x2xi1>) -> tensor<1x2xi1>
            %8 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<1x2xi64>}> : () -> tensor<1x2xi64>
            %9 = "stablehlo.select"(%7, %p1, %8) : (tensor<1x2xi1>, tensor<1x2xi64>, tensor<1x2xi64>) -> tensor<1x2xi64>
            %10 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<i64>}> : () -> tensor<i64>
            %14 = "stablehlo.reduce"(%9, %10) <{dimensions = array<i64: 0, 1>}> ({
              ^bb0(%11: tensor<i64>, %12: tensor<i64>):
              %13 = "stablehlo.maximum"(%11, %12) : (tensor<i64>, tensor<i64>) -> tensor<i64>
              "stablehlo.return"(%13) : (tensor<i64>) -> ()
            }) : (tensor<1x2xi64>, tensor<i64>) -> tensor<i64>
            %15 = "stablehlo.convert"(%p1) : (tensor<1x2xi64>) -> tensor<1x2xi32>
            %16 = "stablehlo.reshape"(%15) : (tensor<1x2xi32>) -> tensor<1x2x1xi32>
            %17 = "stablehlo.slice"(%p0) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 3>, strides = array<i64: 1, 1>}> : (tensor<2x3xf32>) -> tensor<1x3xf32>
            %18 = "stablehlo.optimization_barrier"(%p2) : (tensor<1x2xf32>) -> tensor<1x2xf32>
            %21 = "stablehlo.scatter"(%17, %16, %18) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
              ^bb0(%19: tensor<f32>, %20: tensor<f32>):
              "stablehlo.return"(%20) : (tensor<f32>) -> ()
            }) : (tensor<1x3xf32>, tensor<1x2x1xi32>, tensor<1x2xf32>) -> tensor<1x3xf32>
            %22 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
            %23 = "stablehlo.dynamic_update_slice"(%p0, %21, %22, %22) : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
            return %23 : tensor<2x3xf32>
          }
        }
    "#]]
    .assert_eq(&text);
}
