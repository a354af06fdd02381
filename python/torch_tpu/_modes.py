"""How ops run as they come: ``torch.tpu.eager_mode``."""

from __future__ import annotations

from torch_tpu._loader import native
from torch_tpu._settings import settings

__all__ = ["eager_mode", "get_eager_mode"]


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
