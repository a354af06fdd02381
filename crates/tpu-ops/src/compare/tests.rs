use super::OPS;
use crate::golden::sketches;
use expect_test::expect;
use tpu_hlo::DType::*;

#[test]
fn rows_of_f32() {
    expect![[r#"
        _assert_async: Runtime: Boolean value of Tensor with more than one value is ambiguous
        _assert_async.msg: Runtime: Boolean value of Tensor with more than one value is ambiguous
        bitwise_and.Scalar: NotImplemented: "bitwise_and" not implemented for 'Float'
        bitwise_and.Scalar_Tensor: NotImplemented: "bitwise_and" not implemented for 'Float'
        bitwise_and.Tensor: NotImplemented: "bitwise_and" not implemented for 'Float'
        bitwise_left_shift.Scalar_Tensor: NotImplemented: "lshift" not implemented for 'Float'
        bitwise_left_shift.Tensor: NotImplemented: "lshift" not implemented for 'Float'
        bitwise_left_shift.Tensor_Scalar: NotImplemented: "lshift" not implemented for 'Float'
        bitwise_or.Scalar: NotImplemented: "bitwise_or" not implemented for 'Float'
        bitwise_or.Scalar_Tensor: NotImplemented: "bitwise_or" not implemented for 'Float'
        bitwise_or.Tensor: NotImplemented: "bitwise_or" not implemented for 'Float'
        bitwise_right_shift.Scalar_Tensor: NotImplemented: "rshift" not implemented for 'Float'
        bitwise_right_shift.Tensor: NotImplemented: "rshift" not implemented for 'Float'
        bitwise_right_shift.Tensor_Scalar: NotImplemented: "rshift" not implemented for 'Float'
        bitwise_xor.Scalar: NotImplemented: "bitwise_xor" not implemented for 'Float'
        bitwise_xor.Scalar_Tensor: NotImplemented: "bitwise_xor" not implemented for 'Float'
        bitwise_xor.Tensor: NotImplemented: "bitwise_xor" not implemented for 'Float'
        __lshift__.Scalar: NotImplemented: "lshift" not implemented for 'Float'
        __lshift__.Tensor: NotImplemented: "lshift" not implemented for 'Float'
        __rshift__.Scalar: NotImplemented: "rshift" not implemented for 'Float'
        __rshift__.Tensor: NotImplemented: "rshift" not implemented for 'Float'
        eq.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        eq.Tensor: compare -> tensor<2x4xi1>
        fmax: maximum compare select compare select -> tensor<2x4xf32>
        fmin: minimum compare select compare select -> tensor<2x4xf32>
        gcd: NotImplemented: "gcd" not implemented for 'Float'
        ge.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        ge.Tensor: compare -> tensor<2x4xi1>
        gt.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        gt.Tensor: compare -> tensor<2x4xi1>
        _functional_assert_async.msg: Runtime: Boolean value of Tensor with more than one value is ambiguous
        isin.Scalar_Tensor: reshape broadcast_in_dim broadcast_in_dim compare reduce or -> tensor<i1>
        isin.Tensor_Scalar: reshape broadcast_in_dim broadcast_in_dim compare reduce or -> tensor<2x4xi1>
        isin.Tensor_Tensor: reshape broadcast_in_dim broadcast_in_dim compare reduce or -> tensor<2x4xi1>
        lcm: NotImplemented: "gcd" not implemented for 'Float'
        le.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        le.Tensor: compare -> tensor<2x4xi1>
        logical_and: compare compare and -> tensor<2x4xi1>
        logical_not: compare not -> tensor<2x4xi1>
        logical_or: compare compare or -> tensor<2x4xi1>
        logical_xor: compare compare xor -> tensor<2x4xi1>
        lt.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        lt.Tensor: compare -> tensor<2x4xi1>
        masked_fill.Scalar: Runtime: masked_fill_ only supports boolean masks, but got mask with dtype float
        masked_fill.Tensor: Runtime: masked_fill_ only supports boolean masks, but got mask with dtype float
        maximum: maximum -> tensor<2x4xf32>
        minimum: minimum -> tensor<2x4xf32>
        ne.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        ne.Tensor: compare -> tensor<2x4xi1>
        where.self: Runtime: where expected condition to be a boolean tensor, but got a tensor with dtype Float
    "#]].assert_eq(&sketches(OPS, F32));
}

#[test]
fn rows_of_i32() {
    expect![[r#"
        _assert_async: Runtime: Boolean value of Tensor with more than one value is ambiguous
        _assert_async.msg: Runtime: Boolean value of Tensor with more than one value is ambiguous
        bitwise_and.Scalar: broadcast_in_dim and -> tensor<2x4xi32>
        bitwise_and.Scalar_Tensor: broadcast_in_dim and -> tensor<2x4xi32>
        bitwise_and.Tensor: and -> tensor<2x4xi32>
        bitwise_left_shift.Scalar_Tensor: broadcast_in_dim compare compare and shift_left select -> tensor<2x4xi32>
        bitwise_left_shift.Tensor: compare compare and shift_left select -> tensor<2x4xi32>
        bitwise_left_shift.Tensor_Scalar: broadcast_in_dim compare compare and shift_left select -> tensor<2x4xi32>
        bitwise_or.Scalar: broadcast_in_dim or -> tensor<2x4xi32>
        bitwise_or.Scalar_Tensor: broadcast_in_dim or -> tensor<2x4xi32>
        bitwise_or.Tensor: or -> tensor<2x4xi32>
        bitwise_right_shift.Scalar_Tensor: broadcast_in_dim compare compare and select shift_right_arithmetic -> tensor<2x4xi32>
        bitwise_right_shift.Tensor: compare compare and select shift_right_arithmetic -> tensor<2x4xi32>
        bitwise_right_shift.Tensor_Scalar: broadcast_in_dim compare compare and select shift_right_arithmetic -> tensor<2x4xi32>
        bitwise_xor.Scalar: broadcast_in_dim xor -> tensor<2x4xi32>
        bitwise_xor.Scalar_Tensor: broadcast_in_dim xor -> tensor<2x4xi32>
        bitwise_xor.Tensor: xor -> tensor<2x4xi32>
        __lshift__.Scalar: broadcast_in_dim compare compare and shift_left select -> tensor<2x4xi32>
        __lshift__.Tensor: compare compare and shift_left select -> tensor<2x4xi32>
        __rshift__.Scalar: broadcast_in_dim compare compare and select shift_right_arithmetic -> tensor<2x4xi32>
        __rshift__.Tensor: compare compare and select shift_right_arithmetic -> tensor<2x4xi32>
        eq.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        eq.Tensor: compare -> tensor<2x4xi1>
        fmax: maximum -> tensor<2x4xi32>
        fmin: minimum -> tensor<2x4xi32>
        gcd: abs abs while compare reduce or compare select remainder select select abs -> tensor<2x4xi32>
        ge.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        ge.Tensor: compare -> tensor<2x4xi1>
        gt.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        gt.Tensor: compare -> tensor<2x4xi1>
        _functional_assert_async.msg: Runtime: Boolean value of Tensor with more than one value is ambiguous
        isin.Scalar_Tensor: reshape broadcast_in_dim broadcast_in_dim compare reduce or -> tensor<i1>
        isin.Tensor_Scalar: reshape broadcast_in_dim broadcast_in_dim compare reduce or -> tensor<2x4xi1>
        isin.Tensor_Tensor: reshape broadcast_in_dim broadcast_in_dim compare reduce or -> tensor<2x4xi1>
        lcm: abs abs while compare reduce or compare select remainder select select abs compare select divide multiply abs select -> tensor<2x4xi32>
        le.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        le.Tensor: compare -> tensor<2x4xi1>
        logical_and: compare compare and -> tensor<2x4xi1>
        logical_not: compare not -> tensor<2x4xi1>
        logical_or: compare compare or -> tensor<2x4xi1>
        logical_xor: compare compare xor -> tensor<2x4xi1>
        lt.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        lt.Tensor: compare -> tensor<2x4xi1>
        masked_fill.Scalar: Runtime: masked_fill_ only supports boolean masks, but got mask with dtype int
        masked_fill.Tensor: Runtime: masked_fill_ only supports boolean masks, but got mask with dtype int
        maximum: maximum -> tensor<2x4xi32>
        minimum: minimum -> tensor<2x4xi32>
        ne.Scalar: broadcast_in_dim compare -> tensor<2x4xi1>
        ne.Tensor: compare -> tensor<2x4xi1>
        where.self: Runtime: where expected condition to be a boolean tensor, but got a tensor with dtype Int
    "#]].assert_eq(&sketches(OPS, I32));
}
