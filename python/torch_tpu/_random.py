"""Random state of the device: ``torch.tpu.random``.

The state of a generator is a seed and an offset, both on the host: the functions here start no
device and wait for none. As a tensor it is 16 bytes, seed then offset.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.types import Device

from torch_tpu._loader import native
from torch_tpu._start import current_device, device_count, index_of

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


class _DefaultGenerators:
    """The default generator of each device, by index; taking one starts the device."""

    def __len__(self) -> int:
        return device_count()

    def __getitem__(self, index: int) -> torch.Generator:
        if not 0 <= index < len(self):
            raise IndexError(f"tpu:{index} has no generator")
        return torch._C._accelerator_getDefaultGenerator(index)


default_generators = _DefaultGenerators()


def manual_seed(seed: int) -> None:
    """Sets the seed of the current device's generator. ``torch.manual_seed`` does it too."""
    native().set_generator_state(current_device(), _unsigned(int(seed)), 0)


def manual_seed_all(seed: int) -> None:
    """Sets the seed of every device's generator."""
    for index in _indices():
        native().set_generator_state(index, _unsigned(int(seed)), 0)


def seed() -> None:
    """Sets a random seed for the current device's generator."""
    manual_seed(int.from_bytes(os.urandom(8), "little"))


def seed_all() -> None:
    """Sets one random seed for every device's generator."""
    manual_seed_all(int.from_bytes(os.urandom(8), "little"))


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return native().generator_state(current_device())[0]


def get_rng_state(device: Device = "tpu") -> Tensor:
    """The state of a device's generator: 16 bytes on the CPU, seed then offset."""
    state = native().generator_state(index_of(device))
    with torch._C._DisableTorchDispatch():  # a state is real even where tensors are fake
        return torch.frombuffer(bytearray(b"".join(map(_bytes, state))), dtype=torch.uint8)


def get_rng_state_all() -> list[Tensor]:
    """The states of all generators."""
    return [get_rng_state(index) for index in _indices()]


def set_rng_state(new_state: Tensor, device: Device = "tpu") -> None:
    """Sets what :func:`get_rng_state` gave.

    Raises:
        TypeError: ``new_state`` is no tensor of bytes.
        RuntimeError: it is not 16 bytes long.
    """
    if not isinstance(new_state, Tensor) or new_state.dtype != torch.uint8:
        raise TypeError("RNG state must be a torch.ByteTensor")
    with torch._C._DisableTorchDispatch():
        raw = bytes(new_state.cpu().tolist())
    if len(raw) != 16:
        raise RuntimeError(f"RNG state of a tpu generator must be 16 bytes, got {len(raw)}")
    seed, offset = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")
    native().set_generator_state(index_of(device), seed, offset)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Sets what :func:`get_rng_state_all` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _indices() -> range:
    return range(max(device_count(), 1))


def _unsigned(seed: int) -> int:
    if not -(2**63) <= seed < 2**64:
        raise RuntimeError(f"a seed must fit in 64 bits, got {seed}")
    return seed % 2**64


def _bytes(number: int) -> bytes:
    return number.to_bytes(8, "little")
