"""Finding the PJRT plugin that the device runs on, without importing or loading anything."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import NamedTuple

from torch_tpu import _loader

# Packages and their plugin, the preferred one first.
CPU_PLUGINS = (
    ("lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so"),
    ("fastatomstruct_xla_cpu", "libpjrt_cpu.so"),
)
INSTALL_CPU = 'pip install "torchtpu-rs[cpu]"'
INSTALL_TPU = "pip install libtpu"

PCI_DEVICES = Path("/sys/bus/pci/devices")
GOOGLE = "0x1ae0"
# Google sells network cards and disks under the same vendor. v2 and v3, an unnamed one, v4, v5p,
# v5e, v6e, 7x: the list of jax/_src/hardware_utils.py.
TPU_CHIPS = {"0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"}


class PluginError(RuntimeError):
    """There is no plugin; the message has the command that installs one."""


class Plugin(NamedTuple):
    """A plugin's file and the platform it drives, ``"cpu"`` or ``"tpu"``."""

    path: str
    platform: str


def find() -> Plugin:
    """The plugin to use, by the settings ``pjrt_plugin`` and ``platform`` or what is installed.

    Raises:
        PluginError: nothing suitable is installed, or the named file does not exist.
    """
    native = _loader.native()
    named = native.get_setting("pjrt_plugin")
    platform = native.get_setting("platform")
    if named:
        return _named(named, platform)
    if platform == "auto":
        platform = "tpu" if has_tpu() else "cpu"
    return _installed_tpu() if platform == "tpu" else _installed_cpu()


def has_tpu() -> bool:
    """Whether a TPU is attached to this machine, by its PCI devices."""
    return any(
        _read(device / "vendor") == GOOGLE and _read(device / "device") in TPU_CHIPS
        for device in PCI_DEVICES.glob("*")
    )


def _named(path: str, platform: str) -> Plugin:
    if not Path(path).is_file():
        raise PluginError(
            f"there is no PJRT plugin `{path}`; hint: name an existing file in "
            f"TORCH_TPU_PJRT_PLUGIN, or unset it and {INSTALL_CPU}"
        )
    if platform == "auto":
        platform = "tpu" if "libtpu" in Path(path).name else "cpu"
    return Plugin(path, platform)


def _installed_cpu() -> Plugin:
    for package, file in CPU_PLUGINS:
        path = _file_of(package, file)
        if path:
            return Plugin(path, "cpu")
    raise PluginError(f"no PJRT plugin for the CPU is installed; hint: {INSTALL_CPU}")


def _installed_tpu() -> Plugin:
    return Plugin(libtpu(), "tpu")


def libtpu() -> str:
    """The path of the plugin for TPUs.

    Raises:
        PluginError: it is not installed.
    """
    path = os.environ.get("TPU_LIBRARY_PATH") or _file_of("libtpu", "libtpu.so")
    if path and Path(path).is_file():
        return path
    raise PluginError(
        f"libtpu, the PJRT plugin for TPUs, is not installed; hint: {INSTALL_TPU}, or set "
        "TORCH_TPU_PLATFORM=cpu to run on the CPU"
    )


def _file_of(package: str, file: str) -> str:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return ""
    folders = spec.submodule_search_locations if spec else None
    paths = (Path(folder) / file for folder in folders or ())
    return next((str(path) for path in paths if path.is_file()), "")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
