"""Operators without a row that PyTorch's own decompositions express in others."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

# Kernels that PyTorch has for every device.
COMPOSITE = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)

calls: Counter[str] = Counter()

# Registrations last as long as this object.
_library: torch.library.Library | None = None


def has_kernel(name: str, *keys: str) -> bool:
    """Whether the dispatcher has a kernel for one of the keys."""
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


@functools.cache
def decompositions() -> dict[str, Callable[..., Any]]:
    """By name, the entries of PyTorch's table that the device needs: nothing else serves them."""
    from torch._decomp import decomposition_table

    found = {}
    for op, decomposition in decomposition_table.items():
        if not isinstance(op, torch._ops.OpOverload) or op.namespace != "aten":
            continue
        if not has_kernel(op.name(), "PrivateUse1", *COMPOSITE):
            found[op.name()] = decomposition
    return found


def install() -> None:
    """Registers them with the dispatcher, once; when the device starts."""
    global _library
    if _library is not None:
        return
    _library = torch.library.Library("aten", "IMPL")
    for name, decomposition in decompositions().items():
        kernel = _counted(name, decomposition)
        _library.impl(name.removeprefix("aten::"), kernel, "PrivateUse1")


def _counted(name: str, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(decomposition)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        calls[name.removeprefix("aten::")] += 1
        return decomposition(*args, **kwargs)

    return kernel
