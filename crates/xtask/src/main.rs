//! The front door of the repository: `cargo x <task>`.
//!
//! Every task that the documentation, the tests or CI mention is one function here, so that a
//! newcomer, a developer and CI run the same thing.
#![expect(
    clippy::print_stdout,
    reason = "a command-line program answers on standard output"
)]

mod ahead;
mod arguments;
mod arrows;
mod check;
mod dispatcher;
mod docs;
mod error;
mod extension;
mod ops;
mod requirements;
mod run;
mod scaffold;
mod setup;
mod size;
mod stamp;
mod step;
mod stub;
mod tally;
mod test;
mod tree;
mod venv;

use arguments::Task;
use error::Result;
use std::process::ExitCode;
use tree::Tree;

fn main() -> ExitCode {
    match arguments::parse(std::env::args().skip(1)).and_then(perform) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> Result<()> {
    let tree = Tree::find()?;
    match task {
        Task::Help => {
            println!("{}", arguments::HELP);
            Ok(())
        }
        Task::Setup { torch } => setup::run(&tree, torch.as_deref()),
        Task::Demo { rest } => run::demo(&tree, &rest),
        Task::Test(options) => test::run(&tree, &options),
        Task::Check => check::run(&tree),
        Task::Bench { rest } => run::bench(&tree, &rest),
        Task::Ops { missing: true } => ops::missing(&tree),
        Task::Ops { missing: false } => {
            ops::list();
            Ok(())
        }
        Task::New { op, family } => scaffold::new(&tree, &op, family.as_deref()),
        Task::Docs => docs::write(&tree),
        Task::Size => size::run(&tree),
        Task::Tpu => ahead::run(&tree),
        Task::Wheel { torch } => extension::wheel(&tree, torch.as_deref()),
    }
}
