"""The compile backend ``"tpu"``, and what ``torch.compile`` takes where none is named."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler

from torch_tpu._graph import program
from torch_tpu._graph.decompositions import decompositions
from torch_tpu._graph.options import Options, options_of
from torch_tpu._graph.whole import Compiled, version


def tpu(gm: torch.fx.GraphModule, example_inputs: list[Any], **kwargs: Any) -> Callable[..., Any]:
    """Compiles an FX graph: Dynamo, AOTAutograd, one program each for forward and backward.

    Args:
        gm: The graph that Dynamo traced.
        example_inputs: Fake tensors and sizes in the order of the graph's placeholders.
        kwargs: ``mode`` and ``options``, see :func:`torch_tpu._graph.options.options_of`.

    Raises:
        ValueError: TPU4003, a mode or an option that is not known.
    """
    options = options_of(kwargs.get("mode"), kwargs.get("options"))
    with _cached(options):
        return _aot(options)(gm, example_inputs)


@contextlib.contextmanager
def _cached(options: Options) -> Iterator[None]:
    """AOTAutograd's cache on disk, for graphs of this build and these options.

    It keeps forward and backward together, so the backward is lowered at once as well.
    """
    tag = f"{torch.compiler.config.cache_key_tag} {version()} {options}"
    with (
        torch.compiler.config.patch(cache_key_tag=tag),
        torch._functorch.config.patch(
            bundled_autograd_cache=True, force_non_lazy_backward_lowering=True
        ),
    ):
        yield


@functools.cache
def _aot(options: Options) -> Callable[..., Any]:
    from functorch.compile import min_cut_rematerialization_partition

    def compiler(inference):
        return SerializableAOTDispatchCompiler(
            Compiled, lambda gm, _: program.compile_graph(gm, options, inference)
        )

    return aot_autograd(
        fw_compiler=compiler(inference=False),
        bw_compiler=compiler(inference=False),
        inference_compiler=compiler(inference=True),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=decompositions,
        keep_inference_input_mutations=True,
    )


def default(gm: torch.fx.GraphModule, example_inputs: list[Any], **kwargs: Any) -> Any:
    """``torch.compile`` without ``backend=``: ours for graphs on the device, else Inductor."""
    if any(tensor.device.type == "tpu" for tensor in _tensors(gm, example_inputs)):
        return tpu(gm, example_inputs, **kwargs)
    wrapper = torch._TorchCompileInductorWrapper(
        kwargs.get("mode"), kwargs.get("options"), kwargs.get("dynamic")
    )
    return wrapper(gm, example_inputs)


def _tensors(gm, example_inputs):
    """Inputs, parameters, constants, and what the graph makes of none of them."""
    for value in (*example_inputs, *gm.parameters(), *gm.buffers()):
        if isinstance(value, torch.Tensor):
            yield value
    for node in gm.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            yield value
