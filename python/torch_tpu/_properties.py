"""What kind of device it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch.types import Device

from torch_tpu._loader import native
from torch_tpu._memory import mem_get_info
from torch_tpu._start import _lazy_init, index_of

__all__ = [
    "DeviceProperties",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_bf16_supported",
]


@dataclass(frozen=True)
class DeviceProperties:
    """What ``torch.tpu.get_device_properties`` tells.

    Attributes:
        name: what the plugin calls the device.
        platform: ``"tpu"``, or ``"cpu"`` where the device is simulated on the CPU.
        total_memory: bytes in all.
        major: the TPU's generation, 0 on the CPU.
        minor: always 0; with ``major`` it is :func:`get_device_capability`.
        multi_processor_count: always 1: programs see one processor.
    """

    name: str
    platform: str
    total_memory: int
    major: int
    minor: int = 0
    multi_processor_count: int = 1


def get_device_name(device: Device = None) -> str:
    """What the plugin calls the device; starts it."""
    _lazy_init()
    index_of(device)
    return native().device_name()


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Name, platform, memory and generation; starts the device."""
    name = get_device_name(device)
    generation, _ = get_device_capability(device)
    return DeviceProperties(name, native().platform(), mem_get_info(device)[1], generation)


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """The TPU's generation and 0, such as ``(5, 0)`` for a v5e; ``(0, 0)`` on the CPU."""
    name = get_device_name(device)
    found = re.search(r"TPU\s*v?(\d+)", name) if native().platform() == "tpu" else None
    return (int(found[1]) if found else 0), 0


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that ``torch.autocast("tpu", dtype=...)`` takes.

    bfloat16 is the default in the thread that imported torch. PyTorch keeps the default per thread
    and starts others with float16, so name the dtype there.
    """
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: bfloat16 is what the matrix unit computes in."""
    return True


def get_arch_list() -> list[str]:
    """Empty: programs are compiled where they run."""
    return []
