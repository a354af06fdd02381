"""What automatic mixed precision refuses; the lists of what it casts are PyTorch's, in the core."""

from __future__ import annotations

import torch

_REFUSED = """\
torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.
Many models use a sigmoid layer right before the binary cross entropy layer.
In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits
or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are
safe to autocast."""

# Kernels live as long as their library.
_libraries: list[torch.library.Library] = []


def install() -> None:
    """Refuses ``binary_cross_entropy``, whose float16 forward can overflow where its fused
    sibling's cannot, with PyTorch's own words."""
    library = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")
    library.impl("binary_cross_entropy", _refuse)
    _libraries.append(library)


def _refuse(*_args, **_kwargs):
    raise RuntimeError(_REFUSED)
