"""Reads where a compiler puts what: its buffer assignment and live ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from torch_tpu._fit.hlo import Shape, shapes

_ALLOCATION = re.compile(r"^allocation (\d+): size (\d+)(?:, color (\d+))?,? ?(.*?):?$")
_VALUE = re.compile(
    r"^ value: <\d+ (.+?)(\{[\d,]*\})?(?: \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\): (.*)$"
)
_RANGE = re.compile(r"^\s+(.+?)\{([\d,]*)\}:(\d+)-(\d+)$")


@dataclass
class Buffer:
    """A value of the program and its place."""

    instruction: str
    index: str
    size: int
    allocation: int
    offset: int
    shape: Shape | None
    category: str
    first: int = 0
    last: int = 0


@dataclass
class Plan:
    """What lies in the device's large memory.

    Attributes:
        categories: Bytes of ``arguments``, ``results``, ``temporaries`` and ``constants``.
        buffers: Every value that has memory, with the first and the last moment it is needed.
        moments: How many there are; instructions, in the order in which they run.
    """

    categories: dict[str, int] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    moments: int = 0

    @property
    def total(self) -> int:
        """Bytes that have to be there."""
        return sum(self.categories.values())

    def timeline(self) -> list[int]:
        """Bytes in use at every moment."""
        steps = [0] * (self.moments + 2)
        for first, last, size in self._spans():
            steps[first] += size
            steps[last + 1] -= size
        used, now = [], 0
        for step in steps[: self.moments + 1]:
            now += step
            used.append(now)
        return used

    def _spans(self) -> list[tuple[int, int, int]]:
        """Times in which memory is used; values that follow each other in one place are one."""
        places: dict[tuple[int, int], list[Buffer]] = {}
        for buffer in self.buffers:
            places.setdefault((buffer.allocation, buffer.offset), []).append(buffer)
        spans = []
        for held in places.values():
            held.sort(key=lambda b: (b.first, -b.size))
            first, last, size = held[0].first, held[0].last, held[0].size
            for buffer in held[1:]:
                if buffer.first <= last:
                    last, size = max(last, buffer.last), max(size, buffer.size)
                else:
                    spans.append((first, last, size))
                    first, last, size = buffer.first, buffer.last, buffer.size
            spans.append((first, last, size))
        return spans

    def largest(self, moment: int) -> list[Buffer]:
        """What is needed at a moment, the largest first; one buffer for each place."""
        live = [b for b in self.buffers if b.first <= moment <= b.last]
        places: dict[tuple[int, int], Buffer] = {}
        for buffer in sorted(live, key=lambda b: -b.size):
            places.setdefault((buffer.allocation, buffer.offset), buffer)
        return sorted(places.values(), key=lambda b: -b.size)


def parse(assignment: str, ranges: str) -> Plan:
    """Reads a buffer assignment and the live ranges that belong to it."""
    plan, category, number = Plan(), "", 0
    for line in assignment.splitlines():
        found = _ALLOCATION.match(line)
        if found:
            number, size, color, kind = int(found[1]), int(found[2]), found[3] or "0", found[4]
            category = _category(kind) if color == "0" else ""
            if category:
                plan.categories[category] = plan.categories.get(category, 0) + size
            continue
        found = _VALUE.match(line) if category else None
        if found:
            kind = shapes(found[5])
            array = kind[0] if len(kind) == 1 and not found[5].startswith("(") else None
            name, index = found[1], (found[2] or "{}")[1:-1]
            place = (number, int(found[4]))
            plan.buffers.append(Buffer(name, index, int(found[3]), *place, array, category))
    _set_ranges(plan, ranges)
    return plan


def _category(kind: str) -> str:
    if "parameter" in kind:
        return "arguments"
    if "thread-local" in kind:
        return ""
    if "preallocated-temp" in kind:
        return "temporaries"
    return "constants" if "constant" in kind else "results"


def _set_ranges(plan: Plan, text: str) -> None:
    """Only temporaries share memory; whatever else there is lies there from start to end."""
    known: dict[tuple[str, str], tuple[int, int]] = {}
    for line in text.splitlines():
        found = _RANGE.match(line)
        if found:
            known[found[1], found[2]] = int(found[3]), int(found[4])
    plan.moments = max((last for _, last in known.values()), default=0)
    for buffer in plan.buffers:
        whole = 0, plan.moments
        shared = buffer.category == "temporaries"
        key = buffer.instruction, buffer.index
        buffer.first, buffer.last = known.get(key, whole) if shared else whole
