//! What the golden tests beside the rows use.
//!
//! Where `TORCH_TPU_GOLDENS` names a folder, every call is lowered once more, for a TPU, and its
//! StableHLO written there as `<row>/<hash>.mlir`: what `cargo x tpu` hands to a TPU's compiler. What
//! the row itself refuses on a TPU alone goes into `<row>/refused`.
use crate::{Arg, Op, get_in_graph, op::Param};
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;
use std::path::Path;
use tpu_hlo::{Builder, DType, Number, Settings, Slot, Type};

/// A tensor argument of the given type.
pub(crate) struct T(pub(crate) DType, pub(crate) &'static [i64]);

/// StableHLO of one call: tensors first, then the rest; or `Class: message` when it is refused.
pub(crate) fn hlo(name: &str, tensors: &[T], rest: &[Arg]) -> String {
    hlo_with(name, |b| {
        let types = tensors.iter().zip(0..);
        let params =
            types.map(|(T(t, d), i)| Arg::Tensor(b.param(Slot::Buffer(i), Type::new(*t, d))));
        let params: Vec<Arg> = params.collect();
        [&params, rest].concat()
    })
}

/// StableHLO of a call whose arguments `make` places.
pub(crate) fn hlo_with(name: &str, make: impl Fn(&mut Builder) -> Vec<Arg>) -> String {
    let row = get_in_graph(name).unwrap_or_else(|| panic!("no row {name}"));
    write_for_tpu(row, &make);
    let mut b = Builder::default();
    let args = make(&mut b);
    match row.lower(&mut b, &args) {
        Ok(outs) => b.finish(&outs, &[]).text,
        Err(e) => format!("{:?}: {e}\n", e.class()),
    }
}

/// An argument of [`line`].
#[derive(Clone)]
pub(crate) enum Given {
    /// A tensor.
    T(DType, &'static [i64]),
    /// `Tensor[]` and `Tensor?[]`
    List(Vec<Option<(DType, &'static [i64])>>),
    /// A number bound at launch.
    Launch(Number),
    /// Anything else.
    A(Arg),
}

/// Nothing given.
pub(crate) const NONE: Given = Given::A(Arg::None);

/// An `int` that is part of the program.
pub(crate) fn int(i: i64) -> Given {
    Given::A(Arg::Number(Number::Int(i)))
}

/// An `int[]`.
pub(crate) fn ints(i: &[i64]) -> Given {
    Given::A(Arg::Ints(i.into()))
}

/// A `bool`.
pub(crate) fn flag(b: bool) -> Given {
    Given::A(Arg::Number(Number::Bool(b)))
}

/// One line for a call: the ops of its program but for constants, the result types, and what it
/// demands when it runs; or why it is refused.
pub(crate) fn line(name: &str, given: &[Given]) -> String {
    let row = get_in_graph(name).unwrap_or_else(|| panic!("no row {name}"));
    write_for_tpu(row, &|b| place(b, given));
    let mut b = Builder::default();
    let args = place(&mut b, given);
    let outs = match row.lower(&mut b, &args) {
        Ok(outs) => outs,
        Err(e) => return format!("{name}: {:?}: {e}\n", e.class()),
    };
    let checks = b.take_checks();
    let all: Vec<_> = outs
        .iter()
        .copied()
        .chain(checks.iter().map(|c| c.0))
        .collect();
    let module = b.finish(&all, &[]);
    let types: Vec<String> = module.outputs[..outs.len()]
        .iter()
        .map(Type::to_string)
        .collect();
    let mut text = format!("{name}: {}-> {}", ops(&module.text), types.join(" "));
    for (_, message) in checks {
        text += &format!("; else {message}");
    }
    text + "\n"
}

fn place(b: &mut Builder, given: &[Given]) -> Vec<Arg> {
    let mut slot = 0;
    let mut param = |b: &mut Builder, (t, d): (DType, &[i64])| {
        slot += 1;
        b.param(Slot::Buffer(slot - 1), Type::new(t, d))
    };
    let mut arg = |(i, given): (usize, &Given)| match given {
        Given::T(t, d) => Arg::Tensor(param(b, (*t, d))),
        Given::List(l) => Arg::Tensors(l.iter().map(|t| t.map(|t| param(b, t))).collect()),
        Given::Launch(n) => Arg::Scalar(b.number(i as u32, n.dtype())),
        Given::A(arg) => arg.clone(),
    };
    given.iter().enumerate().map(&mut arg).collect()
}

/// Writes the program of a call as a TPU gets it, with what it demands when it runs; nothing where
/// the call is refused anyway.
fn write_for_tpu(row: &Op, make: &dyn Fn(&mut Builder) -> Vec<Arg>) {
    let Some(folder) = std::env::var_os("TORCH_TPU_GOLDENS") else {
        return;
    };
    let lower = |tpu| {
        let settings = Settings::default();
        let mut b = Builder::new(Settings { tpu, ..settings });
        let args = make(&mut b);
        let mut outs = row.lower(&mut b, &args)?;
        outs.extend(b.take_checks().into_iter().map(|check| check.0));
        Ok::<_, crate::Error>(b.finish(&outs, &[]).text)
    };
    if lower(false).is_err() {
        return;
    }
    let (name, text) = match lower(true) {
        Ok(text) => (format!("{:016x}.mlir", FxBuildHasher.hash_one(&text)), text),
        Err(error) => ("refused".into(), error.to_string()),
    };
    let folder = Path::new(&folder).join(row.name);
    std::fs::create_dir_all(&folder).expect("the folder for goldens can be made");
    std::fs::write(folder.join(name), text).expect("it can be written to");
}

/// One line per row: the ops of its program but for constants, and the result types; or why the
/// call is refused. Tensors are `dtype[2, 4]`, options are absent, other arguments are plain.
pub(crate) fn sketches(rows: &[Op], dtype: DType) -> String {
    let tensor = (dtype, &[2, 4][..]);
    rows.iter().map(|row| sketch(row, tensor)).collect()
}

fn sketch(row: &Op, tensor: (DType, &[i64])) -> String {
    if !calls::hold(row.name) {
        write_for_tpu(row, &|b| plain_args(b, row, tensor));
    }
    let mut b = Builder::default();
    let args = plain_args(&mut b, row, tensor);
    let line = match row.lower(&mut b, &args) {
        Ok(outs) => {
            let module = b.finish(&outs, &[]);
            let types: Vec<String> = module.outputs.iter().map(Type::to_string).collect();
            format!("{}-> {}", ops(&module.text), types.join(" "))
        }
        Err(e) => format!("{:?}: {e}", e.class()),
    };
    format!("{}: {line}\n", row.name)
}

fn plain_args(b: &mut Builder, row: &Op, tensor: (DType, &[i64])) -> Vec<Arg> {
    let mut slot = 0;
    let params = row.params();
    let args = params.iter().map(|p| plain(b, *p, tensor, &mut slot));
    args.collect()
}

fn plain(b: &mut Builder, param: Param, (dtype, dims): (DType, &[i64]), slot: &mut u32) -> Arg {
    *slot += 1;
    let number = if dtype.is_float() || dtype.is_complex() {
        DType::F64
    } else {
        DType::I64
    };
    let mut tensor = |b: &mut Builder| {
        *slot += 1;
        b.param(Slot::Buffer(*slot), Type::new(dtype, dims))
    };
    match param.ty {
        _ if param.optional => Arg::None,
        "ScalarType" => Arg::DType(dtype),
        "Tensor" => Arg::Tensor(tensor(b)),
        "Tensor[]" => Arg::Tensors(vec![Some(tensor(b))]),
        "Scalar" if param.bound.fixes(Number::Int(2)) => Arg::Number(Number::Int(2)),
        "Scalar" => Arg::Scalar(b.number(*slot, number)),
        "Scalar[]" => Arg::Scalars(vec![b.number(*slot, number)]),
        "int[]" => Arg::Ints([1].as_slice().into()),
        "str" => Arg::Str("none".into()),
        "bool" => Arg::Number(Number::Bool(false)),
        "int" => Arg::Number(Number::Int(1)),
        _ => Arg::None,
    }
}

/// Names of the ops in a module's text, each followed by a blank.
fn ops(text: &str) -> String {
    let names = text.lines().filter_map(|line| line.split('"').nth(1));
    let names = names.filter_map(|name| name.split('.').nth(1));
    names
        .filter(|n| !matches!(*n, "constant" | "return"))
        .map(|n| format!("{n} "))
        .collect()
}

/// Most rows take some plain call; the others need a golden of their own for a TPU to see them.
#[test]
fn plain_calls_suit_most_rows() {
    let dims: [&[i64]; 6] = [&[2, 4], &[4, 4], &[4], &[], &[1, 1, 4, 4], &[1, 1, 4, 4, 4]];
    let mut calls = dims.map(|dims| (DType::F32, dims)).to_vec();
    calls.extend([DType::I64, DType::Bool, DType::C64].map(|dtype| (dtype, &[4, 4][..])));
    // Derivatives trust that autograd calls them with what fits, and may panic where it does not.
    let suits = |row: &Op, call| {
        let lower = || {
            let mut b = Builder::default();
            let args = plain_args(&mut b, row, call);
            row.lower(&mut b, &args).is_ok()
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(lower)).unwrap_or(false)
    };
    let mut others = Vec::new();
    for row in crate::all().filter(|row| !calls::hold(row.name)) {
        match calls.iter().find(|call| suits(row, **call)) {
            Some(call) => write_for_tpu(row, &|b| plain_args(b, row, *call)),
            None => others.push(row.name),
        }
    }
    let rows = crate::all().count();
    assert!(others.len() < rows / 4, "{others:?}");
}

mod calls;
