use super::OPS;
use crate::golden::sketches;
use expect_test::expect;
use tpu_hlo::DType::*;

#[test]
fn rows_of_f32() {
    expect![[r#"
        _foreach_abs: abs -> tensor<2x4xf32>
        _foreach_acos: acos -> tensor<2x4xf32>
        _foreach_add.List: broadcast_in_dim multiply add -> tensor<2x4xf32>
        _foreach_add.Scalar: broadcast_in_dim add -> tensor<2x4xf32>
        _foreach_add.ScalarList: broadcast_in_dim add -> tensor<2x4xf32>
        _foreach_add.Tensor: Runtime: scalar tensor expected to be 0 dim but it has 2 dimensions and 8 elements.
        _foreach_addcdiv.Scalar: broadcast_in_dim multiply divide add -> tensor<2x4xf32>
        _foreach_addcdiv.ScalarList: broadcast_in_dim multiply divide add -> tensor<2x4xf32>
        _foreach_addcdiv.Tensor: Runtime: Expected packed scalar Tensor to be of dimension 1. Got 2 instead.
        _foreach_addcmul.Scalar: broadcast_in_dim multiply multiply add -> tensor<2x4xf32>
        _foreach_addcmul.ScalarList: broadcast_in_dim multiply multiply add -> tensor<2x4xf32>
        _foreach_addcmul.Tensor: Runtime: Expected packed scalar Tensor to be of dimension 1. Got 2 instead.
        _foreach_asin: asin -> tensor<2x4xf32>
        _foreach_atan: add atan2 -> tensor<2x4xf32>
        _foreach_ceil: ceil -> tensor<2x4xf32>
        _foreach_clamp_max.List: minimum -> tensor<2x4xf32>
        _foreach_clamp_max.Scalar: broadcast_in_dim minimum -> tensor<2x4xf32>
        _foreach_clamp_max.ScalarList: broadcast_in_dim minimum -> tensor<2x4xf32>
        _foreach_clamp_min.List: maximum -> tensor<2x4xf32>
        _foreach_clamp_min.Scalar: broadcast_in_dim maximum -> tensor<2x4xf32>
        _foreach_clamp_min.ScalarList: broadcast_in_dim maximum -> tensor<2x4xf32>
        _foreach_clone: -> tensor<2x4xf32>
        _foreach_copy: -> tensor<2x4xf32>
        _foreach_cos: cosine -> tensor<2x4xf32>
        _foreach_cosh: cosh -> tensor<2x4xf32>
        _foreach_div.List: compare select divide -> tensor<2x4xf32>
        _foreach_div.Scalar: broadcast_in_dim compare select divide -> tensor<2x4xf32>
        _foreach_div.ScalarList: broadcast_in_dim compare select divide -> tensor<2x4xf32>
        _foreach_div.Tensor: Runtime: scalar tensor expected to be 0 dim but it has 2 dimensions and 8 elements.
        _foreach_erf: erf -> tensor<2x4xf32>
        _foreach_erfc: erfc -> tensor<2x4xf32>
        _foreach_exp: exponential -> tensor<2x4xf32>
        _foreach_expm1: exponential_minus_one -> tensor<2x4xf32>
        _foreach_floor: floor -> tensor<2x4xf32>
        _foreach_frac: compare ceil floor select subtract -> tensor<2x4xf32>
        _foreach_lerp.List: abs compare subtract multiply add subtract subtract multiply subtract select -> tensor<2x4xf32>
        _foreach_lerp.Scalar: broadcast_in_dim abs compare subtract multiply add subtract subtract multiply subtract select -> tensor<2x4xf32>
        _foreach_lerp.ScalarList: broadcast_in_dim abs compare subtract multiply add subtract subtract multiply subtract select -> tensor<2x4xf32>
        _foreach_lgamma: lgamma -> tensor<2x4xf32>
        _foreach_log: log -> tensor<2x4xf32>
        _foreach_log10: log multiply round_nearest_even power compare select -> tensor<2x4xf32>
        _foreach_log1p: log_plus_one -> tensor<2x4xf32>
        _foreach_log2: abs compare multiply select bitcast_convert shift_right_arithmetic and select subtract subtract and or bitcast_convert is_finite compare and select select abs compare add select subtract select convert log divide add -> tensor<2x4xf32>
        _foreach_max: reduce maximum -> tensor<f32>
        _foreach_maximum.List: maximum -> tensor<2x4xf32>
        _foreach_maximum.Scalar: broadcast_in_dim maximum -> tensor<2x4xf32>
        _foreach_maximum.ScalarList: broadcast_in_dim maximum -> tensor<2x4xf32>
        _foreach_minimum.List: minimum -> tensor<2x4xf32>
        _foreach_minimum.Scalar: broadcast_in_dim minimum -> tensor<2x4xf32>
        _foreach_minimum.ScalarList: broadcast_in_dim minimum -> tensor<2x4xf32>
        _foreach_mm: Runtime: mat1 and mat2 shapes cannot be multiplied (2x4 and 2x4)
        _foreach_mul.List: multiply -> tensor<2x4xf32>
        _foreach_mul.Scalar: broadcast_in_dim multiply -> tensor<2x4xf32>
        _foreach_mul.ScalarList: broadcast_in_dim multiply -> tensor<2x4xf32>
        _foreach_mul.Tensor: Runtime: scalar tensor expected to be 0 dim but it has 2 dimensions and 8 elements.
        _foreach_neg: negate -> tensor<2x4xf32>
        _foreach_norm.Scalar: multiply reduce add sqrt -> tensor<f32>
        _foreach_pow.List: power -> tensor<2x4xf32>
        _foreach_pow.Scalar: multiply -> tensor<2x4xf32>
        _foreach_pow.ScalarAndTensor: broadcast_in_dim power -> tensor<2x4xf32>
        _foreach_pow.ScalarList: broadcast_in_dim power -> tensor<2x4xf32>
        _foreach_powsum.Scalar: abs multiply reduce add -> tensor<f32>
        _foreach_reciprocal: divide -> tensor<2x4xf32>
        _foreach_round: round_nearest_even -> tensor<2x4xf32>
        _foreach_rsqrt: rsqrt -> tensor<2x4xf32>
        _foreach_sigmoid: logistic -> tensor<2x4xf32>
        _foreach_sign: compare select compare select -> tensor<2x4xf32>
        _foreach_sin: sine -> tensor<2x4xf32>
        _foreach_sinh: sinh -> tensor<2x4xf32>
        _foreach_sqrt: sqrt -> tensor<2x4xf32>
        _foreach_sub.List: broadcast_in_dim multiply subtract -> tensor<2x4xf32>
        _foreach_sub.Scalar: broadcast_in_dim subtract -> tensor<2x4xf32>
        _foreach_sub.ScalarList: broadcast_in_dim subtract -> tensor<2x4xf32>
        _foreach_tan: tan -> tensor<2x4xf32>
        _foreach_tanh: tanh -> tensor<2x4xf32>
        _foreach_trunc: compare ceil floor select -> tensor<2x4xf32>
        _foreach_zero: -> tensor<2x4xf32>
    "#]].assert_eq(&sketches(OPS, F32));
}
