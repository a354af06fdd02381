"""Every layout of a tensor is read and written as on the CPU."""

import pytest
import torch


def base(device, dtype=torch.float32):
    return torch.arange(120).view(4, 5, 6).to(device, dtype)


# Views of `base`, by what is special about them. Those in `READ_ONLY` name elements twice.
VIEWS = {
    "whole": lambda x: x,
    "offset": lambda x: x[2:],
    "row": lambda x: x[1],
    "column": lambda x: x[:, 2],
    "element": lambda x: x[1, 2, 3],
    "block": lambda x: x[1:3, 1:4, 2:5],
    "step": lambda x: x[..., ::2],
    "uneven step": lambda x: x[..., 1::4],
    "steps": lambda x: x[1::2, ::3, 1::2],
    "transposed": lambda x: x.transpose(0, 2),
    "permuted block": lambda x: x.permute(2, 0, 1)[1:4, ::2],
    "transposed twice": lambda x: x.mT[:, 1:].transpose(0, 1),
    "merged": lambda x: x.view(20, 6)[3:7],
    "split": lambda x: x.view(2, 2, 5, 3, 2)[:, 1, :, 1:],
    "flat": lambda x: x.view(-1)[7:90:5],
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "diagonal with offset": lambda x: x.diagonal(1, 0, 2),
    "chunk": lambda x: x.chunk(3, 2)[1],
    "no elements": lambda x: x[:, 2:2],
    "no rows": lambda x: x[4:],
    "new dimensions": lambda x: x[:, None, 1:, :, None],
    "strided": lambda x: x.as_strided((3, 4), (31, 7), 5),
    "unfolded": lambda x: x.unfold(2, 2, 2),
    "expanded": lambda x: x[:, 1:2].expand(4, 3, 6),
    "expanded in front": lambda x: x[1, :, ::2].expand(2, 5, 3),
    "expanded element": lambda x: x[2, 2, 2].expand(3, 3),
    "windows": lambda x: x.unfold(2, 3, 1),
    "overlapping": lambda x: x.as_strided((4, 5), (2, 1), 3),
    "overlapping and turned": lambda x: x.as_strided((5, 4), (1, 3), 50),
}
READ_ONLY = {name for name in VIEWS if name.startswith(("expanded", "windows", "overlapping"))}
WRITABLE = [name for name in VIEWS if name not in READ_ONLY]

WRITES = {
    "fill_": lambda v: v.fill_(7),
    "zero_": lambda v: v.zero_(),
    "mul_": lambda v: v.mul_(3),
    "add_ itself": lambda v: v.add_(v),
    "copy_": lambda v: v.copy_(torch.arange(v.numel(), device=v.device).view(v.shape)),
    "copy_ from the CPU": lambda v: v.copy_(torch.arange(v.numel()).view(v.shape)),
    "copy_ broadcasts": lambda v: v.copy_(torch.tensor(5.5, device=v.device)),
    "masked_fill_": lambda v: v.masked_fill_(v % 2 == 0, -1),
    "out=": lambda v: torch.exp(torch.full_like(v, 0.5), out=v),
    "out= of another dtype": lambda v: torch.add(torch.ones_like(v, dtype=torch.int32), 1, out=v),
}


@pytest.mark.parametrize("name", VIEWS)
def test_reading(name, device):
    view, expected = VIEWS[name](base(device)), VIEWS[name](base("cpu"))
    assert view.stride() == expected.stride()
    assert view.storage_offset() == expected.storage_offset()
    torch.testing.assert_close(view.cpu(), expected)
    for read in (
        lambda v: v + 1,
        lambda v: v.clone(),
        lambda v: v.contiguous(),
        lambda v: v.sum(),
        lambda v: v.reshape(-1) * 2,
        lambda v: v.to(torch.int64),
        lambda v: torch.cat([v.flatten(), v.flatten()]),
    ):
        torch.testing.assert_close(read(view).cpu(), read(expected), check_stride=True)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", WRITABLE)
def test_writing(name, write, device):
    here, there = base(device), base("cpu")
    view, expected = VIEWS[name](here), VIEWS[name](there)
    WRITES[write](view)
    WRITES[write](expected)
    torch.testing.assert_close(here.cpu(), there)
    torch.testing.assert_close(view.cpu(), expected)


@pytest.mark.parametrize("name", [name for name in VIEWS if name.startswith("expanded")])
def test_writing_where_elements_share_a_place_raises(name, device):
    here = base(device)
    view = VIEWS[name](here)
    for write in (lambda: view.add_(1), lambda: torch.neg(view.clone(), out=view)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            write()
    assert torch.equal(here.cpu(), base("cpu"))


def test_writing_what_is_read_elsewhere_raises(device):
    x = base(device)
    for write in (
        lambda: x[1:].add_(x[:-1]),
        lambda: torch.mul(x[:2], 2, out=x[1:3]),
    ):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            write()
    assert torch.equal(x.cpu(), base("cpu"))


@pytest.mark.parametrize("name", ["transposed", "offset", "strided", "expanded", "no elements"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.bfloat16, torch.complex64])
def test_layouts_of_other_dtypes(name, dtype, device):
    view, expected = VIEWS[name](base(device, dtype)), VIEWS[name](base("cpu", dtype))
    torch.testing.assert_close(view.cpu(), expected)
    torch.testing.assert_close((view == 0).cpu(), expected == 0)
    if name not in READ_ONLY:
        view.zero_()
        expected.zero_()
        torch.testing.assert_close(view._base.cpu(), expected._base)


def test_views_as_another_dtype(device):
    x, expected = base(device), base("cpu")
    for dtype in (torch.int32, torch.int16, torch.uint8, torch.float64):
        assert torch.equal(x.view(dtype).cpu(), expected.view(dtype))
    x.view(torch.int32)[0, 0] = 1 << 30
    assert x[0, 0].tolist() == [2.0] * 6
    x[1:].view(torch.int16)[..., 1::2] = 0
    assert x[1:].abs().max() < 1e-30


def test_complex_numbers_as_pairs(device):
    z = torch.arange(6.0, device=device).view(3, 2)
    complex = torch.view_as_complex(z)
    assert complex.tolist() == [1j, 2 + 3j, 4 + 5j]
    complex.imag.neg_()
    torch.view_as_real(complex)[0, 0] = 9
    assert z.tolist() == [[9, -1], [2, -3], [4, -5]]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_conjugate_and_negative_bits(dtype, device):
    source = torch.randn(3, 4, dtype=dtype)
    for read in (
        lambda z: z.conj(),
        lambda z: z.conj().imag,
        lambda z: z.conj().clone(),
        lambda z: z.mH @ z,
        lambda z: z.conj() + z.conj().imag,
        lambda z: z.conj()[1:, ::2].t().sum(0),
        lambda z: z.conj().resolve_conj(),
        lambda z: z.conj().imag.resolve_neg(),
        lambda z: torch.view_as_real(z.conj().resolve_conj()),
        lambda z: z.conj().to(torch.complex128),
    ):
        result, expected = read(source.to(device)), read(source)
        assert (result.is_conj(), result.is_neg()) == (expected.is_conj(), expected.is_neg())
        torch.testing.assert_close(result.cpu(), expected)
        torch.testing.assert_close((result * 2).cpu(), expected * 2)


def test_writing_through_conjugate_and_negative_bits(device):
    def write(z):
        z.conj().add_(1 + 2j)
        z.conj().imag.mul_(3)
        z.conj()[0].copy_(torch.full((4,), 5 + 6j))
        z[1].copy_(z[2].conj())
        return z

    source = torch.randn(3, 4, dtype=torch.complex64)
    torch.testing.assert_close(write(source.to(device)).cpu(), write(source.clone()))


def test_copies_to_the_device_keep_the_bits(device):
    source = torch.randn(4, dtype=torch.complex64)
    for view in (source.conj(), source.conj().imag, source.imag[::2]):
        torch.testing.assert_close(view.to(device).cpu().clone(), view.clone())
        target = torch.zeros_like(view, device=device)
        target.copy_(view)
        torch.testing.assert_close(target.cpu(), view.resolve_conj().resolve_neg())
        back = torch.zeros_like(view)
        back.copy_(view.to(device))
        torch.testing.assert_close(back, view.resolve_conj().resolve_neg())


def test_one_storage_twice_in_a_call(device):
    x, expected = base(device), base("cpu")
    for call in (
        lambda x: x[1:] * x[:-1],
        lambda x: x[0] @ x[1].t(),
        lambda x: torch.cat([x[0], x[2], x[0, :2]]),
        lambda x: torch.where(x > 50, x, x.flip(0)),
        lambda x: torch.addcmul(x[0], x[1], x[2], value=0.5),
        lambda x: x.index_select(0, x[0, 0, :4].long()),
    ):
        torch.testing.assert_close(call(x).cpu(), call(expected))
    assert torch.equal(x.cpu(), expected)


def test_lists_of_views_of_one_storage(device):
    def run(device):
        flat = torch.arange(12.0, device=device)
        views = [flat[:4], flat[4:8].view(2, 2).t(), flat[8::2], flat[9]]
        torch._foreach_add_(views, 1.0)
        torch._foreach_mul_(views, views)
        torch._foreach_lerp_(views, torch._foreach_neg(views), 0.25)
        torch._foreach_copy_(views[:2], [flat[:4].clone() + 1, flat[4:8].view(2, 2).clone()])
        torch._foreach_addcdiv_(views, views, [v + 1 for v in views], 0.5)
        return flat, torch.stack(torch._foreach_norm(views))

    for got, expected in zip(run(device), run("cpu")):
        torch.testing.assert_close(got.cpu(), expected)


def test_an_optimizer_over_views_of_one_storage(device):
    def train(device):
        flat = torch.linspace(-1, 1, 20, device=device)
        parameters = [torch.nn.Parameter(flat[:8].view(2, 4)), torch.nn.Parameter(flat[8:])]
        optimizer = torch.optim.AdamW(parameters, lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            sum((p * (p + step)).sum() for p in parameters).backward()
            optimizer.step()
        return flat

    torch.testing.assert_close(train(device).cpu(), train("cpu"))


def test_resizing_an_out_tensor(device):
    x = torch.ones(2, 3, device=device)
    out = torch.empty(0, device=device)
    assert torch.add(x, x, out=out) is out and out.tolist() == [[2.0] * 3] * 2
    with pytest.warns(UserWarning, match="was resized since it had shape"):
        torch.add(x[0], 1, out=out)
    assert out.shape == (3,)


def test_a_view_keeps_what_a_resize_cuts_off(device):
    x = torch.arange(6.0, device=device)
    tail = x[4:]
    x.resize_(2)
    tail.add_(1)
    assert (x.tolist(), tail.tolist()) == ([0, 1], [5, 6])
    x.resize_(6)
    assert x.tolist() == [0, 1, 2, 3, 5, 6]
