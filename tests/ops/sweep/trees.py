"""Arguments and results as trees: moving them between devices with their layout and sharing."""

from dataclasses import dataclass, field

import torch
from torch.utils import _pytree as pytree

WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


@dataclass
class Moved:
    """A tree on a device, and its storages as flat tensors."""

    tree: object
    bases: list[torch.Tensor]


@dataclass
class _Move:
    device: torch.device
    wide: bool
    tensors: dict = field(default_factory=dict)
    bases: dict = field(default_factory=dict)

    def leaf(self, leaf):
        if isinstance(leaf, torch.Tensor):
            return self.tensor(leaf)
        if isinstance(leaf, torch.device) and leaf.type == "cpu":
            return self.device
        if isinstance(leaf, torch.dtype) and self.wide:
            return WIDE.get(leaf, leaf)
        return leaf

    def tensor(self, tensor):
        if id(tensor) not in self.tensors:
            with torch.no_grad():
                moved = self.rebuild(tensor.detach()).requires_grad_(tensor.requires_grad)
            # The original is kept, so that its id stays taken.
            self.tensors[id(tensor)] = (tensor, moved)
        return self.tensors[id(tensor)][1]

    def rebuild(self, tensor):
        if tensor.device.type != "cpu":
            return tensor
        if tensor.layout != torch.strided or tensor.is_quantized:
            return tensor.to(self.device, copy=True)
        conj, neg = tensor.is_conj(), tensor.is_neg()
        plain = tensor._neg_view() if neg else tensor
        plain = plain.conj() if conj else plain
        base = self.base(plain)
        moved = base.as_strided(plain.size(), plain.stride(), plain.storage_offset())
        moved = moved.conj() if conj else moved
        return moved._neg_view() if neg else moved

    def base(self, tensor):
        storage = tensor.untyped_storage()
        key = (storage._cdata, tensor.dtype)
        if key not in self.bases:
            flat = torch.empty(0, dtype=tensor.dtype)
            flat.set_(storage, 0, (storage.nbytes() // tensor.itemsize,), (1,))
            dtype = WIDE.get(tensor.dtype, tensor.dtype) if self.wide else tensor.dtype
            self.bases[key] = flat.to(self.device, dtype, copy=True)
        return self.bases[key]


def move(tree, device, wide=False):
    """A copy of `tree` on `device`: same layouts, and tensors that share a storage still do.

    `wide` makes float64 of every floating dtype and complex128 of every complex one.
    """
    move = _Move(torch.device(device), wide)
    return Moved(map_leaves(move.leaf, tree), list(move.bases.values()))


def map_leaves(function, tree):
    """`tree` with `function` applied to every leaf; the text "cpu" counts as a device."""
    return pytree.tree_map(function, _devices(tree))


def _devices(tree):
    if isinstance(tree, dict):
        return {key: _devices(value) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_devices(value) for value in tree)
    return torch.device("cpu") if isinstance(tree, str) and tree == "cpu" else tree


def leaves(tree):
    return pytree.tree_leaves(tree)


def tensors(tree):
    return [leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]


def on(tree, device):
    """Whether anything in `tree` asks for the device."""
    found = [leaf.device if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves(tree)]
    return any(isinstance(leaf, torch.device) and leaf.type == device for leaf in found)


def describe(tree):
    """What a person needs to see of a sample."""

    def leaf(value):
        if not isinstance(value, torch.Tensor):
            return repr(value)
        size = "x".join(map(str, value.shape)) or "0-dim"
        dense = value.layout != torch.strided or value.is_contiguous()
        layout = "" if dense else f" strides {tuple(value.stride())}"
        return f"<{str(value.dtype).removeprefix('torch.')} {size}{layout}>"

    def walk(value):
        if isinstance(value, dict):
            return ", ".join(f"{key}={walk(item)}" for key, item in value.items())
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(walk(item) for item in value) + "]"
        return leaf(value)

    text = walk(tree)
    return text if len(text) <= 300 else text[:297] + "..."
