"""``torchtpu ops``: which operators run on the device."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from torch_tpu._cli import script
from torch_tpu._cli.table import print_json, print_table

# Statuses in the order of the report: what needs attention first.
_ORDER = ("fallback", "decomposed", "native")


def add(commands) -> None:
    """Adds the command's arguments to the ones of ``torchtpu``."""
    ops = commands.add_parser(
        "ops",
        help="which operators run on the device",
        description="Lists how every operator runs on the device: native, decomposed into others, "
        "or on the CPU. With --model, only those that a script calls: it runs on the CPU, no "
        "device is needed, and the exit status is 1 if an operator would leave the device.",
    )
    ops.add_argument("--json", action="store_true", help="print JSON")
    ops.add_argument("--meta", action="store_true", help="run the script without data")
    ops.add_argument(
        "--model", nargs=argparse.REMAINDER, metavar="SCRIPT [ARG ...]", help="a script to run"
    )
    ops.set_defaults(run=lambda given: _run_command(ops, given))


def _run_command(ops: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    if given.model is None:
        return _list(given.json)
    if not given.model:
        ops.error("--model: expected a script")
    return _trace(given.model, "meta" if given.meta else "cpu", given.json)


def _list(as_json: bool) -> int:
    from torch_tpu import _coverage

    rows = _coverage.table()
    if as_json:
        keys = ("family", "operator", "status")
        print_json([dict(zip(keys, row)) for row in rows])
        return 0
    print_table(("family", "operator", "status"), rows)
    print(_summary([status for _, _, status in rows]))
    return 0


def _trace(command: Sequence[str], device: str, as_json: bool) -> int:
    calls, failed = _run(command, device)
    rows = [(c.status, c.count, name, c.line) for name, c in calls.items()]
    rows.sort(key=lambda row: (_ORDER.index(row[0]), -row[1], row[2]))
    if as_json:
        keys = ("status", "calls", "operator", "first_call")
        print_json([dict(zip(keys, row)) for row in rows])
    else:
        print_table(("status", "calls", "operator", "first call"), rows)
        print(_summary([row[0] for row in rows]))
    if failed:
        return 2
    return 1 if any(row[0] == "fallback" for row in rows) else 0


def _run(command: Sequence[str], device: str):
    """What a script calls, and whether it failed; what it prints goes to standard error."""
    import torch

    from torch_tpu import _coverage

    recorder = _coverage.Recorder()
    around = [_coverage.without_mkldnn(), _coverage.Elsewhere(device), recorder]
    if device == "meta":
        around.insert(1, torch.device(device))
    return recorder.calls, not script.run(command, *around)


def _summary(statuses: Sequence[str]) -> str:
    native, decomposed, fallback = (
        statuses.count(kind) for kind in ("native", "decomposed", "fallback")
    )
    return f"{native} native, {decomposed} decomposed, {fallback} would leave the device"
