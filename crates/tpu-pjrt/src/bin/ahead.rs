//! Which StableHLO modules does a TPU's compiler take?
//!
//! ```sh
//! ls *.mlir | cargo run -p tpu-pjrt --bin ahead -- <libtpu.so> v5e:2x2 [seconds]
//! ```
//!
//! Reads paths of modules, one a line, and prints one JSON line for each: `module`, `seconds`, and
//! `error` unless it compiled. No TPU is needed. The compiler runs in a process of its own, which
//! is started anew where a module ends it or takes more than `seconds` (60).
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it reports on the terminal"
)]

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tpu_pjrt::{CompileOptions, Plugin, Topology};

/// The word that makes this process the one that compiles.
const HERE: &str = "--here";

/// Starting includes reading a library of half a gigabyte from disk.
const START: Duration = Duration::from_secs(120);

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        [plugin, topology, HERE] => compile_here(plugin, topology),
        [plugin, topology] => compile_apart(plugin, topology, 60),
        [plugin, topology, seconds] => match seconds.parse() {
            Ok(seconds) => compile_apart(plugin, topology, seconds),
            Err(error) => Err(error.into()),
        },
        _ => Err("usage: ahead <libtpu.so> <topology> [seconds] < paths".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers for each path on standard input; an empty line says that the compiler is there.
fn compile_here(plugin: &str, topology: &str) -> Outcome {
    let plugin = Plugin::load(Path::new(plugin))?;
    let topology = Topology::new(&plugin, topology)?;
    println!();
    for path in io::stdin().lines() {
        let path = path?;
        let begin = Instant::now();
        let outcome = compile(&topology, Path::new(&path));
        println!("{}", answer(&path, begin.elapsed(), outcome.err()));
    }
    Ok(())
}

fn compile(topology: &Arc<Topology>, path: &Path) -> Result<(), String> {
    let module = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let options = CompileOptions {
        least_effort: true,
        ..CompileOptions::default()
    };
    let compiled = topology.compile(&module, &options);
    compiled.map(drop).map_err(|error| error.to_string())
}

fn answer(path: &str, took: Duration, error: Option<String>) -> Value {
    let seconds = (took.as_secs_f64() * 1000.0).round() / 1000.0;
    match error {
        None => json!({"module": path, "seconds": seconds}),
        Some(error) => json!({"module": path, "seconds": seconds, "error": error}),
    }
}

fn compile_apart(plugin: &str, topology: &str, seconds: u64) -> Outcome {
    let paths: io::Result<VecDeque<String>> = io::stdin().lines().collect();
    let mut paths = paths?;
    let limit = Duration::from_secs(seconds);
    while !paths.is_empty() {
        let mut compiler = Compiler::start(plugin, topology)?;
        while let Some(path) = paths.pop_front() {
            let begin = Instant::now();
            let line = compiler.ask(&path, limit);
            let took = begin.elapsed();
            println!(
                "{}",
                line.clone()
                    .unwrap_or_else(|error| answer(&path, took, Some(error)).to_string())
            );
            if line.is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// A process that compiles.
struct Compiler {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
}

impl Compiler {
    fn start(plugin: &str, topology: &str) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([plugin, topology, HERE])
            .envs(Topology::environment().iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take().ok_or("the compiler has no input")?;
        let output = child.stdout.take().ok_or("the compiler has no output")?;
        let (send, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines
                .take_while(|line| send.send(line.clone()).is_ok())
                .count()
        });
        let compiler = Self {
            child,
            questions,
            answers,
        };
        match compiler.answers.recv_timeout(START) {
            Ok(line) if line.is_empty() => Ok(compiler),
            _ => Err(format!("no compiler for `{topology}` in `{plugin}`").into()),
        }
    }

    /// The line for `path`, or why there is none; then the process is of no use any more.
    fn ask(&mut self, path: &str, limit: Duration) -> Result<String, String> {
        let sent = writeln!(self.questions, "{path}");
        sent.map_err(|error| format!("the compiler is gone: {error}"))?;
        self.answers
            .recv_timeout(limit)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => format!("no answer within {} s", limit.as_secs()),
                RecvTimeoutError::Disconnected => match self.child.wait() {
                    Ok(status) => format!("the compiler's process ended: {status}"),
                    Err(error) => format!("the compiler's process ended: {error}"),
                },
            })
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
