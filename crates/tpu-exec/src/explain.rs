//! Why a program is new: what the nearest earlier one had otherwise.

use crate::{Module, Tier};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use tpu_pjrt::Shape;

/// Programs of one kind that are remembered.
const REMEMBERED: usize = 8;

/// Characters of a line of a module that are shown.
const SHOWN: usize = 120;

/// What tells a program from those before it in its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No program before it has the same operations in the same order.
    Operations,
    /// The nearest, `before`, has arguments of other types.
    Types {
        /// Its id.
        before: u64,
        /// Each argument that differs: its index, its type now, its type then.
        inputs: Vec<(usize, Shape, Shape)>,
    },
    /// The nearest has the same operations and arguments, but results of other types: a number
    /// decided them.
    Results {
        /// Its id.
        before: u64,
        /// Each result that differs, as for the arguments.
        outputs: Vec<(usize, Shape, Shape)>,
    },
    /// The nearest has another number where this one has a constant.
    Constant {
        /// Its id.
        before: u64,
        /// The line of the module now.
        now: String,
        /// The line then.
        then: String,
    },
    /// The nearest has an operation with other attributes or wiring.
    Attribute {
        /// Its id.
        before: u64,
        /// The line of the module now.
        now: String,
        /// The line then.
        then: String,
    },
    /// The same module was compiled with other options.
    Options {
        /// Its program.
        before: u64,
    },
    /// The same module was compiled with other effort.
    Tier {
        /// Its program.
        before: u64,
        /// How.
        then: Tier,
    },
    /// The same program was there and was forgotten.
    Again {
        /// Its program.
        before: u64,
    },
}

impl Reason {
    /// The reason in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Reason::Operations => "operations",
            Reason::Types { inputs: list, .. } | Reason::Results { outputs: list, .. } => {
                match list.iter().any(|(_, now, then)| now.ty != then.ty) {
                    true => "dtype",
                    false => "shape",
                }
            }
            Reason::Constant { .. } => "constant",
            Reason::Attribute { .. } => "attribute",
            Reason::Options { .. } => "options",
            Reason::Tier { .. } => "tier",
            Reason::Again { .. } => "again",
        }
    }

    /// How far the nearest program is.
    fn distance(&self) -> usize {
        match self {
            Reason::Again { .. } | Reason::Options { .. } | Reason::Tier { .. } => 0,
            Reason::Constant { .. } => 1,
            Reason::Attribute { .. } => 2,
            Reason::Results { .. } => 3,
            Reason::Types { inputs, .. } => 3 + inputs.len(),
            Reason::Operations => usize::MAX,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = |kind, list: &[(usize, Shape, Shape)], before| {
            for (index, now, then) in list {
                write!(out, "{kind} {index} is {now}, was {then}; ")?;
            }
            write!(out, "else as program {before}")
        };
        match self {
            Reason::Operations => out.write_str("new operations"),
            Reason::Types { before, inputs } => list("input", inputs, before),
            Reason::Results { before, outputs } => list("result", outputs, before),
            Reason::Constant { before, now, then } | Reason::Attribute { before, now, then } => {
                write!(out, "`{now}`, was `{then}`; else as program {before}")
            }
            Reason::Options { before } => write!(out, "other options than program {before}"),
            Reason::Tier { before, then } => {
                write!(out, "program {before} at another tier, {then}")
            }
            Reason::Again { before } => write!(out, "program {before} was forgotten"),
        }
    }
}

/// A program as far as reasons go.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) module: Arc<Module>,
    pub(crate) tier: Tier,
    /// Its options as text.
    pub(crate) options: Arc<str>,
}

/// The programs made so far, by the operations that they consist of.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<FxHashMap<blake3::Hash, VecDeque<Past>>>);

#[derive(Debug)]
struct Past {
    id: u64,
    subject: Subject,
}

impl History {
    /// Says what is new about `subject`, and remembers it as program `id`.
    pub(crate) fn explain(&self, id: u64, subject: &Subject) -> Reason {
        let mut history = self.0.lock();
        let kin = history.entry(operations(&subject.module.text)).or_default();
        let reason = nearest(kin, subject);
        if kin.len() == REMEMBERED {
            kin.pop_front();
        }
        kin.push_back(Past {
            id,
            subject: subject.clone(),
        });
        reason
    }

    /// Says what is new about a program that is not made.
    pub(crate) fn compare(&self, subject: &Subject) -> Reason {
        let history = self.0.lock();
        let kin = history.get(&operations(&subject.module.text));
        kin.map_or(Reason::Operations, |kin| nearest(kin, subject))
    }
}

fn nearest(kin: &VecDeque<Past>, subject: &Subject) -> Reason {
    kin.iter()
        .rev()
        .filter_map(|past| past.compare(subject))
        .min_by_key(Reason::distance)
        .unwrap_or(Reason::Operations)
}

impl Past {
    /// `None` where even the number of arguments or results differs.
    fn compare(&self, subject: &Subject) -> Option<Reason> {
        let (now, then) = (&*subject.module, &*self.subject.module);
        let (read, read_then) = (now.read(), then.read());
        if (read.len(), now.outputs.len()) != (read_then.len(), then.outputs.len()) {
            return None;
        }
        let before = self.id;
        let inputs = differing(read, read_then);
        if !inputs.is_empty() {
            return Some(Reason::Types { before, inputs });
        }
        if now.text == then.text {
            return Some(self.compiled_otherwise(subject));
        }
        let outputs = differing(&now.outputs, &then.outputs);
        if !outputs.is_empty() {
            return Some(Reason::Results { before, outputs });
        }
        let mut pairs = now.text.lines().zip(then.text.lines());
        let (now, then) = pairs.find(|(now, then)| now != then)?;
        let constant = now.contains("stablehlo.constant");
        let (now, then) = (shown(now, then), shown(then, now));
        Some(match constant {
            true => Reason::Constant { before, now, then },
            false => Reason::Attribute { before, now, then },
        })
    }

    fn compiled_otherwise(&self, subject: &Subject) -> Reason {
        let (before, then) = (self.id, self.subject.tier);
        if then != subject.tier {
            Reason::Tier { before, then }
        } else if self.subject.options != subject.options {
            Reason::Options { before }
        } else {
            Reason::Again { before }
        }
    }
}

fn differing(now: &[Shape], then: &[Shape]) -> Vec<(usize, Shape, Shape)> {
    let pairs = now.iter().zip(then).enumerate();
    pairs
        .filter(|(_, (now, then))| now != then)
        .map(|(i, (now, then))| (i, now.clone(), then.clone()))
        .collect()
}

/// The operation of a line; of a long one its name and where it differs from `other`.
fn shown(line: &str, other: &str) -> String {
    let operation = |line| {
        str::trim(line)
            .split_once(" = ")
            .map_or(line, |(_, rest)| rest)
    };
    let (line, other) = (operation(line), operation(other));
    if line.len() <= SHOWN {
        return line.trim().to_owned();
    }
    let same = line.chars().zip(other.chars()).take_while(|(a, b)| a == b);
    let name: String = line.chars().take_while(|c| *c != '(').collect();
    let start = same
        .count()
        .saturating_sub(SHOWN / 4)
        .max(name.chars().count());
    let excerpt: String = line.chars().skip(start).take(SHOWN / 2).collect();
    format!("{name} ...{excerpt}...")
}

/// A hash of the names of all operations in `text`, in order.
fn operations(text: &str) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    for (at, _) in text.match_indices("stablehlo.") {
        let name = &text[at..];
        let end = name.find(|c| !in_name(c)).unwrap_or(name.len());
        hasher.update(&name.as_bytes()[..end]).update(b"\n");
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tpu_pjrt::ElementType;

    fn subject(op: &str, sizes: &[i64]) -> Subject {
        let inputs = sizes
            .iter()
            .map(|size| Shape::new(ElementType::F32, &[*size]))
            .collect();
        let text = format!("%0 = \"stablehlo.{op}\"(%a) : ({sizes:?})");
        let module = Module {
            text,
            inputs,
            spares: 0,
            outputs: Vec::new(),
        };
        Subject {
            module: Arc::new(module),
            tier: Tier::Quick,
            options: "".into(),
        }
    }

    fn changed(op: &str, change: impl FnOnce(&mut Module)) -> Subject {
        let mut subject = subject(op, &[8]);
        let mut module = (*subject.module).clone();
        change(&mut module);
        subject.module = Arc::new(module);
        subject
    }

    #[test]
    fn the_nearest_program_is_named() {
        let history = History::default();
        let explain = |id, op, sizes: &[i64]| history.explain(id, &subject(op, sizes)).to_string();
        assert_eq!(explain(1, "add", &[8, 128]), "new operations");
        assert_eq!(explain(2, "mul", &[8, 128]), "new operations");
        assert_eq!(
            explain(3, "add", &[8, 129]),
            "input 1 is f32[129], was f32[128]; else as program 1"
        );
        assert_eq!(
            explain(4, "add", &[9, 128]),
            "input 0 is f32[9], was f32[8]; else as program 1"
        );
        assert_eq!(explain(5, "add", &[9, 128]), "program 4 was forgotten");
        assert_eq!(explain(6, "add", &[9]), "new operations");
    }

    #[test]
    fn each_difference_has_its_word() {
        let history = History::default();
        history.explain(1, &subject("add", &[8]));
        let word = |subject: Subject| history.compare(&subject).word();
        assert_eq!(word(subject("add", &[9])), "shape");
        let other = ElementType::S32;
        assert_eq!(word(changed("add", |m| m.inputs[0].ty = other)), "dtype");
        assert_eq!(word(changed("add", |m| m.text += " ")), "attribute");
        let (mut tier, mut options) = (subject("add", &[8]), subject("add", &[8]));
        tier.tier = Tier::Full;
        options.options = "xla_flag".into();
        assert_eq!((word(tier), word(options)), ("tier", "options"));
    }

    #[test]
    fn memory_for_results_is_no_argument() {
        let history = History::default();
        let spared = changed("add", |module| {
            module.inputs.push(module.inputs[0].clone());
            module.spares = 1;
        });
        history.explain(1, &spared);
        let reason = history.compare(&subject("add", &[9000])).to_string();
        assert_eq!(
            reason,
            "input 0 is f32[9000], was f32[8]; else as program 1"
        );
    }

    #[test]
    fn a_constant_is_shown() {
        let history = History::default();
        let constant = |value: &str| {
            let text = format!("%0 = stablehlo.constant dense<{value}> : tensor<f32>");
            changed("add", |module| module.text = text)
        };
        history.explain(1, &constant("2.0"));
        let reason = history.compare(&constant("2.5"));
        assert_eq!(reason.word(), "constant");
        assert_eq!(
            reason.to_string(),
            "`stablehlo.constant dense<2.5> : tensor<f32>`, was \
             `stablehlo.constant dense<2.0> : tensor<f32>`; else as program 1"
        );
    }

    #[test]
    fn of_a_long_line_the_difference_is_shown() {
        let line = |word| format!("%1 = \"stablehlo.dot\"(%0) <{{{}{word}}}>", "x".repeat(200));
        let said = shown(&line("HIGHEST"), &line("DEFAULT"));
        let before = "x".repeat(SHOWN / 4);
        assert_eq!(said, format!("\"stablehlo.dot\" ...{before}HIGHEST}}>..."));
    }

    #[test]
    fn only_the_last_few_are_remembered() {
        let history = History::default();
        for id in 1..=20 {
            history.explain(id, &subject("add", &[id as i64]));
        }
        let oldest = 20 - REMEMBERED as u64 + 1;
        let reason = history.explain(21, &subject("add", &[oldest as i64]));
        assert_eq!(reason, Reason::Again { before: oldest });
        let reason = history.explain(22, &subject("add", &[oldest as i64 - 1]));
        assert!(matches!(reason, Reason::Types { .. }), "{reason}");
    }
}
