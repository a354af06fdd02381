"""What the runtime did."""

from __future__ import annotations

import json
from typing import Any

from torch_tpu import _decompose, _loader


def stats() -> dict[str, Any]:
    """Counts since the start of the process or the last :func:`reset_stats`.

    ``launches``; ``compiles`` (``quick``, ``full``, ``seconds``); ``cache`` (``memory_hits``,
    ``disk_hits``, ``shared``, ``misses`` by cause, ``stores``, ``store_failures``,
    ``evictions``); ``fallbacks`` by op, with ``calls`` and ``bytes`` moved; ``decompositions``, the
    calls by op that ran as other ops; ``h2d_bytes`` and ``d2h_bytes``. Reading them starts no
    device.
    """
    counts = json.loads(_loader.native().stats())
    return counts | {"decompositions": dict(_decompose.calls)}


def reset_stats() -> None:
    """Sets all counters to zero."""
    _loader.native().reset_stats()
    _decompose.calls.clear()
