"""Ahead of time: what a TPU's compiler says to a program, with no TPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_tpu._fit.ask import Question
from torch_tpu._fit.capture import fake, faked
from torch_tpu._fit.report import Report

__all__ = ["Report", "fit"]


def fit(
    call: Callable[..., Any],
    inputs: Sequence[Any],
    topology: str = "v6e:1x1",
    *,
    dtype: torch.dtype | None = None,
    effort: str = "full",
    advise: bool = True,
    seconds: float = 600,
) -> Report:
    """Asks the real compiler of a TPU whether a call compiles and fits. No TPU is needed.

    The call is traced without data: everything that it does, backward pass and optimizer step
    included, is one program, whose arguments are ``inputs`` and whatever else it reads.

    Args:
        call: A module, or any callable on tensors.
        inputs: Its arguments; of tensors only type and shape matter.
        topology: Generation and chips, as ``v4:1x1x1``, ``v5e:1x1``, ``v5p:1x1x1``, ``v6e:2x2`` or
            ``tpu7x:1x1x1``. The program is that of one device.
        dtype: Casts a module and its floating-point inputs.
        effort: ``"full"``, or ``"low"`` to see sooner whether it compiles; memory is then only an
            indication.
        advise: Whether to look for what fits where the call does not.
        seconds: How long a compile may take.

    Raises:
        ValueError: TPU4021, the topology is not known.
        CaptureError: TPU4020, the call asks for values (RuntimeError).
        CompilerError: TPU4022, libtpu is not installed, with the command that installs it;
            TPU4023, the compiler ended or took too long (RuntimeError).
    """

    module = isinstance(call, torch.nn.Module)

    def make(dtype):
        if dtype is None or not module:
            return call, inputs
        return faked(call, dtype), [fake(value, dtype) for value in inputs]

    question = Question(make, module, effort, seconds)
    report = question.ask(topology, dtype)
    if advise and report.verdict == "does not fit":
        report.advice = question.advise(report, dtype)
    return report
