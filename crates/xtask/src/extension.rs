//! Building `torch_tpu._C` and making an environment see the package.

use crate::error::{Error, Result};
use crate::setup;
use crate::stamp::Stamp;
use crate::step;
use crate::tree::Tree;
use crate::venv::Venv;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The extension's file name under every CPython from the oldest supported one.
const LIBRARY: &str = "torch_tpu/_C.abi3.so";
/// How the folder begins in which pip keeps what it knows about the package.
const METADATA: &str = "torchtpu_rs-";

/// Builds and installs the package unless the environment has it from these very sources.
///
/// The pinned torch gets an editable install: Python reads `python/torch_tpu` itself. Another
/// torch gets a copy from a wheel, because the extension in the tree fits one torch only.
///
/// # Errors
/// When the extension does not compile or cannot be installed.
pub(crate) fn install(tree: &Tree, venv: &Venv) -> Result<()> {
    let stamp = stamp(tree, venv)?;
    if stamp.is_fresh() && is_installed(tree, venv) {
        return Ok(());
    }
    stamp.clear()?;
    if venv.primary {
        let mut maturin = maturin(tree, venv, "develop");
        step::run("building the extension", maturin.arg("--release"))?;
    } else {
        let wheels = target(tree, venv).join("wheels");
        build_wheel(tree, venv, &wheels)?;
        let mut pip = venv.command(tree, "python");
        pip.args(["-m", "pip", "install", "--no-deps", "--force-reinstall"]);
        step::run("installing the wheel", pip.arg(only_wheel(&wheels)?))?;
    }
    stamp.set()
}

/// `cargo x wheel`: an abi3 wheel for the torch it is built against, in `dist/`.
///
/// # Errors
/// When the set-up or the build fails.
pub(crate) fn wheel(tree: &Tree, torch: Option<&str>) -> Result<()> {
    let venv = setup::packages_ready(tree, torch)?;
    let mut folder = tree.root.join("dist");
    if !venv.primary {
        folder.push(format!("torch-{}", venv.torch));
    }
    build_wheel(tree, &venv, &folder)?;
    let wheel = only_wheel(&folder)?;
    println!("`{}` for torch {}", wheel.display(), venv.torch);
    Ok(())
}

fn build_wheel(tree: &Tree, venv: &Venv, folder: &Path) -> Result<()> {
    for old in wheels(folder) {
        std::fs::remove_file(&old).map_err(Error::file("remove", &old))?;
    }
    let mut maturin = maturin(tree, venv, "build");
    maturin
        .args(["--release", "--interpreter"])
        .arg(venv.python());
    let title = format!("building the wheel for torch {}", venv.torch);
    step::run(&title, maturin.arg("--out").arg(folder))
}

fn maturin(tree: &Tree, venv: &Venv, command: &str) -> Command {
    let mut maturin = venv.command(tree, "maturin");
    maturin
        .arg(command)
        .env("CARGO_TARGET_DIR", target(tree, venv));
    maturin
}

/// Where the extension is compiled: per torch, since its C++ part includes torch's headers.
fn target(tree: &Tree, venv: &Venv) -> PathBuf {
    if venv.primary {
        tree.target.clone()
    } else {
        tree.target.join(format!("torch-{}", venv.torch))
    }
}

/// Whether pip knows the package and the extension is where the environment will look for it.
fn is_installed(tree: &Tree, venv: &Venv) -> bool {
    let Some(packages) = venv.packages() else {
        return false;
    };
    let entries = std::fs::read_dir(&packages).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    let known = names.any(|name| name.to_string_lossy().starts_with(METADATA));
    let sources = tree.root.join("python");
    let package = if venv.primary { &sources } else { &packages };
    known && package.join(LIBRARY).is_file()
}

fn stamp(tree: &Tree, venv: &Venv) -> Result<Stamp> {
    let inputs: Vec<_> = tree
        .files()?
        .into_iter()
        .filter(|file| is_input(file, venv))
        .collect();
    let path = venv.path.join(".extension");
    Stamp::of(path, &["torch", &venv.torch], &tree.root, &inputs)
}

/// Whether a file of the tree goes into what is installed.
fn is_input(file: &Path, venv: &Venv) -> bool {
    let mut parts = file.iter().filter_map(|part| part.to_str());
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => name != "xtask",
        (Some("python"), Some(_)) => !venv.primary,
        (Some(name), None) => [
            "Cargo.lock",
            "Cargo.toml",
            "pyproject.toml",
            "rust-toolchain.toml",
        ]
        .contains(&name),
        _ => false,
    }
}

fn wheels(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "whl"))
        .collect()
}

fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let mut found = wheels(folder);
    match (found.pop(), found.is_empty()) {
        (Some(wheel), true) => Ok(wheel),
        _ => Err(Error::Malformed {
            path: folder.to_path_buf(),
            why: "should hold the one wheel just built".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_files_matter_only_where_they_are_copied() {
        let venv = |primary| Venv {
            path: ".venv".into(),
            torch: "2.14.0".into(),
            primary,
        };
        let module = Path::new("python/torch_tpu/device.py");
        assert!(!is_input(module, &venv(true)));
        assert!(is_input(module, &venv(false)));
        for (file, expected) in [
            ("crates/tpu-bridge/shim/kernels.cc", true),
            ("crates/xtask/src/main.rs", false),
            ("pyproject.toml", true),
            ("README.md", false),
            ("tests/pyproject.toml", false),
        ] {
            assert_eq!(is_input(Path::new(file), &venv(true)), expected, "{file}");
        }
    }
}
