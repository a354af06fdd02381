"""What there is to run: operators, dtypes and forms, all of them or a seeded sample."""

import functools
import random
import re
from dataclasses import dataclass

import torch
from torch.testing._internal import common_methods_invocations as database

# Decides which samples and dtypes a run without `--full` takes.
SEED = 20261130
# Share of the operators that a run without `--full` takes, so that it stays within minutes.
SHARE = 1 / 12

FORMS = ("forward", "gradient", "gradgrad", "inplace", "out", "layouts", "sizes", "errors")

# How many samples of an operator each form takes; None: all.
SAMPLE = dict(
    forward=6, gradient=3, gradgrad=1, inplace=2, out=2, layouts=2, sizes=2, errors=4
)  # fmt: skip
# The second dtype of an operator: what is not about dtypes has been seen with the first.
BRIEF = dict(
    forward=4, gradient=1, gradgrad=0, inplace=1, out=1, layouts=1, sizes=0, errors=0
)  # fmt: skip
FULL = dict.fromkeys(FORMS) | dict(gradgrad=12, layouts=24, sizes=24)


@dataclass(frozen=True)
class Case:
    """One operator with one dtype, and how many samples each form takes."""

    op: str
    dtype: str
    amounts: tuple[tuple[str, int | None], ...]

    def __str__(self):
        return f"{self.op}-{self.dtype}"


@functools.cache
def operators():
    """Every OpInfo by its full name."""
    names = [name for name in dir(database) if re.fullmatch("foreach_.*_op_db", name)]
    foreach = [op for name in names for op in getattr(database, name)]
    return {op.full_name: op for op in [*database.op_db, *foreach]}


def dtypes(op):
    """The dtypes that the CPU supports, float32 first."""
    names = sorted(str(dtype).removeprefix("torch.") for dtype in op.supported_dtypes("cpu"))
    return sorted(names, key=lambda name: name != "float32")


def select(full):
    """The cases of a full run, or of the sample."""
    if full:
        return [case for op in operators().values() for case in every(op)]
    return [case for op in operators().values() if is_drawn(op) for case in some(op)]


def is_drawn(op):
    return random.Random(f"{SEED}:{op.full_name}").random() < SHARE


def every(op):
    return [Case(op.full_name, dtype, tuple(FULL.items())) for dtype in dtypes(op)]


def some(op):
    first, *others = dtypes(op) or [None]
    chosen = [Case(op.full_name, first, tuple(SAMPLE.items()))] if first else []
    if others:
        other = random.Random(f"{SEED}/{op.full_name}").choice(others)
        chosen.append(Case(op.full_name, other, tuple(BRIEF.items())))
    return chosen


def dtype(name):
    return getattr(torch, name)
