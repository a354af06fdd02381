"""Every model against the CPU: forward, in bfloat16, and three steps of training."""

import functools

import pytest
import torch
from torch.utils._pytree import tree_leaves

OPTIMIZERS = {
    # With the default `eps` a gradient that is zero but for rounding still moves its parameter by
    # the learning rate: the bias of keys in attention has one.
    "AdamW": functools.partial(torch.optim.AdamW, lr=1e-3, eps=1e-6),
    "SGD": functools.partial(torch.optim.SGD, lr=1e-2, momentum=0.9),
}


def answer(model, inputs):
    """Every tensor that the model returns, on the CPU."""
    with torch.no_grad():
        output = model(**inputs)
    parts = output.to_tuple() if hasattr(output, "to_tuple") else vars(output)
    return [part.cpu() for part in tree_leaves(parts) if torch.is_tensor(part)]


def distance(here, there):
    """The length of the difference, relative to what is expected."""
    here, there = here.double(), there.double()
    return ((here - there).norm() / there.norm().clamp_min(1e-30)).item()


@pytest.fixture(params=["eager", "compiled"])
def compiled(request, subject):
    """What is done with a model before it runs."""
    if request.param == "eager":
        return lambda model: model
    torch._dynamo.reset()
    if subject.name == "qwen3_moe":
        # PyTorch's shape function of grouped products takes bfloat16 alone.
        subject.model.set_experts_implementation("batched_mm")
    return functools.partial(torch.compile, backend="tpu")


def test_forward(subject, compiled, device):
    model, inputs = subject.on(device)
    here, there = answer(compiled(model), inputs), answer(*subject.on("cpu"))
    assert len(here) == len(there) > 0
    for one, other in zip(here, there):
        assert one.dtype == other.dtype and one.shape == other.shape
        scale = other.abs().max().item()
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * scale)


def in_double(subject):
    model, inputs = subject.on(torch.float64)
    if subject.name == "qwen3_moe":  # the CPU multiplies groups of matrices in float32 at most
        model.set_experts_implementation("eager")
    return model, inputs


def test_bfloat16(subject, device):
    """Rounding costs no more on the device than on the CPU, both against float64."""
    subject.model.to(torch.bfloat16)
    exact = answer(*in_double(subject))
    half = answer(*subject.on(torch.bfloat16))
    model, inputs = subject.on(torch.bfloat16)
    inputs = {k: v.to(device) if torch.is_tensor(v) else v for k, v in inputs.items()}
    here = answer(model.to(device), inputs)
    for one, other, truth in zip(here, half, exact, strict=True):
        assert one.dtype == other.dtype
        assert distance(one, truth) <= 1.5 * distance(other, truth) + 2**-8


def train(model, inputs, optimizer, call=None, steps=3):
    """The losses of a few steps; ``call`` is the model or what was compiled of it."""
    optimizer, losses = optimizer(model.train().parameters()), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model if call is None else call)(**inputs).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training(subject, optimizer, compiled, device):
    (model, inputs), (expected, on_cpu) = subject.on(device), subject.on("cpu")
    losses = train(model, inputs, OPTIMIZERS[optimizer], compiled(model))
    torch.testing.assert_close(
        losses, train(expected, on_cpu, OPTIMIZERS[optimizer]), rtol=1e-3, atol=0
    )
    assert losses[-1] < losses[0]
    for (name, here), there in zip(model.named_parameters(), expected.parameters()):
        assert distance(here.detach().cpu(), there.detach()) < 1e-3, name
    for (name, here), there in zip(model.named_buffers(), expected.buffers()):
        torch.testing.assert_close(here.cpu(), there, rtol=1e-3, atol=1e-5, msg=name)
