"""Numbers that come out whole where PyTorch's do."""

import pytest
import torch
import torch.nn.functional as F


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.float64])
def test_linspace_of_whole_numbers(dtype, device):
    for start, end in ((1, 50), (50, 1), (0, 97)):
        steps = abs(end - start) + 1
        got = torch.linspace(start, end, steps, dtype=dtype, device=device)
        assert torch.equal(got.cpu(), torch.linspace(start, end, steps, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_of_ones_is_one(dtype, device):
    for n in (7, 49, 63, 97, 98, 103):
        ones = torch.ones(3, n, dtype=dtype, device=device)
        assert ones.mean() == 1
        assert ones.mean(1).eq(1).all()
        assert torch.compile(torch.mean)(ones) == 1
        assert F.mse_loss(ones, ones * 0) == 1
        assert F.avg_pool1d(ones[None], n).eq(1).all()


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_totals_of_one_number_fit_into_a_bool(name, device):
    call = getattr(torch, name)
    out = torch.zeros((), dtype=torch.bool, device=device)
    assert call(torch.tensor(3, device=device), 0, out=out) is out and out
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        call(torch.tensor([3], device=device), 0, out=out.expand(1).clone())
