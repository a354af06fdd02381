use crate::Arg;
use crate::golden::{
    Given::{self, A, T},
    hlo_with, line,
};
use expect_test::expect;
use tpu_hlo::{DType, DType::*, Number, Slot, Type};

fn ints(x: &[i64]) -> Arg {
    Arg::Ints(x.into())
}

fn int(x: i64) -> Arg {
    Arg::Number(Number::Int(x))
}

fn flag(x: bool) -> Arg {
    Arg::Number(Number::Bool(x))
}

/// Stride, padding, dilation, transposed, output padding, groups.
struct Geometry(
    &'static [i64],
    &'static [i64],
    &'static [i64],
    bool,
    &'static [i64],
    i64,
);

impl Geometry {
    fn args(&self) -> Vec<Arg> {
        let Self(stride, padding, dilation, transposed, output_padding, groups) = *self;
        vec![
            ints(stride),
            ints(padding),
            ints(dilation),
            flag(transposed),
            ints(output_padding),
            int(groups),
        ]
    }
}

const PLAIN: Geometry = Geometry(&[2, 1], &[1], &[1, 2], false, &[0], 1);
const GROUPED: Geometry = Geometry(&[1], &[0], &[1], false, &[0], 2);
const TRANSPOSED: Geometry = Geometry(&[2], &[1], &[1], true, &[1], 2);

type Dims = &'static [i64];

fn program(name: &str, tensors: &[Dims], geometry: &Geometry, rest: &[Arg]) -> String {
    hlo_with(name, |b| {
        let tensor = |(i, d): (usize, &Dims)| {
            Arg::Tensor(b.param(Slot::Buffer(i as u32), Type::new(F32, d)))
        };
        let mut args: Vec<Arg> = tensors.iter().enumerate().map(tensor).collect();
        args.extend(geometry.args());
        args.extend_from_slice(rest);
        args
    })
}

fn call(name: &str, dtype: DType, tensors: &[Dims], extra: &[Arg], geometry: &Geometry) -> String {
    let tensors = tensors.iter().map(|d| T(dtype, d));
    let rest = extra.iter().cloned().chain(geometry.args()).map(A);
    line(name, &tensors.chain(rest).collect::<Vec<Given>>())
}

#[test]
fn gradients_are_convolutions() {
    let tensors: &[Dims] = &[&[2, 4, 3, 5], &[2, 3, 6, 7], &[4, 3, 2, 2]];
    let mask = Arg::Bools(vec![true, true, true]);
    let text = program(
        "convolution_backward_overrideable",
        tensors,
        &PLAIN,
        &[mask],
    );
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x4x3x5xf32>, %p1: tensor<2x3x6x7xf32>, %p2: tensor<4x3x2x2xf32>) -> (tensor<2x3x6x7xf32>, tensor<4x3x2x2xf32>, tensor<4xf32>) {
            %3 = "stablehlo.reshape"(%p2) : (tensor<4x3x2x2xf32>) -> tensor<1x4x3x2x2xf32>
            %4 = "stablehlo.transpose"(%3) <{permutation = array<i64: 0, 2, 1, 3, 4>}> : (tensor<1x4x3x2x2xf32>) -> tensor<1x3x4x2x2xf32>
            %5 = "stablehlo.reshape"(%4) : (tensor<1x3x4x2x2xf32>) -> tensor<3x4x2x2xf32>
            %6 = "stablehlo.reverse"(%5) <{dimensions = array<i64: 2, 3>}> : (tensor<3x4x2x2xf32>) -> tensor<3x4x2x2xf32>
            %7 = "stablehlo.convolution"(%p0, %6) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, lhs_dilation = array<i64: 2, 1>, padding = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], rhs_dilation = array<i64: 1, 2>, window_reversal = array<i1: false, false>, window_strides = array<i64: 1, 1>}> : (tensor<2x4x3x5xf32>, tensor<3x4x2x2xf32>) -> tensor<2x3x6x7xf32>
            %8 = "stablehlo.convolution"(%p1, %p0) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1]>, feature_group_count = 1 : i64, lhs_dilation = array<i64: 1, 1>, padding = dense<[[1, -1], [1, -1]]> : tensor<2x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], rhs_dilation = array<i64: 2, 1>, window_reversal = array<i1: false, false>, window_strides = array<i64: 1, 2>}> : (tensor<2x3x6x7xf32>, tensor<2x4x3x5xf32>) -> tensor<4x3x2x2xf32>
            %9 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %13 = "stablehlo.reduce"(%p0, %9) <{dimensions = array<i64: 0, 2, 3>}> ({
              ^bb0(%10: tensor<f32>, %11: tensor<f32>):
              %12 = "stablehlo.add"(%10, %11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%12) : (tensor<f32>) -> ()
            }) : (tensor<2x4x3x5xf32>, tensor<f32>) -> tensor<4xf32>
            return %7, %8, %13 : tensor<2x3x6x7xf32>, tensor<4x3x2x2xf32>, tensor<4xf32>
          }
        }
    "#]].assert_eq(&text);
}

#[test]
fn the_kernel_of_a_transposed_convolution_is_turned_round() {
    let mask = Arg::Bools(vec![false, false, true]);
    let tensors: &[Dims] = &[&[2, 6, 10, 8], &[2, 4, 5, 4], &[4, 3, 3, 3]];
    let name = "convolution_backward_overrideable";
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x6x10x8xf32>) -> (tensor<0xi1>, tensor<0xi1>, tensor<6xf32>) {
            %3 = "stablehlo.constant"() <{value = dense<false> : tensor<0xi1>}> : () -> tensor<0xi1>
            %4 = "stablehlo.constant"() <{value = dense<false> : tensor<0xi1>}> : () -> tensor<0xi1>
            %5 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %9 = "stablehlo.reduce"(%p0, %5) <{dimensions = array<i64: 0, 2, 3>}> ({
              ^bb0(%6: tensor<f32>, %7: tensor<f32>):
              %8 = "stablehlo.add"(%6, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%8) : (tensor<f32>) -> ()
            }) : (tensor<2x6x10x8xf32>, tensor<f32>) -> tensor<6xf32>
            return %3, %4, %9 : tensor<0xi1>, tensor<0xi1>, tensor<6xf32>
          }
        }
    "#]].assert_eq(&program(name, tensors, &TRANSPOSED, &[mask]));
    let forward = call(
        "convolution_overrideable",
        F32,
        &[&[2, 4, 5, 4], &[4, 3, 3, 3], &[6]],
        &[],
        &TRANSPOSED,
    );
    expect![[r#"
        convolution_overrideable: reshape transpose reshape reverse convolution broadcast_in_dim add -> tensor<2x6x10x8xf32>
    "#]].assert_eq(&forward);
}

#[test]
fn rows() {
    let x: Dims = &[2, 4, 6, 7];
    let lines = [
        call(
            "convolution",
            F32,
            &[x, &[8, 4, 3, 2]],
            &[Arg::None],
            &PLAIN,
        ),
        call(
            "convolution",
            BF16,
            &[x, &[8, 2, 3, 3], &[8]],
            &[],
            &GROUPED,
        ),
        call(
            "convolution",
            I64,
            &[&[2, 4, 6], &[8, 2, 3]],
            &[Arg::None],
            &GROUPED,
        ),
        call(
            "convolution",
            F32,
            &[&[0, 4, 6], &[8, 2, 3], &[8]],
            &[],
            &GROUPED,
        ),
        line(
            "conv_tbc",
            &[
                T(F32, &[7, 2, 3]),
                T(F32, &[3, 3, 4]),
                T(F32, &[4]),
                A(int(1)),
            ],
        ),
    ];
    expect![[r#"
        convolution: convolution -> tensor<2x8x3x7xf32>
        convolution: convolution convert broadcast_in_dim add convert -> tensor<2x8x4x5xbf16>
        convolution: convolution -> tensor<2x8x4xi64>
        convolution: broadcast_in_dim add -> tensor<0x8x4xf32>
        conv_tbc: convolution broadcast_in_dim add -> tensor<7x2x4xf32>
    "#]]
    .assert_eq(&lines.concat());
}

#[test]
fn refusals_are_pytorchs() {
    let x: Dims = &[1, 3, 5, 5];
    let w: Dims = &[4, 3, 3, 3];
    let refused = |tensors: &[Dims], geometry: Geometry| {
        let none = [Arg::None];
        let extra = if tensors.len() == 2 {
            none.as_slice()
        } else {
            &[]
        };
        call("convolution", F32, tensors, extra, &geometry)
    };
    let plain = || Geometry(&[1], &[0], &[1], false, &[0], 1);
    let lines = [
        refused(&[x, &[4, 2, 3, 3]], plain()),
        refused(&[x, w, &[3]], plain()),
        refused(&[x, &[4, 3, 7, 3]], plain()),
        refused(&[&[1, 3, 5], w], plain()),
        refused(&[x, &[4, 3]], plain()),
        refused(&[x, &[5, 3, 3, 3]], GROUPED),
        refused(&[x, w], Geometry(&[1, 1, 1], &[0], &[1], false, &[0], 1)),
        refused(&[x, w], Geometry(&[0], &[0], &[1], false, &[0], 1)),
        refused(&[x, w], Geometry(&[1], &[-1], &[1], false, &[0], 1)),
        refused(&[x, w], Geometry(&[1], &[0], &[0], false, &[0], 1)),
        refused(&[x, w], Geometry(&[1], &[0], &[1], true, &[0], 1)),
        refused(
            &[x, &[3, 3, 3, 3]],
            Geometry(&[1], &[0], &[1], true, &[1], 1),
        ),
        call("convolution", Bool, &[x, w], &[Arg::None], &plain()),
    ];
    expect![[r#"
        convolution: Runtime: Given groups=1, weight of size [4, 2, 3, 3], expected input[1, 3, 5, 5] to have 2 channels, but got 3 channels instead
        convolution: Runtime: Given weight of size [4, 3, 3, 3], expected bias to be 1-dimensional with 4 elements, but got bias of size [3] instead
        convolution: Runtime: Calculated padded input size per channel: (5 x 5). Kernel size: (7 x 3). Kernel size can't be greater than actual input size
        convolution: Runtime: Expected 4-dimensional input for 4-dimensional weight [4, 3, 3, 3], but got 3-dimensional input of size [1, 3, 5] instead
        convolution: Runtime: weight should have at least three dimensions
        convolution: Runtime: Given groups=2, expected weight to be divisible by 2 at dimension 0, but got weight of size [[5, 3, 3, 3]] instead
        convolution: Runtime: expected stride to be a single integer value or a list of 2 values to match the convolution dimensions, but got stride=[1, 1, 1]
        convolution: Runtime: non-positive stride is not supported
        convolution: Runtime: negative padding is not supported
        convolution: Runtime: dilation should be greater than zero, but got [0, 0]
        convolution: Runtime: Given transposed=1, weight of size [4, 3, 3, 3], expected input[1, 3, 5, 5] to have 4 channels, but got 3 channels instead
        convolution: Runtime: output padding must be smaller than either stride or dilation, but got output_padding: [1, 1] stride: [1, 1] dilation: [1, 1]
        convolution: NotImplemented: "convolution" not implemented for 'Bool'
    "#]].assert_eq(&lines.concat());
}

#[test]
fn convolutions_under_other_names() {
    let list = |n: i64| A(ints(&[n, n]));
    let x = || T(F32, &[1, 2, 5, 5]);
    let gradients = |mask: Given| {
        let mut given = vec![T(F32, &[1, 3, 4, 4]), x(), T(F32, &[3, 8])];
        given.extend([list(2), list(1), list(0), mask]);
        given
    };
    let lines = [
        line(
            "_slow_conv2d_forward",
            &[
                x(),
                T(F32, &[3, 8]),
                list(2),
                A(Arg::None),
                list(1),
                list(0),
            ],
        ),
        line(
            "slow_conv_dilated2d",
            &[
                T(F32, &[2, 5, 5]),
                T(F32, &[3, 2, 2, 2]),
                list(2),
                T(F32, &[3]),
                list(1),
                list(0),
                list(2),
            ],
        ),
        line(
            "slow_conv_transpose2d",
            &[
                x(),
                T(F32, &[2, 3, 2, 2]),
                list(2),
                A(Arg::None),
                list(2),
                list(0),
                list(1),
                list(1),
            ],
        ),
        line(
            "slow_conv_dilated2d",
            &[
                x(),
                T(F32, &[3, 2, 2, 2]),
                list(3),
                A(Arg::None),
                list(1),
                list(0),
                list(1),
            ],
        ),
        line(
            "_slow_conv2d_backward.output_mask",
            &gradients(A(Arg::Bools(vec![false, true, true]))),
        ),
        line(
            "_slow_conv2d_backward.grad_input",
            &gradients(A(Arg::DType(F32))),
        ),
    ];
    expect![[r#"
        _slow_conv2d_forward: reshape convolution -> tensor<1x3x4x4xf32>
        slow_conv_dilated2d: reshape convolution broadcast_in_dim add reshape -> tensor<3x3x3xf32>
        slow_conv_transpose2d: reshape transpose reshape reverse convolution -> tensor<1x3x11x11xf32>
        slow_conv_dilated2d: Runtime: weight[2:] shape [2, 2] must be equal to kernel_size [3, 3]
        _slow_conv2d_backward.output_mask: reshape convolution reduce add reshape -> tensor<0xi1> tensor<3x8xf32> tensor<3xf32>
        _slow_conv2d_backward.grad_input: reshape reshape transpose reshape reverse convolution convolution reduce add reshape -> tensor<1x2x5x5xf32> tensor<3x8xf32> tensor<3xf32>
    "#]].assert_eq(&lines.concat());
}
