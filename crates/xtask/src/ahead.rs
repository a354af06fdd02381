//! `cargo x tpu`: what TPUs' own compiler says to the program of every row. No TPU is needed.
//!
//! The golden tests of `tpu-ops` write their programs as a TPU gets them; `libtpu` compiles each for
//! every generation; the answers stand in docs/tpu.json, from which docs/ops.md has its column.

use crate::error::{Error, Result};
use crate::step;
use crate::tree::Tree;
use crate::venv::Venv;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

/// Where the answers are kept.
const FILE: &str = "docs/tpu.json";

/// A generation of TPUs, and one chip of it.
const GENERATIONS: [(&str, &str); 3] = [
    ("v5e", "v5e:1x1"),
    ("v6e", "v6e:1x1"),
    ("tpu7x", "tpu7x:1x1x1"),
];

/// What compilers say to one row.
#[derive(Debug, Default, PartialEq)]
struct Verdict {
    /// How many programs the row's golden tests make; 0 where the row refuses TPUs itself.
    programs: usize,
    /// Why programs are refused, by generation.
    refused: BTreeMap<String, BTreeSet<String>>,
}

/// What compilers say to every row that has a program.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Verdicts(BTreeMap<String, Verdict>);

/// Asks the compiler, prints a table and writes the answers down.
///
/// # Errors
/// When `libtpu` is not installed, the goldens do not pass, or the compiler does not start.
pub(crate) fn run(tree: &Tree) -> Result<()> {
    let libtpu = libtpu(&Venv::of(tree, None)?).ok_or_else(|| Error::Missing {
        what: "no `libtpu` found".into(),
        hint: "`.venv/bin/pip install --no-deps libtpu==0.0.52`, or name it in `TPU_LIBRARY_PATH`"
            .into(),
    })?;
    let verdicts = ask(tree, &libtpu)?;
    let path = tree.root.join(FILE);
    std::fs::write(&path, verdicts.write()).map_err(Error::file("write", &path))?;
    println!("wrote `{FILE}`; `cargo x docs` takes it into docs/ops.md");
    Ok(())
}

/// Asks the compiler where there is one, and compares with what is written down.
///
/// # Errors
/// When the answers differ.
pub(crate) fn check(tree: &Tree, venv: &Venv) -> Result<()> {
    let Some(libtpu) = libtpu(venv) else {
        println!("no `libtpu`: what a TPU's compiler says is not checked");
        return Ok(());
    };
    let (now, written) = (ask(tree, &libtpu)?, read(tree)?);
    let stale: Vec<String> = now.differing(&written);
    if stale.is_empty() {
        return Ok(());
    }
    Err(Error::Broken("rows on TPUs (`cargo x tpu`)", stale))
}

/// The answers that are written down.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn read(tree: &Tree) -> Result<Verdicts> {
    let malformed = |error: serde_json::Error| Error::Malformed {
        path: PathBuf::from(FILE),
        why: error.to_string(),
    };
    let data: Value = serde_json::from_str(&tree.read(FILE)?).map_err(malformed)?;
    Ok(Verdicts::parse(&data))
}

/// The library that the environment names, or that is installed.
fn libtpu(venv: &Venv) -> Option<PathBuf> {
    let named = std::env::var_os("TPU_LIBRARY_PATH").map(PathBuf::from);
    let installed = venv.packages().map(|dir| dir.join("libtpu/libtpu.so"));
    named
        .into_iter()
        .chain(installed)
        .find(|path| path.is_file())
}

fn ask(tree: &Tree, libtpu: &Path) -> Result<Verdicts> {
    let (programs, refusals) = programs(tree)?;
    let mut build = tree.cargo();
    build.args(["build", "--quiet", "-p", "tpu-pjrt", "--bin", "ahead"]);
    step::run("building the driver of the compiler", &mut build)?;
    let mut verdicts = Verdicts::default();
    for program in &programs {
        verdicts.0.entry(row_of(program)).or_default().programs += 1;
    }
    for refusal in &refusals {
        let why = std::fs::read_to_string(refusal).map_err(Error::file("read", refusal))?;
        verdicts.refuse(refusal, GENERATIONS.map(|(generation, _)| generation), &why);
    }
    for (generation, topology) in GENERATIONS {
        let begin = Instant::now();
        step::announce(&format!(
            "compiling {} programs for {generation}",
            programs.len()
        ));
        let answers = compile(tree, libtpu, (generation, topology), &programs)?;
        let refused = verdicts.take(generation, &answers);
        let seconds = begin.elapsed().as_secs_f64();
        let compiled = answers.len() - refused;
        println!("{generation:<6} {compiled} compile, {refused} refused, in {seconds:.0} s");
    }
    print!("{}", verdicts.table());
    Ok(verdicts)
}

/// The programs that the golden tests write, in order, and the reasons of rows that make none.
fn programs(tree: &Tree) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let folder = tree.target.join("goldens");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(Error::file("remove", &folder))?;
    }
    let mut goldens = tree.cargo();
    goldens.args(["test", "--quiet", "-p", "tpu-ops", "--lib"]);
    step::run(
        "writing the programs of the rows",
        goldens.env("TORCH_TPU_GOLDENS", &folder),
    )?;
    let list = |folder: &Path| -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(folder).map_err(Error::file("read", folder))?;
        Ok(entries.flatten().map(|entry| entry.path()).collect())
    };
    let mut programs = Vec::new();
    for row in list(&folder)? {
        programs.extend(list(&row)?);
    }
    programs.sort();
    Ok(programs
        .into_iter()
        .partition(|path| path.extension().is_some()))
}

fn row_of(program: &Path) -> String {
    let folder = program.parent().and_then(Path::file_name);
    folder.unwrap_or_default().to_string_lossy().into_owned()
}

/// The answer to each program. Those that this library gave before are kept in the target folder:
/// a program's file is named by its content.
fn compile(
    tree: &Tree,
    libtpu: &Path,
    generation: (&str, &str),
    programs: &[PathBuf],
) -> Result<Vec<Value>> {
    let size = std::fs::metadata(libtpu)
        .map_err(Error::file("read", libtpu))?
        .len();
    let kept = tree
        .target
        .join(format!("goldens-{size}-{}.jsonl", generation.0));
    let mut answers = answers(&std::fs::read_to_string(&kept).unwrap_or_default());
    let new = |program: &&PathBuf| !answers.contains_key(&name_of(program));
    let new: Vec<&PathBuf> = programs.iter().filter(new).collect();
    let lines = drive(tree, libtpu, generation.1, &new)?;
    answers.extend(self::answers(&lines));
    let found: Option<Vec<Value>> = programs
        .iter()
        .map(|program| answers.get(&name_of(program)).cloned())
        .collect();
    let found = found.ok_or_else(|| Error::Malformed {
        path: "ahead".into(),
        why: "a program has no answer".into(),
    })?;
    let slow = |answer: &&Value| {
        let error = answer["error"].as_str().unwrap_or_default();
        error.starts_with("no answer")
    };
    let kept_ones = found.iter().filter(|answer| !slow(answer));
    let lines: String = kept_ones.map(|answer| format!("{answer}\n")).collect();
    std::fs::write(&kept, lines).map_err(Error::file("write", &kept))?;
    Ok(found)
}

/// Row and hash of a program.
fn name_of(program: &Path) -> String {
    let hash = program.file_stem().unwrap_or_default().to_string_lossy();
    format!("{}/{hash}", row_of(program))
}

/// The driver's lines by program.
fn answers(lines: &str) -> BTreeMap<String, Value> {
    let values = lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let named = |value: Value| {
        let name = name_of(Path::new(value["module"].as_str()?));
        Some((name, value))
    };
    values.filter_map(named).collect()
}

/// Runs the driver: one JSON line for each program.
fn drive(tree: &Tree, libtpu: &Path, topology: &str, programs: &[&PathBuf]) -> Result<String> {
    let paths = tree.target.join("goldens.txt");
    let mut list = std::fs::File::create(&paths).map_err(Error::file("write", &paths))?;
    for program in programs {
        writeln!(list, "{}", program.display()).map_err(Error::file("write", &paths))?;
    }
    let list = std::fs::File::open(&paths).map_err(Error::file("read", &paths))?;
    let mut driver = std::process::Command::new(tree.target.join("debug/ahead"));
    driver.arg(libtpu).arg(topology).stdin(Stdio::from(list));
    step::output(&mut driver)
}

impl Verdicts {
    /// Adds the answers for a generation, and says how many are refusals.
    fn take(&mut self, generation: &str, answers: &[Value]) -> usize {
        let mut refused = 0;
        for answer in answers {
            let (Some(module), Some(error)) = (answer["module"].as_str(), answer["error"].as_str())
            else {
                continue;
            };
            refused += 1;
            self.refuse(Path::new(module), [generation], error);
        }
        refused
    }

    fn refuse<const N: usize>(&mut self, path: &Path, generations: [&str; N], why: &str) {
        let row = self.0.entry(row_of(path)).or_default();
        for generation in generations {
            let reasons = row.refused.entry(generation.to_owned()).or_default();
            reasons.insert(brief(why));
        }
    }

    fn table(&self) -> String {
        let mut table = String::new();
        for row in self
            .0
            .iter()
            .filter(|(_, verdict)| !verdict.refused.is_empty())
        {
            table += &format!("  {:<24} {}\n", row.0, self.cell(row.0));
        }
        for (generation, _) in GENERATIONS {
            let taken = self
                .0
                .values()
                .filter(|v| !v.refused.contains_key(generation));
            let rows = self.0.len();
            table += &format!(
                "{generation:<6} all programs of {} rows of {rows}\n",
                taken.count()
            );
        }
        table
    }

    /// The cell of docs/ops.md: which generations take every program of the row.
    pub(crate) fn cell(&self, row: &str) -> String {
        let Some(verdict) = self.0.get(row) else {
            return String::new();
        };
        let reasons: BTreeSet<&String> = verdict.refused.values().flatten().collect();
        let reasons: Vec<&str> = reasons.into_iter().map(String::as_str).collect();
        if reasons.is_empty() {
            return "yes".into();
        }
        let how = if verdict.programs == 0 {
            "no"
        } else {
            "in part"
        };
        let generations: Vec<&str> = verdict.refused.keys().map(String::as_str).collect();
        let place = match generations[..] {
            ref all if all.len() == GENERATIONS.len() => String::new(),
            ref some => format!(" on {}", some.join(", ")),
        };
        format!("{how}{place}: {}", reasons.join("; "))
    }

    fn differing(&self, other: &Self) -> Vec<String> {
        let rows: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let differ = |row: &&&String| self.cell(row) != other.cell(row);
        let say = |row: &String| {
            let (now, then) = (self.cell(row), other.cell(row));
            format!("`{row}`: `{now}` now, `{then}` in `{FILE}`")
        };
        rows.iter().filter(differ).map(|row| say(row)).collect()
    }

    /// One line a row, so that changes can be read.
    fn write(&self) -> String {
        let line = |(row, verdict): (&String, &Verdict)| {
            let data = json!({"programs": verdict.programs, "refused": verdict.refused});
            format!("  {}: {data}", json!(row))
        };
        let lines: Vec<String> = self.0.iter().map(line).collect();
        format!("{{\n{}\n}}\n", lines.join(",\n"))
    }

    fn parse(data: &Value) -> Self {
        let texts = |value: &Value| -> BTreeSet<String> {
            let list = value.as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let verdict = |data: &Value| Verdict {
            programs: data["programs"].as_u64().unwrap_or(0) as usize,
            refused: data["refused"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(generation, reasons)| (generation.clone(), texts(reasons)))
                .collect(),
        };
        let rows = data.as_object().into_iter().flatten();
        Self(
            rows.map(|(row, data)| (row.clone(), verdict(data)))
                .collect(),
        )
    }
}

/// The first sentence of a compiler's message, without what names this one program.
fn brief(error: &str) -> String {
    let line = error.lines().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or_default().trim();
    let ends = [": %", ": LloInstruction"];
    let end = ends.iter().filter_map(|end| line.find(end)).min();
    line[..end.unwrap_or(line.len())].replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts() -> Verdicts {
        let mut verdicts = Verdicts::default();
        verdicts.0.entry("abs".into()).or_default().programs = 2;
        let answers = [
            json!({"module": "/goldens/abs/1.mlir", "seconds": 0.1}),
            json!({"module": "/goldens/eigh/2.mlir", "seconds": 0.1, "error": "no such: %x = f32"}),
        ];
        assert_eq!(verdicts.take("v5e", &answers), 1);
        verdicts
    }

    #[test]
    fn a_refusal_shows_with_its_reason() {
        let found = verdicts();
        assert_eq!(found.cell("abs"), "yes");
        assert_eq!(found.cell("eigh"), "no on v5e: no such");
        assert_eq!(found.cell("unknown"), "");
        assert!(
            found
                .table()
                .contains("v5e    all programs of 1 rows of 2\n")
        );
    }

    #[test]
    fn an_answer_is_found_by_row_and_content() {
        let lines = "{\"module\": \"/a/abs/12.mlir\", \"seconds\": 1}\nnoise\n";
        let found = answers(lines);
        let program = Path::new("/elsewhere/abs/12.mlir");
        assert_eq!(found.keys().collect::<Vec<_>>(), [&name_of(program)]);
    }

    #[test]
    fn what_is_written_reads_back() {
        let found = verdicts();
        let data = serde_json::from_str(&found.write()).unwrap();
        let mut read = Verdicts::parse(&data);
        assert_eq!(read, found);
        assert!(read.differing(&found).is_empty());
        read.0.remove("eigh");
        assert_eq!(read.differing(&found).len(), 1);
    }
}
