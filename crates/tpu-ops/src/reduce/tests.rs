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

fn ints(list: &[i64]) -> Given {
    A(Arg::Ints(list.into()))
}

#[test]
fn rows() {
    let lines = [
        line("_aminmax", &[T(F32, &[2])]),
        line("_aminmax.dim", &[T(F32, &[2, 3]), int(1), flag(true)]),
        line(
            "hash_tensor",
            &[T(BF16, &[2, 3]), ints(&[1]), flag(false), int(0)],
        ),
        line(
            "amax.out",
            &[T(F32, &[2]), ints(&[]), flag(false), A(Arg::DType(F64))],
        ),
        line(
            "amin.out",
            &[T(F32, &[2]), ints(&[]), flag(false), A(Arg::DType(F32))],
        ),
        line(
            "mean.out",
            &[T(F32, &[2]), NONE, flag(false), NONE, A(Arg::DType(F64))],
        ),
        line(
            "nansum.out",
            &[T(F32, &[2]), NONE, flag(false), NONE, A(Arg::DType(I64))],
        ),
        line(
            "prod.int_out",
            &[T(I32, &[2]), int(0), flag(false), NONE, A(Arg::DType(I32))],
        ),
        line(
            "sum.IntList_out",
            &[T(F32, &[2]), NONE, flag(false), NONE, A(Arg::DType(I64))],
        ),
        line("all", &[T(F32, &[2, 3, 4])]),
        line("all.dim", &[T(U8, &[2, 3]), int(1), flag(true)]),
        line(
            "all.dims",
            &[T(F32, &[2, 3, 4]), ints(&[0, 2]), flag(false)],
        ),
        line("amax", &[T(F32, &[2, 3, 4]), ints(&[1]), flag(true)]),
        line("amax", &[T(F32, &[0, 3]), ints(&[]), flag(false)]),
        line("amax", &[T(F32, &[0, 3]), ints(&[0]), flag(false)]),
        line("amin", &[T(I8, &[2, 3]), ints(&[]), flag(false)]),
        line("amin", &[T(C64, &[2]), ints(&[]), flag(false)]),
        line("aminmax", &[T(F32, &[2, 3, 4]), int(0), flag(false)]),
        line("any", &[T(C64, &[2])]),
        line("any.dim", &[T(F32, &[2, 3, 4]), int(-1), flag(false)]),
        line("any.dims", &[T(F32, &[2, 3, 4]), ints(&[]), flag(false)]),
        line("argmax", &[T(F32, &[2, 3, 4]), NONE, flag(false)]),
        line("argmax", &[T(F32, &[0]), NONE, flag(false)]),
        line("argmin", &[T(I32, &[2, 3]), int(0), flag(true)]),
        line("max", &[T(BF16, &[2, 3])]),
        line("max.dim", &[T(Bool, &[2, 3]), int(3), flag(false)]),
        line("max.dim", &[T(F32, &[]), int(0), flag(false)]),
        line("mean", &[T(F16, &[2, 3]), NONE]),
        line("mean", &[T(I64, &[2]), NONE]),
        line(
            "mean.dim",
            &[
                T(F32, &[2, 3, 4]),
                ints(&[0, 1]),
                flag(true),
                A(Arg::DType(F64)),
            ],
        ),
        line(
            "mean.dim",
            &[T(F32, &[2, 3, 4]), ints(&[0, 0]), flag(true), NONE],
        ),
        line("min", &[T(U64, &[3])]),
        line("min.dim", &[T(F64, &[2, 3]), int(0), flag(false)]),
        line("nansum", &[T(BF16, &[4]), NONE, flag(false), NONE]),
        line("prod", &[T(Bool, &[3]), NONE]),
        line(
            "prod.dim_int",
            &[T(C64, &[2, 3]), int(1), flag(false), NONE],
        ),
        line("sum", &[T(I32, &[2, 3]), NONE]),
        line(
            "sum.dim_IntList",
            &[T(F32, &[2, 3, 4]), ints(&[1, -1]), flag(true), NONE],
        ),
        line(
            "sum.dim_IntList",
            &[T(I8, &[3]), NONE, flag(false), A(Arg::DType(I8))],
        ),
    ];
    expect![[r#"
        _aminmax: reduce minimum reduce maximum -> tensor<f32> tensor<f32>
        _aminmax.dim: reduce minimum reshape reduce maximum reshape -> tensor<2x1xf32> tensor<2x1xf32>
        hash_tensor: convert bitcast_convert reduce xor -> tensor<2xui64>
        amax.out: Runtime: Expected the dtype for input and out to match, but got Float for input's dtype and Double for out's dtype.
        amin.out: reduce minimum -> tensor<f32>
        mean.out: convert reduce add compare select divide -> tensor<f64>
        nansum.out: NotImplemented: "nansum" not implemented for 'Long'
        prod.int_out: reduce multiply -> tensor<i32>
        sum.IntList_out: convert reduce add -> tensor<i64>
        all: compare reduce and -> tensor<i1>
        all.dim: compare reduce and reshape convert -> tensor<2x1xui8>
        all.dims: compare reduce and -> tensor<3xi1>
        amax: reduce maximum reshape -> tensor<2x1x4xf32>
        amax: Runtime: amax(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.
        amax: Index: amax(): Expected reduction dim 0 to have non-zero size.
        amin: reduce minimum -> tensor<i8>
        amin: NotImplemented: "amin" not implemented for 'ComplexFloat'
        aminmax: reduce minimum reduce maximum -> tensor<3x4xf32> tensor<3x4xf32>
        any: compare reduce or -> tensor<i1>
        any.dim: compare reduce or -> tensor<2x3xi1>
        any.dims: compare -> tensor<2x3x4xi1>
        argmax: reshape iota reduce compare compare compare and or compare compare or and or select select convert -> tensor<i64>
        argmax: Index: argmax(): Expected reduction dim to be specified for input.numel() == 0.
        argmin: iota reduce compare compare compare and or select select convert reshape -> tensor<1x3xi64>
        max: reduce maximum -> tensor<bf16>
        max.dim: Index: Dimension out of range (expected to be in range of [-2, 1], but got 3)
        max.dim: -> tensor<f32> tensor<i64>
        mean: convert reduce add compare select divide convert -> tensor<f16>
        mean: Runtime: mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long
        mean.dim: convert reduce add reshape compare select divide -> tensor<1x1x4xf64>
        mean.dim: Runtime: dim 0 appears multiple times in the list of dims
        min: reduce minimum -> tensor<ui64>
        min.dim: iota reduce compare compare compare and or compare compare or and or select select convert -> tensor<3xf64> tensor<3xi64>
        nansum: compare select convert reduce add convert -> tensor<bf16>
        prod: convert reduce multiply -> tensor<i64>
        prod.dim_int: reduce multiply -> tensor<2xcomplex<f32>>
        sum: convert reduce add -> tensor<i64>
        sum.dim_IntList: reduce add reshape -> tensor<2x1x1xf32>
        sum.dim_IntList: reduce add -> tensor<i8>
    "#]].assert_eq(&lines.concat());
}

#[test]
fn half_width_sums_are_rounded_once() {
    let text = hlo("sum", &[golden::T(BF16, &[2, 3])], &[Arg::None]);
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xbf16>) -> (tensor<bf16>) {
            %1 = "stablehlo.convert"(%p0) : (tensor<2x3xbf16>) -> tensor<2x3xf32>
            %2 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %6 = "stablehlo.reduce"(%1, %2) <{dimensions = array<i64: 0, 1>}> ({
              ^bb0(%3: tensor<f32>, %4: tensor<f32>):
              %5 = "stablehlo.add"(%3, %4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%5) : (tensor<f32>) -> ()
            }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
            %7 = "stablehlo.convert"(%6) : (tensor<f32>) -> tensor<bf16>
            return %7 : tensor<bf16>
          }
        }
    "#]]
    .assert_eq(&text);
}

#[test]
fn positions_are_those_of_a_total_order() {
    let text = hlo(
        "max.dim",
        &[golden::T(F32, &[2, 3])],
        &[
            Arg::Number(Number::Int(1)),
            Arg::Number(Number::Bool(false)),
        ],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xi64>) {
            %1 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<2x3xi32>
            %2 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
            %3 = "stablehlo.constant"() <{value = dense<2147483647> : tensor<i32>}> : () -> tensor<i32>
            %20:2 = "stablehlo.reduce"(%p0, %1, %2, %3) <{dimensions = array<i64: 1>}> ({
              ^bb0(%4: tensor<f32>, %5: tensor<i32>, %6: tensor<f32>, %7: tensor<i32>):
              %8 = "stablehlo.compare"(%4, %6) <{comparison_direction = #stablehlo<comparison_direction GT>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
              %9 = "stablehlo.compare"(%4, %6) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
              %10 = "stablehlo.compare"(%5, %7) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
              %11 = "stablehlo.and"(%9, %10) : (tensor<i1>, tensor<i1>) -> tensor<i1>
              %12 = "stablehlo.or"(%8, %11) : (tensor<i1>, tensor<i1>) -> tensor<i1>
              %13 = "stablehlo.compare"(%4, %4) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
              %14 = "stablehlo.compare"(%6, %6) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
              %15 = "stablehlo.or"(%14, %10) : (tensor<i1>, tensor<i1>) -> tensor<i1>
              %16 = "stablehlo.and"(%13, %15) : (tensor<i1>, tensor<i1>) -> tensor<i1>
              %17 = "stablehlo.or"(%12, %16) : (tensor<i1>, tensor<i1>) -> tensor<i1>
              %18 = "stablehlo.select"(%17, %4, %6) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
              %19 = "stablehlo.select"(%17, %5, %7) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
              "stablehlo.return"(%18, %19) : (tensor<f32>, tensor<i32>) -> ()
            }) : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
            %22 = "stablehlo.convert"(%20#1) : (tensor<2xi32>) -> tensor<2xi64>
            return %20#0, %22 : tensor<2xf32>, tensor<2xi64>
          }
        }
    "#]].assert_eq(&text);
}
