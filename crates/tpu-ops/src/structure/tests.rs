use crate::{
    Arg,
    golden::{
        Given::{self, A, T},
        NONE, int, ints, line,
    },
};
use expect_test::expect;
use tpu_hlo::DType::*;

const X: Given = T(F32, &[2, 3, 4]);

#[test]
fn views() {
    let lines = [
        line("_conj", &[T(C64, &[2])]),
        line("_neg_view", &[X]),
        line("_reshape_alias", &[X, ints(&[6, 4]), ints(&[4, 1])]),
        line(
            "_to_copy",
            &[X, A(Arg::DType(F16)), NONE, NONE, NONE, NONE, NONE],
        ),
        line("_unsafe_view", &[X, ints(&[-1, 2])]),
        line("alias", &[X]),
        line("as_strided", &[X, ints(&[2, 2]), ints(&[1, 5]), int(3)]),
        line("as_strided", &[X, ints(&[2, 20]), ints(&[1, 5]), NONE]),
        line("clone", &[X, NONE]),
        line("detach", &[X]),
        line("diagonal", &[X, int(1), int(0), int(2)]),
        line("diagonal", &[X, int(-5), int(0), int(1)]),
        line("expand", &[T(F32, &[3, 1]), ints(&[2, -1, 4]), NONE]),
        line("expand", &[T(F32, &[3, 2]), ints(&[2, -1, 4]), NONE]),
        line("lift_fresh", &[X]),
        line("lift_fresh_copy", &[X]),
        line("permute", &[X, ints(&[2, 0, -2])]),
        line("scalar_tensor", &[int(2), A(Arg::DType(F16))]),
        line("select.int", &[X, int(1), int(-1)]),
        line("select.int", &[X, int(1), int(3)]),
        line("slice.Tensor", &[X, int(2), int(-3), NONE, int(2)]),
        line("split.Tensor", &[X, int(2), int(1)]),
        line("split_with_sizes", &[X, ints(&[1, 2]), int(1)]),
        line("split_with_sizes", &[X, ints(&[1, 1]), int(1)]),
        line("squeeze", &[T(F32, &[1, 3, 1])]),
        line("squeeze.dim", &[T(F32, &[1, 3, 1]), int(1)]),
        line("squeeze.dims", &[T(F32, &[1, 3, 1]), ints(&[0, 1])]),
        line("t", &[T(F32, &[2, 3])]),
        line("transpose.int", &[X, int(0), int(-1)]),
        line("unbind.int", &[X, int(0)]),
        line("unfold", &[X, int(1), int(2), int(1)]),
        line("unsqueeze", &[X, int(-1)]),
        line("view", &[X, ints(&[4, -1])]),
        line("view", &[X, ints(&[5, -1])]),
        line("view.dtype", &[X, A(Arg::DType(I32))]),
        line("view.dtype", &[X, A(Arg::DType(I16))]),
        line("view_as_complex", &[T(F32, &[3, 2])]),
        line("view_as_real", &[T(C64, &[3])]),
    ];
    expect![[r#"
        _conj: real imag negate complex -> tensor<2xcomplex<f32>>
        _neg_view: negate -> tensor<2x3x4xf32>
        _reshape_alias: reshape -> tensor<6x4xf32>
        _to_copy: convert -> tensor<2x3x4xf16>
        _unsafe_view: reshape -> tensor<12x2xf32>
        alias: -> tensor<2x3x4xf32>
        as_strided: reshape convert gather reshape -> tensor<2x2xf32>
        as_strided: Runtime: setStorage: sizes [2, 20], strides [1, 5], storage offset 0 are out of bounds for storage of 24 elements
        clone: -> tensor<2x3x4xf32>
        detach: -> tensor<2x3x4xf32>
        diagonal: transpose reshape convert gather -> tensor<3x2xf32>
        diagonal: transpose reshape convert gather -> tensor<4x0xf32>
        expand: broadcast_in_dim -> tensor<2x3x4xf32>
        expand: Runtime: The expanded size of the tensor (4) must match the existing size (2) at non-singleton dimension 2.  Target sizes: [2, 3, 4].  Tensor sizes: [3, 2]
        lift_fresh: -> tensor<2x3x4xf32>
        lift_fresh_copy: -> tensor<2x3x4xf32>
        permute: transpose -> tensor<4x2x3xf32>
        scalar_tensor: -> tensor<f16>
        select.int: slice reshape -> tensor<2x4xf32>
        select.int: Index: select(): index 3 out of range for tensor with size 3
        slice.Tensor: slice -> tensor<2x3x2xf32>
        split.Tensor: slice slice -> tensor<2x2x4xf32> tensor<2x1x4xf32>
        split_with_sizes: slice slice -> tensor<2x1x4xf32> tensor<2x2x4xf32>
        split_with_sizes: Runtime: split_with_sizes expects split_sizes to sum exactly to 3 (input tensor's size at dimension 1), but got split_sizes=[1, 1]
        squeeze: reshape -> tensor<3xf32>
        squeeze.dim: -> tensor<1x3x1xf32>
        squeeze.dims: reshape -> tensor<3x1xf32>
        t: transpose -> tensor<3x2xf32>
        transpose.int: transpose -> tensor<4x3x2xf32>
        unbind.int: slice reshape slice reshape -> tensor<3x4xf32> tensor<3x4xf32>
        unfold: convert gather reshape transpose -> tensor<2x2x4x2xf32>
        unsqueeze: reshape -> tensor<2x3x4x1xf32>
        view: reshape -> tensor<4x6xf32>
        view: Runtime: shape '[5, -1]' is invalid for input of size 24
        view.dtype: bitcast_convert -> tensor<2x3x4xi32>
        view.dtype: bitcast_convert reshape -> tensor<2x3x8xi16>
        view_as_complex: slice reshape slice reshape complex -> tensor<3xcomplex<f32>>
        view_as_real: real imag reshape reshape concatenate -> tensor<3x2xf32>
    "#]].assert_eq(&lines.concat());
}

#[test]
fn writes() {
    let lines = [
        line(
            "as_strided_scatter",
            &[X, T(F32, &[2, 2]), ints(&[2, 2]), ints(&[1, 5]), int(3)],
        ),
        line(
            "diagonal_scatter",
            &[X, T(F32, &[4, 2]), int(1), int(0), int(1)],
        ),
        line("select_scatter", &[X, T(F32, &[2, 4]), int(1), int(-1)]),
        line(
            "slice_scatter",
            &[X, T(F32, &[2, 1, 4]), int(1), int(2), NONE, int(1)],
        ),
        line(
            "slice_scatter",
            &[X, T(F32, &[2, 2, 4]), int(1), int(0), NONE, int(2)],
        ),
    ];
    expect![[r#"
        as_strided_scatter: reshape reshape convert optimization_barrier scatter reshape -> tensor<2x3x4xf32>
        diagonal_scatter: reshape reshape convert optimization_barrier scatter reshape -> tensor<2x3x4xf32>
        select_scatter: reshape dynamic_update_slice -> tensor<2x3x4xf32>
        slice_scatter: dynamic_update_slice -> tensor<2x3x4xf32>
        slice_scatter: convert optimization_barrier scatter -> tensor<2x3x4xf32>
    "#]].assert_eq(&lines.concat());
}
