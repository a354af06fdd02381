use crate::Arg;
use crate::golden::{
    Given::{self, A, T},
    hlo_with, line,
};
use expect_test::expect;
use tpu_hlo::{DType, DType::*, Number, Slot, Type};

fn ints(x: &[i64]) -> Given {
    A(Arg::Ints(x.into()))
}

fn flag(x: bool) -> Given {
    A(Arg::Number(Number::Bool(x)))
}

type Dims = &'static [i64];

/// A call of a max pooling row: kernel, stride, padding, dilation, then `ceil_mode`.
fn max(dtype: DType, x: Dims, parameters: [Dims; 4], ceil: bool) -> String {
    let mut given = vec![T(dtype, x)];
    given.extend(parameters.map(ints));
    given.push(flag(ceil));
    let name = if parameters[0].len() == 3 {
        "max_pool3d"
    } else {
        "max_pool2d"
    };
    line(&format!("{name}_with_indices"), &given)
}

fn average(name: &str, tensors: &[Dims], parameters: [Dims; 3], divisor: Option<i64>) -> String {
    let mut given: Vec<Given> = tensors.iter().map(|d| T(BF16, d)).collect();
    given.extend(parameters.map(ints));
    given.extend([flag(true), flag(false)]);
    given.push(A(divisor.map_or(Arg::None, |n| Arg::Number(Number::Int(n)))));
    line(name, &given)
}

#[test]
fn positions_follow_the_largest() {
    let text = hlo_with("max_pool2d_with_indices", |b| {
        let x = b.param(Slot::Buffer(0), Type::new(F32, &[3, 4, 4]));
        let list = |x: &[i64]| Arg::Ints(x.into());
        let ceil = Arg::Number(Number::Bool(false));
        vec![
            Arg::Tensor(x),
            list(&[1, 2]),
            list(&[2]),
            list(&[0, 1]),
            list(&[1]),
            ceil,
        ]
    });
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<3x4x4xf32>) -> (tensor<3x2x3xf32>, tensor<3x2x3xi64>) {
            %1 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
            %2 = "stablehlo.pad"(%p0, %1) <{edge_padding_low = array<i64: 0, 0, 1>, edge_padding_high = array<i64: 0, -1, 1>, interior_padding = array<i64: 0, 0, 0>}> : (tensor<3x4x4xf32>, tensor<f32>) -> tensor<3x3x6xf32>
            %3 = "stablehlo.constant"() <{value = dense<0> : tensor<3x2x3xi32>}> : () -> tensor<3x2x3xi32>
            %4 = "stablehlo.constant"() <{value = dense<[0, 8]> : tensor<2xi32>}> : () -> tensor<2xi32>
            %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64: 1>}> : (tensor<2xi32>) -> tensor<3x2x3xi32>
            %6 = "stablehlo.add"(%3, %5) : (tensor<3x2x3xi32>, tensor<3x2x3xi32>) -> tensor<3x2x3xi32>
            %7 = "stablehlo.constant"() <{value = dense<[-1, 1, 3]> : tensor<3xi32>}> : () -> tensor<3xi32>
            %8 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64: 2>}> : (tensor<3xi32>) -> tensor<3x2x3xi32>
            %9 = "stablehlo.add"(%6, %8) : (tensor<3x2x3xi32>, tensor<3x2x3xi32>) -> tensor<3x2x3xi32>
            %10 = "stablehlo.constant"() <{value = dense<0> : tensor<3x2x3xi32>}> : () -> tensor<3x2x3xi32>
            %11 = "stablehlo.constant"() <{value = dense<[0, 8]> : tensor<2xi32>}> : () -> tensor<2xi32>
            %12 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64: 1>}> : (tensor<2xi32>) -> tensor<3x2x3xi32>
            %13 = "stablehlo.add"(%10, %12) : (tensor<3x2x3xi32>, tensor<3x2x3xi32>) -> tensor<3x2x3xi32>
            %14 = "stablehlo.constant"() <{value = dense<[0, 1, 3]> : tensor<3xi32>}> : () -> tensor<3xi32>
            %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64: 2>}> : (tensor<3xi32>) -> tensor<3x2x3xi32>
            %16 = "stablehlo.add"(%13, %15) : (tensor<3x2x3xi32>, tensor<3x2x3xi32>) -> tensor<3x2x3xi32>
            %17 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
            %18 = "stablehlo.broadcast_in_dim"(%17) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x2x3xf32>
            %19 = "stablehlo.slice"(%2) <{start_indices = array<i64: 0, 0, 0>, limit_indices = array<i64: 3, 3, 5>, strides = array<i64: 1, 2, 2>}> : (tensor<3x3x6xf32>) -> tensor<3x2x3xf32>
            %20 = "stablehlo.constant"() <{value = dense<0> : tensor<3x2x3xi32>}> : () -> tensor<3x2x3xi32>
            %21 = "stablehlo.add"(%9, %20) : (tensor<3x2x3xi32>, tensor<3x2x3xi32>) -> tensor<3x2x3xi32>
            %22 = "stablehlo.compare"(%19, %18) <{comparison_direction = #stablehlo<comparison_direction GT>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<3x2x3xf32>, tensor<3x2x3xf32>) -> tensor<3x2x3xi1>
            %23 = "stablehlo.compare"(%19, %19) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<3x2x3xf32>, tensor<3x2x3xf32>) -> tensor<3x2x3xi1>
            %24 = "stablehlo.or"(%22, %23) : (tensor<3x2x3xi1>, tensor<3x2x3xi1>) -> tensor<3x2x3xi1>
            %25 = "stablehlo.select"(%24, %19, %18) : (tensor<3x2x3xi1>, tensor<3x2x3xf32>, tensor<3x2x3xf32>) -> tensor<3x2x3xf32>
            %26 = "stablehlo.select"(%24, %21, %16) : (tensor<3x2x3xi1>, tensor<3x2x3xi32>, tensor<3x2x3xi32>) -> tensor<3x2x3xi32>
            %27 = "stablehlo.slice"(%2) <{start_indices = array<i64: 0, 0, 1>, limit_indices = array<i64: 3, 3, 6>, strides = array<i64: 1, 2, 2>}> : (tensor<3x3x6xf32>) -> tensor<3x2x3xf32>
            %28 = "stablehlo.constant"() <{value = dense<1> : tensor<3x2x3xi32>}> : () -> tensor<3x2x3xi32>
            %29 = "stablehlo.add"(%9, %28) : (tensor<3x2x3xi32>, tensor<3x2x3xi32>) -> tensor<3x2x3xi32>
            %30 = "stablehlo.compare"(%27, %25) <{comparison_direction = #stablehlo<comparison_direction GT>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<3x2x3xf32>, tensor<3x2x3xf32>) -> tensor<3x2x3xi1>
            %31 = "stablehlo.compare"(%27, %27) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<3x2x3xf32>, tensor<3x2x3xf32>) -> tensor<3x2x3xi1>
            %32 = "stablehlo.or"(%30, %31) : (tensor<3x2x3xi1>, tensor<3x2x3xi1>) -> tensor<3x2x3xi1>
            %33 = "stablehlo.select"(%32, %27, %25) : (tensor<3x2x3xi1>, tensor<3x2x3xf32>, tensor<3x2x3xf32>) -> tensor<3x2x3xf32>
            %34 = "stablehlo.select"(%32, %29, %26) : (tensor<3x2x3xi1>, tensor<3x2x3xi32>, tensor<3x2x3xi32>) -> tensor<3x2x3xi32>
            %35 = "stablehlo.convert"(%34) : (tensor<3x2x3xi32>) -> tensor<3x2x3xi64>
            return %33, %35 : tensor<3x2x3xf32>, tensor<3x2x3xi64>
          }
        }
    "#]].assert_eq(&text);
}

#[test]
fn large_windows_are_one_op() {
    expect![[r#"
        max_pool2d_with_indices: reshape broadcast_in_dim add broadcast_in_dim add reduce_window compare compare compare and or compare compare not not or and or select select convert reshape reshape -> tensor<1x2x2x2xf32> tensor<1x2x2x2xi64>
    "#]].assert_eq(&max(F32, &[1, 2, 20, 20], [&[9, 9], &[], &[0], &[1]], false));
    let big: [Dims; 3] = [&[1, 20], &[], &[0]];
    expect![[r#"
        avg_pool2d: convert reduce_window add compare select divide convert -> tensor<2x20x2xbf16>
    "#]]
    .assert_eq(&average("avg_pool2d", &[&[2, 20, 40]], big, None));
}

#[test]
fn rows() {
    let (two, one, none): (Dims, Dims, Dims) = (&[2], &[1], &[0]);
    let x: Dims = &[2, 3, 5, 5];
    let at = |d| [T(F32, d), T(I64, d)];
    let [g22, i22] = at(&[2, 3, 2, 2]);
    let [g222, i222] = at(&[2, 3, 2, 2, 2]);
    let volume = || T(F32, &[2, 3, 5, 5, 5]);
    let plain = || [ints(two), ints(two), ints(none), ints(one), flag(false)];
    let mut max2 = vec![g22, T(F32, x)];
    max2.extend(plain());
    max2.push(i22);
    let mut max3 = vec![g222, volume()];
    max3.extend(plain());
    max3.push(i222);
    let lines = [
        max(I64, &[3, 5, 5], [two, two, none, one], true),
        max(F32, &[2, 3, 5, 5, 5], [&[1, 1, 2], two, none, one], false),
        line("max_pool2d_with_indices_backward", &max2),
        line("max_pool3d_with_indices_backward", &max3),
        average("avg_pool2d", &[x], [two, two, one], None),
        average("avg_pool2d", &[x], [two, two, none], Some(3)),
        average(
            "avg_pool2d_backward",
            &[&[2, 3, 3, 3], x],
            [two, two, one],
            None,
        ),
        average("avg_pool3d", &[&[2, 3, 5, 5, 5]], [two, two, none], None),
        average(
            "avg_pool3d_backward",
            &[&[3, 3, 3, 3], &[3, 5, 5, 5]],
            [two, two, none],
            None,
        ),
        line(
            "_adaptive_avg_pool2d",
            &[T(F16, &[2, 3, 6, 5]), ints(&[3, 2])],
        ),
        line(
            "_adaptive_avg_pool2d_backward",
            &[T(F32, &[3, 1, 2]), T(F32, &[3, 5, 5])],
        ),
        line("_adaptive_avg_pool3d", &[volume(), ints(&[1, 1, 1])]),
        line(
            "_adaptive_avg_pool3d_backward",
            &[T(F32, &[3, 1, 1, 5]), T(F32, &[3, 5, 5, 5])],
        ),
        line(
            "adaptive_max_pool2d",
            &[T(F32, &[2, 3, 6, 5]), ints(&[3, 2])],
        ),
        line(
            "adaptive_max_pool2d_backward",
            &[T(F32, &[3, 1, 2]), T(F32, &[3, 5, 5]), T(I64, &[3, 1, 2])],
        ),
        line("adaptive_max_pool3d", &[volume(), ints(&[1, 1, 5])]),
        line(
            "adaptive_max_pool3d_backward",
            &[
                T(F32, &[3, 1, 1, 5]),
                T(F32, &[3, 5, 5, 5]),
                T(I64, &[3, 1, 1, 5]),
            ],
        ),
        line(
            "fractional_max_pool2d",
            &[T(F32, x), ints(&[1, 2]), ints(&[3, 3]), T(F32, &[2, 3, 2])],
        ),
        line(
            "fractional_max_pool2d_backward",
            &[
                T(F32, &[2, 3, 3, 3]),
                T(F32, x),
                ints(&[1, 2]),
                ints(&[3, 3]),
                T(I64, &[2, 3, 3, 3]),
            ],
        ),
        line(
            "fractional_max_pool3d",
            &[
                volume(),
                ints(&[1, 1, 1]),
                ints(&[3, 3, 3]),
                T(F32, &[2, 3, 3]),
            ],
        ),
        line(
            "fractional_max_pool3d_backward",
            &[
                T(F32, &[2, 3, 3, 3, 3]),
                volume(),
                ints(&[1, 1, 1]),
                ints(&[3, 3, 3]),
                T(I64, &[2, 3, 3, 3, 3]),
            ],
        ),
        line(
            "max_unpool2d",
            &[T(F32, &[3, 2, 2]), T(I64, &[3, 2, 2]), ints(&[4, 4])],
        ),
        line(
            "max_unpool3d",
            &[
                T(F32, &[3, 2, 2, 2]),
                T(I64, &[3, 2, 2, 2]),
                ints(&[4, 4, 4]),
                ints(two),
                ints(none),
            ],
        ),
    ];
    expect![[r#"
        max_pool2d_with_indices: pad broadcast_in_dim add broadcast_in_dim add broadcast_in_dim add broadcast_in_dim add broadcast_in_dim slice add compare select select slice add compare select select slice add compare select select slice add compare select select convert -> tensor<3x3x3xi64> tensor<3x3x3xi64>
        max_pool3d_with_indices: reshape pad broadcast_in_dim add broadcast_in_dim add broadcast_in_dim add broadcast_in_dim add broadcast_in_dim add broadcast_in_dim add broadcast_in_dim slice add compare compare or select select slice add compare compare or select select convert reshape reshape -> tensor<2x3x3x3x2xf32> tensor<2x3x3x3x2xi64>
        max_pool2d_with_indices_backward: convert reshape reshape optimization_barrier scatter add reshape -> tensor<2x3x5x5xf32>
        max_pool3d_with_indices_backward: convert reshape reshape optimization_barrier scatter add reshape -> tensor<2x3x5x5x5xf32>
        avg_pool2d: convert reshape pad slice slice add pad slice slice add convert broadcast_in_dim convert broadcast_in_dim multiply compare select divide convert reshape -> tensor<2x3x3x3xbf16>
        avg_pool2d: convert reshape pad slice slice add pad slice slice add compare select divide convert reshape -> tensor<2x3x3x3xbf16>
        avg_pool2d_backward: convert reshape convert broadcast_in_dim convert broadcast_in_dim multiply compare select divide pad slice slice add pad slice slice add convert reshape -> tensor<2x3x5x5xbf16>
        avg_pool3d: convert reshape pad slice slice add pad slice slice add pad slice slice add convert broadcast_in_dim convert broadcast_in_dim multiply convert broadcast_in_dim multiply compare select divide convert reshape -> tensor<2x3x3x3x3xbf16>
        avg_pool3d_backward: convert convert broadcast_in_dim convert broadcast_in_dim multiply convert broadcast_in_dim multiply compare select divide pad slice slice add pad slice slice add pad slice slice add convert -> tensor<3x5x5x5xbf16>
        _adaptive_avg_pool2d: convert reshape reduce add slice slice add slice add compare select divide convert reshape -> tensor<2x3x3x2xf16>
        _adaptive_avg_pool2d_backward: compare select divide gather gather broadcast_in_dim select add broadcast_in_dim reshape -> tensor<3x5x5xf32>
        _adaptive_avg_pool3d: reshape reduce add compare select divide reshape -> tensor<2x3x1x1x1xf32>
        _adaptive_avg_pool3d_backward: compare select divide broadcast_in_dim reshape -> tensor<3x5x5x5xf32>
        adaptive_max_pool2d: reshape iota reshape broadcast_in_dim reshape reshape reduce compare compare compare and or compare compare not not or and or select select gather reshape gather reshape reshape broadcast_in_dim broadcast_in_dim broadcast_in_dim select select reduce compare compare compare and or compare compare not not or and or select select convert reshape reshape -> tensor<2x3x3x2xf32> tensor<2x3x3x2xi64>
        adaptive_max_pool2d_backward: convert reshape reshape optimization_barrier scatter add reshape -> tensor<3x5x5xf32>
        adaptive_max_pool3d: reshape iota reshape broadcast_in_dim reshape reshape reduce compare compare compare and or compare compare not not or and or select select reshape reshape reduce compare compare compare and or compare compare not not or and or select select reshape reshape reduce compare compare compare and or compare compare not not or and or select select convert reshape reshape -> tensor<2x3x1x1x5xf32> tensor<2x3x1x1x5xi64>
        adaptive_max_pool3d_backward: convert reshape reshape optimization_barrier scatter add reshape -> tensor<3x5x5x5xf32>
        fractional_max_pool2d: reshape slice iota broadcast_in_dim convert add multiply multiply convert convert subtract compare select multiply broadcast_in_dim add slice iota broadcast_in_dim convert add multiply multiply convert convert subtract compare select multiply broadcast_in_dim add reshape broadcast_in_dim add reshape gather reshape compare compare or select select add reshape gather reshape compare compare or select select convert reshape reshape -> tensor<2x3x3x3xf32> tensor<2x3x3x3xi64>
        fractional_max_pool2d_backward: convert reshape reshape optimization_barrier scatter add reshape -> tensor<2x3x5x5xf32>
        fractional_max_pool3d: reshape slice iota broadcast_in_dim convert add multiply multiply convert convert subtract compare select multiply broadcast_in_dim add slice iota broadcast_in_dim convert add multiply multiply convert convert subtract compare select multiply broadcast_in_dim add slice iota broadcast_in_dim convert add multiply multiply convert convert subtract compare select multiply broadcast_in_dim add reshape broadcast_in_dim add reshape gather reshape compare compare or select select convert reshape reshape -> tensor<2x3x3x3x3xf32> tensor<2x3x3x3x3xi64>
        fractional_max_pool3d_backward: convert reshape reshape optimization_barrier scatter add reshape -> tensor<2x3x5x5x5xf32>
        max_unpool2d: compare compare or select reduce maximum convert reshape reshape optimization_barrier scatter reshape -> tensor<3x4x4xf32>; else RuntimeError: Found an invalid max index: {} (output volumes are of size 4x4)
        max_unpool3d: compare compare or select reduce maximum convert reshape reshape optimization_barrier scatter reshape -> tensor<3x4x4x4xf32>; else RuntimeError: Found an invalid max index: {} (output volumes are of size 4x4x4)
    "#]].assert_eq(&lines.concat());
}

#[test]
fn refusals_are_pytorchs() {
    let x: Dims = &[1, 3, 5, 5];
    let good: [Dims; 4] = [&[2], &[2], &[0], &[1]];
    let with = |i: usize, values: Dims| {
        let mut parameters = good;
        parameters[i] = values;
        max(F32, x, parameters, false)
    };
    let lines = [
        with(0, &[2, 2, 2, 2]),
        with(0, &[9]),
        with(1, &[0]),
        with(1, &[1, 1, 1]),
        with(2, &[2]),
        with(2, &[-1]),
        max(F32, &[5, 5], good, false),
        max(F32, &[3, 0, 5, 5], good, false),
        max(Bool, x, good, false),
        average("avg_pool2d", &[x], [&[2], &[2], &[0]], Some(0)),
        average("avg_pool3d", &[&[0, 1, 9]], [&[2], &[2], &[0]], None),
        line("_adaptive_avg_pool2d", &[T(F32, &[5, 5]), ints(&[2, 2])]),
        line("adaptive_max_pool2d", &[T(F32, &[5, 5]), ints(&[2, 2])]),
        line("_adaptive_avg_pool2d", &[T(I64, &[3, 5, 5]), ints(&[2, 2])]),
        line("adaptive_max_pool2d", &[T(F32, &[3, 0, 5]), ints(&[2, 2])]),
        line(
            "max_unpool2d",
            &[T(F32, &[3, 2, 2]), T(I32, &[3, 2, 2]), ints(&[4, 4])],
        ),
        line(
            "fractional_max_pool2d",
            &[T(F32, x), ints(&[2, 2]), ints(&[5, 3]), T(F32, &[1, 3, 2])],
        ),
    ];
    expect![[r#"
        max_pool2d_with_indices: Runtime: max_pool2d: kernel_size must either be a single int, or a tuple of two ints
        max_pool2d_with_indices: Runtime: Given input size: (3x5x5). Calculated output size: (3x-1x-1). Output size is too small
        max_pool2d_with_indices: Runtime: stride should not be zero
        max_pool2d_with_indices: Runtime: max_pool2d: stride must either be omitted, a single int, or a tuple of two ints
        max_pool2d_with_indices: Runtime: pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and dilation=1
        max_pool2d_with_indices: Runtime: pad must be non-negative, but got pad: -1
        max_pool2d_with_indices: Runtime: non-empty 3D or 4D (batch mode) tensor expected for input
        max_pool2d_with_indices: Runtime: Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:[3, 0, 5, 5]
        max_pool2d_with_indices: NotImplemented: "max_pool2d" not implemented for 'Bool'
        avg_pool2d: Runtime: divisor must be not zero
        avg_pool3d: Runtime: non-empty 4D or 5D (batch mode) tensor expected for input
        _adaptive_avg_pool2d: Runtime: adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got [5, 5]
        adaptive_max_pool2d: Runtime: adaptive_max_pool2d(): Expected 3D or 4D tensor, but got: [5, 5]
        _adaptive_avg_pool2d: NotImplemented: "adaptive_avg_pool2d" not implemented for 'Long'
        adaptive_max_pool2d: Runtime: adaptive_max_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes [3, 0, 5] with dimension 1 being empty
        max_unpool2d: Runtime: elements in indices should be type int64 but got: Int
        fractional_max_pool2d: Runtime: fractional_max_pool2d(): pool height 2 too large relative to input height 5
    "#]].assert_eq(&lines.concat());
}
