"""One call as one functional graph, traced without data and without a device.

Whatever the call reads besides its arguments, parameters, buffers, an optimizer's state, becomes an
input of the graph; what it writes in place is written at the end (``copy_``). Backward passes and
optimizer steps are part of the call.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Interpreter, Node, traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.optim import optimizer as optim
from torch.utils import _pytree as pytree

from torch_tpu._fit.places import Place, Places
from torch_tpu._graph.decompositions import decompositions
from torch_tpu._loader import native


class CaptureError(RuntimeError):
    """A call cannot be traced; the message says at which line."""


class Captured(NamedTuple):
    """A functional graph whose placeholders are tensors, and what people call them."""

    graph: GraphModule
    names: list[str]
    tensors: list[torch.Tensor]


@contextlib.contextmanager
def without_data(dtype: torch.dtype | None = None) -> Iterator[FakeTensorMode]:
    """Tensors made meanwhile are on the device and have no memory.

    Args:
        dtype: The default dtype, in which models and factories make their tensors.
    """
    from torch_tpu._start import is_available

    if not is_available():
        # Autograd asks how many devices there are. Nothing opens this one.
        native().configure("none", "tpu")
    before = torch.get_default_dtype()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        torch.set_default_dtype(dtype or before)
        with mode, torch.device("tpu"), torch.autograd.set_multithreading_enabled(False):
            yield mode
    finally:
        torch.set_default_dtype(before)


def capture(call: Callable[..., Any], args: Sequence[Any]) -> Captured:
    """Traces a call, within `without_data`. It is made once before, so that lazy state is there.

    Args:
        call: What to trace.
        args: Its arguments; those that have data, and modules that have, are copied without.

    Raises:
        CaptureError: TPU4020, the call asks for values, which are not there.
    """
    call, args = faked(call), pytree.tree_map(fake, list(args))
    leaves, spec = pytree.tree_flatten(args)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    places, optimizers = Places(), {}

    def run(*given):
        given = iter(given)
        filled = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        result = call(*pytree.tree_unflatten(filled, spec))
        return [r for r in pytree.tree_leaves(result) if isinstance(r, torch.Tensor)]

    def traced(*given):
        with places.watching():
            return run(*given)

    watch = optim.register_optimizer_step_post_hook(
        lambda optimizer, *_: optimizers.setdefault(id(optimizer), optimizer)
    )
    try:
        # Its kernels say what they write, which `native_batch_norm` does not by itself.
        with _explained(places), enable_python_dispatcher():
            with places.watching():
                run(*tensors)
            with traceback.preserve_node_meta():
                graph = make_fx(traced, tracing_mode="fake")(*tensors)
    finally:
        watch.remove()
    state = {**dict(_held(call)), **_state_names(places, optimizers.values())}
    return _functional(graph, tensors, state)


@contextlib.contextmanager
def _explained(places: Places) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        place: Place | None = getattr(error, "place", None)
        where = f"{place.file}:{place.line}: " if place else ""
        raise CaptureError(
            f"TPU4020: {where}the call cannot be traced without data: "
            f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}; "
            "hint: leave values (`item`, `if tensor`, reading files) out of the call"
        ) from error


def faked(call: Callable[..., Any], dtype: torch.dtype | None = None) -> Callable[..., Any]:
    """A module made elsewhere, without its memory and cast; other calls as they are."""
    if not isinstance(call, torch.nn.Module):
        return call
    tensors = [*call.parameters(), *call.buffers()]
    if dtype is None and all(isinstance(t, FakeTensor) for t in tensors):
        return call
    return copy.deepcopy(call, {id(t): fake(t, dtype) for t in tensors})


def fake(value: Any, dtype: torch.dtype | None = None) -> Any:
    """A tensor's type without its memory, floating-point ones cast; other values as they are."""
    if not isinstance(value, torch.Tensor) or (dtype is None and isinstance(value, FakeTensor)):
        return value
    dtype = dtype if dtype is not None and value.is_floating_point() else value.dtype
    made = torch.empty_strided(value.size(), value.stride(), dtype=dtype, device="tpu")
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(made, value.requires_grad)
    return made.requires_grad_(value.requires_grad)


def _held(call: Callable[..., Any]) -> Iterator[tuple[int, str]]:
    """Tensors that a function holds in its closure, in objects such as caches."""
    code, cells = getattr(call, "__wrapped__", call), []
    for name, cell in zip(
        getattr(getattr(code, "__code__", None), "co_freevars", ()),
        getattr(code, "__closure__", None) or (),
    ):
        with contextlib.suppress(ValueError):  # a cell that nothing has been put into
            cells.append((name, cell.cell_contents))
    seen: set[int] = set()
    while cells:
        name, value = cells.pop()
        if id(value) in seen or isinstance(value, torch.nn.Module) or len(seen) > 10_000:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            yield id(value), name
        elif isinstance(value, (list, tuple)):
            cells += [(f"{name}[{i}]", part) for i, part in enumerate(value)]
        elif isinstance(value, dict):
            cells += [(f"{name}[{key!r}]", part) for key, part in value.items()]
        elif hasattr(value, "__dict__") and not isinstance(value, type):
            cells += [(f"{name}.{key}", part) for key, part in vars(value).items()]


def _state_names(places: Places, optimizers: Any) -> dict[int, str]:
    names: dict[int, str] = {}
    for module in places.modules:
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            names.setdefault(id(tensor), name)
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for key, tensor in state.items():
                names[id(tensor)] = f"{key} of {names.get(id(parameter), 'a parameter')}"
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    names[id(parameter.grad)] = f"gradient of {names.get(id(parameter), '?')}"
    return names


def _functional(graph: GraphModule, tensors: list[torch.Tensor], names: dict[int, str]) -> Captured:
    """Turns the state that a trace met into inputs, decomposes, and moves writes to the end."""
    state: dict[str, torch.Tensor] = {}
    for node in graph.graph.find_nodes(op="get_attr"):
        value = getattr(graph, node.target)
        if value.device.type == "tpu":
            state[node.target] = value
    _drop_host(graph)

    def call(*given):
        lifted = dict(zip(state, given[len(tensors) :]))
        return _Replay(graph, lifted).run(*given[: len(tensors)])

    inputs = [*tensors, *state.values()]
    functional = torch.func.functionalize(call, remove="mutations")
    with traceback.preserve_node_meta(), torch.no_grad():
        traced = make_fx(functional, decomposition_table=decompositions(), tracing_mode="fake")(
            *[tensor.detach() for tensor in inputs]
        )
    traced.graph.eliminate_dead_code()
    labels = [f"input {i}" for i in range(len(tensors))]
    labels += [names.get(id(t), f"state {i}") for i, t in enumerate(state.values())]
    return Captured(traced, labels, inputs)


class _Replay(Interpreter):
    """Runs a trace with other state, each node under its place."""

    def __init__(self, graph: GraphModule, lifted: dict[str, torch.Tensor]) -> None:
        super().__init__(graph)
        self.lifted = lifted

    def run_node(self, node: Node) -> Any:
        with traceback.set_current_meta(node):
            return super().run_node(node)

    def get_attr(self, target: str, args: Any, kwargs: Any) -> Any:
        found = self.lifted.get(target)
        return super().get_attr(target, args, kwargs) if found is None else found


def _drop_host(graph: GraphModule) -> None:
    """Removes what only counts on the host, as optimizers their steps, and profiling."""
    for node in reversed(graph.graph.nodes):
        if node.op in ("placeholder", "output") or node.users:
            continue
        target, value = node.target, node.meta.get("val")
        host = isinstance(value, torch.Tensor) and value.device.type != "tpu"
        written = getattr(target, "_schema", None) and target._schema.is_mutable
        if host or not written or getattr(target, "namespace", "") == "profiler":
            graph.graph.erase_node(node)
    graph.recompile()
