"""What runs during ``import torch``: it registers the device and never raises.

Where the device cannot work, one line on stderr says why and which command mends it, and PyTorch
is left as it was.
"""

import atexit
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

OURS = "torchtpu-rs"
ORIGINAL = "torch-tpu"

# None until `load` ran, then "" or why the device is off.
_off: str | None = None


def load() -> None:
    """Registers the device ``"tpu"``, once. The entry point of group ``torch.backends``."""
    global _off
    if _off is not None:
        return
    try:
        _off = _refusal() or ""
        if not _off:
            _register()
    except Exception as error:  # noqa: BLE001  (an exception here would break `import torch`)
        _off = f"{type(error).__name__}: {error}"
    if _off:
        _say(f"torch_tpu: {_message()}")


def why_off() -> str:
    """Empty, or why the device is not there."""
    return _off or ""


def native():
    """The extension module.

    Raises:
        RuntimeError: the device is off; says why.
    """
    if _off:
        raise RuntimeError(_message())
    from torch_tpu import _C

    return _C


def version() -> str:
    """The version of this package."""
    if not _off:
        return native().__version__
    try:
        return importlib.metadata.version(OURS)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _message() -> str:
    return f'TPU1004: the device "tpu" is off: {_off}'


def _refusal() -> str:
    if _is_installed(ORIGINAL):
        return (
            f"the packages {ORIGINAL} and {OURS} overwrite each other's files; hint: "
            f"pip uninstall -y {ORIGINAL} && pip install --force-reinstall --no-deps {OURS}"
        )
    import torch

    taken = torch._C._get_privateuse1_backend_name()
    if taken != "privateuseone":
        return (
            f"PyTorch has one slot for a device from outside and `{taken}` has it; hint: uninstall "
            f"the package of `{taken}`, or pip uninstall {OURS}"
        )
    try:
        from torch_tpu import _C  # noqa: F401
    except ImportError as error:
        return _explain(error)
    return ""


def _explain(error: ImportError) -> str:
    import torch

    running, built_for = torch.__version__, _built_for()
    if built_for and _minor(built_for) != _minor(running):
        release = built_for.partition("+")[0]
        return (
            f"this build is for torch {_minor(built_for)} and this is torch {running}; hint: "
            f'pip install "torch=={release}"'
        )
    return f"{error}; hint: pip install --force-reinstall --no-deps {OURS}"


def _built_for() -> str:
    """The torch that the extension was built for, read from its file: it cannot be loaded."""
    spec = importlib.util.find_spec("torch_tpu._C")
    if spec is None or not spec.origin:
        return ""
    mark = b"torch_tpu is built for torch "
    _, found, rest = Path(spec.origin).read_bytes().partition(mark)
    return rest.partition(b";")[0].decode("ascii", "replace") if found else ""


def _minor(release: str) -> str:
    return ".".join(release.split(".")[:2])


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _register() -> None:
    import torch

    from torch_tpu import _device, _imports, _optim, backends, compat

    torch.utils.rename_privateuse1_backend("tpu")
    torch._register_device_module("tpu", _device)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    torch.backends.tpu = backends
    sys.modules["torch.backends.tpu"] = backends
    compat.install(available=_device.is_available())
    _imports.install()
    _optim.install()
    atexit.register(native().flush)


def _say(line: str) -> None:
    if sys.stderr is None:
        return
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # a closed stderr: nobody is there to read
