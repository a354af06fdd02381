"""Adaptations of other libraries that know no way for a device to make itself known.

Each is the smallest change that works, says why it is here and which release it was written for,
and has a test in ``tests/device/test_compat.py`` that fails when it is no longer needed.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

# accelerate 1.15 takes its device from a fixed list of types that has no tpu, so the Trainer of
# transformers would move a model to the CPU. The variable is its own way to name another.
ACCELERATE_VARIABLE = "ACCELERATE_TORCH_DEVICE"


def install(available: bool) -> None:
    """Applies the adaptations: now to what is imported, later to what will be."""
    if available:
        os.environ.setdefault(ACCELERATE_VARIABLE, "tpu")
    for name, adapt in _ADAPTATIONS.items():
        if name in sys.modules:
            adapt(sys.modules[name])
    sys.meta_path.insert(0, _AfterImport())


def _adapt_safetensors(module: ModuleType) -> None:
    """safetensors 0.8 checks device names against a list in Rust that has no ``tpu``.

    An integer means the current accelerator there, which is this device, so names of it become
    its index on their way in.
    """
    original = module.safe_open

    @functools.wraps(original)
    def safe_open(filename, framework, device="cpu", **options):
        return original(filename, framework, device=_as_index(device), **options)

    module.safe_open = safe_open
    user = sys.modules.get("safetensors.torch")
    if user is not None:
        user.safe_open = safe_open


def _as_index(device):
    kind, _, index = str(device).partition(":")
    return int(index or 0) if kind == "tpu" else device


def _adapt_printing(module: ModuleType) -> None:
    """torch 2.14 formats a tensor with dozens of operations on its device, each a program.

    The devices that it downloads first are a fixed list without ``tpu``.
    """
    original = module._tensor_str

    @functools.wraps(original)
    def _tensor_str(self, indent):
        return original(self.cpu() if self.device.type == "tpu" else self, indent)

    module._tensor_str = _tensor_str


def _adapt_flex_attention(module: ModuleType) -> None:
    """torch 2.14 has the devices that ``flex_attention`` takes within a function."""
    original = module._validate_device

    def _validate_device(query, key, value):
        if query.device.type != "tpu":
            original(query, key, value)

    # Dynamo goes by the file whether it looks into a function, and it looks into none of ours.
    file = original.__code__.co_filename
    _validate_device.__code__ = _validate_device.__code__.replace(co_filename=file)
    module._validate_device = _validate_device


def _adapt_jagged_attention(module: ModuleType) -> None:
    """torch 2.14 has attention of jagged tensors for its own devices, strided ones elsewhere."""
    original = module.jagged_scaled_dot_product_attention

    @functools.wraps(original)
    def jagged_scaled_dot_product_attention(query, *args, **kwargs):
        from torch_tpu import _nested

        ours = query.device.type == "tpu" and isinstance(query, module.NestedTensor)
        # Where the second of four dimensions is ragged, PyTorch takes the values as dense ones.
        dense = ours and query.dim() > 3 and query._ragged_idx == 1
        call = _nested.jagged_attention if ours and not dense else original
        return call(query, *args, **kwargs)

    module.jagged_scaled_dot_product_attention = jagged_scaled_dot_product_attention


def _adapt_transformers(module: ModuleType) -> None:
    """transformers 5.19 takes it that ``flex_attention`` refuses tensors on a tpu."""
    if not hasattr(module, "is_torch_flex_attn_available"):
        return
    user = sys.modules.get("transformers.utils", module)
    for each in (module, user):
        each.is_torch_flex_attn_available = module.is_torch_available


_ADAPTATIONS: dict[str, Callable[[ModuleType], None]] = {
    "safetensors": _adapt_safetensors,
    "torch._tensor_str": _adapt_printing,
    "torch.nn.attention.flex_attention": _adapt_flex_attention,
    "torch.nested._internal.ops": _adapt_jagged_attention,
    "transformers.utils.import_utils": _adapt_transformers,
}


class _AfterImport(importlib.abc.MetaPathFinder):
    """Adapts a module right after it ran, by wrapping its loader's ``exec_module``."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        adapt = _ADAPTATIONS.get(name)
        if adapt is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            adapt(module)

        spec.loader.exec_module = exec_module
        return spec
