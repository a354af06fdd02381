use super::OPS;
use crate::golden::sketches;
use expect_test::expect;
use tpu_hlo::DType::*;

#[test]
fn rows_of_f32() {
    expect![[r#"
        abs: abs -> tensor<2x4xf32>
        abs.out: abs -> tensor<2x4xf32>
        acos: acos -> tensor<2x4xf32>
        acosh: acosh -> tensor<2x4xf32>
        angle: compare select compare select -> tensor<2x4xf32>
        asin: asin -> tensor<2x4xf32>
        asinh: asinh -> tensor<2x4xf32>
        atan: add atan2 -> tensor<2x4xf32>
        atanh: atanh -> tensor<2x4xf32>
        bitwise_not: NotImplemented: "bitwise_not" not implemented for 'Float'
        ceil: ceil -> tensor<2x4xf32>
        _conj_physical: -> tensor<2x4xf32>
        conj_physical.out: -> tensor<2x4xf32>
        cos: cosine -> tensor<2x4xf32>
        cosh: cosh -> tensor<2x4xf32>
        deg2rad: multiply -> tensor<2x4xf32>
        exp: exponential -> tensor<2x4xf32>
        exp2: power -> tensor<2x4xf32>
        expm1: exponential_minus_one -> tensor<2x4xf32>
        fill.Scalar: broadcast_in_dim -> tensor<2x4xf32>
        fill.Tensor: Runtime: fill_ only supports 0-dimension value tensor but got tensor with 2 dimensions.
        floor: floor -> tensor<2x4xf32>
        frac: compare ceil floor select subtract -> tensor<2x4xf32>
        frexp.Tensor: abs compare multiply select bitcast_convert shift_right_arithmetic and select subtract subtract and or bitcast_convert is_finite compare and select select -> tensor<2x4xf32> tensor<2x4xi32>
        isinf: abs compare -> tensor<2x4xi1>
        isnan: compare -> tensor<2x4xi1>
        isneginf: compare -> tensor<2x4xi1>
        isposinf: compare -> tensor<2x4xi1>
        log: log -> tensor<2x4xf32>
        log10: log multiply round_nearest_even power compare select -> tensor<2x4xf32>
        log1p: log_plus_one -> tensor<2x4xf32>
        log2: abs compare multiply select bitcast_convert shift_right_arithmetic and select subtract subtract and or bitcast_convert is_finite compare and select select abs compare add select subtract select convert log divide add -> tensor<2x4xf32>
        logit: subtract divide log -> tensor<2x4xf32>
        nan_to_num: compare select compare select compare select -> tensor<2x4xf32>
        neg: negate -> tensor<2x4xf32>
        rad2deg: multiply -> tensor<2x4xf32>
        reciprocal: divide -> tensor<2x4xf32>
        round: round_nearest_even -> tensor<2x4xf32>
        round.decimals: multiply round_nearest_even divide -> tensor<2x4xf32>
        rsqrt: rsqrt -> tensor<2x4xf32>
        sgn: compare select compare select -> tensor<2x4xf32>
        sigmoid: logistic -> tensor<2x4xf32>
        sign: compare select compare select -> tensor<2x4xf32>
        signbit: bitcast_convert compare -> tensor<2x4xi1>
        sin: sine -> tensor<2x4xf32>
        sinc: multiply compare sine divide select -> tensor<2x4xf32>
        sinh: sinh -> tensor<2x4xf32>
        sqrt: sqrt -> tensor<2x4xf32>
        tan: tan -> tensor<2x4xf32>
        tanh: tanh -> tensor<2x4xf32>
        trunc: compare ceil floor select -> tensor<2x4xf32>
        zero: -> tensor<2x4xf32>
    "#]].assert_eq(&sketches(OPS, F32));
}

#[test]
fn rows_of_bf16() {
    expect![[r#"
        abs: abs -> tensor<2x4xbf16>
        abs.out: abs -> tensor<2x4xbf16>
        acos: convert acos convert -> tensor<2x4xbf16>
        acosh: convert acosh convert -> tensor<2x4xbf16>
        angle: convert compare select compare select convert -> tensor<2x4xbf16>
        asin: convert asin convert -> tensor<2x4xbf16>
        asinh: convert asinh convert -> tensor<2x4xbf16>
        atan: convert add atan2 convert -> tensor<2x4xbf16>
        atanh: convert atanh convert -> tensor<2x4xbf16>
        bitwise_not: NotImplemented: "bitwise_not" not implemented for 'BFloat16'
        ceil: convert ceil convert -> tensor<2x4xbf16>
        _conj_physical: -> tensor<2x4xbf16>
        conj_physical.out: -> tensor<2x4xbf16>
        cos: convert cosine convert -> tensor<2x4xbf16>
        cosh: convert cosh convert -> tensor<2x4xbf16>
        deg2rad: convert multiply convert -> tensor<2x4xbf16>
        exp: convert exponential convert -> tensor<2x4xbf16>
        exp2: convert power convert -> tensor<2x4xbf16>
        expm1: convert exponential_minus_one convert -> tensor<2x4xbf16>
        fill.Scalar: broadcast_in_dim -> tensor<2x4xbf16>
        fill.Tensor: Runtime: fill_ only supports 0-dimension value tensor but got tensor with 2 dimensions.
        floor: convert floor convert -> tensor<2x4xbf16>
        frac: convert compare ceil floor select subtract convert -> tensor<2x4xbf16>
        frexp.Tensor: convert abs compare multiply select bitcast_convert shift_right_arithmetic and select subtract subtract and or bitcast_convert is_finite compare and select select convert -> tensor<2x4xbf16> tensor<2x4xi32>
        isinf: abs compare -> tensor<2x4xi1>
        isnan: compare -> tensor<2x4xi1>
        isneginf: compare -> tensor<2x4xi1>
        isposinf: compare -> tensor<2x4xi1>
        log: convert log convert -> tensor<2x4xbf16>
        log10: convert log multiply round_nearest_even power compare select convert -> tensor<2x4xbf16>
        log1p: convert log_plus_one convert -> tensor<2x4xbf16>
        log2: convert abs compare multiply select bitcast_convert shift_right_arithmetic and select subtract subtract and or bitcast_convert is_finite compare and select select abs compare add select subtract select convert log divide add convert -> tensor<2x4xbf16>
        logit: convert subtract divide log convert -> tensor<2x4xbf16>
        nan_to_num: compare select compare select compare select -> tensor<2x4xbf16>
        neg: negate -> tensor<2x4xbf16>
        rad2deg: convert multiply convert -> tensor<2x4xbf16>
        reciprocal: convert divide convert -> tensor<2x4xbf16>
        round: convert round_nearest_even convert -> tensor<2x4xbf16>
        round.decimals: convert multiply round_nearest_even divide convert -> tensor<2x4xbf16>
        rsqrt: convert rsqrt convert -> tensor<2x4xbf16>
        sgn: compare select compare select -> tensor<2x4xbf16>
        sigmoid: convert logistic convert -> tensor<2x4xbf16>
        sign: compare select compare select -> tensor<2x4xbf16>
        signbit: bitcast_convert compare -> tensor<2x4xi1>
        sin: convert sine convert -> tensor<2x4xbf16>
        sinc: convert multiply compare sine divide select convert -> tensor<2x4xbf16>
        sinh: convert sinh convert -> tensor<2x4xbf16>
        sqrt: convert sqrt convert -> tensor<2x4xbf16>
        tan: convert tan convert -> tensor<2x4xbf16>
        tanh: convert tanh convert -> tensor<2x4xbf16>
        trunc: convert compare ceil floor select convert -> tensor<2x4xbf16>
        zero: -> tensor<2x4xbf16>
    "#]].assert_eq(&sketches(OPS, BF16));
}

#[test]
fn rows_of_i32() {
    expect![[r#"
        abs: abs -> tensor<2x4xi32>
        abs.out: abs -> tensor<2x4xi32>
        acos: convert acos -> tensor<2x4xf32>
        acosh: convert acosh -> tensor<2x4xf32>
        angle: convert compare select compare select -> tensor<2x4xf32>
        asin: convert asin -> tensor<2x4xf32>
        asinh: convert asinh -> tensor<2x4xf32>
        atan: convert add atan2 -> tensor<2x4xf32>
        atanh: convert atanh -> tensor<2x4xf32>
        bitwise_not: not -> tensor<2x4xi32>
        ceil: -> tensor<2x4xi32>
        _conj_physical: -> tensor<2x4xi32>
        conj_physical.out: -> tensor<2x4xi32>
        cos: convert cosine -> tensor<2x4xf32>
        cosh: convert cosh -> tensor<2x4xf32>
        deg2rad: convert multiply -> tensor<2x4xf32>
        exp: convert exponential -> tensor<2x4xf32>
        exp2: convert power -> tensor<2x4xf32>
        expm1: convert exponential_minus_one -> tensor<2x4xf32>
        fill.Scalar: broadcast_in_dim -> tensor<2x4xi32>
        fill.Tensor: Runtime: fill_ only supports 0-dimension value tensor but got tensor with 2 dimensions.
        floor: -> tensor<2x4xi32>
        frac: NotImplemented: "frac" not implemented for 'Int'
        frexp.Tensor: Runtime: torch.frexp() only supports floating-point dtypes
        isinf: -> tensor<2x4xi1>
        isnan: -> tensor<2x4xi1>
        isneginf: -> tensor<2x4xi1>
        isposinf: -> tensor<2x4xi1>
        log: convert log -> tensor<2x4xf32>
        log10: convert log multiply round_nearest_even power compare select -> tensor<2x4xf32>
        log1p: convert log_plus_one -> tensor<2x4xf32>
        log2: convert abs compare multiply select bitcast_convert shift_right_arithmetic and select subtract subtract and or bitcast_convert is_finite compare and select select abs compare add select subtract select convert log divide add -> tensor<2x4xf32>
        logit: convert subtract divide log -> tensor<2x4xf32>
        nan_to_num: -> tensor<2x4xi32>
        neg: negate -> tensor<2x4xi32>
        rad2deg: convert multiply -> tensor<2x4xf32>
        reciprocal: convert divide -> tensor<2x4xf32>
        round: -> tensor<2x4xi32>
        round.decimals: NotImplemented: "round" not implemented for 'Int'
        rsqrt: convert rsqrt -> tensor<2x4xf32>
        sgn: compare select compare select -> tensor<2x4xi32>
        sigmoid: convert logistic -> tensor<2x4xf32>
        sign: compare select compare select -> tensor<2x4xi32>
        signbit: compare -> tensor<2x4xi1>
        sin: convert sine -> tensor<2x4xf32>
        sinc: convert multiply compare sine divide select -> tensor<2x4xf32>
        sinh: convert sinh -> tensor<2x4xf32>
        sqrt: convert sqrt -> tensor<2x4xf32>
        tan: convert tan -> tensor<2x4xf32>
        tanh: convert tanh -> tensor<2x4xf32>
        trunc: -> tensor<2x4xi32>
        zero: -> tensor<2x4xi32>
    "#]].assert_eq(&sketches(OPS, I32));
}

#[test]
fn rows_of_c64() {
    expect![[r#"
        abs: abs -> tensor<2x4xf32>
        abs.out: abs -> tensor<2x4xf32>
        acos: acos -> tensor<2x4xcomplex<f32>>
        acosh: acosh -> tensor<2x4xcomplex<f32>>
        angle: imag real atan2 -> tensor<2x4xf32>
        asin: asin -> tensor<2x4xcomplex<f32>>
        asinh: asinh -> tensor<2x4xcomplex<f32>>
        atan: atan -> tensor<2x4xcomplex<f32>>
        atanh: atanh -> tensor<2x4xcomplex<f32>>
        bitwise_not: NotImplemented: "bitwise_not" not implemented for 'ComplexFloat'
        ceil: NotImplemented: ceil is not supported for complex inputs
        _conj_physical: real imag negate complex -> tensor<2x4xcomplex<f32>>
        conj_physical.out: real imag negate complex -> tensor<2x4xcomplex<f32>>
        cos: cosine -> tensor<2x4xcomplex<f32>>
        cosh: cosh -> tensor<2x4xcomplex<f32>>
        deg2rad: NotImplemented: "deg2rad" not implemented for 'ComplexFloat'
        exp: exponential -> tensor<2x4xcomplex<f32>>
        exp2: real multiply imag multiply complex exponential -> tensor<2x4xcomplex<f32>>
        expm1: exponential_minus_one -> tensor<2x4xcomplex<f32>>
        fill.Scalar: broadcast_in_dim -> tensor<2x4xcomplex<f32>>
        fill.Tensor: Runtime: fill_ only supports 0-dimension value tensor but got tensor with 2 dimensions.
        floor: NotImplemented: floor is not supported for complex inputs
        frac: NotImplemented: "frac" not implemented for 'ComplexFloat'
        frexp.Tensor: Runtime: torch.frexp() only supports floating-point dtypes
        isinf: real abs compare imag abs compare or -> tensor<2x4xi1>
        isnan: real compare imag compare or -> tensor<2x4xi1>
        isneginf: Runtime: isneginf does not support complex inputs.
        isposinf: Runtime: isposinf does not support complex inputs.
        log: log -> tensor<2x4xcomplex<f32>>
        log10: log real multiply imag multiply complex -> tensor<2x4xcomplex<f32>>
        log1p: log_plus_one -> tensor<2x4xcomplex<f32>>
        log2: log real multiply imag multiply complex -> tensor<2x4xcomplex<f32>>
        logit: NotImplemented: "logit" not implemented for 'ComplexFloat'
        nan_to_num: real imag compare select compare select compare select compare select compare select compare select complex -> tensor<2x4xcomplex<f32>>
        neg: negate -> tensor<2x4xcomplex<f32>>
        rad2deg: NotImplemented: "rad2deg" not implemented for 'ComplexFloat'
        reciprocal: divide -> tensor<2x4xcomplex<f32>>
        round: NotImplemented: round is not supported for complex inputs
        round.decimals: NotImplemented: "round" not implemented for 'ComplexFloat'
        rsqrt: rsqrt -> tensor<2x4xcomplex<f32>>
        sgn: abs real divide imag divide compare select select complex -> tensor<2x4xcomplex<f32>>
        sigmoid: logistic -> tensor<2x4xcomplex<f32>>
        sign: NotImplemented: Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.
        signbit: NotImplemented: signbit is not implemented for complex tensors.
        sin: sine -> tensor<2x4xcomplex<f32>>
        sinc: multiply compare sine divide select -> tensor<2x4xcomplex<f32>>
        sinh: sinh -> tensor<2x4xcomplex<f32>>
        sqrt: sqrt -> tensor<2x4xcomplex<f32>>
        tan: tan -> tensor<2x4xcomplex<f32>>
        tanh: tanh -> tensor<2x4xcomplex<f32>>
        trunc: NotImplemented: trunc is not supported for complex inputs
        zero: -> tensor<2x4xcomplex<f32>>
    "#]].assert_eq(&sketches(OPS, C64));
}
