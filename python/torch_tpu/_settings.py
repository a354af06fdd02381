"""Settings of the runtime, from Python."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Union

from torch_tpu import _loader

Value = Union[str, bool, int, os.PathLike, Iterable[str]]


class settings:
    """Changes settings for the process, or for a ``with`` block.

    ``torch_tpu.settings(fallback="error")`` counts from then on, for all threads; as
    ``with torch_tpu.settings(...):`` the old values come back at the end of the block. The names
    and what they take are in ``docs/settings.md``; :meth:`all` lists the present values.

    Raises:
        KeyError: no setting has this name; lists those there are.
        ValueError: the value is not one that the setting takes.
        RuntimeError: too late: the setting counts only before the device starts.
        In all three cases nothing is changed.
    """

    def __init__(self, **values: Value) -> None:
        native = _loader.native()
        self._before = {name: native.get_setting(name) for name in values}
        try:
            for name, value in values.items():
                native.set_setting(name, _text(value))
        except (ValueError, RuntimeError):
            self._restore()
            raise

    def __enter__(self) -> settings:
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def __repr__(self) -> str:
        return f"settings({', '.join(f'{name} was {old}' for name, old in self._before.items())})"

    @staticmethod
    def all() -> dict[str, str]:
        """The present value of every setting, as it would be written."""
        native = _loader.native()
        return {name: native.get_setting(name) for name in native.setting_names()}

    def _restore(self) -> None:
        native = _loader.native()
        for name, old in self._before.items():
            if native.get_setting(name) != old:
                native.set_setting(name, old)


def no_new_compiles() -> settings:
    """A ``with`` block in which every program has to be there: what would compile one raises.

    Programs on disk count as being there. For all threads, like every setting.

    Raises:
        RuntimeError: TPU4004, inside the block, with what is new about the program.
    """
    return settings(new_compiles="error")


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, os.PathLike)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    return ",".join(value)
