"""Who sees a write: tensors of the same storage, and nobody else."""

import copy

import numpy
import pytest
import torch


def test_an_operand_twice(device):
    x = torch.tensor([1.0, 2.0, 3.0], device=device)
    x.mul_(x)
    assert x.tolist() == [1, 4, 9]
    torch.add(x, x, out=x)
    assert x.tolist() == [2, 8, 18]
    torch.sub(x, x.clone(), alpha=2, out=x)
    assert x.tolist() == [-2, -8, -18]


def copies():
    return {
        "clone": lambda x: x.clone(),
        "add zero": lambda x: x + 0,
        "to, copy": lambda x: x.to(x.device, copy=True),
        "contiguous of a view": lambda x: x[:, None].expand(2, 2, 2).contiguous()[:, 0],
        "cat of one": lambda x: torch.cat([x]),
        "stack": lambda x: torch.stack([x])[0],
        "indexed": lambda x: x[torch.arange(2, device=x.device)],
        "expanded": lambda x: x.expand(1, 2, 2).clone()[0],
        "empty and copy": lambda x: torch.empty_like(x).copy_(x),
        "positive": lambda x: torch.positive(x).clone(),
        "where": lambda x: torch.where(x == x, x, 0.0),
        "through the CPU": lambda x: x.to("cpu", copy=True).to(x.device),
        "deepcopy": copy.deepcopy,
        "relu": lambda x: torch.relu(x),
        "dropout of nothing": lambda x: torch.dropout(x, 0.0, True).clone(),
        "split with copy": lambda x: torch.split_with_sizes_copy(x, [2])[0],
    }


@pytest.mark.parametrize("how", copies())
def test_a_copy_is_not_changed_by_a_write_to_its_source(how, device):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    y = copies()[how](x)
    z = copies()[how](y)
    x.add_(10)
    assert y.tolist() == z.tolist() == [[1, 2], [3, 4]]
    y.mul_(2)
    y[0] = 0
    assert x.tolist() == [[11, 12], [13, 14]]
    assert y.tolist() == [[0, 0], [6, 8]]
    assert z.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "alias",
    [
        lambda x: x.detach(),
        lambda x: x.view(4).view(2, 2),
        lambda x: x.t().t(),
        lambda x: x[:],
        lambda x: x.contiguous(),
        lambda x: x.to(x.device),
        lambda x: x.data,
        lambda x: x.expand(3, 2, 2)[1],
        lambda x: x.reshape(1, 4).reshape(2, 2),
        lambda x: torch.Tensor.set_(torch.empty(0, device=x.device), x),
    ],
)
def test_an_alias_sees_every_write(alias, device):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    y = alias(x)
    x.add_(10)
    assert y.tolist() == [[11, 12], [13, 14]]
    y[1].zero_()
    assert x.tolist() == [[11, 12], [0, 0]]
    assert x._version >= 1 and x.data_ptr() == y.data_ptr()


@pytest.mark.parametrize("size", [3, 16, 1 << 16])
def test_the_host_and_the_device_share_nothing(size, device):
    for source in (torch.ones(size), torch.ones(size + 1)[1:], torch.from_numpy(numpy.ones(size))):
        x = source.to(device, copy=True)
        source.add_(1)
        assert x.max() == 1
        back = x.cpu() if device.type != "cpu" else x.clone()
        x.add_(5)
        assert back.max() == 1
        back.add_(1)
        assert x.min() == x.max() == 6


def test_a_read_before_a_write_keeps_the_old_value(device):
    x = torch.ones(1000, device=device)
    sums = []
    for _ in range(20):
        sums.append(x.sum())
        x.add_(1)
    assert torch.stack(sums).tolist() == [1000.0 * (i + 1) for i in range(20)]


def test_saved_tensors_notice_a_write(device):
    x = torch.ones(3, device=device, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gradients_of_writes_into_views(device):
    x = torch.arange(1.0, 7.0, device=device).view(2, 3).requires_grad_()
    y = x * 2
    y[0].mul_(x[1])
    y.t()[2] = 0
    y.pow(2).sum().backward()
    expected = torch.arange(1.0, 7.0).view(2, 3).requires_grad_()
    z = expected * 2
    z[0].mul_(expected[1])
    z.t()[2] = 0
    z.pow(2).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), expected.grad)


def test_a_failed_write_changes_nothing(device):
    x = torch.arange(6.0, device=device).view(2, 3)
    y = x.clone()
    for write in (
        lambda: x.add_(torch.ones(4, device=device)),
        lambda: x.copy_(torch.ones(2, 4, device=device)),
        lambda: x.mul_(1j),
        lambda: x.view(4, 2),
        lambda: torch.mm(x, x, out=x),
    ):
        with pytest.raises(RuntimeError):
            write()
    assert torch.equal(x, y) and x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_swapping_data_keeps_old_views(device):
    x = torch.nn.Parameter(torch.ones(3, device=device))
    old = x.detach()
    x.data = torch.zeros(3, device=device)
    x.data.add_(5)
    assert (x.tolist(), old.tolist()) == ([5, 5, 5], [1, 1, 1])


def test_memory_is_given_back(device):
    if device.type == "cpu":
        pytest.skip("the CPU does not count its memory")
    torch.tpu.synchronize()
    before = torch.tpu.memory_allocated()
    x = torch.ones(1 << 18, device=device)
    y = x.clone()
    for _ in range(10):
        x.add_(1)
        y = y * 2
    assert torch.tpu.memory_allocated() - before <= 3 * x.nbytes
    del x, y
    assert torch.tpu.memory_allocated() <= before
