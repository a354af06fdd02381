"""Alias: ``torch.tpu.synchronize`` under the original's path."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from torch_tpu import _streams

__all__ = ["synchronize"]


def synchronize(tensors: Tensor | Iterable[Tensor] | None = None, wait: bool = False) -> None:
    """Launches what is deferred, of which the modes ``strict`` and ``debug`` have nothing.

    Args:
        tensors: those that are needed; None for all.
        wait: whether to wait until the work is done. Waiting is for all work.
    """
    if wait:
        _streams.synchronize()
