"""What the benchmark measures: each function gives a step for a device.

A step returns a tensor; the benchmark reads it, so that the device has finished.
"""

import torch


def add(device):
    """One operation on one element."""
    x, y = torch.ones(1, device=device), torch.ones(1, device=device)
    return lambda: x + y


def chain(device):
    """Twenty operations on 1,000 elements."""
    torch.manual_seed(0)
    x, y = torch.rand(2, 1000).to(device).unbind(0)

    def step():
        a = x + y
        c = a - x * y
        e = torch.relu(c) * 0.5
        f = e + 1.0
        h = -torch.maximum(f, x)
        i = torch.abs(h)
        k = torch.sqrt(i * i)
        n = torch.tanh(k / f)
        p = torch.minimum(n + y, f)
        r = torch.sigmoid(p * 0.25)
        s = (r - 0.5) + x
        return (s * 0.9) / 1.5

    return step


def _llama(device):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=4096,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return LlamaForCausalLM(config).to(device)


def _tokens(device, batch, length):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 4096, (batch, length), generator=generator).to(device)


def llama_forward(device):
    """Forward of a Llama of 4 layers and hidden size 256 on 4 sequences of 128 tokens."""
    model, ids = _llama(device).eval(), _tokens(device, 4, 128)

    def step():
        with torch.no_grad():
            return model(input_ids=ids, use_cache=False).logits[:, -1]

    return step


def llama_train(device):
    """Training step of the same model with AdamW."""
    model, ids = _llama(device).train(), _tokens(device, 4, 128)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def generate(device):
    """Greedy generation of 32 tokens with the growing cache, prompt of 16, the same model."""
    model, ids = _llama(device).eval(), _tokens(device, 1, 16)
    mask = torch.ones_like(ids)
    return lambda: model.generate(
        ids, attention_mask=mask, do_sample=False, max_new_tokens=32, pad_token_id=0
    )


# Name, and how many steps make one measurement.
ALL = {"add": 4000, "chain": 400, "llama_forward": 4, "llama_train": 2, "generate": 1}
