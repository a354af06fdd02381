"""Reads the text of programs as XLA prints them.

Only what a report needs is understood, so that what other releases of the compiler print besides
does no harm.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_SHAPE = re.compile(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\](?:\{([^}]*)\})?")
_HEAD = re.compile(r"^\s*(ROOT )?%?([\w.\-]+) = (.*)$")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_OPERAND = re.compile(r"%([\w.\-]+)(?:#(\d+))?")
_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CONDITION = re.compile(r"\bcondition=%?([\w.\-]+)")
_CALLS = re.compile(r"\b(?:calls|body|to_apply|called_computation)=%?([\w.\-]+)")
_TARGET = re.compile(r'custom_call_target="([^"]*)"')

# The compiler writes numbers beyond this for what it cannot tell.
_SENTINEL = 1 << 60


class Shape(NamedTuple):
    """An array's type and layout."""

    dtype: str
    sizes: tuple[int, ...]
    layout: str

    @property
    def in_hbm(self) -> bool:
        """Whether it lies in the device's large memory, rather than in one of the small ones."""
        return "S(" not in self.layout

    @property
    def bytes(self) -> int:
        """Of its elements."""
        return _itemsize(self.dtype, math.prod(self.sizes))

    @property
    def padded(self) -> int:
        """Bytes with what its tiles are filled up with."""
        order, _, tiles = self.layout.partition(":")
        tile = re.match(r"T\(([\d,*]+)\)", tiles)
        if not tile or not order or "*" in tile[1]:
            return self.bytes
        sizes = [self.sizes[int(d)] for d in reversed(order.split(","))]
        tile = [int(n) for n in tile[1].split(",")]
        sizes = [1] * (len(tile) - len(sizes)) + sizes
        start = len(sizes) - len(tile)
        sizes[start:] = [-(-n // t) * t for n, t in zip(sizes[start:], tile)]
        return _itemsize(self.dtype, math.prod(sizes))


def shapes(text: str) -> list[Shape]:
    """The arrays of a type, which may be a tuple."""
    found = _SHAPE.findall(text)
    return [Shape(t, tuple(int(n) for n in s.split(",") if n), layout) for t, s, layout in found]


def _itemsize(dtype: str, count: int) -> int:
    bits = re.search(r"\d+", dtype)
    if dtype == "pred" or not bits:
        return count
    return -(-count * int(bits[0]) // 8)


@dataclass
class Instruction:
    """One line of a computation.

    Attributes:
        elements: For each operand which element of a tuple it is, None where it is all of it.
        given: What stands between the parentheses.
    """

    name: str
    type: str
    opcode: str
    operands: list[str]
    elements: list[int | None]
    given: str
    attributes: str

    @property
    def shapes(self) -> list[Shape]:
        """Of its results."""
        return shapes(self.type)

    @property
    def op_name(self) -> str:
        """The part of the model and the operator that it comes from; the first of several."""
        found = _NAME.search(self.attributes)
        return found[1].replace('\\"', '"').partition(";")[0] if found else ""

    @property
    def frame(self) -> int | None:
        """Where its line is written down."""
        found = _FRAME.search(self.attributes)
        return int(found[1]) if found else None

    @property
    def cycles(self) -> int | None:
        """The compiler's own estimate, if it has one."""
        found = _CYCLES.search(self.attributes)
        return int(found[1]) if found and int(found[1]) < _SENTINEL else None

    @property
    def parameter(self) -> int | None:
        """Which parameter of its computation it is."""
        return int(self.given) if self.opcode == "parameter" and self.given.isdigit() else None

    @property
    def number(self) -> int | None:
        """The integer that it is."""
        text = self.given if self.opcode == "constant" else ""
        return int(text) if text.lstrip("-").isdigit() else None

    @property
    def called(self) -> str | None:
        """The computation that it runs."""
        found = _CALLS.search(self.attributes)
        return found[1] if found else None

    @property
    def target(self) -> str:
        """What a custom call calls."""
        found = _TARGET.search(self.attributes)
        return found[1] if found else ""


@dataclass
class Module:
    """A program: computations by name, each a list of instructions in the order they run."""

    entry: str = ""
    computations: dict[str, list[Instruction]] = field(default_factory=dict)
    frames: dict[int, tuple[str, int]] = field(default_factory=dict)
    _types: dict[str, list[Shape]] = field(default_factory=dict)

    def line(self, instruction: Instruction) -> str:
        """``file:line`` of an instruction, or empty."""
        file, line = self.frames.get(instruction.frame or 0, ("", 0))
        return f"{file}:{line}" if file else ""

    def types(self) -> dict[str, list[Shape]]:
        """The arrays of every instruction by its name."""
        if not self._types:
            every = (i for computation in self.computations.values() for i in computation)
            self._types = {i.name: i.shapes for i in every}
        return self._types

    def trips(self, loop: Instruction) -> int | None:
        """How often a loop runs; None where that is not a matter of counting up to a number."""
        known = _TRIPS.search(loop.attributes)
        condition = _CONDITION.search(loop.attributes)
        if known or not condition:
            return int(known[1]) if known else None
        test = {i.name: i for i in self.computations.get(condition[1], [])}
        every = list(test.values())
        compare = every[-1] if every else None
        if (
            compare is None
            or compare.opcode != "compare"
            or "direction=LT" not in compare.attributes
        ):
            return None
        at = compare.elements[0]
        end = test[compare.operands[1]].number if compare.operands[1] in test else None
        start, step = self._start(loop, at), self._step(loop, at)
        if at is None or end is None or start is None or not step:
            return None
        return max(0, -(-(end - start) // step))

    def _start(self, loop: Instruction, at: int | None) -> int | None:
        """The number that an element of a loop's state begins with."""
        every = {i.name: i for body in self.computations.values() for i in body}
        made = every.get(loop.operands[0])
        if made is None or made.opcode != "tuple" or at is None:
            return None
        made = every.get(made.operands[at])
        while made is not None and made.opcode == "copy":
            made = every.get(made.operands[0])
        return made.number if made else None

    def _step(self, loop: Instruction, at: int | None) -> int | None:
        """What each run of a loop adds to an element of its state."""
        body = {i.name: i for i in self.computations.get(loop.called or "", [])}
        root = list(body.values())[-1] if body else None
        if root is None or root.opcode != "tuple" or at is None:
            return None
        added = body.get(root.operands[at])
        if added is None or added.opcode != "add" or added.elements[0] != at:
            return None
        return body[added.operands[1]].number if added.operands[1] in body else None

    def scheduled(self) -> Iterator[tuple[Instruction, int]]:
        """The instructions that the core runs one after the other, with how often each runs.

        Bodies of loops are part of it, of those of unknown length once.
        """
        yield from self._scheduled(self.entry, 1)

    def _scheduled(self, name: str, times: int) -> Iterator[tuple[Instruction, int]]:
        for instruction in self.computations.get(name, ()):
            body = instruction.called
            if instruction.opcode == "while" and body:
                yield from self._scheduled(body, times * (self.trips(instruction) or 1))
            elif instruction.opcode in ("call", "conditional") and body:
                yield from self._scheduled(body, times)
            else:
                yield instruction, times


def parse(text: str) -> Module:
    """Reads a module as XLA prints it."""
    module, current = Module(), None
    tables: dict[str, dict[int, str]] = {}
    table = ""
    for line in text.splitlines():
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = line
        elif table and re.match(r"^\d+ ", line):
            number, _, rest = line.partition(" ")
            tables.setdefault(table, {})[int(number)] = rest
        elif line == "}":
            current = None
        elif current is None:
            found = _COMPUTATION.match(line)
            if found:
                table, current = "", module.computations.setdefault(found[2], [])
                module.entry = found[2] if found[1] else module.entry
        else:
            instruction = _instruction(line)
            if instruction:
                current.append(instruction)
    module.frames = dict(_frames(tables))
    return module


def _frames(tables: dict[str, dict[int, str]]) -> Iterator[tuple[int, tuple[str, int]]]:
    files = {n: name.strip('"') for n, name in tables.get("FileNames", {}).items()}
    places = tables.get("FileLocations", {})
    for frame, text in tables.get("StackFrames", {}).items():
        place = places.get(_number(text, "file_location_id"), "")
        yield frame, (files.get(_number(place, "file_name_id"), ""), _number(place, "line"))


def _number(text: str, key: str) -> int:
    found = re.search(rf"\b{key}=(\d+)", text)
    return int(found[1]) if found else 0


def _instruction(line: str) -> Instruction | None:
    head = _HEAD.match(line)
    if not head:
        return None
    rest = head[3]
    end = _closing(rest) + 1 if rest.startswith("(") else rest.find(" ")
    kind, rest = rest[:end], rest[end:].lstrip()
    opcode, _, rest = rest.partition("(")
    end = _closing("(" + rest) - 1
    given, attributes = rest[:end], rest[end + 1 :]
    operands = _OPERAND.findall(given)
    names, elements = [name for name, _ in operands], [int(n) if n else None for _, n in operands]
    return Instruction(head[2], kind, opcode, names, elements, given, attributes)


def _closing(text: str) -> int:
    """Where the first parenthesis is closed."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i
    return len(text) - 1
