//! Whether the table and the dispatcher speak of the same operators.
use super::{Argument, Plan, Schema, plan};
use crate::{Op, Param, all};
use rustc_hash::FxHashSet;

/// What is wrong with the table, given every schema of the dispatcher: rows that no overload
/// reaches, rows for a form that another row serves, and parameters that are not the schema's.
pub fn disagreements(schemas: &[Schema]) -> Vec<String> {
    let plans = plan(schemas);
    let served = || {
        let both = schemas.iter().zip(&plans);
        both.filter_map(|(schema, plan)| Some((schema, plan.as_ref()?)))
    };
    let reached: FxHashSet<&str> = served().map(|(_, plan)| plan.op.name).collect();
    let unreached = all().filter(|row| !reached.contains(row.name));
    let mut found: Vec<String> = unreached
        .map(|row| format!("{}: the dispatcher has no such overload", row.name))
        .collect();
    for (schema, plan) in served() {
        found.extend(mismatch(schema, plan));
        found.extend(superfluous(schema, plan.op.name));
    }
    found
}

/// A row for an in-place form, which is derived. A form with `out=` may have a row: it is told the
/// dtype of `out`, which its functional form has not.
fn superfluous(schema: &Schema, row: &str) -> Option<String> {
    let in_place = schema.is_mutable() && !schema.is_out();
    (in_place && schema.full_name() == row)
        .then(|| format!("{row}: a row for an in-place form, which is derived"))
}

/// How the parameters of a row differ from those of an overload that it serves.
pub fn mismatch(schema: &Schema, plan: &Plan) -> Option<String> {
    let complain = |why: String| Some(format!("{} for {schema}: {why}", plan.op.name));
    let params = plan.op.params();
    let args: Vec<&Argument> = plan.args.iter().map(|i| &schema.args[*i]).collect();
    for (i, arg) in args.iter().enumerate() {
        match params.get(i) {
            None => return complain(format!("no parameter for `{}`", arg.name)),
            Some(param) if !fits(param, arg) => {
                return complain(format!(
                    "parameter {i} wants {}, `{}` is {}",
                    notation(param.ty, param.optional),
                    arg.name,
                    notation(&arg.ty, arg.optional)
                ));
            }
            Some(_) => {}
        }
    }
    let wanted = trailing(plan.op, plan.dtype_of_out);
    let extra = &params[args.len()..];
    let more = wanted.is_none() && !extra.is_empty();
    let other =
        wanted.is_some_and(|ty| extra.is_empty() || extra.iter().any(|p| !ty.contains(&p.ty)));
    if more || other {
        let extra: Vec<&str> = extra.iter().map(|p| p.ty).collect();
        return complain(format!("parameters beyond the schema's: {extra:?}"));
    }
    None
}

/// Types of the arguments that the launcher appends to the schema's.
fn trailing(op: &Op, dtype_of_out: bool) -> Option<&'static [&'static str]> {
    if op.count().is_some() || op.size().is_some() {
        // After the dtype of `out=`, where the row wants that as well.
        return Some(&["int", "int[]", "ScalarType"]);
    }
    dtype_of_out.then_some(&["ScalarType"])
}

/// Whether a parameter takes what the dispatcher passes for an argument.
fn fits(param: &Param, arg: &Argument) -> bool {
    let number = |ty: &str| matches!(ty, "int" | "float" | "Scalar");
    let kind = match param.ty {
        "*" => return true,
        "Generator" => return arg.ty == "Generator",
        // A number bound at launch serves every kind of number.
        "Scalar" => number(&arg.ty),
        "Scalar[]" => matches!(arg.ty.as_str(), "Scalar[]" | "float[]"),
        ty => ty == arg.ty,
    };
    // A row may accept more than is passed: it can share its function with another.
    kind && (param.optional || !arg.optional)
}

fn notation(ty: &str, optional: bool) -> String {
    format!("{ty}{}", if optional { "?" } else { "" })
}

impl std::fmt::Display for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let args: Vec<String> = self
            .args
            .iter()
            .map(|a| format!("{} {}", notation(&a.ty, a.optional), a.name))
            .collect();
        write!(f, "{}({})", self.full_name(), args.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        let schemas = [Schema::parse(text).unwrap()];
        let plans = plan(&schemas);
        mismatch(&schemas[0], plans[0].as_ref().unwrap())
    }

    #[test]
    fn parameters_agree_or_are_named() {
        let right = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";
        assert_eq!(found(right), None);
        let fewer = "aten::add.Tensor(Tensor self, Tensor other) -> Tensor";
        assert!(found(fewer).unwrap().contains("beyond the schema's"));
        let more = "aten::add.Tensor(Tensor self, Tensor other, Scalar alpha, int x) -> Tensor";
        assert!(found(more).unwrap().contains("no parameter for `x`"));
        for other in [
            "Tensor? other",
            "Tensor[] other",
            "int other",
            "Scalar other",
        ] {
            let text = format!("aten::add.Tensor(Tensor self, {other}, *, Scalar alpha) -> Tensor");
            assert!(found(&text).unwrap().contains("`other`"), "{other}");
        }
    }

    #[test]
    fn what_the_launcher_appends_is_allowed() {
        assert_eq!(found("aten::nonzero(Tensor self) -> Tensor"), None);
        let out = "aten::arange.start_out(Scalar start, Scalar end, Scalar step=1, *, \
                   Tensor(a!) out) -> Tensor(a!)";
        assert_eq!(found(out), None);
    }

    #[test]
    fn an_in_place_form_needs_no_row() {
        let in_place = Schema::parse("aten::f_(Tensor(a!) self) -> Tensor(a!)").unwrap();
        assert_eq!(superfluous(&in_place, "f"), None);
        assert!(superfluous(&in_place, "f_").is_some());
        let out = Schema::parse("aten::f.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)");
        assert_eq!(superfluous(&out.unwrap(), "f.out"), None);
    }

    #[test]
    fn rows_that_the_dispatcher_does_not_know_are_named() {
        assert_eq!(disagreements(&[]).len(), all().count());
    }
}
