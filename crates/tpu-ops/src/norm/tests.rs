use crate::Arg;
use crate::golden::{
    Given::{self, A, Launch, T},
    NONE, hlo_with, line,
};
use expect_test::expect;
use tpu_hlo::{DType, DType::*, Number, Slot, Type};

fn int(x: i64) -> Given {
    A(Arg::Number(Number::Int(x)))
}

fn ints(x: &[i64]) -> Given {
    A(Arg::Ints(x.into()))
}

fn flag(x: bool) -> Given {
    A(Arg::Number(Number::Bool(x)))
}

fn number() -> Given {
    Launch(Number::Float(0.1))
}

fn mask(x: &[bool]) -> Given {
    A(Arg::Bools(x.into()))
}

#[test]
fn layer_norm_rounds_once() {
    let text = hlo_with("native_layer_norm", |b| {
        let x = b.param(Slot::Buffer(0), Type::new(BF16, &[2, 3, 4]));
        let weight = b.param(Slot::Buffer(1), Type::new(F32, &[4]));
        let eps = b.number(0, F64);
        let shape = Arg::Ints([4].as_slice().into());
        vec![
            Arg::Tensor(x),
            shape,
            Arg::Tensor(weight),
            Arg::None,
            Arg::Scalar(eps),
        ]
    });
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3x4xbf16>, %p1: tensor<4xf32>, %p21: tensor<f32>) -> (tensor<2x3x4xbf16>, tensor<2x3x1xf32>, tensor<2x3x1xf32>) {
            %3 = "stablehlo.convert"(%p0) : (tensor<2x3x4xbf16>) -> tensor<2x3x4xf32>
            %4 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %8 = "stablehlo.reduce"(%3, %4) <{dimensions = array<i64: 2>}> ({
              ^bb0(%5: tensor<f32>, %6: tensor<f32>):
              %7 = "stablehlo.add"(%5, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%7) : (tensor<f32>) -> ()
            }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3xf32>
            %9 = "stablehlo.constant"() <{value = dense<4.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
            %10 = "stablehlo.divide"(%8, %9) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %11 = "stablehlo.broadcast_in_dim"(%10) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x3xf32>) -> tensor<2x3x4xf32>
            %12 = "stablehlo.subtract"(%3, %11) : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
            %13 = "stablehlo.multiply"(%12, %12) : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
            %14 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %18 = "stablehlo.reduce"(%13, %14) <{dimensions = array<i64: 2>}> ({
              ^bb0(%15: tensor<f32>, %16: tensor<f32>):
              %17 = "stablehlo.add"(%15, %16) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%17) : (tensor<f32>) -> ()
            }) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3xf32>
            %19 = "stablehlo.constant"() <{value = dense<4.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
            %20 = "stablehlo.divide"(%18, %19) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %22 = "stablehlo.broadcast_in_dim"(%p21) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
            %23 = "stablehlo.add"(%20, %22) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %24 = "stablehlo.rsqrt"(%23) : (tensor<2x3xf32>) -> tensor<2x3xf32>
            %25 = "stablehlo.broadcast_in_dim"(%24) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x3xf32>) -> tensor<2x3x4xf32>
            %26 = "stablehlo.multiply"(%12, %25) : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
            %27 = "stablehlo.broadcast_in_dim"(%p1) <{broadcast_dimensions = array<i64: 2>}> : (tensor<4xf32>) -> tensor<2x3x4xf32>
            %28 = "stablehlo.multiply"(%26, %27) : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
            %29 = "stablehlo.convert"(%28) : (tensor<2x3x4xf32>) -> tensor<2x3x4xbf16>
            %30 = "stablehlo.reshape"(%10) : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
            %31 = "stablehlo.reshape"(%24) : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
            return %29, %30, %31 : tensor<2x3x4xbf16>, tensor<2x3x1xf32>, tensor<2x3x1xf32>
          }
        }
    "#]].assert_eq(&text);
}

#[test]
fn running_statistics_follow_the_results() {
    let text = hlo_with("native_batch_norm", |b| {
        let mut tensor =
            |slot, d: &[i64]| Arg::Tensor(b.param(Slot::Buffer(slot), Type::new(F32, d)));
        let (x, mean, var) = (tensor(0, &[8, 3]), tensor(1, &[3]), tensor(2, &[3]));
        let (momentum, eps) = (Arg::Scalar(b.number(0, F64)), Arg::Scalar(b.number(1, F64)));
        let training = Arg::Number(Number::Bool(true));
        vec![x, Arg::None, Arg::None, mean, var, training, momentum, eps]
    });
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<8x3xf32>, %p1: tensor<3xf32>, %p2: tensor<3xf32>, %p22: tensor<f32>, %p32: tensor<f32>) -> (tensor<8x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
            %5 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %9 = "stablehlo.reduce"(%p0, %5) <{dimensions = array<i64: 0>}> ({
              ^bb0(%6: tensor<f32>, %7: tensor<f32>):
              %8 = "stablehlo.add"(%6, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%8) : (tensor<f32>) -> ()
            }) : (tensor<8x3xf32>, tensor<f32>) -> tensor<3xf32>
            %10 = "stablehlo.constant"() <{value = dense<8.0> : tensor<3xf32>}> : () -> tensor<3xf32>
            %11 = "stablehlo.divide"(%9, %10) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %12 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<8x3xf32>
            %13 = "stablehlo.subtract"(%p0, %12) : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
            %14 = "stablehlo.multiply"(%13, %13) : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
            %15 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %19 = "stablehlo.reduce"(%14, %15) <{dimensions = array<i64: 0>}> ({
              ^bb0(%16: tensor<f32>, %17: tensor<f32>):
              %18 = "stablehlo.add"(%16, %17) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%18) : (tensor<f32>) -> ()
            }) : (tensor<8x3xf32>, tensor<f32>) -> tensor<3xf32>
            %20 = "stablehlo.constant"() <{value = dense<8.0> : tensor<3xf32>}> : () -> tensor<3xf32>
            %21 = "stablehlo.divide"(%19, %20) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %23 = "stablehlo.broadcast_in_dim"(%p22) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3xf32>
            %24 = "stablehlo.add"(%21, %23) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %25 = "stablehlo.rsqrt"(%24) : (tensor<3xf32>) -> tensor<3xf32>
            %26 = "stablehlo.broadcast_in_dim"(%11) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<8x3xf32>
            %27 = "stablehlo.subtract"(%p0, %26) : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
            %28 = "stablehlo.broadcast_in_dim"(%25) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<8x3xf32>
            %29 = "stablehlo.multiply"(%27, %28) : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
            %30 = "stablehlo.constant"() <{value = dense<1.1428571428571428> : tensor<3xf32>}> : () -> tensor<3xf32>
            %31 = "stablehlo.multiply"(%21, %30) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %33 = "stablehlo.broadcast_in_dim"(%p32) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3xf32>
            %34 = "stablehlo.constant"() <{value = dense<1.0> : tensor<3xf32>}> : () -> tensor<3xf32>
            %35 = "stablehlo.subtract"(%34, %33) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %36 = "stablehlo.multiply"(%p1, %35) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %37 = "stablehlo.multiply"(%11, %33) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %38 = "stablehlo.add"(%36, %37) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %39 = "stablehlo.broadcast_in_dim"(%p32) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3xf32>
            %40 = "stablehlo.constant"() <{value = dense<1.0> : tensor<3xf32>}> : () -> tensor<3xf32>
            %41 = "stablehlo.subtract"(%40, %39) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %42 = "stablehlo.multiply"(%p2, %41) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %43 = "stablehlo.multiply"(%31, %39) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            %44 = "stablehlo.add"(%42, %43) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            return %29, %11, %25, %38, %44 : tensor<8x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
          }
        }
    "#]].assert_eq(&text);
}

/// A batch norm row: input, weight, bias and running statistics of `C = 3`, then `rest`.
fn batch(name: &str, dtype: DType, rest: impl IntoIterator<Item = Given>) -> String {
    let c = || T(F32, &[3]);
    let mut given = vec![T(dtype, &[2, 3, 4]), c(), c(), c(), c()];
    given.extend(rest);
    line(name, &given)
}

#[test]
fn batch_norm_rows() {
    let c = || T(F32, &[3]);
    let x = || T(F16, &[2, 3, 4]);
    let lines = [
        batch("native_batch_norm", BF16, [flag(true), number(), number()]),
        batch("native_batch_norm", BF16, [flag(false), number(), number()]),
        batch(
            "_native_batch_norm_legit_functional",
            F32,
            [flag(true), number(), number()],
        ),
        batch(
            "_native_batch_norm_legit_functional",
            F32,
            [flag(false), number(), number()],
        ),
        batch(
            "_native_batch_norm_legit_no_training",
            F32,
            [number(), number()],
        ),
        batch(
            "_batch_norm_with_update_functional",
            F32,
            [number(), number()],
        ),
        batch("_batch_norm_no_update", F32, [number(), number()]),
        line(
            "_native_batch_norm_legit.no_stats",
            &[x(), NONE, NONE, flag(true), number(), number()],
        ),
        line(
            "native_batch_norm_backward",
            &[
                x(),
                x(),
                c(),
                NONE,
                NONE,
                c(),
                c(),
                flag(true),
                number(),
                mask(&[true, false, true]),
            ],
        ),
        line(
            "native_batch_norm_backward",
            &[
                x(),
                x(),
                NONE,
                c(),
                c(),
                NONE,
                NONE,
                flag(false),
                number(),
                mask(&[true, true, false]),
            ],
        ),
        line(
            "batch_norm_backward",
            &[
                x(),
                x(),
                c(),
                c(),
                c(),
                c(),
                c(),
                flag(true),
                number(),
                mask(&[false, true, true]),
                T(U8, &[0]),
            ],
        ),
        line("batch_norm_stats", &[x(), number()]),
        line("batch_norm_update_stats", &[x(), c(), c(), number()]),
        line("batch_norm_elemt", &[x(), NONE, c(), c(), c(), number()]),
        line(
            "batch_norm_gather_stats",
            &[
                x(),
                T(F32, &[2, 3]),
                T(F32, &[2, 3]),
                NONE,
                NONE,
                number(),
                number(),
                Launch(Number::Int(8)),
            ],
        ),
        line(
            "batch_norm_gather_stats_with_counts",
            &[
                x(),
                T(F32, &[2, 3]),
                T(F32, &[2, 3]),
                c(),
                c(),
                number(),
                number(),
                T(F32, &[2]),
            ],
        ),
        line(
            "batch_norm_backward_reduce",
            &[
                x(),
                x(),
                c(),
                c(),
                NONE,
                flag(true),
                flag(false),
                flag(true),
            ],
        ),
        line(
            "batch_norm_backward_elemt",
            &[x(), x(), c(), c(), c(), c(), c(), T(I32, &[2])],
        ),
    ];
    expect![[r#"
        native_batch_norm: convert reduce add divide broadcast_in_dim subtract multiply reduce add divide broadcast_in_dim add rsqrt convert broadcast_in_dim subtract broadcast_in_dim multiply broadcast_in_dim multiply broadcast_in_dim add convert multiply broadcast_in_dim subtract multiply multiply add broadcast_in_dim subtract multiply multiply add -> tensor<2x3x4xbf16> tensor<3xf32> tensor<3xf32> tensor<3xf32> tensor<3xf32>
        native_batch_norm: broadcast_in_dim add rsqrt convert broadcast_in_dim subtract broadcast_in_dim multiply broadcast_in_dim multiply broadcast_in_dim add convert -> tensor<2x3x4xbf16> tensor<0xf32> tensor<0xf32> tensor<0xi1> tensor<0xi1>
        _native_batch_norm_legit_functional: reduce add divide broadcast_in_dim subtract multiply reduce add divide broadcast_in_dim add rsqrt broadcast_in_dim subtract broadcast_in_dim multiply broadcast_in_dim multiply broadcast_in_dim add multiply broadcast_in_dim subtract multiply multiply add broadcast_in_dim subtract multiply multiply add -> tensor<2x3x4xf32> tensor<3xf32> tensor<3xf32> tensor<3xf32> tensor<3xf32>
        _native_batch_norm_legit_functional: broadcast_in_dim add rsqrt broadcast_in_dim subtract broadcast_in_dim multiply broadcast_in_dim multiply broadcast_in_dim add -> tensor<2x3x4xf32> tensor<0xf32> tensor<0xf32> tensor<3xf32> tensor<3xf32>
        _native_batch_norm_legit_no_training: broadcast_in_dim add rsqrt broadcast_in_dim subtract broadcast_in_dim multiply broadcast_in_dim multiply broadcast_in_dim add -> tensor<2x3x4xf32> tensor<0xf32> tensor<0xf32>
        _batch_norm_with_update_functional: reduce add divide broadcast_in_dim subtract multiply reduce add divide broadcast_in_dim add rsqrt broadcast_in_dim subtract broadcast_in_dim multiply broadcast_in_dim multiply broadcast_in_dim add multiply broadcast_in_dim subtract multiply multiply add broadcast_in_dim subtract multiply multiply add -> tensor<2x3x4xf32> tensor<3xf32> tensor<3xf32> tensor<0xui8> tensor<3xf32> tensor<3xf32>
        _batch_norm_no_update: broadcast_in_dim add rsqrt broadcast_in_dim subtract broadcast_in_dim multiply broadcast_in_dim multiply broadcast_in_dim add -> tensor<2x3x4xf32> tensor<0xf32> tensor<0xf32> tensor<0xui8>
        _native_batch_norm_legit.no_stats: convert reduce add divide broadcast_in_dim subtract multiply reduce add divide broadcast_in_dim add rsqrt convert broadcast_in_dim subtract broadcast_in_dim multiply convert -> tensor<2x3x4xf16> tensor<3xf32> tensor<3xf32>
        native_batch_norm_backward: convert broadcast_in_dim subtract convert multiply reduce add reduce add convert broadcast_in_dim subtract convert broadcast_in_dim divide broadcast_in_dim multiply multiply divide broadcast_in_dim multiply subtract subtract broadcast_in_dim multiply broadcast_in_dim multiply convert -> tensor<2x3x4xf16> tensor<0xi1> tensor<3xf32>
        native_batch_norm_backward: broadcast_in_dim add rsqrt convert broadcast_in_dim subtract convert multiply reduce add reduce add convert broadcast_in_dim subtract convert broadcast_in_dim multiply convert multiply convert -> tensor<2x3x4xf16> tensor<3xf16> tensor<0xi1>
        batch_norm_backward: convert broadcast_in_dim subtract convert multiply reduce add reduce add multiply -> tensor<0xi1> tensor<3xf32> tensor<3xf32>
        batch_norm_stats: convert reduce add divide broadcast_in_dim subtract multiply reduce add divide broadcast_in_dim add rsqrt -> tensor<3xf32> tensor<3xf32>
        batch_norm_update_stats: convert reduce add divide broadcast_in_dim subtract multiply reduce add divide multiply broadcast_in_dim subtract multiply multiply add broadcast_in_dim subtract multiply multiply add -> tensor<3xf32> tensor<3xf32> tensor<3xf32> tensor<3xf32>
        batch_norm_elemt: convert broadcast_in_dim subtract broadcast_in_dim multiply broadcast_in_dim add convert -> tensor<2x3x4xf16>
        batch_norm_gather_stats: broadcast_in_dim reduce add broadcast_in_dim broadcast_in_dim multiply reduce add divide broadcast_in_dim subtract multiply multiply divide broadcast_in_dim subtract add broadcast_in_dim multiply reduce add divide broadcast_in_dim add rsqrt -> tensor<3xf32> tensor<3xf32>
        batch_norm_gather_stats_with_counts: reduce add broadcast_in_dim broadcast_in_dim multiply reduce add divide broadcast_in_dim subtract multiply multiply divide broadcast_in_dim subtract add broadcast_in_dim multiply reduce add divide broadcast_in_dim add rsqrt subtract divide broadcast_in_dim subtract multiply multiply add broadcast_in_dim subtract multiply multiply add -> tensor<3xf32> tensor<3xf32> tensor<3xf32> tensor<3xf32>
        batch_norm_backward_reduce: convert broadcast_in_dim subtract convert multiply reduce add reduce add -> tensor<3xf32> tensor<3xf32> tensor<0xi1> tensor<3xf32>
        batch_norm_backward_elemt: reduce add convert convert broadcast_in_dim subtract convert broadcast_in_dim divide broadcast_in_dim multiply multiply divide broadcast_in_dim multiply subtract subtract broadcast_in_dim multiply broadcast_in_dim multiply convert -> tensor<2x3x4xf16>
    "#]].assert_eq(&lines.concat());
}

#[test]
fn other_rows() {
    let x = || T(BF16, &[2, 3, 4]);
    let stat = || T(F32, &[2, 3, 1]);
    let w = || T(F32, &[4]);
    let lines = [
        line(
            "native_layer_norm_backward",
            &[
                x(),
                x(),
                ints(&[4]),
                stat(),
                stat(),
                w(),
                w(),
                mask(&[true, true, true]),
            ],
        ),
        line(
            "native_layer_norm_backward",
            &[
                x(),
                x(),
                ints(&[4]),
                stat(),
                stat(),
                NONE,
                NONE,
                mask(&[false, true, true]),
            ],
        ),
        line("_fused_rms_norm", &[x(), ints(&[3, 4]), NONE, NONE]),
        line(
            "_fused_rms_norm_backward",
            &[x(), x(), ints(&[4]), stat(), w(), mask(&[true, true])],
        ),
        line(
            "native_group_norm",
            &[
                T(F16, &[2, 4, 5]),
                T(F16, &[4]),
                NONE,
                int(2),
                int(4),
                int(5),
                int(2),
                number(),
            ],
        ),
        line(
            "native_group_norm_backward",
            &[
                T(F32, &[2, 4, 5]),
                T(F32, &[2, 4, 5]),
                T(F32, &[2, 2]),
                T(F32, &[2, 2]),
                T(F32, &[4]),
                int(2),
                int(4),
                int(5),
                int(2),
                mask(&[true, true, true]),
            ],
        ),
        line(
            "_weight_norm_interface",
            &[T(F32, &[4, 3]), T(F32, &[4, 1]), int(0)],
        ),
        line(
            "_weight_norm_interface_backward",
            &[
                T(F32, &[4, 3]),
                T(F32, &[4, 3]),
                T(F32, &[4, 1]),
                T(F32, &[4, 1]),
                int(0),
            ],
        ),
        line(
            "renorm",
            &[
                T(F32, &[4, 3]),
                A(Arg::Number(Number::Int(2))),
                int(-1),
                number(),
            ],
        ),
        line(
            "renorm",
            &[
                T(C64, &[4, 3]),
                A(Arg::Number(Number::Float(0.5))),
                int(0),
                number(),
            ],
        ),
    ];
    expect![[r#"
        native_layer_norm_backward: convert convert broadcast_in_dim broadcast_in_dim subtract multiply broadcast_in_dim multiply multiply reduce add divide broadcast_in_dim multiply reduce add divide broadcast_in_dim subtract subtract multiply convert multiply reduce add reduce add -> tensor<2x3x4xbf16> tensor<4xf32> tensor<4xf32>
        native_layer_norm_backward: convert convert broadcast_in_dim broadcast_in_dim subtract multiply -> tensor<0xi1> tensor<0xi1> tensor<0xi1>
        _fused_rms_norm: convert multiply reduce add divide broadcast_in_dim add rsqrt broadcast_in_dim multiply convert reshape -> tensor<2x3x4xbf16> tensor<2x1x1xf32>
        _fused_rms_norm_backward: convert convert broadcast_in_dim multiply broadcast_in_dim multiply multiply reduce add divide broadcast_in_dim multiply subtract multiply convert multiply reduce add -> tensor<2x3x4xbf16> tensor<4xf32>
        native_group_norm: convert reshape reduce add divide broadcast_in_dim subtract multiply reduce add divide broadcast_in_dim add rsqrt broadcast_in_dim multiply reshape convert broadcast_in_dim multiply reshape convert convert convert -> tensor<2x4x5xf16> tensor<2x2xf16> tensor<2x2xf16>
        native_group_norm_backward: reshape reshape broadcast_in_dim broadcast_in_dim subtract multiply reshape broadcast_in_dim multiply multiply reduce add divide broadcast_in_dim multiply reduce add divide broadcast_in_dim subtract subtract multiply reshape multiply reduce add reshape reduce add reshape -> tensor<2x4x5xf32> tensor<4xf32> tensor<4xf32>
        _weight_norm_interface: multiply reduce add sqrt reshape divide broadcast_in_dim multiply -> tensor<4x3xf32> tensor<4x1xf32>
        _weight_norm_interface_backward: multiply reduce add reshape divide multiply divide broadcast_in_dim divide broadcast_in_dim multiply subtract multiply -> tensor<4x3xf32> tensor<4x1xf32>
        renorm: multiply reduce add reshape sqrt broadcast_in_dim compare add divide select broadcast_in_dim multiply -> tensor<4x3xf32>
        renorm: abs power reduce add reshape power broadcast_in_dim compare add divide select convert broadcast_in_dim multiply -> tensor<4x3xcomplex<f32>>
    "#]].assert_eq(&lines.concat());
}

#[test]
fn refusals_are_pytorchs() {
    let x = || T(F32, &[2, 3, 4]);
    let lines = [
        line(
            "native_layer_norm",
            &[x(), ints(&[5]), NONE, NONE, number()],
        ),
        line("native_layer_norm", &[x(), ints(&[]), NONE, NONE, number()]),
        line(
            "native_layer_norm",
            &[x(), ints(&[4]), T(F32, &[3]), NONE, number()],
        ),
        line(
            "native_group_norm",
            &[x(), NONE, NONE, int(2), int(3), int(4), int(2), number()],
        ),
        line(
            "native_batch_norm",
            &[
                x(),
                T(F32, &[4]),
                NONE,
                NONE,
                NONE,
                flag(true),
                number(),
                number(),
            ],
        ),
        line(
            "native_batch_norm",
            &[x(), NONE, NONE, NONE, NONE, flag(false), number(), number()],
        ),
        line(
            "renorm",
            &[x(), A(Arg::Number(Number::Int(0))), int(0), number()],
        ),
        line(
            "renorm",
            &[
                T(F32, &[3]),
                A(Arg::Number(Number::Int(2))),
                int(0),
                number(),
            ],
        ),
    ];
    expect![[r#"
        native_layer_norm: Runtime: Given normalized_shape=[5], expected input with shape [*, 5], but got input of size[2, 3, 4]
        native_layer_norm: Runtime: Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []
        native_layer_norm: Runtime: Expected weight to be of same shape as normalized_shape, but got weight of shape [3] and normalized_shape = [4]
        native_group_norm: Runtime: Expected number of channels in input to be divisible by num_groups, but got input of shape [2, 3, 4] and num_groups=2
        native_batch_norm: Runtime: weight should contain 3 elements not 4
        native_batch_norm: Runtime: running_mean and running_var must be defined in evaluation mode
        renorm: Runtime: renorm: non-positive-norm not supported
        renorm: Runtime: renorm: input needs at least 2 dimensions, got 1 dimensions
    "#]].assert_eq(&lines.concat());
}
