"""Which operators AOTAutograd takes apart before a graph is lowered: those that no row serves."""

import functools

import torch
import torch._inductor.inductor_prims  # registers `prims.fma`
from torch._decomp import core_aten_decompositions, get_decompositions, register_decomposition

from torch_tpu._loader import native

aten = torch.ops.aten
_ours: dict = {}
_own = functools.partial(register_decomposition, registry=_ours)


@functools.cache
def decompositions() -> dict:
    """Decompositions by overload, for the operators of a graph that no row serves."""
    table = {**core_aten_decompositions(), **get_decompositions(_MORE), **_ours}
    return {op: how for op, how in table.items() if not is_native(op) or op in _ours}


def is_native(op: torch._ops.OpOverload) -> bool:
    """Whether a row lowers the overload within a graph."""
    return op.namespace == "aten" and not native().graph_refusal(name_of(op))


def name_of(op: torch._ops.OpOverload) -> str:
    """ATen name with overload, as the table of operators has it: ``add.Tensor``, ``relu``."""
    name = op._schema.name.rpartition("::")[2]
    return f"{name}.{op._schema.overload_name}" if op._schema.overload_name else name


# Beyond PyTorch's core set.
_MORE = [
    aten.native_dropout,
    aten.rand_like,
    aten.randn_like,
]


@_own(aten.rand.default)
def _rand(size, dtype=None, layout=None, device=None, pin_memory=None):
    return aten.uniform(torch.empty(size, dtype=dtype, device=device))


@_own(aten.randn.default)
def _randn(size, dtype=None, layout=None, device=None, pin_memory=None):
    return aten.normal_functional(torch.empty(size, dtype=dtype, device=device))


@_own(aten.randint.low)
def _randint_low(low, high, size, dtype=torch.int64, layout=None, device=None, pin_memory=None):
    return aten.random(torch.empty(size, dtype=dtype, device=device), low, high)


@_own([aten.randint.default])
def _randint(high, size, dtype=torch.int64, layout=None, device=None, pin_memory=None):
    return aten.random(torch.empty(size, dtype=dtype, device=device), 0, high)


# Dynamo itself writes `addcmul` and its like so.
@_own(torch.ops.prims.fma.default)
def _fma(x, y, z):
    return aten.add(aten.mul(x, y), z)
