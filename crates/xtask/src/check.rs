//! `cargo x check`: everything that a change must pass.

use crate::arguments::TestOptions;
use crate::docs;
use crate::error::{Error, Result};
use crate::requirements::Requirements;
use crate::scaffold;
use crate::setup;
use crate::size;
use crate::step;
use crate::test;
use crate::tree::Tree;
use crate::venv::Venv;

/// Runs every gate, the quick ones first, and lists those that did not open.
///
/// # Errors
/// When the set-up or any gate fails.
pub(crate) fn run(tree: &Tree) -> Result<()> {
    let venv = setup::packages_ready(tree, None)?;
    let gates: [(&str, &dyn Fn() -> Result<()>); 8] = [
        ("format", &|| format(tree)),
        ("sizes and arrows", &|| size::run(tree)),
        ("generated pages", &|| docs::check(tree)),
        ("Python lints", &|| ruff(tree, &venv)),
        ("lints", &|| clippy(tree, &venv)),
        ("documentation", &|| document(tree, &venv)),
        ("scaffold of a row", &|| scaffold::check(tree, &venv)),
        ("tests", &|| test::run(tree, &TestOptions::default())),
    ];
    let mut closed = Vec::new();
    for (name, gate) in gates {
        if let Err(error) = gate() {
            eprintln!("error: {error}");
            closed.push(name.to_owned());
        }
    }
    if closed.is_empty() {
        println!("all {} checks passed", gates.len());
        return Ok(());
    }
    Err(Error::Broken("checks", closed))
}

fn format(tree: &Tree) -> Result<()> {
    step::run("cargo fmt", tree.cargo().args(["fmt", "--all", "--check"]))
}

fn clippy(tree: &Tree, venv: &Venv) -> Result<()> {
    let mut cargo = tree.cargo();
    venv.activate(&mut cargo);
    cargo.args(["clippy", "--workspace", "--all-targets"]);
    step::run("cargo clippy", cargo.args(["--", "-D", "warnings"]))
}

fn document(tree: &Tree, venv: &Venv) -> Result<()> {
    let mut cargo = tree.cargo();
    venv.activate(&mut cargo);
    cargo.env("RUSTDOCFLAGS", "-D warnings");
    step::run("cargo doc", cargo.args(["doc", "--workspace", "--no-deps"]))
}

/// Lints the Python sources if `requirements.txt` pins `ruff`.
fn ruff(tree: &Tree, venv: &Venv) -> Result<()> {
    if Requirements::read(tree, None)?.version("ruff").is_none() {
        return Ok(());
    }
    step::run("ruff", venv.command(tree, "ruff").arg("check"))?;
    let mut format = venv.command(tree, "ruff");
    step::run("ruff format", format.args(["format", "--check"]))
}
