use crate::{
    Arg,
    golden::{
        Given::{self, A, Launch, List, T},
        NONE, flag, int, ints, line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

fn floats(f: &[f64]) -> Given {
    A(Arg::Floats(f.to_vec()))
}

fn launch(i: i64) -> Given {
    Launch(Number::Int(i))
}

#[test]
fn rows() {
    let edges = || List(vec![Some((F32, &[3])), Some((F32, &[4]))]);
    let lines = [
        line(
            "_histogramdd_bin_edges",
            &[T(F32, &[5, 2]), ints(&[2, 3]), NONE, NONE, flag(false)],
        ),
        line(
            "_histogramdd_bin_edges",
            &[T(F32, &[5, 2]), ints(&[2]), NONE, NONE, flag(false)],
        ),
        line(
            "_histogramdd_from_bin_cts",
            &[
                T(F32, &[5, 2]),
                ints(&[2, 3]),
                floats(&[0., 1., 0., 1.]),
                NONE,
                flag(false),
            ],
        ),
        line(
            "_histogramdd_from_bin_cts",
            &[
                T(F32, &[5, 2]),
                ints(&[2, 3]),
                floats(&[1., 0., 0., 1.]),
                NONE,
                flag(false),
            ],
        ),
        line(
            "_histogramdd_from_bin_tensors",
            &[T(F32, &[5, 2]), edges(), T(F32, &[5]), flag(false)],
        ),
        line("histc", &[T(F32, &[20]), int(4), launch(0), launch(0)]),
        line("histc", &[T(I64, &[20]), int(4), launch(0), launch(3)]),
        line("histc", &[T(I64, &[20]), int(0), launch(0), launch(3)]),
        line(
            "histogram.bin_ct",
            &[T(F64, &[4, 5]), int(3), NONE, NONE, flag(true)],
        ),
        line(
            "histogram.bins_tensor",
            &[T(F32, &[20]), T(F32, &[5]), NONE, flag(false)],
        ),
        line(
            "histogram.bins_tensor",
            &[T(F32, &[20]), T(F32, &[5, 2]), NONE, flag(false)],
        ),
    ];
    expect![[r#"
        _histogramdd_bin_edges: slice reshape slice reshape reduce minimum reduce maximum is_finite is_finite and not reduce or select compare subtract add select select reduce minimum reduce maximum is_finite is_finite and not reduce or select compare subtract add select select subtract compare select divide iota compare broadcast_in_dim broadcast_in_dim convert broadcast_in_dim subtract multiply multiply add subtract select subtract compare select divide iota compare broadcast_in_dim broadcast_in_dim convert broadcast_in_dim subtract multiply multiply add subtract select -> tensor<3xf32> tensor<4xf32>; else RuntimeError: torch.histogramdd: range of the data is not finite; else RuntimeError: torch.histogramdd: range of the data is not finite
        _histogramdd_bin_edges: Runtime: histogramdd: The size of bins must be equal to the innermost dimension of the input.
        _histogramdd_from_bin_cts: slice reshape slice reshape is_finite is_finite and not reduce or select compare subtract add select select is_finite is_finite and not reduce or select compare subtract add select select subtract compare select divide iota compare broadcast_in_dim broadcast_in_dim convert broadcast_in_dim subtract multiply multiply add subtract select subtract compare select divide iota compare broadcast_in_dim broadcast_in_dim convert broadcast_in_dim subtract multiply multiply add subtract select while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract minimum slice slice reshape reshape broadcast_in_dim broadcast_in_dim compare compare and select multiply add and while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract minimum slice slice reshape reshape broadcast_in_dim broadcast_in_dim compare compare and select multiply add and convert optimization_barrier scatter add reshape -> tensor<2x3xf32>; else RuntimeError: torch.histogramdd: range of the data is not finite; else RuntimeError: torch.histogramdd: range of the data is not finite
        _histogramdd_from_bin_cts: Runtime: torch.histogramdd: min should not exceed max, but got min 1 max 0 for dimension 0
        _histogramdd_from_bin_tensors: slice reshape slice reshape while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract minimum slice slice reshape reshape broadcast_in_dim broadcast_in_dim compare compare and select multiply add and while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract minimum slice slice reshape reshape broadcast_in_dim broadcast_in_dim compare compare and select multiply add and convert select optimization_barrier scatter add reshape -> tensor<2x3xf32>
        histc: compare reduce minimum reduce maximum select select is_finite is_finite and not reduce or select compare subtract add select select subtract compare select divide iota compare broadcast_in_dim broadcast_in_dim convert broadcast_in_dim subtract multiply multiply add subtract select while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract minimum slice slice reshape reshape broadcast_in_dim broadcast_in_dim compare compare and select convert optimization_barrier scatter add convert -> tensor<4xf32>; else RuntimeError: torch.histc: range of the data is not finite
        histc: convert compare reduce minimum reduce maximum select select is_finite is_finite and not reduce or select compare subtract add select select subtract compare select divide iota compare broadcast_in_dim broadcast_in_dim convert broadcast_in_dim subtract multiply multiply add subtract select while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract minimum slice slice reshape reshape broadcast_in_dim broadcast_in_dim compare compare and select convert optimization_barrier scatter add -> tensor<4xi64>; else RuntimeError: torch.histc: range of the data is not finite
        histc: Runtime: torch.histogram(): bins must be > 0, but got 0 for dimension 0
        histogram.bin_ct: reshape reduce minimum reduce maximum is_finite is_finite and not reduce or select compare subtract add select select subtract compare select divide iota compare broadcast_in_dim broadcast_in_dim convert broadcast_in_dim subtract multiply multiply add subtract select while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract minimum slice slice reshape reshape broadcast_in_dim broadcast_in_dim compare compare and select multiply add and convert optimization_barrier scatter add reduce add broadcast_in_dim divide slice slice subtract broadcast_in_dim divide -> tensor<3xf64> tensor<4xf64>; else RuntimeError: torch.histogramdd: range of the data is not finite
        histogram.bins_tensor: while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical subtract minimum slice slice reshape reshape broadcast_in_dim broadcast_in_dim compare compare and select multiply add and convert optimization_barrier scatter add -> tensor<4xf32> tensor<5xf32>
        histogram.bins_tensor: Runtime: torch.histogramdd: bins tensor should have one dimension, but got 2 dimensions in the bins tensor for dimension 0
    "#]].assert_eq(&lines.concat());
}
