"""``torch.compile`` on the device against eager mode on the CPU: one program, the same results."""

import pytest
import torch
from torch.nn import functional
from torch.utils._pytree import tree_leaves

import torch_tpu


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def launches(call):
    """How many programs a call runs."""
    before = torch_tpu.stats()["launches"]
    result = call()
    return result, torch_tpu.stats()["launches"] - before


def moved(values, device):
    return [v.detach().to(device) if torch.is_tensor(v) else v for v in values]


def same(here, there):
    here, there = tree_leaves(here), tree_leaves(there)
    assert len(here) == len(there)
    for one, other in zip(here, there):
        if torch.is_tensor(other):
            torch.testing.assert_close(one.cpu(), other)
            assert one.stride() == other.stride()
        else:
            assert one == other


def views(x):
    """Every view, and a result of each."""
    parts = [
        x.view(6, 4) + 1,
        x.permute(2, 0, 1) * 2,
        x[1, :, ::2],
        x[:, 1:, -1] - 1,
        x.unsqueeze(1).expand(2, 5, 3, 4).sum(1),
        x.diagonal(1, 1, 2) + 0,
        x.unfold(2, 2, 1) * 1,
        torch.cat(x.split([1, 2], 1), 1),
        torch.stack(x.unbind(2)),
        x.squeeze().transpose(0, -1).reshape(-1),
        x.view(torch.int32) + 1,
        torch.as_strided(x * 1, (2, 3), (1, 4), 2) + 0,
    ]
    return parts


def writes(x):
    """Writes through views of a copy, and of what is in it."""
    y = x.clone()
    y[0].mul_(2)
    y[:, 1:, ::2] = -1
    y.diagonal(0, 1, 2).add_(3)
    y.view(-1)[5:7].zero_()
    y.as_strided((2,), (5,), 1).fill_(9)
    return y


def factories(x):
    n = x.shape[0]
    return (
        torch.arange(n, device=x.device) + x[:, 0, 0].long(),
        torch.zeros_like(x) + torch.full((4,), 2.5, device=x.device),
        torch.eye(3, device=x.device) @ x,
        x.new_ones(n, 1) * torch.linspace(0, 1, 3, device=x.device),
        torch.tensor(3.0, device=x.device) * x,
    )


def reductions(x):
    return x.softmax(-1), x.var(1), x.max(2), x.argsort(1), x.cumsum(0), x.topk(2, 2)


def constants(x):
    return x * float("inf"), x.clamp(min=-0.5), torch.where(x > 0, 1, 2), (x > 0).to(torch.float16)


CALLS = [views, writes, factories, reductions, constants]


@pytest.mark.parametrize("call", CALLS, ids=lambda c: c.__name__)
def test_a_function_is_one_program(call, device):
    x = torch.randn(2, 3, 4)
    compiled = torch.compile(call, backend="tpu", fullgraph=True)
    here = x.to(device)
    compiled(here)
    result, count = launches(lambda: compiled(here))
    same(result, call(x))
    assert count == 1


def test_an_input_is_written(device):
    def step(x, buffer):
        buffer.add_(x.sum())
        x[0] = -1
        return buffer * 2, x

    def run(device, call):
        x, buffer = torch.arange(6.0).to(device), torch.ones(2, device=device)
        out, back = call(x, buffer)
        assert back is x
        return [t.cpu() for t in (x, buffer, out)]

    same(run(device, torch.compile(step, backend="tpu", fullgraph=True)), run("cpu", step))


def test_results_that_are_inputs_twice_or_nothing(device):
    def call(x):
        y = x + 1
        return x, y, y, None, 3, x.t(), y[0]

    x = torch.randn(2, 2)
    here = x.to(device)
    result = torch.compile(call, backend="tpu", fullgraph=True)(here)
    same(result, call(x))
    assert result[0] is here


def test_gradients(device):
    def loss(x, w, b):
        h = functional.layer_norm(functional.gelu(x @ w + b), (5,))
        return functional.cross_entropy(h, torch.arange(4, device=x.device)) + h.pow(2).mean()

    def run(device, call):
        torch.manual_seed(0)
        x, w, b = torch.randn(4, 3), torch.randn(3, 5), torch.randn(5)
        leaves = [v.to(device).requires_grad_() for v in (x, w, b)]
        call(*leaves).backward()
        return [v.grad.cpu() for v in leaves]

    compiled = torch.compile(loss, backend="tpu", fullgraph=True)
    same(run(device, compiled), run("cpu", loss))
    _, count = launches(lambda: run(device, compiled))
    assert count == 3  # forward, the seed of the gradient, backward


def test_attention_has_its_gradients(device):
    def loss(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True).square().sum()

    def run(device, call):
        torch.manual_seed(0)
        leaves = [torch.randn(2, 4, 6, 8).to(device).requires_grad_() for _ in range(3)]
        call(*leaves).backward()
        return [v.grad.cpu() for v in leaves]

    compiled = torch.compile(loss, backend="tpu", fullgraph=True)
    same(run(device, compiled), run("cpu", loss))


def test_random_numbers_are_those_of_eager_mode(device):
    def call(x):
        return functional.dropout(x, 0.4) + torch.rand_like(x) * torch.randn(3, device=x.device)

    def run(call):
        torch.manual_seed(5)
        x = torch.ones(50, 3, device=device)
        return [call(x).cpu() for _ in range(2)]

    compiled = run(torch.compile(call, backend="tpu", fullgraph=True))
    same(compiled, run(call))
    assert not torch.equal(*compiled)


def test_a_graph_is_cut_at_a_custom_operator(device):
    @torch.library.custom_op("test_of_compile::halve", mutates_args=())
    def halve(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    halve.register_fake(torch.empty_like)

    def call(x):
        return halve(x.exp() + 1).log()

    x = torch.randn(5)
    compiled = torch.compile(call, backend="tpu", fullgraph=True)
    compiled(x.to(device))
    result, count = launches(lambda: compiled(x.to(device)))
    same(result, call(x))
    assert count == 3


def test_a_whole_training_step_is_one_program():
    torch.manual_seed(0)
    start = {"w": torch.randn(8, 3), "b": torch.zeros(8)}
    x, y = torch.randn(5, 3), torch.randn(5, 8)

    def losses(device, wrap):
        p = {k: v.clone().to(device) for k, v in start.items()}
        m, v = ({k: torch.zeros_like(t) for k, t in p.items()} for _ in range(2))
        here, there = x.to(device), y.to(device)

        def loss_of(p):
            return functional.mse_loss(functional.linear(here, p["w"], p["b"]), there)

        def step():
            g, loss = torch.func.grad_and_value(loss_of)(p)
            for k in p:
                m[k].mul_(0.9).add_(g[k], alpha=0.1)
                v[k].mul_(0.999).addcmul_(g[k], g[k], value=0.001)
                p[k].addcdiv_(m[k], v[k].sqrt().add_(1e-8), value=-0.01)
            return loss

        step = wrap(step)
        return [step().item() for _ in range(3)], step

    got, step = losses("tpu", lambda step: torch.compile(step, backend="tpu"))
    expected, _ = losses("cpu", lambda step: step)
    assert got == pytest.approx(expected, rel=1e-5)
    assert launches(step)[1] == 1


def test_autocast(device):
    def call(x, w):
        with torch.autocast(x.device.type, torch.bfloat16):
            return (x @ w).relu(), x.sum()

    x, w = torch.randn(4, 3), torch.randn(3, 2)
    got = torch.compile(call, backend="tpu")(x.to(device), w.to(device))
    same(got, call(x, w))
    assert got[0].dtype == torch.bfloat16


def test_sizes_that_change(device):
    def call(x):
        return (x * x.shape[0]).view(-1, 2).sum(1), x.new_zeros(x.shape[0] + 1) + x.mean()

    compiled = torch.compile(call, backend="tpu", fullgraph=True, dynamic=True)
    for n in (4, 6, 10):
        x = torch.randn(n)
        same(compiled(x.to(device)), call(x))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_the_default_backend_takes_the_device(device):
    compiled = torch.compile(lambda x: x.sin() * 2 + 1)
    x = torch.randn(4)
    compiled(x.to(device))
    result, count = launches(lambda: compiled(x.to(device)))
    same(result, x.sin() * 2 + 1)
    assert count == 1


def test_an_unknown_option_is_refused(device):
    compiled = torch.compile(torch.sin, backend="tpu", options={"no_such_option": 1})
    with pytest.raises(Exception, match="TPU4003.*no_such_option"):
        compiled(torch.ones(2, device=device))


def test_bounds_are_checked(device):
    compiled = torch.compile(lambda x, i: x[i] * 2, backend="tpu", fullgraph=True)
    x, i = torch.randn(4).to(device), torch.tensor([1, 7]).to(device)
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 4"):
        compiled(x, i)
        torch.tpu.synchronize()
