"""Other layouts and other sizes of a sample's tensors."""

import torch

from . import trees

KINDS = ("offset", "step", "permuted", "diagonal", "expanded", "lazy")
# Kinds that can be written: no two elements share a place.
WRITABLE = ("offset", "step", "permuted", "diagonal")


def relay(tensor, kind):
    """A tensor with the values of `tensor` (see `expanded`) that lies otherwise in its storage.

    The rest of the storage holds NaN where it can, so that a read outside the view shows.
    """
    if tensor.layout != torch.strided or tensor.is_quantized:
        return tensor
    values = tensor.detach().resolve_conj().resolve_neg()
    with torch.no_grad():
        result = globals()[f"_{kind}"](values)
    return result.requires_grad_(tensor.requires_grad)


def _storage(like, size):
    filler = float("nan") if like.is_floating_point() or like.is_complex() else 1
    return torch.full((size,), filler, dtype=like.dtype)


def _offset(values):
    """The last elements of a longer storage."""
    return _storage(values, values.numel() + 3)[3:].view(values.shape).copy_(values)


def _step(values):
    """Every other element of the last dimension, the first left out."""
    if values.ndim == 0:
        return _storage(values, 3)[1].copy_(values)
    shape = (*values.shape[:-1], values.shape[-1] * 2 + 1)
    wide = _storage(values, torch.Size(shape).numel()).view(shape)
    return wide[..., 1::2].copy_(values)


def _permuted(values):
    """Dimensions in reverse order in memory, within a longer storage."""
    reverse = tuple(reversed(range(values.ndim)))
    shape = [values.shape[dim] for dim in reverse]
    base = _storage(values, values.numel() + 2)[1:-1].view(shape)
    return base.permute(reverse).copy_(values)


def _diagonal(values):
    """Strides that do not nest: the diagonal of the first dimension with one of its own."""
    if values.ndim == 0 or values.shape[0] == 0:
        return _offset(values)
    count, *rest = values.shape
    base = _storage(values, count * count * torch.Size(rest).numel())
    return base.view(count, count, *rest).diagonal().movedim(-1, 0).copy_(values)


def _expanded(values):
    """The first row (of the last dimension that has several) for all rows: other values."""
    longer = [dim for dim, size in enumerate(values.shape) if size > 1]
    if not longer:
        return values.clone()
    return values.narrow(longer[-1], 0, 1).clone().expand(values.shape)


def _lazy(values):
    """Complex numbers with the conjugate bit, real ones with the negative bit."""
    if values.is_complex():
        return values.conj().resolve_conj().conj()
    if values.dtype in (torch.float32, torch.float64):
        return torch.complex(torch.zeros_like(values), -values).conj().imag
    return _offset(values)


def relaid(tree, kinds):
    """`tree` with the layout of each tensor changed; `kinds()` gives the next kind."""
    changed = {}

    def leaf(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in changed:
            changed[id(value)] = (value, relay(value, kinds()))
        return changed[id(value)][1]

    return trees.map_leaves(leaf, tree)


def emptied(tree, dim):
    """`tree` with no elements along dimension `dim` of the first tensor, wherever that size is."""
    found = trees.tensors(tree)
    if not found or not -found[0].ndim <= dim < found[0].ndim or found[0].shape[dim] == 0:
        return None
    size = found[0].shape[dim]

    def leaf(value):
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return value
        at = dim if -value.ndim <= dim < value.ndim else None
        if at is None or value.shape[at] != size:
            return value
        return value.detach().narrow(at, 0, 0).clone()

    return trees.map_leaves(leaf, tree)


def zero_dimensional(tree):
    """`tree` with every tensor's first element alone."""
    found = trees.tensors(tree)
    if not found or any(t.layout != torch.strided or t.numel() == 0 for t in found):
        return None
    if all(t.ndim == 0 for t in found):
        return None

    def leaf(value):
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().reshape(-1)[0].clone()

    return trees.map_leaves(leaf, tree)
