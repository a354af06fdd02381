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
# Of every operator with every dtype. Most have fewer samples; the others are grids of parameters,
# 1,440 points of them for `max_pool2d`.
FULL = dict(
    forward=64, gradient=32, gradgrad=12, inplace=24, out=24, layouts=24, sizes=24, errors=None
)  # fmt: skip

# Dtypes that XLA lacks: the device refuses their tensors, which one form shows.
LACKING = ("complex32", "bcomplex32")


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
    return [Case(op.full_name, dtype, amounts(dtype, FULL)) for dtype in dtypes(op)]


def amounts(dtype, wanted):
    """How many samples each form takes, of those that make sense for the dtype."""
    sensible = ("forward",) if dtype in LACKING else FORMS
    return tuple((form, count) for form, count in wanted.items() if form in sensible)


def some(op):
    first, *others = dtypes(op) or [None]
    chosen = [Case(op.full_name, first, tuple(SAMPLE.items()))] if first else []
    if others:
        other = random.Random(f"{SEED}/{op.full_name}").choice(others)
        chosen.append(Case(op.full_name, other, amounts(other, BRIEF)))
    return chosen


def dtype(name):
    return getattr(torch, name)
