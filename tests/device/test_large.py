"""Pointwise operators on more elements than the quick tier takes: the compiler's full effort."""

import pytest
import torch

COUNT = 6000
NAMES = (
    "abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp "
    "exp2 expm1 floor frac lgamma log log10 log1p log2 logit neg reciprocal round rsqrt sgn "
    "sigmoid sign sin sinc sinh sqrt square tan tanh trunc"
).split()
PAIRS = (
    "add atan2 copysign div floor_divide fmax fmin fmod heaviside hypot logaddexp logaddexp2 "
    "maximum minimum mul nextafter pow remainder sub xlogy"
).split()


def numbers(seed, scale):
    torch.manual_seed(seed)
    return torch.randn(COUNT) * scale


def close(here, there):
    torch.testing.assert_close(here.cpu(), there, equal_nan=True, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [0.3, 4])
def test_of_one(name, scale, device):
    x, call = numbers(1, scale), getattr(torch, name)
    close(call(x.to(device)), call(x))


@pytest.mark.parametrize("name", PAIRS)
def test_of_two(name, device):
    x, y, call = numbers(1, 3), numbers(2, 3), getattr(torch, name)
    close(call(x.to(device), y.to(device)), call(x, y))
    one = torch.ones(COUNT)
    close(call(x.to(device), one.to(device)), call(x, one))
