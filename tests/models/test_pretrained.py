"""Real weights: the examples' models say on the device what they say on the CPU."""

import importlib.util
import pathlib

import torch

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_embeddings(device):
    embed = example("embed")
    tokenizer, model = embed.load()
    assert len(embed.SENTENCES) == 32
    there, here = embed.embed(tokenizer, model), embed.embed(tokenizer, model.to(device))
    assert torch.cosine_similarity(here.double(), there.double()).min() >= 0.99999


def test_answer(device):
    chat = example("chat")
    tokenizer, model = chat.load()
    question = "What is the capital of France?"
    there = chat.answer(tokenizer, model, question)
    here = chat.answer(tokenizer, model.to(device), question)
    assert here == there
    assert "Paris" in tokenizer.decode(here)
