"""PyTorch's generic test of derivatives, instantiated for the device: `gradcheck` of operators.

The wheel brings no other generic class with tests of the device. This one makes its samples on the
device and compares with differences there, so that what it finds is independent of the CPU; it also
takes batches of gradients (`vmap`), undefined gradients and forward-mode derivatives. Names of
classes and tests are PyTorch's: by these its OpInfos say which tolerances to take and what cannot
pass on any device.
"""

import copy
import itertools
import random
import unittest

import pytest
import torch
from sweep import cases, skips
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestGradients

DTYPE = torch.float64
# Share of the tests that a run without `--full` takes.
SHARE = 1 / 80
# Samples of an operator: each costs two calls an element.
SAMPLES = 2


def first_samples(op):
    """The operator with its first samples only."""
    brief, every = copy.copy(op), op.sample_inputs_func
    brief.sample_inputs_func = lambda *given, **named: itertools.islice(
        every(*given, **named), SAMPLES
    )
    return brief


def unlisted(form):
    """The operators that `skips.toml` does not list."""
    listed, dtype = skips.load(), str(DTYPE).removeprefix("torch.")
    known = [op for op in op_db if not any(s.covers(op.full_name, dtype, form) for s in listed)]
    return [first_samples(op) for op in known if op.supports_autograd]


class Checked(TestGradients):
    """What fails on the CPU too is the sample's or the check's fault."""

    def _check_helper(self, device, dtype, op, variant, check, **options):
        self._skip_helper(op, device, dtype)
        try:
            super()._check_helper(device, dtype, op, variant, check, **options)
        except unittest.SkipTest:
            raise
        except Exception:
            try:
                super()._check_helper("cpu", dtype, op, variant, check, **options)
            except Exception as failure:
                self.skipTest(f"fails on the CPU: {str(failure).splitlines()[0]}")
            raise


class TestBwdGradients(Checked):
    @ops(unlisted("gradient"), allowed_dtypes=[DTYPE])
    def test_fn_grad(self, device, dtype, op):
        self._check_helper(device, dtype, op, op.get_op(), "gradcheck")

    @ops(unlisted("gradgrad"), allowed_dtypes=[DTYPE])
    def test_fn_gradgrad(self, device, dtype, op):
        if not op.supports_gradgrad:
            self.skipTest("no second derivative")
        self._check_helper(device, dtype, op, op.get_op(), "bwgrad_bwgrad")


class TestFwdGradients(Checked):
    @ops(unlisted("gradient"), allowed_dtypes=[DTYPE])
    def test_forward_mode_AD(self, device, dtype, op):  # noqa: N802
        if not op.supports_forward_ad:
            self.skipTest("no forward-mode derivative")
        directions = dict(check_forward_ad=True, check_backward_ad=False, check_batched_grad=False)
        self._check_helper(device, dtype, op, op.get_op(), "gradcheck", **directions)


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
del Checked, TestBwdGradients, TestFwdGradients, TestGradients
