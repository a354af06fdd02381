//! Golden StableHLO, and the arithmetic of bounds.
use crate::{
    Arg,
    golden::{
        Given::{self, A, Launch, T},
        line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

fn draws(name: &str, x: Given, key: Given) -> String {
    let ends = [0.0, 1.0].map(|x| Launch(Number::Float(x)));
    let [low, high] = ends;
    line(name, &[x, key, low, high])
}

#[test]
fn keys_decide_alone() {
    let key = || T(U64, &[2]);
    let lines = [
        line(
            "_philox_key_split",
            &[key(), A(Arg::Number(Number::Int(0)))],
        ),
        line(
            "_philox_key_split",
            &[T(I64, &[2]), A(Arg::Number(Number::Int(3)))],
        ),
        line(
            "_philox_key_split",
            &[T(U64, &[3, 2]), A(Arg::Number(Number::Int(4)))],
        ),
        line("_philox_key_fold_in.Tensor", &[key(), T(U64, &[3])]),
        line(
            "_philox_key_fold_in",
            &[T(U64, &[3]), Launch(Number::Int(3))],
        ),
        draws("_philox_normal", T(F32, &[7]), key()),
        draws("_philox_normal", T(F64, &[7]), key()),
        draws("_philox_uniform", T(BF16, &[2, 3]), T(U64, &[2, 1, 2])),
        draws("_philox_uniform", T(F64, &[2, 3]), key()),
        draws("_philox_uniform", T(F32, &[2, 3]), T(U64, &[3, 1, 2])),
        draws("_philox_uniform", T(I32, &[2, 3]), key()),
    ];
    expect![[r#"
        _philox_key_split: Runtime: _philox_key_split: num_splits must be positive, got 0
        _philox_key_split: Runtime: _philox_key_split: key must have dtype uint64, got Long
        _philox_key_split: slice reshape slice reshape iota broadcast_in_dim broadcast_in_dim broadcast_in_dim add and shift_right_logical and shift_right_logical multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and shift_left or shift_left or reshape reshape concatenate transpose -> tensor<4x3x2xui64>
        _philox_key_fold_in.Tensor: Runtime: _philox_key_fold_in: data must be a single value, got 3 elements
        _philox_key_fold_in: Runtime: _philox_key_fold_in: key must have shape (*batch, 2), got shape [3]
        _philox_normal: reshape slice reshape slice reshape iota broadcast_in_dim broadcast_in_dim broadcast_in_dim add and shift_right_logical and shift_right_logical multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and convert multiply add convert multiply add convert multiply add convert multiply add log multiply sqrt multiply cosine multiply sine multiply log multiply sqrt multiply cosine multiply sine multiply reshape reshape reshape reshape concatenate reshape slice reshape broadcast_in_dim multiply broadcast_in_dim add -> tensor<7xf32>
        _philox_normal: reshape slice reshape slice reshape iota broadcast_in_dim broadcast_in_dim broadcast_in_dim add and shift_right_logical and shift_right_logical multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and convert convert convert convert multiply multiply add add multiply multiply add add log multiply sqrt multiply cosine multiply sine multiply reshape reshape concatenate reshape slice reshape broadcast_in_dim multiply broadcast_in_dim add -> tensor<7xf64>
        _philox_uniform: reshape slice reshape slice reshape iota broadcast_in_dim broadcast_in_dim broadcast_in_dim add and shift_right_logical and shift_right_logical multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and and convert multiply and convert multiply and convert multiply and convert multiply reshape reshape reshape reshape concatenate reshape slice subtract broadcast_in_dim multiply broadcast_in_dim add convert -> tensor<2x3xbf16>
        _philox_uniform: reshape slice reshape slice reshape iota broadcast_in_dim broadcast_in_dim broadcast_in_dim add and shift_right_logical and shift_right_logical multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and multiply multiply shift_right_logical xor xor and shift_right_logical xor xor and add and add and shift_left or shift_left or and convert multiply and convert multiply reshape reshape concatenate reshape reshape subtract broadcast_in_dim multiply broadcast_in_dim add -> tensor<2x3xf64>
        _philox_uniform: Runtime: _philox_uniform_: key batch shape [3, 1] is not broadcastable with output shape [2, 3]
        _philox_uniform: NotImplemented: "_philox_uniform_" not implemented for 'Int'
    "#]].assert_eq(&lines.concat());
}
