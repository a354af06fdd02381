"""``flex_attention`` against attention with the same mask or bias on the CPU."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import torch_tpu

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")

BIAS = torch.tensor([0.5, -1.0])
DOCUMENTS = torch.arange(40).div(15, rounding_mode="floor")


def is_causal(b, h, q, k):
    return q >= k


def of_one_document(b, h, q, k):
    documents = DOCUMENTS.to(q.device)
    return documents[q] == documents[k]


def biased(score, b, h, q, k):
    return score + BIAS.to(score.device)[h] * (k - q)


def slanted(score, b, h, q, k):
    return score + 0.5 * (k - q)


def distances(length=40):
    return torch.arange(length) - torch.arange(length)[:, None]


CASES = {
    "plain": (None, None, None),
    "causal": (None, is_causal, distances() <= 0),
    "documents": (None, of_one_document, DOCUMENTS == DOCUMENTS[:, None]),
    "biased": (biased, None, BIAS[:, None, None] * distances()),
}


def with_gradients(call, leaves):
    result = call(*leaves)
    return [result, *torch.autograd.grad(result.square().sum(), leaves)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_masks_and_biases(name, compiled, device):
    score_mod, mask_mod, mask = CASES[name]
    mine = torch.compile(flex_attention, fullgraph=True) if compiled else flex_attention
    leaves = [torch.randn(2, heads, 40, 8) for heads in (4, 2, 2)]
    if name == "biased":
        leaves[0] = leaves[0][:, :2]
    blocks = mask_mod and create_block_mask(mask_mod, None, None, 40, 40, device=device)

    def reference(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)

    def call(q, k, v):
        return mine(q, k, v, score_mod=score_mod, block_mask=blocks, enable_gqa=True)

    want = with_gradients(reference, [x.clone().requires_grad_() for x in leaves])
    got = with_gradients(call, [x.to(device).requires_grad_() for x in leaves])
    for a, b in zip(want, got):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_it_is_one_program(dynamic, device):
    @torch.compile(fullgraph=True, dynamic=dynamic)
    def call(q, k, v):
        return flex_attention(q.sin(), k, v, score_mod=slanted).cos()

    for length in (8, 12):
        q, k, v = torch.randn(3, 1, 2, length, 8)
        moved = [x.to(device) for x in (q, k, v)]
        call(*moved)
        torch_tpu.reset_stats()
        got = call(*moved)
        assert torch_tpu.stats()["launches"] == 1
        bias = 0.5 * distances(length)
        want = F.scaled_dot_product_attention(q.sin(), k, v, bias).cos()
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


def test_other_devices_are_refused_as_before():
    with pytest.raises(ValueError, match="only supported on CUDA"):
        flex_attention(*[torch.empty(1, 1, 2, 2, device="meta")] * 3)


def test_a_llama_attends_as_with_sdpa(device):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=100,
    )
    torch.manual_seed(0)
    reference = transformers.LlamaForCausalLM(config)
    model = copy.deepcopy(reference).to(device)
    model.set_attn_implementation("flex_attention")
    tokens, mask = torch.randint(100, (2, 12)), torch.ones(2, 12, dtype=torch.long)
    mask[0, :5] = 0
    got = model(tokens.to(device), attention_mask=mask.to(device)).logits.cpu()
    want = reference(tokens, attention_mask=mask).logits
    torch.testing.assert_close(got[0, 5:], want[0, 5:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(got[1], want[1], rtol=1e-4, atol=1e-4)
