"""What a TPU's compiler says to SmolLM2-135M, with no TPU:

torchtpu fit --topology all examples/fit.py train
torchtpu fit --topology all examples/fit.py decode
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

CONFIG = LlamaConfig(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    max_position_embeddings=8192,
    rope_theta=100000.0,
    tie_word_embeddings=True,
)


def train(model):
    """One step on four texts of 512 tokens."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(tokens):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step, (torch.zeros(4, 512, dtype=torch.int64),)


def decode(model):
    """One more token of eight texts, with a cache for 1,024."""
    cache = StaticCache(config=CONFIG, max_cache_len=1024)

    @torch.no_grad()
    def step(token, position):
        out = model(input_ids=token, position_ids=position, past_key_values=cache)
        return out.logits[:, -1].argmax(-1)

    return step, (torch.zeros(8, 1, dtype=torch.int64), torch.zeros(8, 1, dtype=torch.int64))


def fit():
    """What `torchtpu fit` asks for."""
    return {"train": train, "decode": decode}[sys.argv[1]](LlamaForCausalLM(CONFIG))
