"""What a compiled graph is: programs, and between them the calls that no program can hold."""

import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node, map_arg

from torch_tpu import _explain
from torch_tpu._graph import control
from torch_tpu._graph.aliases import repeat_views
from torch_tpu._graph.attention import take_apart
from torch_tpu._graph.options import Options
from torch_tpu._graph.whole import Compiled, Whole, run
from torch_tpu._graph.write import Writer, can_write
from torch_tpu._loader import native


def compile_graph(gm: GraphModule, options: Options = (), inference: bool = False) -> Compiled:
    """Makes a graph callable with the values of its placeholders; it returns a list.
    Its programs are compiled with these options. One for inference has no backward.

    Nodes that cannot be in a program run eagerly, and the graph is cut there.
    """
    take_apart(gm)
    views = repeat_views(gm, inference)
    (output,) = gm.graph.find_nodes(op="output")
    results = list(output.args[0])
    inputs = gm.graph.find_nodes(op="placeholder")
    constants = {
        node: operator.attrgetter(node.target)(gm) for node in gm.graph.find_nodes(op="get_attr")
    }
    steps = _steps(gm, results, views, constants, options)
    single = len(steps) == 1 and isinstance(steps[0], Program)
    if single and all(control.is_body(node) for node in constants):
        whole = steps[0].whole(inputs, results)
        if whole is not None:
            return Compiled(whole.bind(steps[0].id), whole)
    return Compiled(_Sequence(inputs, constants, steps, results), None)


class Program:
    """A stretch of nodes as one program."""

    def __init__(
        self,
        nodes: list[Node],
        outputs: list[Node],
        constants: dict[Node, Any],
        options: Options,
    ):
        self.writer = Writer()
        inside = set(nodes)
        for node in nodes:
            for source in node.all_input_nodes:
                known = source in inside or source in self.writer.places
                if not known and not control.is_body(source):
                    self.writer.add_input(source)
            self.writer.add(node)
        self.outputs = outputs
        self.constants = {n: _moved(constants[n]) for n in self.writer.read if n in constants}
        self.text, self.options = self.writer.text(outputs), options
        self.id = native().add_graph(self.text, list(options))
        _explain.traced(self.id)

    def run(self, env: dict[Node, Any]) -> None:
        """Reads from and adds to the values of nodes."""
        writer = self.writer
        results = run(
            self.id,
            len(self.outputs),
            [env[n] for n in writer.numbers],
            [self.constants[n] if n in self.constants else env[n] for n in writer.read],
            [env[n] for n in writer.written],
        )
        env.update(zip(self.outputs, results))

    def whole(self, inputs: list[Node], results: list[Any]) -> Whole | None:
        """The program as data, if its results are all that a graph with these inputs returns."""
        at = {node: i for i, node in enumerate(inputs)}
        places = {node: ~i for i, node in enumerate(inputs)}
        places |= {node: i for i, node in enumerate(self.outputs)}
        if not all(r is None or r in places for r in results):
            return None
        writer = self.writer
        return Whole(
            text=self.text,
            options=self.options,
            numbers=[at[n] for n in writer.numbers],
            read=[at[n] for n in writer.read],
            written=[at[n] for n in writer.written],
            outputs=len(self.outputs),
            results=[None if r is None else places[r] for r in results],
            inputs=len(inputs),
        )


class _Sequence:
    """Programs and single calls in order."""

    def __init__(self, inputs, constants, steps, results):
        self.inputs, self.constants, self.steps, self.results = inputs, constants, steps, results
        self.last_uses = _last_uses(steps, results)

    def __call__(self, *args: Any) -> list[Any]:
        env: dict[Node, Any] = dict(zip(self.inputs, args)) | self.constants
        for step, done in zip(self.steps, self.last_uses):
            if isinstance(step, Program):
                step.run(env)
            else:
                positional, named = map_arg((step.args, step.kwargs), env.__getitem__)
                env[step] = step.target(*positional, **named)
            for node in done:
                env.pop(node, None)
        return [map_arg(r, env.__getitem__) if isinstance(r, Node) else r for r in self.results]


def _moved(constant: torch.Tensor) -> torch.Tensor:
    """A number that the code holds, on the device once and for all."""
    with unset_fake_temporarily():
        return constant.detach().to("tpu")


def _steps(
    gm: GraphModule, results: list[Any], views: set[Node], constants: dict, options: Options
) -> list[Program | Node]:
    """Cuts the graph at what no program can hold, and at views to be made after it.

    Sizes are computed outside where they can be.
    """
    stretches: list[list[Node] | Node] = []
    inside: set[Node] = set()
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        if node in views or _is_outside(node, inside):
            stretches.append(node)
            continue
        inside.add(node)
        if stretches and isinstance(stretches[-1], list):
            stretches[-1].append(node)
        else:
            stretches.append([node])
    return [
        Program(s, _leaving(s, results), constants, options) if isinstance(s, list) else s
        for s in _merged(stretches)
    ]


def _is_outside(node: Node, inside: set[Node]) -> bool:
    if not can_write(node):
        return True
    value = node.meta.get("val")
    if isinstance(value, (float, torch.SymFloat)):
        # A program takes whole numbers only, and computes what follows from them.
        return not all(user.op != "output" and can_write(user) for user in node.users)
    sources = [n for n in node.all_input_nodes if n in inside]
    if node.target is operator.getitem:
        return not sources
    return not sources and not isinstance(value, (torch.Tensor, tuple, list))


def _merged(stretches: list) -> list:
    """Moves calls that need nothing of the stretch before them in front of it."""
    merged: list[list[Node] | Node] = []
    for step in stretches:
        before = merged[-1] if merged else None
        free = (
            isinstance(step, Node)
            and isinstance(before, list)
            and not any(n in before for n in step.all_input_nodes)
            and not isinstance(step.meta.get("val"), torch.Tensor)
        )
        if free:
            merged.insert(len(merged) - 1, step)
        elif isinstance(step, list) and isinstance(before, list):
            before.extend(step)
        else:
            merged.append(step)
    return merged


def _leaving(nodes: list[Node], results: list[Any]) -> list[Node]:
    """Nodes whose values are used after the stretch."""
    inside, wanted = set(nodes), set(r for r in results if isinstance(r, Node))
    return [
        n
        for n in nodes
        if n in wanted
        or any(user not in inside for user in n.users)
        and not all(user.op == "output" for user in n.users if user not in inside)
    ]


def _last_uses(steps: list, results: list[Any]) -> list[list[Node]]:
    """For each step the nodes whose values nothing needs after it."""
    needed = {r for r in results if isinstance(r, Node)}
    last: list[list[Node]] = []
    for step in reversed(steps):
        if isinstance(step, Program):
            used = [*step.writer.read, *step.writer.numbers]
        else:
            used = step.all_input_nodes
        last.append([n for n in used if n not in needed])
        needed.update(used)
    return last[::-1]
