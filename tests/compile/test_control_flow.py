"""Higher-order operators become control flow of one program."""

import pytest
import torch
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops import scan, while_loop

import torch_tpu


def tensors(device, *sizes):
    generator = torch.Generator().manual_seed(0)
    made = (torch.randn(size, generator=generator) for size in sizes)
    return [x.to(device).requires_grad_() for x in made]


def agree(f, device, *sizes, grad=True):
    """Values and gradients of `f`, compiled for the device, against the CPU's."""
    found = []
    for where, backend in (("cpu", "eager"), (device, "tpu")):
        torch._dynamo.reset()
        inputs = tensors(where, *sizes)
        with torch.set_grad_enabled(grad):
            outs = torch.compile(f, backend=backend)(*inputs)
            outs = outs if isinstance(outs, (tuple, list)) else [outs]
            if grad:
                sum(out.sin().sum() for out in outs).backward()
        found.append([*outs, *(x.grad for x in inputs if grad)])
    for expected, actual in zip(*found, strict=True):
        assert actual.device.type == torch.device(device).type
        torch.testing.assert_close(actual.cpu(), expected)


def launches(f, *inputs):
    """Programs that the second call of `f` runs."""
    compiled = torch.compile(f, backend="tpu")
    with torch.no_grad():
        compiled(*inputs)
        before = torch_tpu.stats()["launches"]
        compiled(*inputs)
        return torch_tpu.stats()["launches"] - before


def choose(x, w):
    return torch.cond(x.sum() > 0, lambda x: x.sin() * w, lambda x: x.cos() + w, (x,))


@pytest.mark.parametrize("sign", [1, -1])
def test_cond(device, sign):
    def f(x, w):
        return choose(x.abs() * sign, w)

    agree(f, device, (4, 3), (3,))


def test_cond_is_one_program(device):
    assert launches(choose, *tensors(device, (4, 3), (3,))) == 1


def test_cond_within_cond(device):
    def inner(x):
        return torch.cond(x.mean() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    def f(x):
        return torch.cond(x.sum() > 0, inner, lambda x: inner(-x) * 3, (x,))

    agree(f, device, (5,))


def test_several_results_of_several_types(device):
    def f(x):
        yes, no = (lambda x: (x.sin(), x > 0)), (lambda x: (x.cos(), x < 0))
        return torch.cond(x.sum() > 0, yes, no, (x,))

    agree(f, device, (5,), grad=False)


def power(x, w):
    def turn(i, x):
        return i + 1, x * w

    start = torch.zeros((), dtype=torch.long, device=x.device)
    return while_loop(lambda i, x: (i < 7) & (x.abs().max() < 100), turn, (start, x))


def test_while_loop(device):
    agree(power, device, (4, 3), (3,), grad=False)
    assert launches(power, *tensors(device, (4, 3), (3,))) == 1


def test_the_gradient_of_a_while_loop(device):
    agree(power, device, (4, 3), (3,))


def running(x, start, w):
    return scan(lambda carry, x: ((carry * w + x).tanh(), (carry + x).sin()), start, x)


@pytest.mark.parametrize("length", [1, 6])
def test_scan(device, length):
    agree(running, device, (length, 3), (3,), (3,))


def test_scan_is_one_program(device):
    assert launches(running, *tensors(device, (6, 3), (3,), (3,))) == 1


def test_scan_backwards_along_another_dimension(device):
    def f(x, start):
        return scan(lambda c, x: (c + x, c * x), start, x, dim=1, reverse=True)

    agree(f, device, (3, 5), (3,))


def test_scan_of_a_tree(device):
    def f(x, y, start):
        def step(carry, pair):
            total = carry["sum"] + pair[0] * pair[1]
            return {"sum": total}, (total.exp(), pair[1] - total)

        carry, ys = scan(step, {"sum": start}, (x, y))
        return carry["sum"], *ys

    agree(f, device, (4, 2), (4, 2), (2,))


def test_map(device):
    def f(x, w):
        return map_over(lambda row, w: row * w.sin(), x, w)

    agree(f, device, (4, 3), (3,))
    assert launches(f, *tensors(device, (4, 3), (3,))) == 1


def test_rows_with_shapes_within_a_body(device):
    def f(x, w):
        def step(carry, row):
            y = (row.view(2, 2) @ w).softmax(-1).transpose(0, 1).reshape(-1)
            return carry + y, torch.cat([y, carry])

        return scan(step, torch.zeros(4, device=x.device), x)

    agree(f, device, (3, 4), (2, 2))


def test_an_index_out_of_range_within_a_body_raises(device):
    def f(x, i):
        return torch.cond(i.sum() >= 0, lambda x, i: x[i], lambda x, i: x[i * 0], (x, i))

    compiled = torch.compile(f, backend="tpu")
    x = torch.arange(4.0, device=device)
    assert compiled(x, torch.tensor([3, 1], device=device)).tolist() == [3, 1]
    with pytest.raises(IndexError, match="index 9 is out of range inside `cond`"):
        compiled(x, torch.tensor([9, 1], device=device)).tolist()


def test_random_numbers_within_a_body_run_between_programs(device):
    def f(x):
        return map_over(lambda row: row + torch.rand_like(row), x)

    compiled = torch.compile(f, backend="tpu")
    x = torch.zeros(2, 64, device=device)
    y = compiled(x)
    assert not torch.equal(y[0], y[1]) and 0 <= y.min() and y.max() < 1
