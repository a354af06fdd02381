use super::OPS;
use crate::golden::sketches;
use expect_test::expect;
use tpu_hlo::DType::*;

#[test]
fn rows_of_f32() {
    expect![[r#"
        elu: compare broadcast_in_dim multiply exponential_minus_one broadcast_in_dim multiply broadcast_in_dim multiply broadcast_in_dim multiply select -> tensor<2x4xf32>
        elu_backward: multiply multiply broadcast_in_dim multiply exponential broadcast_in_dim multiply compare multiply broadcast_in_dim multiply select -> tensor<2x4xf32>
        gelu: multiply multiply erf add multiply -> tensor<2x4xf32>
        gelu_backward: multiply erf add multiply multiply multiply exponential multiply multiply add multiply -> tensor<2x4xf32>
        glu: slice slice logistic multiply -> tensor<2x2xf32>
        glu_backward: Runtime: The size of tensor a (4) must match the size of tensor b (2) at non-singleton dimension 1
        glu_backward_jvp: Runtime: The size of tensor a (4) must match the size of tensor b (2) at non-singleton dimension 1
        glu_jvp: Runtime: The size of tensor a (4) must match the size of tensor b (2) at non-singleton dimension 1
        hardshrink: negate broadcast_in_dim compare broadcast_in_dim compare and select -> tensor<2x4xf32>
        hardshrink_backward: negate broadcast_in_dim compare broadcast_in_dim compare and select -> tensor<2x4xf32>
        hardsigmoid: add maximum minimum divide -> tensor<2x4xf32>
        hardsigmoid_backward: compare compare and divide select -> tensor<2x4xf32>
        hardswish: add maximum minimum multiply divide -> tensor<2x4xf32>
        hardswish_backward: compare divide add multiply select compare select -> tensor<2x4xf32>
        hardtanh: broadcast_in_dim maximum broadcast_in_dim minimum -> tensor<2x4xf32>
        hardtanh_backward: broadcast_in_dim compare broadcast_in_dim compare or select -> tensor<2x4xf32>
        leaky_relu: compare broadcast_in_dim multiply select -> tensor<2x4xf32>
        leaky_relu_backward: compare broadcast_in_dim multiply select -> tensor<2x4xf32>
        log_sigmoid_backward: negate logistic multiply -> tensor<2x4xf32>
        log_sigmoid_forward: abs negate exponential minimum log_plus_one subtract -> tensor<2x4xf32> tensor<2x4xf32>
        logit_backward: compare compare or subtract multiply divide compare compare or multiply select select -> tensor<2x4xf32>
        mish: exponential log_plus_one tanh multiply -> tensor<2x4xf32>
        mish_backward: exponential log_plus_one tanh logistic multiply multiply subtract multiply add multiply -> tensor<2x4xf32>
        _prelu_kernel: compare multiply select -> tensor<2x4xf32>
        _prelu_kernel_backward: compare multiply select multiply select -> tensor<2x4xf32> tensor<2x4xf32>
        relu: maximum -> tensor<2x4xf32>
        sigmoid_backward: subtract multiply multiply -> tensor<2x4xf32>
        silu: logistic multiply -> tensor<2x4xf32>
        silu_backward: logistic subtract multiply add multiply multiply -> tensor<2x4xf32>
        softplus: broadcast_in_dim multiply broadcast_in_dim compare exponential log_plus_one broadcast_in_dim divide select -> tensor<2x4xf32>
        softplus_backward: broadcast_in_dim multiply broadcast_in_dim compare logistic multiply select -> tensor<2x4xf32>
        softshrink: negate broadcast_in_dim compare broadcast_in_dim add multiply select broadcast_in_dim compare broadcast_in_dim subtract select -> tensor<2x4xf32>
        softshrink_backward: negate broadcast_in_dim compare broadcast_in_dim compare and select -> tensor<2x4xf32>
        tanh_backward: multiply subtract multiply -> tensor<2x4xf32>
        threshold: broadcast_in_dim compare broadcast_in_dim select -> tensor<2x4xf32>
        threshold_backward: broadcast_in_dim compare select -> tensor<2x4xf32>
    "#]].assert_eq(&sketches(OPS, F32));
}

#[test]
fn rows_of_bf16() {
    expect![[r#"
        elu: convert compare broadcast_in_dim multiply exponential_minus_one broadcast_in_dim multiply broadcast_in_dim multiply broadcast_in_dim multiply select convert -> tensor<2x4xbf16>
        elu_backward: convert convert multiply multiply broadcast_in_dim multiply exponential broadcast_in_dim multiply compare multiply broadcast_in_dim multiply select convert -> tensor<2x4xbf16>
        gelu: convert multiply multiply erf add multiply convert -> tensor<2x4xbf16>
        gelu_backward: convert convert multiply erf add multiply multiply multiply exponential multiply multiply add multiply convert -> tensor<2x4xbf16>
        glu: slice slice convert convert logistic multiply convert -> tensor<2x2xbf16>
        glu_backward: Runtime: The size of tensor a (4) must match the size of tensor b (2) at non-singleton dimension 1
        glu_backward_jvp: Runtime: The size of tensor a (4) must match the size of tensor b (2) at non-singleton dimension 1
        glu_jvp: Runtime: The size of tensor a (4) must match the size of tensor b (2) at non-singleton dimension 1
        hardshrink: convert negate broadcast_in_dim compare broadcast_in_dim compare and select convert -> tensor<2x4xbf16>
        hardshrink_backward: convert convert negate broadcast_in_dim compare broadcast_in_dim compare and select convert -> tensor<2x4xbf16>
        hardsigmoid: convert add maximum minimum divide convert -> tensor<2x4xbf16>
        hardsigmoid_backward: convert convert compare compare and divide select convert -> tensor<2x4xbf16>
        hardswish: convert add maximum minimum multiply divide convert -> tensor<2x4xbf16>
        hardswish_backward: convert convert compare divide add multiply select compare select convert -> tensor<2x4xbf16>
        hardtanh: convert broadcast_in_dim maximum broadcast_in_dim minimum convert -> tensor<2x4xbf16>
        hardtanh_backward: convert convert broadcast_in_dim compare broadcast_in_dim compare or select convert -> tensor<2x4xbf16>
        leaky_relu: convert compare broadcast_in_dim multiply select convert -> tensor<2x4xbf16>
        leaky_relu_backward: convert convert compare broadcast_in_dim multiply select convert -> tensor<2x4xbf16>
        log_sigmoid_backward: convert convert negate logistic multiply convert -> tensor<2x4xbf16>
        log_sigmoid_forward: convert abs negate exponential minimum log_plus_one subtract convert convert -> tensor<2x4xbf16> tensor<2x4xbf16>
        logit_backward: convert convert compare compare or subtract multiply divide compare compare or multiply select select convert -> tensor<2x4xbf16>
        mish: convert exponential log_plus_one tanh multiply convert -> tensor<2x4xbf16>
        mish_backward: convert convert exponential log_plus_one tanh logistic multiply multiply subtract multiply add multiply convert -> tensor<2x4xbf16>
        _prelu_kernel: convert convert compare multiply select convert -> tensor<2x4xbf16>
        _prelu_kernel_backward: convert convert convert compare multiply select multiply select convert convert -> tensor<2x4xbf16> tensor<2x4xbf16>
        relu: maximum -> tensor<2x4xbf16>
        sigmoid_backward: convert convert subtract multiply multiply convert -> tensor<2x4xbf16>
        silu: convert logistic multiply convert -> tensor<2x4xbf16>
        silu_backward: convert convert logistic subtract multiply add multiply multiply convert -> tensor<2x4xbf16>
        softplus: convert broadcast_in_dim multiply broadcast_in_dim compare exponential log_plus_one broadcast_in_dim divide select convert -> tensor<2x4xbf16>
        softplus_backward: convert convert broadcast_in_dim multiply broadcast_in_dim compare logistic multiply select convert -> tensor<2x4xbf16>
        softshrink: convert negate broadcast_in_dim compare broadcast_in_dim add multiply select broadcast_in_dim compare broadcast_in_dim subtract select convert -> tensor<2x4xbf16>
        softshrink_backward: convert convert negate broadcast_in_dim compare broadcast_in_dim compare and select convert -> tensor<2x4xbf16>
        tanh_backward: convert convert multiply subtract multiply convert -> tensor<2x4xbf16>
        threshold: convert broadcast_in_dim compare broadcast_in_dim select convert -> tensor<2x4xbf16>
        threshold_backward: convert convert broadcast_in_dim compare select convert -> tensor<2x4xbf16>
    "#]].assert_eq(&sketches(OPS, BF16));
}
