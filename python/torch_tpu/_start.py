"""Which device there is, and starting it."""

from __future__ import annotations

import torch
from torch.types import Device

from torch_tpu import _autocast, _decompose, _nested, _plugin
from torch_tpu._loader import native

# The settings by which the last plugin was looked for, and why none was found.
_searched: tuple[str, str] | None = None
_missing = ""


def is_available() -> bool:
    """Whether there is a plugin for the device to run on. Loads nothing."""
    return not _configure()


def device_count() -> int:
    """How many devices this process has: 1, or 0 without a plugin. Starts nothing."""
    return 0 if _configure() else native().device_count()


def is_initialized() -> bool:
    """Whether the device has been started."""
    return native().is_open()


def init() -> None:
    """Starts the device now rather than with the first tensor.

    Raises:
        RuntimeError: TPU1001, there is no plugin; TPU1003, it does not work here; TPU1005, this
            process was forked from one that had started the device.
    """
    _lazy_init()


def current_device() -> int:
    """The index of this thread's device."""
    return native().current_device()


def index_of(device: Device = None) -> int:
    """The index that ``device`` means: an index, ``"tpu"``, ``"tpu:0"`` or None for the current.

    Raises:
        ValueError: a device of another type.
        RuntimeError: TPU1002, no such index.
    """
    if device is None:
        return current_device()
    if not isinstance(device, int):
        named = torch.device(device)
        if named.type != "tpu":
            raise ValueError(f"Expected a tpu device, but got: {named}")
        if named.index is None:
            return current_device()
        device = named.index
    missing = _configure()
    if missing:
        raise RuntimeError(f"TPU1001: {missing}")
    if not 0 <= device < device_count():
        raise RuntimeError(
            f"TPU1002: device tpu:{device} does not exist; hint: a process has one device, tpu:0"
        )
    return device


def _lazy_init() -> None:
    """Starts the device unless it runs; PyTorch calls it before the first tensor."""
    if native().is_open():
        return
    if _is_in_bad_fork():
        raise RuntimeError(
            "TPU1005: Cannot re-initialize tpu in forked subprocess. To use tpu with "
            "multiprocessing, you must use the 'spawn' start method"
        )
    missing = _configure()
    if missing:
        raise RuntimeError(f"TPU1001: {missing}")
    try:
        native().open_device()
    except RuntimeError as error:
        hint = _mend()
        raise RuntimeError(
            f'TPU1003: the device "tpu" does not start: {error}; hint: {hint}'
        ) from error
    _decompose.install()
    _nested.install()
    _autocast.install()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had started the device."""
    return native().is_forked()


def _configure() -> str:
    """Looks for the plugin, again if the settings changed. Empty, or why there is none."""
    global _searched, _missing
    core = native()
    wanted = core.get_setting("pjrt_plugin"), core.get_setting("platform")
    if wanted == _searched or core.is_open():
        return _missing
    try:
        core.configure(*_plugin.find())
        _missing = ""
    except _plugin.PluginError as error:
        _missing = str(error)
    _searched = wanted
    return _missing


def _mend() -> str:
    named, platform = _searched or ("", "")
    if named:
        return f"name another in TORCH_TPU_PJRT_PLUGIN, or unset it and {_plugin.INSTALL_CPU}"
    if platform == "tpu" or (platform == "auto" and _plugin.has_tpu()):
        return "the TPU may be in use by another process"
    return _plugin.INSTALL_CPU.replace("install", "install --force-reinstall")
