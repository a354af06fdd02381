"""What parts of PyTorch are told when they are imported.

PyTorch has a call for each of these: ``torch.compiler.set_default_backend`` says which backend
takes the device's tensors, ``trace_rules.add`` keeps Dynamo from tracing this package,
``Backend.register_backend`` names the backend of ``torch.distributed``. They are in packages that
take up to a second to import. So they are made when those are imported, not when ``torch`` is.
"""

import importlib.abc
import importlib.util
import sys


def install() -> None:
    """Makes the calls, now or when the modules that they are in are imported."""
    waiting = {name for name in _CALLS if name not in sys.modules}
    for name in _CALLS.keys() - waiting:
        _CALLS[name](sys.modules[name])
    if waiting:
        sys.meta_path.insert(0, _Watch(waiting))


def _take_the_default(registry) -> None:
    if registry.get_default_backend() == "inductor":
        registry.set_default_backend(_backend)


def _stay_out(trace_rules) -> None:
    trace_rules.add("torch_tpu")


def _name_the_backend(distributed_c10d) -> None:
    distributed_c10d.Backend.register_backend("tpu_dist", _process_group, devices=["tpu"])


_CALLS = {
    "torch.distributed.distributed_c10d": _name_the_backend,
    "torch._dynamo.backends.registry": _take_the_default,
    "torch._dynamo.trace_rules": _stay_out,
}


def _backend(gm, example_inputs, **kwargs):
    from torch_tpu._graph.backend import default

    return default(gm, example_inputs, **kwargs)


def _process_group(store, rank, size, timeout):
    from torch_tpu._distributed import create

    return create(store, rank, size, timeout)


class _Watch(importlib.abc.MetaPathFinder):
    """Finds a few modules, as everybody else would, and has them told when they are loaded."""

    def __init__(self, waiting: set[str]):
        self.waiting = waiting

    def find_spec(self, name, path, target=None):
        if name not in self.waiting:
            return None
        self.waiting.remove(name)
        if not self.waiting:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Told(spec.loader, _CALLS[name])
        return spec


class _Told(importlib.abc.Loader):
    """Another loader, and then a call with the module."""

    def __init__(self, loader, call):
        self.loader, self.call = loader, call

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        self.call(module)

    def __getattr__(self, name):
        return getattr(self.loader, name)
