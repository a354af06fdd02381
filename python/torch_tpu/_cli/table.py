"""How the commands print."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence


def print_json(rows: object) -> None:
    """Prints JSON, indented."""
    print(json.dumps(rows, indent=1))


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints rows under a head, in columns as wide as their widest cell."""
    lines = [tuple(str(cell) for cell in row) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths))
        print("  ".join(cells).rstrip())


def size(count: float) -> str:
    """Bytes as a person reads them: ``1.50 GiB``."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"
