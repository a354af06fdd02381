"""Says to ``torch.compile`` what to do with tensors of the device where no backend is named.

PyTorch has a setting for it, ``torch.compiler.set_default_backend``, in a package that takes a
second to import. So the setting is made when that package is imported, not when ``torch`` is.
"""

import importlib.abc
import importlib.util
import sys

_REGISTRY = "torch._dynamo.backends.registry"


def install() -> None:
    """Makes the setting, now or when PyTorch's registry of backends is imported."""
    registry = sys.modules.get(_REGISTRY)
    if registry is not None:
        _set(registry)
    else:
        sys.meta_path.insert(0, _Watch())


def _set(registry) -> None:
    if registry.get_default_backend() == "inductor":
        registry.set_default_backend(_backend)


def _backend(gm, example_inputs, **kwargs):
    from torch_tpu._graph.backend import default

    return default(gm, example_inputs, **kwargs)


class _Watch(importlib.abc.MetaPathFinder):
    """Finds one module, as everybody else would, and has it told when it has been loaded."""

    def find_spec(self, name, path, target=None):
        if name != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Told(spec.loader)
        return spec


class _Told(importlib.abc.Loader):
    """Another loader, and then :func:`_set`."""

    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        _set(module)

    def __getattr__(self, name):
        return getattr(self.loader, name)
