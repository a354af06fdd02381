use crate::{
    Arg,
    golden::{
        Given::{self, List, T},
        flag, hlo_with, int, line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number, Slot, Type};

fn list(l: &[Option<(tpu_hlo::DType, &'static [i64])>]) -> Given {
    List(l.to_vec())
}

#[test]
fn rows() {
    let lines = [
        line(
            "_unsafe_index.Tensor",
            &[T(F32, &[2, 3, 4]), list(&[None, Some((I64, &[5]))])],
        ),
        line(
            "gather",
            &[T(F32, &[2, 3, 4]), int(1), T(I64, &[2, 2, 4]), flag(false)],
        ),
        line(
            "gather",
            &[T(F32, &[2, 3, 4]), int(1), T(I64, &[1, 7, 2]), flag(false)],
        ),
        line(
            "gather",
            &[T(F32, &[2, 3, 4]), int(1), T(I64, &[3, 2, 4]), flag(false)],
        ),
        line(
            "gather",
            &[T(F32, &[2, 3, 4]), int(1), T(F32, &[2, 2, 4]), flag(false)],
        ),
        line(
            "index.Tensor",
            &[
                T(F32, &[2, 3, 4]),
                list(&[Some((I64, &[5])), None, Some((I64, &[2, 1]))]),
            ],
        ),
        line(
            "index.Tensor",
            &[T(F32, &[2, 3, 4]), list(&[Some((Bool, &[2, 3]))]), int(4)],
        ),
        line(
            "index.Tensor",
            &[
                T(F32, &[2, 3, 4]),
                list(&[Some((Bool, &[2])), Some((I32, &[]))]),
                int(1),
            ],
        ),
        line(
            "index.Tensor",
            &[T(F32, &[2, 3, 4]), list(&[Some((Bool, &[3]))]), int(1)],
        ),
        line(
            "index.Tensor",
            &[
                T(F32, &[2, 3, 4]),
                list(&[Some((I64, &[2])), Some((I64, &[3]))]),
            ],
        ),
        line(
            "index.Tensor",
            &[T(F32, &[2, 3, 4]), list(&[Some((F32, &[2]))])],
        ),
        line(
            "index.Tensor",
            &[
                T(F32, &[2, 3, 4]),
                list(&[
                    Some((I64, &[1])),
                    Some((I64, &[1])),
                    Some((I64, &[1])),
                    Some((I64, &[1])),
                ]),
            ],
        ),
        line(
            "index.Tensor",
            &[T(F32, &[0, 3]), list(&[Some((I64, &[2]))])],
        ),
        line("index_select", &[T(F32, &[2, 3, 4]), int(2), T(I32, &[5])]),
        line("index_select", &[T(F32, &[]), int(0), T(I64, &[1])]),
        line(
            "index_select",
            &[T(F32, &[2, 3, 4]), int(0), T(I64, &[2, 2])],
        ),
        line(
            "masked_select",
            &[T(F32, &[2, 3, 4]), T(Bool, &[3, 1]), int(5)],
        ),
        line(
            "masked_select",
            &[T(F32, &[2, 3, 4]), T(Bool, &[3, 1]), int(0)],
        ),
        line("nonzero", &[T(F32, &[2, 3, 4]), int(7)]),
        line("nonzero", &[T(Bool, &[]), int(1)]),
        line("nonzero_static", &[T(I64, &[4, 5]), int(3), int(-1)]),
        line("take", &[T(F32, &[2, 3, 4]), T(I64, &[2])]),
        line("take", &[T(F32, &[2, 3, 4]), T(I32, &[2])]),
    ];
    expect![[r#"
        _unsafe_index.Tensor: compare compare or select reduce maximum convert compare add select reshape gather -> tensor<2x5x4xf32>; else IndexError: index {} is out of bounds for dimension 1 with size 3
        gather: compare compare or select reduce maximum convert reshape gather -> tensor<2x2x4xf32>; else RuntimeError: index {} is out of bounds for dimension 1 with size 3
        gather: compare compare or select reduce maximum slice convert reshape gather -> tensor<1x7x2xf32>; else RuntimeError: index {} is out of bounds for dimension 1 with size 3
        gather: Runtime: Size does not match at dimension 0 expected index [3, 2, 4] to be no larger than self [2, 3, 4] apart from dimension 1
        gather: Runtime: gather(): Expected dtype int32/int64 for index
        index.Tensor: compare compare or select reduce maximum convert compare add select broadcast_in_dim reshape compare compare or select reduce maximum convert compare add select broadcast_in_dim reshape concatenate gather -> tensor<2x5x3xf32>; else IndexError: index {} is out of bounds for dimension 0 with size 2; else IndexError: index {} is out of bounds for dimension 2 with size 4
        index.Tensor: reshape convert reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical remainder divide reshape reshape concatenate gather -> tensor<4x4xf32>
        index.Tensor: convert reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical reshape convert compare compare or select reduce maximum compare add select broadcast_in_dim reshape concatenate gather -> tensor<1x4xf32>; else IndexError: index {} is out of bounds for dimension 1 with size 3
        index.Tensor: Index: The shape of the mask [3] at index 0 does not match the shape of the indexed tensor [2, 3, 4] at index 0
        index.Tensor: Index: shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]
        index.Tensor: Index: tensors used as indices must be long, int, byte or bool tensors
        index.Tensor: Index: too many indices for tensor of dimension 3 (got 4)
        index.Tensor: Index: index is out of bounds for dimension with size 0
        index_select: convert compare compare or select reduce maximum gather -> tensor<2x3x5xf32>; else IndexError: index out of range in self
        index_select: reshape compare compare or select reduce maximum convert gather reshape -> tensor<f32>; else IndexError: index out of range in self
        index_select: Index: index_select(): Index is supposed to be a vector, but got dim: 2
        masked_select: broadcast_in_dim reshape reshape convert pad reshape reduce_window add slice reshape reduce_window add pad broadcast_in_dim add reshape slice iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical gather -> tensor<5xf32>
        masked_select: broadcast_in_dim -> tensor<0xf32>
        nonzero: compare reshape convert pad reshape reduce_window add slice reshape reduce_window add pad broadcast_in_dim add reshape slice iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical remainder divide remainder divide convert reshape convert reshape convert reshape concatenate -> tensor<7x3xi64>
        nonzero: -> tensor<1x0xi64>
        nonzero_static: compare reshape convert pad reshape reduce_window add slice reshape reduce_window add pad broadcast_in_dim add reshape slice iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical remainder divide convert reshape convert reshape concatenate compare convert reduce add convert broadcast_in_dim iota compare select -> tensor<3x2xi64>
        take: reshape compare compare or select reduce maximum compare add select convert gather -> tensor<2xf32>; else IndexError: out of range: tried to access index {} on a tensor of 24 elements.
        take: Index: take(): Expected a long tensor for index, but got Int
    "#]].assert_eq(&lines.concat());
}

#[test]
fn a_gather_reads_one_element_each() {
    let text = hlo_with("gather", |b| {
        let mut tensor = |slot, dtype, dims: &[i64]| {
            Arg::Tensor(b.param(Slot::Buffer(slot), Type::new(dtype, dims)))
        };
        vec![
            tensor(0, F32, &[2, 3]),
            Arg::Number(Number::Int(1)),
            tensor(1, I64, &[2, 5]),
            Arg::Number(Number::Bool(false)),
        ]
    });
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xf32>, %p1: tensor<2x5xi64>) -> (tensor<2x5xf32>) {
            %2 = "stablehlo.constant"() <{value = dense<0> : tensor<2x5xi64>}> : () -> tensor<2x5xi64>
            %3 = "stablehlo.constant"() <{value = dense<3> : tensor<2x5xi64>}> : () -> tensor<2x5xi64>
            %4 = "stablehlo.compare"(%p1, %2) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2x5xi64>, tensor<2x5xi64>) -> tensor<2x5xi1>
            %5 = "stablehlo.compare"(%p1, %3) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2x5xi64>, tensor<2x5xi64>) -> tensor<2x5xi1>
            %6 = "stablehlo.or"(%4, %5) : (tensor<2x5xi1>, tensor<2x5xi1>) -> tensor<2x5xi1>
            %7 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<2x5xi64>}> : () -> tensor<2x5xi64>
            %8 = "stablehlo.select"(%6, %p1, %7) : (tensor<2x5xi1>, tensor<2x5xi64>, tensor<2x5xi64>) -> tensor<2x5xi64>
            %9 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<i64>}> : () -> tensor<i64>
            %13 = "stablehlo.reduce"(%8, %9) <{dimensions = array<i64: 0, 1>}> ({
              ^bb0(%10: tensor<i64>, %11: tensor<i64>):
              %12 = "stablehlo.maximum"(%10, %11) : (tensor<i64>, tensor<i64>) -> tensor<i64>
              "stablehlo.return"(%12) : (tensor<i64>) -> ()
            }) : (tensor<2x5xi64>, tensor<i64>) -> tensor<i64>
            %14 = "stablehlo.convert"(%p1) : (tensor<2x5xi64>) -> tensor<2x5xi32>
            %15 = "stablehlo.reshape"(%14) : (tensor<2x5xi32>) -> tensor<2x5x1xi32>
            %16 = "stablehlo.gather"(%p0, %15) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<2x3xf32>, tensor<2x5x1xi32>) -> tensor<2x5xf32>
            return %16 : tensor<2x5xf32>
          }
        }
    "#]]
    .assert_eq(&text);
}
