//! The arrows of the house: which crate may use which.
//!
//! ARCHITECTURE.md draws them; this table is what a build is held to.

use crate::error::{Error, Result};
use crate::step;
use crate::tree::Tree;
use serde_json::Value;
use std::path::PathBuf;

/// A crate and those of ours that it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("tpu-obs", &[]),
    ("tpu-hlo", &[]),
    ("tpu-ops", &["tpu-hlo"]),
    ("tpu-pjrt", &["tpu-obs"]),
    ("tpu-exec", &["tpu-pjrt", "tpu-obs"]),
    (
        "tpu-eager",
        &["tpu-ops", "tpu-hlo", "tpu-exec", "tpu-pjrt", "tpu-obs"],
    ),
    ("tpu-graph", &["tpu-ops", "tpu-hlo"]),
    (
        "tpu-bridge",
        &["tpu-eager", "tpu-graph", "tpu-ops", "tpu-pjrt", "tpu-obs"],
    ),
    ("xtask", &["tpu-ops", "tpu-obs"]),
];

/// Crates of others that only one of ours may know: Python and the plugin stay in their rooms.
const ROOMS: &[(&str, &str)] = &[
    ("pyo3", "tpu-bridge"),
    ("cc", "tpu-bridge"),
    ("libloading", "tpu-pjrt"),
];

/// The only crates that may hold `unsafe` code.
const UNSAFE: &[&str] = &["tpu-pjrt", "tpu-bridge"];

/// One dependency as `cargo metadata` reports it, of any kind.
struct Arrow {
    from: String,
    to: String,
}

/// Every breach of the arrows, the rooms and the `unsafe` rule, one line each.
///
/// # Errors
/// When cargo or git cannot list the tree, or a source cannot be read.
pub(crate) fn breaches(tree: &Tree) -> Result<Vec<String>> {
    let mut found: Vec<String> = arrows(tree)?.iter().filter_map(breach).collect();
    for path in tree.files()? {
        if let Some(name) = crate_of(&path).filter(|name| !UNSAFE.contains(&name.as_str()))
            && lifts_unsafe_lint(&tree.read(&path)?)
        {
            found.push(format!(
                "`{}` permits unsafe code in `{name}`",
                path.display()
            ));
        }
    }
    Ok(found)
}

fn arrows(tree: &Tree) -> Result<Vec<Arrow>> {
    let mut cargo = tree.cargo();
    let text = step::output(cargo.args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let malformed = |why: String| Error::Malformed {
        path: PathBuf::from("cargo metadata"),
        why,
    };
    let data: Value = serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
    let packages = data["packages"].as_array();
    let packages = packages.ok_or_else(|| malformed("lists no packages".into()))?;
    Ok(packages.iter().flat_map(package_arrows).collect())
}

fn package_arrows(package: &Value) -> Vec<Arrow> {
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let uses = package["dependencies"].as_array().into_iter().flatten();
    let from = name(package);
    uses.map(|used| Arrow {
        from: from.clone(),
        to: name(used),
    })
    .collect()
}

fn breach(arrow: &Arrow) -> Option<String> {
    let Arrow { from, to } = arrow;
    if let Some((_, room)) = ROOMS.iter().find(|(foreign, _)| foreign == to) {
        return (room != from).then(|| format!("only `{room}` may use `{to}`, not `{from}`"));
    }
    if !to.starts_with("tpu-") && to != "xtask" {
        return None;
    }
    match ARROWS.iter().find(|(name, _)| name == from) {
        Some((_, uses)) if uses.contains(&to.as_str()) => None,
        Some(_) => Some(format!("`{from}` may not use `{to}`")),
        None => Some(format!("`{from}` has no place in the house")),
    }
}

/// The crate that a Rust source or manifest belongs to.
fn crate_of(path: &std::path::Path) -> Option<String> {
    let end = path.extension()?;
    let mut parts = path.iter();
    let inside = parts.next()? == "crates" && (end == "rs" || end == "toml");
    inside
        .then(|| parts.next()?.to_str().map(str::to_owned))
        .flatten()
}

/// Whether a source lifts the workspace's `deny`, in an attribute or in a manifest.
fn lifts_unsafe_lint(text: &str) -> bool {
    let lint = concat!("unsafe", "_code");
    let lines = text.lines().filter(|line| line.contains(lint));
    let lifts = |line: &str| {
        ["allow", "expect", "warn"]
            .iter()
            .any(|word| line.contains(word))
    };
    lines.into_iter().any(lifts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_keeps_the_arrows() {
        let found = breaches(&Tree::find().unwrap()).unwrap();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn the_drawing_has_no_cycle() {
        // Each crate may only use crates drawn before it.
        for (at, (name, uses)) in ARROWS.iter().enumerate() {
            for used in *uses {
                let before = ARROWS[..at].iter().any(|(earlier, _)| earlier == used);
                assert!(before, "`{name}` uses `{used}`, which is drawn later");
            }
        }
    }

    #[test]
    fn wrong_arrows_are_found() {
        let wrong = |from: &str, to: &str| {
            let (from, to) = (from.to_owned(), to.to_owned());
            breach(&Arrow { from, to })
        };
        for (from, to) in [
            ("tpu-obs", "tpu-pjrt"),
            ("tpu-ops", "tpu-exec"),
            ("tpu-eager", "tpu-bridge"),
            ("tpu-hlo", "xtask"),
            ("tpu-eager", "pyo3"),
            ("tpu-attic", "tpu-hlo"),
        ] {
            assert!(wrong(from, to).is_some(), "{from} -> {to}");
        }
        for (from, to) in [
            ("tpu-ops", "tpu-hlo"),
            ("tpu-bridge", "pyo3"),
            ("tpu-obs", "serde"),
        ] {
            assert_eq!(wrong(from, to), None, "{from} -> {to}");
        }
    }

    #[test]
    fn lifting_the_unsafe_lint_is_seen() {
        let lint = concat!("unsafe", "_code");
        assert!(lifts_unsafe_lint(&format!("#![allow({lint})]")));
        assert!(lifts_unsafe_lint(&format!("{lint} = \"allow\"")));
        assert!(!lifts_unsafe_lint(&format!("{lint} = \"deny\"")));
    }
}
