use crate::{Arg, golden::hlo_with};
use expect_test::expect;
use tpu_hlo::{
    Builder,
    DType::{self, *},
    Number, Slot, Type,
};

fn list(b: &mut Builder, slot: u32, dtype: DType, dims: &[i64]) -> Arg {
    Arg::Tensors(vec![Some(
        b.param(Slot::Buffer(slot), Type::new(dtype, dims)),
    )])
}

fn numbers(b: &mut Builder, count: u32) -> Vec<Arg> {
    (0..count).map(|n| Arg::Scalar(b.number(n, F64))).collect()
}

const FLAG: Arg = Arg::Number(Number::Bool(false));

#[test]
fn adamw_is_one_program_without_constants_of_the_step() {
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x3xf32>, %p1: tensor<2x3xf32>, %p2: tensor<2x3xf32>, %p3: tensor<2x3xf32>, %p4: tensor<f32>, %p5: tensor<f64>, %p6: tensor<f64>, %p7: tensor<f64>, %p8: tensor<f64>, %p27: tensor<f32>, %p29: tensor<f32>, %p35: tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
            %10 = "stablehlo.constant"() <{value = dense<1.0> : tensor<f64>}> : () -> tensor<f64>
            %11 = "stablehlo.subtract"(%10, %p6) : (tensor<f64>, tensor<f64>) -> tensor<f64>
            %12 = "stablehlo.constant"() <{value = dense<1.0> : tensor<f64>}> : () -> tensor<f64>
            %13 = "stablehlo.subtract"(%12, %p7) : (tensor<f64>, tensor<f64>) -> tensor<f64>
            %14 = "stablehlo.convert"(%p4) : (tensor<f32>) -> tensor<f64>
            %15 = "stablehlo.power"(%p6, %14) : (tensor<f64>, tensor<f64>) -> tensor<f64>
            %16 = "stablehlo.constant"() <{value = dense<1.0> : tensor<f64>}> : () -> tensor<f64>
            %17 = "stablehlo.subtract"(%16, %15) : (tensor<f64>, tensor<f64>) -> tensor<f64>
            %18 = "stablehlo.divide"(%p5, %17) : (tensor<f64>, tensor<f64>) -> tensor<f64>
            %19 = "stablehlo.convert"(%p4) : (tensor<f32>) -> tensor<f64>
            %20 = "stablehlo.power"(%p7, %19) : (tensor<f64>, tensor<f64>) -> tensor<f64>
            %21 = "stablehlo.constant"() <{value = dense<1.0> : tensor<f64>}> : () -> tensor<f64>
            %22 = "stablehlo.subtract"(%21, %20) : (tensor<f64>, tensor<f64>) -> tensor<f64>
            %23 = "stablehlo.sqrt"(%22) : (tensor<f64>) -> tensor<f64>
            %24 = "stablehlo.multiply"(%p5, %p8) : (tensor<f64>, tensor<f64>) -> tensor<f64>
            %25 = "stablehlo.constant"() <{value = dense<1.0> : tensor<f64>}> : () -> tensor<f64>
            %26 = "stablehlo.subtract"(%25, %24) : (tensor<f64>, tensor<f64>) -> tensor<f64>
            %28 = "stablehlo.convert"(%11) : (tensor<f64>) -> tensor<f32>
            %30 = "stablehlo.convert"(%13) : (tensor<f64>) -> tensor<f32>
            %31 = "stablehlo.convert"(%18) : (tensor<f64>) -> tensor<f32>
            %32 = "stablehlo.convert"(%23) : (tensor<f64>) -> tensor<f32>
            %33 = "stablehlo.convert"(%26) : (tensor<f64>) -> tensor<f32>
            %36 = "stablehlo.broadcast_in_dim"(%33) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
            %37 = "stablehlo.multiply"(%p0, %36) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %38 = "stablehlo.broadcast_in_dim"(%p27) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
            %39 = "stablehlo.multiply"(%38, %p2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %40 = "stablehlo.broadcast_in_dim"(%28) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
            %41 = "stablehlo.multiply"(%40, %p1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %42 = "stablehlo.add"(%39, %41) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %43 = "stablehlo.broadcast_in_dim"(%p29) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
            %44 = "stablehlo.multiply"(%43, %p3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %45 = "stablehlo.broadcast_in_dim"(%30) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
            %46 = "stablehlo.multiply"(%45, %p1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %47 = "stablehlo.multiply"(%46, %p1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %48 = "stablehlo.add"(%44, %47) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %49 = "stablehlo.broadcast_in_dim"(%31) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
            %50 = "stablehlo.multiply"(%49, %42) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %51 = "stablehlo.sqrt"(%48) : (tensor<2x3xf32>) -> tensor<2x3xf32>
            %52 = "stablehlo.broadcast_in_dim"(%32) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
            %53 = "stablehlo.divide"(%51, %52) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %54 = "stablehlo.broadcast_in_dim"(%p35) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3xf32>
            %55 = "stablehlo.add"(%53, %54) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %56 = "stablehlo.divide"(%50, %55) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            %57 = "stablehlo.subtract"(%37, %56) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
            return %57, %p1, %42, %48 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
          }
        }
    "#]].assert_eq(&hlo_with("_fused_adamw", |b| {
        let mut args: Vec<Arg> = (0..4).map(|i| list(b, i, F32, &[2, 3])).collect();
        args.push(Arg::Tensors(vec![]));
        args.push(list(b, 4, F32, &[]));
        args.extend(numbers(b, 5));
        args.extend([FLAG, FLAG, Arg::None, Arg::None]);
        args
    }));
}

#[test]
fn a_step_of_sgd_is_kept_back_when_a_gradient_is_infinite() {
    let text = hlo_with("_fused_sgd", |b| {
        let mut args: Vec<Arg> = (0..2).map(|i| list(b, i, BF16, &[2])).collect();
        args.push(Arg::Tensors(vec![]));
        args.extend(numbers(b, 4));
        args.extend([FLAG, FLAG, FLAG, Arg::None]);
        args.push(Arg::Tensor(b.param(Slot::Buffer(2), Type::scalar(F32))));
        args
    });
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2xbf16>, %p1: tensor<2xbf16>, %p6: tensor<f32>, %p10: tensor<f32>, %p12: tensor<f32>) -> (tensor<2xbf16>, tensor<2xbf16>) {
            %7 = "stablehlo.convert"(%p1) : (tensor<2xbf16>) -> tensor<2xf32>
            %8 = "stablehlo.convert"(%p0) : (tensor<2xbf16>) -> tensor<2xf32>
            %9 = "stablehlo.convert"(%p0) : (tensor<2xbf16>) -> tensor<2xf32>
            %14 = "stablehlo.broadcast_in_dim"(%p10) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2xf32>
            %15 = "stablehlo.multiply"(%8, %14) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            %16 = "stablehlo.add"(%7, %15) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            %17 = "stablehlo.broadcast_in_dim"(%p12) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2xf32>
            %18 = "stablehlo.multiply"(%17, %16) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            %19 = "stablehlo.subtract"(%8, %18) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
            %20 = "stablehlo.convert"(%19) : (tensor<2xf32>) -> tensor<2xbf16>
            %21 = "stablehlo.constant"() <{value = dense<1.0> : tensor<f32>}> : () -> tensor<f32>
            %22 = "stablehlo.compare"(%p6, %21) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %23 = "stablehlo.select"(%22, %p0, %20) : (tensor<i1>, tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xbf16>
            return %23, %p1 : tensor<2xbf16>, tensor<2xbf16>
          }
        }
    "#]].assert_eq(&text);
}
