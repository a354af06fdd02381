"""Streams and events.

Programs run in the order of their launch, and one that reads a buffer waits for it. So a stream is
a name that code written for CUDA can pass around: work on two streams is ordered at least as it
asks for, and never overlaps.
"""

from __future__ import annotations

import torch
from torch import Event, Stream
from torch.types import Device

from torch_tpu._start import index_of

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
    "synchronize",
]


def current_stream(device: Device = None) -> Stream:
    """This thread's stream."""
    return torch._C._accelerator_getStream(index_of(device))


def default_stream(device: Device = None) -> Stream:
    """The stream that a thread starts with."""
    kind = int(torch._C._autograd.DeviceType.PrivateUse1)
    return Stream(stream_id=0, device_index=index_of(device), device_type=kind)


def set_stream(stream: Stream | None) -> None:
    """Makes ``stream`` this thread's stream; None changes nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Makes a stream this thread's for a ``with`` block; with None, changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: Stream | None = None

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before = current_stream()
            set_stream(self.stream)

    def __exit__(self, *error: object) -> None:
        set_stream(self._before)


def stream(stream: Stream | None) -> StreamContext:
    """``with torch.tpu.stream(s):`` makes ``s`` this thread's stream for the block."""
    return StreamContext(stream)


def synchronize(device: Device = None) -> None:
    """Waits for all work; raises here what went wrong in it.

    Raises:
        IndexError, RuntimeError, torch.OutOfMemoryError: errors that only showed when work ran.
    """
    torch._C._accelerator_synchronizeDevice(index_of(device))
