//! The Rust text of a new row: its function and its golden test.

use tpu_ops::schema::{Argument, Schema};

/// What a family's file imports, so that added text names things as the file does.
pub(crate) struct Imports<'a> {
    words: Vec<&'a str>,
}

impl<'a> Imports<'a> {
    /// Reads the text before the rows.
    pub(crate) fn of(head: &'a str) -> Self {
        let code = head
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let split = |line: &'a str| line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let words = code.flat_map(split).collect();
        Self { words }
    }

    /// The short name if the file imports it, else the path.
    pub(crate) fn path(&self, name: &str, path: &str) -> String {
        // The macro `op` lies in a module of the same name: one mention imports only the module.
        let mentions = self.words.iter().filter(|word| **word == name).count();
        let imported = mentions > usize::from(name == "op");
        (if imported { name } else { path }).to_owned()
    }
}

/// The function's name: the operator's with its overload.
pub(crate) fn name(schema: &Schema) -> String {
    let full = schema.full_name().trim_start_matches('_').to_lowercase();
    full.replace('.', "_")
}

/// A function that refuses every call until it is written.
pub(crate) fn function(schema: &Schema, text: &str, imports: &Imports<'_>) -> String {
    let builder = imports.path("Builder", "tpu_hlo::Builder");
    let builder = imports.path("B", &builder);
    let mut parameters = vec![format!("b: &mut {builder}")];
    let mut names = vec!["b".to_owned()];
    for arg in &schema.args {
        let name = parameter_name(&arg.name);
        parameters.push(format!("{name}: {}", rust_type(arg, schema, imports)));
        names.push(name);
    }
    let result = imports.path("Result", "crate::Result");
    let returns = format!("{result}<{}>", returned(schema, text, imports));
    let head = head(&name(schema), &parameters, &returns);
    let (full, names) = (schema.full_name(), names.join(", "));
    format!(
        "{}{head} {{\n    let _ = ({names});\n    Err(crate::Error::runtime(\"`aten::{full}` has \
         no lowering yet\"))\n}}\n",
        comment(text)
    )
}

/// The signature, broken as rustfmt breaks it.
fn head(name: &str, parameters: &[String], returns: &str) -> String {
    let line = format!("fn {name}({}) -> {returns}", parameters.join(", "));
    if line.len() + 2 <= 100 {
        return line;
    }
    let lines: Vec<_> = parameters.iter().map(|p| format!("    {p},\n")).collect();
    format!("fn {name}(\n{}) -> {returns}", lines.concat())
}

/// The schema as a doc comment, until the formula takes its place.
fn comment(text: &str) -> String {
    let mut lines = vec!["///".to_owned()];
    for word in format!("`{text}`").split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= 100 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("/// {word}")),
        }
    }
    lines.join("\n") + "\n"
}

fn parameter_name(name: &str) -> String {
    match name {
        "self" => "x".into(),
        "b" | "in" | "type" | "where" | "fn" | "ref" | "mod" => format!("{name}_"),
        other => other.into(),
    }
}

fn rust_type(arg: &Argument, schema: &Schema, imports: &Imports<'_>) -> String {
    let hlo = |name: &str| imports.path(name, &format!("tpu_hlo::{name}"));
    let ours = |name: &str| imports.path(name, &format!("crate::{name}"));
    let ty = match arg.ty.as_str() {
        "Tensor" => hlo("Value"),
        "Tensor[]" => format!("Vec<{}>", hlo("Value")),
        "Tensor?[]" => format!("Vec<Option<{}>>", hlo("Value")),
        "Scalar" if is_factor(arg, schema) => ours("Factor"),
        "Scalar" => ours("Scalar"),
        "Scalar[]" => format!("Vec<{}>", ours("Scalar")),
        "int" => "i64".into(),
        "int[]" => hlo("Dims"),
        "float" => "f64".into(),
        "float[]" => "Vec<f64>".into(),
        "bool" => "bool".into(),
        "bool[]" => "Vec<bool>".into(),
        "str" => format!("{}<str>", imports.path("Arc", "std::sync::Arc")),
        "ScalarType" => hlo("DType"),
        "Generator" => return ours("Generator"),
        _ => return ours("Ignored"),
    };
    if arg.optional {
        return format!("Option<{ty}>");
    }
    ty
}

fn returned(schema: &Schema, text: &str, imports: &Imports<'_>) -> String {
    let value = imports.path("Value", "tpu_hlo::Value");
    match schema.returns.len() {
        1 if text.ends_with("[]") => format!("Vec<{value}>"),
        1 => value,
        count @ 2..=4 => format!("({})", vec![value; count].join(", ")),
        _ => imports.path("Outs", "crate::Outs"),
    }
}

/// A test that shows the StableHLO of one call.
pub(crate) fn test(schema: &Schema) -> String {
    let name = name(schema);
    let (golden, call) = call(schema);
    let arg = if call.contains("Arg::") { "Arg, " } else { "" };
    let ours = match (arg, golden) {
        ("", golden) => format!("crate::{golden}"),
        (arg, golden) => format!("crate::{{{arg}{golden}}}"),
    };
    let names = ["DType", "Number", "Slot", "Type"];
    let used: Vec<_> = names
        .into_iter()
        .filter(|name| names_type(&call, name))
        .collect();
    let theirs = match used.as_slice() {
        [] => String::new(),
        [one] => format!("        use tpu_hlo::{one};\n"),
        many => format!("        use tpu_hlo::{{{}}};\n", many.join(", ")),
    };
    format!(
        "    #[test]\n    fn {name}_lowers() {{\n        use {ours};\n{theirs}        let text = \
         {call};\n        expect_test::expect![\"\"].assert_eq(&text);\n    }}\n"
    )
}

/// Whether `Type::` stands in the text as a word of its own, not as the end of `DType::`.
fn names_type(text: &str, name: &str) -> bool {
    let path = format!("{name}::");
    let mut found = text.match_indices(&path);
    found.any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
}

/// The call of one of golden.rs's functions, and what it imports from there.
fn call(schema: &Schema) -> (&'static str, String) {
    let full = schema.full_name();
    let leading = |arg: &&Argument| arg.ty == "Tensor" && !arg.optional;
    let tensors = schema.args.iter().take_while(leading).count();
    let values: Vec<_> = (0..schema.args.len())
        .map(|at| argument(at, schema))
        .collect();
    let (operands, rest) = values.split_at(tensors);
    if rest.iter().any(|value| value.contains("b.param(")) {
        let values = values.join(", ");
        return (
            "golden::hlo_with",
            format!("hlo_with(\"{full}\", |b| vec![{values}])"),
        );
    }
    let operands = vec!["T(DType::F32, &[2, 3])"; operands.len()].join(", ");
    let call = format!("hlo(\"{full}\", &[{operands}], &[{}])", rest.join(", "));
    ("golden::{T, hlo}", call)
}

/// Whether a number scales an operand and is mostly 1, as in `self + alpha * other`.
fn is_factor(arg: &Argument, schema: &Schema) -> bool {
    let named = ["alpha", "beta"].contains(&arg.name.as_str());
    let operands = schema
        .args
        .iter()
        .filter(|arg| arg.ty == "Tensor" || arg.name == "other");
    arg.ty == "Scalar" && named && operands.count() > 1
}

/// A plain value for a parameter: tensors of 2 x 3, dimension 0, the number 1 ...
fn argument(at: usize, schema: &Schema) -> String {
    let arg = &schema.args[at];
    let tensor = format!("b.param(Slot::Buffer({at}), Type::new(DType::F32, &[2, 3]))");
    let number = format!("b.param(Slot::Number({at}), Type::new(DType::F64, &[]))");
    match arg.ty.as_str() {
        _ if arg.optional => "Arg::None".into(),
        "Tensor" => format!("Arg::Tensor({tensor})"),
        "Tensor[]" | "Tensor?[]" => format!("Arg::Tensors(vec![Some({tensor})])"),
        "Scalar" if is_factor(arg, schema) => "Arg::Number(Number::Int(1))".into(),
        "Scalar" => format!("Arg::Scalar({number})"),
        "Scalar[]" => format!("Arg::Scalars(vec![{number}])"),
        "int" => "Arg::Number(Number::Int(0))".into(),
        "int[]" => "Arg::Ints(vec![0].into())".into(),
        "float" => "Arg::Number(Number::Float(1.0))".into(),
        "float[]" => "Arg::Floats(vec![1.0])".into(),
        "bool" => "Arg::Number(Number::Bool(false))".into(),
        "bool[]" => "Arg::Bools(vec![true])".into(),
        "str" => "Arg::Str(\"\".into())".into(),
        "ScalarType" => "Arg::DType(DType::F32)".into(),
        _ => "Arg::None".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_follow_the_schema() {
        let text = "aten::_norm.dim(Tensor self, Tensor? w, int[1] dim, bool keepdim=False, *, \
                    Scalar alpha=1, ScalarType? dtype=None, Generator? generator=None, \
                    Layout? layout=None) -> (Tensor, Tensor)";
        let schema = Schema::parse(text).unwrap();
        let imports = Imports::of("use crate::{Op, Result};\nuse tpu_hlo::{Builder, Value};\n");
        let function = function(&schema, text, &imports);
        let head = "\
fn norm_dim(
    b: &mut Builder,
    x: Value,
    w: Option<Value>,
    dim: tpu_hlo::Dims,
    keepdim: bool,
    alpha: crate::Factor,
    dtype: Option<tpu_hlo::DType>,
    generator: crate::Generator,
    layout: crate::Ignored,
) -> Result<(Value, Value)> {
    let _ = (b, x, w, dim, keepdim, alpha, dtype, generator, layout);
";
        assert!(function.contains(head), "{function}");
        assert!(function.lines().all(|line| line.len() <= 100), "{function}");
    }

    #[test]
    fn the_macro_op_is_told_from_its_module() {
        assert_eq!(
            Imports::of("use crate::op::pointwise;").path("op", "crate::op::op"),
            "crate::op::op"
        );
        assert_eq!(
            Imports::of("use crate::op::{op, pointwise};").path("op", "crate::op::op"),
            "op"
        );
    }
}
