"""Control flow in graphs: the higher-order operators whose bodies become part of the program."""

import operator
from collections.abc import Callable, Iterator

import torch
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node

# By name: the operator as `tpu-graph` calls it, and how many bodies it has.
_KNOWN = {"cond": ("cond", 2), "while_loop": ("while_loop", 2), "scan": ("scan", 1)}
_KNOWN["map_impl"] = ("map", 1)


def is_control(node: Node) -> bool:
    """Whether a node is one of these operators."""
    return isinstance(node.target, HigherOrderOperator) and node.target.name() in _KNOWN


def is_body(node: Node) -> bool:
    """Whether a node is nothing but the body of an operator."""
    return node.op == "get_attr" and isinstance(body(node), GraphModule)


def parts(node: Node) -> tuple[str, list[GraphModule], list]:
    """The operator, its bodies and its other arguments."""
    name, count = _KNOWN[node.target.name()]
    bodies = [a for a in node.args if isinstance(a, Node) and is_body(a)]
    others = [a for a in node.args if not (isinstance(a, Node) and is_body(a))]
    if len(bodies) != count:
        raise ValueError(f"TPU4001: {name} has {len(bodies)} bodies")
    return name, [body(node) for node in bodies], others


def can_hold(node: Node, can_write: Callable[[Node], bool]) -> bool:
    """Whether the bodies can be lowered: tensors of known sizes in and out, and no random numbers,
    which every turn of a loop would draw alike."""
    _, bodies, others = parts(node)
    operands = list(_flat(others))
    if not all(isinstance(o, Node) and _is_fixed(o.meta.get("val")) for o in operands):
        return False
    return all(_is_simple(inner, can_write) for body in bodies for inner in body.graph.nodes)


def results(body: GraphModule) -> list[Node]:
    """What a body returns."""
    (output,) = body.graph.find_nodes(op="output")
    return list(_flat(output.args))


def _is_simple(node: Node, can_write: Callable[[Node], bool]) -> bool:
    if node.op == "output":
        return all(isinstance(r, Node) and _is_fixed(r.meta.get("val")) for r in _flat(node.args))
    if node.op == "placeholder":
        return _is_fixed(node.meta.get("val"))
    if node.op == "get_attr":
        return is_body(node)
    tags = getattr(node.target, "tags", ())
    writes = node.target is torch.ops.aten.copy_.default
    return can_write(node) and not writes and torch.Tag.nondeterministic_seeded not in tags


def _is_fixed(value: object) -> bool:
    """A tensor of the device whose sizes are numbers; a loop over none has no slice to look at."""
    if not isinstance(value, torch.Tensor) or value.device.type != "tpu":
        return False
    return all(isinstance(size, int) and size > 0 for size in value.shape)


def _flat(given: object) -> Iterator[object]:
    if isinstance(given, (list, tuple)):
        for member in given:
            yield from _flat(member)
    else:
        yield given


def body(node: Node) -> object:
    """What such a node gets from the module of its graph."""
    return operator.attrgetter(node.target)(node.graph.owning_module)
