use super::OPS;
use crate::{
    Arg,
    golden::{T, hlo, hlo_with, sketches},
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number, Slot, Type};

#[test]
fn rows_of_f32() {
    expect![[r#"
        _add_relu.Scalar: broadcast_in_dim broadcast_in_dim multiply add maximum -> tensor<2x4xf32>
        _add_relu.Tensor: broadcast_in_dim multiply add maximum -> tensor<2x4xf32>
        add.Scalar: broadcast_in_dim broadcast_in_dim multiply add -> tensor<2x4xf32>
        add.Tensor: broadcast_in_dim multiply add -> tensor<2x4xf32>
        addcdiv: broadcast_in_dim multiply divide add -> tensor<2x4xf32>
        addcmul: broadcast_in_dim multiply multiply add -> tensor<2x4xf32>
        atan2: optimization_barrier atan2 -> tensor<2x4xf32>
        clamp: Runtime: torch.clamp: At least one of 'min' or 'max' must not be None
        clamp.Tensor: Runtime: torch.clamp: At least one of 'min' or 'max' must not be None
        clamp_max: broadcast_in_dim minimum -> tensor<2x4xf32>
        clamp_max.Tensor: minimum -> tensor<2x4xf32>
        clamp_min: broadcast_in_dim maximum -> tensor<2x4xf32>
        clamp_min.Tensor: maximum -> tensor<2x4xf32>
        complex: complex -> tensor<2x4xcomplex<f32>>
        complex.out: Runtime: Expected object of scalar type ComplexFloat but got scalar type Float for argument 'out'
        copysign.Scalar: broadcast_in_dim abs bitcast_convert compare negate select -> tensor<2x4xf32>
        copysign.Tensor: abs bitcast_convert compare negate select -> tensor<2x4xf32>
        div.Scalar: broadcast_in_dim compare select divide -> tensor<2x4xf32>
        div.Scalar_mode: broadcast_in_dim compare select divide -> tensor<2x4xf32>
        div.Tensor: compare select divide -> tensor<2x4xf32>
        div.Tensor_mode: compare select divide -> tensor<2x4xf32>
        floor_divide: remainder subtract divide compare compare compare xor and subtract select floor subtract compare add select compare select divide compare abs bitcast_convert compare negate select select compare select -> tensor<2x4xf32>
        floor_divide.Scalar: broadcast_in_dim remainder subtract divide compare compare compare xor and subtract select floor subtract compare add select compare select divide compare abs bitcast_convert compare negate select select compare select -> tensor<2x4xf32>
        fmod.Scalar: broadcast_in_dim remainder -> tensor<2x4xf32>
        fmod.Tensor: remainder -> tensor<2x4xf32>
        heaviside: compare select compare select -> tensor<2x4xf32>
        hypot: abs abs maximum minimum divide multiply add sqrt multiply compare select compare compare or select -> tensor<2x4xf32>
        ldexp.Tensor: power multiply -> tensor<2x4xf32>
        lerp.Scalar: broadcast_in_dim abs compare subtract multiply add subtract subtract multiply subtract select -> tensor<2x4xf32>
        lerp.Tensor: abs compare subtract multiply add subtract subtract multiply subtract select -> tensor<2x4xf32>
        linalg_cross: Runtime: linalg.cross: inputs dimension 1 must have length 3. Got 4 and 4
        logaddexp: maximum subtract abs negate exponential log_plus_one add abs compare compare and select -> tensor<2x4xf32>
        logaddexp2: subtract abs negate maximum multiply exponential log_plus_one divide add abs compare compare and select -> tensor<2x4xf32>
        mul.Scalar: broadcast_in_dim multiply -> tensor<2x4xf32>
        mul.Tensor: multiply -> tensor<2x4xf32>
        nextafter: next_after -> tensor<2x4xf32>
        polar: cosine multiply sine multiply complex -> tensor<2x4xcomplex<f32>>
        pow.Scalar: broadcast_in_dim power -> tensor<2x4xf32>
        pow.Tensor_Scalar: multiply -> tensor<2x4xf32>
        pow.Tensor_Tensor: power -> tensor<2x4xf32>
        remainder.Scalar: broadcast_in_dim remainder compare compare compare xor and add select -> tensor<2x4xf32>
        remainder.Scalar_Tensor: broadcast_in_dim remainder compare compare compare xor and add select -> tensor<2x4xf32>
        remainder.Tensor: remainder compare compare compare xor and add select -> tensor<2x4xf32>
        rsub.Scalar: broadcast_in_dim broadcast_in_dim multiply subtract -> tensor<2x4xf32>
        rsub.Tensor: broadcast_in_dim multiply subtract -> tensor<2x4xf32>
        sub.Scalar: broadcast_in_dim broadcast_in_dim multiply subtract -> tensor<2x4xf32>
        sub.Tensor: broadcast_in_dim multiply subtract -> tensor<2x4xf32>
        special_xlog1py: compare log_plus_one multiply select compare select -> tensor<2x4xf32>
        special_xlog1py.other_scalar: broadcast_in_dim compare log_plus_one multiply select compare select -> tensor<2x4xf32>
        special_xlog1py.self_scalar: broadcast_in_dim compare log_plus_one multiply select compare select -> tensor<2x4xf32>
        xlogy.Scalar_Other: broadcast_in_dim compare log multiply select compare select -> tensor<2x4xf32>
        xlogy.Scalar_Self: broadcast_in_dim compare log multiply select compare select -> tensor<2x4xf32>
        xlogy.Tensor: compare log multiply select compare select -> tensor<2x4xf32>
    "#]].assert_eq(&sketches(OPS, F32));
}

#[test]
fn rows_of_bf16() {
    expect![[r#"
        _add_relu.Scalar: convert broadcast_in_dim broadcast_in_dim multiply add convert maximum -> tensor<2x4xbf16>
        _add_relu.Tensor: convert convert broadcast_in_dim multiply add convert maximum -> tensor<2x4xbf16>
        add.Scalar: convert broadcast_in_dim broadcast_in_dim multiply add convert -> tensor<2x4xbf16>
        add.Tensor: convert convert broadcast_in_dim multiply add convert -> tensor<2x4xbf16>
        addcdiv: convert convert convert broadcast_in_dim multiply divide add convert -> tensor<2x4xbf16>
        addcmul: convert convert convert broadcast_in_dim multiply multiply add convert -> tensor<2x4xbf16>
        atan2: optimization_barrier convert convert atan2 convert -> tensor<2x4xbf16>
        clamp: Runtime: torch.clamp: At least one of 'min' or 'max' must not be None
        clamp.Tensor: Runtime: torch.clamp: At least one of 'min' or 'max' must not be None
        clamp_max: broadcast_in_dim minimum -> tensor<2x4xbf16>
        clamp_max.Tensor: minimum -> tensor<2x4xbf16>
        clamp_min: broadcast_in_dim maximum -> tensor<2x4xbf16>
        clamp_min.Tensor: maximum -> tensor<2x4xbf16>
        complex: Runtime: Expected both inputs to be Half, Float or Double tensors but got BFloat16 and BFloat16
        complex.out: Runtime: Expected both inputs to be Half, Float or Double tensors but got BFloat16 and BFloat16
        copysign.Scalar: convert broadcast_in_dim abs bitcast_convert compare negate select convert -> tensor<2x4xbf16>
        copysign.Tensor: convert convert abs bitcast_convert compare negate select convert -> tensor<2x4xbf16>
        div.Scalar: convert broadcast_in_dim compare select divide convert -> tensor<2x4xbf16>
        div.Scalar_mode: convert broadcast_in_dim compare select divide convert -> tensor<2x4xbf16>
        div.Tensor: convert convert compare select divide convert -> tensor<2x4xbf16>
        div.Tensor_mode: convert convert compare select divide convert -> tensor<2x4xbf16>
        floor_divide: convert convert remainder subtract divide compare compare compare xor and subtract select floor subtract compare add select compare select divide compare abs bitcast_convert compare negate select select compare select convert -> tensor<2x4xbf16>
        floor_divide.Scalar: convert broadcast_in_dim remainder subtract divide compare compare compare xor and subtract select floor subtract compare add select compare select divide compare abs bitcast_convert compare negate select select compare select convert -> tensor<2x4xbf16>
        fmod.Scalar: convert broadcast_in_dim remainder convert -> tensor<2x4xbf16>
        fmod.Tensor: convert convert remainder convert -> tensor<2x4xbf16>
        heaviside: compare select compare select -> tensor<2x4xbf16>
        hypot: convert convert abs abs maximum minimum divide multiply add sqrt multiply compare select compare compare or select convert -> tensor<2x4xbf16>
        ldexp.Tensor: convert power convert convert convert multiply convert -> tensor<2x4xbf16>
        lerp.Scalar: convert convert broadcast_in_dim abs compare subtract multiply add subtract subtract multiply subtract select convert -> tensor<2x4xbf16>
        lerp.Tensor: convert convert convert abs compare subtract multiply add subtract subtract multiply subtract select convert -> tensor<2x4xbf16>
        linalg_cross: Runtime: linalg.cross: inputs dimension 1 must have length 3. Got 4 and 4
        logaddexp: convert convert maximum subtract abs negate exponential log_plus_one add abs compare compare and select convert -> tensor<2x4xbf16>
        logaddexp2: convert convert subtract abs negate maximum multiply exponential log_plus_one divide add abs compare compare and select convert -> tensor<2x4xbf16>
        mul.Scalar: convert broadcast_in_dim multiply convert -> tensor<2x4xbf16>
        mul.Tensor: convert convert multiply convert -> tensor<2x4xbf16>
        nextafter: next_after -> tensor<2x4xbf16>
        polar: Runtime: Expected both inputs to be Half, Float or Double tensors but got BFloat16 and BFloat16
        pow.Scalar: broadcast_in_dim convert power convert -> tensor<2x4xbf16>
        pow.Tensor_Scalar: convert multiply convert -> tensor<2x4xbf16>
        pow.Tensor_Tensor: convert convert power convert -> tensor<2x4xbf16>
        remainder.Scalar: convert broadcast_in_dim remainder compare compare compare xor and add select convert -> tensor<2x4xbf16>
        remainder.Scalar_Tensor: broadcast_in_dim convert remainder compare compare compare xor and add select convert -> tensor<2x4xbf16>
        remainder.Tensor: convert convert remainder compare compare compare xor and add select convert -> tensor<2x4xbf16>
        rsub.Scalar: broadcast_in_dim convert broadcast_in_dim multiply subtract convert -> tensor<2x4xbf16>
        rsub.Tensor: convert convert broadcast_in_dim multiply subtract convert -> tensor<2x4xbf16>
        sub.Scalar: convert broadcast_in_dim broadcast_in_dim multiply subtract convert -> tensor<2x4xbf16>
        sub.Tensor: convert convert broadcast_in_dim multiply subtract convert -> tensor<2x4xbf16>
        special_xlog1py: convert convert compare log_plus_one multiply select compare select convert -> tensor<2x4xbf16>
        special_xlog1py.other_scalar: convert broadcast_in_dim compare log_plus_one multiply select compare select convert -> tensor<2x4xbf16>
        special_xlog1py.self_scalar: broadcast_in_dim convert compare log_plus_one multiply select compare select convert -> tensor<2x4xbf16>
        xlogy.Scalar_Other: convert broadcast_in_dim compare log multiply select compare select convert -> tensor<2x4xbf16>
        xlogy.Scalar_Self: broadcast_in_dim convert compare log multiply select compare select convert -> tensor<2x4xbf16>
        xlogy.Tensor: convert convert compare log multiply select compare select convert -> tensor<2x4xbf16>
    "#]].assert_eq(&sketches(OPS, BF16));
}

#[test]
fn rows_of_i32() {
    expect![[r#"
        _add_relu.Scalar: broadcast_in_dim broadcast_in_dim multiply add maximum -> tensor<2x4xi32>
        _add_relu.Tensor: broadcast_in_dim multiply add maximum -> tensor<2x4xi32>
        add.Scalar: broadcast_in_dim broadcast_in_dim multiply add -> tensor<2x4xi32>
        add.Tensor: broadcast_in_dim multiply add -> tensor<2x4xi32>
        addcdiv: Runtime: Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes.
        addcmul: broadcast_in_dim multiply multiply add -> tensor<2x4xi32>
        atan2: optimization_barrier convert convert atan2 -> tensor<2x4xf32>
        clamp: Runtime: torch.clamp: At least one of 'min' or 'max' must not be None
        clamp.Tensor: Runtime: torch.clamp: At least one of 'min' or 'max' must not be None
        clamp_max: broadcast_in_dim minimum -> tensor<2x4xi32>
        clamp_max.Tensor: minimum -> tensor<2x4xi32>
        clamp_min: broadcast_in_dim maximum -> tensor<2x4xi32>
        clamp_min.Tensor: maximum -> tensor<2x4xi32>
        complex: Runtime: Expected both inputs to be Half, Float or Double tensors but got Int and Int
        complex.out: Runtime: Expected both inputs to be Half, Float or Double tensors but got Int and Int
        copysign.Scalar: convert broadcast_in_dim abs bitcast_convert compare negate select -> tensor<2x4xf32>
        copysign.Tensor: convert convert abs bitcast_convert compare negate select -> tensor<2x4xf32>
        div.Scalar: convert broadcast_in_dim compare select divide -> tensor<2x4xf32>
        div.Scalar_mode: convert broadcast_in_dim compare select divide -> tensor<2x4xf32>
        div.Tensor: convert convert compare select divide -> tensor<2x4xf32>
        div.Tensor_mode: convert convert compare select divide -> tensor<2x4xf32>
        floor_divide: compare reduce or select divide multiply subtract compare compare compare xor and subtract select -> tensor<2x4xi32>
        floor_divide.Scalar: compare reduce or select broadcast_in_dim divide multiply subtract compare compare compare xor and subtract select -> tensor<2x4xi32>
        fmod.Scalar: compare reduce or select broadcast_in_dim remainder -> tensor<2x4xi32>
        fmod.Tensor: compare reduce or select remainder -> tensor<2x4xi32>
        heaviside: compare select compare select -> tensor<2x4xi32>
        hypot: NotImplemented: "hypot" not implemented for 'Int'
        ldexp.Tensor: convert power convert multiply -> tensor<2x4xf32>
        lerp.Scalar: NotImplemented: "lerp_kernel_scalar" not implemented for 'Int'
        lerp.Tensor: NotImplemented: "lerp_kernel_scalar" not implemented for 'Int'
        linalg_cross: Runtime: linalg.cross: inputs dimension 1 must have length 3. Got 4 and 4
        logaddexp: convert convert maximum subtract abs negate exponential log_plus_one add abs compare compare and select -> tensor<2x4xf32>
        logaddexp2: convert convert subtract abs negate maximum multiply exponential log_plus_one divide add abs compare compare and select -> tensor<2x4xf32>
        mul.Scalar: broadcast_in_dim multiply -> tensor<2x4xi32>
        mul.Tensor: multiply -> tensor<2x4xi32>
        nextafter: NotImplemented: "nextafter" not implemented for 'Int'
        polar: Runtime: Expected both inputs to be Half, Float or Double tensors but got Int and Int
        pow.Scalar: broadcast_in_dim maximum while compare reduce or and compare multiply shift_right_logical multiply select and compare select compare compare or compare select select -> tensor<2x4xi32>
        pow.Tensor_Scalar: multiply -> tensor<2x4xi32>
        pow.Tensor_Tensor: maximum while compare reduce or and compare multiply shift_right_logical multiply select and compare select compare compare or compare select select -> tensor<2x4xi32>
        remainder.Scalar: compare reduce or select broadcast_in_dim remainder compare compare compare xor and add select -> tensor<2x4xi32>
        remainder.Scalar_Tensor: compare reduce or select broadcast_in_dim remainder compare compare compare xor and add select -> tensor<2x4xi32>
        remainder.Tensor: compare reduce or select remainder compare compare compare xor and add select -> tensor<2x4xi32>
        rsub.Scalar: broadcast_in_dim broadcast_in_dim multiply subtract -> tensor<2x4xi32>
        rsub.Tensor: broadcast_in_dim multiply subtract -> tensor<2x4xi32>
        sub.Scalar: broadcast_in_dim broadcast_in_dim multiply subtract -> tensor<2x4xi32>
        sub.Tensor: broadcast_in_dim multiply subtract -> tensor<2x4xi32>
        special_xlog1py: convert convert compare log_plus_one multiply select compare select -> tensor<2x4xf32>
        special_xlog1py.other_scalar: convert broadcast_in_dim compare log_plus_one multiply select compare select -> tensor<2x4xf32>
        special_xlog1py.self_scalar: broadcast_in_dim convert compare log_plus_one multiply select compare select -> tensor<2x4xf32>
        xlogy.Scalar_Other: convert broadcast_in_dim compare log multiply select compare select -> tensor<2x4xf32>
        xlogy.Scalar_Self: broadcast_in_dim convert compare log multiply select compare select -> tensor<2x4xf32>
        xlogy.Tensor: convert convert compare log multiply select compare select -> tensor<2x4xf32>
    "#]].assert_eq(&sketches(OPS, I32));
}

#[test]
fn mul_promotes_and_broadcasts() {
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<3xi32>, %p1: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
            %2 = "stablehlo.convert"(%p0) : (tensor<3xi32>) -> tensor<3xf32>
            %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<2x3xf32>
            %4 = "stablehlo.multiply"(%3, %p1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            return %4 : tensor<2x3xf32>
          }
        }
    "#]].assert_eq(&hlo("mul.Tensor", &[T(I32, &[3]), T(F32, &[2, 3])], &[]));
}

#[test]
fn numbers_keep_their_precision_beside_half_types() {
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2xbf16>, %p3: tensor<f32>) -> (tensor<2xbf16>) {
            %2 = "stablehlo.convert"(%p0) : (tensor<2xbf16>) -> tensor<2xf32>
            %4 = "stablehlo.broadcast_in_dim"(%p3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2xf32>
            %5 = "stablehlo.multiply"(%2, %4) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            %6 = "stablehlo.convert"(%5) : (tensor<2xf32>) -> tensor<2xbf16>
            return %6 : tensor<2xbf16>
          }
        }
    "#]].assert_eq(&hlo_with("mul.Tensor", |b| {
        let x = b.param(Slot::Buffer(0), Type::new(BF16, &[2]));
        let n = b.number(0, F64);
        vec![Arg::Tensor(x), Arg::Tensor(n)]
    }));
}

#[test]
fn simple_exponents_are_products_and_roots() {
    for (n, wanted) in [
        (Number::Int(2), "multiply"),
        (Number::Float(0.5), "sqrt"),
        (Number::Float(-0.5), "rsqrt"),
        (Number::Int(-1), "divide"),
    ] {
        let text = hlo("pow.Tensor_Scalar", &[T(F32, &[2])], &[Arg::Number(n)]);
        assert!(text.contains(&format!("stablehlo.{wanted}")), "{text}");
        assert!(!text.contains("power"), "{text}");
    }
}

#[test]
fn whole_division_checks_its_divisor() {
    let mut b = tpu_hlo::Builder::default();
    let [x, y] = [0, 1].map(|i| b.param(Slot::Buffer(i), Type::new(I64, &[2])));
    let row = crate::get("floor_divide").unwrap();
    row.lower(&mut b, &[Arg::Tensor(x), Arg::Tensor(y)])
        .unwrap();
    let checks = b.take_checks();
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0].1, "RuntimeError: ZeroDivisionError");
    let none = b.param(Slot::Buffer(2), Type::new(I64, &[0]));
    let zero = b.param(Slot::Buffer(3), Type::scalar(I64));
    row.lower(&mut b, &[Arg::Tensor(none), Arg::Tensor(zero)])
        .unwrap();
    assert!(b.take_checks().is_empty());
}

#[test]
fn refusals_have_pytorchs_words() {
    let bools = [T(Bool, &[2]), T(Bool, &[2])];
    let one = [Arg::Number(Number::Int(1))];
    let whole = [T(I32, &[2]), T(I32, &[2]), T(I32, &[2])];
    let negative = [Arg::Number(Number::Int(-1))];
    let texts = [
        hlo("sub.Tensor", &bools, &one),
        hlo("add.Tensor", &[T(F32, &[2]), T(F32, &[3])], &one),
        hlo("addcdiv", &whole, &one),
        hlo("pow.Tensor_Scalar", &[T(I32, &[2])], &negative),
        hlo("clamp", &[T(F32, &[2])], &[Arg::None, Arg::None]),
        hlo(
            "lerp.Scalar",
            &[T(F32, &[2]), T(F64, &[2])],
            &[Arg::Scalar(scalar())],
        ),
    ];
    expect![[r#"
        NotImplemented: Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.
        Runtime: The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0
        Runtime: Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes.
        Runtime: Integers to negative integer powers are not allowed.
        Runtime: torch.clamp: At least one of 'min' or 'max' must not be None
        Runtime: expected dtype float for `end` but got dtype double
    "#]].assert_eq(&texts.concat());
}

/// A value that no lowering gets to read.
fn scalar() -> tpu_hlo::Value {
    tpu_hlo::Builder::default().number(0, F64)
}
