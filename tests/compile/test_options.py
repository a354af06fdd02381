"""`mode=` and `options=` of `torch.compile`."""

import pytest
import torch

import torch_tpu


def compiled(device, **how):
    """The key of the program of one small graph, compiled so."""
    torch._dynamo.reset()
    before = len(torch_tpu.explain())
    x = torch.arange(1.0, 6.0, device=device)
    y = torch.compile(lambda x: (x * 1.25).sin() + x, backend="tpu", **how)(x)
    torch.testing.assert_close(y.cpu(), (x.cpu() * 1.25).sin() + x.cpu())
    made = [one for one in torch_tpu.explain()[before:] if one.what.startswith("graph")]
    return made[0] if made else None


def test_options_are_part_of_the_program(device):
    compiled(device)
    fast = compiled(device, options={"xla_cpu_enable_fast_math": True})
    assert fast.cause == "options"
    assert fast.loaded or "set them once" in fast.advice
    level = compiled(device, options={"optimization_level": "O1"})
    assert level.key != fast.key
    assert compiled(device, options={"optimization_level": "O1"}) is None


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_modes_that_change_nothing_share_the_program(device, mode):
    compiled(device)
    assert compiled(device, mode=mode) is None


def test_the_mode_of_most_effort(device):
    compiled(device)
    compiled(device, mode="max-autotune")
    assert compiled(device, options={"optimization_level": "O3"}) is None


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"mode": "fastest"}, "no mode `fastest`.*hint: one of default, reduce-overhead, max"),
        ({"options": {"triton.cudagraphs": 1}}, "no option `triton.cudagraphs`: expected `optimi"),
        ({"options": {"optimization_level": 7}}, "takes one of `O0`, `O1`, `O2`, `O3`"),
        ({"options": {"xla_a": [1]}}, r"option `xla_a` cannot be \[1\]"),
        (
            {"options": {"xla_cpu_enable_fastmath": True}},
            "No such compile option.*the compiler knows xla_cpu_enable_fast_math,",
        ),
        ({"options": {"xla_cpu_enable_fast_math": "yes"}}, "not a valid bool value"),
    ],
)
def test_what_there_is_not_is_refused(device, how, message):
    with pytest.raises(Exception, match=f"ValueError: TPU4003: .*{message}"):
        compiled(device, **how)
