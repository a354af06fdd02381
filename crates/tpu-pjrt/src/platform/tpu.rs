//! Google's `libtpu`. It is never shipped with this project: users install it.

use super::Known;
use std::path::PathBuf;

/// Where the Python package keeps the plugin.
pub(super) const FILES: &[&str] = &["libtpu/libtpu.so"];

/// What to install where there is none.
pub(super) const PACKAGES: &str = "libtpu";

/// None are needed, and none has been tried on hardware.
pub(super) const OPTIONS: &[Known] = &[];

/// The file that the environment names, as for every other user of `libtpu`.
pub(super) fn library_path() -> Option<PathBuf> {
    std::env::var_os("TPU_LIBRARY_PATH").map(PathBuf::from)
}
