"""Memory of the device: ``torch.tpu.memory``.

The figures are the sizes of the device's live buffers. A tensor that was only made, with nothing
written to it, holds none; a buffer goes back to the device with its last tensor, so what is
reserved is what is allocated. With no device given, each function means the current one.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from typing import Any

import torch
from torch.types import Device

from torch_tpu._loader import native
from torch_tpu._start import _lazy_init, index_of

__all__ = [
    "empty_cache",
    "empty_host_cache",
    "get_memory_info",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
]


def memory_allocated(device: Device = None) -> int:
    """Bytes in live buffers."""
    return native().memory_stats(index_of(device))[0]


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that were in live buffers since the last :func:`reset_peak_memory_stats`."""
    return native().memory_stats(index_of(device))[1]


def memory_reserved(device: Device = None) -> int:
    """The same as :func:`memory_allocated`: nothing is kept back."""
    return memory_allocated(device)


def max_memory_reserved(device: Device = None) -> int:
    """The same as :func:`max_memory_allocated`: nothing is kept back."""
    return max_memory_allocated(device)


def memory_stats(device: Device = None) -> OrderedDict[str, Any]:
    """What ``torch.accelerator.memory_stats`` tells, for this device."""
    return torch.accelerator.memory_stats(index_of(device))


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Bytes free and bytes in all; starts the device.

    On the CPU all is the machine's memory, or what its control group allows, and free is that
    without this process's buffers: other programs are not looked at.
    """
    _lazy_init()
    allocated, _, _, _, limit = native().memory_stats(index_of(device))
    return max(limit - allocated, 0), limit


get_memory_info = mem_get_info


def largest_tensors(count: int = 5) -> str:
    """A sentence that names the largest tensors of the device that Python holds."""
    held: dict[int, tuple[int, torch.Tensor]] = {}
    for thing in gc.get_objects():
        if _owns_storage(type(thing)) and (storage := _storage(thing)) is not None:
            held[storage._cdata] = (storage.nbytes(), thing)
    by_size = sorted(held.values(), key=lambda entry: entry[0], reverse=True)
    lines = [f"{n} bytes by {str(t.dtype)[6:]}{list(t.shape)}" for n, t in by_size[:count]]
    return f" The largest tensors hold {', '.join(lines)}." if lines else ""


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """A tensor's storage on the device."""
    try:
        return tensor.untyped_storage() if tensor.device.type == "tpu" else None
    except (RuntimeError, NotImplementedError):  # one of functorch's wrappers, of the same class
        return None


def _owns_storage(kind: type) -> bool:
    """Whether tensors of this class have bytes of their own.

    A class with its own dispatch (fake, functional, sharded, quantised) only wraps tensors, which
    are objects of their own, and its sizes may be symbols.
    """
    return (
        issubclass(kind, torch.Tensor)
        and kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    )


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The figures as text; one line if ``abbreviated``."""
    index = index_of(device)
    allocated, peak, buffers, ever, limit = native().memory_stats(index)
    total = f" of {_size(limit)}" if limit else ""
    if abbreviated:
        return f"tpu:{index}: {_size(allocated)}{total}, peak {_size(peak)}, {buffers} buffers"
    rows = (
        ("allocated", f"{_size(allocated)}{total}"),
        ("peak", _size(peak)),
        ("live buffers", f"{buffers:,}"),
        ("buffers ever made", f"{ever:,}"),
    )
    return "\n".join([f"memory of tpu:{index}"] + [f"  {name:<18}{value}" for name, value in rows])


def reset_peak_memory_stats(device: Device = None) -> None:
    """Makes the bytes held now the peak."""
    native().reset_peak_memory(index_of(device))


reset_max_memory_allocated = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Does nothing but check the device: no historical totals are kept."""
    index_of(device)


def empty_cache() -> None:
    """Frees the small buffers (4 MiB at most, not counted as allocated) that wait to be results.

    Larger ones go back to the device with their last tensor.
    """
    native().empty_cache()


def empty_host_cache() -> None:
    """Does nothing: pinned memory goes back to the system with its last tensor."""


def ipc_collect() -> None:
    """Does nothing: no device memory is shared between processes."""


def _size(bytes_: int) -> str:
    size = float(bytes_)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
