"""Results that share memory with an input or with another result.

AOTAutograd makes a result that is a view of an input anew from that input. With sizes that are
known it repeats the views; with symbols it goes by the sizes, strides and offset of what the graph
returned (``torch._functorch._aot_autograd.functional_utils.gen_alias_from_base``), which a tensor
of its own does not have. Views of what the graph itself made it only cares for where gradients
are asked for.
"""

from __future__ import annotations

import collections
import operator

import torch
from torch.fx import GraphModule, Node

from torch_tpu._graph.decompositions import aten


def repeat_views(gm: GraphModule, inference: bool) -> set[Node]:
    """Makes results that are views of what is there outside the program again, after it.

    Args:
        gm: The graph, which is changed.
        inference: Whether the graph is one without gradients.

    Returns:
        The calls that do, which have to run eagerly.
    """
    (output,) = gm.graph.find_nodes(op="output")
    results = list(output.args[0])
    inputs = _inputs(gm)
    inner = {r: r for r in results if isinstance(r, Node)}
    if inference:
        inner |= {node: node for node in _shared(inner) if node not in inputs}
    made: dict[Node, Node] = {}
    with gm.graph.inserting_before(output):
        for i, result in enumerate(results):
            if _is_symbolic(result):
                results[i] = _again(result, inner | inputs, made, gm.graph)
            elif inference and isinstance(result, Node):
                results[i] = _again(result, inner, made, gm.graph)
    if made:
        output.args = (results,)
        for node in reversed(list(made)):
            if not node.users:
                gm.graph.erase_node(node)
    return set(made.values())


def _inputs(gm: GraphModule) -> dict[Node, Node]:
    """Where the memory of an input, and of what an input becomes, is when the program is done."""
    inputs = {node: node for node in gm.graph.find_nodes(op="placeholder")}
    copies = gm.graph.find_nodes(op="call_function", target=aten.copy_.default)
    return inputs | {node.args[1]: node.args[0] for node in copies}


def _shared(results: dict[Node, Node]) -> list[Node]:
    """What several results are views of."""
    count = collections.Counter(_chain(result)[-1] for result in results)
    return [node for node, n in count.items() if n > 1 and node.op == "call_function"]


def _is_symbolic(node: Node | None) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return False
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    return any(isinstance(n, torch.SymInt) for n in numbers)


def _again(node: Node, bases: dict[Node, Node], made: dict[Node, Node], graph) -> Node:
    """The same view of the base in ``bases`` that it comes from; itself if from none."""
    chain = _chain(node)
    depth = max((i for i, n in enumerate(chain) if i > 0 and n in bases), default=0)
    if depth == 0:
        return node
    env = {chain[depth]: bases[chain[depth]]}
    for view in reversed(chain[:depth]):
        if view not in made:
            made[view] = graph.node_copy(view, lambda n: env.get(n, n))
        env[view] = made[view]
    return made[node]


def _chain(node: Node) -> list[Node]:
    """The node, what it is a view of, what that is a view of, and so on."""
    chain = [node]
    while _is_view(chain[-1]):
        chain.append(chain[-1].args[0])
    return chain


def _is_view(node: Node) -> bool:
    """Whether a call only looks at the memory of its first argument."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    schema = node.target._schema
    aliases = [r.alias_info for r in schema.returns]
    return bool(aliases) and all(a is not None and not a.is_write for a in aliases)
