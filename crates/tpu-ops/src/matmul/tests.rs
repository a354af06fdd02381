use crate::golden::{
    Given::{self, A, Launch, T},
    T as Tensor, flag, hlo, int, line,
};
use crate::{Arg, get};
use expect_test::expect;
use tpu_hlo::{Builder, DType::*, Number, Slot, Type};

fn half() -> Given {
    Launch(Number::Float(0.5))
}

#[test]
fn half_width_floats_accumulate_in_float32() {
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xbf16>, %p1: tensor<3x4xbf16>) -> (tensor<2x4xbf16>) {
            %2 = "stablehlo.dot_general"(%p0, %p1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>
            %3 = "stablehlo.convert"(%2) : (tensor<2x4xf32>) -> tensor<2x4xbf16>
            return %3 : tensor<2x4xbf16>
          }
        }
    "#]].assert_eq(&hlo(
        "mm",
        &[Tensor(BF16, &[2, 3]), Tensor(BF16, &[3, 4])],
        &[],
    ));
}

#[test]
fn beta_zero_ignores_the_input() {
    let mut b = Builder::default();
    let x = [&[4][..], &[2, 3], &[3, 4]].map(|d| {
        let slot = Slot::Buffer(d.iter().sum::<i64>() as u32);
        Arg::Tensor(b.param(slot, Type::new(F32, d)))
    });
    let beta = Arg::Scalar(b.number(0, F64));
    let [input, mat1, mat2] = x;
    let args = [input, mat1, mat2, beta, Arg::Number(Number::Int(1))];
    let row = get("addmm").unwrap();
    let outs = row.lower(&mut b, &args).unwrap();
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<4xf32>, %p1: tensor<2x3xf32>, %p2: tensor<3x4xf32>, %p6: tensor<f32>) -> (tensor<2x4xf32>) {
            %4 = "stablehlo.dot_general"(%p1, %p2) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
            %5 = "stablehlo.broadcast_in_dim"(%p0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<4xf32>) -> tensor<2x4xf32>
            %7 = "stablehlo.broadcast_in_dim"(%p6) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x4xf32>
            %8 = "stablehlo.multiply"(%5, %7) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
            %9 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %10 = "stablehlo.compare"(%p6, %9) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %11 = "stablehlo.constant"() <{value = dense<0.0> : tensor<2x4xf32>}> : () -> tensor<2x4xf32>
            %12 = "stablehlo.select"(%10, %11, %8) : (tensor<i1>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
            %13 = "stablehlo.add"(%12, %4) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
            return %13 : tensor<2x4xf32>
          }
        }
    "#]].assert_eq(&b.finish(&outs, &[]).text);
}

#[test]
fn rows() {
    let (m23, m34) = (|t| T(t, &[2, 3]), |t| T(t, &[3, 4]));
    let (x, y) = (|t| T(t, &[5, 2, 3]), |t| T(t, &[5, 3, 4]));
    let lines = [
        line("mm", &[m23(F32), m34(F32)]),
        line("mm", &[m23(I64), m34(I64)]),
        line("mm.dtype", &[m23(BF16), m34(BF16), A(Arg::DType(F32))]),
        line("addmm", &[T(F16, &[4]), m23(F16), m34(F16), int(1), half()]),
        line(
            "addmm.dtype",
            &[
                T(F32, &[4]),
                m23(BF16),
                m34(BF16),
                A(Arg::DType(F32)),
                int(1),
                int(1),
            ],
        ),
        line(
            "_addmm_activation",
            &[
                T(F32, &[4]),
                m23(F32),
                m34(F32),
                int(1),
                int(1),
                flag(false),
            ],
        ),
        line(
            "_addmm_activation",
            &[T(F32, &[4]), m23(F32), m34(F32), int(1), int(1), flag(true)],
        ),
        line("bmm", &[x(F32), y(F32)]),
        line("bmm.dtype", &[x(F16), y(F16), A(Arg::DType(F32))]),
        line(
            "baddbmm",
            &[T(F32, &[2, 1]), x(F32), y(F32), half(), int(1)],
        ),
        line(
            "baddbmm.dtype",
            &[
                T(F32, &[4]),
                x(BF16),
                y(BF16),
                A(Arg::DType(F32)),
                int(1),
                int(1),
            ],
        ),
        line("addbmm", &[T(F32, &[2, 4]), x(F32), y(F32), int(1), int(1)]),
        line("mv", &[m23(F32), T(F32, &[3])]),
        line(
            "addmv",
            &[T(F32, &[2]), m23(F32), T(F32, &[3]), int(1), half()],
        ),
        line(
            "addr",
            &[m23(F32), T(F32, &[2]), T(F32, &[3]), int(1), half()],
        ),
        line(
            "addr",
            &[m23(Bool), T(Bool, &[2]), T(Bool, &[3]), int(1), int(1)],
        ),
        line("dot", &[T(BF16, &[3]), T(BF16, &[3])]),
        line("vdot", &[T(C64, &[3]), T(C64, &[3])]),
        line("_int_mm", &[m23(I8), m34(I8)]),
        line(
            "_weight_int8pack_mm",
            &[m23(BF16), T(I8, &[4, 3]), T(BF16, &[4])],
        ),
        line(
            "_scaled_mm",
            &[
                m23(F8E4M3FN),
                m34(F8E4M3FN),
                T(F32, &[]),
                T(F32, &[1, 4]),
                A(Arg::None),
                A(Arg::None),
                A(Arg::DType(BF16)),
            ],
        ),
        line(
            "_scaled_mm",
            &[
                m23(F8E4M3FN),
                m34(F8E5M2),
                T(F32, &[]),
                T(F32, &[]),
                A(Arg::None),
                T(F32, &[]),
                A(Arg::DType(F8E4M3FN)),
            ],
        ),
        line(
            "_grouped_mm",
            &[T(BF16, &[9, 3]), T(BF16, &[2, 3, 4]), T(I32, &[2])],
        ),
        line("_grouped_mm", &[m23(F32), m34(F32), T(I32, &[2])]),
        line("_grouped_mm", &[T(F32, &[2, 5, 3]), m34(F32), T(I32, &[2])]),
        line("_grouped_mm", &[x(F32), y(F32)]),
    ];
    expect![[r#"
        mm: dot_general -> tensor<2x4xf32>
        mm: dot_general -> tensor<2x4xi64>
        mm.dtype: dot_general -> tensor<2x4xf32>
        addmm: dot_general convert broadcast_in_dim broadcast_in_dim multiply add convert -> tensor<2x4xf16>
        addmm.dtype: dot_general broadcast_in_dim add -> tensor<2x4xf32>
        _addmm_activation: dot_general broadcast_in_dim add maximum -> tensor<2x4xf32>
        _addmm_activation: dot_general broadcast_in_dim add multiply erf add multiply multiply -> tensor<2x4xf32>
        bmm: dot_general -> tensor<5x2x4xf32>
        bmm.dtype: dot_general -> tensor<5x2x4xf32>
        baddbmm: dot_general broadcast_in_dim broadcast_in_dim multiply compare select add -> tensor<5x2x4xf32>
        baddbmm.dtype: dot_general broadcast_in_dim add -> tensor<5x2x4xf32>
        addbmm: dot_general add -> tensor<2x4xf32>
        mv: dot_general -> tensor<2xf32>
        addmv: dot_general broadcast_in_dim multiply add -> tensor<2xf32>
        addr: broadcast_in_dim broadcast_in_dim multiply broadcast_in_dim multiply add -> tensor<2x3xf32>
        addr: broadcast_in_dim broadcast_in_dim and or -> tensor<2x3xi1>
        dot: dot_general convert -> tensor<bf16>
        vdot: real imag negate complex dot_general -> tensor<complex<f32>>
        _int_mm: convert convert dot_general -> tensor<2x4xi32>
        _weight_int8pack_mm: convert dot_general convert broadcast_in_dim multiply convert -> tensor<2x4xbf16>
        _scaled_mm: convert convert dot_general broadcast_in_dim multiply broadcast_in_dim multiply convert -> tensor<2x4xbf16>
        _scaled_mm: convert convert dot_general broadcast_in_dim multiply broadcast_in_dim multiply broadcast_in_dim multiply maximum minimum convert -> tensor<2x4xf8E4M3FN>
        _grouped_mm: pad subtract add divide iota iota compare broadcast_in_dim select reduce add pad iota broadcast_in_dim broadcast_in_dim compare compare and broadcast_in_dim broadcast_in_dim subtract multiply add subtract iota slice select reduce add select reduce add select reduce add reshape pad while compare dynamic_slice reshape dynamic_slice reshape dynamic_slice reshape dynamic_slice dynamic_slice reshape dot_general dynamic_slice iota broadcast_in_dim compare select dynamic_update_slice add slice convert -> tensor<9x4xbf16>
        _grouped_mm: pad subtract add divide iota iota compare broadcast_in_dim select reduce add pad iota broadcast_in_dim broadcast_in_dim compare compare and broadcast_in_dim broadcast_in_dim subtract multiply add subtract iota slice select reduce add select reduce add select reduce add reshape pad pad while compare dynamic_slice reshape dynamic_slice reshape dynamic_slice reshape dynamic_slice dynamic_slice iota broadcast_in_dim compare select iota broadcast_in_dim compare select dot_general reshape dynamic_slice add dynamic_update_slice add -> tensor<2x2x4xf32>
        _grouped_mm: transpose transpose pad subtract add divide iota iota compare broadcast_in_dim select reduce add pad iota broadcast_in_dim broadcast_in_dim compare compare and broadcast_in_dim broadcast_in_dim subtract multiply add subtract iota slice select reduce add select reduce add select reduce add reshape pad while compare dynamic_slice reshape dynamic_slice reshape dynamic_slice reshape dynamic_slice dynamic_slice reshape dot_general dynamic_slice iota broadcast_in_dim compare select dynamic_update_slice add slice transpose -> tensor<5x4xf32>
        _grouped_mm: dot_general -> tensor<5x2x4xf32>
    "#]].assert_eq(&lines.concat());
}

#[test]
fn refusals_are_pytorchs() {
    let t = |d| T(F32, d);
    let lines = [
        line("mm", &[t(&[2, 3]), t(&[4, 5])]),
        line("mm", &[t(&[2]), t(&[4, 5])]),
        line("mm", &[t(&[2, 3]), T(F64, &[3, 4])]),
        line("mm", &[T(Bool, &[2, 3]), T(Bool, &[3, 4])]),
        line("addmm", &[t(&[7]), t(&[2, 3]), t(&[3, 5]), int(1), int(1)]),
        line("addmm", &[t(&[5]), t(&[2]), t(&[3, 5]), int(1), int(1)]),
        line(
            "addmm",
            &[T(F64, &[5]), t(&[2, 3]), t(&[3, 5]), int(1), int(1)],
        ),
        line("bmm", &[t(&[2, 3, 4]), t(&[3, 4, 5])]),
        line("bmm", &[t(&[2, 3, 4]), T(F64, &[2, 4, 5])]),
        line(
            "baddbmm",
            &[T(F64, &[5]), t(&[2, 3, 4]), t(&[2, 4, 5]), int(1), int(1)],
        ),
        line(
            "addbmm",
            &[t(&[5]), t(&[2, 3, 4]), t(&[3, 4, 5]), int(1), int(1)],
        ),
        line("addmv", &[t(&[7]), t(&[2, 3]), t(&[3]), int(1), int(1)]),
        line(
            "addr",
            &[T(I64, &[3]), T(I64, &[2]), T(I64, &[3]), half(), int(1)],
        ),
        line("dot", &[t(&[2]), t(&[3])]),
        line("_int_mm", &[t(&[2, 3]), T(I8, &[3, 4])]),
        line("_grouped_mm", &[t(&[2, 3]), T(F32, &[2, 3, 4])]),
    ];
    expect![[r#"
        mm: Runtime: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)
        mm: Runtime: self must be a matrix
        mm: Runtime: expected m1 and m2 to have the same dtype, but got: float != double
        mm: NotImplemented: "addmm" not implemented for 'Bool'
        addmm: Runtime: The expanded size of the tensor (5) must match the existing size (7) at non-singleton dimension 1.  Target sizes: [2, 5].  Tensor sizes: [7]
        addmm: Runtime: mat1 must be a matrix, got 1-D tensor
        addmm: Runtime: self and mat2 must have the same dtype, but got Double and Float
        bmm: Runtime: Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [3, 4].
        bmm: Runtime: expected scalar type Float but found Double
        baddbmm: Runtime: Input dtypes must be the same, got: input double, batch1: float, batch2: float
        addbmm: Runtime: batch1 and batch2 must have same number of batches, got 2 and 3
        addmv: Runtime: size mismatch, got input (7), mat (2x3), vec (3)
        addr: Runtime: For integral input tensors, argument beta must not be a floating point number.
        dot: Runtime: inconsistent tensor size, expected tensor [2] and src [3] to have the same number of elements, but got 2 and 3 elements respectively
        _int_mm: Runtime: _int_mm: Expected self dtype to be int8 or uint8 but got float
        _grouped_mm: Runtime: Have to provide offsets if there is a 2d matrix, and no offset if both are 3d
    "#]].assert_eq(&lines.concat());
}

#[test]
fn scales_follow_their_recipes() {
    let call = |a: &'static [i64], recipes: [i64; 2], swizzle: i64| {
        let ints = |n: i64| A(Arg::Ints([n].as_slice().into()));
        let [recipe_a, recipe_b] = recipes;
        line(
            "_scaled_mm_v2",
            &[
                T(F8E4M3FN, &[2, 3]),
                T(F8E5M2, &[3, 4]),
                Given::List(vec![Some((F32, a))]),
                ints(recipe_a),
                ints(swizzle),
                Given::List(vec![Some((F32, if recipe_b == 0 { &[] } else { &[1, 4] }))]),
                ints(recipe_b),
                ints(0),
                T(BF16, &[4]),
                A(Arg::DType(BF16)),
                A(Arg::Ints([].as_slice().into())),
                flag(false),
            ],
        )
    };
    let lines = [
        call(&[], [0, 0], 0),
        call(&[2, 1], [1, 1], 0),
        call(&[1], [1, 1], 0),
        call(&[1], [0, 1], 0),
        call(&[1], [0, 0], 1),
        line(
            "_compute_linear_combination",
            &[T(BF16, &[2, 3, 4]), T(BF16, &[5, 2])],
        ),
        line(
            "_compute_linear_combination",
            &[T(F32, &[2, 3]), T(F32, &[5, 3])],
        ),
        line(
            "_compute_linear_combination.out",
            &[T(F32, &[2, 3]), T(F32, &[5, 2]), T(F64, &[5, 3])],
        ),
        line(
            "_compute_linear_combination.out",
            &[T(F32, &[2, 3]), T(F32, &[5, 2]), T(F32, &[0])],
        ),
    ];
    expect![[r#"
        _scaled_mm_v2: reshape reshape convert convert dot_general reshape broadcast_in_dim multiply reshape broadcast_in_dim multiply convert broadcast_in_dim add convert -> tensor<2x4xbf16>
        _scaled_mm_v2: convert convert dot_general broadcast_in_dim multiply broadcast_in_dim multiply convert broadcast_in_dim add convert -> tensor<2x4xbf16>
        _scaled_mm_v2: Value: scale_a must have 2 Float elements, got 1
        _scaled_mm_v2: Value: Invalid scaling configuration for _scaled_mm_v2: unsupported recipe(s). Got mat_a.dtype=Float8_e4m3fn, mat_b.dtype=Float8_e5m2, recipe_a.size()=1, recipe_b.size()=1
        _scaled_mm_v2: Value: tpu does not support swizzle.
        _compute_linear_combination: dot_general convert -> tensor<5x3x4xbf16>
        _compute_linear_combination: Runtime: Expected coefficients of shape [*, 2], but got [5, 3]
        _compute_linear_combination.out: dot_general convert add -> tensor<5x3xf64>
        _compute_linear_combination.out: Runtime: output with shape [0] doesn't match the broadcast shape [5, 3]
    "#]].assert_eq(&lines.concat());
}
