"""Counts the operators that real models call, into `op_use.tsv` beside this file.

A TorchDispatchMode on the CPU sees what a backend would see: after autograd, after PyTorch's own
compositions. Run by hand when models are added; `cargo x ops --missing` ranks by the result.
"""

import collections
import os
import pathlib
from functools import partial

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch
import transformers
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
TOKENS = torch.randint(3, 90, (2, 12))
PICTURES = torch.rand(2, 3, 32, 32)
SOUND = torch.rand(2, 8, 64)


class Counter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = collections.Counter()

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if op.namespace == "aten":
            self.calls[op.name().removeprefix("aten::")] += 1
        return op(*args, **(kwargs or {}))


def decoder(name, **more):
    """A language model: loss, gradients and a few tokens."""
    config = transformers.AutoConfig.for_model(name, **SMALL, **more)
    model = transformers.AutoModelForCausalLM.from_config(config)
    options = {"max_new_tokens": 4, "pad_token_id": 0}
    model.generate(TOKENS, do_sample=False, **options)
    model.generate(TOKENS, do_sample=True, top_k=8, top_p=0.9, **options)
    train(model, lambda: model(TOKENS, labels=TOKENS).loss)


def encoder(name, inputs, **more):
    config = transformers.AutoConfig.for_model(name, **(SMALL | more))
    model = transformers.AutoModel.from_config(config)
    train(model, lambda: model(**inputs)[0].float().square().mean())


def train(model, loss):
    adamw = partial(torch.optim.AdamW, foreach=True)
    for make in (adamw, partial(torch.optim.SGD, lr=0.01, momentum=0.9)):
        optimizer = make(model.parameters())
        loss().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def module(model, *inputs):
    train(model, lambda: first(model(*inputs)).square().mean())


def first(result):
    return result[0] if isinstance(result, tuple) else result


def whisper():
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "num_mel_bins": 8}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    tokens = {"vocab_size": 99, "pad_token_id": 0, "decoder_start_token_id": 1}
    config = transformers.WhisperConfig(max_source_positions=32, **sizes, **heads, **tokens)
    model = transformers.WhisperForConditionalGeneration(config)
    train(model, lambda: model(input_features=SOUND, labels=TOKENS).loss)


def clip():
    text, vision = dict(SMALL), SMALL | {"image_size": 32, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision)
    model = transformers.CLIPModel(config)
    inputs = {"input_ids": TOKENS, "pixel_values": PICTURES, "return_loss": True}
    train(model, lambda: model(**inputs).loss)


def convolutions():
    layers = [nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    module(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)), PICTURES)


def t5():
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = transformers.T5Config(vocab_size=99, decoder_start_token_id=0, **sizes)
    model = transformers.T5ForConditionalGeneration(config)
    train(model, lambda: model(input_ids=TOKENS, labels=TOKENS).loss)


EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
JOBS = {
    "llama": lambda: decoder("llama"),
    "qwen3": lambda: decoder("qwen3", head_dim=8, num_key_value_heads=2),
    "qwen3_moe": lambda: decoder("qwen3_moe", head_dim=8, num_key_value_heads=2, **EXPERTS),
    "gemma": lambda: decoder("gemma", head_dim=8, num_key_value_heads=2),
    "gpt2": lambda: decoder("gpt2"),
    "mamba": lambda: decoder("mamba"),
    "bert": lambda: encoder("bert", {"input_ids": TOKENS}),
    "vit": lambda: encoder("vit", {"pixel_values": PICTURES}, image_size=32, patch_size=8),
    "t5": t5,
    "whisper": whisper,
    "clip": clip,
    "convolutions": convolutions,
    "transformer": lambda: module(nn.TransformerEncoderLayer(32, 4), torch.rand(5, 2, 32)),
    "lstm": lambda: module(nn.LSTM(8, 16, num_layers=2), torch.rand(5, 2, 8)),
}


def main():
    calls, models = collections.Counter(), collections.Counter()
    for name, job in JOBS.items():
        torch.manual_seed(0)
        with Counter() as counter:
            job()
        calls.update(counter.calls)
        models.update(counter.calls.keys())
        print(
            f"{name}: {counter.calls.total()} calls of {len(counter.calls)} operators", flush=True
        )
    ranked = sorted(calls, key=lambda op: (-models[op], -calls[op], op))
    rows = ["op\tmodels\tcalls", *(f"{op}\t{models[op]}\t{calls[op]}" for op in ranked)]
    pathlib.Path(__file__).with_name("op_use.tsv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
