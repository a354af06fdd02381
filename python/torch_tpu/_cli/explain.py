"""``torchtpu explain``: what a script compiles, and why."""

from __future__ import annotations

import argparse
import dataclasses

from torch_tpu._cli import script
from torch_tpu._cli.table import print_json


def add(commands) -> None:
    """Adds the command's arguments to the ones of ``torchtpu``."""
    explain = commands.add_parser(
        "explain",
        help="what a script compiles, and why",
        description="Runs a script and lists every program that it compiled or found on disk: the "
        "line that asked for it, what is new about it, the time, and what to change.",
    )
    explain.add_argument("--json", action="store_true", help="print JSON")
    explain.add_argument("--compiled", action="store_true", help="leave out what was found on disk")
    explain.add_argument("script", help="a script to run")
    explain.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    explain.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    import torch_tpu

    ended_well = script.run([given.script, *given.arguments])
    report = torch_tpu.explain()
    if given.compiled:
        report = type(report)(one for one in report if not one.loaded)
    if given.json:
        print_json([dataclasses.asdict(one) for one in report])
    else:
        print(report)
    return 0 if ended_well else 2
