"""The backend ``tpu_dist`` of ``torch.distributed``: one process per device, through host memory.

Every collective copies to the host, runs there by Gloo, and copies back; it is over when it
returns. That is right on every host and across hosts, and slow.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import ProcessGroup, ProcessGroupGloo, Store, Work
from torch._C._distributed_c10d import _create_work_from_future as work_of
from torch.futures import Future


def create(store: Store, rank: int, size: int, timeout: timedelta) -> ProcessGroup:
    """A process group for tensors of the device."""
    return ThroughHost(store, rank, size, timeout)


class ThroughHost(ProcessGroup):
    """Gloo on copies in host memory.

    Collectives take tensors, lists and lists of lists of them; the first argument is written
    (except by ``send``), a second one is read.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self.gloo = ProcessGroupGloo(store, rank, size, timeout)

    def getBackendName(self) -> str:  # noqa: N802 (c10d's name)
        """The name in error messages and logs."""
        return "tpu_dist"

    def barrier(self, *args: Any, **kwargs: Any) -> Work:
        """Waits for the device, then for the other processes."""
        torch.tpu.synchronize()
        self.gloo.barrier().wait()
        return _done(None)

    def send(self, tensors: list[Tensor], destination: int, tag: int) -> Work:
        """Sends one tensor."""
        self.gloo.send(_on_host(tensors), destination, tag).wait()
        return _done(tensors)


def _collective(name: str) -> Callable[..., Work]:
    def run(self: ThroughHost, written: Any, *rest: Any, **kwargs: Any) -> Work:
        staged = _on_host(written)
        getattr(self.gloo, name)(staged, *map(_on_host, rest), **kwargs).wait()
        _copy_back(written, staged)
        return _done(written)

    run.__name__ = name
    run.__doc__ = f"Gloo's ``{name}``."
    return run


# The names of two generations of PyTorch: the later one says `single` for `base` and `into_tensor`.
for _name in (
    "_allgather_base",
    "_reduce_scatter_base",
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "allreduce",
    "allreduce_coalesced",
    "alltoall",
    "alltoall_base",
    "broadcast",
    "gather",
    "gather_into_tensor",
    "gather_single",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "scatter",
):
    if hasattr(ProcessGroupGloo, _name):
        setattr(ThroughHost, _name, _collective(_name))


def _on_host(value: Any) -> Any:
    """Tensors, in lists or not, in host memory; all else as it is."""
    if isinstance(value, Tensor):
        return value.detach().cpu().contiguous()
    return [_on_host(v) for v in value] if isinstance(value, (list, tuple)) else value


def _copy_back(written: Any, staged: Any) -> None:
    if isinstance(written, Tensor):
        with torch.no_grad():
            written.copy_(staged)
    elif isinstance(written, (list, tuple)):
        for target, value in zip(written, staged):
            _copy_back(target, value)


def _done(result: Any) -> Work:
    future: Future = Future()
    future.set_result(result)
    return work_of(future)
