"""PyTorch's profiler with what ran on the device: ``torch_tpu.profile``.

PyTorch has a place for device activities of hardware that it knows. Here they are noted by the
runtime and added when the trace is written.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import pathlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch

from torch_tpu._loader import native

# Numbers of the devices' rows, far from those of processes.
_FIRST_ROW = 1 << 30
_PROGRAMS, _GAPS = 0, 1


class profile(torch.profiler.profile):  # noqa: N801, as PyTorch's
    """``torch.profiler.profile``, whose traces also show the device.

    The trace (:meth:`export_chrome_trace`, ``tensorboard_trace_handler``) gets a row of the device
    with a span for each program from its launch, or the end of the one before it, to the moment
    its results are there, with the line of Python that asked for it; and a row of the host's gaps,
    in which the device has nothing to do. Compiles are spans of the host (``tpu::compile``).
    Arguments are those of ``torch.profiler.profile``.
    """

    _launches: list[dict[str, Any]] = []

    def start_trace(self) -> None:
        """As PyTorch's."""
        super().start_trace()
        native().start_launches()

    def stop_trace(self) -> None:
        """As PyTorch's, when all that was launched has ended."""
        torch.tpu.synchronize()
        self._launches = json.loads(native().stop_launches())
        super().stop_trace()

    def export_chrome_trace(self, path: str) -> None:
        """Writes the trace, compressed where the name ends in ``.gz``.

        Loads in Perfetto (https://ui.perfetto.dev), ``chrome://tracing`` and TensorBoard.
        """
        super().export_chrome_trace(path)
        with _changed(path) as trace:
            trace["traceEvents"] += events(self._launches, trace.get("baseTimeNanoseconds", 0))


@contextlib.contextmanager
def _changed(path: str) -> Iterator[dict[str, Any]]:
    """The JSON in a file, which is written again."""
    file = pathlib.Path(path)
    packed = path.endswith(".gz")
    data = file.read_bytes()
    trace = json.loads(gzip.decompress(data) if packed else data)
    yield trace
    data = json.dumps(trace).encode()
    file.write_bytes(gzip.compress(data) if packed else data)


def events(launches: list[dict[str, Any]], base: int) -> list[dict[str, Any]]:
    """Spans and gaps of all devices as events of Chrome's trace format.

    Args:
        launches: What :func:`native().stop_launches` gives: times in nanoseconds since 1970.
        base: The trace's own zero on that scale.
    """
    by_device: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for launch in sorted(launches, key=lambda launch: launch["start"]):
        if launch["end"]:
            by_device[launch["device"]].append(launch)
    made: list[dict[str, Any]] = []
    for device, list_of_device in by_device.items():
        row = _FIRST_ROW + device
        made += _names(row, device)
        free = list_of_device[0]["start"]
        for launch in list_of_device:
            start, end = max(launch["start"], free), max(launch["end"], free)
            if start > free:
                gap = _span("host gap", "host_gap", (row, _GAPS), (free - base, start - base))
                made.append(gap | {"args": {"before": launch["what"], "line": launch["line"]}})
            span = _span(launch["what"], "kernel", (row, _PROGRAMS), (start - base, end - base))
            made.append(span | {"args": {"device": device, "line": launch["line"]}})
            free = end
    return made


def _span(name: str, category: str, at: tuple[int, int], times: tuple[int, int]) -> dict[str, Any]:
    """An event; times in nanoseconds, written as microseconds."""
    start, end = times
    where = {"pid": at[0], "tid": at[1], "ts": start / 1e3, "dur": (end - start) / 1e3}
    return {"ph": "X", "cat": category, "name": name, **where}


def _names(row: int, device: int) -> list[dict[str, Any]]:
    """What the rows are called, below those of the host."""
    rows = {_PROGRAMS: "programs", _GAPS: "host gaps"}
    names = [
        {"ph": "M", "name": "process_name", "pid": row, "args": {"name": f"tpu:{device}"}},
        {"ph": "M", "name": "process_sort_index", "pid": row, "args": {"sort_index": row}},
    ]
    for tid, name in rows.items():
        names.append(
            {"ph": "M", "name": "thread_name", "pid": row, "tid": tid, "args": {"name": name}}
        )
    return names
