"""Compiled graphs that are one program, as data: what AOTAutograd keeps for the next process."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import operator
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._inductor.output_code import OutputCode

from torch_tpu import _explain, _loader
from torch_tpu._graph.options import Options


@dataclasses.dataclass(frozen=True)
class Whole:
    """A program that takes some of a graph's inputs and gives all its results.

    Attributes:
        text: The program's graph, as ``tpu-graph`` reads it.
        options: How it is compiled.
        numbers, read, written: Which inputs of the graph it takes, by position.
        outputs: How many tensors it makes.
        results: For each result of the graph its place among these; ``~i`` for the graph's input
            ``i``; None for None.
        inputs: How many the graph has.
    """

    text: str
    options: Options
    numbers: list[int]
    read: list[int]
    written: list[int]
    outputs: int
    results: list[int | None]
    inputs: int

    def add(self) -> int:
        """Hands the program to the runtime: its number."""
        graph = _loader.native().add_graph(self.text, list(self.options))
        _explain.traced(graph)
        return graph

    def bind(self, graph: int) -> Callable[..., list[Any]]:
        """The program as a function of the graph's inputs."""
        launch, count, results = torch.ops.torch_tpu.run_graph.default, self.outputs, self.results
        as_made = results == list(range(count))
        if as_made and self.read == list(range(self.inputs)) and not self.written:
            return lambda *args: launch(graph, count, [], args, [])
        numbers, read, written = map(_picker, (self.numbers, self.read, self.written))

        def call(*args: Any) -> list[Any]:
            made = launch(graph, count, numbers(args), read(args), written(args))
            if as_made:
                return made
            # Inputs from the end: `~i` of what is reversed.
            pool = (*made, *reversed(args))
            return [None if place is None else pool[place] for place in results]

        return call


def _picker(places: list[int]) -> Callable[[Sequence], Sequence]:
    """Takes what stands at these places, faster than a comprehension does."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    return lambda given: [given[place] for place in places]


def run(graph: int, count: int, numbers: list, read: Sequence, written: list) -> list:
    """Runs a program."""
    return torch.ops.torch_tpu.run_graph.default(graph, count, numbers, read, written)


class Compiled(OutputCode):
    """A compiled graph in the form in which AOTAutograd keeps it on disk, if it can be kept."""

    def __init__(self, call: Callable[..., Sequence[Any]], whole: Whole | None) -> None:
        self._call: Callable[..., Sequence[Any]] | None = call
        self._whole = whole
        self._boxed_call = True

    def __call__(self, inputs: Sequence[Any]) -> Any:
        return self._call(*inputs)

    def prepare_for_serialization(self) -> None:
        if self._whole is None:
            raise BypassAOTAutogradCache("the graph is more than one program")
        self._call = None

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        if self._call is None:
            self._call = self._whole.bind(self._whole.add())

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There is none."""


@functools.cache
def version() -> str:
    """Tells what this package makes of a graph from what another build of it does."""
    digest = hashlib.sha256()
    here = pathlib.Path(__file__).parent
    for path in [*sorted(here.glob("*.py")), pathlib.Path(_loader.native().__file__)]:
        digest.update(path.read_bytes())
    return f"torch_tpu {digest.hexdigest()}"
