"""``torchtpu fit``: whether a program compiles for a TPU and fits, with no TPU."""

from __future__ import annotations

import argparse
import contextlib
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch_tpu._cli.table import print_json, print_table, size

_NAME = "torchtpu_fit"
_CONTRACT = """\
The script is run without data and without a device: tensors have types and shapes, no values, and
are made on the device unless it says otherwise. Its __name__ is "torchtpu_fit", so that what stands
under `if __name__ == "__main__":` is left out. It defines one of

  def fit(): return call, inputs     what to call, and a tuple of its arguments
  model = ...; inputs = ...          the same, at the top level

The call is what a step does: `model`, or a function with the loss, `loss.backward()` and
`optimizer.step()` in it. All of it is compiled as one program for one device; parameters, optimizer
state and buffers become its arguments, and what it changes in place is changed in place.
"""


def add(commands) -> None:
    """Adds the command's arguments to the ones of ``torchtpu``."""
    fit = commands.add_parser(
        "fit",
        help="whether a program compiles for a TPU and fits, with no TPU",
        description="Compiles what a script does with the real compiler of TPUs, libtpu, and says "
        "whether it fits, which tensors take the memory, and what it computes and moves. The exit "
        "status is 0 if it fits everywhere, 1 if not, 2 if there is no answer.",
        epilog=_CONTRACT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fit.add_argument(
        "--topology",
        action="append",
        metavar="NAME",
        help="as v6e:2x2; repeat it, or say `all` for one chip of every generation "
        "(v4:1x1x1, v5e:1x1, v5p:1x1x1, v6e:1x1, tpu7x:1x1x1); default: v6e:1x1",
    )
    fit.add_argument("--dtype", help="default dtype of what the script makes, as bfloat16")
    fit.add_argument(
        "--effort",
        choices=("full", "low"),
        default="full",
        help="low: see sooner whether it compiles; memory is then only an indication",
    )
    fit.add_argument("--no-advice", action="store_true", help="do not look for what would fit")
    fit.add_argument("--seconds", type=float, default=600, help="how long a compile may take")
    fit.add_argument("--json", action="store_true", help="print JSON")
    fit.add_argument("--html", metavar="FILE", help="write a page with a memory timeline")
    fit.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="SCRIPT [ARG ...]", help="a Python file"
    )
    fit.set_defaults(run=lambda given: _run(fit, given))


def _run(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    import torch

    from torch_tpu._fit import page
    from torch_tpu._fit.ask import Question
    from torch_tpu._fit.capture import CaptureError
    from torch_tpu._fit.compiler import CompilerError, library
    from torch_tpu._fit.targets import GENERATIONS, target_of

    if not given.command:
        parser.error("expected a script")
    dtype = getattr(torch, given.dtype, None) if given.dtype else None
    if given.dtype and not isinstance(dtype, torch.dtype):
        parser.error(f"--dtype: `{given.dtype}` is no dtype")
    question = Question(lambda _: _load(given.command), True, given.effort, given.seconds)
    reports = []
    try:
        library()
        for topology in _topologies(given.topology, GENERATIONS):
            target_of(topology)
            report = question.ask(topology, dtype)
            if report.verdict == "does not fit" and not given.no_advice:
                report.advice = question.advise(report, dtype)
            reports.append(report)
            if not given.json:
                _print(report)
    except (CaptureError, CompilerError, ValueError) as error:
        print(f"torchtpu fit: {error}", file=sys.stderr)
        return 2
    if given.json:
        print_json([report.as_dict() for report in reports])
    if given.html:
        with open(given.html, "w") as file:
            file.write(page.write(reports, " ".join(given.command)))
    return 0 if all(report.fits for report in reports) else 1


def _topologies(names: Sequence[str] | None, generations: Any) -> list[str]:
    found = []
    for name in names or ["v6e:1x1"]:
        found += [g.single for g in generations] if name == "all" else [name]
    return found


def _load(command: Sequence[str]) -> tuple[Callable[..., Any], Sequence[Any]]:
    """The call that a script defines, and its arguments; the script runs under a fake mode."""
    with _arguments(command), contextlib.redirect_stdout(sys.stderr):
        defined = runpy.run_path(command[0], run_name=_NAME)
        if callable(defined.get("fit")):
            return defined["fit"]()
    if "model" in defined and "inputs" in defined:
        return defined["model"], defined["inputs"]
    raise ValueError(
        f"TPU4024: `{command[0]}` defines neither `fit` nor `model` and `inputs`; hint: "
        "torchtpu fit --help says what they are"
    )


@contextlib.contextmanager
def _arguments(command: Sequence[str]) -> Iterator[None]:
    before = (sys.argv, sys.path[0])
    sys.argv, sys.path[0] = list(command), os.path.dirname(os.path.abspath(command[0]))
    try:
        yield
    finally:
        sys.argv, sys.path[0] = before


def _print(report: Any) -> None:
    print(f"{report.topology} {report.dtype}: {report.verdict}")
    for reason in report.reasons:
        print(f"  {reason}")
    if report.hbm:
        hbm = report.hbm
        print(f"  memory {size(hbm['needed'])} of {size(hbm['limit'])}, peak {size(hbm['peak'])}")
        kinds = ("arguments", "results", "temporaries", "constants", "padding")
        print("  " + ", ".join(f"{kind} {size(hbm.get(kind, 0))}" for kind in kinds))
    _print_costs(report)
    rows = [
        (size(t.bytes), size(t.padding), t.kind, t.type, t.name, _short(t.line))
        for t in report.tensors
    ]
    if rows:
        print_table(
            ("  bytes", "padding", "kind", "type", "largest at the peak", "line"), _indented(rows)
        )
    for advice in report.advice:
        print(f"  advice: {advice}")
    print()


def _print_costs(report: Any) -> None:
    seconds = report.seconds
    if seconds:
        print(
            f"  {report.flops:.3g} operations, {report.bytes:.3g} bytes moved; by published peaks "
            f"at least {max(seconds['compute'], seconds['memory']) * 1e3:.3g} ms "
            f"(compute {seconds['compute'] * 1e3:.3g}, memory {seconds['memory'] * 1e3:.3g}); "
            f"compiled in {seconds['compile']:.0f} s at {report.effort} effort"
        )
    rows = [
        (
            f"{r['compute'] * 1e3:.3g}",
            f"{r['memory'] * 1e3:.3g}",
            r["bound"],
            f"{r['cycles'] / report.cycles:.1%}" if report.cycles else "",
            r["part"],
            _short(r["line"]),
        )
        for r in report.regions
    ]
    if rows:
        head = ("  ms compute", "ms memory", "bound", "cycles (relative)", "part", "line")
        print_table(head, _indented(rows))
    for loss in report.unit:
        sizes = f"{loss['rows']}x{loss['inner']} by {loss['inner']}x{loss['columns']}"
        print(
            f"  the matrix unit is not filled: {loss['count']} x {sizes} in {loss['part']} "
            f"({_short(loss['line'])}) waste {loss['lost']:.1%} of all operations"
        )
    for kind, (count, moved) in report.collectives.items():
        print(f"  {kind}: {count}, {moved:.3g} bytes")
    for target, count in report.uncosted.items():
        print(f"  no estimate for the custom call {target}, {count} times")
    for loop in report.endless:
        print(f"  loop of unknown length, counted once: {loop}")


def _indented(rows: Sequence[tuple]) -> list[tuple]:
    return [("  " + str(first), *rest) for first, *rest in rows]


def _short(line: str) -> str:
    """The last three folders of a path."""
    return "/".join(line.split(os.sep)[-3:])
