//! `cargo x new <op>`: a row, a stub and a test, each where it belongs in a family's file.

use crate::dispatcher::{self, Overload};
use crate::error::{Error, Result};
use crate::setup;
use crate::step;
use crate::stub::{self, Imports};
use crate::tree::Tree;
use crate::venv::Venv;
use std::path::{Path, PathBuf};
use tpu_ops::schema::Schema;

/// The line before a family's first row.
const OPEN: &str = "pub(crate) const OPS: &[Op] = &[";

/// What is added to a family.
struct Addition {
    schema: Schema,
    /// The schema's text.
    text: String,
    /// Whether results take the layout of the inputs.
    pointwise: bool,
}

impl Addition {
    fn of(text: &str, pointwise: bool) -> Result<Self> {
        let unparsed = || Error::Operator(format!("not a schema: `{text}`"));
        Ok(Self {
            schema: Schema::parse(text).ok_or_else(unparsed)?,
            text: text.to_owned(),
            pointwise,
        })
    }
}

/// Adds an operator to a family, by default the one that its schema suggests.
///
/// # Errors
/// When the operator is unknown or has a row already, or the family is unknown or unclear.
pub(crate) fn new(tree: &Tree, op: &str, family: Option<&str>) -> Result<()> {
    if tpu_ops::get(op).is_some() {
        return Err(Error::Operator(format!("`{op}` has a row already")));
    }
    let venv = setup::packages_ready(tree, None)?;
    let overloads = dispatcher::overloads(tree, &venv)?;
    let overload = find(&overloads, op)?;
    let family = family.or_else(|| suggested(overload));
    let path = family_path(family)?;
    let addition = Addition::of(&overload.text, overload.pointwise)?;
    add(&tree.root.join(&path), &addition)?;
    println!("`{}` in `{}`: a row, a stub and a test", op, path.display());
    println!(
        "write the stub, then: UPDATE_EXPECT=1 cargo test -p tpu-ops {}",
        stub::name(&overload.schema)
    );
    Ok(())
}

fn find<'a>(overloads: &'a [Overload], op: &str) -> Result<&'a Overload> {
    let mut functional = overloads.iter().filter(|o| !o.schema.is_mutable());
    functional
        .find(|o| o.schema.full_name() == op)
        .ok_or_else(|| {
            let base = op.split('.').next().unwrap_or(op).trim_end_matches('_');
            let others = overloads
                .iter()
                .filter(|o| o.schema.name == base && !o.schema.is_mutable());
            let others: Vec<_> = others
                .map(|o| format!("`{}`", o.schema.full_name()))
                .collect();
            Error::Operator(match others.as_slice() {
                [] => format!("PyTorch has no functional operator `{op}`"),
                others => format!(
                    "no functional overload `{op}`; there is {}",
                    others.join(", ")
                ),
            })
        })
}

/// The family that a schema suggests.
fn suggested(overload: &Overload) -> Option<&'static str> {
    let args = &overload.schema.args;
    let tensors = args.iter().filter(|arg| arg.ty == "Tensor").count();
    let has = |name: &str| args.iter().any(|arg| arg.name == name);
    match (overload.pointwise, tensors) {
        (true, 1) => Some("pointwise"),
        (true, _) => Some("binary"),
        (false, 1) if has("dim") && has("keepdim") => Some("reduce"),
        _ => None,
    }
}

fn family_path(family: Option<&str>) -> Result<PathBuf> {
    let known = tpu_ops::FAMILIES.iter().map(|(name, _)| *name);
    match family.filter(|family| known.clone().any(|name| name == *family)) {
        Some(family) => Ok(PathBuf::from(format!("crates/tpu-ops/src/{family}.rs"))),
        None => {
            let known: Vec<_> = known.collect();
            let known = known.join(", ");
            Err(Error::Operator(format!(
                "say which with `--family`: {known}"
            )))
        }
    }
}

fn add(path: &Path, addition: &Addition) -> Result<()> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    let grown = grow(&text, addition).ok_or_else(|| Error::Malformed {
        path: path.to_path_buf(),
        why: format!("has no `{OPEN}` that ends in `];`"),
    })?;
    std::fs::write(path, grown).map_err(Error::file("write", path))
}

/// The text of a family with the row in order, the stub behind the functions, the test at the end.
fn grow(text: &str, addition: &Addition) -> Option<String> {
    let (head, rest) = text.split_once(OPEN)?;
    let (rows, rest) = rest.split_once("\n];")?;
    let imports = Imports::of(head);
    let rows = with_row(rows, addition, &imports);
    let stub = stub::function(&addition.schema, &addition.text, &imports);
    let test = stub::test(&addition.schema);
    let rest = match rest.rsplit_once("\n#[cfg(test)]\nmod tests {\n") {
        Some((functions, tests)) => {
            let tests = tests.trim_end().strip_suffix('}')?;
            format!("{functions}\n{stub}\n#[cfg(test)]\nmod tests {{\n{tests}\n{test}}}\n")
        }
        None => format!("{rest}\n{stub}\n#[cfg(test)]\nmod tests {{\n{test}}}\n"),
    };
    Some(format!("{head}{OPEN}{rows}\n];{rest}"))
}

/// The rows with one more, in order and in columns.
fn with_row(rows: &str, addition: &Addition, imports: &Imports<'_>) -> String {
    let name = addition.schema.full_name();
    let word = if addition.pointwise {
        "pointwise"
    } else {
        "op"
    };
    let start = format!(
        "    {}!(\"{name}\",",
        imports.path(word, &format!("crate::op::{word}"))
    );
    let column = rows.lines().find_map(expression_column).unwrap_or(0);
    let pad = column.saturating_sub(start.len()).max(1);
    let row = format!("{start}{:pad$}{}),", "", stub::name(&addition.schema));
    // The first line is the empty rest of the opening one, also where there is no row yet.
    let mut lines: Vec<&str> = rows.split('\n').collect();
    let key = order(&name).to_owned();
    let after = |line: &&str| row_name(line).is_some_and(|other| order(other) > key.as_str());
    let at = lines.iter().position(after).unwrap_or(lines.len());
    lines.insert(at, &row);
    lines.join("\n")
}

/// Where the expression begins in a row.
fn expression_column(line: &str) -> Option<usize> {
    let name_end = line.find("\",")? + 2;
    let gap = line[name_end..].find(|c| c != ' ')?;
    Some(name_end + gap)
}

fn row_name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("!(\"")?;
    Some(rest.split_once('"')?.0)
}

/// Rows are ordered by name; a leading underscore does not count.
fn order(name: &str) -> &str {
    name.trim_start_matches('_')
}

/// Adds rows to a copy and compiles it: one with every kind of parameter to every family, and the
/// one that CONTRIBUTING.md adds, with the body given there.
///
/// # Errors
/// When the copy cannot be made or what was added does not compile.
pub(crate) fn check(tree: &Tree, venv: &Venv) -> Result<()> {
    let copy = tempfile::tempdir().map_err(Error::file("make", Path::new("a folder")))?;
    copy_crates(tree, copy.path())?;
    for (family, _) in tpu_ops::FAMILIES {
        for pointwise in [false, true] {
            let text = PROBE.replace("NAME", &format!("zz_probe_{pointwise}"));
            let path = copy.path().join(family_path(Some(family))?);
            add(&path, &Addition::of(&text, pointwise)?)?;
        }
    }
    add_documented(tree, venv, copy.path())?;
    let mut cargo = tree.cargo();
    let target = tree.target.join("scaffold");
    cargo
        .current_dir(copy.path())
        .env("CARGO_TARGET_DIR", target);
    cargo.args(["check", "--quiet", "--package", "tpu-ops", "--all-targets"]);
    step::run("compiling a row added to every family", &mut cargo)
}

/// A schema with every kind of parameter.
const PROBE: &str = "aten::NAME(Tensor self, Tensor? weight, Tensor[] others, int[2] dim, \
    bool keepdim=False, *, float eps, Scalar alpha=1, Scalar value, str mode, \
    ScalarType? dtype=None, Generator? generator=None, Layout? layout=None) -> (Tensor, Tensor)";

/// Does in the copy at `root` what CONTRIBUTING.md says.
fn add_documented(tree: &Tree, venv: &Venv, root: &Path) -> Result<()> {
    let guide = tree.read(GUIDE)?;
    let shown = documented(&guide).ok_or_else(|| malformed(tree))?;
    let overloads = dispatcher::overloads(tree, venv)?;
    let overload = find(&overloads, shown.op)?;
    let path = root.join(family_path(Some(shown.family))?);
    add(&path, &Addition::of(&overload.text, overload.pointwise)?)?;
    let grown = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
    let stub = format!("/// `{}`", overload.text);
    let (before, rest) = grown.split_once(&stub).ok_or_else(|| malformed(tree))?;
    let (_, after) = rest.split_once("\n}\n").ok_or_else(|| malformed(tree))?;
    let text = format!("{before}{}{after}", shown.body);
    std::fs::write(&path, text).map_err(Error::file("write", &path))
}

const GUIDE: &str = "CONTRIBUTING.md";

fn malformed(tree: &Tree) -> Error {
    Error::Malformed {
        path: tree.root.join(GUIDE),
        why: "shows no `cargo x new OP --family NAME` with a body in Rust".into(),
    }
}

/// What the guide adds: an operator, its family, and the function's text.
struct Shown<'a> {
    op: &'a str,
    family: &'a str,
    body: &'a str,
}

fn documented(guide: &str) -> Option<Shown<'_>> {
    let (_, rest) = guide.split_once("cargo x new ")?;
    let (command, rest) = rest.split_once('\n')?;
    let (op, family) = command.split_once(" --family ")?;
    let (_, rest) = rest.split_once("```rust\n")?;
    let (body, _) = rest.split_once("```")?;
    Some(Shown { op, family, body })
}

/// A workspace of the two crates that a row needs.
fn copy_crates(tree: &Tree, to: &Path) -> Result<()> {
    let write = |name: &Path, text: &str| {
        let path = to.join(name);
        let folder = path.parent().unwrap_or(to);
        std::fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        std::fs::write(&path, text).map_err(Error::file("write", &path))
    };
    let wanted = ["crates/tpu-hlo", "crates/tpu-ops"];
    for file in tree.files()? {
        let inside = wanted.iter().any(|folder| file.starts_with(folder));
        if inside || file == Path::new("Cargo.lock") {
            write(&file, &tree.read(&file)?)?;
        }
    }
    let manifest = tree.read("Cargo.toml")?;
    let kept = manifest
        .lines()
        .filter(|line| !line.starts_with("default-members"));
    write(
        Path::new("Cargo.toml"),
        &kept.collect::<Vec<_>>().join("\n"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: &str = "\
use crate::{Op, Result, op::pointwise};
use tpu_hlo::{Builder, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    pointwise!(\"acos\",     float(|x| x.acos())),
    pointwise!(\"_conj\",    conj),
    pointwise!(\"sin\",      float(|x| x.sin())),
];

/// The conjugate.
fn conj(b: &mut B, x: Value) -> Value {
    b.conj(x)
}
";

    fn add_to(family: &str, text: &str) -> Option<String> {
        grow(family, &Addition::of(text, true).unwrap())
    }

    #[test]
    fn the_guide_adds_what_is_missing() {
        let guide = Tree::find().unwrap().read(GUIDE).unwrap();
        let Shown { op, body, .. } = documented(&guide).unwrap();
        assert!(
            tpu_ops::get(op).is_none(),
            "`{op}` has a row: show another one"
        );
        assert!(body.contains(&format!("fn {op}(")));
    }

    #[test]
    fn row_stub_and_test_take_their_places() {
        let text = "aten::hypot(Tensor self, Tensor other) -> Tensor";
        let grown = add_to(FAMILY, text).unwrap();
        let expected = FAMILY.replace(
            "    pointwise!(\"sin\",      float",
            "    pointwise!(\"hypot\",    hypot),\n    pointwise!(\"sin\",      float",
        ) + "
/// `aten::hypot(Tensor self, Tensor other) -> Tensor`
fn hypot(b: &mut B, x: Value, other: Value) -> Result<Value> {
    let _ = (b, x, other);
    Err(crate::Error::runtime(\"`aten::hypot` has no lowering yet\"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn hypot_lowers() {
        use crate::golden::{T, hlo};
        use tpu_hlo::DType;
        let text = hlo(\"hypot\", &[T(DType::F32, &[2, 3]), T(DType::F32, &[2, 3])], &[]);
        expect_test::expect![\"\"].assert_eq(&text);
    }
}
";
        assert_eq!(grown, expected);
    }

    #[test]
    fn a_second_addition_joins_the_first_ones_tests() {
        let once = add_to(FAMILY, "aten::asin(Tensor self) -> Tensor").unwrap();
        let twice = add_to(&once, "aten::tan(Tensor self) -> Tensor").unwrap();
        assert_eq!(twice.matches("mod tests {").count(), 1);
        assert_eq!(twice.matches("#[test]").count(), 2);
        let rows: Vec<_> = twice.lines().filter_map(row_name).collect();
        assert_eq!(rows, ["acos", "asin", "_conj", "sin", "tan"]);
    }

    #[test]
    fn the_first_row_of_a_family_starts_a_line() {
        let family = format!("use crate::Op;\n\n{OPEN}\n];\n");
        let grown = add_to(&family, "aten::tan(Tensor self) -> Tensor").unwrap();
        let row = format!("{OPEN}\n    crate::op::pointwise!(\"tan\", tan),\n];\n");
        assert!(grown.contains(&row), "{grown}");
    }

    #[test]
    fn a_file_without_rows_is_refused() {
        let text = "aten::tan(Tensor self) -> Tensor";
        assert_eq!(add_to("//! Nothing here.\n", text), None);
    }
}
