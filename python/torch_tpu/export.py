"""Programs of ``torch.export`` as StableHLO, to be run where their Python source is not.

    program = torch.export.export(model, (x,))
    torch_tpu.export.save(program, "model.tpu")
    model = torch_tpu.export.load("model.tpu")  # in another process, on another machine
    y = model(x.to("tpu"))

What is saved is a folder: ``module.mlir``, StableHLO as text; ``program.json``, what its parameters
and results are; ``weights.safetensors``. The text is the portable form: no PJRT plugin offers to
write StableHLO's versioned bytecode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.export.passes import move_to_device_pass
from torch.fx import Node
from torch.utils import _pytree as pytree

from torch_tpu._graph.decompositions import aten, decompositions
from torch_tpu._graph.lower import Lowered, lower
from torch_tpu._loader import native

__all__ = ["Program", "load", "save", "stablehlo"]

_FORM = 1
_MODULE, _DESCRIPTION, _WEIGHTS = "module.mlir", "program.json", "weights.safetensors"


def stablehlo(program: ExportedProgram, platform: str | None = None) -> str:
    """The module of a program; its function is ``main``.

    Args:
        program: What ``torch.export.export`` gave, on any device; all sizes are fixed.
        platform: ``"tpu"`` or ``"cpu"``, for which operators may be lowered differently; the one
            of this machine if not given.

    Raises:
        ValueError: TPU4011, a size is not fixed.
        NotImplementedError: an operator has no lowering.
    """
    return _lower(program, platform or native().platform()).lowered.text


def _safetensors() -> ModuleType:
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError(
            "TPU4013: weights are kept by the package safetensors; hint: pip install safetensors"
        ) from error
    return safetensors.torch


def save(program: ExportedProgram, path: str | Path, platform: str | None = None) -> None:
    """Writes a program and its weights into the folder ``path``, which is made.

    Args:
        program: As for `stablehlo`, which says as well what is raised.
        path: A folder.
        platform: As for `stablehlo`.

    Raises:
        ImportError: TPU4013, the package `safetensors` is not installed.
    """
    save_file = _safetensors().save_file
    platform = platform or native().platform()
    parts = _lower(program, platform)
    place = parts.places.__getitem__
    description = {
        "form": _FORM,
        "platform": platform,
        "torch": torch.__version__,
        "inputs": pytree.treespec_dumps(program.call_spec.in_spec),
        "outputs": pytree.treespec_dumps(program.call_spec.out_spec),
        "given": parts.given,
        "results": parts.results,
        "read": [place(node) for node in parts.lowered.read],
        "written": [place(node) for node in parts.lowered.written],
        "program": json.loads(parts.lowered.description),
    }
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MODULE).write_text(parts.lowered.text)
    (folder / _DESCRIPTION).write_text(json.dumps(description, indent=1))
    save_file(parts.weights, folder / _WEIGHTS)


def load(path: str | Path) -> Program:
    """Reads what `save` wrote, weights included, onto the device.

    Raises:
        ValueError: TPU4010, the folder does not hold a program of this form; TPU4012, it was
            lowered for another platform.
        ImportError: TPU4013, as for `save`.
    """
    load_file = _safetensors().load_file

    folder = Path(path)
    description = json.loads((folder / _DESCRIPTION).read_text())
    if description.get("form") != _FORM:
        raise ValueError(
            f"TPU4010: `{path}` has the form {description.get('form')}, expected {_FORM}; hint: "
            "export it again"
        )
    here = native().platform()
    if description["platform"] != here:
        raise ValueError(
            f"TPU4012: `{path}` is for the platform {description['platform']} and the device is "
            f'{here}; hint: save(..., platform="{here}")'
        )
    weights = {name: t.to("tpu") for name, t in load_file(folder / _WEIGHTS).items()}
    return Program((folder / _MODULE).read_text(), description, weights)


class Program:
    """A program read back; it is called like the module that was exported.

    Attributes:
        weights: Parameters, buffers and constants by name. A run changes those that the module
            changes.
    """

    def __init__(self, text: str, description: dict, weights: Mapping[str, torch.Tensor]) -> None:
        self.weights = dict(weights)
        self._description = description
        self._inputs = pytree.treespec_loads(description["inputs"])
        self._outputs = pytree.treespec_loads(description["outputs"])
        self._count = len(description["program"]["outputs"])
        self._id = native().add_program(json.dumps(description["program"]), text)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program on tensors of the device.

        Raises:
            TypeError: the arguments have another structure, or one another type, than those that
                it was exported with.
        """
        given, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._inputs:
            raise TypeError(f"the program takes {self._inputs}, but got {spec}")
        for i, (value, expected) in enumerate(zip(given, self._description["given"])):
            if _described(value) != expected:
                raise TypeError(f"argument {i} is {_described(value)}, expected {expected}")

        def at(place: int | str) -> torch.Tensor:
            return given[place] if isinstance(place, int) else self.weights[place]

        read, written = ([at(p) for p in self._description[kind]] for kind in ("read", "written"))
        made = torch.ops.torch_tpu.run_graph.default(self._id, self._count, [], read, written)
        choose = {"new": made.__getitem__, "old": at, "value": lambda value: value}
        results = [choose[kind](what) for kind, what in self._description["results"]]
        return pytree.tree_unflatten(results, self._outputs)


class _Parts(NamedTuple):
    """A program taken apart; a place is the position of an argument or the name of a weight.

    ``given`` describes the arguments; ``results`` says for each result whether it is a ``new``
    tensor, an ``old`` one by its place, or a ``value``.
    """

    lowered: Lowered
    places: dict[Node, int | str]
    weights: dict[str, torch.Tensor]
    given: list
    results: list[tuple[str, Any]]


def _lower(program: ExportedProgram, platform: str) -> _Parts:
    moved = move_to_device_pass(program, "tpu").run_decompositions(decompositions())
    signature, graph = moved.graph_signature, moved.graph_module
    inputs = graph.graph.find_nodes(op="placeholder")
    places, given = _places(inputs, signature.input_specs)
    _refuse_symbols(inputs)
    by_place = {place: node for node, place in places.items()}
    (output,) = graph.graph.find_nodes(op="output")
    results, fresh = [], []
    with graph.graph.inserting_before(output):
        for value, spec in zip(output.args[0], signature.output_specs):
            if spec.kind is OutputKind.USER_OUTPUT:
                results.append(_result(value, places, fresh))
                continue
            name = spec.target
            target = by_place[name] if name in by_place else _named(inputs, name)
            graph.graph.call_function(aten.copy_.default, (target, value))
    output.args = (tuple(fresh),)
    names = [str(places.get(node, node.name)) for node in inputs]
    tensors = {**program.state_dict, **program.constants}
    used = {place for place in places.values() if isinstance(place, str)}
    return _Parts(
        lower(graph, platform, names),
        places,
        {name: tensors[name].detach().cpu().clone().contiguous() for name in sorted(used)},
        given,
        results,
    )


def _places(inputs: list[Node], specs: Any) -> tuple[dict[Node, int | str], list]:
    places: dict[Node, int | str] = {}
    given: list = []
    for node, spec in zip(inputs, specs):
        if spec.kind is InputKind.USER_INPUT:
            places[node] = len(given)
            given.append(_described(node.meta["val"]))
        else:
            places[node] = spec.target
    return places, given


def _result(value: Any, places: dict, fresh: list[Node]) -> tuple[str, Any]:
    if not isinstance(value, Node):
        return "value", value
    if value in places:
        return "old", places[value]
    if value not in fresh:
        fresh.append(value)
    return "new", fresh.index(value)


def _named(inputs: list[Node], name: str) -> Node:
    """The argument that is written; signatures name it by its node."""
    return next(node for node in inputs if node.name == name)


def _described(value: Any) -> Any:
    """A tensor's dtype and sizes; any other value itself, which a program holds fixed."""
    if isinstance(value, torch.Tensor):
        return {"dtype": str(value.dtype).removeprefix("torch."), "sizes": list(value.shape)}
    return value


def _refuse_symbols(inputs: list[Node]) -> None:
    for node in inputs:
        value = node.meta["val"]
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        if any(isinstance(size, torch.SymInt) for size in sizes):
            raise ValueError(
                f"TPU4011: a size of `{node.name}` is not fixed; hint: export without "
                "`dynamic_shapes`, once for each size"
            )
