use crate::{
    Arg,
    golden::{
        self,
        Given::{self, A, Launch, List, T},
        NONE, hlo, int, line,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

fn ints(list: &[i64]) -> Given {
    A(Arg::Ints(list.into()))
}

fn launch(i: i64) -> Given {
    Launch(Number::Int(i))
}

fn list(l: &[Option<(tpu_hlo::DType, &'static [i64])>]) -> Given {
    List(l.to_vec())
}

#[test]
fn rows() {
    let lines = [
        line(
            "cat.out",
            &[list(&[Some((F32, &[2]))]), int(0), A(Arg::DType(I64))],
        ),
        line(
            "cat.out",
            &[list(&[Some((F32, &[2]))]), int(0), A(Arg::DType(F16))],
        ),
        line(
            "_stack",
            &[list(&[Some((F32, &[2])), Some((F32, &[2]))]), int(0)],
        ),
        line(
            "block_diag",
            &[list(&[
                Some((F32, &[2, 3])),
                Some((F64, &[])),
                Some((F32, &[2])),
            ])],
        ),
        line("block_diag", &[list(&[Some((F32, &[2, 3, 1]))])]),
        line(
            "cat",
            &[
                list(&[
                    Some((F32, &[0])),
                    Some((I32, &[2, 3])),
                    Some((F16, &[2, 1])),
                ]),
                int(-1),
            ],
        ),
        line(
            "cat",
            &[list(&[Some((F32, &[0])), Some((F32, &[0]))]), int(0)],
        ),
        line(
            "cat",
            &[list(&[Some((F32, &[2, 3])), Some((F32, &[3, 1]))]), int(1)],
        ),
        line(
            "cat",
            &[list(&[Some((F32, &[2, 3])), Some((F32, &[3]))]), int(1)],
        ),
        line("cat", &[list(&[Some((F32, &[]))]), int(0)]),
        line("cat", &[list(&[]), int(0)]),
        line("channel_shuffle", &[T(F32, &[1, 4, 2, 2]), int(2)]),
        line("channel_shuffle", &[T(F32, &[1, 4, 2, 2]), int(3)]),
        line(
            "constant_pad_nd",
            &[T(F32, &[2, 3, 4]), ints(&[1, -1, 0, 2]), launch(0)],
        ),
        line(
            "constant_pad_nd",
            &[T(F32, &[2, 3, 4]), ints(&[-3, -3]), launch(0)],
        ),
        line(
            "constant_pad_nd",
            &[T(F32, &[2, 3, 4]), ints(&[1]), launch(0)],
        ),
        line("diag_embed", &[T(F32, &[2, 3]), int(-1), int(0), int(-1)]),
        line("diag_embed", &[T(F32, &[3]), int(0), int(0), int(0)]),
        line(
            "diagonal_backward",
            &[T(F32, &[2, 3]), ints(&[3, 2, 4]), int(1), int(0), int(2)],
        ),
        line("flip", &[T(F32, &[2, 3, 4]), ints(&[0, -1])]),
        line("flip", &[T(F32, &[2, 3, 4]), ints(&[])]),
        line("pixel_shuffle", &[T(F32, &[8, 2, 3]), int(2)]),
        line("pixel_shuffle", &[T(F32, &[7, 2, 3]), int(2)]),
        line("pixel_unshuffle", &[T(F32, &[1, 2, 4, 6]), int(2)]),
        line("repeat", &[T(F32, &[2, 3]), ints(&[2, 1, 3])]),
        line("repeat", &[T(F32, &[2, 3]), ints(&[2])]),
        line("repeat_interleave.Tensor", &[T(I64, &[3]), NONE, int(7)]),
        line("repeat_interleave.Tensor", &[T(I32, &[3]), int(5)]),
        line("repeat_interleave.Tensor", &[T(F32, &[3]), int(5)]),
        line("roll", &[T(F32, &[2, 3, 4]), ints(&[5]), ints(&[])]),
        line("roll", &[T(F32, &[2, 3, 4]), ints(&[1, -1]), ints(&[0, 2])]),
        line("roll", &[T(F32, &[2, 3, 4]), ints(&[1, -1]), ints(&[0])]),
        line(
            "select_backward",
            &[T(F32, &[2, 4]), ints(&[2, 3, 4]), int(1), int(-1)],
        ),
        line(
            "select_backward",
            &[T(F32, &[2, 4]), ints(&[2, 3, 4]), int(1), int(3)],
        ),
        line(
            "slice_backward",
            &[
                T(F32, &[2, 2]),
                ints(&[2, 7]),
                int(1),
                int(1),
                int(7),
                int(3),
            ],
        ),
        line(
            "stack",
            &[list(&[Some((F32, &[2])), Some((I64, &[2]))]), int(1)],
        ),
        line(
            "stack",
            &[list(&[Some((F32, &[2])), Some((F32, &[3]))]), int(1)],
        ),
        line("tril", &[T(F32, &[2, 3, 4]), int(-1)]),
        line("triu", &[T(Bool, &[3, 3]), int(1)]),
        line("triu", &[T(F32, &[3]), int(1)]),
    ];
    expect![[r#"
        cat.out: Type: torch.cat(): input types can't be cast to the desired output type Long
        cat.out: -> tensor<2xf32>
        _stack: reshape reshape concatenate -> tensor<2x2xf32>
        block_diag: convert reshape reshape pad pad pad concatenate -> tensor<4x6xf32>
        block_diag: Runtime: torch.block_diag: Input tensors must have 2 or fewer dimensions. Input 0 has 3 dimensions
        cat: convert convert concatenate -> tensor<2x4xf32>
        cat: -> tensor<0xf32>
        cat: Runtime: Sizes of tensors must match except in dimension 1. Expected size 2 but got size 3 for tensor number 1 in the list.
        cat: Runtime: Tensors must have same number of dimensions: got 2 and 1
        cat: Runtime: zero-dimensional tensor (at position 0) cannot be concatenated
        cat: Value: torch.cat(): expected a non-empty list of Tensors
        channel_shuffle: reshape transpose reshape -> tensor<1x4x2x2xf32>
        channel_shuffle: Runtime: Number of channels must be divisible by groups. Got 4 channels and 3 groups.
        constant_pad_nd: pad -> tensor<2x5x4xf32>
        constant_pad_nd: Runtime: The input size 4, plus negative padding -3 and -3 resulted in a negative output size, which is invalid. Check dimension 2 of your input.
        constant_pad_nd: Runtime: Length of pad must be even but instead it equals 1
        diag_embed: pad broadcast_in_dim iota iota add compare select -> tensor<4x2x4xf32>
        diag_embed: Runtime: diagonal dimensions cannot be identical 0, 0
        diagonal_backward: transpose broadcast_in_dim iota iota add compare select -> tensor<3x2x4xf32>
        flip: reverse -> tensor<2x3x4xf32>
        flip: -> tensor<2x3x4xf32>
        pixel_shuffle: reshape transpose reshape -> tensor<2x4x6xf32>
        pixel_shuffle: Runtime: pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)=7 is not divisible by 4
        pixel_unshuffle: reshape transpose reshape -> tensor<1x8x2x3xf32>
        repeat: broadcast_in_dim reshape -> tensor<2x2x9xf32>
        repeat: Runtime: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor
        repeat_interleave.Tensor: compare reduce or select convert reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical convert -> tensor<7xi64>; else RuntimeError: repeats can not be negative
        repeat_interleave.Tensor: compare reduce or select reduce_window add iota while compare broadcast_in_dim add subtract gather compare not compare and select shift_right_logical -> tensor<5xi32>; else RuntimeError: repeats can not be negative
        repeat_interleave.Tensor: Runtime: repeats has to be Long or Int tensor
        roll: reshape slice slice concatenate reshape -> tensor<2x3x4xf32>
        roll: slice slice concatenate slice slice concatenate -> tensor<2x3x4xf32>
        roll: Runtime: shifts and dimensions must align. shifts: 2, dims:1
        select_backward: reshape pad -> tensor<2x3x4xf32>
        select_backward: Index: select(): index 3 out of range for tensor of size [2, 3, 4] at dimension 1
        slice_backward: pad -> tensor<2x7xf32>
        stack: reshape convert reshape concatenate -> tensor<2x2xf32>
        stack: Runtime: stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1
        tril: iota iota add compare broadcast_in_dim select -> tensor<2x3x4xf32>
        triu: iota iota add compare select -> tensor<3x3xi1>
        triu: Runtime: triu: input tensor must have at least 2 dimensions
    "#]].assert_eq(&lines.concat());
}

#[test]
fn a_triangle_is_a_comparison_of_positions() {
    let text = hlo(
        "tril",
        &[golden::T(F32, &[2, 2])],
        &[Arg::Number(Number::Int(0))],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x2xf32>) -> (tensor<2x2xf32>) {
            %1 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<2x2xi32>
            %2 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<2x2xi32>
            %3 = "stablehlo.constant"() <{value = dense<0> : tensor<2x2xi32>}> : () -> tensor<2x2xi32>
            %4 = "stablehlo.add"(%1, %3) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
            %5 = "stablehlo.compare"(%2, %4) <{comparison_direction = #stablehlo<comparison_direction LE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
            %6 = "stablehlo.constant"() <{value = dense<0.0> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
            %7 = "stablehlo.select"(%5, %p0, %6) : (tensor<2x2xi1>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
            return %7 : tensor<2x2xf32>
          }
        }
    "#]].assert_eq(&text);
}

#[test]
fn a_diagonal_is_laid_among_zeros() {
    let text = hlo(
        "diag_embed",
        &[golden::T(F32, &[2])],
        &[
            Arg::Number(Number::Int(1)),
            Arg::Number(Number::Int(0)),
            Arg::Number(Number::Int(1)),
        ],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2xf32>) -> (tensor<3x3xf32>) {
            %1 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %2 = "stablehlo.pad"(%p0, %1) <{edge_padding_low = array<i64: 0>, edge_padding_high = array<i64: 1>, interior_padding = array<i64: 0>}> : (tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
            %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64: 0>}> : (tensor<3xf32>) -> tensor<3x3xf32>
            %4 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<3x3xi32>
            %5 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<3x3xi32>
            %6 = "stablehlo.constant"() <{value = dense<1> : tensor<3x3xi32>}> : () -> tensor<3x3xi32>
            %7 = "stablehlo.add"(%4, %6) : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
            %8 = "stablehlo.compare"(%7, %5) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
            %9 = "stablehlo.constant"() <{value = dense<0.0> : tensor<3x3xf32>}> : () -> tensor<3x3xf32>
            %10 = "stablehlo.select"(%8, %3, %9) : (tensor<3x3xi1>, tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
            return %10 : tensor<3x3xf32>
          }
        }
    "#]].assert_eq(&text);
}

#[test]
fn a_copied_piece_lies_within() {
    let piece = |dim, start, length| {
        let [dim, start, length] = [dim, start, length].map(int);
        line("narrow_copy", &[T(F32, &[2, 3]), dim, start, length])
    };
    let lines = [
        piece(1, -2, 2),
        piece(1, 2, 2),
        piece(1, -4, 1),
        piece(0, 0, -1),
        line("narrow_copy", &[T(F32, &[]), int(0), int(0), int(1)]),
    ];
    expect![[r#"
        narrow_copy: slice -> tensor<2x2xf32>
        narrow_copy: Runtime: start (2) + length (2) exceeds dimension size (3).
        narrow_copy: Index: start out of range (expected to be in range of [-3, 3], but got -4)
        narrow_copy: Runtime: start (0) + length (-1) exceeds dimension size (2).
        narrow_copy: Runtime: narrow() cannot be applied to a 0-dim tensor.
    "#]]
    .assert_eq(&lines.concat());
}
