"""What must hold of operators that draw random numbers: their values cannot be the CPU's."""

import torch

from . import compare, trees

# Operators whose result is whatever the memory held.
UNDEFINED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}


def _between(low, high):
    return lambda result, _: bool(((result >= low) & (result <= high)).all())


def _is_one_of_two(result, _):
    return bool(((result == 0) | (result == 1)).all())


def _is_scaled_or_zero(result, source):
    """Dropout: an element is 0, or the input's times one factor."""
    if source.shape != result.shape:
        return True
    kept = (result != 0) & (source != 0)
    ratio = (result[kept] / source[kept]).double()
    return ratio.numel() == 0 or bool((ratio - ratio[0]).abs().max() <= 0.02 * ratio[0].abs())


# By operator: what a result and the first argument must satisfy.
INVARIANTS = {
    "bernoulli": _is_one_of_two,
    "exponential": _between(0, float("inf")),
    "geometric": _between(1, float("inf")),
    "log_normal": _between(0, float("inf")),
    "multinomial": lambda result, source: _between(0, source.shape[-1] - 1)(result, source),
    "nn.functional.dropout": _is_scaled_or_zero,
    "uniform": lambda result, _: bool(result.isfinite().all()),
}

# Elements from which two draws cannot be equal by chance.
MANY = 16


def check(run, moved, again, expected, holds):
    """`moved()` gives fresh arguments on the device, `run` calls the operator with them.

    `again` is a second draw of the CPU's with another seed, `expected` its first; `holds` is one
    of `INVARIANTS` or None.
    """
    first, second, third = (_draw(run, moved(), seed) for seed in (1, 1, 2))
    compare.same(first, expected, values=False)
    if not _equal(first, second):
        raise compare.Mismatch("two draws with the same seed differ")
    varies = not _equal(again, expected)
    size = sum(t.numel() for t in trees.tensors(expected) if t.is_floating_point())
    if varies and size >= MANY and _equal(first, third):
        raise compare.Mismatch("draws with different seeds are equal")
    source = next(iter(trees.tensors(moved().tree)), None)
    for result in trees.tensors(first)[:1]:
        if holds and result.numel() and not holds(result, compare.plain(source)):
            raise compare.Mismatch(f"not what can be drawn: {result}")


def _draw(run, moved, seed):
    torch.manual_seed(seed)
    results = run(moved.tree)
    here = [compare.plain(t) for t in trees.tensors(results)]
    position = iter(here)
    swap = lambda leaf: next(position) if isinstance(leaf, torch.Tensor) else leaf  # noqa: E731
    return trees.map_leaves(swap, results)


def _equal(one, other):
    pairs = zip(trees.tensors(one), trees.tensors(other))
    return all(torch.allclose(a, b, rtol=0, atol=0, equal_nan=True) for a, b in pairs)
