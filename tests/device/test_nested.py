"""Nested tensors: an encoder's padding, jagged tensors and their attention."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

LENGTHS = (2, 5, 1)
MASK = torch.arange(5) >= torch.tensor(LENGTHS)[:, None]


def encoder(norm_first=False):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_evaluated_encoder_pads_with_zeros(mode, device):
    x = torch.randn(3, 5, 8)
    with mode():
        want = encoder()(x, src_key_padding_mask=MASK)
        got = encoder().to(device)(x.to(device), src_key_padding_mask=MASK.to(device))
    assert want[0, 2:].eq(0).all()
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


def test_gaps_are_not_nested(device):
    x, mask = torch.randn(3, 5, 8), MASK.flip(1)
    with torch.no_grad():
        want = encoder()(x, src_key_padding_mask=mask)
        got = encoder().to(device)(x.to(device), src_key_padding_mask=mask.to(device))
    torch.testing.assert_close(got.cpu()[~mask], want[~mask], rtol=1e-4, atol=1e-5)


def test_lengths_compile_nothing(device):
    import torch_tpu

    model, x = encoder().to(device), torch.randn(3, 5, 8, device=device)

    def run(lengths):
        mask = torch.arange(5) >= torch.tensor(lengths)[:, None]
        return model(x, src_key_padding_mask=mask.to(device))

    with torch.no_grad():
        run((2, 5, 1))
        with torch_tpu.no_new_compiles():
            run((5, 3, 4))


def test_what_the_mask_has_to_be(device):
    x = torch.randn(3, 5, 8, device=device)
    with pytest.raises(RuntimeError, match="stack expects a non-empty TensorList"):
        torch._nested_tensor_from_mask(x[:0], MASK[:0].to(device))
    for mask, message in (
        (MASK.int(), "to be of ScalarType Bool"),
        (MASK[0], "should be 2D"),
        (MASK[:, :4], "should match with the first two dimensions"),
        (MASK, "left-aligned without gaps"),
    ):
        with pytest.raises(RuntimeError, match=message):
            torch._nested_tensor_from_mask(x, mask.to(device))


def test_strided_ones_say_what_to_do(device):
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
    with pytest.raises(NotImplementedError, match=r"TPU2003.*layout=torch\.jagged"):
        nested.to(device)
    with pytest.raises(NotImplementedError, match="TPU2003"):
        torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], device=device) * 2


def test_jagged_tensors_are_padded_and_back(device):
    parts = [torch.randn(n, 3) for n in (2, 4, 1)]

    def run(device):
        x = torch.nested.nested_tensor(
            parts, layout=torch.jagged, device=device, requires_grad=True
        )
        y = (F.silu(x * 2) @ torch.eye(3, 2, device=device)).to_padded_tensor(-1.0)
        y.square().sum().backward()
        return y.detach().cpu(), x.grad.values().cpu()

    for want, got in zip(run("cpu"), run(device)):
        torch.testing.assert_close(got, want)


def heads(x, is_causal):
    """Attention of queries, keys and values that lie side by side, two heads each."""
    q, k, v = (part.unflatten(-1, (2, 4)).transpose(-3, -2) for part in x.chunk(3, -1))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    return out.transpose(-3, -2).flatten(-2)


@pytest.mark.parametrize("is_causal", [False, True])
def test_jagged_attention(is_causal, device):
    parts = [torch.randn(n, 24, requires_grad=True) for n in LENGTHS]
    want = torch.cat([heads(part, is_causal) for part in parts])
    want.square().sum().backward()
    x = torch.nested.nested_tensor(
        [p.detach() for p in parts], layout=torch.jagged, device=device, requires_grad=True
    )
    got = heads(x, is_causal).values()
    got.square().sum().backward()
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=1e-4, atol=1e-5)
    grads = torch.cat([part.grad for part in parts])
    torch.testing.assert_close(x.grad.values().cpu(), grads, rtol=1e-4, atol=1e-5)


def test_what_jagged_attention_takes(device):
    x = torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)], layout=torch.jagged)
    q = x.to(device).unflatten(-1, (2, 4)).transpose(1, 2)
    dense = torch.ones(2, 2, 3, 4, device=device)
    with pytest.raises(ValueError, match="to be nested tensors"):
        F.scaled_dot_product_attention(q, dense, dense)
    with pytest.raises(ValueError, match="Masks are not yet supported"):
        F.scaled_dot_product_attention(q, q, q, attn_mask=dense)
    with pytest.raises(ValueError, match=r"TPU2003.*transpose\(1, 2\)"):
        F.scaled_dot_product_attention(x.to(device), x.to(device), x.to(device))
    batches = q.transpose(1, 2)
    same = F.scaled_dot_product_attention(batches, batches, batches).values()
    torch.testing.assert_close(same.cpu(), torch.ones(5, 2, 4))
    with torch.autocast(device.type, torch.bfloat16):
        assert F.scaled_dot_product_attention(q, q, q).dtype == torch.bfloat16


def test_offsets_are_checked(device):
    pad, back = (
        torch.ops.aten._jagged_to_padded_dense_forward,
        torch.ops.aten._padded_dense_to_jagged_forward,
    )
    x, offsets = torch.randn(7, 3, device=device), torch.tensor([0, 2, 2, 7], device=device)
    with pytest.raises(IndexError, match="lie outside"):
        pad(x, [offsets + 1], [5], 0.0).cpu()
    with pytest.raises(RuntimeError, match="final offset should match total_L"):
        back(pad(x, [offsets], [5], 0.0), [offsets], 9).cpu()
    with pytest.raises(RuntimeError, match="found batch item of length 5 when max length .* is 3"):
        back(pad(x, [offsets], [3], 0.0), [offsets], 7).cpu()
    assert torch.equal(back(pad(x, [offsets], [5], 0.0), [offsets]), x)
