"""Blocks in which nothing may compile."""

import secrets

import pytest
import torch

import torch_tpu


def new_size():
    """A size that no program on disk has, from whatever run."""
    return 10_000 + secrets.randbelow(10**7)


def test_what_is_known_runs_and_what_is_new_raises(device):
    x = torch.ones(7, 3, device=device)
    compiled = torch.compile(lambda x: x * 3 - x.sum(), backend="tpu")
    expected = compiled(x).cpu()
    with torch_tpu.no_new_compiles():
        assert torch.equal(compiled(x).cpu(), expected)
        with pytest.raises(RuntimeError, match="TPU4004"):
            torch.arange(new_size(), device=device)
        assert torch.equal(compiled(x).cpu(), expected)
    assert (x[:, :2] - 2).sum().item() == -14


def test_the_message_says_what_is_new(device):
    (torch.ones(61, 1, device=device) - torch.ones(1, 53, device=device)).sum()
    rows = new_size()
    with torch_tpu.no_new_compiles():
        with pytest.raises(RuntimeError, match=rf"input 0 is f32\[{rows}.*was f32\[61"):
            torch.empty(rows, 1, device=device) - torch.empty(1, 53, device=device)


def test_decoding_with_a_static_cache_compiles_nothing(device):
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.cache_utils import StaticCache

    size = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 128}
    config = LlamaConfig(**size, **heads, max_position_embeddings=128)
    model = LlamaForCausalLM(config).eval().to(device)
    step = torch.compile(model.forward, backend="tpu")
    cache = StaticCache(config=config, max_cache_len=80)
    token = torch.ones(1, 1, dtype=torch.long, device=device)

    def advance(token, position):
        at = torch.full((1, 1), position, device=device)
        out = step(input_ids=token, past_key_values=cache, position_ids=at, use_cache=True)
        return out.logits[:, -1:].argmax(-1)

    with torch.no_grad():
        for position in range(2):
            token = advance(token, position)
        with torch_tpu.no_new_compiles():
            for position in range(2, 66):
                token = advance(token, position)
    assert 0 <= token.item() < 128
