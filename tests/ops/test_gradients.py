"""PyTorch's generic test of derivatives, instantiated for the device: `gradcheck` of operators.

It makes its samples on the device and compares with differences there, so that what it finds is
independent of the CPU; it also takes batches of gradients (`vmap`), undefined gradients and
forward-mode derivatives. Names of classes and tests are PyTorch's: by these its OpInfos say which
tolerances to take and what cannot pass on any device.
"""

import copy
import itertools
import random

import pytest
import torch
from sweep import cases, skips
from torch.testing._internal.common_device_type import (
    instantiate_device_type_tests,
    ops,
)
from torch.testing._internal.common_utils import TestGradients

DTYPE = torch.float64
# Share of the tests that a run without `--full` takes.
SHARE = 1 / 60
# Samples of an operator: each costs two calls an element.
SAMPLES = 3


def first_samples(op):
    """The operator with its first samples only."""
    brief = copy.copy(op)
    every = op.sample_inputs_func
    brief.sample_inputs_func = lambda *args, **kwargs: itertools.islice(
        every(*args, **kwargs), SAMPLES
    )
    return brief


def unlisted(form):
    """The operators that `skips.toml` does not list."""
    listed, dtype = skips.load(), str(DTYPE).removeprefix("torch.")
    return [
        first_samples(op)
        for name, op in cases.operators().items()
        if op.supports_autograd and not any(skip.covers(name, dtype, form) for skip in listed)
    ]


class TestBwdGradients(TestGradients):
    @ops(unlisted("gradient"), allowed_dtypes=[DTYPE])
    def test_fn_grad(self, device, dtype, op):
        self._skip_helper(op, device, dtype)
        self._grad_test_helper(device, dtype, op, op.get_op())

    @ops(unlisted("gradgrad"), allowed_dtypes=[DTYPE])
    def test_fn_gradgrad(self, device, dtype, op):
        self._skip_helper(op, device, dtype)
        if not op.supports_gradgrad:
            self.skipTest("no second derivative")
        self._check_helper(device, dtype, op, op.get_op(), "bwgrad_bwgrad")


class TestFwdGradients(TestGradients):
    @ops(unlisted("gradient"), allowed_dtypes=[DTYPE])
    def test_forward_mode_AD(self, device, dtype, op):  # noqa: N802
        self._skip_helper(op, device, dtype)
        if not op.supports_forward_ad:
            self.skipTest("no forward-mode derivative")
        self._grad_test_helper(
            device,
            dtype,
            op,
            op.get_op(),
            check_forward_ad=True,
            check_backward_ad=False,
            check_batched_grad=False,
        )


def instantiate(generic):
    """Makes the tests of the device, and marks those that are not drawn as for `--full`."""
    made = {generic.__name__: generic}
    instantiate_device_type_tests(generic, made, only_for="privateuse1")
    (suite,) = made.values()
    for name, test in list(vars(suite).items()):
        if name.startswith("test_") and random.Random(f"{cases.SEED}:{name}").random() >= SHARE:
            setattr(suite, name, pytest.mark.full(test))
    return suite


TestBackward, TestForward = map(instantiate, (TestBwdGradients, TestFwdGradients))
del TestBwdGradients, TestFwdGradients, TestGradients
