"""Automatic mixed precision: the policy is CUDA's."""

import warnings

import pytest
import torch

X = {"device": "tpu"}


def run(op, dtype=torch.bfloat16, enabled=True):
    with torch.autocast("tpu", dtype=dtype, enabled=enabled):
        return op()


def test_bfloat16_is_the_default():
    with torch.autocast("tpu"):
        assert torch.is_autocast_enabled("tpu")
        assert torch.get_autocast_dtype("tpu") == torch.bfloat16
        assert (torch.ones(2, 2, **X) @ torch.ones(2, 2, **X)).dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("tpu")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_matrix_products_run_in_the_lower_precision(dtype):
    a, b, c = torch.ones(2, 4, 4, **X), torch.ones(4, 4, **X), torch.ones(4, **X)
    ops = {
        "mm": lambda: torch.mm(b, b),
        "bmm": lambda: torch.bmm(a, a),
        "matmul": lambda: a @ b,
        "addmm": lambda: torch.addmm(c, b, b),
        "mv": lambda: torch.mv(b, c),
        "linear": lambda: torch.nn.functional.linear(a, b, c),
        "einsum": lambda: torch.einsum("bij,jk->bik", a, b),
        "conv1d": lambda: torch.nn.functional.conv1d(a, torch.ones(4, 4, 1, **X)),
        "sdpa": lambda: torch.nn.functional.scaled_dot_product_attention(a, a, a),
        "prelu": lambda: torch.nn.functional.prelu(b, c[:1]),
    }
    for name, op in ops.items():
        assert run(op, dtype).dtype == dtype, name
        assert run(op, dtype, enabled=False).dtype == torch.float32, name


def test_sensitive_ops_run_in_float32():
    x = torch.full((3, 4), 0.5, dtype=torch.bfloat16, **X)
    target = torch.tensor([0, 1, 2], **X)
    functional = torch.nn.functional
    ops = {
        "exp": lambda: x.exp(),
        "log": lambda: x.log(),
        "rsqrt": lambda: x.rsqrt(),
        "pow": lambda: x.pow(2),
        "softmax": lambda: x.softmax(-1),
        "log_softmax": lambda: x.log_softmax(-1),
        "layer_norm": lambda: functional.layer_norm(x, (4,)),
        "group_norm": lambda: functional.group_norm(x, 2),
        "cumsum": lambda: x.cumsum(0),
        "prod": lambda: x.prod(),
        "sum": lambda: x.sum(),
        "norm": lambda: x.norm(),
        "mse_loss": lambda: functional.mse_loss(x, x),
        "cross_entropy": lambda: functional.cross_entropy(x, target),
        "bce": lambda: functional.binary_cross_entropy_with_logits(x, x),
        "logsumexp": lambda: x.logsumexp(-1),
    }
    for name, op in ops.items():
        assert run(op).dtype == torch.float32, name
    assert run(lambda: x.sum(dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_mixed_dtypes_go_to_the_widest():
    low, high = torch.ones(3, 3, dtype=torch.bfloat16, **X), torch.ones(3, 3, **X)
    ops = {
        "addcmul": lambda: torch.addcmul(low, high, low),
        "atan2": lambda: torch.atan2(low, high),
        "dot": lambda: torch.dot(low[0], high[0]),
        "cross": lambda: torch.linalg.cross(low, high),
        "cat": lambda: torch.cat([low, high]),
        "stack": lambda: torch.stack([low, high]),
        "add": lambda: low + high,
    }
    for name, op in ops.items():
        assert run(op).dtype == torch.float32, name
    assert run(lambda: torch.addcmul(low, low, low)).dtype == torch.bfloat16


def test_other_ops_and_dtypes_are_left_alone():
    x = torch.ones(3, 3, dtype=torch.bfloat16, **X)
    assert run(lambda: x.relu()).dtype == torch.bfloat16
    assert run(lambda: torch.ones(3, 3, **X).relu()).dtype == torch.float32
    double = torch.ones(3, 3, dtype=torch.float64, **X)
    assert run(lambda: double @ double).dtype == torch.float64
    assert run(lambda: torch.ones(3, 3) @ torch.ones(3, 3)).dtype == torch.float32


def test_binary_cross_entropy_is_refused():
    p = torch.full((3,), 0.5, **X)
    loss = torch.nn.functional.binary_cross_entropy
    with pytest.raises(RuntimeError, match="unsafe to autocast"):
        run(lambda: loss(p, p))
    assert run(lambda: loss(p, p), enabled=False).dtype == torch.float32


def test_unsupported_dtypes_switch_it_off():
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        context = torch.autocast("tpu", dtype=torch.float32)
    with context:
        assert not torch.is_autocast_enabled("tpu")


def test_backward_gives_float32_gradients():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 1)
    )
    x = torch.randn(4, 8)
    model(x).pow(2).mean().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.to("tpu")
    with torch.autocast("tpu"):
        loss = model(x.to("tpu")).pow(2).mean()
    assert loss.dtype == torch.float32
    loss.backward()
    for parameter, reference in zip(model.parameters(), expected):
        assert parameter.grad.dtype == torch.float32 and parameter.grad.is_tpu
        torch.testing.assert_close(parameter.grad.cpu(), reference, rtol=0.1, atol=0.03)


def test_casts_of_weights_are_cached():
    linear = torch.nn.Linear(4, 4, **X)
    x = torch.ones(2, 4, **X)
    with torch.autocast("tpu"):
        first, second = linear(x), linear(x)
    assert first.equal(second)
    first.sum().backward()
    assert linear.weight.grad.dtype == torch.float32


def test_grad_scaler():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1, **X)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler = torch.amp.GradScaler("tpu", init_scale=1024.0, growth_interval=1)
    assert scaler.is_enabled()
    x = torch.randn(8, 4, **X)
    before = model.weight.detach().clone()
    with torch.autocast("tpu", dtype=torch.float16):
        loss = model(x).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2048.0
    assert not model.weight.equal(before)
    before = model.weight.detach().clone()
    optimizer.zero_grad()
    scaler.scale(model(x).sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 1024.0
    assert model.weight.equal(before)
