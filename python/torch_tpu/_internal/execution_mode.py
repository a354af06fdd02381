"""Alias: eager modes under the original's path and names, in its older and its newer spelling."""

from __future__ import annotations

import enum
import sys
import types

from torch_tpu._loader import native
from torch_tpu._settings import settings


class EagerMode(enum.Enum):
    """The original's names of the modes; the values are this package's."""

    DEFER_NEVER = "strict"
    DEFER_NEVER_AND_LAUNCH_BLOCKING = "debug"
    DEFER_AND_FUSE = "fused"

    def __call__(self, mode: EagerMode) -> settings:
        """``eager_mode(mode)``: the older spelling, where the attribute was a context manager."""
        return set_eager_mode(mode)


def set_eager_mode(mode: EagerMode) -> settings:
    """Sets the mode, for the process or for a ``with`` block.

    Raises:
        ValueError: this release has no such mode.
    """
    return settings(eager_mode=mode.value)


def get_eager_mode() -> EagerMode:
    """The mode now."""
    return EagerMode(native().get_setting("eager_mode"))


def cpu_fallback_mode(enabled: bool = True) -> settings:
    """Lets ops without a kernel run on the CPU or makes them raise, as :func:`set_eager_mode`."""
    return settings(fallback="warn" if enabled else "error")


class _Module(types.ModuleType):
    """Gives the module the original's assignable attributes."""

    @property
    def eager_mode(self) -> EagerMode:
        return get_eager_mode()

    @eager_mode.setter
    def eager_mode(self, mode: EagerMode) -> None:
        set_eager_mode(mode)

    @property
    def enable_cpu_fallback(self) -> bool:
        return native().get_setting("fallback") != "error"

    @enable_cpu_fallback.setter
    def enable_cpu_fallback(self, enabled: bool) -> None:
        cpu_fallback_mode(enabled)


sys.modules[__name__].__class__ = _Module
