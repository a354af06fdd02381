"""The device ``"tpu"`` for PyTorch.

``import torch`` is enough: PyTorch loads this package by itself, after which
``torch.ones(2, device="tpu")`` works and ``torch.tpu`` is there. Import it for what is not of
PyTorch's making: settings and counters.
"""

# Importing torch calls `_loader.load` through the entry point, unless that is switched off
# (TORCH_DEVICE_BACKEND_AUTOLOAD=0) or the package is used without being installed.
import torch

from torch_tpu import _loader

_loader.load()

from torch_tpu._explain import explain  # noqa: E402
from torch_tpu._settings import no_new_compiles, settings  # noqa: E402
from torch_tpu._stats import reset_stats, stats  # noqa: E402

__version__ = _loader.version()
__all__ = [
    "__version__",
    "explain",
    "export",
    "fit",
    "no_new_compiles",
    "profile",
    "reset_stats",
    "settings",
    "stats",
]

del torch


def __getattr__(name: str) -> object:
    """`export`, `fit` and `profile`, whose imports would slow down every ``import torch``."""
    import importlib

    if name == "export":
        return importlib.import_module("torch_tpu.export")
    if name == "profile":
        return importlib.import_module("torch_tpu._profile").profile
    if name == "fit":
        return importlib.import_module("torch_tpu._fit").fit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
