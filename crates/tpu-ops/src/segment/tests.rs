use crate::{
    Arg,
    golden::{
        Given::{self, A, Launch, T},
        NONE, line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

fn number(n: Number) -> Given {
    A(Arg::Number(n))
}

fn forward(reduce: &str, given: [Given; 2], initial: Given) -> String {
    let [lengths, offsets] = given;
    line(
        "segment_reduce",
        &[
            T(F32, &[5, 2]),
            A(Arg::Str(reduce.into())),
            lengths,
            NONE,
            offsets,
            number(Number::Int(0)),
            number(Number::Bool(false)),
            initial,
        ],
    )
}

fn backward(reduce: &str) -> String {
    line(
        "_segment_reduce_backward",
        &[
            T(F32, &[3, 2]),
            T(F32, &[3, 2]),
            T(F32, &[5, 2]),
            A(Arg::Str(reduce.into())),
            T(I64, &[3]),
            NONE,
            number(Number::Int(0)),
            NONE,
        ],
    )
}

#[test]
fn rows() {
    let lines = [
        forward("sum", [T(I64, &[3]), NONE], NONE),
        forward("mean", [T(I64, &[3]), NONE], NONE),
        forward("max", [NONE, T(I32, &[4])], Launch(Number::Int(1))),
        forward("prod", [NONE, NONE], NONE),
        forward("median", [T(I64, &[3]), NONE], NONE),
        backward("sum"),
        backward("mean"),
        backward("min"),
        backward("prod"),
    ];
    expect![[r#"
        segment_reduce: convert reduce_window add subtract reshape reshape iota while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical compare iota multiply add select reshape subtract compare reduce or select reshape reduce add compare reduce or select broadcast_in_dim optimization_barrier scatter add -> tensor<3x2xf32>; else RuntimeError: lengths contains negative value!; else RuntimeError: segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.
        segment_reduce: convert reduce_window add subtract reshape reshape iota while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical compare iota multiply add select reshape subtract compare reduce or select reshape reduce add compare reduce or select broadcast_in_dim optimization_barrier scatter add convert broadcast_in_dim divide compare select -> tensor<3x2xf32>; else RuntimeError: lengths contains negative value!; else RuntimeError: segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.
        segment_reduce: slice slice reshape reshape iota while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical compare iota multiply add select reshape subtract compare reduce or select broadcast_in_dim optimization_barrier scatter maximum -> tensor<3x2xf32>; else RuntimeError: lengths contains negative value!
        segment_reduce: Runtime: segment_reduce(): Either lengths or offsets must be defined.
        segment_reduce: Runtime: reduce argument must be either max, min, mean, sum or prod, got median
        _segment_reduce_backward: convert reduce_window add subtract reshape reshape iota while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical compare iota multiply add select reshape subtract compare reduce or select gather compare broadcast_in_dim select -> tensor<5x2xf32>; else RuntimeError: lengths contains negative value!
        _segment_reduce_backward: convert reduce_window add subtract reshape reshape iota while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical compare iota multiply add select reshape subtract compare reduce or select gather convert broadcast_in_dim gather divide compare broadcast_in_dim select -> tensor<5x2xf32>; else RuntimeError: lengths contains negative value!
        _segment_reduce_backward: convert reduce_window add subtract reshape reshape iota while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical compare iota multiply add select reshape subtract compare reduce or select gather gather compare compare or convert optimization_barrier scatter add gather divide select compare broadcast_in_dim select -> tensor<5x2xf32>; else RuntimeError: lengths contains negative value!
        _segment_reduce_backward: convert reduce_window add subtract reshape reshape iota while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical while compare broadcast_in_dim add subtract reshape gather compare not compare and select shift_right_logical compare iota multiply add select reshape subtract compare reduce or select gather compare select broadcast_in_dim optimization_barrier scatter multiply gather convert optimization_barrier scatter add gather subtract compare divide select multiply compare broadcast_in_dim select -> tensor<5x2xf32>; else RuntimeError: lengths contains negative value!
    "#]].assert_eq(&lines.concat());
}
