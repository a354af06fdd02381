"""What training code does besides forward and backward, against the CPU."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

FUNCTIONS = {
    "arithmetic": lambda x, y: (x * y.sin() + x.exp() / (y * y + 1)).sum(-1),
    "matmul": lambda x, y: (x @ y.mT).softmax(-1),
    "norm": lambda x, y: nn.functional.layer_norm(x, x.shape[-1:]) * y.norm(dim=-1, keepdim=True),
    "indexing": lambda x, y: x[[0, 2, 2]].cumsum(0) - y[..., 1:].sum(-1)[1, None],
    "views": lambda x, y: torch.cat([x.t(), y.t().flip(0)]).unfold(0, 2, 3).prod(-1),
    "attention": lambda x, y: nn.functional.scaled_dot_product_attention(
        *(part[None, None] for part in (x, y, x))
    ),
    "convolution": lambda x, y: nn.functional.conv1d(x[None], y[:, None, :3], groups=3),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck(name, device):
    """The derivatives are those of the function, by differences in float64."""
    torch.manual_seed(1)
    inputs = [torch.randn(3, 4, dtype=torch.float64, device=device) for _ in range(2)]
    inputs = [x.requires_grad_() for x in inputs]
    assert torch.autograd.gradcheck(FUNCTIONS[name], inputs, fast_mode=False)


def test_gradgradcheck(device):
    x = torch.randn(2, 3, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: (x.tanh() @ x.t()).log_softmax(-1), [x])


def network(device, dropout=0.0):
    torch.manual_seed(0)
    layers = nn.Linear(16, 64), nn.GELU(), nn.Dropout(dropout), nn.Linear(64, 16)
    return nn.Sequential(*layers).to(device)


def batch(device):
    return torch.linspace(-2, 2, 4 * 16).view(4, 16).to(device)


def gradients(model):
    return [parameter.grad.cpu() for parameter in model.parameters()]


def test_checkpointing_changes_nothing(device):
    """Also where the part that runs twice draws random numbers."""
    plain, saving = network(device, 0.5), network(device, 0.5)
    torch.manual_seed(3)
    plain(batch(device)).square().sum().backward()
    torch.manual_seed(3)
    checkpoint(saving, batch(device), use_reentrant=False).square().sum().backward()
    torch.testing.assert_close(gradients(saving), gradients(plain), rtol=0, atol=0)


def test_a_model_with_checkpoints_trains(small_llama, device):
    (model, inputs), (expected, on_cpu) = small_llama.on(device), small_llama.on("cpu")
    model.gradient_checkpointing_enable()
    model.train()(**inputs).loss.backward()
    expected.train()(**on_cpu).loss.backward()
    torch.testing.assert_close(gradients(model), gradients(expected), rtol=1e-3, atol=1e-5)


def test_hooks(device):
    model, seen = network(device), {}
    model[1].register_forward_pre_hook(lambda _, given: seen.update(before=given[0].sum().item()))
    model[1].register_forward_hook(lambda *parts: parts[2] * 2)
    model[3].register_full_backward_hook(lambda _, to, of: seen.update(shape=to[0].shape))
    model[0].weight.register_hook(lambda grad: grad * 10)
    model[0].bias.register_post_accumulate_grad_hook(lambda p: seen.update(bias=p.grad.norm()))
    twin = network("cpu")
    for place, net in ((device, model), ("cpu", twin)):
        hidden = net[1](net[0](batch(place)))
        net[3](hidden if net is model else hidden * 2).sum().backward()
    twin[0].weight.grad.mul_(10)
    torch.testing.assert_close(gradients(model), gradients(twin), rtol=1e-4, atol=1e-5)
    assert seen["shape"] == (4, 64)
    assert seen["before"] == pytest.approx(twin[0](batch("cpu")).sum().item(), rel=1e-4)
    torch.testing.assert_close(seen["bias"].cpu(), twin[0].bias.grad.norm())


@pytest.mark.parametrize("kind", [2.0, 1.0, float("inf")])
def test_clip_grad_norm(kind, device):
    norms, clipped = [], []
    for place in (device, "cpu"):
        model = network(place)
        model(batch(place)).square().sum().backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5, norm_type=kind).item())
        clipped.append(gradients(model))
    assert norms[0] == pytest.approx(norms[1], rel=1e-4) and norms[1] > 0.5
    torch.testing.assert_close(*clipped, rtol=1e-4, atol=1e-6)


def test_grad_scaler_skips_steps_that_overflow(device):
    """A step with an infinite gradient changes no parameter and halves the scale."""
    model = network(device)
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, growth_interval=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scales, moved = [], []
    for factor in (1.0, float("inf"), 1.0, 1.0):
        before = model[0].weight.detach().clone()
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(batch(device)).float().square().mean() * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        moved.append(not torch.equal(before, model[0].weight))
    assert moved == [True, False, True, True]
    assert scales == [1024.0, 512.0, 512.0, 1024.0]


def test_unscaled_gradients_are_the_gradients(device):
    model, twin = network(device), network("cpu")
    scaler = torch.amp.GradScaler(device.type, init_scale=4096.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler.scale(model(batch(device)).square().sum()).backward()
    scaler.unscale_(optimizer)
    twin(batch("cpu")).square().sum().backward()
    torch.testing.assert_close(gradients(model), gradients(twin), rtol=1e-4, atol=1e-5)
