"""Results of compiled functions that share memory: with an input, with another result."""

import pytest
import torch

SHARED = {
    "of an input": lambda x: x[1:].t(),
    "of a view": lambda x: x[1:].t()[1:].unsqueeze(0),
    "several": lambda x: (x.hsplit(2), x + 1, x.view(-1)),
    "of a result": lambda x: (lambda y: (y, y[2:], y.t()[1]))(x * 2),
    "of what is no result": lambda x: (lambda y: (y[2:], y.t()[1]))(x * 2),
    "of a written input": lambda x: (x.add_(1)[1:], x.t()),
    "of an input written after": lambda x: (lambda y: (x.mul_(2), y)[1])(x[1:].t()),
    "complex": lambda x: (torch.view_as_complex(x.view(-1, 2)), x + 1),
    "no memory": lambda x: (x.shape[0], x[:0], x.sum()),
}


def inputs(n, device):
    """A tensor of its own, and one that begins inside its memory and has gaps."""
    whole = torch.arange(4.0 * (2 * n + 2) * 6).view(-1, 6).to(device)
    return whole.clone(), whole[2 : 2 + 2 * n, :4], whole[n:]


def flat(result):
    if isinstance(result, (tuple, list)):
        return [t for r in result for t in flat(r)]
    return [result] if isinstance(result, torch.Tensor) else []


def described(base, results):
    """Values, layout, and which of the others each result shares memory with."""
    storages = [t.untyped_storage().data_ptr() for t in (base, *results)]
    return [
        (t.tolist(), t.stride(), t.storage_offset(), [s == storages[i] for s in storages])
        for i, t in enumerate([base, *results])
    ]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", SHARED)
def test_results_share_what_they_share_in_eager_mode(name, dynamic, device):
    call = SHARED[name]
    compiled = torch.compile(call, backend="tpu", dynamic=dynamic)
    for n in (3, 4, 5):
        for want, got in zip(inputs(n, "cpu"), inputs(n, device)):
            if name in ("several", "complex") and not want.is_contiguous():
                continue
            assert described(got, flat(compiled(got))) == described(want, flat(call(want)))


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_written_to_a_result_is_in_its_base(dynamic, device):
    compiled = torch.compile(lambda x: (x[1:], x + 1), backend="tpu", dynamic=dynamic)
    for n in (3, 4):
        x = torch.zeros(n, 2, device=device)
        compiled(x)[0].fill_(5)
        assert x.tolist() == [[0, 0]] + [[5, 5]] * (n - 1)


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_go_through_shared_results(dynamic, device):
    def call(x):
        y = x.exp()
        return y, y[1:], x.t()

    compiled = torch.compile(call, backend="tpu", dynamic=dynamic)
    for n in (3, 4, 6):
        x = torch.randn(n, 2)
        grads = []
        for f, leaf in ((call, x), (compiled, x.to(device))):
            leaf = leaf.detach().requires_grad_()
            sum((i + 1) * t.square().sum() for i, t in enumerate(f(leaf))).backward()
            grads.append(leaf.grad.cpu())
        torch.testing.assert_close(*grads)
