//! Does a plugin do what this crate relies on?
//!
//! ```sh
//! cargo run -p tpu-pjrt --bin conformance -- <plugin.so> [check]
//! ```
//!
//! Every check runs in a process of its own, so that one that crashes or hangs fails alone. With
//! the name of a check, that one runs in this process.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it reports on the terminal"
)]

/// Fails the check with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {{
        let holds: bool = $condition;
        if !holds {
            return Err(format!($($message)+).into());
        }
    }};
}

mod compile;
mod custom_call;
mod launch;
mod process;
mod program;
mod transfer;

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tpu_pjrt::{Client, Platform, Plugin};

/// A check passes, or says why not.
type Outcome = Result<(), Box<dyn std::error::Error>>;
/// A name and what it stands for.
type Check = (&'static str, fn(&Arc<Plugin>) -> Outcome);

/// No check takes more than a few seconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(120);

fn checks() -> impl Iterator<Item = Check> {
    let families = [
        compile::CHECKS,
        launch::CHECKS,
        transfer::CHECKS,
        process::CHECKS,
        custom_call::CHECKS,
    ];
    families.into_iter().flatten().copied()
}

/// The client that the product would make.
fn client(plugin: &Arc<Plugin>) -> tpu_pjrt::Result<Arc<Client>> {
    Platform::Cpu.client(plugin)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next(), arguments.next()) {
        (Some(plugin), Some(check)) => run_here(&plugin, &check),
        (Some(plugin), None) => run_all(&plugin),
        _ => {
            eprintln!("usage: conformance <plugin.so> [check]");
            ExitCode::from(2)
        }
    }
}

fn run_here(plugin: &str, name: &str) -> ExitCode {
    let Some((_, check)) = checks().find(|(other, _)| *other == name) else {
        eprintln!("unknown check `{name}`");
        return ExitCode::from(2);
    };
    let plugin = Plugin::load(Path::new(plugin));
    match plugin.map_err(Into::into).and_then(|plugin| check(&plugin)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run_all(plugin: &str) -> ExitCode {
    let mut failures = 0;
    for (name, _) in checks() {
        let start = Instant::now();
        let failure = run_apart(plugin, name);
        let time = start.elapsed().as_millis();
        match failure {
            None => println!("ok    {name} ({time} ms)"),
            Some(message) => {
                failures += 1;
                println!("FAIL  {name} ({time} ms): {message}");
            }
        }
    }
    println!("{} checks, {failures} failed", checks().count());
    if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Why the check failed in a process of its own; `None` where it passed.
fn run_apart(plugin: &str, name: &str) -> Option<String> {
    let command = |program| {
        let mut command = Command::new(program);
        command
            .args([plugin, name])
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn()
    };
    match std::env::current_exe().and_then(command) {
        Ok(child) => wait(child),
        Err(error) => Some(format!("cannot start: {error}")),
    }
}

fn wait(mut child: Child) -> Option<String> {
    let start = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if start.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Some(format!("no end after {} s", LIMIT.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    match child.wait_with_output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            Some(format!("{}: {}", output.status, text.trim()))
        }
        Err(error) => Some(format!("cannot wait: {error}")),
    }
}
