"""A whole FX graph as StableHLO, without a device."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from torch_tpu._graph.attention import take_apart
from torch_tpu._graph.write import Writer, can_write
from torch_tpu._loader import native


class LoweringError(NotImplementedError):
    """Operators of a graph have no lowering; ``nodes`` are theirs, with the reasons."""

    def __init__(self, nodes: list[tuple[Node | None, str]]) -> None:
        super().__init__("; ".join(dict.fromkeys(reason for _, reason in nodes)))
        self.nodes = nodes


@dataclass(frozen=True)
class Lowered:
    """A program: StableHLO, and what `native().add_program` has to know of it.

    ``read`` and ``written`` are the placeholders that a run wants and those that it writes.
    """

    text: str
    description: str
    read: list[Node]
    written: list[Node]


def lower(
    graph: GraphModule,
    platform: str,
    names: Sequence[str] = (),
    place: Callable[[Node], tuple[str, str, int]] | None = None,
) -> Lowered:
    """Lowers a functional graph of tensors on the device whose sizes are known.

    Args:
        graph: Its placeholders are tensors, its output is a list.
        platform: ``"tpu"`` or ``"cpu"``, whose lowerings may differ.
        names: What people call the placeholders.
        place: Name, file and line of a node.

    Raises:
        LoweringError: operators that no program can hold, or that their rows refuse.
    """
    take_apart(graph)
    inputs = graph.graph.find_nodes(op="placeholder")
    (output,) = graph.graph.find_nodes(op="output")
    calls = [n for n in graph.graph.nodes if n.op not in ("placeholder", "output")]
    refused = [(n, _why(n)) for n in calls if n.op == "get_attr" or not can_write(n)]
    if refused:
        raise LoweringError(refused)
    labels = dict(zip(inputs, names))
    writer, order = Writer(place), {}
    for node in calls:
        for source in node.all_input_nodes:
            if source.op == "placeholder" and source not in writer.places:
                writer.add_input(source)
        before = len(writer.nodes)
        writer.add(node)
        order |= dict.fromkeys(range(before, len(writer.nodes)), node)
    for result in output.args[0]:
        if isinstance(result, Node) and result not in writer.places:
            writer.add_input(result)
    return _finish(writer, list(output.args[0]), labels, order, platform)


def _finish(writer, results, labels, order, platform) -> Lowered:
    read, written = writer.read, list(writer.written)
    signature = {
        "numbers": [],
        "tensors": [_type(node.meta["val"]) for node in read],
        "written": [read.index(node) if node in read else None for node in written],
        "names": [labels.get(node, node.name) for node in read],
    }
    default, precision = str(torch.get_default_dtype()), torch.get_float32_matmul_precision()
    try:
        text, description = native().lower_graph(
            writer.text(results),
            json.dumps(signature),
            platform == "tpu",
            default.removeprefix("torch."),
            precision,
        )
    except NotImplementedError as error:
        message, index = error.args
        raise LoweringError([(order.get(index), message)]) from None
    return Lowered(text, description, read, written)


def _type(tensor: torch.Tensor) -> dict:
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "sizes": list(tensor.shape)}


def _why(node: Node) -> str:
    if node.op == "get_attr":
        return f"TPU4002: the constant `{node.target}` cannot be part of a program"
    name = str(node.target).removeprefix("aten.").removesuffix(".default")
    why = native().graph_refusal(name)
    return why or f"TPU4002: {name} cannot be part of a program"
