"""What a TPU's compiler says to a call, put together for people and programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from torch_tpu._fit import cost, hlo, memory
from torch_tpu._fit.compiler import Answer
from torch_tpu._fit.targets import Target

# How many tensors, regions and losses a report names.
_MOST = 12


@dataclass
class Tensor:
    """A tensor in the device's memory: bytes with what its layout fills up, and without."""

    name: str
    line: str
    kind: str
    type: str
    bytes: int
    padding: int


@dataclass
class Report:
    """What became of a call on one topology.

    Attributes:
        verdict: ``"fits"``, ``"does not fit"``, ``"refused"`` (the compiler has another reason),
            ``"does not lower"`` (an operator has no lowering) or ``"not asked"``.
        reasons: Why it does not, with lines where there are.
        effort: ``"full"`` or ``"low"``; at low effort memory and cycles are only indications.
        hbm: Bytes: ``needed``, ``peak``, ``limit``, and ``arguments``, ``results``,
            ``temporaries``, ``constants``. ``padding`` is part of them.
        tensors: The largest at the peak.
        timeline: Bytes in use at each instruction.
        flops, bytes: Operations and bytes moved by one call.
        seconds: Lower bounds of a call by published peaks: ``compute``, ``memory``; and the time
            to ``compile``. None is a measurement.
        cycles: The compiler's own estimate, relative and not calibrated.
        regions: The same by the parts of the model.
        unit: Operations that the matrix unit makes for nothing as its edges are filled up, by
            product: name, line, sizes, share of all operations.
        collectives: Count and bytes by kind.
        uncosted: Custom calls without an estimate.
        endless: Loops of unknown length, counted once.
        advice: What was tried and fits.
    """

    topology: str
    verdict: str
    effort: str = "full"
    dtype: str = ""
    reasons: list[str] = field(default_factory=list)
    hbm: dict[str, int] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    timeline: list[int] = field(default_factory=list)
    flops: int = 0
    bytes: int = 0
    cycles: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    regions: list[dict[str, Any]] = field(default_factory=list)
    unit: list[dict[str, Any]] = field(default_factory=list)
    collectives: dict[str, list[int]] = field(default_factory=dict)
    uncosted: dict[str, int] = field(default_factory=dict)
    endless: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether the compiler takes the program."""
        return self.verdict == "fits"

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the timeline has at most 500 points, each the most of its stretch."""
        return {**asdict(self), "timeline": thinned(self.timeline, 500)}


def thinned(values: list[int], most: int) -> list[int]:
    """At most so many values, each the greatest of a stretch."""
    step = max(1, -(-len(values) // most))
    return [max(values[i : i + step]) for i in range(0, len(values), step)]


def assemble(answer: Answer, text: str, target: Target, report: Report) -> Report:
    """Fills a report from what the compiler said to a program.

    Args:
        answer: What it said.
        text: The program as StableHLO.
        target: The generation.
        report: Has topology, effort and dtype.
    """
    exhausted = "HbmOom" in answer.error or "exceeds available HBM" in answer.error
    report.verdict = "does not fit" if exhausted else "refused" if answer.error else "fits"
    if answer.error:
        report.reasons = [answer.error.strip().splitlines()[0]]
    module = hlo.parse(
        answer.notes.get("after_codegen") or answer.notes.get("after_optimizations", "")
    )
    plan = memory.parse(
        answer.notes.get("after_optimizations-buffer-assignment", ""),
        answer.notes.get("after_optimizations-live-range", ""),
    )
    _memory(report, plan, module, answer, target)
    _costs(report, cost.count(text, module, target), target)
    report.seconds["compile"] = answer.seconds
    return report


def _memory(
    report: Report, plan: memory.Plan, module: hlo.Module, answer: Answer, target: Target
) -> None:
    report.timeline = plan.timeline()
    moment = max(range(len(report.timeline)), key=report.timeline.__getitem__, default=0)
    padding = sum(_padding(buffer) for buffer in plan.largest(moment))
    report.hbm = {
        "needed": plan.total,
        # The compiler's own figure also counts what lies in the small memories.
        "peak": max(report.timeline, default=0) or answer.memory.get("peak", 0),
        "limit": int(target.hbm),
        **plan.categories,
        "padding": padding,
    }
    every = {i.name: i for body in module.computations.values() for i in body}
    lines = _first_uses(module)
    for buffer in plan.largest(moment)[:_MOST]:
        made = every.get(buffer.instruction)
        line = module.line(made) if made else ""
        report.tensors.append(
            Tensor(
                made.op_name if made and made.op_name else buffer.instruction,
                line or lines.get(buffer.instruction, ""),
                buffer.category,
                _type(buffer.shape),
                buffer.size,
                _padding(buffer),
            )
        )


def _first_uses(module: hlo.Module) -> dict[str, str]:
    """For each instruction the line of the first that reads it and has one."""
    lines: dict[str, str] = {}
    for instruction in module.computations.get(module.entry, []):
        line = module.line(instruction)
        for operand in instruction.operands:
            if line:
                lines.setdefault(operand, line)
    for instruction in reversed(module.computations.get(module.entry, [])):
        if instruction.name in lines:
            for operand in instruction.operands:
                lines.setdefault(operand, lines[instruction.name])
    return lines


def _padding(buffer: memory.Buffer) -> int:
    return max(buffer.size - buffer.shape.bytes, 0) if buffer.shape else 0


def _type(shape: hlo.Shape | None) -> str:
    if shape is None:
        return ""
    return f"{shape.dtype}[{','.join(map(str, shape.sizes))}]"


def _costs(report: Report, costs: cost.Costs, target: Target) -> None:
    report.flops, report.bytes = int(costs.total("flops")), int(costs.total("bytes"))
    report.cycles = int(costs.total("cycles"))
    report.seconds = {
        "compute": costs.total("compute"),
        "memory": report.bytes / target.bandwidth,
    }
    report.regions = [
        {
            "part": region.part,
            "line": region.line,
            "flops": region.flops,
            "bytes": region.bytes,
            "cycles": region.cycles,
            "compute": region.compute,
            "memory": region.bytes / target.bandwidth,
            "bound": "compute" if region.compute * target.bandwidth > region.bytes else "memory",
        }
        for region in costs.regions[:_MOST]
    ]
    report.unit = _unit(costs, target)
    report.collectives, report.uncosted = costs.collectives, costs.uncosted
    report.endless = costs.endless


def _unit(costs: cost.Costs, target: Target) -> list[dict[str, Any]]:
    """Products whose sizes do not fill the matrix unit, those that cost most first."""
    made = sum(p.filled(target) for p in costs.products) or 1
    losses: dict[tuple, dict[str, Any]] = {}
    for product in costs.products:
        lost = product.filled(target) - product.flops
        sizes = {k: getattr(product, k) for k in ("batch", "rows", "columns", "inner")}
        part = cost.part_of(product.name)
        entry = losses.setdefault(
            (part, *sizes.values()),
            {"part": part, "line": product.line, **sizes, "count": 0, "lost": 0.0},
        )
        entry["count"] += 1
        entry["lost"] += lost / made
    found = sorted(losses.values(), key=lambda entry: -entry["lost"])
    return [entry for entry in found[:_MOST] if entry["lost"] >= 0.005]
