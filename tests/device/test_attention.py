"""Scaled dot-product attention with masks, grouped heads and queries that see no key."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

KEYS = 5


def _mask(kind):
    generator = torch.Generator().manual_seed(3)
    if kind == "none":
        return None
    if kind == "float":
        return torch.randn(2, 4, 6, KEYS, generator=generator)
    seen = torch.rand(2, 1, 6, KEYS, generator=generator) > 0.4
    seen[..., 0] = True
    seen[:, :, 2] = kind != "blind"
    return seen


@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("kind", ["none", "bool", "float", "blind"])
def test_values_and_gradients_are_the_cpus(kind, groups):
    generator = torch.Generator().manual_seed(0)
    given = [
        torch.randn(2, n, s, 8, generator=generator) for n, s in ((4, 6), *[(groups, KEYS)] * 2)
    ]
    mask, results = _mask(kind), {}
    for device in ("cpu", "tpu"):
        q, k, v = (x.to(device).requires_grad_() for x in given)
        there = None if mask is None else mask.to(device)
        out = scaled_dot_product_attention(q, k, v, there, enable_gqa=groups != 4)
        results[device] = [out, *torch.autograd.grad(out.cos().sum(), (q, k, v))]
    for expected, got in zip(results["cpu"], results["tpu"], strict=True):
        torch.testing.assert_close(got.cpu(), expected)
    if kind == "blind":
        assert torch.equal(results["tpu"][0][:, :, 2].cpu(), torch.zeros(2, 4, 8))
