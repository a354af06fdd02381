//! The command line of `cargo x`.

use crate::error::{Error, Result};

/// The text of `cargo x help`.
pub(crate) const HELP: &str = "\
usage: cargo x <task>

  setup [--torch VERSION]   make .venv, install the pinned packages, build the extension
  demo                      real models on the CPU and on `tpu`, side by side
  test [--full] [--torch VERSION] [-- PYTEST ARGUMENTS]
                            all tests of Rust and Python, with a summary
  check                     everything that a change must pass: format, lints, docs, sizes, tests
  bench [ARGUMENTS]         the benchmarks, as ratios to PyTorch on the CPU
  ops [--missing]           the table of operators, or what it lacks, the most used first
  new OP [--family NAME]    a row, a stub and a test for an operator
  docs                      the generated pages: docs/ops.md, docs/settings.md
  size                      sizes of the code against the limits, and the arrows of the house
  tpu                       what TPUs' compiler (libtpu) says to every row: docs/tpu.json; needs no TPU
  wheel [--torch VERSION]   an abi3 wheel in dist/
  help                      this text

`--torch` takes another release than the pinned one; it gets its own environment,
`.venv-VERSION`, and leaves `.venv` alone.";

/// One task with its options.
#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    Help,
    Setup { torch: Option<String> },
    Demo { rest: Vec<String> },
    Test(TestOptions),
    Check,
    Bench { rest: Vec<String> },
    Ops { missing: bool },
    New { op: String, family: Option<String> },
    Docs,
    Size,
    Tpu,
    Wheel { torch: Option<String> },
}

/// What `cargo x test` runs.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TestOptions {
    /// Also the tests marked `full`, which take long.
    pub(crate) full: bool,
    /// The quick tests against another release of torch.
    pub(crate) torch: Option<String>,
    /// Handed to pytest as they are.
    pub(crate) rest: Vec<String>,
}

/// Reads the words after `cargo x`.
pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Task> {
    let mut words = Words(words.collect());
    let task = match words.next().as_deref() {
        None | Some("help" | "--help" | "-h") => Task::Help,
        Some("setup") => Task::Setup {
            torch: words.version()?,
        },
        Some("demo") => Task::Demo { rest: words.rest() },
        Some("test") => Task::Test(words.test_options()?),
        Some("check") => Task::Check,
        Some("bench") => Task::Bench { rest: words.rest() },
        Some("ops") => Task::Ops {
            missing: words.switch("--missing"),
        },
        Some("new") => Task::New {
            family: words.value("--family")?,
            op: words.word("an operator, such as `hypot`")?,
        },
        Some("docs") => Task::Docs,
        Some("size") => Task::Size,
        Some("tpu") => Task::Tpu,
        Some("wheel") => Task::Wheel {
            torch: words.version()?,
        },
        Some(other) => return Err(Error::Usage(format!("no such task: `{other}`"))),
    };
    words.finish()?;
    Ok(task)
}

struct Words(Vec<String>);

impl Words {
    fn next(&mut self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    fn word(&mut self, what: &str) -> Result<String> {
        let missing = || Error::Usage(format!("missing: {what}"));
        self.next().ok_or_else(missing)
    }

    fn rest(&mut self) -> Vec<String> {
        let mut rest = std::mem::take(&mut self.0);
        if rest.first().is_some_and(|word| word == "--") {
            rest.remove(0);
        }
        rest
    }

    fn switch(&mut self, name: &str) -> bool {
        let at = self.own().iter().position(|word| word == name);
        at.map(|at| self.0.remove(at)).is_some()
    }

    fn value(&mut self, name: &str) -> Result<Option<String>> {
        let Some(at) = self.own().iter().position(|word| word == name) else {
            return Ok(None);
        };
        if at + 1 == self.own().len() {
            return Err(Error::Usage(format!("`{name}` needs a value")));
        }
        self.0.remove(at);
        Ok(Some(self.0.remove(at)))
    }

    /// The words before `--`: those behind it belong to another program.
    fn own(&self) -> &[String] {
        let end = self.0.iter().position(|word| word == "--");
        &self.0[..end.unwrap_or(self.0.len())]
    }

    /// `--torch VERSION`. The version becomes part of a path, hence the check.
    fn version(&mut self) -> Result<Option<String>> {
        let version = self.value("--torch")?;
        let plain = |v: &String| v.split('.').all(|n| n.parse::<u32>().is_ok());
        match version {
            Some(v) if !plain(&v) || v.split('.').count() != 3 => Err(Error::Usage(format!(
                "`--torch` takes a release such as `2.15.0`, got `{v}`"
            ))),
            version => Ok(version),
        }
    }

    fn test_options(&mut self) -> Result<TestOptions> {
        let (full, torch) = (self.switch("--full"), self.version()?);
        if let Some(word) = self.own().first() {
            return Err(Error::Usage(format!("unknown word: `{word}`")));
        }
        let rest = self.rest();
        Ok(TestOptions { full, torch, rest })
    }

    fn finish(&self) -> Result<()> {
        match self.0.first() {
            Some(word) => Err(Error::Usage(format!("unknown word: `{word}`"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Task> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_may_stand_in_any_order() {
        let options = TestOptions {
            full: true,
            torch: Some("2.15.0".into()),
            rest: vec!["-k".into(), "--full".into()],
        };
        for line in [
            "test --full --torch 2.15.0 -- -k --full",
            "test --torch 2.15.0 --full -- -k --full",
        ] {
            assert_eq!(read(line).unwrap(), Task::Test(clone(&options)));
        }
    }

    fn clone(options: &TestOptions) -> TestOptions {
        TestOptions {
            full: options.full,
            torch: options.torch.clone(),
            rest: options.rest.clone(),
        }
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, named) in [
            ("tset", "tset"),
            ("size --fast", "--fast"),
            ("test tiny", "tiny"),
            ("new", "an operator"),
            ("new hypot --family", "--family"),
            ("setup --torch", "--torch"),
            ("setup --torch ../x", "../x"),
            ("setup --torch 2.15", "2.15"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
