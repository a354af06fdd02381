//! Why a program is new: what the nearest earlier one had otherwise.

use crate::Module;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fmt;
use tpu_pjrt::Shape;

/// Programs of one kind that are remembered.
const REMEMBERED: usize = 8;

/// What tells a program from those before it in its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No program before it has the same operations in the same order.
    Operations,
    /// The nearest has arguments of other types.
    Types {
        /// Its id.
        before: u64,
        /// Each argument that differs: its index, its type now, its type then.
        inputs: Vec<(usize, Shape, Shape)>,
    },
    /// The nearest has the same operations and argument types, but other attributes, constants,
    /// wiring, options or tier.
    Details {
        /// Its id.
        before: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Operations => out.write_str("new operations"),
            Reason::Details { before } => write!(out, "other details than program {before}"),
            Reason::Types { before, inputs } => {
                for (index, now, then) in inputs {
                    write!(out, "input {index} is {now}, was {then}; ")?;
                }
                write!(out, "else as program {before}")
            }
        }
    }
}

/// The programs made so far, by the operations that they consist of.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<FxHashMap<blake3::Hash, VecDeque<Past>>>);

#[derive(Debug)]
struct Past {
    id: u64,
    inputs: Vec<Shape>,
}

impl History {
    /// Says what is new about `module`, and remembers it as program `id`.
    pub(crate) fn explain(&self, id: u64, module: &Module) -> Reason {
        let mut history = self.0.lock();
        let kin = history.entry(operations(&module.text)).or_default();
        let reason = nearest(kin, module);
        if kin.len() == REMEMBERED {
            kin.pop_front();
        }
        kin.push_back(Past {
            id,
            inputs: module.inputs.clone(),
        });
        reason
    }

    /// Says what is new about a program that is not made.
    pub(crate) fn compare(&self, module: &Module) -> Reason {
        let history = self.0.lock();
        let kin = history.get(&operations(&module.text));
        kin.map_or(Reason::Operations, |kin| nearest(kin, module))
    }
}

fn nearest(kin: &VecDeque<Past>, module: &Module) -> Reason {
    kin.iter()
        .rev()
        .filter_map(|past| past.compare(&module.inputs))
        .min_by_key(|reason| match reason {
            Reason::Types { inputs, .. } => inputs.len(),
            _ => 0,
        })
        .unwrap_or(Reason::Operations)
}

impl Past {
    /// `None` where even the number of arguments differs.
    fn compare(&self, inputs: &[Shape]) -> Option<Reason> {
        if inputs.len() != self.inputs.len() {
            return None;
        }
        let pairs = inputs.iter().zip(&self.inputs).enumerate();
        let differ = pairs.filter(|(_, (now, then))| now != then);
        let inputs: Vec<_> = differ
            .map(|(i, (now, then))| (i, now.clone(), then.clone()))
            .collect();
        let before = self.id;
        Some(match inputs.is_empty() {
            true => Reason::Details { before },
            false => Reason::Types { before, inputs },
        })
    }
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

    fn module(op: &str, sizes: &[i64]) -> Module {
        let inputs = sizes
            .iter()
            .map(|size| Shape::new(ElementType::F32, &[*size]))
            .collect();
        let text = format!("%0 = \"stablehlo.{op}\"(%a) : ({sizes:?})");
        Module {
            text,
            inputs,
            outputs: Vec::new(),
        }
    }

    #[test]
    fn the_nearest_program_is_named() {
        let history = History::default();
        let explain = |id, op, sizes: &[i64]| history.explain(id, &module(op, sizes)).to_string();
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
        assert_eq!(explain(5, "add", &[9, 128]), "other details than program 4");
        assert_eq!(explain(6, "add", &[9]), "new operations");
    }

    #[test]
    fn only_the_last_few_are_remembered() {
        let history = History::default();
        for id in 1..=20 {
            history.explain(id, &module("add", &[id as i64]));
        }
        let oldest = 20 - REMEMBERED as u64 + 1;
        let reason = history.explain(21, &module("add", &[oldest as i64]));
        assert_eq!(reason, Reason::Details { before: oldest });
        let reason = history.explain(22, &module("add", &[oldest as i64 - 1]));
        assert!(matches!(reason, Reason::Types { .. }), "{reason}");
    }
}
