//! What the golden tests beside the rows use.
use crate::{Arg, get};
use tpu_hlo::{Builder, DType, Slot, Type};

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
    let row = get(name).unwrap_or_else(|| panic!("no row {name}"));
    match row.lower(&mut b, args) {
        Ok(outs) => b.finish(&outs, &[]).text,
        Err(e) => format!("{:?}: {e}\n", e.class()),
    }
}
