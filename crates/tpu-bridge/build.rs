//! Compiles the C++ shim against the torch that the interpreter `PYTHON` imports, and links `torch_cpu` and `c10`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints torch's folder and version without importing it (an import takes seconds and loads CUDA's libraries).
const FIND_TORCH: &str = "
import importlib.util, os, runpy
folder = os.path.dirname(importlib.util.find_spec('torch').origin)
print(folder)
print(runpy.run_path(os.path.join(folder, 'version.py'))['__version__'])
";

fn main() {
    println!("cargo:rerun-if-env-changed=PYTHON");
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-changed=build.rs");
    let (torch, version) = find_torch();
    println!(
        "cargo:rerun-if-changed={}",
        torch.join("version.py").display()
    );
    println!("cargo:rustc-env=TPU_TORCH_VERSION={version}");
    compile_shim(&torch);
    println!(
        "cargo:rustc-link-search=native={}",
        torch.join("lib").display()
    );
    for library in ["torch_cpu", "c10"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}

fn compile_shim(torch: &Path) {
    let mut build = cc::Build::new();
    // `-isystem` keeps the warnings of torch's own headers out of ours.
    for folder in ["include", "include/torch/csrc/api/include"] {
        build.flag("-isystem").flag(torch.join(folder));
    }
    build
        .cpp(true)
        .std("c++20")
        .opt_level(2)
        .include("shim")
        .flag("-fvisibility=hidden")
        .link_lib_modifier("+whole-archive")
        .files(shim_sources())
        .compile("tpushim");
}

fn shim_sources() -> Vec<PathBuf> {
    let folder = std::fs::read_dir("shim").expect("crates/tpu-bridge/shim exists");
    let mut sources: Vec<_> = folder
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "cc"));
    sources.sort();
    sources
}

/// The interpreter of `PYTHON`; a relative path starts at the workspace's root.
fn interpreter() -> PathBuf {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| {
        panic!("set `PYTHON` to an interpreter that can import torch: PYTHON=.venv/bin/python")
    });
    if python.contains('/') {
        Path::new("../..").join(python)
    } else {
        PathBuf::from(python)
    }
}

fn find_torch() -> (PathBuf, String) {
    let python = interpreter();
    let output = Command::new(&python)
        .args(["-c", FIND_TORCH])
        .output()
        .unwrap_or_else(|error| panic!("cannot run PYTHON=`{}`: {error}", python.display()));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = stdout.lines();
    match (output.status.success(), lines.next(), lines.next()) {
        (true, Some(folder), Some(version)) => (PathBuf::from(folder), version.to_owned()),
        _ => panic!(
            "PYTHON=`{}` has no torch: install it there or choose another interpreter\n{}",
            python.display(),
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}
