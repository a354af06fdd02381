"""Optimizers on the device take PyTorch's fused implementation unless told otherwise.

PyTorch's own default is ``foreach``, which here is a program per formula: eight launches a step of
AdamW. ``fused`` is one program for all parameters, and rounds less. ``foreach=False``,
``foreach=True`` and ``fused=False`` are respected.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

# By exact type: a subclass may have a `step` that knows no `fused`.
FUSED = (Adam, AdamW, SGD)


def install() -> None:
    """Makes the choice before every step, when the parameters are where they will be."""
    register_optimizer_step_pre_hook(_choose)


def _choose(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    if type(optimizer) not in FUSED:
        return
    groups = [group for group in optimizer.param_groups if _is_open(group)]
    for group in groups:
        group["fused"] = True
        _move_steps(optimizer, group)
    if groups and all(group["fused"] for group in optimizer.param_groups):
        # What `fused=True` does at construction: a GradScaler leaves the scale to the step, and
        # `zero_grad` zeroes all gradients at once.
        optimizer.defaults["fused"] = True
        optimizer._step_supports_amp_scaling = True


def _is_open(group: dict[str, Any]) -> bool:
    """Whether nobody chose an implementation, and the fused one would do."""
    chosen = group.get("foreach") is not None or group.get("fused") is not None
    betas_are_tensors = any(map(torch.is_tensor, group.get("betas", ())))
    return not (chosen or group["differentiable"] or betas_are_tensors) and all(
        _is_ours(parameter) for parameter in group["params"]
    )


def _is_ours(parameter: torch.Tensor) -> bool:
    kind = type(parameter) in (torch.Tensor, torch.nn.Parameter)
    return kind and parameter.device.type == "tpu" and parameter.is_floating_point()


def _move_steps(optimizer: Optimizer, group: dict[str, Any]) -> None:
    """Counts of steps from a checkpoint of another implementation, which keeps them on the CPU."""
    for parameter in group["params"]:
        state = optimizer.state.get(parameter, {})
        if torch.is_tensor(state.get("step")):
            state["step"] = state["step"].to(parameter.device, torch.float32)
