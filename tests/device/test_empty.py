"""Calls on tensors that hold nothing along a dimension, where PyTorch has rules for each."""

import pytest
import torch

functional = torch.nn.functional


def outcome(call, device):
    """Results with their gradients, or the refusal."""
    try:
        results = [x.detach().cpu() for x in call(device)]
        torch.get_device_module(device).synchronize()
        return results
    except Exception as error:
        return type(error), str(error).splitlines()[0]


def same(call, device):
    got, expected = outcome(call, device), outcome(call, "cpu")
    if isinstance(expected, tuple):
        assert got == expected
    else:
        torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


SHAPES = {
    1: [(0, 3, 8), (0, 8), (2, 0, 8), (2, 3, 0)],
    2: [(0, 3, 8, 8), (0, 8, 8), (2, 0, 8, 8), (2, 3, 8, 0)],
    3: [(0, 3, 4, 4, 4), (0, 4, 4, 4), (2, 0, 4, 4, 4), (2, 3, 4, 0, 4)],
}


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("shape", [shape for n in SHAPES for shape in SHAPES[n]], ids=str)
def test_adaptive_pooling(kind, shape, device):
    n = next(n for n in SHAPES if shape in SHAPES[n])

    def run(device):
        x = torch.ones(shape, device=device, requires_grad=True)
        chosen = {"return_indices": True} if kind == "max" else {}
        results = getattr(functional, f"adaptive_{kind}_pool{n}d")(x, 2, **chosen)
        results = results if isinstance(results, tuple) else (results,)
        return *results, *torch.autograd.grad(results[0].sum(), x)

    same(run, device)


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("shape", [(3, 2, 0), (0, 2, 2), (2, 0, 2, 2), (0, 3, 0, 2)], ids=str)
def test_adaptive_pooling_of_empty_gradients(kind, shape, device):
    def run(device):
        grad, x = torch.ones(shape, device=device), torch.ones(*shape[:-2], 4, 4, device=device)
        if kind == "avg":
            return [torch.ops.aten._adaptive_avg_pool2d_backward(grad, x)]
        index = torch.zeros(shape, dtype=torch.int64, device=device)
        return [torch.ops.aten.adaptive_max_pool2d_backward(grad, x, index)]

    same(run, device)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(3, 0), (0,), (0, 0), (2, 0, 3, 4)], ids=str)
def test_loss_of_no_classes(shape, weighted, reduction, device):
    """Targets that are ignored count nothing, any other is out of bounds."""

    def run(device):
        x = torch.ones(shape, device=device, requires_grad=True)
        kept = [size for dim, size in enumerate(shape) if dim != min(1, len(shape) - 1)]
        target = torch.full(kept, -100, device=device)
        weight = torch.ones(0, device=device) if weighted else None
        loss = functional.nll_loss(x, target, weight=weight, reduction=reduction)
        return loss, *torch.autograd.grad(loss.sum(), x)

    same(run, device)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_target_among_no_classes(weighted, device):
    def run(device):
        weight = torch.ones(0, device=device) if weighted else None
        target = torch.zeros(3, dtype=torch.int64, device=device)
        return [functional.nll_loss(torch.ones(3, 0, device=device), target, weight=weight)]

    same(run, device)
