//! `cargo x setup`: from a bare clone to a Python that knows the device `tpu`.

use crate::error::{Error, Result};
use crate::extension;
use crate::requirements::Requirements;
use crate::stamp::Stamp;
use crate::step;
use crate::tree::Tree;
use crate::venv::Venv;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Sets up an environment and says where it is.
///
/// # Errors
/// When a prerequisite is missing or a step fails; the next run resumes at that step.
pub(crate) fn run(tree: &Tree, torch: Option<&str>) -> Result<()> {
    let begin = Instant::now();
    let venv = ready(tree, torch)?;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "set-up complete in {seconds:.1} s: torch {} in `{}`",
        venv.torch,
        venv.path.display()
    );
    Ok(())
}

/// The environment, after doing what is left to do: nothing where no input has changed.
///
/// # Errors
/// As [`run`].
pub(crate) fn ready(tree: &Tree, torch: Option<&str>) -> Result<Venv> {
    let venv = Venv::of(tree, torch)?;
    let _alone = lock(tree, &venv)?;
    install_packages(tree, &venv, torch)?;
    extension::install(tree, &venv)?;
    Ok(venv)
}

/// The environment with its packages but not the extension: enough to check the sources.
///
/// # Errors
/// As [`run`].
pub(crate) fn packages_ready(tree: &Tree, torch: Option<&str>) -> Result<Venv> {
    let venv = Venv::of(tree, torch)?;
    let _alone = lock(tree, &venv)?;
    install_packages(tree, &venv, torch)?;
    Ok(venv)
}

fn install_packages(tree: &Tree, venv: &Venv, torch: Option<&str>) -> Result<()> {
    let list = Requirements::read(tree, torch)?;
    let words: Vec<&str> = list
        .packages
        .iter()
        .chain(&list.alone)
        .map(String::as_str)
        .collect();
    let stamp = Stamp::of(venv.path.join(".packages"), &words, &tree.root, &[])?;
    if stamp.is_fresh() && venv.python().exists() {
        return Ok(());
    }
    check_compiler()?;
    stamp.clear()?;
    venv.make()?;
    install(
        tree,
        venv,
        "installing packages (torch is large)",
        &list.packages,
        &[],
    )?;
    install(
        tree,
        venv,
        "installing plugins and weights",
        &list.alone,
        &["--no-deps"],
    )?;
    stamp.set()
}

fn install(tree: &Tree, venv: &Venv, title: &str, pins: &[String], flags: &[&str]) -> Result<()> {
    if pins.is_empty() {
        return Ok(());
    }
    let mut pip = venv.command(tree, "python");
    pip.args(["-m", "pip", "install", "--disable-pip-version-check"]);
    step::run(title, pip.args(flags).args(pins))
}

/// Makes a second set-up of an environment wait instead of mixing its files with the first's.
fn lock(tree: &Tree, venv: &Venv) -> Result<File> {
    let path = tree.target.join(format!("setup-torch-{}.lock", venv.torch));
    std::fs::create_dir_all(&tree.target).map_err(Error::file("make", &tree.target))?;
    let file = File::create(&path).map_err(Error::file("make", &path))?;
    if file.try_lock().is_err() {
        step::announce("waiting for another set-up of the same environment");
        file.lock().map_err(Error::file("lock", &path))?;
    }
    Ok(file)
}

/// Fails early, and by name, where the C++ part could not be compiled after a long download.
fn check_compiler() -> Result<()> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let mut command = Command::new(&compiler);
    command.args(["-std=c++20", "-fsyntax-only", "-x", "c++", "/dev/null"]);
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    if quiet.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(Error::Missing {
        what: format!("`{compiler}` does not compile C++20"),
        hint: "install g++ 12 or clang 16 or newer, or set `CXX` to one".into(),
    })
}
