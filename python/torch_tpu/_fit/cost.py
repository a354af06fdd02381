"""What a program computes and moves, by the parts of the model.

Operations are counted in the StableHLO that was compiled, bytes and cycles in what the compiler
made of it. Nothing here was compared with a TPU: cycles are the compiler's own estimates and rank
parts of a program, no more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from torch_tpu._fit.hlo import Instruction, Module, Shape
from torch_tpu._fit.targets import Target

_DOT = re.compile(
    r'"stablehlo\.dot_general".*lhs_batching_dimensions = \[([\d, ]*)\].*'
    r"lhs_contracting_dimensions = \[([\d, ]*)\], rhs_contracting"
)
_CONVOLUTION = re.compile(
    r'"stablehlo\.convolution".*x\[([^\]]*)\]->.*lhs_dilation = array<i64: ([\d, ]*)>'
)
_TYPES = re.compile(r"\}> : \(tensor<([^>]*)>, tensor<([^>]*)>\) -> tensor<([^>]*)>")
_LOCATION = re.compile(r'loc\("((?:[^"\\]|\\.)*)"(?:\("((?:[^"\\]|\\.)*)":(\d+):)?')
_PRECISION = re.compile(r"precision (DEFAULT|HIGHEST|HIGH)")
# Passes of the matrix unit, which multiplies bfloat16, for a product of float32.
_PASSES = {"DEFAULT": 1, "HIGH": 3, "HIGHEST": 6}
_COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)
# What moves nothing by itself.
_FREE = ("parameter", "constant", "bitcast", "tuple", "get-tuple-element", "after-all")
# Custom calls that only say how values are meant.
_NOTIONS = (
    "ConcatBitcast",
    "X64Combine",
    "X64SplitLow",
    "X64SplitHigh",
    "Sharding",
    "AllocateBuffer",
)


class Product(NamedTuple):
    """A product of matrices: ``batch`` times ``rows`` by ``columns``, over ``inner``."""

    name: str
    line: str
    batch: int
    rows: int
    columns: int
    inner: int
    passes: int
    looped: bool

    @property
    def flops(self) -> int:
        """Two for each multiplication."""
        return 2 * self.batch * self.rows * self.columns * self.inner

    def filled(self, target: Target) -> int:
        """As many operations as the matrix unit makes, whose edges are filled up."""
        side, sublanes = target.matrix, 8
        inner = _up(self.inner, side)
        sizes = (
            _up(self.rows, sublanes) * _up(self.columns, side),
            _up(self.rows, side) * _up(self.columns, sublanes),
        )
        return 2 * self.batch * inner * min(sizes)


@dataclass
class Region:
    """A part of the model; layers that only differ by their number are one."""

    part: str
    line: str = ""
    flops: int = 0
    bytes: int = 0
    cycles: int = 0
    compute: float = 0.0


@dataclass
class Costs:
    """What a program costs.

    Attributes:
        regions: By part, the most expensive first.
        products: Products of matrices.
        collectives: Operations between devices: count and bytes by kind.
        uncosted: Custom calls of which the compiler does not say what they cost, and how often.
        endless: Loops whose length the compiler does not know; their bodies count once.
    """

    regions: list[Region] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    collectives: dict[str, list[int]] = field(default_factory=dict)
    uncosted: dict[str, int] = field(default_factory=dict)
    endless: list[str] = field(default_factory=list)

    def total(self, what: str) -> float:
        """The sum over all regions of ``flops``, ``bytes``, ``cycles`` or ``compute``."""
        return sum(getattr(region, what) for region in self.regions)


def count(text: str, module: Module, target: Target) -> Costs:
    """Counts a program, from its StableHLO and what the compiler made of it."""
    costs, regions = Costs(products=list(products(text))), {}

    def region(name: str, line: str) -> Region:
        part = part_of(name)
        found = regions.setdefault(part, Region(part))
        found.line = found.line or line
        return found

    trips = _trips(module, costs)
    for product in costs.products:
        place = region(product.name, product.line)
        times = trips.get(product.name, 1) if product.looped else 1
        place.flops += times * product.flops
        place.compute += times * product.passes * product.flops / target.flops
    for instruction, times in module.scheduled():
        place = region(instruction.op_name, module.line(instruction))
        place.bytes += times * _moved(instruction, module)
        place.cycles += times * (instruction.cycles or 0)
        _note(costs, instruction, times)
    used = [r for r in regions.values() if r.flops or r.bytes or r.cycles]
    weight = lambda r: max(r.compute, r.bytes / target.bandwidth)  # noqa: E731
    costs.regions = sorted(used, key=weight, reverse=True)
    return costs


def products(text: str) -> Iterator[Product]:
    """The products and convolutions of a StableHLO module."""
    loop = None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if loop is None and '"stablehlo.while"' in line:
            loop = indent
        elif loop is not None and indent <= loop and not line.lstrip().startswith("}, {"):
            loop = None
        sizes = _dot(line) or _convolution(line)
        if sizes:
            name, file, number = _LOCATION.search(line + 'loc("")').groups()
            where = f"{file}:{number}" if file else ""
            yield Product(name, where, *sizes, _passes(line), loop is not None)


def _dot(line: str) -> tuple[int, int, int, int] | None:
    found = _DOT.search(line)
    if not found:
        return None
    (lhs, _), _, (out, _) = _types(line)
    batch = math.prod(lhs[d] for d in _ints(found[1]))
    inner = math.prod(lhs[d] for d in _ints(found[2]))
    rows = math.prod(lhs) // max(batch * inner, 1)
    return batch, rows, math.prod(out) // max(batch * rows, 1), inner


def _convolution(line: str) -> tuple[int, int, int, int] | None:
    """As a product: every result is a sum over a window of all its channels."""
    found = _CONVOLUTION.search(line)
    if not found:
        return None
    _, (kernel, _), (out, _) = _types(line)
    columns = kernel[found[1].replace(" ", "").split(",").index("o")]
    inner = math.prod(kernel) // max(columns, 1) // math.prod(_ints(found[2]))
    return 1, math.prod(out) // max(columns, 1), columns, max(inner, 1)


def _types(line: str) -> list[tuple[list[int], str]]:
    split = (text.split("x") for text in _TYPES.search(line).groups())
    return [([int(n) for n in parts[:-1]], parts[-1]) for parts in split]


def _passes(line: str) -> int:
    found = _PRECISION.search(line)
    return _PASSES[found[1]] if found and _types(line)[0][1] in ("f32", "f64") else 1


def _ints(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n.strip()]


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


def part_of(name: str) -> str:
    """The part of the model that an operator belongs to; layers are one."""
    part, slash, op = name.rpartition("/")
    if not slash and "." in name:
        return "copies of parameters"
    return re.sub(r"\.\d+(?=\.|$)", ".*", part) or ("the call" if name else "the compiler's own")


def _trips(module: Module, costs: Costs) -> dict[str, int]:
    """How often loops run, by what they come from."""
    trips: dict[str, int] = {}
    for computation in module.computations.values():
        for instruction in computation:
            if instruction.opcode == "while":
                found = module.trips(instruction)
                if found is None:
                    costs.endless.append(instruction.op_name or instruction.name)
                else:
                    trips[instruction.op_name] = found
    return trips


def _note(costs: Costs, instruction: Instruction, times: int) -> None:
    kind = instruction.opcode.removesuffix("-start")
    if kind in _COLLECTIVES:
        entry = costs.collectives.setdefault(kind, [0, 0])
        entry[0] += times
        entry[1] += times * max((shape.bytes for shape in instruction.shapes), default=0)
    if kind == "custom-call" and instruction.cycles is None and instruction.target not in _NOTIONS:
        costs.uncosted[instruction.target] = costs.uncosted.get(instruction.target, 0) + times


def _moved(instruction: Instruction, module: Module) -> int:
    """Bytes between the core and the large memory; of what is only picked from, what is picked."""
    if instruction.opcode in _FREE or instruction.opcode.endswith("-done"):
        return 0
    if instruction.opcode == "custom-call" and instruction.target in _NOTIONS:
        return 0
    body = module.computations.get(instruction.called or "", [])
    written = _written(instruction, body)
    return written + sum(_reads(instruction, body, module))


def _written(instruction: Instruction, body: list[Instruction]) -> int:
    # What starts a copy gives its target, its source and a flag.
    made = instruction.shapes[:1] if instruction.opcode.endswith("-start") else instruction.shapes
    results = [shape for shape in made if shape.in_hbm]
    root = body[-1] if body else instruction
    if root.opcode == "dynamic-update-slice" and len(results) == 1:
        update = next((i for i in body if i.name == root.operands[1]), None)
        return sum(s.bytes for s in update.shapes) if update else 0
    return sum(shape.padded for shape in results)


def _reads(instruction: Instruction, body: list[Instruction], module: Module) -> Iterator[int]:
    types = module.types()
    for position, operand in enumerate(instruction.operands):
        found: list[Shape] = types.get(operand, [])
        element = instruction.elements[position]
        found = found if element is None else found[element : element + 1]
        found = [shape for shape in found if shape.in_hbm]
        picked = _picked(position, body)
        whole = sum(shape.padded for shape in found)
        yield whole if picked is None else min(whole, picked)


def _picked(position: int, body: list[Instruction]) -> int | None:
    """What a fusion picks of a parameter that it only picks from; None: it reads all of it."""
    name = next((i.name for i in body if i.parameter == position), None)
    users = [i for i in body if name in i.operands]
    picks = ("gather", "dynamic-slice", "slice", "dynamic-update-slice")
    if name is None or not users:
        return None
    if any(i.opcode not in picks or i.operands[0] != name for i in users):
        return None
    reading = [i for i in users if i.opcode != "dynamic-update-slice"]
    return sum(shape.bytes for i in reading for shape in i.shapes)
