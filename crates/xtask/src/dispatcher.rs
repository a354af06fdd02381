//! What PyTorch's dispatcher says about its operators, and what models call.

use crate::error::{Error, Result};
use crate::step;
use crate::tree::Tree;
use crate::venv::Venv;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use tpu_ops::schema::Schema;

const SCRIPT: &str = "crates/xtask/python/dispatcher.py";
const USE: &str = "crates/xtask/python/op_use.tsv";

/// One overload of an operator.
pub(crate) struct Overload {
    /// The schema as the dispatcher prints it.
    pub(crate) text: String,
    pub(crate) schema: Schema,
    /// Whether a device has to bring a kernel for it.
    pub(crate) backend: bool,
    /// Whether it works element by element.
    pub(crate) pointwise: bool,
    /// Whether PyTorch can express it by other operators.
    pub(crate) decomposed: bool,
}

/// How much an operator is used by the models that `count_ops.py` runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    pub(crate) models: u32,
    pub(crate) calls: u32,
}

/// Every `aten` overload of the environment's torch.
///
/// # Errors
/// When the script fails or prints what is not a list of schemas.
pub(crate) fn overloads(tree: &Tree, venv: &Venv) -> Result<Vec<Overload>> {
    let text = step::output(venv.command(tree, "python").arg(SCRIPT))?;
    let malformed = |why: String| Error::Malformed {
        path: PathBuf::from(SCRIPT),
        why,
    };
    let list: Vec<Value> =
        serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
    let parsed = list.iter().map(|entry| {
        overload(entry).ok_or_else(|| malformed(format!("not understood: `{entry}`")))
    });
    parsed.collect()
}

fn overload(entry: &Value) -> Option<Overload> {
    let text = entry["schema"].as_str()?.to_owned();
    Some(Overload {
        schema: Schema::parse(&text)?,
        text,
        backend: entry["backend"].as_bool()?,
        pointwise: entry["pointwise"].as_bool()?,
        decomposed: entry["decomposed"].as_bool()?,
    })
}

/// The counts that `count_ops.py` wrote, by full name.
///
/// # Errors
/// When the file cannot be read or a row is not `op, models, calls`.
pub(crate) fn uses(tree: &Tree) -> Result<HashMap<String, Use>> {
    let text = tree.read(USE)?;
    let rows = text.lines().skip(1).map(|line| {
        row(line).ok_or_else(|| Error::Malformed {
            path: tree.root.join(USE),
            why: format!("not `op, models, calls`: `{line}`"),
        })
    });
    rows.collect()
}

fn row(line: &str) -> Option<(String, Use)> {
    let mut fields = line.split('\t');
    let name = fields.next()?.to_owned();
    let models = fields.next()?.parse().ok()?;
    let calls = fields.next()?.parse().ok()?;
    Some((name, Use { models, calls }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_readable_and_plausible() {
        let uses = uses(&Tree::find().unwrap()).unwrap();
        assert!(uses["mul.Tensor"] > uses["topk"]);
        assert_eq!(row("mm\t13"), None);
    }
}
