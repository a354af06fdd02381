"""The module ``torch.backends.tpu``."""

from torch_tpu import _loader, _start

__all__ = ["is_available", "is_built"]


def is_built() -> bool:
    """Whether the device is registered with this PyTorch."""
    return not _loader.why_off()


def is_available() -> bool:
    """Whether there is a plugin for the device to run on; ``torch.tpu.is_available``."""
    return _start.is_available()
