"""``mode=`` and ``options=`` of ``torch.compile`` on the device."""

from __future__ import annotations

import difflib
import functools
import mmap
import re
from collections.abc import Mapping

from torch_tpu import _start
from torch_tpu._loader import native
from torch_tpu._plugin import find

Options = tuple[tuple[str, "bool | int | float | str"], ...]

# A graph is one launch already, which is all that Inductor's CUDA graphs are after.
_MODES: dict[str, Options] = {
    "default": (),
    "reduce-overhead": (),
    "max-autotune": (("optimization_level", "O3"),),
    "max-autotune-no-cudagraphs": (("optimization_level", "O3"),),
}


def options_of(mode: str | None, options: Mapping[str, object] | None) -> Options:
    """The compiler's options for a graph, sorted by name.

    Args:
        mode: ``default``; ``reduce-overhead``, the same, since a graph is one launch;
            ``max-autotune`` and ``max-autotune-no-cudagraphs``: XLA's highest effort,
            ``optimization_level`` ``O3``, which the CPU's compiler does not heed.
        options: XLA's flags by name, as ``{"xla_cpu_enable_fast_math": True}``, and
            ``optimization_level`` and ``memory_fitting_level``, from ``O0`` to ``O3``.

    Raises:
        ValueError: TPU4003, a mode or an option that there is not, or a value it does not take.
    """
    if mode is not None and mode not in _MODES:
        raise ValueError(
            f"TPU4003: there is no mode `{mode}` of the backend `tpu`; hint: one of "
            f"{', '.join(_MODES)}"
        )
    chosen = dict(_MODES[mode or "default"]) | dict(options or {})
    for name, value in chosen.items():
        if not isinstance(value, (bool, int, float, str)):
            raise ValueError(f"TPU4003: option `{name}` cannot be {value!r}")
    result = tuple(sorted(chosen.items()))
    if result:
        _check(result)
    return result


@functools.cache
def _check(options: Options) -> None:
    _start.init()
    try:
        native().check_options(list(options))
    except ValueError as error:
        raise ValueError(f"TPU4003: {error}{_hint(str(error), options)}") from None


def _hint(message: str, options: Options) -> str:
    """The flags of the plugin that are spelt most like one that it does not know."""
    unknown = [name for name, _ in options if name in message and name.startswith("xla_")]
    if not unknown or "No such" not in message:
        return ""
    close = difflib.get_close_matches(unknown[0], _flags(), n=5)
    return f"; hint: the compiler knows {', '.join(close)}" if close else ""


@functools.cache
def _flags() -> list[str]:
    """What the plugin's file has of names of flags."""
    path, _ = find()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = {match.group(1).decode() for match in re.finditer(rb"\0(xla_[a-z0-9_]+)\0", data)}
    return sorted(found)
