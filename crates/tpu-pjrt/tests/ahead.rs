//! The driver of compilers for devices that are not here.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `ahead` on one plugin with the given paths.
fn ahead(plugin: &Path, topology: &str, paths: &[&Path]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ahead"))
        .arg(plugin)
        .arg(topology)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut input = child.stdin.take().expect("a pipe");
    for path in paths {
        writeln!(input, "{}", path.display()).expect("is read");
    }
    drop(input);
    child.wait_with_output().expect("ends")
}

#[test]
fn plugins_without_topologies_are_named() {
    let plugins = std::env::var_os("TORCH_TPU_TEST_PLUGINS").unwrap_or_default();
    for plugin in std::env::split_paths(&plugins).filter(|path| path.is_file()) {
        let output = ahead(&plugin, "v5e:1x1", &[Path::new("unread.mlir")]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{message}");
        assert!(message.contains("no compiler for `v5e:1x1`"), "{message}");
    }
}

/// Needs `libtpu`, named by `TPU_LIBRARY_PATH` as for every user of it.
#[test]
fn each_module_has_its_answer() {
    let Some(libtpu) = std::env::var_os("TPU_LIBRARY_PATH") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let module = |name: &str, result: &str| {
        let text = format!(
            "module @m {{ func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
               %y = stablehlo.add %x, {result} : tensor<2xf32>
               return %y : tensor<2xf32> }} }}"
        );
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (good, bad) = (module("good.mlir", "%x"), module("bad.mlir", "%z"));
    let missing = folder.path().join("missing.mlir");
    let paths = [&good, &bad, &missing, &good].map(|path| path.as_path());
    let output = ahead(Path::new(&libtpu), "v5e:1x1", &paths);
    let lines = String::from_utf8_lossy(&output.stdout);
    let answers = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let answers: Vec<serde_json::Value> = answers.collect();
    let failed: Vec<bool> = answers.iter().map(|a| a["error"].is_string()).collect();
    assert_eq!(failed, [false, true, true, false], "{lines}");
}
