//! Runs the conformance checks on every plugin of `TORCH_TPU_TEST_PLUGINS` (colon-separated).

use std::process::Command;

#[test]
fn plugins_conform() {
    let plugins = std::env::var("TORCH_TPU_TEST_PLUGINS").unwrap_or_default();
    for plugin in plugins.split(':').filter(|path| !path.is_empty()) {
        let program = env!("CARGO_BIN_EXE_conformance");
        let output = Command::new(program).arg(plugin).output().unwrap();
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{plugin}:\n{report}");
        assert!(report.contains(" checks, 0 failed"), "{plugin}:\n{report}");
    }
}
