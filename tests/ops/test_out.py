"""What `out=` may be: its dtype, and the memory it lies in."""

import functools

import pytest
import torch

X = torch.linspace(-2, 2, 12).view(3, 4)
INDEX = torch.tensor([[0, 1, 2, 0], [1, 1, 0, 2], [2, 0, 1, 1]])

# By kind of PyTorch's kernel: one that TensorIterator serves with promotion, one without, a
# structured one, one generated from the functional form, one with words of its own.
CALLS = {
    "add": (torch.add, (X, X)),
    "std": (torch.std, (X, 1)),
    "neg": (torch.neg, (X,)),
    "gather": (torch.gather, (X, 0, INDEX)),
    "tril": (torch.tril, (X,)),
    "relu": (torch.ops.aten.relu.out, (X,)),
    "take": (torch.take, (X, INDEX)),
    "sum": (torch.sum, (X, 0)),
    "sum in float64": (functools.partial(torch.sum, dtype=torch.float64), (X, 0)),
    "cumsum in float64": (functools.partial(torch.cumsum, dtype=torch.float64), (X, 0)),
    "complex abs": (torch.abs, (torch.complex(X, X),)),
    "arange": (torch.arange, (3,)),
    "stack": (torch.stack, ([X, X],)),
    "normal": (torch.normal, (X, X.abs())),
    "adaptive_avg_pool2d": (torch._C._nn.adaptive_avg_pool2d, (X[None], (1, 2))),
}


def outcome(call, args, out, device):
    """The dtype that was written, or the refusal."""
    move = lambda x: x.to(device) if isinstance(x, torch.Tensor) else x  # noqa: E731
    args = [[move(x) for x in a] if isinstance(a, list) else move(a) for a in args]
    try:
        return call(*args, out=torch.empty(0, dtype=out, device=device)).dtype
    except Exception as error:
        return type(error), str(error).splitlines()[0]


@pytest.mark.parametrize("out", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_dtype(name, out, device):
    if name == "normal" and out.is_floating_point:
        pytest.skip("PyTorch's CPU kernel does not resize it")
    assert outcome(*CALLS[name], out, device) == outcome(*CALLS[name], out, "cpu")


APART = {
    "cat": lambda x, i: torch.cat([x[:0], x], out=x),
    "gather": lambda x, i: torch.gather(x, 0, i, out=x),
    "index_add_": lambda x, i: x.index_add_(0, i[:, 0].contiguous(), x),
    "scatter_": lambda x, i: x.scatter_(0, i, x),
    "take": lambda x, i: torch.take(x, i, out=x),
    "add": lambda x, i: torch.add(x, x, out=x),
    "cumsum": lambda x, i: torch.cumsum(x, 0, out=x),
}


@pytest.mark.parametrize("name", APART)
def test_memory_that_is_read_elsewhere(name, device):
    """What is read at other places than it is written is refused, what is not is right."""

    def run(device):
        x, index = X.clone().to(device), INDEX.to(device)
        try:
            return APART[name](x, index).cpu().tolist()
        except RuntimeError as error:
            return str(error)

    assert run(device) == run("cpu")
