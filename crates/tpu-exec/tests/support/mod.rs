//! What the tests share: a client, small modules with known answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tpu_exec::{Module, Program};
use tpu_pjrt::{Arg, Args, Client, ElementType, Platform, Plugin, Shape};

/// The first plugin of `TORCH_TPU_TEST_PLUGINS`, else the one in the checkout's `.venv`.
pub(crate) fn plugin_path() -> PathBuf {
    if let Some(paths) = std::env::var_os("TORCH_TPU_TEST_PLUGINS") {
        return std::env::split_paths(&paths)
            .next()
            .expect("a path in TORCH_TPU_TEST_PLUGINS");
    }
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/lib");
    let pythons = std::fs::read_dir(&lib).into_iter().flatten().flatten();
    let roots: Vec<PathBuf> = pythons
        .map(|dir| dir.path().join("site-packages"))
        .collect();
    Platform::Cpu.find_plugin(&roots).unwrap_or_else(|error| {
        panic!(
            "these tests need a CPU plugin: run `cargo x setup`, or set TORCH_TPU_TEST_PLUGINS \
             (looked in `{}`): {error}",
            lib.display()
        )
    })
}

/// A client of the plugin at `path`.
pub(crate) fn client(path: &Path) -> Arc<Client> {
    Platform::Cpu
        .client(&Plugin::load(path).expect("loads"))
        .expect("a client")
}

/// A module that doubles `size` numbers; each size is another program.
pub(crate) fn double(size: usize) -> Module {
    let shape = Shape::new(ElementType::F32, &[size as i64]);
    let text = format!(
        "module @double {{\n  func.func public @main(%x: tensor<{size}xf32>) -> \
         tensor<{size}xf32> {{\n    %y = stablehlo.add %x, %x : tensor<{size}xf32>\n    \
         return %y : tensor<{size}xf32>\n  }}\n}}\n"
    );
    Module {
        text,
        inputs: vec![shape.clone()],
        spares: 0,
        outputs: vec![shape],
    }
}

/// Runs a program of [`double`] and checks what it computed.
pub(crate) fn check_double(client: &Arc<Client>, program: &Program, size: usize) {
    let numbers: Vec<f32> = (0..size).map(|number| number as f32 - 1.5).collect();
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let input = client
        .buffer_from_host(&bytes, &program.module().inputs[0], 0)
        .expect("copied");
    let mut args: Args = [Arg::from(input)].into_iter().collect();
    let outputs = program.launch(&mut args).expect("launched");
    let mut got = vec![0; bytes.len()];
    outputs[0].to_host(&mut got).expect("copied");
    let expected: Vec<u8> = numbers
        .iter()
        .flat_map(|number| (number * 2.0).to_le_bytes())
        .collect();
    assert_eq!(got, expected, "twice {size} numbers");
}
