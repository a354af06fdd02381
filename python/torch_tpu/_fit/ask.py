"""From a call to reports: traces it, lowers it, asks the compiler, tries advice."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_tpu._fit.capture import capture, without_data
from torch_tpu._fit.compiler import compile_module
from torch_tpu._fit.places import place_of
from torch_tpu._fit.report import Report, assemble
from torch_tpu._fit.targets import GENERATIONS, Target, target_of
from torch_tpu._graph.lower import Lowered, LoweringError, lower

# Makes the call and its arguments for a dtype, within `without_data`.
Make = Callable[[torch.dtype | None], tuple[Callable[..., Any], Sequence[Any]]]


class Question:
    """A call, as it is made for a dtype; every program of it is lowered once.

    Args:
        make: Makes the call.
        castable: Whether `make` heeds the dtype.
        effort: As for `fit`.
        seconds: How long a compile may take.
    """

    def __init__(
        self, make: Make, castable: bool, effort: str = "full", seconds: float = 600
    ) -> None:
        self.make, self.castable, self.effort, self.seconds = make, castable, effort, seconds
        self._programs: dict[torch.dtype | None, Lowered | LoweringError] = {}
        self.traced = 0.0

    def ask(self, topology: str, dtype: torch.dtype | None = None) -> Report:
        """What the compiler for a topology says.

        Args:
            topology: As ``v6e:2x2``.
            dtype: The default dtype in which the call is made.

        Raises:
            ValueError: TPU4021, the topology is not known.
            CaptureError: TPU4020, the call cannot be traced.
            CompilerError: TPU4022, TPU4023, there is no answer.
        """
        target = target_of(topology)
        report = Report(topology, "not asked", self.effort, _name(dtype))
        program = self._program(dtype)
        if isinstance(program, LoweringError):
            report.verdict, report.reasons = "does not lower", _reasons(program)
            return report
        answer = compile_module(program.text, topology, self.effort, self.seconds)
        return assemble(answer, program.text, target, report)

    def advise(self, report: Report, dtype: torch.dtype | None) -> list[str]:
        """What makes the call fit, each tried: bfloat16, then the smallest chip that takes it."""
        here = target_of(report.topology)
        narrower = self.castable and dtype is None and torch.get_default_dtype() is torch.float32
        tries: list[tuple[str, Target, torch.dtype | None]] = []
        if narrower:
            tries.append((report.topology, here, torch.bfloat16))
        larger = sorted((t for t in GENERATIONS if t.hbm > here.hbm), key=lambda t: t.hbm)
        for kind in (dtype, torch.bfloat16) if narrower else (dtype,):
            tries += [(target.single, target, kind) for target in larger]
        return self._try(tries, report)

    def _try(self, tries, report: Report) -> list[str]:
        advice, done = [], set()
        for topology, target, kind in tries:
            share = 0.5 if kind is torch.bfloat16 and report.dtype != _name(kind) else 1.0
            hopeless = report.hbm["needed"] * share > 1.1 * target.hbm
            if hopeless or kind in done:
                continue
            found = self.ask(topology, kind)
            if found.fits:
                done.add(kind)
                advice.append(_advice(found, report))
        return advice

    def _program(self, dtype: torch.dtype | None) -> Lowered | LoweringError:
        if dtype not in self._programs:
            begin = time.perf_counter()
            with without_data(dtype):
                call, args = self.make(dtype)
                traced = capture(call, args)
                try:
                    program = lower(traced.graph, "tpu", traced.names, _place)
                except LoweringError as error:
                    program = error
            self._programs[dtype] = program
            self.traced += time.perf_counter() - begin
        return self._programs[dtype]


def _place(node: torch.fx.Node) -> tuple[str, str, int]:
    place = place_of(node)
    return (place.name, place.file, place.line) if place else (node.name, "", 0)


def _name(dtype: torch.dtype | None) -> str:
    return str(dtype or torch.get_default_dtype()).removeprefix("torch.")


def _reasons(error: LoweringError) -> list[str]:
    reasons = []
    for node, reason in error.nodes:
        place = place_of(node) if node is not None else None
        reasons.append(f"{place.file}:{place.line}: {reason}" if place and place.file else reason)
    return list(dict.fromkeys(reasons))


def _advice(found: Report, report: Report) -> str:
    words = [f"--topology {found.topology}"] if found.topology != report.topology else []
    words += [f"--dtype {found.dtype}"] if found.dtype != report.dtype else []
    gib = 1 << 30
    needed, limit = found.hbm["needed"] / gib, found.hbm["limit"] / gib
    return f"{' '.join(words)}: fits, {needed:.2f} of {limit:.2f} GiB (compiled)"
