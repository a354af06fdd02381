"""Where operators come from: the part of the model and the line of source that called them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.fx import traceback
from torch.nn.modules import module as hooks
from torch.utils._python_dispatch import TorchDispatchMode

_OURS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)))
_NEVER = 1 << 63  # sequence numbers of nodes that no operator made, as the sums of gradients


class Place(NamedTuple):
    """What an operator is part of, its name, and the line that called it."""

    part: str
    op: str
    file: str
    line: int

    @property
    def name(self) -> str:
        """Part and operator, as ``layers.0.mlp/mm``."""
        return f"{self.part}/{self.op}" if self.part else self.op


def place_of(node: torch.fx.Node) -> Place | None:
    """The place that was recorded for a node of a graph."""
    return (node.meta.get("custom") or {}).get("place")


class Places(TorchDispatchMode):
    """Notes the place of every operator in the graph that is traced meanwhile.

    The gradient of an operator has the place of the operator.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[int, str] = {}
        self.modules: list[torch.nn.Module] = []
        self._parts: list[str] = []
        self._forward: dict[int, Place] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        place = self._place(func)
        before = traceback.current_meta.pop("custom", None)
        traceback.current_meta["custom"] = {**(before or {}), "place": place}
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            if not hasattr(error, "place"):
                error.place = place
            raise
        finally:
            del traceback.current_meta["custom"]
            if before is not None:
                traceback.current_meta["custom"] = before

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Follows which module is being called."""
        enter = hooks.register_module_forward_pre_hook(self._enter)
        leave = hooks.register_module_forward_hook(self._leave, always_call=True)
        try:
            with self:
                yield
        finally:
            enter.remove()
            leave.remove()

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        if id(module) not in self.names:
            self.modules.append(module)
            self.names |= {id(part): name for name, part in module.named_modules()}
        self._parts.append(self.names[id(module)])

    def _leave(self, module: torch.nn.Module, _: Any, __: Any) -> None:
        if self._parts:
            self._parts.pop()

    def _place(self, func: Any) -> Place:
        op = str(func).removeprefix("aten.").removesuffix(".default")
        gradient = torch._C._current_autograd_node()
        if gradient is not None:
            number = gradient._sequence_nr()
            forward = self._forward.get(number) if 0 <= number < _NEVER else None
            if forward is not None:
                return forward._replace(op=f"{op} (gradient)")
        part = self._parts[-1] if self._parts else ""
        place = Place(part, op, *_calling_line())
        if gradient is None and torch.is_grad_enabled():
            # Operators without a gradient take no number: the first at a number is the one.
            self._forward.setdefault(torch._C._autograd._get_sequence_nr() - 1, place)
        return place


def _calling_line() -> tuple[str, int]:
    """The innermost line that is not PyTorch's or ours."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith((*_OURS, "<")):
            near = os.path.relpath(path)
            return (path if near.startswith("..") else near, frame.f_lineno)
        frame = frame.f_back
    return "", 0
