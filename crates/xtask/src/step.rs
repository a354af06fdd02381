//! Running other programs so that a person sees what happens and how long it takes.

use crate::error::{Error, Result};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often a step without output of its own says that it is still running.
const PULSE: Duration = Duration::from_secs(30);

/// Announces a step, runs the command with its output shown, and says how long it took.
///
/// # Errors
/// When the command cannot start or reports failure.
pub(crate) fn run(title: &str, command: &mut Command) -> Result<()> {
    announce(title);
    let begin = Instant::now();
    let status = pulsing(title, || command.status()).map_err(start_error(command))?;
    if !status.success() {
        let program = describe(command);
        return Err(Error::Failed { program, status });
    }
    println!("    done in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Prints the title of a step.
pub(crate) fn announce(title: &str) {
    println!("==> {title}");
}

/// Prints a table, which may be cut short by who reads it (`cargo x ops | head`).
pub(crate) fn show(table: &str) {
    let _ = std::io::stdout().write_all(table.as_bytes());
}

/// The standard output of a command that has nothing to say to a person.
///
/// # Errors
/// When the command cannot start, reports failure, or prints what is not UTF-8.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(start_error(command))?;
    if !output.status.success() {
        let (program, status) = (describe(command), output.status);
        return Err(Error::Failed { program, status });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command, shows its standard output as it comes, and hands it to `seen` as well.
/// Returns whether the command reported success.
///
/// # Errors
/// When the command cannot start or its output cannot be read.
pub(crate) fn watch(command: &mut Command, mut seen: impl FnMut(&[u8])) -> Result<bool> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(start_error(command))?;
    if let Some(mut pipe) = child.stdout.take() {
        let mut chunk = [0; 8192];
        loop {
            let length = pipe.read(&mut chunk).map_err(start_error(command))?;
            if length == 0 {
                break;
            }
            seen(&chunk[..length]);
            let mut terminal = std::io::stdout().lock();
            // A closed terminal must not stop the tests whose verdict is still to come.
            let _ = terminal.write_all(&chunk[..length]);
            let _ = terminal.flush();
        }
    }
    Ok(child.wait().map_err(start_error(command))?.success())
}

/// The command as a person would type it, without its environment and the program's folder.
fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

fn start_error(command: &Command) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let program = describe(command);
    move |source| Error::Start { program, source }
}

/// Runs `work` while another thread reports every [`PULSE`] that it still runs.
fn pulsing<T>(title: &str, work: impl FnOnce() -> T) -> T {
    let (done, wait) = mpsc::channel::<()>();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while wait.recv_timeout(PULSE) == Err(RecvTimeoutError::Timeout) {
                println!("    {title}: {} s so far", begin.elapsed().as_secs());
            }
        });
        let result = work();
        drop(done);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_output_arrives_whole_with_the_verdict() {
        let mut seen = Vec::new();
        let script = "printf 'a\\nb\\n'; exit 3";
        let ok = watch(Command::new("sh").args(["-c", script]), |chunk| {
            seen.extend_from_slice(chunk);
        });
        assert!(!ok.unwrap());
        assert_eq!(seen, b"a\nb\n");
    }

    #[test]
    fn a_failing_step_names_its_command() {
        let error = run("fails", Command::new("sh").args(["-c", "exit 7"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 7` failed: exit status: 7");
    }
}
