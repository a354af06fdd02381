//! `cargo x ops`: the table of operators, and what it lacks.

use crate::dispatcher::{self, Overload, Use};
use crate::error::Result;
use crate::setup;
use crate::step;
use crate::tree::Tree;
use tpu_ops::schema::{self, Schema};

/// Names that no row will serve. PyTorch's own kernels or the bridge's typed ones do: they concern
/// the tensor's metadata, its storage or the host, not its values.
const NOT_ROWS: &[&str] = &[
    "_copy_from",
    "_copy_from_and_resize",
    "_foobar",
    "_fused_sdp_choice",
    "_local_scalar_dense",
    "_make_dep_token",
    "_reshape_alias",
    "_resize_output_",
    "as_strided",
    "copy_",
    "empty",
    "empty_strided",
    "equal",
    "from_file",
    "is_set_to",
    "record_stream",
    "resize_",
    "resize_as_",
    "set_",
    "set_data",
    "unfold",
    "view",
];

/// Names that take or give sparse tensors, which the device refuses.
const SPARSE: &[&str] = &["_spdiags", "sspaddmm"];

/// Prints every row with what its parameters want.
pub(crate) fn list() {
    let mut table = String::new();
    for (family, rows) in tpu_ops::FAMILIES {
        table += &format!("{family}: {} rows\n", rows.len());
        for row in *rows {
            table += &format!("  {:<40} {}\n", row.name, parameters(row));
        }
    }
    let rows = tpu_ops::all().count();
    table += &format!("{rows} rows in {} families\n", tpu_ops::FAMILIES.len());
    step::show(&table);
}

/// What a row's parameters want, in schema notation.
pub(crate) fn parameters(row: &tpu_ops::Op) -> String {
    let words = row.params().into_iter().filter(|param| param.ty != "*");
    let words: Vec<String> = words
        .map(|param| format!("{}{}", param.ty, if param.optional { "?" } else { "" }))
        .collect();
    words.join(", ")
}

/// Prints the operators that a device should have and no row serves, the most used first.
///
/// # Errors
/// When the environment cannot be set up or asked.
pub(crate) fn missing(tree: &Tree) -> Result<()> {
    let venv = setup::packages_ready(tree, None)?;
    let overloads = dispatcher::overloads(tree, &venv)?;
    let uses = dispatcher::uses(tree)?;
    let mut rows: Vec<(Use, &Overload)> = unserved(&overloads)
        .into_iter()
        .map(|overload| {
            let used = family(overload, &overloads).filter_map(|name| uses.get(&name));
            (used.copied().fold(Use::default(), total), overload)
        })
        .collect();
    rows.sort_by_key(|(used, overload)| (std::cmp::Reverse(*used), &overload.text));
    let mut table = "models  calls  schema (* decomposes into other operators)\n".to_owned();
    for (used, overload) in &rows {
        let mark = if overload.decomposed { '*' } else { ' ' };
        let schema = overload.text.trim_start_matches("aten::");
        table += &format!("{:>6} {:>6} {mark}{schema}\n", used.models, used.calls);
    }
    table += &format!("{} operators have no row\n", rows.len());
    step::show(&table);
    Ok(())
}

fn total(mut sum: Use, other: Use) -> Use {
    sum.models = sum.models.max(other.models);
    sum.calls += other.calls;
    sum
}

/// Overloads that need a kernel and have none, each with the forms that its row would serve.
fn unserved(overloads: &[Overload]) -> Vec<&Overload> {
    let schemas: Vec<Schema> = overloads.iter().map(|o| o.schema.clone()).collect();
    let plans = schema::plan(&schemas);
    let open = overloads
        .iter()
        .zip(&plans)
        .filter(|(_, plan)| plan.is_none());
    let open: Vec<&Overload> = open
        .map(|(o, _)| o)
        .filter(|o| is_rows_business(o))
        .collect();
    let functional = |o: &Overload| !o.schema.is_mutable();
    let twin = |o: &Overload| {
        let mut others = open.iter().filter(|other| functional(other));
        others.any(|other| serves(&other.schema, &o.schema))
    };
    open.iter()
        .copied()
        .filter(|o| functional(o) || !twin(o))
        .collect()
}

fn is_rows_business(overload: &Overload) -> bool {
    let Schema { name, returns, .. } = &overload.schema;
    let is_view = !overload.schema.is_mutable() && overload.text.contains("-> Tensor(a");
    let excluded = NOT_ROWS.iter().chain(SPARSE).any(|other| other == name);
    overload.backend && !returns.is_empty() && !is_view && !excluded
}

/// The functional form and those that its row would serve as well.
fn family<'a>(of: &'a Overload, all: &'a [Overload]) -> impl Iterator<Item = String> + 'a {
    let twins = all.iter().filter(|other| serves(&of.schema, &other.schema));
    let twins = twins.map(|other| other.schema.full_name());
    std::iter::once(of.schema.full_name()).chain(twins)
}

/// Whether `twin` is the in-place or `out=` form of `functional`.
fn serves(functional: &Schema, twin: &Schema) -> bool {
    let is_read = |a: &&schema::Argument| !(a.mutable && a.kwarg_only);
    let same_name = twin.name.trim_end_matches('_') == functional.name;
    let types = |s: &Schema| -> Vec<(String, bool)> {
        let read = s.args.iter().filter(is_read);
        read.map(|a| (a.ty.clone(), a.optional)).collect()
    };
    twin.is_mutable() && same_name && types(functional) == types(twin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overload(text: &str) -> Overload {
        Overload {
            text: text.into(),
            schema: Schema::parse(text).unwrap(),
            backend: true,
            pointwise: false,
            decomposed: false,
        }
    }

    #[test]
    fn twins_are_counted_with_their_functional_form() {
        let all = [
            overload("aten::no_such(Tensor self, Tensor other) -> Tensor"),
            overload("aten::no_such_(Tensor(a!) self, Tensor other) -> Tensor(a!)"),
            overload(
                "aten::no_such.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
            ),
            overload("aten::lonely_(Tensor(a!) self, float p) -> Tensor(a!)"),
            overload("aten::a_view(Tensor(a) self) -> Tensor(a)"),
        ];
        let names: Vec<_> = unserved(&all)
            .iter()
            .map(|o| o.schema.full_name())
            .collect();
        assert_eq!(names, ["no_such", "lonely_"]);
        let forms: Vec<_> = family(&all[0], &all).collect();
        assert_eq!(forms, ["no_such", "no_such_", "no_such.out"]);
    }

    #[test]
    fn a_row_removes_its_overloads() {
        let row = tpu_ops::all().next().unwrap();
        let all = [overload(&format!(
            "aten::{}(Tensor self) -> Tensor",
            row.name
        ))];
        assert!(unserved(&all).is_empty());
    }
}
