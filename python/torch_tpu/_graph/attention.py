"""``flex_attention`` in graphs: taken apart, so that a program can hold it.

PyTorch's own definition in ATen operators (``torch._higher_order_ops.flex_attention``) is traced in
place of the call. It computes every score; XLA fuses what it can.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C import DispatchKey
from torch._guards import detect_fake_mode
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from torch_tpu._graph import control
from torch_tpu._graph.decompositions import aten, decompositions

_NAMES = ("flex_attention", "flex_attention_backward")


def take_apart(gm: GraphModule) -> None:
    """Replaces every such call of a graph, forward or backward, by what it computes."""
    calls = [
        node
        for node in gm.graph.nodes
        if isinstance(node.target, HigherOrderOperator) and node.target.name() in _NAMES
    ]
    for node in calls:
        _deal_out(node, _inline(gm, node))
    if calls:
        gm.graph.eliminate_dead_code()  # the blocks of masks, of which the definition has no use


def _inline(gm: GraphModule, node: Node) -> Any:
    """Copies the nodes of a call's definition in front of it; gives their results."""
    leaves, spec = pytree.tree_flatten(node.args)
    inputs = list(dict.fromkeys(x for x in leaves if _is_value(x)))
    traced = _traced(node, leaves, spec, inputs)
    env = dict(zip(traced.graph.find_nodes(op="placeholder"), inputs))
    kept = {key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta}
    with gm.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "output":
                results = torch.fx.map_arg(inner.args[0], env.__getitem__)
            elif inner.op == "get_attr":
                env[inner] = _constant(gm, control.body(inner))
            elif inner.target is aten._to_copy.default and not isinstance(inner.args[0], Node):
                env[inner] = inner.args[0]  # a number, whatever it meets has that dtype already
            elif inner.op != "placeholder":
                env[inner] = gm.graph.node_copy(inner, env.__getitem__)
                env[inner].meta |= kept
    return results


def _constant(gm: GraphModule, value: torch.Tensor) -> Node:
    """A number that the definition has in a tensor of no dimensions."""
    options = {"dtype": value.dtype, "device": value.device}
    with unset_fake_temporarily():
        number = value.item()
    node = gm.graph.call_function(aten.scalar_tensor.default, (number,), options)
    node.meta["val"] = value
    return node


def _is_value(leaf: Any) -> bool:
    return isinstance(leaf, Node) and not control.is_body(leaf)


def _traced(node: Node, leaves: list, spec: pytree.TreeSpec, inputs: list[Node]) -> GraphModule:
    from torch.fx.experimental.proxy_tensor import make_fx

    define = node.target.py_kernels[DispatchKey.CompositeExplicitAutograd]
    values = [x.meta["val"] for x in inputs]

    def call(*given):
        env = dict(zip(inputs, given))
        bodies = {x: control.body(x) for x in leaves if isinstance(x, Node) and x not in env}
        env |= bodies
        args = [env[x] if isinstance(x, Node) else x for x in leaves]
        return define(*pytree.tree_unflatten(args, spec))

    with detect_fake_mode(values), torch.no_grad():
        return make_fx(torch.func.functionalize(call), decomposition_table=decompositions())(
            *values
        )


def _deal_out(node: Node, results: Any) -> None:
    """Puts the results, tuples of them within tuples, in the place of a call."""
    for user in list(node.users):
        part = results[user.args[1]]
        if isinstance(part, (tuple, list)):
            _deal_out(user, part)
        else:
            user.replace_all_uses_with(part)
            user.graph.erase_node(user)
    node.graph.erase_node(node)
