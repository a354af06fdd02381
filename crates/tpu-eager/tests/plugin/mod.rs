//! The CPU plugin that these tests run on.
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use tpu_pjrt::{Client, Platform, Plugin};

/// One client for all tests of a binary.
pub(crate) static CLIENT: LazyLock<Arc<Client>> = LazyLock::new(|| {
    let plugin = Plugin::load(&plugin_path()).expect("loads");
    Platform::Cpu.client(&plugin).expect("a client")
});

fn plugin_path() -> PathBuf {
    if let Some(paths) = std::env::var_os("TORCH_TPU_TEST_PLUGINS") {
        return std::env::split_paths(&paths)
            .next()
            .expect("a path in TORCH_TPU_TEST_PLUGINS");
    }
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/lib");
    let pythons = std::fs::read_dir(lib).into_iter().flatten().flatten();
    let roots: Vec<PathBuf> = pythons
        .map(|dir| dir.path().join("site-packages"))
        .collect();
    Platform::Cpu
        .find_plugin(&roots)
        .expect("a CPU plugin: run `cargo x setup`")
}
