"""The command ``torchtpu``: questions about programs and the device.

Each module of this package is one command: ``add`` describes its arguments, and its function, the
default ``run``, takes what was given and returns the exit status.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from torch_tpu._cli import cache, explain, fit, ops

_COMMANDS = (ops, explain, cache, fit)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit status."""
    parser = argparse.ArgumentParser(prog="torchtpu", description=__doc__.split(chr(10))[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for command in _COMMANDS:
        command.add(commands)
    given = parser.parse_args(argv)
    return given.run(given)
