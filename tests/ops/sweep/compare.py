"""When two results are the same.

Structure, dtype, shape and device always have to agree. Values agree within torch's tolerances of
the dtype (or those that the operator's OpInfo asks for); where they do not, float64 arbitrates: the
device may not be further from it than the CPU is.
"""

import torch
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo
from torch.utils import _pytree as pytree

# How much further than the CPU's worst error the device's may be: both round by chance.
SLACK = 4.0


class Mismatch(AssertionError):
    """The device's result is not the CPU's."""


def tolerances(op):
    """`{dtype: (rtol, atol)}` that the operator's OpInfo asks for."""
    found = {}
    for info in op.decorators:
        if not isinstance(info, DecorateInfo) or info.cls_name != "TestCommon":
            continue
        if info.device_type == "mps" or "complex_half" in (info.test_name or ""):
            continue
        for decorator in info.decorators:
            if isinstance(decorator, toleranceOverride):
                for dtype, asked in decorator.d.items():
                    rtol, atol = found.get(dtype, default_tolerances(dtype))
                    found[dtype] = (max(rtol, asked.rtol), max(atol, asked.atol))
    return found


def same(got, expected, known=None, reference=None, values=True):
    """Raises `Mismatch` unless `got` agrees with `expected`.

    `reference()` gives the float64 result, or None. Without `values` only structure, dtypes and
    shapes are compared.
    """
    mine, mine_spec = pytree.tree_flatten(got)
    theirs, theirs_spec = pytree.tree_flatten(expected)
    if len(mine) != len(theirs) or str(mine_spec) != str(theirs_spec):
        raise Mismatch(f"results are {mine_spec}, not {theirs_spec}")
    exact = None
    for index, (here, there) in enumerate(zip(mine, theirs)):
        try:
            _same_leaf(here, there, known or {}, values)
        except _Inexact as found:
            exact = exact or pytree.tree_leaves(reference() if reference else None)
            if len(exact) != len(theirs) or not _arbitrate(found, exact[index], known or {}):
                raise Mismatch(f"result {index}: {found}") from None
        except Mismatch as found:
            raise Mismatch(f"result {index}: {found}") from None


def same_strides(got, expected):
    """Raises `Mismatch` where a dimension of several elements lies otherwise in memory."""
    pairs = zip(pytree.tree_leaves(got), pytree.tree_leaves(expected))
    for index, (here, there) in enumerate(pairs):
        if not isinstance(there, torch.Tensor) or there.layout != torch.strided:
            continue
        if _strides(here) != _strides(there):
            raise Mismatch(f"result {index}: strides {here.stride()} instead of {there.stride()}")


def _strides(tensor):
    if tensor.numel() == 0:
        return []
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1]


class _Inexact(Mismatch):
    """Values differ by more than the tolerance."""

    def __init__(self, message, here, there):
        super().__init__(message)
        self.here, self.there = here, there


def _same_leaf(here, there, known, values):
    if not isinstance(there, torch.Tensor):
        equal = here == there or (here != here and there != there)
        if type(here) is not type(there) or (values and not equal):
            raise Mismatch(f"{here!r} instead of {there!r}")
        return
    _same_kind(here, there)
    if values and here.numel() > 0:
        _same_values(plain(here), plain(there), known)


def _same_kind(here, there):
    if not isinstance(here, torch.Tensor):
        raise Mismatch(f"{here!r} instead of a tensor")
    for what in ("dtype", "shape", "layout"):
        mine, theirs = getattr(here, what), getattr(there, what)
        if mine != theirs:
            raise Mismatch(f"{what} {mine} instead of {theirs}")


def plain(tensor):
    """The values on the CPU, without conjugate and negative bits."""
    return tensor.detach().cpu().resolve_conj().resolve_neg()


def _same_values(here, there, known):
    rtol, atol = known.get(there.dtype, default_tolerances(there.dtype))
    try:
        torch.testing.assert_close(here, there, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        message = " ".join(str(error).split())
        raise _Inexact(message, here, there) from None


def _arbitrate(found, exact, known):
    """Whether the device is about as near to the float64 result as the CPU."""
    here, there = found.here, found.there
    if not isinstance(exact, torch.Tensor) or exact.shape != there.shape:
        return False
    if not (there.is_floating_point() or there.is_complex()):
        return False
    exact = plain(exact).to(torch.complex128 if there.is_complex() else torch.float64)
    here, there = here.to(exact.dtype), there.to(exact.dtype)
    settled = (here == there) | (here.isnan() & there.isnan())
    finite = exact.isfinite() & here.isfinite() & there.isfinite()
    if not bool((settled | finite).all()):
        return False
    rtol, atol = known.get(found.there.dtype, default_tolerances(found.there.dtype))
    zero = torch.zeros((), dtype=exact.dtype)
    worst = torch.where(finite, there - exact, zero).abs().max()
    error = torch.where(finite & ~settled, here - exact, zero).abs()
    allowed = atol + rtol * torch.where(finite, exact, zero).abs() + SLACK * worst
    return bool((error <= allowed).all())
