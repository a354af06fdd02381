"""How each operator runs on the device, and what a program calls."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from torch_tpu import _loader
from torch_tpu._decompose import COMPOSITE, decompositions, has_kernel

# By a row or a kernel of the bridge; through other operators; on the CPU.
NATIVE, DECOMPOSED, FALLBACK = "native", "decomposed", "fallback"

# What PyTorch calls on the CPU alone, and what it calls on the device in its place.
_CPU_CHOICES = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": (
        "aten::_scaled_dot_product_fused_attention_overrideable"
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (
        "aten::_scaled_dot_product_fused_attention_overrideable_backward"
    ),
}

_OURS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(__file__) + os.sep)


@functools.cache
def status(name: str) -> str:
    """``native``, ``decomposed`` or ``fallback``, for a name as ``aten::add.Tensor``."""
    if name in decompositions():
        return DECOMPOSED
    if has_kernel(name, "PrivateUse1"):
        return NATIVE
    return DECOMPOSED if has_kernel(name, *COMPOSITE) else FALLBACK


def table() -> list[tuple[str, str, str]]:
    """Family, name and status of every operator on tensors that the CPU or the device has."""
    every = torch._C._jit_get_all_schemas()
    schemas = [s for s in every if s.name.startswith("aten::") and _is_kernels_business(s)]
    rows = _loader.native().serving_rows([str(schema) for schema in schemas])
    found = []
    for schema, row in zip(schemas, rows):
        name = _full_name(schema)
        kind = status(name)
        family = ""
        if kind == NATIVE:
            family = row[0] if row else "bridge"
        found.append((family, name.removeprefix("aten::"), kind))
    return sorted(found)


def _full_name(schema: Any) -> str:
    overload = schema.overload_name
    return f"{schema.name}.{overload}" if overload else schema.name


def _is_kernels_business(schema: Any) -> bool:
    """Whether it takes or gives tensors, and there is a kernel for them on the CPU or here."""
    parts = (*schema.arguments, *schema.returns)
    of_tensors = any("Tensor" in str(part.type) for part in parts)
    name = _full_name(schema)
    known = of_tensors and torch._C._dispatch_has_kernel(name)
    return known and has_kernel(name, "CPU", "PrivateUse1", *COMPOSITE)


@dataclass
class Call:
    """What was called: how it would run, how often, and from which line first."""

    status: str
    line: str
    count: int = 0


class Recorder(TorchDispatchMode):
    """Notes every operator that a program calls, and those that composed ones are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, Call] = {}
        # Compositions under way: one that calls itself is PyTorch's to carry out.
        self._open: list[str] = []

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = _CPU_CHOICES.get(func.name(), func.name())
        if name in self._open:
            return func(*args, **(kwargs or {}))
        call = self.calls.get(name)
        if call is None:
            call = self.calls[name] = Call(status(name), _calling_line())
        call.count += 1
        parts = _parts(func) if call.status == DECOMPOSED else None
        if parts is None:
            return func(*args, **(kwargs or {}))
        self._open.append(name)
        try:
            with self:
                return parts(*args, **(kwargs or {}))
        finally:
            self._open.pop()


def _parts(func: OpOverload) -> Callable[..., Any] | None:
    """The composition of a decomposed operator, to be called in its place."""
    decomposition = decompositions().get(func.name())
    if decomposition is not None:
        return decomposition
    for key in COMPOSITE:
        if has_kernel(func.name(), key):
            return functools.partial(func._op_dk, getattr(torch._C.DispatchKey, key))
    return None


def _calling_line() -> str:
    """The innermost line that is not PyTorch's or ours, as ``file:line``."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith((*_OURS, "<")):
            near = os.path.relpath(path)
            return f"{path if near.startswith('..') else near}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@contextlib.contextmanager
def without_mkldnn() -> Iterator[None]:
    """Keeps PyTorch from the composed kernels that only the CPU has, as that of LSTM."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


class Elsewhere(TorchFunctionMode):
    """Makes a program that names the device use another one."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = torch.device(device)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = tuple(self._moved(arg) for arg in args)
        return func(*args, **{k: self._moved(v) for k, v in (kwargs or {}).items()})

    def _moved(self, arg: Any) -> Any:
        if isinstance(arg, torch.device):
            return self.device if arg.type == "tpu" else arg
        names_it = isinstance(arg, str) and arg.partition(":")[0] == "tpu"
        return self.device if names_it else arg
