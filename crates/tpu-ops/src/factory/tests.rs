use crate::{
    Arg,
    golden::{
        Given::{self, A, Launch},
        NONE, int, line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

fn launch(i: i64) -> Given {
    Launch(Number::Int(i))
}

#[test]
fn rows() {
    let lines = [
        line(
            "arange.start_out",
            &[launch(0), launch(9), launch(1), A(Arg::DType(I64)), int(9)],
        ),
        line(
            "arange.start_out",
            &[launch(0), launch(9), launch(1), A(Arg::DType(BF16)), int(9)],
        ),
        line(
            "arange.start_out",
            &[launch(0), launch(9), launch(1), A(Arg::DType(Bool)), int(9)],
        ),
        line("eye.m_out", &[int(2), int(3), A(Arg::DType(F32))]),
        line("eye.out", &[int(2), A(Arg::DType(Bool))]),
        line("eye.out", &[int(-2), A(Arg::DType(Bool))]),
        line(
            "linspace.out",
            &[launch(0), launch(1), int(5), A(Arg::DType(F32))],
        ),
        line(
            "linspace.out",
            &[launch(0), launch(1), int(1), A(Arg::DType(I64))],
        ),
        line(
            "linspace.out",
            &[launch(0), launch(1), int(-1), A(Arg::DType(I64))],
        ),
        line(
            "logspace.out",
            &[launch(0), launch(1), int(5), launch(10), A(Arg::DType(F16))],
        ),
        line(
            "range.out",
            &[launch(0), launch(9), launch(1), A(Arg::DType(F32)), int(10)],
        ),
        line(
            "tril_indices",
            &[
                int(3),
                int(4),
                int(-1),
                A(Arg::DType(I32)),
                NONE,
                NONE,
                NONE,
            ],
        ),
        line(
            "tril_indices",
            &[int(0), int(4), int(-1), NONE, NONE, NONE, NONE],
        ),
        line(
            "triu_indices",
            &[int(3), int(4), int(1), NONE, NONE, NONE, NONE],
        ),
        line(
            "triu_indices",
            &[int(3), int(4), int(1), A(Arg::DType(F32)), NONE, NONE, NONE],
        ),
    ];
    expect![[r#"
        arange.start_out: iota convert broadcast_in_dim broadcast_in_dim multiply add -> tensor<9xi64>
        arange.start_out: iota convert broadcast_in_dim broadcast_in_dim multiply add convert -> tensor<9xbf16>
        arange.start_out: NotImplemented: "arange" not implemented for 'Bool'
        eye.m_out: iota iota compare convert -> tensor<2x3xf32>
        eye.out: iota iota compare -> tensor<2x2xi1>
        eye.out: Runtime: n must be greater or equal to 0, got -2
        linspace.out: subtract compare select divide iota compare broadcast_in_dim broadcast_in_dim convert broadcast_in_dim subtract multiply multiply add subtract select -> tensor<5xf32>
        linspace.out: compare ceil floor select compare ceil floor select subtract compare select divide iota compare broadcast_in_dim broadcast_in_dim convert broadcast_in_dim subtract multiply multiply add subtract select convert -> tensor<1xi64>
        linspace.out: Runtime: number of steps must be non-negative
        logspace.out: subtract compare select divide iota compare broadcast_in_dim broadcast_in_dim convert broadcast_in_dim subtract multiply multiply add subtract select broadcast_in_dim power convert -> tensor<5xf16>
        range.out: iota convert broadcast_in_dim broadcast_in_dim multiply add convert -> tensor<10xf32>
        tril_indices: iota add maximum minimum subtract reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract gather subtract reshape reshape concatenate -> tensor<2x3xi32>
        tril_indices: -> tensor<2x0xi64>
        triu_indices: iota add maximum minimum subtract reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract gather subtract reshape reshape concatenate convert -> tensor<2x6xi64>
        triu_indices: NotImplemented: "triu_indices" not implemented for 'Float'
    "#]].assert_eq(&lines.concat());
}
