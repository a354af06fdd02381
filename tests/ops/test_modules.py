"""Every module of PyTorch's own list against the CPU: results, gradients and buffers."""

import copy
import random

import pytest
import torch
from sweep import cases, compare, trees
from torch.testing._internal.common_modules import module_db

# How many descriptions of a module's arguments a run without `--full` takes.
INPUTS = 3


def pytest_generate_tests(metafunc):
    full = metafunc.config.getoption("--full")
    drawn = [info for info in module_db if full or is_drawn(info.formatted_name)]
    ids = [info.formatted_name for info in drawn]
    metafunc.parametrize("info", drawn, ids=ids)


def is_drawn(name):
    return random.Random(f"{cases.SEED}:{name}").random() < 2 * cases.SHARE


def descriptions(info, training, full):
    """What the module is made from and called with, all or a seeded choice."""
    torch.manual_seed(cases.SEED)
    every = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    )
    every = [one for one in every if one.forward_input is not None]
    if full or len(every) <= INPUTS:
        return every
    return random.Random(f"{cases.SEED}/{info.formatted_name}").sample(every, INPUTS)


def outcome(module, given, device, wide=False):
    """Results, gradients and state after one call with random numbers of seed 1."""
    module = copy.deepcopy(module)
    given = trees.move(given, device, wide).tree
    module = module.to(device, torch.float64) if wide else module.to(device)
    torch.manual_seed(1)
    results = module(*given[0], **given[1])
    leaves = [t for t in trees.tensors(results) if t.requires_grad]
    inputs = [t for t in trees.tensors(given) if t.requires_grad]
    inputs += list(module.parameters())
    grads = ()
    if leaves and inputs:
        total = sum((t * t.detach().cos()).sum() for t in leaves)
        grads = torch.autograd.grad(total, inputs, allow_unused=True)
    return trees.tensors(results), list(grads), list(module.buffers())


def draws(module, training):
    """Whether the call draws numbers: values are not compared then."""
    rate = [getattr(part, "dropout", getattr(part, "p", 0)) for part in module.modules()]
    named = any("Dropout" in type(part).__name__ for part in module.modules())
    return training and (named or any(isinstance(p, float) and p > 0 for p in rate))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_module(info, training, device, request):
    for one in descriptions(info, training, request.config.getoption("--full")):
        torch.manual_seed(2)
        module = info.module_cls(*one.constructor_input.args, **one.constructor_input.kwargs)
        module.train(training)
        given = (tuple(one.forward_input.args), dict(one.forward_input.kwargs))
        if info.is_lazy:
            module(*given[0], **given[1])
        got, expected = (outcome(module, given, device) for device in (device, "cpu"))
        exact = lambda: outcome(module, given, "cpu", wide=True)  # noqa: B023, E731
        try:
            compare.same(got, expected, reference=exact, values=not draws(module, training))
        except compare.Mismatch as found:
            pytest.fail(f"{one.desc} {module}, {trees.describe(given)}: {found}")
