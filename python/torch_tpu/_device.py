"""The module ``torch.tpu``, as ``torch.cuda`` is for CUDA.

Nothing here starts the device unless it says so; the first tensor does. A process has one device,
index 0.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.types import Device

from torch_tpu import _memory as memory  # noqa: F401
from torch_tpu import _random as random  # noqa: F401
from torch_tpu._memory import *  # noqa: F403
from torch_tpu._modes import *  # noqa: F403
from torch_tpu._properties import *  # noqa: F403
from torch_tpu._random import *  # noqa: F403
from torch_tpu._start import (  # noqa: F401
    _is_in_bad_fork,
    _lazy_init,
    current_device,
    device_count,
    index_of,
    init,
    is_available,
    is_initialized,
)
from torch_tpu._streams import *  # noqa: F403


class device:
    """Makes a device this thread's for a ``with`` block.

    Args:
        device: index, ``"tpu"``, ``"tpu:0"`` or a ``torch.device``; None or a negative index
            changes nothing.
    """

    def __init__(self, device: Device) -> None:
        keep = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if keep else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = maybe_exchange_device(self.idx)

    def __exit__(self, *error: object) -> None:
        maybe_exchange_device(self.prev_idx)


class device_of(device):
    """Makes the device of a tensor or storage this thread's, if it is a tpu."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device.index if obj.device.type == "tpu" else None)


def set_device(device: Device) -> None:
    """Makes ``device`` this thread's device; a negative index changes nothing."""
    if isinstance(device, int) and device < 0:
        return
    exchange_device(index_of(device))


def exchange_device(index: int) -> int:
    """Makes ``index`` this thread's device and returns the one before."""
    return torch._C._accelerator_exchangeDevice(index)


def maybe_exchange_device(index: int) -> int:
    """As :func:`exchange_device`, but a negative index changes nothing."""
    return torch._C._accelerator_maybeExchangeDevice(index)


def __getattr__(name: str) -> bool:
    # Checkpointing keeps a device's random state only where this name says that the device runs.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Names by which PyTorch itself looks for these.
_exchange_device = exchange_device
_maybe_exchange_device = maybe_exchange_device
_utils = SimpleNamespace(_get_device_index=lambda device, optional=False: index_of(device))
