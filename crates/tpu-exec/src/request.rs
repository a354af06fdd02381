//! What is asked of [`Programs`](crate::Programs), and by whom.

use crate::{Module, Tier};
use tpu_pjrt::OptionValue;

/// A program that is wanted.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// What to compile.
    pub module: &'a Module,
    /// How hard to try.
    pub tier: Tier,
    /// XLA flags by name, beside those of [`Options::xla_options`](crate::Options::xla_options),
    /// over which they win.
    pub options: &'a [(String, OptionValue)],
    /// What the program does, for people: an operator, or a graph as `graph 3`.
    pub what: &'a str,
    /// Which sizes a graph's program is for, for people; empty where that is no question.
    pub sizes: &'a str,
    /// The line of source that asks, as `train.py:12`. Only called for a program that is not in
    /// memory, and by the thread that asks.
    pub line: &'a dyn Fn() -> String,
    /// Asked every 50 ms of waiting whether to give up.
    pub interrupted: &'a dyn Fn() -> bool,
}

impl<'a> Request<'a> {
    /// By nobody who could be named, and who is patient.
    pub fn new(module: &'a Module, tier: Tier) -> Request<'a> {
        Request {
            module,
            tier,
            options: &[],
            what: "",
            sizes: "",
            line: &String::new,
            interrupted: &|| false,
        }
    }
}
