"""How ops and graphs run: ``torch.tpu.eager_mode``, ``torch.tpu.buckets``."""

from __future__ import annotations

from collections.abc import Iterable

from torch_tpu._loader import native
from torch_tpu._settings import settings

__all__ = ["buckets", "eager_mode", "get_buckets", "get_eager_mode"]


def eager_mode(mode: str) -> settings:
    """Sets the mode for the process, or for a ``with`` block; the setting ``eager_mode``.

    ``"strict"``: each op is one program, launched at once and not waited for. ``"debug"``: it is
    waited for as well, so that an error shows at the line that caused it.

    Raises:
        ValueError: there is no such mode.
    """
    return settings(eager_mode=mode)


def get_eager_mode() -> str:
    """The mode now."""
    return native().get_setting("eager_mode")


def buckets(sizes: str | Iterable[int]) -> settings:
    """Says, for the process or for a ``with`` block, what open sizes are rounded up to; the setting
    ``buckets``.

    Sizes are open where ``torch.compile`` is told so (``dynamic=True``,
    ``torch._dynamo.mark_dynamic`` and ``mark_unbacked``), or has seen a second one. A graph then has
    a program for each bucket. Results are those of the exact sizes: a program knows them when it
    runs, and masks what lies behind. A graph that cannot be padded exactly has a program for each
    size; ``torch_tpu.explain()`` says why.

    Args:
        sizes: ``"powers"``, the default: powers of two from 8 on. Rising numbers, as
            ``[128, 512]``: a larger size has a program of its own. ``"exact"``: no rounding.

    Raises:
        ValueError: sizes that do not rise, or are none.
    """
    text = sizes if isinstance(sizes, str) else ",".join(str(int(n)) for n in sizes)
    return settings(buckets=text)


def get_buckets() -> str | list[int]:
    """What open sizes are rounded up to now, as :func:`buckets` takes it."""
    text = native().get_setting("buckets")
    return [int(n) for n in text.split(",")] if text[0].isdigit() else text
