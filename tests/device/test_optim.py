"""What a step of an optimizer costs in programs, and that it computes what the CPU does."""

import copy

import pytest
import torch
from torch import nn

import torch_tpu

MANY = 100


def parameters(device="tpu", count=MANY):
    values = torch.linspace(-1, 1, 6 * count).reshape(count, 2, 3)
    result = [nn.Parameter(value.to(device)) for value in values]
    for parameter in result:
        parameter.grad = parameter.detach().cos()
    return result


def launches(step, warm=3):
    """How many programs `step` starts once it ran `warm` times. None may need compiling."""
    for _ in range(warm):
        step()
    torch_tpu.reset_stats()
    step()
    counted = torch_tpu.stats()
    assert (counted["compiles"]["quick"], counted["compiles"]["full"]) == (0, 0)
    return counted["launches"]


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        ("AdamW", {}, 2),
        ("Adam", {"amsgrad": True, "weight_decay": 0.1}, 2),
        ("AdamW", {"lr": torch.tensor(1e-3)}, 2),
        ("AdamW", {"foreach": True}, 8),
        ("SGD", {}, 1),
        ("SGD", {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}, 1),
        ("Adagrad", {}, 5),
        ("RMSprop", {}, 5),
        ("NAdam", {}, 8),
        ("RAdam", {}, 9),
        ("Adamax", {}, 6),
        ("Adadelta", {}, 11),
    ],
)
def test_a_step_is_a_handful_of_programs(name, options, most):
    optimizer = getattr(torch.optim, name)(parameters(), **options)
    assert launches(optimizer.step) <= most


def test_another_learning_rate_compiles_nothing():
    optimizer = torch.optim.AdamW(parameters())
    rate = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def step():
        optimizer.step()
        rate.step()

    assert launches(step) <= 2


def test_gradients_are_zeroed_at_once():
    optimizer = torch.optim.AdamW(parameters())
    optimizer.step()
    assert launches(lambda: optimizer.zero_grad(set_to_none=False)) == 1
    assert not any(p.grad.any() for p in optimizer.param_groups[0]["params"])


def test_clipping_is_a_handful_of_programs():
    clipped = parameters()
    assert launches(lambda: nn.utils.clip_grad_norm_(clipped, 1.0)) <= 8
    assert launches(lambda: nn.utils.clip_grad_value_(clipped, 1.0)) <= 2


@pytest.mark.parametrize("unscale", [False, True])
def test_a_scaled_step_is_a_handful_of_programs(unscale):
    scaler = torch.amp.GradScaler("tpu", init_scale=2.0)
    scaler.scale(torch.ones((), device="tpu"))
    optimizer = torch.optim.AdamW(parameters())

    def step():
        if unscale:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    assert launches(step) <= 10


@pytest.mark.parametrize("name", ["AdamW", "Adam", "SGD"])
def test_what_is_chosen_is_kept(name):
    for choice in {"foreach": False}, {"foreach": True}, {"fused": False}:
        optimizer = getattr(torch.optim, name)(parameters(count=2), **choice)
        optimizer.step()
        assert not optimizer.param_groups[0]["fused"]
    optimizer = getattr(torch.optim, name)(parameters("cpu", count=2))
    optimizer.step()
    assert not optimizer.param_groups[0]["fused"]


def steps(optimizer, count=3):
    for _ in range(count):
        optimizer.step()
    return [p.detach().cpu() for p in optimizer.param_groups[0]["params"]]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AdamW", {"amsgrad": True}),
        ("Adam", {"weight_decay": 0.1, "maximize": True}),
        ("SGD", {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ],
)
def test_the_steps_are_those_of_the_cpu(name, options):
    kind = getattr(torch.optim, name)
    expected = steps(kind(parameters("cpu", count=3), **options))
    torch.testing.assert_close(
        steps(kind(parameters(count=3), **options)), expected, rtol=1e-5, atol=1e-6
    )


def test_a_checkpoint_of_another_implementation_goes_on():
    trained = torch.optim.AdamW(parameters("cpu", count=3))
    steps(trained)
    state = copy.deepcopy(trained.state_dict())
    resumed = torch.optim.AdamW(
        [nn.Parameter(p.detach().to("tpu")) for p in trained.param_groups[0]["params"]]
    )
    for ours, theirs in zip(
        resumed.param_groups[0]["params"],
        trained.param_groups[0]["params"],
        strict=True,
    ):
        ours.grad = theirs.grad.to("tpu")
    resumed.load_state_dict(state)
    torch.testing.assert_close(steps(resumed), steps(trained), rtol=1e-5, atol=1e-6)


def test_an_overflow_skips_the_step_and_lowers_the_scale():
    scaler = torch.amp.GradScaler("tpu", init_scale=4.0)
    scaler.scale(torch.ones((), device="tpu"))
    optimizer = torch.optim.AdamW(parameters(count=2))
    optimizer.step()
    before = steps(optimizer, 0)
    optimizer.param_groups[0]["params"][0].grad.fill_(torch.inf)
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(steps(optimizer, 0), before, rtol=0, atol=0)
    assert scaler.get_scale() == 2.0
