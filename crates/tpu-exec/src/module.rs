//! What is compiled: a module and how much effort it is worth.

use std::fmt;
use tpu_obs::counters::Effort;
use tpu_pjrt::{Shape, Signature};

/// A StableHLO module with one public function `main`.
///
/// Equal text means the same program: the text must be printed the same way each time. Inputs that
/// the program may overwrite are marked in the text (`tf.aliasing_output`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// StableHLO text.
    pub text: String,
    /// The shapes of `main`'s arguments, in order.
    pub inputs: Vec<Shape>,
    /// How many of the last arguments nothing reads: memory for results. A program has them by its
    /// sizes, so they do not tell two kinds of program apart.
    pub spares: usize,
    /// The shapes of its results, in order.
    pub outputs: Vec<Shape>,
}

/// How hard the compiler tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// About a third of the compile time; for programs of one op, which then run as fast.
    Quick,
    /// The compiler's default.
    Full,
}

impl Module {
    /// The shapes of the arguments that something reads.
    pub(crate) fn read(&self) -> &[Shape] {
        &self.inputs[..self.inputs.len() - self.spares]
    }

    pub(crate) fn signature(&self) -> Signature {
        Signature {
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
        }
    }

    /// The types of `main`, such as `f32[2,3] i32[] -> f32[2,3]`.
    pub fn types(&self) -> String {
        format!("{} -> {}", list(&self.inputs), list(&self.outputs))
    }
}

impl Tier {
    /// `quick` or `full`.
    pub fn word(self) -> &'static str {
        match self {
            Tier::Quick => "quick",
            Tier::Full => "full",
        }
    }

    pub(crate) fn effort(self) -> Effort {
        match self {
            Tier::Quick => Effort::Quick,
            Tier::Full => Effort::Full,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

fn list(shapes: &[Shape]) -> String {
    shapes
        .iter()
        .map(Shape::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}
