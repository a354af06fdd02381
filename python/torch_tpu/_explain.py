"""Why programs were compiled: what ``torch_tpu.explain()`` lists."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import threading
from types import FrameType

import torch

from torch_tpu import _loader

# Code that a user did not write: what torch, this package and Python run on a user's behalf.
_INNER = tuple(
    os.path.dirname(os.path.abspath(path)) + os.sep for path in (torch.__file__, __file__)
)
_PYTHON = os.path.dirname(os.__file__) + os.sep
_PACKAGES = os.path.join(_PYTHON, "site-packages") + os.sep

_COMPILER = "run it once before the part that has to be fast, or keep the store (TORCH_TPU_CACHE)"
_ADVICE = {
    "operations": f"the first of its kind: {_COMPILER}",
    "shape": "keep to few sizes: pad the input, drop the last incomplete batch (drop_last=True)",
    "dtype": "give the input the same dtype each time: x.to(dtype) before the loop",
    "constant": "the number is part of the program: keep it, or pass it as a tensor on the device",
    "attribute": "an argument is part of the program (a dimension, a mode, a layout, a number that "
    "shapes the result): keep it the same",
    "options": "the same computation under other options: set them once, before the first step",
    "tier": "eager code compiles small programs quickly, graphs fully: nothing to change",
    "guard": "keep the same what the guard names; torch._dynamo.mark_dynamic is for sizes",
    "again": "more signatures than are remembered: keep to fewer sizes",
}
_DISK_ADVICE = {
    "corrupt": "the entry was damaged: torchtpu cache verify",
    "truncated": "the entry was cut short: torchtpu cache verify",
    "foreign": "the plugin refused what the disk holds: torchtpu cache why-miss",
    "io": "the cache cannot be read: see TORCH_TPU_CACHE_DIR",
}


@dataclasses.dataclass(frozen=True)
class Compile:
    """One program that was not in memory.

    Attributes:
        program: Its number in this process.
        key: The hash of its module, types and options.
        what: The operator, or the graph as ``graph 3``.
        sizes: For a graph that leaves sizes open (``dynamic=True``, ``mark_dynamic``): the bucket
            that the program serves, or why each size has a program of its own.
        line: The line of Python that asked for it; empty where none is known.
        tier: ``quick`` or ``full``.
        types: Types of its arguments and results.
        cause: ``operations``, ``shape``, ``dtype``, ``constant``, ``attribute``, ``options``,
            ``tier`` or ``again``; for a graph that Dynamo traced again also ``guard``.
        reason: The same in a sentence, against the nearest program before it.
        disk: ``loaded``, or why it was not: ``cold``, ``corrupt``, ``foreign``, ``truncated``,
            ``io``.
        instead: What the store has in its place: made by another plugin, with other options.
        lost: Whether the plugin cannot serialise it, so that every process compiles it.
        seconds: Time that compiling or loading took.
        recompile: Why Dynamo traced the code again, where this is a graph of such a trace.
        advice: What to change.
    """

    program: int
    key: str
    what: str
    sizes: str
    line: str
    tier: str
    types: str
    cause: str
    reason: str
    disk: str
    instead: str
    lost: bool
    seconds: float
    recompile: str = ""
    advice: str = ""

    @property
    def loaded(self) -> bool:
        """Whether it came from disk, so that nothing was compiled."""
        return self.disk == "loaded"

    def __str__(self) -> str:
        verb = "loaded" if self.loaded else "compiled"
        where = f" at {self.line}" if self.line else ""
        head = f"program {self.program}: {self.what}{where}, {verb} in {self.seconds:.3f} s"
        rest = [f"{self.cause}: {self.reason}", self.instead, self.recompile]
        rest.append(f"sizes: {self.sizes}" if self.sizes else "")
        rest.append("not kept on disk: the plugin cannot serialise it" if self.lost else "")
        if self.advice:
            rest.append(f"advice: {self.advice}")
        return "\n  ".join([head, *(text for text in rest if text)])


class Report(list):
    """A list of :class:`Compile` that prints as text."""

    def __str__(self) -> str:
        made = [one for one in self if not one.loaded]
        seconds = sum(one.seconds for one in made)
        total = f"{len(made)} compiled in {seconds:.2f} s, {len(self) - len(made)} from disk"
        return "\n".join([*map(str, self), total])


def explain() -> Report:
    """Every program that this process compiled or found on disk, and why, the oldest first.

    Of more than 16,384 only the last are kept. Starts no device. Print the result for a text.
    """
    rows = json.loads(_loader.native().compiled())
    return Report(_explained(row) for row in rows)


def _explained(row: dict) -> Compile:
    trace = _TRACES.get(row["what"])
    recompile = _recompile_reason(trace) if trace else ""
    if recompile:
        row = row | {"cause": _guard(recompile)}
    return Compile(**row, recompile=recompile, advice=_advice(row))


def _advice(row: dict) -> str:
    if row["disk"] == "loaded":
        return ""
    if row["sizes"].startswith("for a bucket") and row["cause"] == "shape":
        return "one program for each bucket of sizes: torch.tpu.buckets(...) chooses them"
    if row["disk"] in _DISK_ADVICE:
        return _DISK_ADVICE[row["disk"]]
    if row["instead"] and row["cause"] not in ("options", "tier"):
        return "torchtpu cache why-miss says what differs; torchtpu cache import brings a store"
    return _ADVICE[row["cause"]]


def _guard(recompile: str) -> str:
    """What a guard of Dynamo's was about, in one word."""
    for cause, sign in _GUARDS.items():
        if re.search(sign, recompile):
            return cause
    return "guard"


_GUARDS = {
    "shape": "size mismatch|stride mismatch|rank mismatch|[.]size[(]",
    "dtype": "dtype mismatch",
    "constant": r"== -?[\d.]",
}


# The trace that a graph came from, by the graph's name.
_TRACES: dict[str, str] = {}


def traced(graph: int) -> None:
    """Notes that ``graph`` is of the trace that Dynamo is at, if it is at one."""
    context = torch._guards.CompileContext.current_compile_id()
    if context is not None:
        _TRACES[f"graph {graph}"] = str(context)


def _recompile_reason(trace: str) -> str:
    """Why Dynamo traced: the guard that failed, of the last 64 traces."""
    # `0/1_1` is the second attempt at `0/1`, and a backward graph carries its forward's id.
    for metrics in torch._dynamo.utils.get_compilation_metrics():
        if metrics.compile_id == trace and metrics.recompile_reason:
            guard = metrics.recompile_reason.partition("User stack trace")[0]
            return f"Dynamo traced again, guard {' '.join(guard.partition('  #')[0].split())}"
    return ""


def line() -> str:
    """The line of the user's code that runs, as ``train.py:12``; empty where there is none.

    A thread of autograd's has no such line; it works for a call of the main thread.
    """
    found = _user_line(sys._getframe())
    if not found:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        found = _user_line(frame)
    return found


def _user_line(frame: FrameType | None) -> str:
    while frame is not None:
        path = frame.f_code.co_filename
        # Frozen modules and generated code have no file.
        inner = path.startswith(("<", *_INNER))
        inner |= path.startswith(_PYTHON) and not path.startswith(_PACKAGES)
        if not inner:
            return f"{os.path.basename(path)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
