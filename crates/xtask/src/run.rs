//! The tasks that are Python programs: the demo and the benchmarks.

use crate::error::Result;
use crate::setup;
use crate::step;
use crate::tree::Tree;

/// `cargo x demo`: real models on the CPU and on `tpu`, side by side.
///
/// # Errors
/// When the set-up fails or the results do not agree.
pub(crate) fn demo(tree: &Tree, rest: &[String]) -> Result<()> {
    python(tree, "running the demo", "examples/demo.py", rest)
}

/// `cargo x bench`: ratios to PyTorch on the CPU, measured in one run.
///
/// # Errors
/// When the set-up or a benchmark fails.
pub(crate) fn bench(tree: &Tree, rest: &[String]) -> Result<()> {
    python(tree, "running the benchmarks", "benches/bench.py", rest)
}

fn python(tree: &Tree, title: &str, script: &str, rest: &[String]) -> Result<()> {
    let venv = setup::ready(tree, None)?;
    let mut command = venv.command(tree, "python");
    step::run(title, command.arg(script).args(rest))
}
