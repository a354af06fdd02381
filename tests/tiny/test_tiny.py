"""The whole stack once, in seconds: what a person does in the first five minutes."""

import io
import pdb

import torch
from torch import nn


def test_print(device):
    text = repr(torch.arange(6, device=device).view(2, 3).t() * 1.5)
    assert "[0.0000, 4.5000]" in text
    assert (f"device='{device.type}:0'" in text) == (device.type != "cpu")


def test_arithmetic_follows_the_cpu(device):
    a, b = torch.randn(4, 5), torch.randn(5, 3)
    result = (a.to(device) @ b.to(device)).softmax(-1)[1:, ::2]
    torch.testing.assert_close(result.cpu(), (a @ b).softmax(-1)[1:, ::2])


def test_views_share_memory(device):
    base = torch.zeros(3, 4, device=device)
    base[1].add_(2)
    base.t()[0] = 7
    assert base.tolist() == [[7, 0, 0, 0], [7, 2, 2, 2], [7, 0, 0, 0]]


def test_item_decides(device):
    steps, x = 0, torch.ones((), device=device)
    while x < 100:
        x, steps = x * 2, steps + 1
    assert (steps, x.item()) == (7, 128.0)


def test_pdb_steps_through(device):
    def product(x):
        y = x * 3
        return y + 1

    commands = io.StringIO("next\np y.sum().item()\ncontinue\n")
    said = io.StringIO()
    debugger = pdb.Pdb(stdin=commands, stdout=said, nosigint=True, readrc=False)
    result = debugger.runcall(product, torch.ones(4, device=device))
    assert "12.0" in said.getvalue()
    assert result.tolist() == [4.0] * 4


def train(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = torch.randn(32, 8).to(device), torch.randint(4, (32,)).to(device)
    losses = []
    for _ in range(5):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def test_training_follows_the_cpu(device):
    (model, losses), (expected, expected_losses) = train(device), train("cpu")
    assert losses[-1] < losses[0]
    torch.testing.assert_close(losses, expected_losses, rtol=1e-4, atol=1e-5)
    for here, there in zip(model.parameters(), expected.parameters()):
        torch.testing.assert_close(here.cpu(), there, rtol=1e-3, atol=1e-5)


def test_save_and_load(device, tmp_path):
    state = {"weight": torch.randn(3, 3, device=device), "step": 7}
    torch.save(state, tmp_path / "state.pt")
    back = torch.load(tmp_path / "state.pt")
    assert back["weight"].device.type == device.type and back["step"] == 7
    assert torch.equal(back["weight"], state["weight"])
    on_cpu = torch.load(tmp_path / "state.pt", map_location="cpu")
    assert torch.equal(on_cpu["weight"], state["weight"].cpu())
