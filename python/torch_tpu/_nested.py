"""Nested tensors, as far as PyTorch makes them itself; people make jagged ones, which are dense.

``nn.TransformerEncoder`` nests a batch with a padding mask while it evaluates. Its nested tensor
keeps the padded memory here, offsets and strides step over the padding: whatever the lengths are,
the programs are those of the padded batch.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

_libraries: list[torch.library.Library] = []


def install() -> None:
    """Registers the kernels with the dispatcher, once; when the device starts."""
    if _libraries:
        return
    aten, every = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    aten.impl("_nested_tensor_from_mask", from_mask, "PrivateUse1")
    aten.impl("_nested_tensor_from_mask_left_aligned", is_left_aligned, "PrivateUse1")
    aten.impl("_transformer_encoder_layer_fwd", encoder_layer, "NestedTensorPrivateUse1")
    aten.impl("to_padded_tensor", to_padded, "NestedTensorPrivateUse1")
    every.fallback(_refuse, "NestedTensorPrivateUse1")
    _libraries.extend([aten, every])


def is_left_aligned(t: torch.Tensor, mask: torch.Tensor) -> bool:
    """Whether the true elements of a mask ``[N, L]`` of ``t``, ``[N, L, D]``, come first in rows."""
    return not (mask[:, 1:] > mask[:, :-1]).any()


def from_mask(t: torch.Tensor, mask: torch.Tensor, mask_check: bool = True) -> torch.Tensor:
    """``[N, L, D]`` as a nested tensor of as many rows each as a mask ``[N, L]`` is true."""
    torch._check(
        mask.dtype == torch.bool,
        lambda: f"Expected mask to be of ScalarType Bool, but got {mask.dtype} instead.",
    )
    torch._check(mask.dim() == 2, lambda: "Padding mask should be 2D")
    torch._check(t.dim() == 3, lambda: "Input should be a 3D tensor, N * L * D")
    torch._check(
        mask.shape == t.shape[:2],
        lambda: "Padding mask size should match with the first two dimensions of the input",
    )
    torch._check(len(t) > 0, lambda: "stack expects a non-empty TensorList")
    if mask_check and not is_left_aligned(t, mask):
        raise RuntimeError("Mask must be left-aligned without gaps")
    n, length, width = t.shape
    sizes = F.pad(mask.sum(1, keepdim=True).cpu(), (0, 1), value=width)
    return _over(t.contiguous(), sizes, torch.arange(n) * (length * width))


def encoder_layer(src: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """An encoder's layer over a padded batch, whose padding no query attends to."""
    x, sizes = _padded(src)
    keys = ~_valid(x, sizes)
    op = torch.ops.aten._transformer_encoder_layer_fwd.default
    out = op(x, *args, **kwargs | {"mask": keys, "mask_type": 1})
    return _over(out, sizes, torch.arange(len(sizes)) * out[0].numel())


def to_padded(
    nested: torch.Tensor, padding: float, output_size: list[int] | None = None
) -> torch.Tensor:
    """``[N, L, D]`` with ``padding`` where a nested tensor has nothing.

    ``L`` is its greatest length or, with more of ``D`` too, as ``output_size`` says.
    """
    x, sizes = _padded(nested)
    n, length = len(sizes), int(sizes[:, 0].max())
    x = x.masked_fill(~_valid(x, sizes)[..., None], padding)[:, :length]
    if output_size is None:
        return x
    more = [big - small for big, small in zip(output_size, x.shape)]
    torch._check(
        len(output_size) == x.dim() and output_size[0] == n and min(more) >= 0,
        lambda: (
            "Value in output_size is less than NestedTensor padded size. "
            "Truncation is not supported."
        ),
    )
    return F.pad(x, (0, more[2], 0, more[1]), value=padding)


def jagged_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
) -> torch.Tensor:
    """Attention of jagged tensors ``[N, H, L_i, D]``, in their padded forms."""
    from torch.nested._internal import sdpa
    from torch.nested._internal.nested_tensor import nested_from_padded

    query, key, value, attn_mask = sdpa._autocast(query, key, value, attn_mask)
    sdpa._validate_sdpa_input(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if query.dim() != 4 or query._ragged_idx != 2:
        raise ValueError(
            f'TPU2003: the device "tpu" has no attention of jagged tensors {list(query.shape)}; '
            "hint: [N, heads, L, D], as `.unflatten(-1, (heads, -1)).transpose(1, 2)` makes them"
        )
    q, k, v = (x.transpose(1, 2).to_padded_tensor(0.0).transpose(1, 2) for x in (query, key, value))
    lengths = key.offsets().diff()
    mask = torch.arange(k.shape[2], device=k.device) < lengths[:, None, None, None]
    if is_causal:
        mask = mask & mask.new_ones(q.shape[2], k.shape[2]).tril()
    dense = F.scaled_dot_product_attention(
        q, k, v, mask, dropout_p, scale=scale, enable_gqa=enable_gqa
    )
    return nested_from_padded(
        dense.transpose(1, 2),
        query.offsets(),
        min_seqlen=query._maybe_min_seqlen,
        max_seqlen=query._maybe_max_seqlen,
        sum_S=query.values().shape[query._ragged_idx - 1],
    ).transpose(1, 2)


def _over(x: torch.Tensor, sizes: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """A nested tensor over the memory of ``[N, L, D]``."""
    strides = torch.tensor([[x.shape[2], 1]] * len(sizes))
    view = torch.ops.aten._nested_view_from_buffer.default
    return view._op_dk(torch._C.DispatchKey.CPU, x.reshape(-1), sizes, strides, offsets)


def _padded(nested: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``[N, L, D]`` under a nested tensor of `_over`, and its sizes ``[N, 2]``."""
    values, sizes, offsets, strides = (
        getattr(torch.ops.aten, name).default._op_dk(torch._C.DispatchKey.NestedTensorCPU, nested)
        for name in (
            "values",
            "_nested_tensor_size",
            "_nested_tensor_storage_offsets",
            "_nested_tensor_strides",
        )
    )
    n, each = len(sizes), values.numel() // max(len(sizes), 1)
    width = int(sizes[0, 1]) if n and sizes.dim() == 2 and sizes.shape[1] == 2 else 0
    if (
        width == 0
        or each % width
        or not torch.equal(offsets, torch.arange(n) * each)
        or not torch.equal(strides, torch.tensor([[width, 1]] * n))
    ):
        _refuse(torch.ops.aten.to_padded_tensor.default)
    return values.view(n, each // width, width), sizes


def _valid(x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """Where ``[N, L, D]`` is no padding, ``[N, L]``."""
    return torch.arange(x.shape[1], device=x.device) < sizes[:, :1].to(x.device)


def _refuse(op: Any, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        f'TPU2003: {op}: the device "tpu" has no nested tensors of strided layout; hint: '
        "torch.nested.nested_tensor(..., layout=torch.jagged), or pad them on the CPU"
    )
