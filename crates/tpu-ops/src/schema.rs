//! Schema strings of the dispatcher, and which row serves which overload.
//!
//! Rows exist for functional names only. [`plan`] finds, by signature alone, the row that serves
//! an in-place or `out=` overload, so that no such form is ever written by hand.
mod agreement;

use crate::{Op, get};
pub use agreement::{disagreements, mismatch};
use rustc_hash::FxHashMap;

/// A parsed operator schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    /// Name without namespace and overload, as `add_`.
    pub name: String,
    /// Overload, empty for the default one.
    pub overload: String,
    /// Parameters in order.
    pub args: Vec<Argument>,
    /// Results: whether each is an alias of an argument that the call writes.
    pub returns: Vec<bool>,
}

/// A parameter of a [`Schema`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// Name, as `self`.
    pub name: String,
    /// Type without sizes, alias marks, `Sym` and outer `?`: `Tensor`, `Tensor?[]`, `int[]`.
    pub ty: String,
    /// Whether `None` is accepted.
    pub optional: bool,
    /// Whether the call writes it (`(a!)`).
    pub mutable: bool,
    /// Whether it can only be given by name.
    pub kwarg_only: bool,
}

/// How a call of one overload is served.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The row.
    pub op: &'static Op,
    /// For each parameter of the row the argument of the call.
    pub args: Vec<usize>,
    /// Leading results of the row that become new tensors.
    pub fresh: usize,
    /// Arguments of the call that the remaining results are written into, in order.
    pub mutated: Vec<usize>,
    /// `mutated` are `out=` arguments: they are resized, and their dtype only has to be able to
    /// hold the result.
    pub out: bool,
    /// The row wants the dtype of the first `out=` argument as a last argument: it is named after
    /// an overload with `out=` that computes by it, as `arange.start_out` or `cumsum.out`.
    pub dtype_of_out: bool,
}

impl Schema {
    /// Parses `aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)`.
    /// `None` for text that is no schema.
    pub fn parse(text: &str) -> Option<Self> {
        let open = text.find('(')?;
        let full = text[..open].rsplit("::").next()?;
        let (name, overload) = full.split_once('.').unwrap_or((full, ""));
        let close = closing(text, open)?;
        let mut kwarg_only = false;
        let mut args = Vec::new();
        for part in split_top(&text[open + 1..close]) {
            if part == "*" {
                kwarg_only = true;
            } else {
                args.push(Argument::parse(part, kwarg_only)?);
            }
        }
        let returns = text[close..].split_once("->")?.1.trim();
        let returns = match returns.strip_prefix('(').and_then(|r| r.strip_suffix(')')) {
            Some(list) => split_top(list),
            None => vec![returns],
        };
        let returns = returns
            .iter()
            .filter(|r| !r.is_empty())
            .map(|r| r.contains('!'))
            .collect();
        Some(Self {
            name: name.into(),
            overload: overload.into(),
            args,
            returns,
        })
    }

    /// `name.overload`, or the name alone for the default overload.
    pub fn full_name(&self) -> String {
        if self.overload.is_empty() {
            self.name.clone()
        } else {
            format!("{}.{}", self.name, self.overload)
        }
    }

    /// Whether the call writes an argument.
    pub fn is_mutable(&self) -> bool {
        self.args.iter().any(|a| a.mutable)
    }

    /// Whether the written arguments are `out=` ones.
    pub fn is_out(&self) -> bool {
        self.args.iter().any(|a| a.mutable && a.kwarg_only)
    }

    fn read_args(&self) -> impl Iterator<Item = (usize, &Argument)> {
        let out = self.is_out();
        self.args
            .iter()
            .enumerate()
            .filter(move |(_, a)| !(out && a.mutable && a.kwarg_only))
    }

    fn same_parameters(&self, functional: &Self) -> bool {
        let mine = self.read_args().map(|(_, a)| (&a.ty, a.optional));
        mine.eq(functional.args.iter().map(|a| (&a.ty, a.optional)))
    }
}

impl Argument {
    fn parse(text: &str, kwarg_only: bool) -> Option<Self> {
        let text = text.split('=').next()?.trim();
        let (ty, name) = text.rsplit_once(' ')?;
        let mutable = ty.contains('!');
        let mut plain = String::new();
        let mut depth = 0;
        for c in ty.chars() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                c if depth == 0 && !c.is_ascii_digit() && c != ' ' => plain.push(c),
                _ => {}
            }
        }
        let optional = plain.ends_with('?');
        let plain = plain
            .trim_end_matches('?')
            .replace("SymInt", "int")
            .replace("Sym", "");
        Some(Self {
            name: name.into(),
            ty: plain,
            optional,
            mutable,
            kwarg_only,
        })
    }
}

fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    text[open..].char_indices().find_map(|(i, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (depth == 0).then_some(open + i)
    })
}

fn split_top(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

/// Overloads that write arguments which their schema does not mark: the positions.
const UNMARKED: &[(&str, &[usize])] = &[
    ("batch_norm_gather_stats", &[3, 4]),
    ("batch_norm_gather_stats_with_counts", &[3, 4]),
    ("batch_norm_update_stats", &[1, 2]),
    ("native_batch_norm", &[3, 4]),
];

/// Overloads that add to what their `out=` holds, so that it is not resized: their row gets it as
/// its last parameter, as an in-place form gets `self`.
const ACCUMULATING: &[&str] = &["_compute_linear_combination.out"];

/// Plans every overload that a row serves; the result is parallel to `schemas`.
pub fn plan(schemas: &[Schema]) -> Vec<Option<Plan>> {
    let mut functional: FxHashMap<&str, Vec<&Schema>> = FxHashMap::default();
    for schema in schemas.iter().filter(|s| !s.is_mutable()) {
        functional.entry(&schema.name).or_default().push(schema);
    }
    schemas
        .iter()
        .map(|s| {
            if s.is_mutable() {
                mutable(s, &functional)
            } else {
                direct(s)
            }
        })
        .collect()
}

/// Arguments that an overload writes without a mark in its schema.
fn unmarked(schema: &Schema) -> &'static [usize] {
    let found = UNMARKED.iter().find(|(name, _)| *name == schema.name);
    found.map_or(&[], |(_, positions)| positions)
}

fn direct(schema: &Schema) -> Option<Plan> {
    let op = get(&schema.full_name())?;
    Some(Plan {
        op,
        args: (0..schema.args.len()).collect(),
        fresh: schema.returns.len(),
        mutated: unmarked(schema).to_vec(),
        out: false,
        dtype_of_out: false,
    })
}

/// What the functional form of `name` can be called: `add` for `add_`, `__lshift__` for
/// `__ilshift__`, `_linalg_eigvals` for `linalg_eigvals`.
fn functional_names(name: &str) -> [String; 3] {
    let operator = name.strip_prefix("__i").filter(|rest| rest.ends_with("__"));
    let base = match operator {
        Some(rest) => format!("__{rest}"),
        None => name.strip_suffix('_').unwrap_or(name).to_owned(),
    };
    let (functional, hidden) = (format!("{base}_functional"), format!("_{base}"));
    [base, functional, hidden]
}

fn mutable(schema: &Schema, functional: &FxHashMap<&str, Vec<&Schema>>) -> Option<Plan> {
    let own = get(&schema.full_name());
    let op = own.or_else(|| {
        functional_names(&schema.name)
            .iter()
            .filter_map(|name| functional.get(name.as_str()))
            .flatten()
            .filter(|f| schema.same_parameters(f))
            .find_map(|f| get(&f.full_name()))
    })?;
    let mutable = |i: &usize| schema.args[*i].mutable;
    let of_out = |i: &usize| schema.args[*i].kwarg_only;
    // Results come first in a row, then the new values of what is written besides.
    let (mut mutated, others): (Vec<_>, Vec<_>) =
        (0..schema.args.len()).filter(mutable).partition(of_out);
    mutated.extend(others.iter().chain(unmarked(schema)));
    let accumulates = ACCUMULATING.contains(&schema.full_name().as_str());
    Some(Plan {
        op,
        args: if accumulates {
            (0..schema.args.len()).collect()
        } else {
            schema.read_args().map(|(i, _)| i).collect()
        },
        fresh: schema.returns.iter().filter(|alias| !**alias).count(),
        mutated,
        out: schema.is_out() && !accumulates,
        dtype_of_out: own.is_some() && !accumulates,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Schema {
        Schema::parse(text).unwrap()
    }

    #[test]
    fn sizes_symbols_aliases_and_defaults_go() {
        let s = parse(
            "aten::max_pool2d.x(Tensor(a!) self, SymInt[2]? k=[1, 2], *, str mode=\"a\", \
             Tensor(b!)[] out) -> (Tensor(a!), int)",
        );
        let got: Vec<_> = s
            .args
            .iter()
            .map(|a| {
                (
                    a.name.as_str(),
                    a.ty.as_str(),
                    a.optional,
                    a.mutable,
                    a.kwarg_only,
                )
            })
            .collect();
        assert_eq!(
            got,
            [
                ("self", "Tensor", false, true, false),
                ("k", "int[]", true, false, false),
                ("mode", "str", false, false, true),
                ("out", "Tensor[]", false, true, true),
            ]
        );
        assert_eq!(
            (s.full_name().as_str(), s.returns),
            ("max_pool2d.x", vec![true, false])
        );
    }

    #[test]
    fn twins_are_found_by_signature() {
        let schemas = [
            parse("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
            parse(
                "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
            ),
            parse(
                "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) \
                 -> Tensor(a!)",
            ),
            parse("aten::no_such_op(Tensor self) -> Tensor"),
        ];
        let plans = plan(&schemas);
        let brief = |p: &Option<Plan>| {
            p.as_ref()
                .map(|p| (p.op.name, p.args.clone(), p.fresh, p.mutated.clone(), p.out))
        };
        assert_eq!(
            brief(&plans[0]),
            Some(("add.Tensor", vec![0, 1, 2], 1, vec![], false))
        );
        assert_eq!(
            brief(&plans[1]),
            Some(("add.Tensor", vec![0, 1, 2], 0, vec![0], false))
        );
        assert_eq!(
            brief(&plans[2]),
            Some(("add.Tensor", vec![0, 1, 2], 0, vec![3], true))
        );
        assert_eq!(brief(&plans[3]), None);
    }

    #[test]
    fn functional_forms_have_other_names() {
        let schemas = [
            parse("aten::__lshift__.Tensor(Tensor self, Tensor other) -> Tensor"),
            parse("aten::_linalg_eigvals(Tensor self) -> Tensor"),
            parse("aten::_philox_normal(Tensor self, Tensor key, float mean, float std) -> Tensor"),
            parse("aten::__ilshift__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"),
            parse("aten::linalg_eigvals.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"),
            parse(
                "aten::_philox_normal_(Tensor(a!) self, Tensor key, float mean, float std) \
                 -> Tensor(a!)",
            ),
        ];
        let plans = plan(&schemas);
        for (row, form) in [(0, 3), (1, 4), (2, 5)] {
            let [row, form] = [row, form].map(|i| plans[i].as_ref().map(|p: &Plan| p.op.name));
            assert!(row.is_some() && row == form, "{row:?} {form:?}");
        }
    }

    #[test]
    fn results_stand_before_what_is_written_besides() {
        let written = |text: &str| {
            let twin = parse(
                "aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? \
                 bias, Tensor running_mean, Tensor running_var, bool training, float momentum, \
                 float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
            );
            let plans = plan(&[twin, parse(text)]);
            plans[1].as_ref().map(|p| p.mutated.clone())
        };
        let legit = "aten::_native_batch_norm_legit.out(Tensor input, Tensor? weight, Tensor? bias, \
                     Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float \
                     momentum, float eps, *, Tensor(d!) out, Tensor(e!) save_mean, Tensor(f!) \
                     save_invstd) -> (Tensor(d!), Tensor(e!), Tensor(f!))";
        assert_eq!(written(legit), Some(vec![8, 9, 10, 3, 4]));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC{0,60}") {
            let _ = Schema::parse(&text);
        }

        #[test]
        fn argument_count_is_kept(n in 0usize..12) {
            let args = (0..n).map(|i| format!("int[{i}] x{i}=[0, 1]")).collect::<Vec<_>>();
            let s = parse(&format!("aten::f({}) -> ()", args.join(", ")));
            prop_assert_eq!((s.args.len(), s.returns.len()), (n, 0));
        }
    }
}
