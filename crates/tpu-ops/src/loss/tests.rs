use super::OPS;
use crate::{
    Arg,
    golden::{
        Given::{self, A},
        T, hlo, line, sketches,
    },
};
use expect_test::expect;
use tpu_hlo::{DType::*, Number};

#[test]
fn rows_of_f32() {
    expect![[r#"
        binary_cross_entropy: compare compare and not reduce or select compare compare and not reduce or select subtract negate log_plus_one maximum multiply log maximum multiply subtract reduce add compare select divide -> tensor<f32>
        binary_cross_entropy_backward: multiply subtract subtract multiply maximum divide multiply -> tensor<2x4xf32>
        binary_cross_entropy_with_logits: subtract multiply abs negate exponential log_plus_one negate maximum add add reduce add compare select divide -> tensor<f32>
        _ctc_loss: Runtime: ctc_loss: log_probs must have 3 dimensions
        _ctc_loss.Tensor: Runtime: ctc_loss: log_probs must have 3 dimensions
        _ctc_loss_backward: Runtime: ctc_loss: log_probs must have 3 dimensions
        _ctc_loss_backward.Tensor: Runtime: ctc_loss: log_probs must have 3 dimensions
        huber_loss: subtract abs broadcast_in_dim compare multiply multiply multiply broadcast_in_dim subtract broadcast_in_dim multiply select reduce add compare select divide -> tensor<f32>
        huber_loss_backward: multiply subtract negate broadcast_in_dim maximum broadcast_in_dim minimum multiply -> tensor<2x4xf32>
        mse_loss: subtract multiply reduce add compare select divide -> tensor<f32>
        mse_loss_backward: multiply subtract multiply multiply -> tensor<2x4xf32>
        multi_margin_loss: Runtime: multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target size [2], but got [2, 4]. Input has shape [2, 4].
        multi_margin_loss_backward: Runtime: multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target size [2], but got [2, 4]. Input has shape [2, 4].
        multilabel_margin_loss_backward: Runtime: `stablehlo.reshape` cannot take tensor<2x4xf32> with [2, 1]
        multilabel_margin_loss_forward: convert compare compare or select reduce maximum iota compare select reduce minimum broadcast_in_dim compare broadcast_in_dim broadcast_in_dim iota compare and reduce or broadcast_in_dim select reduce add broadcast_in_dim broadcast_in_dim not and subtract add maximum select reduce add divide convert reduce add compare select divide -> tensor<f32> tensor<2x4xf32>
        nll_loss2d_backward: Runtime: only batches of spatial targets supported (3D tensors) but got targets of dimension: 2
        nll_loss2d_forward: Runtime: only batches of spatial targets supported (3D tensors) but got targets of dimension: 2
        nll_loss_backward: Runtime: 0D or 1D target tensor expected, multi-target not supported
        nll_loss_forward: Runtime: 0D or 1D target tensor expected, multi-target not supported
        smooth_l1_loss: subtract abs broadcast_in_dim compare multiply multiply broadcast_in_dim divide multiply broadcast_in_dim subtract select reduce add compare select divide -> tensor<f32>
        smooth_l1_loss_backward: multiply subtract broadcast_in_dim compare broadcast_in_dim divide select negate broadcast_in_dim compare select multiply -> tensor<2x4xf32>
        soft_margin_loss: negate multiply exponential log_plus_one reduce add compare select divide -> tensor<f32>
        soft_margin_loss_backward: multiply negate negate multiply logistic multiply multiply -> tensor<2x4xf32>
    "#]].assert_eq(&sketches(OPS, F32));
}

fn ints(values: &[i64]) -> Vec<Arg> {
    values
        .iter()
        .map(|i| Arg::Number(Number::Int(*i)))
        .collect()
}

#[test]
fn likelihoods_are_gathered_and_spread() {
    let rest = [&[Arg::None][..], &ints(&[1, -100])].concat();
    let tensors = [T(BF16, &[2, 5]), T(I64, &[2])];
    expect![[r#"
        module {
          func.func public @main(%p0: tensor<2x5xbf16>, %p1: tensor<2xi64>) -> (tensor<bf16>, tensor<bf16>) {
            %2 = "stablehlo.reshape"(%p1) : (tensor<2xi64>) -> tensor<2x1xi64>
            %3 = "stablehlo.constant"() <{value = dense<-100> : tensor<2x1xi64>}> : () -> tensor<2x1xi64>
            %4 = "stablehlo.compare"(%2, %3) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2x1xi64>, tensor<2x1xi64>) -> tensor<2x1xi1>
            %5 = "stablehlo.constant"() <{value = dense<0> : tensor<2x1xi64>}> : () -> tensor<2x1xi64>
            %6 = "stablehlo.constant"() <{value = dense<5> : tensor<2x1xi64>}> : () -> tensor<2x1xi64>
            %7 = "stablehlo.compare"(%2, %5) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2x1xi64>, tensor<2x1xi64>) -> tensor<2x1xi1>
            %8 = "stablehlo.compare"(%2, %6) <{comparison_direction = #stablehlo<comparison_direction GE>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<2x1xi64>, tensor<2x1xi64>) -> tensor<2x1xi1>
            %9 = "stablehlo.or"(%7, %8) : (tensor<2x1xi1>, tensor<2x1xi1>) -> tensor<2x1xi1>
            %10 = "stablehlo.and"(%9, %4) : (tensor<2x1xi1>, tensor<2x1xi1>) -> tensor<2x1xi1>
            %11 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<2x1xi64>}> : () -> tensor<2x1xi64>
            %12 = "stablehlo.select"(%10, %2, %11) : (tensor<2x1xi1>, tensor<2x1xi64>, tensor<2x1xi64>) -> tensor<2x1xi64>
            %13 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<i64>}> : () -> tensor<i64>
            %17 = "stablehlo.reduce"(%12, %13) <{dimensions = array<i64: 0, 1>}> ({
              ^bb0(%14: tensor<i64>, %15: tensor<i64>):
              %16 = "stablehlo.maximum"(%14, %15) : (tensor<i64>, tensor<i64>) -> tensor<i64>
              "stablehlo.return"(%16) : (tensor<i64>) -> ()
            }) : (tensor<2x1xi64>, tensor<i64>) -> tensor<i64>
            %18 = "stablehlo.constant"() <{value = dense<0> : tensor<2x1xi64>}> : () -> tensor<2x1xi64>
            %19 = "stablehlo.select"(%4, %2, %18) : (tensor<2x1xi1>, tensor<2x1xi64>, tensor<2x1xi64>) -> tensor<2x1xi64>
            %20 = "stablehlo.convert"(%4) : (tensor<2x1xi1>) -> tensor<2x1xf32>
            %21 = "stablehlo.convert"(%19) : (tensor<2x1xi64>) -> tensor<2x1xi32>
            %22 = "stablehlo.reshape"(%21) : (tensor<2x1xi32>) -> tensor<2x1x1xi32>
            %23 = "stablehlo.gather"(%p0, %22) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<2x5xbf16>, tensor<2x1x1xi32>) -> tensor<2x1xbf16>
            %24 = "stablehlo.convert"(%23) : (tensor<2x1xbf16>) -> tensor<2x1xf32>
            %25 = "stablehlo.negate"(%24) : (tensor<2x1xf32>) -> tensor<2x1xf32>
            %26 = "stablehlo.multiply"(%25, %20) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
            %27 = "stablehlo.constant"() <{value = dense<0.0> : tensor<2x1xf32>}> : () -> tensor<2x1xf32>
            %28 = "stablehlo.select"(%4, %26, %27) : (tensor<2x1xi1>, tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
            %29 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %33 = "stablehlo.reduce"(%20, %29) <{dimensions = array<i64: 0, 1>}> ({
              ^bb0(%30: tensor<f32>, %31: tensor<f32>):
              %32 = "stablehlo.add"(%30, %31) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%32) : (tensor<f32>) -> ()
            }) : (tensor<2x1xf32>, tensor<f32>) -> tensor<f32>
            %34 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %38 = "stablehlo.reduce"(%28, %34) <{dimensions = array<i64: 0, 1>}> ({
              ^bb0(%35: tensor<f32>, %36: tensor<f32>):
              %37 = "stablehlo.add"(%35, %36) : (tensor<f32>, tensor<f32>) -> tensor<f32>
              "stablehlo.return"(%37) : (tensor<f32>) -> ()
            }) : (tensor<2x1xf32>, tensor<f32>) -> tensor<f32>
            %39 = "stablehlo.divide"(%38, %33) : (tensor<f32>, tensor<f32>) -> tensor<f32>
            %40 = "stablehlo.convert"(%39) : (tensor<f32>) -> tensor<bf16>
            %41 = "stablehlo.convert"(%33) : (tensor<f32>) -> tensor<bf16>
            return %40, %41 : tensor<bf16>, tensor<bf16>
          }
        }
    "#]].assert_eq(&hlo("nll_loss_forward", &tensors, &rest));
}

#[test]
fn refusals_have_pytorchs_words() {
    let rest = [&[Arg::None][..], &ints(&[1, -100])].concat();
    let texts = [
        hlo("nll_loss_forward", &[T(F32, &[2, 5]), T(I64, &[3])], &rest),
        hlo("nll_loss_forward", &[T(F32, &[2, 5]), T(I32, &[2])], &rest),
        hlo(
            "nll_loss2d_forward",
            &[T(F32, &[2, 5, 3, 3]), T(I64, &[2, 3])],
            &rest,
        ),
        hlo("mse_loss", &[T(I64, &[2]), T(I64, &[2])], &ints(&[1])),
    ];
    expect![[r#"
        Runtime: size mismatch (got input: [2, 5], target: [3])
        Runtime: expected target dtype to be Long or Byte, but got Int
        Runtime: only batches of spatial targets supported (3D tensors) but got targets of dimension: 2
        NotImplemented: "mse" not implemented for 'Long'
    "#]].assert_eq(&texts.concat());
}

fn ctc(name: &str, first: Vec<Given>, targets: Given, rest: Vec<Given>) -> String {
    let mut given = first;
    given.push(Given::T(F32, &[5, 2, 4]));
    given.push(targets);
    given.extend([Given::T(I64, &[2]), Given::T(I64, &[2])]);
    given.extend(rest);
    line(name, &given)
}

#[test]
fn lengths_of_sequences_may_be_tensors() {
    let plain = || {
        let zero_infinity = A(Arg::Number(Number::Bool(false)));
        vec![A(Arg::Number(Number::Int(0))), zero_infinity]
    };
    let counted = || {
        let mut all = plain();
        all.push(A(Arg::Number(Number::Int(3))));
        all
    };
    let mut saved = vec![Given::T(F32, &[2]), Given::T(F32, &[2, 5, 7])];
    saved.extend(plain());
    let lines = [
        ctc(
            "_ctc_loss.Tensor",
            vec![],
            Given::T(I64, &[2, 3]),
            counted(),
        ),
        ctc("_ctc_loss.Tensor", vec![], Given::T(I64, &[4]), counted()),
        ctc(
            "_ctc_loss.Tensor",
            vec![],
            Given::T(I64, &[2, 2]),
            counted(),
        ),
        ctc(
            "_ctc_loss_backward.Tensor",
            vec![Given::T(F32, &[2])],
            Given::T(I64, &[2, 3]),
            saved,
        ),
    ];
    expect![[r#"
        _ctc_loss.Tensor: compare compare or select reduce maximum compare compare or select reduce maximum convert convert convert pad reshape multiply reshape pad iota remainder compare compare and compare and broadcast_in_dim reshape gather convert compare compare or select reduce maximum dynamic_slice reshape iota broadcast_in_dim compare compare and select reshape dynamic_update_slice while compare dynamic_slice reshape pad pad select maximum maximum compare select subtract exponential subtract exponential add subtract exponential add log add add reshape dynamic_update_slice add iota iota broadcast_in_dim broadcast_in_dim compare subtract compare or subtract compare and select reduce maximum compare select broadcast_in_dim subtract exponential reduce add reshape reshape log add negate compare compare and select transpose -> tensor<2xf32> tensor<2x5x7xf32>; else RuntimeError: Expected input_lengths to have value at least 0 and at most 5, but got value {} (while checking arguments for ctc_loss); else RuntimeError: Expected target_lengths to have value at least 0, but got value {} (while checking arguments for ctc_loss); else RuntimeError: ctc_loss: target {} is not a class
        _ctc_loss.Tensor: compare compare or select reduce maximum compare compare or select reduce maximum convert convert convert reduce_window add slice convert compare compare or select reduce maximum iota broadcast_in_dim broadcast_in_dim subtract add maximum minimum gather compare select pad reshape multiply reshape pad iota remainder compare compare and compare and broadcast_in_dim reshape gather convert compare compare or select reduce maximum dynamic_slice reshape iota broadcast_in_dim compare compare and select reshape dynamic_update_slice while compare dynamic_slice reshape pad pad select maximum maximum compare select subtract exponential subtract exponential add subtract exponential add log add add reshape dynamic_update_slice add iota iota broadcast_in_dim broadcast_in_dim compare subtract compare or subtract compare and select reduce maximum compare select broadcast_in_dim subtract exponential reduce add reshape reshape log add negate compare compare and select transpose -> tensor<2xf32> tensor<2x5x7xf32>; else RuntimeError: Expected input_lengths to have value at least 0 and at most 5, but got value {} (while checking arguments for ctc_loss); else RuntimeError: Expected target_lengths to have value at least 0, but got value {} (while checking arguments for ctc_loss); else RuntimeError: Expected tensor to have {} labels, but got 4 (while checking arguments for ctc_loss); else RuntimeError: ctc_loss: target {} is not a class
        _ctc_loss.Tensor: Runtime: Expected tensor to have size at least 3 at dimension 1, but got size [2, 2] (while checking arguments for ctc_loss)
        _ctc_loss_backward.Tensor: compare compare or select reduce maximum compare compare or select reduce maximum convert convert convert pad reshape multiply reshape pad iota remainder compare compare and compare and broadcast_in_dim reshape gather transpose iota broadcast_in_dim broadcast_in_dim pad while compare dynamic_slice reshape pad pad select maximum maximum compare select subtract exponential subtract exponential add subtract exponential add log add add compare subtract compare or select compare select add broadcast_in_dim compare select broadcast_in_dim compare select reshape dynamic_update_slice subtract iota broadcast_in_dim compare add select reduce maximum compare select broadcast_in_dim subtract exponential broadcast_in_dim iota compare convert dot_general transpose broadcast_in_dim broadcast_in_dim broadcast_in_dim iota broadcast_in_dim exponential add subtract exponential multiply subtract multiply compare select compare -> tensor<5x2x4xf32>; else RuntimeError: Expected input_lengths to have value at least 0 and at most 5, but got value {} (while checking arguments for ctc_loss); else RuntimeError: Expected target_lengths to have value at least 0, but got value {} (while checking arguments for ctc_loss)
    "#]].assert_eq(&lines.concat());
}
