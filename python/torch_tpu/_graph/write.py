"""FX graphs as JSON, in the form that the crate ``tpu-graph`` reads."""

import json
import math
import operator
from collections.abc import Callable

import torch
from torch.fx import GraphModule, Node

from torch_tpu._graph import control
from torch_tpu._graph.decompositions import aten, is_native, name_of
from torch_tpu._graph.sizes import Sizes, depends_on_data

# Operators that only make a tensor of one number, and that number; None: an argument. The shape
# comes from the arguments, the dtype from the traced result.
_FILLED = {
    "empty.memory_format": 0,
    "empty_like": 0,
    "empty_permuted": 0,
    "empty_strided": 0,
    "new_empty": 0,
    "new_empty_strided": 0,
    "new_zeros": 0,
    "zeros": 0,
    "zeros_like": 0,
    "new_ones": 1,
    "ones": 1,
    "ones_like": 1,
    "full": None,
    "full_like": None,
    "new_full": None,
    "scalar_tensor": None,
}
# Functional overloads that a row named after another overload serves, which is told the dtype.
_TOLD = {
    "arange.start_step": "arange.start_out",
    "eye": "eye.out",
    "eye.m": "eye.m_out",
    "linspace": "linspace.out",
    "logspace": "logspace.out",
    "randperm": "randperm.generator_out",
    "normal_functional": "normal_functional",
}
_ARITHMETIC = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.mod: "mod",
    operator.pow: "pow",
    operator.neg: "neg",
    operator.truediv: "truediv",
    torch.sym_float: "float",
    torch.sym_max: "max",
    torch.sym_min: "min",
}
_NO_SCHEMA = torch.ops.aten.relu.default._schema
# Statements about sizes that have held when the graph was traced.
_IGNORED = {
    aten._assert_scalar.default,
    aten.sym_constrain_range.default,
    aten.sym_constrain_range_for_size.default,
    torch._check,
}


def can_write(node: Node) -> bool:
    """Whether a call can be part of a program."""
    if node.op != "call_function":
        return True
    target = node.target
    if target in _ARITHMETIC or target in _IGNORED or target is operator.getitem:
        return True
    if target in (aten.sym_size.int, aten.sym_numel.default):
        return True
    if control.is_control(node):
        return control.can_hold(node, can_write)
    if _reads_other_memory(node) or _depends_on_data(node):
        return False
    if target in (aten.copy_.default, torch.ops.prims.convert_element_type.default):
        return True
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return False
    name = name_of(target)
    return name in _FILLED or name in _TOLD or (not target._schema.is_mutable and is_native(target))


def _reads_other_memory(node: Node) -> bool:
    """Whether a tensor is on the host, or strides are applied to one that is not row-major."""
    tensors = [n.meta.get("val") for n in node.all_input_nodes]
    tensors = [t for t in tensors if isinstance(t, torch.Tensor)]
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.device.type != "tpu":
        return True
    if any(t.device.type != "tpu" and t.dim() > 0 for t in tensors):
        return True
    if any(t.dtype in _UNKNOWN for t in [*tensors, value] if isinstance(t, torch.Tensor)):
        return True
    strided = node.target in (aten.as_strided.default, aten.as_strided_scatter.default)
    return strided and not _is_whole(tensors[0])


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor is all of its memory, in row-major order."""
    if not tensor.is_contiguous() or tensor.storage_offset() != 0:
        return False
    return tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize


def _depends_on_data(node: Node) -> bool:
    """Whether the size of a result is known only when it is there."""
    values = node.meta.get("val")
    values = values if isinstance(values, (tuple, list)) else [values]
    return any(depends_on_data(node, v) for v in values if isinstance(v, torch.Tensor))


# What XLA has no element type for.
_UNKNOWN = {torch.complex32}


class Writer:
    """Collects the nodes of a graph; ``read`` and ``numbers`` are the placeholders in order.

    Args:
        place: Gives name, file and line of a node, for programs that shall say where they come
            from; those of ``torch.compile`` do not, so that equal ones are kept once.
    """

    def __init__(self, place: Callable[[Node], tuple[str, str, int]] | None = None) -> None:
        self.place, self._at = place, None
        self.nodes: list[dict] = []
        self.places: dict[Node, int] = {}
        self.read: list[Node] = []
        self.numbers: list[Node] = []
        self.written: dict[Node, int] = {}
        self.sizes = Sizes()

    def add(self, node: Node) -> None:
        """Appends a call; one that makes nothing adds nothing."""
        if node.target in _IGNORED:
            return None
        if self.place is not None:
            self._at = dict(zip(("name", "file", "line"), self.place(node)))
        if node.target is aten.copy_.default:
            return self._copy(node)
        if node.target is operator.getitem:
            return self._item(node)
        if control.is_control(node):
            return self._control(node)
        if node.target in _ARITHMETIC:
            name = f"python.{_ARITHMETIC[node.target]}"
            return self._place(node, name, [self._argument(a) for a in node.args])
        return self._call(node)

    def text(self, outputs: list[Node | None]) -> str:
        """The graph with these results."""
        return json.dumps(
            self._graph([None if out is None else self._output(out) for out in outputs])
        )

    def _graph(self, outputs: list[dict | None]) -> dict:
        written = list(self.written.values())
        graph = {"nodes": self.nodes, "outputs": outputs, "written": written}
        if self.sizes.count:
            return graph | {"symbols": self.sizes.count, "exact": self.sizes.exact or None}
        for entry in self.nodes:
            entry.pop("sizes", None), entry.pop("size", None)
        return graph

    def _place(self, node: Node | None, op: str, args: list, dtype: torch.dtype | None = None):
        entry = {"op": op, "args": args}
        if dtype is not None:
            entry["dtype"] = str(dtype).removeprefix("torch.")
        if self._at is not None:
            entry["at"] = self._at
        if node is not None:
            entry |= self.sizes.describe(node.name, node.meta.get("val"))
        self.nodes.append(entry)
        if node is not None:
            self.places[node] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def add_input(self, node: Node) -> None:
        """Appends a node whose value is given."""
        kind, inputs = ("tensor", self.read)
        if not isinstance(node.meta.get("val", torch.empty(0)), torch.Tensor):
            kind, inputs = ("number", self.numbers)
        self._place(node, kind, [len(inputs)])
        inputs.append(node)

    def _item(self, node: Node) -> None:
        """One of several results. A row gives no integers; those are 0, and nothing reads them."""
        source, index = node.args
        kinds = [str(r.type) for r in getattr(source.target, "_schema", _NO_SCHEMA).returns]
        if len(kinds) > 1:
            if kinds[index] in ("int", "SymInt"):
                return self._place(node, "constant", [0])
            index -= sum(kind in ("int", "SymInt") for kind in kinds[:index])
        return self._place(node, "getitem", [self._argument(source), index])

    def _control(self, node: Node) -> None:
        name, bodies, others = control.parts(node)
        place = self._place(node, name, [self._argument(a) for a in others])
        self.nodes[place]["graphs"] = [_body(body) for body in bodies]

    def _copy(self, node: Node) -> None:
        """The graph's input takes a new value; later readers see it."""
        target, source = node.args[:2]
        args = [self._argument(target), self._argument(source), False]
        place = self.written[target] = self._place(None, "copy", args)
        self.nodes[place] |= self.sizes.describe(target.name, target.meta["val"])
        self.places[node] = self.places[target] = self.written[target]

    def _call(self, node: Node) -> None:
        name, value = name_of(node.target), node.meta["val"]
        if name == "convert_element_type":
            x, dtype = node.args
            return self._place(node, "_to_copy", [self._argument(x), self._argument(dtype)])
        if name in _FILLED:
            return self._filled(node, name, value)
        schema = node.target._schema.arguments
        args = []
        for i, argument in enumerate(schema):
            given = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
            absent = i >= len(node.args) and argument.name not in node.kwargs
            if absent and argument.has_default_value():
                given = argument.default_value
            args.append(self._argument(given))
        if name in _TOLD:
            kept = [a for a, s in zip(args, schema) if s.name not in _FACTORY]
            return self._place(node, _TOLD[name], kept, value.dtype)
        return self._place(node, name, args)

    def _filled(self, node: Node, name: str, value: torch.Tensor) -> None:
        """`number` expanded to the shape of the example, whose sizes may be symbols."""
        number = _FILLED[name]
        if number is None:
            number = node.kwargs.get("fill_value")
            number = node.args[0 if name == "scalar_tensor" else 1] if number is None else number
        dtype = {"dtype": str(value.dtype).removeprefix("torch.")}
        filled = self._place(None, "scalar_tensor", [self._argument(number), dtype])
        self._place(node, "expand", [{"node": filled}, self._sizes(node, name, value), False])

    def _sizes(self, node: Node, name: str, value: torch.Tensor) -> list:
        if name == "scalar_tensor":
            return []
        if name.endswith("_like"):
            place = {"node": self.places[node.args[0]]}
            size = lambda d: self._place(None, "sym_size.int", [place, d])  # noqa: E731
            return [{"node": size(d)} for d in range(value.dim())]
        given = node.args[1] if name.startswith("new_") else node.args[0]
        return self._argument(given)

    def _output(self, node: Node) -> dict:
        place = {"node": self.places[node]}
        order = _order(node.meta["val"])
        return place if order is None else {**place, "order": order}

    def _argument(self, given):
        if isinstance(given, Node):
            return {"node": self.places[given]}
        if isinstance(given, (list, tuple)):
            return [self._argument(member) for member in given]
        if isinstance(given, str):
            return {"str": given}
        if isinstance(given, torch.dtype):
            return {"dtype": str(given).removeprefix("torch.")}
        if isinstance(given, complex):
            return {"complex": [given.real, given.imag]}
        if isinstance(given, float) and not math.isfinite(given):
            return {"float": str(given)}
        if isinstance(given, (bool, int, float)):
            return given
        return None  # layouts, devices, memory formats, generators


def _body(body: GraphModule) -> dict:
    """A body of control flow, whose inputs are all tensors."""
    writer = Writer()
    for node in body.graph.nodes:
        if node.op == "placeholder":
            writer.add_input(node)
        elif node.op == "call_function":
            writer.add(node)
    return writer._graph([{"node": writer.places[r]} for r in control.results(body)])


_FACTORY = {"dtype", "layout", "device", "pin_memory", "generator", "out"}


def _order(value) -> list[int] | None:
    """Dimensions from the slowest to the fastest, where that is not the order they are in."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.dim() < 2:
        return None
    strides, sizes = [_hint(s) for s in value.stride()], [_hint(n) for n in value.shape]
    if None in strides or None in sizes:
        return None
    order = sorted(range(len(strides)), key=lambda d: (-strides[d], d))
    if any(s == 0 and n > 1 for s, n in zip(strides, sizes)) or order == list(range(len(order))):
        return None
    return order


def _hint(n: int | torch.SymInt) -> int | None:
    """A size that the example has; None where only a run can tell."""
    return n if isinstance(n, int) else n.node.hint
