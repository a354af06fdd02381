//! What the golden tests beside the rows use.
use crate::{Arg, Op, get_in_graph, op::Param};
use tpu_hlo::{Builder, DType, Number, Slot, Type};

/// A tensor argument of the given type.
pub(crate) struct T(pub(crate) DType, pub(crate) &'static [i64]);

/// StableHLO of one call: tensors first, then the rest; or `Class: message` when it is refused.
pub(crate) fn hlo(name: &str, tensors: &[T], rest: &[Arg]) -> String {
    let mut b = Builder::default();
    let mut args: Vec<Arg> = tensors
        .iter()
        .enumerate()
        .map(|(i, T(t, d))| Arg::Tensor(b.param(Slot::Buffer(i as u32), Type::new(*t, d))))
        .collect();
    args.extend_from_slice(rest);
    lowered(b, name, &args)
}

/// StableHLO of a call whose arguments `make` places.
pub(crate) fn hlo_with(name: &str, make: impl FnOnce(&mut Builder) -> Vec<Arg>) -> String {
    let mut b = Builder::default();
    let args = make(&mut b);
    lowered(b, name, &args)
}

fn lowered(mut b: Builder, name: &str, args: &[Arg]) -> String {
    let row = get_in_graph(name).unwrap_or_else(|| panic!("no row {name}"));
    match row.lower(&mut b, args) {
        Ok(outs) => b.finish(&outs, &[]).text,
        Err(e) => format!("{:?}: {e}\n", e.class()),
    }
}

/// An argument of [`line`].
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

/// One line for a call: the ops of its program but for constants, the result types, and what it
/// demands when it runs; or why it is refused.
pub(crate) fn line(name: &str, given: &[Given]) -> String {
    let mut b = Builder::default();
    let mut slot = 0;
    let mut param = |b: &mut Builder, (t, d): (DType, &[i64])| {
        slot += 1;
        b.param(Slot::Buffer(slot - 1), Type::new(t, d))
    };
    let args: Vec<Arg> = given
        .iter()
        .enumerate()
        .map(|(i, given)| match given {
            Given::T(t, d) => Arg::Tensor(param(&mut b, (*t, d))),
            Given::List(l) => Arg::Tensors(l.iter().map(|t| t.map(|t| param(&mut b, t))).collect()),
            Given::Launch(n) => Arg::Scalar(b.number(i as u32, n.dtype())),
            Given::A(arg) => arg.clone(),
        })
        .collect();
    let row = get_in_graph(name).unwrap_or_else(|| panic!("no row {name}"));
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

/// One line per row: the ops of its program but for constants, and the result types; or why the
/// call is refused. Tensors are `dtype[2, 4]`, options are absent, other arguments are plain.
pub(crate) fn sketches(rows: &[Op], dtype: DType) -> String {
    rows.iter().map(|row| sketch(row, dtype)).collect()
}

fn sketch(row: &Op, dtype: DType) -> String {
    let mut b = Builder::default();
    let mut slot = 0;
    let params = row.params();
    let args: Vec<Arg> = params
        .iter()
        .map(|p| plain(&mut b, *p, dtype, &mut slot))
        .collect();
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

fn plain(b: &mut Builder, param: Param, dtype: DType, slot: &mut u32) -> Arg {
    *slot += 1;
    let number = if dtype.is_float() || dtype.is_complex() {
        DType::F64
    } else {
        DType::I64
    };
    let mut tensor = |b: &mut Builder| {
        *slot += 1;
        b.param(Slot::Buffer(*slot), Type::new(dtype, &[2, 4]))
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
