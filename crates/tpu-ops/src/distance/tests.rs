use crate::{
    Arg,
    golden::{
        Given::{self, A, T},
        NONE, int, line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

fn float(x: f64) -> Given {
    A(Arg::Number(Number::Float(x)))
}

#[test]
fn rows() {
    let lines = [
        line(
            "_cdist_backward",
            &[
                T(F32, &[4, 5]),
                T(F32, &[4, 3]),
                T(F32, &[5, 3]),
                float(2.0),
                T(F32, &[4, 5]),
            ],
        ),
        line(
            "_cdist_forward",
            &[T(F32, &[2, 4, 3]), T(F32, &[5, 3]), float(1.5), NONE],
        ),
        line(
            "_cdist_forward",
            &[T(F32, &[4, 3]), T(F32, &[5, 2]), float(1.0), NONE],
        ),
        line(
            "_cdist_forward",
            &[
                T(F32, &[4, 3]),
                T(F32, &[5, 3]),
                float(f64::INFINITY),
                int(0),
            ],
        ),
        line(
            "_pdist_backward",
            &[T(F32, &[6]), T(F32, &[4, 3]), float(2.0), T(F32, &[6])],
        ),
        line("_pdist_forward", &[T(F32, &[4, 3]), float(2.0)]),
    ];
    expect![[r#"
        _cdist_backward: reshape reshape broadcast_in_dim broadcast_in_dim subtract broadcast_in_dim sign abs divide compare compare or select broadcast_in_dim multiply reduce add -> tensor<4x3xf32>
        _cdist_forward: reshape reshape broadcast_in_dim broadcast_in_dim subtract abs power reduce add power -> tensor<2x4x5xf32>
        _cdist_forward: Runtime: X1 and X2 must have the same number of columns. X1: 3 X2: 2
        _cdist_forward: reshape reshape broadcast_in_dim broadcast_in_dim subtract abs reduce maximum -> tensor<4x5xf32>
        _pdist_backward: iota add maximum minimum subtract reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract gather subtract reshape reshape concatenate slice slice reshape reshape gather gather subtract broadcast_in_dim sign abs divide compare compare or select broadcast_in_dim multiply negate iota add maximum minimum subtract reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract gather subtract reshape reshape concatenate slice slice reshape reshape optimization_barrier scatter add optimization_barrier scatter add -> tensor<4x3xf32>
        _pdist_forward: iota add maximum minimum subtract reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract gather subtract reshape reshape concatenate slice slice reshape reshape gather gather subtract multiply reduce add sqrt -> tensor<6xf32>
    "#]].assert_eq(&lines.concat());
}
