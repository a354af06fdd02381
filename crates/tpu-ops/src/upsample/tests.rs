use super::kernel::{Filter, Kernel, Resampling};
use super::table::Table;
use crate::Arg;
use crate::golden::{
    Given::{self, A, T},
    T as Tensor, hlo, line,
};
use expect_test::expect;
use proptest::prelude::*;
use tpu_hlo::{DType::*, Number};

fn ints(x: &[i64]) -> Given {
    A(Arg::Ints(x.into()))
}

fn int(x: i64) -> Given {
    A(Arg::Number(Number::Int(x)))
}

fn flag(x: bool) -> Given {
    A(Arg::Number(Number::Bool(x)))
}

fn table(kernel: Kernel, input: i64, output: i64, align_corners: bool) -> Table {
    Resampling::new(F32, (input, output), align_corners, None).table(kernel)
}

#[test]
fn tables_are_pytorchs() {
    // Columns of torch.nn.functional.interpolate of unit vectors.
    let column = |t: &Table, i: usize| -> Vec<f32> {
        t.dense().into_iter().map(|row| row[i] as f32).collect()
    };
    let linear = table(Kernel::Linear, 3, 5, false);
    assert_eq!(column(&linear, 0), [1.0, 0.599_999_96, 0.0, 0.0, 0.0]);
    let cubic = table(Kernel::Cubic, 3, 2, false);
    assert_eq!(column(&cubic, 2), [-0.035_156_25, 0.773_437_5]);
    let area = table(Kernel::Area(Filter::Linear), 4, 2, false);
    assert_eq!(column(&area, 0), [0.428_571_43, 0.0]);
}

#[test]
fn whole_factors_need_no_gather() {
    let rest = [Arg::Ints([4, 2].as_slice().into()), Arg::None, Arg::None];
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<1x3x2x4xui8>) -> (tensor<1x3x4x2xui8>) {
            %1 = "stablehlo.slice"(%p0) <{start_indices = array<i64: 0, 0, 0, 0>, limit_indices = array<i64: 1, 3, 2, 3>, strides = array<i64: 1, 1, 1, 2>}> : (tensor<1x3x2x4xui8>) -> tensor<1x3x2x2xui8>
            %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64: 0, 1, 2, 4>}> : (tensor<1x3x2x2xui8>) -> tensor<1x3x2x2x2xui8>
            %3 = "stablehlo.reshape"(%2) : (tensor<1x3x2x2x2xui8>) -> tensor<1x3x4x2xui8>
            return %3 : tensor<1x3x4x2xui8>
          }
        }
    "#]].assert_eq(&hlo("upsample_nearest2d", &[Tensor(U8, &[1, 3, 2, 4])], &rest));
}

#[test]
fn rows() {
    let image = |t| T(t, &[1, 2, 4, 6]);
    let (grad, sizes, from) = (
        || T(F32, &[1, 2, 8, 3]),
        || ints(&[8, 3]),
        || ints(&[1, 2, 4, 6]),
    );
    let mut lines = Vec::new();
    for name in ["upsample_nearest2d", "_upsample_nearest_exact2d"] {
        lines.push(line(name, &[image(F32), sizes()]));
        lines.push(line(
            &format!("{name}_backward"),
            &[grad(), sizes(), from()],
        ));
    }
    for name in [
        "upsample_bilinear2d",
        "upsample_bicubic2d",
        "_upsample_bilinear2d_aa",
        "_upsample_bicubic2d_aa",
        "_upsample_lanczos2d_aa",
    ] {
        lines.push(line(name, &[image(BF16), sizes(), flag(false)]));
        lines.push(line(
            &format!("{name}_backward"),
            &[grad(), sizes(), from(), flag(true)],
        ));
    }
    for name in ["upsample_nearest1d", "_upsample_nearest_exact1d"] {
        lines.push(line(name, &[T(F32, &[1, 2, 4]), ints(&[3])]));
        lines.push(line(
            &format!("{name}_backward"),
            &[T(F32, &[1, 2, 3]), ints(&[3]), ints(&[1, 2, 4])],
        ));
    }
    for name in ["upsample_nearest3d", "_upsample_nearest_exact3d"] {
        lines.push(line(name, &[T(F32, &[1, 2, 4, 4, 4]), ints(&[4, 8, 2])]));
        lines.push(line(
            &format!("{name}_backward"),
            &[
                T(F32, &[1, 2, 4, 8, 2]),
                ints(&[4, 8, 2]),
                ints(&[1, 2, 4, 4, 4]),
            ],
        ));
    }
    let (one, three) = (ints(&[3]), ints(&[2, 2, 2]));
    lines.push(line(
        "upsample_linear1d",
        &[T(F32, &[1, 2, 4]), one, flag(true)],
    ));
    lines.push(line(
        "upsample_trilinear3d",
        &[T(F32, &[1, 2, 4, 4, 4]), three, flag(true)],
    ));
    lines.push(line(
        "upsample_linear1d_backward",
        &[T(F32, &[1, 2, 3]), ints(&[3]), ints(&[1, 2, 4]), flag(true)],
    ));
    lines.push(line(
        "upsample_trilinear3d_backward",
        &[
            T(F32, &[1, 2, 2, 2, 2]),
            ints(&[2, 2, 2]),
            ints(&[1, 2, 4, 4, 4]),
            flag(true),
        ],
    ));
    lines.push(line(
        "affine_grid_generator",
        &[T(F32, &[2, 2, 3]), ints(&[2, 1, 3, 4]), flag(true)],
    ));
    let points = || T(F32, &[1, 5, 3, 2]);
    for (interpolation, padding) in [(0, 0), (1, 1), (2, 2)] {
        let given = [
            image(F32),
            points(),
            int(interpolation),
            int(padding),
            flag(false),
        ];
        lines.push(line("grid_sampler_2d", &given));
    }
    let mask = || A(Arg::Bools(vec![true, true]));
    lines.push(line(
        "grid_sampler_2d_backward",
        &[
            T(F32, &[1, 2, 5, 3]),
            image(F32),
            points(),
            int(0),
            int(0),
            flag(true),
            mask(),
        ],
    ));
    let volume = || [T(F32, &[1, 2, 4, 4, 4]), T(F32, &[1, 2, 2, 2, 3])];
    let [x, g] = volume();
    lines.push(line("grid_sampler_3d", &[x, g, int(1), int(0), flag(true)]));
    let [x, g] = volume();
    lines.push(line(
        "grid_sampler_3d_backward",
        &[
            T(F32, &[1, 2, 2, 2, 2]),
            x,
            g,
            int(1),
            int(0),
            flag(true),
            mask(),
        ],
    ));
    expect![[r#"
        upsample_nearest2d: slice broadcast_in_dim reshape -> tensor<1x2x8x3xf32>
        upsample_nearest2d_backward: slice slice add gather broadcast_in_dim select -> tensor<1x2x4x6xf32>
        _upsample_nearest_exact2d: slice broadcast_in_dim reshape -> tensor<1x2x8x3xf32>
        _upsample_nearest_exact2d_backward: slice slice add gather broadcast_in_dim select -> tensor<1x2x4x6xf32>
        upsample_bilinear2d: convert slice broadcast_in_dim multiply slice broadcast_in_dim multiply add gather broadcast_in_dim multiply gather broadcast_in_dim multiply add convert -> tensor<1x2x8x3xbf16>
        upsample_bilinear2d_backward: gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply broadcast_in_dim select gather broadcast_in_dim multiply broadcast_in_dim select add -> tensor<1x2x4x6xf32>
        upsample_bicubic2d: convert gather broadcast_in_dim multiply slice broadcast_in_dim multiply add slice broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add convert -> tensor<1x2x8x3xbf16>
        upsample_bicubic2d_backward: gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply broadcast_in_dim select add -> tensor<1x2x4x6xf32>
        _upsample_bilinear2d_aa: convert gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply gather broadcast_in_dim multiply broadcast_in_dim select add convert -> tensor<1x2x8x3xbf16>
        _upsample_bilinear2d_aa_backward: gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply gather broadcast_in_dim multiply broadcast_in_dim select add -> tensor<1x2x4x6xf32>
        _upsample_bicubic2d_aa: convert gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply broadcast_in_dim select add convert -> tensor<1x2x8x3xbf16>
        _upsample_bicubic2d_aa_backward: gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply broadcast_in_dim select add -> tensor<1x2x4x6xf32>
        _upsample_lanczos2d_aa: convert gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply broadcast_in_dim select add convert -> tensor<1x2x8x3xbf16>
        _upsample_lanczos2d_aa_backward: gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply gather broadcast_in_dim multiply add gather broadcast_in_dim multiply add -> tensor<1x2x4x6xf32>
        upsample_nearest1d: slice -> tensor<1x2x3xf32>
        upsample_nearest1d_backward: gather broadcast_in_dim select -> tensor<1x2x4xf32>
        _upsample_nearest_exact1d: gather -> tensor<1x2x3xf32>
        _upsample_nearest_exact1d_backward: gather broadcast_in_dim select -> tensor<1x2x4xf32>
        upsample_nearest3d: slice broadcast_in_dim reshape -> tensor<1x2x4x8x2xf32>
        upsample_nearest3d_backward: slice slice add gather broadcast_in_dim select -> tensor<1x2x4x4x4xf32>
        _upsample_nearest_exact3d: slice broadcast_in_dim reshape -> tensor<1x2x4x8x2xf32>
        _upsample_nearest_exact3d_backward: slice slice add gather broadcast_in_dim select -> tensor<1x2x4x4x4xf32>
        upsample_linear1d: gather broadcast_in_dim multiply slice broadcast_in_dim multiply add -> tensor<1x2x3xf32>
        upsample_trilinear3d: slice slice broadcast_in_dim multiply add slice slice broadcast_in_dim multiply add slice slice broadcast_in_dim multiply add -> tensor<1x2x2x2x2xf32>
        upsample_linear1d_backward: gather broadcast_in_dim multiply gather broadcast_in_dim multiply broadcast_in_dim select add -> tensor<1x2x4xf32>
        upsample_trilinear3d_backward: gather broadcast_in_dim multiply broadcast_in_dim select gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply broadcast_in_dim select gather broadcast_in_dim multiply broadcast_in_dim select add gather broadcast_in_dim multiply broadcast_in_dim select gather broadcast_in_dim multiply broadcast_in_dim select add -> tensor<1x2x4x4x4xf32>
        affine_grid_generator: slice reshape broadcast_in_dim broadcast_in_dim slice reshape broadcast_in_dim multiply add broadcast_in_dim slice reshape broadcast_in_dim multiply add -> tensor<2x3x4x2xf32>
        grid_sampler_2d: reshape reshape slice reshape add multiply add multiply multiply floor multiply add subtract subtract slice reshape add multiply add multiply multiply floor multiply add subtract subtract compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add reshape -> tensor<1x2x5x3xf32>
        grid_sampler_2d: reshape reshape slice reshape add multiply add multiply compare compare and select maximum minimum multiply round_nearest_even slice reshape add multiply add multiply compare compare and select maximum minimum multiply round_nearest_even compare compare and and select convert multiply add compare compare and and select convert multiply add reshape gather broadcast_in_dim select multiply broadcast_in_dim multiply add reshape -> tensor<1x2x5x3xf32>
        grid_sampler_2d: reshape reshape slice reshape add multiply add multiply floor subtract multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add abs divide floor remainder multiply add floor compare multiply add multiply add select compare not xor select compare compare and select maximum minimum multiply multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add abs divide floor remainder multiply add floor compare multiply add multiply add select compare not xor select compare compare and select maximum minimum multiply multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add abs divide floor remainder multiply add floor compare multiply add multiply add select compare not xor select compare compare and select maximum minimum multiply multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add abs divide floor remainder multiply add floor compare multiply add multiply add select compare not xor select compare compare and select maximum minimum multiply slice reshape add multiply add multiply floor subtract multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add abs divide floor remainder multiply add floor compare multiply add multiply add select compare not xor select compare compare and select maximum minimum multiply multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add abs divide floor remainder multiply add floor compare multiply add multiply add select compare not xor select compare compare and select maximum minimum multiply multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add abs divide floor remainder multiply add floor compare multiply add multiply add select compare not xor select compare compare and select maximum minimum multiply multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add multiply add abs divide floor remainder multiply add floor compare multiply add multiply add select compare not xor select compare compare and select maximum minimum multiply compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add gather broadcast_in_dim select multiply broadcast_in_dim multiply add reshape -> tensor<1x2x5x3xf32>
        grid_sampler_2d_backward: reshape reshape reshape slice reshape add multiply multiply add multiply floor multiply add subtract subtract slice reshape add multiply multiply add multiply floor multiply add subtract subtract compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape compare compare and and select convert multiply add compare compare and and select convert multiply add reshape multiply broadcast_in_dim multiply broadcast_in_dim select multiply broadcast_in_dim multiply broadcast_in_dim select multiply broadcast_in_dim multiply broadcast_in_dim select multiply broadcast_in_dim multiply broadcast_in_dim select concatenate concatenate optimization_barrier scatter add reshape gather broadcast_in_dim select multiply reduce add multiply multiply add multiply multiply add gather broadcast_in_dim select multiply reduce add multiply multiply add multiply multiply add gather broadcast_in_dim select multiply reduce add multiply multiply add multiply multiply add gather broadcast_in_dim select multiply reduce add multiply multiply add multiply multiply add multiply reshape multiply reshape concatenate reshape -> tensor<1x2x4x6xf32> tensor<1x5x3x2xf32>
        grid_sampler_3d: reshape reshape slice reshape add multiply multiply add multiply round_nearest_even slice reshape add multiply multiply add multiply round_nearest_even slice reshape add multiply multiply add multiply round_nearest_even compare compare and and select convert multiply add compare compare and and select convert multiply add compare compare and and select convert multiply add reshape gather broadcast_in_dim select multiply multiply broadcast_in_dim multiply add reshape -> tensor<1x2x2x2x2xf32>
        grid_sampler_3d_backward: reshape reshape reshape slice reshape add multiply multiply add multiply round_nearest_even slice reshape add multiply multiply add multiply round_nearest_even slice reshape add multiply multiply add multiply round_nearest_even compare compare and and select convert multiply add compare compare and and select convert multiply add compare compare and and select convert multiply add reshape multiply multiply broadcast_in_dim multiply broadcast_in_dim select optimization_barrier scatter add reshape gather broadcast_in_dim select multiply reduce add multiply multiply multiply add multiply multiply multiply add multiply multiply multiply add multiply reshape multiply reshape multiply reshape concatenate reshape -> tensor<1x2x4x4x4xf32> tensor<1x2x2x2x3xf32>
    "#]].assert_eq(&lines.concat());
}

#[test]
fn refusals_are_pytorchs() {
    let lines = [
        line("upsample_nearest2d", &[T(F32, &[1, 2, 4, 6]), ints(&[8])]),
        line("upsample_nearest2d", &[T(F32, &[2, 4, 6]), ints(&[8, 3])]),
        line(
            "upsample_bilinear2d",
            &[T(F32, &[1, 2, 0, 6]), ints(&[8, 3]), flag(false)],
        ),
        line(
            "upsample_bilinear2d",
            &[T(I64, &[1, 2, 4, 6]), ints(&[8, 3]), flag(false)],
        ),
        line(
            "upsample_nearest2d_backward",
            &[T(F32, &[1, 2, 8, 4]), ints(&[8, 3]), ints(&[1, 2, 4, 6])],
        ),
        line(
            "grid_sampler_3d",
            &[
                T(F32, &[1, 2, 4, 4, 4]),
                T(F32, &[1, 2, 2, 2, 3]),
                int(2),
                int(0),
                flag(true),
            ],
        ),
    ];
    expect![[r#"
        upsample_nearest2d: Runtime: It is expected output_size equals to 2, but got size 1
        upsample_nearest2d: Runtime: It is expected input_size equals to 4, but got size 3
        upsample_bilinear2d: Runtime: Input and output sizes should be greater than 0, but got input (H: 0, W: 6) output (H: 8, W: 3)
        upsample_bilinear2d: NotImplemented: "upsample" not implemented for 'Long'
        upsample_nearest2d_backward: Runtime: Expected grad_output to have the same shape as output; output.size() = [1, 2, 8, 3] but got grad_output.size() = [1, 2, 8, 4]
        grid_sampler_3d: Runtime: grid_sampler(): bicubic interpolation only supports 4D input
    "#]].assert_eq(&lines.concat());
}

proptest! {
    #[test]
    fn weights_of_a_row_sum_to_one(input in 1i64..40, output in 1i64..40, align: bool) {
        for kernel in [Kernel::Nearest, Kernel::Linear, Kernel::Cubic, Kernel::Area(Filter::Cubic)] {
            for row in table(kernel, input, output, align).dense() {
                let sum: f64 = row.iter().sum();
                prop_assert!((sum - 1.0).abs() < 1e-5, "{kernel:?}: {row:?}");
            }
        }
    }

    #[test]
    fn transposing_twice_changes_nothing(input in 1i64..20, output in 1i64..20) {
        let t = table(Kernel::Linear, input, output, false);
        let (once, dense) = (t.transposed(), t.dense());
        prop_assert_eq!(&once.transposed().dense(), &dense);
        for (o, row) in dense.iter().enumerate() {
            for (i, weight) in row.iter().enumerate() {
                prop_assert_eq!(once.dense()[i][o], *weight);
            }
        }
    }
}
