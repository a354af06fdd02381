use crate::{
    Arg,
    golden::{
        Given::{self, A, T},
        int, line,
    },
};
use expect_test::expect;
use tpu_hlo::DType::*;

fn ints(list: &[i64]) -> Given {
    A(Arg::Ints(list.into()))
}

#[test]
fn rows() {
    let lines = [
        line(
            "col2im",
            &[
                T(F32, &[2, 8, 9]),
                ints(&[4, 4]),
                ints(&[2, 2]),
                ints(&[1, 1]),
                ints(&[0, 0]),
                ints(&[1, 1]),
            ],
        ),
        line(
            "col2im",
            &[
                T(F32, &[2, 8, 8]),
                ints(&[4, 4]),
                ints(&[2, 2]),
                ints(&[1, 1]),
                ints(&[0, 0]),
                ints(&[1, 1]),
            ],
        ),
        line(
            "col2im",
            &[
                T(F32, &[2, 7, 9]),
                ints(&[4, 4]),
                ints(&[2, 2]),
                ints(&[1, 1]),
                ints(&[0, 0]),
                ints(&[1, 1]),
            ],
        ),
        line(
            "im2col",
            &[
                T(F32, &[2, 2, 4, 4]),
                ints(&[2, 2]),
                ints(&[1, 1]),
                ints(&[1, 0]),
                ints(&[2, 1]),
            ],
        ),
        line(
            "im2col",
            &[
                T(F32, &[2, 4, 4]),
                ints(&[5, 2]),
                ints(&[1, 1]),
                ints(&[0, 0]),
                ints(&[1, 1]),
            ],
        ),
        line(
            "im2col",
            &[
                T(F32, &[4, 4]),
                ints(&[2, 2]),
                ints(&[1, 1]),
                ints(&[0, 0]),
                ints(&[1, 1]),
            ],
        ),
        line(
            "unfold_backward",
            &[T(F32, &[2, 3, 4]), ints(&[2, 8]), int(1), int(4), int(2)],
        ),
    ];
    expect![[r#"
        col2im: reshape transpose reshape iota iota multiply multiply add reshape optimization_barrier scatter add reshape iota iota multiply multiply add reshape optimization_barrier scatter add -> tensor<2x2x4x4xf32>
        col2im: Runtime: Given output_size=(4, 4), kernel_size=(2, 2), dilation=(1, 1), padding=(0, 0), stride=(1, 1), expected size of input's dimension 2 to match the calculated number of sliding blocks 3 * 3 = 9, but got input.size(2)=8.
        col2im: Runtime: Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=7 and kernel_size=(2, 2).
        im2col: pad iota iota multiply multiply add gather iota iota multiply multiply add gather transpose reshape -> tensor<2x8x9xf32>
        im2col: Runtime: Given input with spatial size (4, 4), kernel_size=(5, 2), dilation=(1, 1), padding=(0, 0), calculated shape of the array of sliding blocks as (0, 3), but its components must be at least one.
        im2col: Runtime: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: [4, 4]
        unfold_backward: transpose reshape iota iota multiply multiply add reshape optimization_barrier scatter add -> tensor<2x8xf32>
    "#]].assert_eq(&lines.concat());
}
