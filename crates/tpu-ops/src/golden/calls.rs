//! A call of every row whose arguments have to fit each other.
use super::{Given, line};
use crate::Arg;
use tpu_hlo::DType::{self, Bool, F32, I32, I64};
use tpu_hlo::Number;

const NONE: Given = Given::A(Arg::None);
const NO: Given = Given::A(Arg::Number(Number::Bool(false)));
const YES: Given = Given::A(Arg::Number(Number::Bool(true)));

fn t(dims: &'static [i64]) -> Given {
    Given::T(F32, dims)
}

fn of(dtype: DType, dims: &'static [i64]) -> Given {
    Given::T(dtype, dims)
}

fn int(n: i64) -> Given {
    Given::A(Arg::Number(Number::Int(n)))
}

fn ints(n: &[i64]) -> Given {
    Given::A(Arg::Ints(n.into()))
}

fn number(x: f64) -> Given {
    Given::Launch(Number::Float(x))
}

fn text(s: &str) -> Given {
    Given::A(Arg::Str(s.into()))
}

fn list() -> Given {
    Given::List(vec![Some((F32, &[2, 4])), Some((F32, &[3]))])
}

#[rustfmt::skip]
fn dense() -> Vec<(&'static str, Vec<Given>)> {
    let matrix = || t(&[2, 4]);
    let conv = || [ints(&[1, 1]), ints(&[0, 0]), ints(&[1, 1]), NO, ints(&[0, 0]), int(1)];
    let mask = || Given::A(Arg::Bools(vec![true, true, true]));
    let convolution = [t(&[1, 3, 4, 4]), t(&[1, 2, 5, 5]), t(&[3, 2, 2, 2]), ints(&[3])];
    vec![
        ("_amp_update_scale", vec![t(&[]), of(I32, &[]), t(&[]), number(2.0), number(0.5), int(9)]),
        ("_foreach_addcdiv.Tensor", vec![list(), list(), list(), t(&[2])]),
        ("_foreach_addcmul.Tensor", vec![list(), list(), list(), t(&[2])]),
        ("clamp", vec![matrix(), number(0.0), NONE]),
        ("clamp.Tensor", vec![matrix(), NONE, t(&[4])]),
        ("convolution_backward", convolution.into_iter().chain(conv()).chain([mask()]).collect()),
        ("glu_backward", vec![t(&[2, 2]), matrix(), int(1)]),
        ("glu_backward_jvp", vec![matrix(), t(&[2, 2]), matrix(), t(&[2, 2]), matrix(), int(1)]),
        ("glu_jvp", vec![t(&[2, 2]), matrix(), matrix(), int(1)]),
        ("linalg_cross", vec![t(&[2, 3]), t(&[2, 3]), int(1)]),
        ("masked_fill.Tensor", vec![matrix(), of(Bool, &[4]), t(&[])]),
        ("_masked_softmax_backward", vec![matrix(), matrix(), of(Bool, &[2, 4]), NONE]),
        ("_transform_bias_rescale_qkv", vec![t(&[2, 3, 12]), t(&[12]), int(2)]),
    ]
}

#[rustfmt::skip]
fn attention() -> Vec<(&'static str, Vec<Given>)> {
    let heads = || t(&[1, 2, 3, 4]);
    let zero = || Given::A(Arg::Number(Number::Float(0.0)));
    let mask = Given::A(Arg::Bools(vec![true, true, true, false]));
    let lengths = [NONE, NONE, int(3), int(3)];
    let dense = || [t(&[12, 4]), t(&[12]), t(&[4, 4]), t(&[4])];
    let tokens = || t(&[2, 3, 4]);
    let states = [heads(), heads(), heads(), heads(), NONE, mask, heads(), t(&[1, 2, 3])];
    let backward = states.into_iter().chain(lengths).chain([zero(), YES, NONE, NONE, NONE]);
    let heads = [heads(), heads(), heads(), NONE, zero(), YES, NO, NONE];
    let tokens = [tokens(), tokens(), tokens(), int(4), int(2)].into_iter().chain(dense());
    vec![
        ("_scaled_dot_product_fused_attention_overrideable", heads.into_iter().collect()),
        ("_scaled_dot_product_fused_attention_overrideable_backward", backward.collect()),
        ("_native_multi_head_attention", tokens.chain([NONE, NO, YES, NONE]).collect()),
    ]
}

#[rustfmt::skip]
fn losses() -> Vec<(&'static str, Vec<Given>)> {
    let lengths = || [ints(&[4, 3]), ints(&[2, 1])];
    let ctc = || [t(&[4, 2, 5]), of(I64, &[2, 2])].into_iter().chain(lengths());
    let slopes = [t(&[2]), t(&[4, 2, 5]), of(I64, &[2, 2])].into_iter().chain(lengths());
    let nll = || [t(&[2, 5]), of(I64, &[2]), NONE, int(1), int(-100)];
    let plane = || [t(&[2, 5, 3, 3]), of(I64, &[2, 3, 3]), NONE, int(1), int(-100)];
    vec![
        ("_ctc_loss", ctc().chain([int(0), NO]).collect()),
        ("_ctc_loss_backward", slopes.chain([t(&[2]), t(&[2, 4, 5]), int(0), NO]).collect()),
        ("nll_loss_backward", [t(&[])].into_iter().chain(nll()).chain([t(&[])]).collect()),
        ("nll_loss2d_forward", plane().into_iter().collect()),
        ("nll_loss2d_backward", [t(&[])].into_iter().chain(plane()).chain([t(&[])]).collect()),
    ]
}

#[rustfmt::skip]
fn matrices() -> Vec<(&'static str, Vec<Given>)> {
    let square = || t(&[2, 4, 4]);
    let pivots = || of(I32, &[2, 4]);
    vec![
        ("_cholesky_solve_helper", vec![t(&[2, 4, 3]), square(), NO]),
        ("_linalg_eigh", vec![square(), text("L"), YES]),
        ("linalg_lu", vec![square(), YES]),
        ("linalg_lu", vec![square(), NO]),
        ("linalg_lu_factor_ex", vec![square(), YES, NO]),
        ("linalg_lu_factor_ex", vec![square(), NO, NO]),
        ("linalg_householder_product", vec![t(&[2, 4, 3]), t(&[2, 3])]),
        ("linalg_ldl_solve", vec![square(), pivots(), t(&[2, 4, 3]), NO]),
        ("linalg_lu_solve", vec![square(), pivots(), t(&[2, 4, 3]), YES, NO]),
        ("linalg_qr", vec![t(&[2, 4, 3]), text("reduced")]),
        ("ormqr", vec![t(&[4, 3]), t(&[3]), t(&[4, 2]), YES, NO]),
    ]
}

fn all() -> Vec<(&'static str, Vec<Given>)> {
    [dense(), attention(), losses(), matrices()].concat()
}

/// Whether plain arguments do not fit the row, even where it does not say so.
pub(super) fn hold(name: &str) -> bool {
    all().iter().any(|(other, _)| *other == name)
}

#[test]
fn each_is_accepted() {
    for (name, given) in all() {
        let line = line(name, &given);
        assert!(line.contains("-> tensor<"), "{line}");
    }
}
