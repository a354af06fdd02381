"""A seeded sample of PyTorch's operator database through ``torch.compile``, against the CPU."""

import pathlib
import random
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ops"))

from sweep import cases, compare, forms, trees

# Share of the operators that a run without `--full` takes.
SHARE = 1 / 10


def drawn(name, full):
    return full or random.Random(f"{cases.SEED}:compiled:{name}").random() < SHARE


def pytest_generate_tests(metafunc):
    full = metafunc.config.getoption("--full")
    every = cases.operators().items()
    names = [name for name, op in every if "float32" in cases.dtypes(op) and drawn(name, full)]
    metafunc.parametrize("name", names)


def call(op, tree):
    first, args, kwargs = tree
    with torch.no_grad():
        return op(first, *args, **kwargs)


def canonical(sample, results):
    """What is unique of the results, as of the vectors that a decomposition gives."""
    with torch.no_grad():
        return sample.output_process_fn_grad(results)


def test_operator(name, device):
    op = cases.operators()[name]
    torch.manual_seed(cases.SEED)
    sample = random.Random(name).choice(list(op.sample_inputs("cpu", torch.float32)))
    tree = forms.arguments(sample)
    before = torch.get_rng_state()
    expected = canonical(sample, call(op, trees.move(tree, "cpu").tree))
    drew = not torch.equal(before, torch.get_rng_state())
    torch._dynamo.reset()
    compiled = torch.compile(call, backend="tpu")
    got = canonical(sample, compiled(op, trees.move(tree, device).tree))

    def reference():
        return canonical(sample, call(op, trees.move(tree, "cpu", wide=True).tree))

    known = compare.tolerances(op)
    try:
        compare.same(got, expected, known=known, reference=reference, values=not drew)
    except compare.Mismatch as wrong:
        pytest.fail(f"{name}, {sample}: {wrong}")
