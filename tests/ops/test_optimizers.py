"""Every optimizer of PyTorch's own list against the CPU, one by one and `foreach`."""

import copy
import random

import pytest
import torch
from sweep import cases, compare
from torch.testing._internal.common_optimizers import optim_db

STEPS = 4
# How many descriptions of an optimizer's arguments a run without `--full` takes.
INPUTS = 2
DENSE = [info for info in optim_db if not info.only_supports_sparse_grads]


def descriptions(info, full):
    every = info.optim_inputs_func(device="cpu", dtype=torch.float32)
    if full or len(every) <= INPUTS:
        return every
    return random.Random(f"{cases.SEED}/{info.name}").sample(every, INPUTS)


def parameters(info, device, dtype):
    """A matrix, a vector and a number; matrices alone for what takes nothing else."""
    torch.manual_seed(cases.SEED)
    shapes = [(3, 4), (4, 2)] if info.name == "Muon" else [(3, 4), (5,), ()]
    return [torch.randn(shape).to(device, dtype).requires_grad_() for shape in shapes]


def train(info, kwargs, device, dtype=torch.float32):
    """The parameters and the optimizer's state after a few steps."""
    params = parameters(info, device, dtype)
    optimizer = info.optim_cls(params, **copy.deepcopy(kwargs))

    def closure():
        optimizer.zero_grad()
        loss = sum(((p - 0.5) ** 2 * (i + 1)).sum() + p.cos().sum() for i, p in enumerate(params))
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    state = [value for p in params for _, value in sorted(optimizer.state[p].items(), key=str)]
    return params, [value for value in state if isinstance(value, torch.Tensor)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("foreach", [False, True], ids=["single", "foreach"])
@pytest.mark.parametrize("info", DENSE, ids=[info.name for info in DENSE])
def test_optimizer(info, foreach, device, request):
    if foreach and "foreach" not in info.supported_impls:
        pytest.skip("the optimizer has no such form")
    for one in descriptions(info, request.config.getoption("--full")):
        kwargs = one.kwargs | ({"foreach": foreach} if "foreach" in info.supported_impls else {})
        got, expected = (train(info, kwargs, device) for device in (device, "cpu"))
        exact = lambda: train(info, kwargs, "cpu", torch.float64)  # noqa: B023, E731
        try:
            compare.same(got, expected, reference=exact)
        except compare.Mismatch as found:
            pytest.fail(f"{one.desc} {one.kwargs}: {found}")
