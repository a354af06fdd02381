//! `cargo x test`: every test of Rust and Python, and one summary.

use crate::ahead;
use crate::arguments::TestOptions;
use crate::error::{Error, Result};
use crate::setup;
use crate::step;
use crate::tally::{Counter, Tally};
use crate::tree::Tree;
use crate::venv::Venv;
use std::process::Command;
use std::time::{Duration, Instant};

/// The folders of tests that need no models: what runs against a torch that is not pinned.
const QUICK: [&str; 3] = ["tests/none", "tests/tiny", "tests/device"];

/// What one runner reported.
struct Report {
    name: &'static str,
    tally: Tally,
    ok: bool,
    took: Duration,
}

/// Sets up if needed, runs the tests, prints the summary.
///
/// # Errors
/// When the set-up fails, a test fails, or a runner finds no test.
pub(crate) fn run(tree: &Tree, options: &TestOptions) -> Result<()> {
    let venv = setup::ready(tree, options.torch.as_deref())?;
    let mut reports = Vec::new();
    if venv.primary {
        reports.push(measure("cargo test", &mut cargo_test(tree, &venv)?)?);
    }
    reports.push(measure("pytest", &mut pytest(tree, &venv, options))?);
    summarise(&reports)?;
    if options.full && venv.primary {
        ahead::check(tree, &venv)?;
    }
    Ok(())
}

fn cargo_test(tree: &Tree, venv: &Venv) -> Result<Command> {
    let plugins = std::env::join_paths(venv.plugins()).map_err(|_| Error::Missing {
        what: "the path of a plugin holds a colon".into(),
        hint: "move the checkout to a path without colons".into(),
    })?;
    let mut cargo = tree.cargo();
    cargo.args(["test", "--no-fail-fast"]);
    cargo.env("TORCH_TPU_TEST_PLUGINS", plugins);
    Ok(cargo)
}

fn pytest(tree: &Tree, venv: &Venv, options: &TestOptions) -> Command {
    let mut pytest = venv.command(tree, "python");
    pytest.args(["-m", "pytest"]);
    if !venv.primary {
        pytest.args(QUICK);
    }
    if options.full {
        pytest.arg("--full");
    }
    pytest.args(&options.rest);
    pytest
}

fn measure(name: &'static str, command: &mut Command) -> Result<Report> {
    step::announce(name);
    let begin = Instant::now();
    let mut counter = Counter::default();
    let ok = step::watch(command, |piece| counter.feed(piece))?;
    Ok(Report {
        name,
        tally: counter.finish(),
        ok,
        took: begin.elapsed(),
    })
}

fn summarise(reports: &[Report]) -> Result<()> {
    let mut total = Tally::default();
    println!();
    for report in reports {
        let seconds = report.took.as_secs_f64();
        println!("{:<12} {:>7.1} s   {}", report.name, seconds, report.tally);
        total.add(report.tally);
    }
    println!("{total}");
    let findings: Vec<String> = reports.iter().filter_map(complaint).collect();
    if findings.is_empty() {
        return Ok(());
    }
    Err(Error::Broken("tests", findings))
}

fn complaint(report: &Report) -> Option<String> {
    let Report {
        name, tally, ok, ..
    } = report;
    match (ok, tally.failed, tally.passed) {
        (_, failed @ 1.., _) => Some(format!("{name}: {failed} failed")),
        (false, 0, _) => Some(format!("{name}: ended with an error of its own")),
        (true, 0, 0) => Some(format!("{name}: ran no test")),
        (true, 0, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ok: bool, passed: u64, failed: u64) -> Report {
        Report {
            name: "runner",
            tally: Tally {
                passed,
                failed,
                skipped: 0,
            },
            ok,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn only_passing_tests_count_as_success() {
        assert_eq!(complaint(&report(true, 3, 0)), None);
        for (ok, passed, failed) in [(true, 0, 0), (false, 3, 0), (false, 3, 1), (true, 3, 1)] {
            let complaint = complaint(&report(ok, passed, failed));
            assert!(complaint.is_some(), "{ok} {passed} {failed}");
        }
    }
}
