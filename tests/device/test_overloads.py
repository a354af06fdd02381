"""Overloads that PyTorch's databases do not call, against the CPU."""

import random

import pytest
import torch

import torch_tpu

aten = torch.ops.aten
inf = float("inf")


def seeded(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def observed(low, high, *, per_row=False, symmetric=False, on=(1, 1)):
    n = 2 if per_row else 1
    data = torch.tensor([[-1.0, 0.5, 2.0], [0.1, 0.2, 9.0]])
    state = [torch.full((n,), low), torch.full((n,), high), torch.ones(n)]
    switches = [torch.tensor([flag]) for flag in on]
    zero_point = torch.zeros(n, dtype=torch.int32)
    return [data, *switches, *state, zero_point, 0.01, 0, 255, 0, per_row, symmetric]


key = torch.tensor([42, 7], dtype=torch.uint64)
keys = torch.tensor([[1, 2], [2**63 + 5, 2**64 - 2], [5, 6]], dtype=torch.uint64)
image, kernel = seeded(2, 3, 6, 6), seeded(4, 3, 2, 2)
observer = aten._fused_moving_avg_obs_fq_helper

CALLS = [
    (aten._philox_key_split, [keys, 2]),
    (aten._philox_key_fold_in, [keys, -1]),
    (aten._philox_key_fold_in.Tensor, [key, torch.tensor(9, dtype=torch.uint64)]),
    (aten._philox_uniform_, [torch.zeros(4, 5), key, -1.0, 3.0]),
    (aten._philox_uniform_, [torch.zeros(7, dtype=torch.float64), key]),
    (aten._philox_uniform_, [torch.zeros(7, dtype=torch.bfloat16), key]),
    (aten._philox_uniform_, [torch.zeros(3, 4, 5), keys[:, None, None, :].contiguous()]),
    (aten._philox_normal_, [torch.zeros(7), key, 1.0, 2.0]),
    (aten._philox_normal_, [torch.zeros(7, dtype=torch.float64), key]),
    (aten._compute_linear_combination, [seeded(2, 3, 4), seeded(5, 2)]),
    (aten._add_relu.Tensor, [seeded(3, 4), seeded(4)]),
    (aten._add_relu_.Scalar, [seeded(3, 4), 0.5]),
    (aten.__ilshift__.Tensor, [torch.tensor([1, 2]), torch.tensor([3, 1])]),
    (aten.__irshift__.Scalar, [torch.tensor([-100, 2]), 1]),
    (aten._slow_conv2d_forward, [image, kernel, [2, 2], seeded(4), [2, 1], [1, 0]]),
    (aten.slow_conv_dilated2d, [image[0], kernel, [2, 2], None, [1, 1], [1, 1], [2, 1]]),
    (aten.slow_conv_transpose2d, [image, seeded(3, 4, 2, 2), [2, 2], None, [2, 2], [1, 0], [1, 0]]),
    (observer, observed(inf, -inf)),
    (observer, observed(-3.0, 1.0, symmetric=True)),
    (observer, observed(0.5, 2.0, per_row=True)),
    (observer, observed(-1e-6, 1e-6, on=(0, 1))),
    (observer, observed(-3.0, 1.0, on=(1, 0))),
]


def call(op, args, device):
    args = [arg.to(device, copy=True) if isinstance(arg, torch.Tensor) else arg for arg in args]
    results = op(*args)
    results = results if isinstance(results, (tuple, list)) else [results]
    written = [arg for arg in args if isinstance(arg, torch.Tensor)]
    return [x.cpu() for x in (*results, *written)]


@pytest.mark.parametrize("op, args", CALLS, ids=lambda x: str(x) if callable(x) else "")
def test_they_give_what_the_cpu_gives(op, args):
    torch.testing.assert_close(call(op, args, "tpu"), call(op, args, "cpu"))


@pytest.mark.parametrize("lengths", [[3, 2], [2, 1], [0, 2]])
@pytest.mark.parametrize("concatenated", [False, True])
def test_ctc_takes_lengths_from_tensors(lengths, concatenated):
    scores = seeded(5, 2, 4).log_softmax(2)
    targets = torch.tensor([[1, 2, 3], [1, 1, 2]])
    if concatenated:
        targets = torch.cat([row[:n] for row, n in zip(targets, lengths)])
    rest = [targets, torch.tensor([5, 4]), torch.tensor(lengths)]
    found = []
    for device in ("cpu", "tpu"):
        given = [x.to(device) for x in rest]
        x = scores.detach().to(device, copy=True).requires_grad_()
        loss, _ = aten._ctc_loss.Tensor(x, *given)
        loss.sum().backward()
        found.append([loss.detach().cpu(), x.grad.cpu()])
    torch.testing.assert_close(*found)


def test_ctc_refuses_lengths_beyond_the_input():
    scores, targets = seeded(5, 2, 4).to("tpu"), torch.ones(2, 3, dtype=torch.long, device="tpu")
    with pytest.raises(RuntimeError, match="got value 6"):
        steps, labels = torch.tensor([[6, 4], [2, 2]], device="tpu")
        aten._ctc_loss.Tensor(scores, targets, steps, labels)[0].cpu()


def test_what_has_no_row_but_a_decomposition_is_decomposed():
    gradient, x = seeded(3), seeded(2, 3)[0]
    torch_tpu.reset_stats()
    result = torch.empty(0, device="tpu")
    aten.silu_backward.grad_input(gradient.to("tpu"), x.to("tpu"), grad_input=result)
    torch.testing.assert_close(result.cpu(), aten.silu_backward(gradient, x))
    stats = torch_tpu.stats()
    assert stats["decompositions"] == {"silu_backward.grad_input": 1}
    assert stats["fallbacks"] == {}


@pytest.mark.parametrize(
    "given, refusal",
    [
        ({"lengths": [2, 3]}, "to sum to data.size"),
        ({"lengths": [-1, 7]}, "negative value"),
        ({"indices": [0, 0, 0, 1, 1, 1]}, "indices based reduction"),
    ],
)
def test_segments_must_fit_the_data(given, refusal):
    given = {name: torch.tensor(numbers, device="tpu") for name, numbers in given.items()}
    with pytest.raises(RuntimeError, match=refusal):
        torch.segment_reduce(torch.ones(6, device="tpu"), "sum", **given).cpu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_linear_combination_is_added_to_out(dtype):
    given, by = seeded(3, 2).to(dtype), seeded(4, 3).to(dtype)
    found = []
    for device in ("cpu", "tpu"):
        out = torch.arange(8, dtype=dtype).view(4, 2).to(device)
        result = aten._compute_linear_combination.out(given.to(device), by.to(device), out=out)
        assert result is out
        found.append(out.cpu())
    torch.testing.assert_close(*found)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        empty = torch.empty(0, dtype=dtype, device="tpu")
        aten._compute_linear_combination.out(given.to("tpu"), by.to("tpu"), out=empty)


@pytest.mark.parametrize("op", [torch.tril_indices, torch.triu_indices])
def test_indices_of_a_triangle_are_whole(op):
    found = [op(3, 4, 1, dtype=torch.int32, device=device).cpu() for device in ("cpu", "tpu")]
    torch.testing.assert_close(*found, rtol=0, atol=0)
    for device in ("cpu", "tpu"):
        with pytest.raises(NotImplementedError, match=f"{op.__name__}.* not .* 'Float'"):
            op(3, 4, dtype=torch.float32, device=device)
    with pytest.raises(NotImplementedError, match="not implemented for 'Double'"):
        overload = getattr(aten, op.__name__).out
        overload(3, 4, out=torch.empty(0, dtype=torch.float64, device="tpu"))


def test_another_threshold_compiles_nothing():
    x = seeded(3, 4)
    softshrink = torch.nn.functional.softshrink
    softshrink(x.to("tpu"), 0.5)
    torch_tpu.reset_stats()
    # A number that no earlier run has left in the store.
    threshold = random.SystemRandom().uniform(0.2, 1.0)
    result = softshrink(x.to("tpu"), threshold).cpu()
    assert not any(torch_tpu.stats()["compiles"].values())
    torch.testing.assert_close(result, softshrink(x, threshold))


@pytest.mark.parametrize("threshold", [-1.0, 1e5, float("nan")])
def test_a_threshold_is_within_the_dtype(threshold):
    half, single = torch.float16, torch.float32
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match=r"lambda must be in range \[0, .* input dtype Half"):
            torch.nn.functional.softshrink(torch.ones(2, dtype=half, device=device), threshold)
    if threshold > 0:
        x = torch.tensor([3e5, 1.0], dtype=single)
        found = [torch.nn.functional.softshrink(x.to(d), threshold).cpu() for d in ("cpu", "tpu")]
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("out", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("scale", [1.0, 100.0, 1e5])
def test_scaled_products_saturate(scale, out, device):
    """They are the largest number of a dtype that has no infinity. (What the CPU's library does
    with them depends on the processor.)"""
    x = torch.linspace(-4, 4, 256).view(16, 16)
    x[0, 0] = float("nan")
    x8 = x.to(torch.float8_e4m3fn)
    wanted = x8.float() * scale
    wanted[0] = float("nan")
    if out is torch.float8_e4m3fn:
        wanted = wanted.clamp(-448, 448)
    wanted = wanted.to(out).float()
    x8, eye8 = x8.to(device), torch.eye(16).to(torch.float8_e4m3fn).to(device)
    by = [torch.tensor(scale, device=device), torch.tensor(1.0, device=device)]
    first = torch._scaled_mm(x8, eye8.t(), *by, out_dtype=out)
    second = torch._scaled_mm_v2(x8, eye8.t(), [by[0]], [0], [0], [by[1]], [0], [0], None, out)
    for found in (first, second):
        torch.testing.assert_close(found.cpu().float(), wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", ["complex32", "bcomplex32"])
def test_complex_numbers_of_halves_are_refused(dtype):
    with pytest.raises(
        TypeError, match=f"TPU2004: tensors of torch.{dtype} .* convert to torch.com"
    ):
        torch.zeros(2, dtype=getattr(torch, dtype), device="tpu")
