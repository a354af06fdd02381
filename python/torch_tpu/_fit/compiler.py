"""A TPU's compiler, ``libtpu``, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from torch_tpu import _plugin
from torch_tpu._loader import native

INSTALL = "pip install --no-deps libtpu==0.0.52"


class CompilerError(RuntimeError):
    """There is no compiler, or it did not come to an answer."""


class Answer(NamedTuple):
    """What the compiler says.

    Attributes:
        seconds: How long it took.
        error: Why it refused, or empty.
        memory: Bytes of ``arguments``, ``outputs``, ``aliased``, ``temporary`` and ``peak``;
            empty where it refused.
        notes: What it wrote down, by the end of the file's name, as ``after_codegen``.
    """

    seconds: float
    error: str
    memory: dict[str, int]
    notes: dict[str, str]


def library() -> str:
    """The path of ``libtpu``: ``TPU_LIBRARY_PATH`` or what is installed.

    Raises:
        CompilerError: TPU4022, there is none; the message has the command that installs it.
    """
    try:
        return _plugin.libtpu()
    except _plugin.PluginError:
        raise CompilerError(
            f"TPU4022: the compiler of TPUs, libtpu, is not installed; hint: {INSTALL}"
        ) from None


def compile_module(module: str, topology: str, effort: str, seconds: float) -> Answer:
    """Compiles StableHLO for one device of a topology.

    Args:
        module: Text.
        topology: As ``v6e:2x2``.
        effort: ``"full"``, or ``"low"``: quicker, other code, and more or less memory.
        seconds: How long it may take.

    Raises:
        CompilerError: TPU4022 as `library`; TPU4023, the process ended or took too long.
    """
    with _folder(module) as folder:
        command = [
            sys.executable,
            "-m",
            "torch_tpu._fit.child",
            library(),
            topology,
            folder,
            effort,
        ]
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **dict(native().compiler_environment())},
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise CompilerError(
                f"TPU4023: the compiler for {topology} took more than {seconds:.0f} s; hint: "
                'effort="low" sees whether a program compiles'
            ) from None
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise CompilerError(f"TPU4023: the compiler for {topology} ended: {last}")
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        notes = dict(_notes(Path(folder) / "dump"))
    return Answer(answer["seconds"], answer.get("error", ""), answer.get("memory", {}), notes)


@contextmanager
def _folder(module: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="torchtpu-fit-") as folder:
        (Path(folder) / "module.mlir").write_text(module)
        yield folder


_NOTES = (
    "after_optimizations",
    "after_codegen",
    "after_optimizations-buffer-assignment",
    "after_optimizations-live-range",
)


def _notes(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.glob("module_*.txt"):
        name = path.name.removesuffix(".txt").rpartition(".")[2]
        if name in _NOTES:
            yield name, path.read_text(errors="replace")
