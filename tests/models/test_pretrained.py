"""Real weights: the examples' models say on the device what they say on the CPU."""

import importlib.util
import pathlib

import torch
from torch._dynamo.utils import counters
from transformers import CompileConfig

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


PROMPTS = [
    "What is the capital of France?",
    "Name three primary colours.",
    "Write one sentence about the sea.",
    "What is two plus two?",
    "Who wrote Romeo and Juliet?",
    "Translate 'good morning' into Spanish.",
    "Explain in one sentence what a compiler does.",
    "List the first five prime numbers.",
    "Why is the sky blue?",
    "Give me a short recipe for pancakes.",
]


def test_ten_prompts(device):
    tokenizer, model = example("chat").load()
    tokenizer.padding_side = "left"
    chats = [[{"role": "user", "content": prompt}] for prompt in PROMPTS]
    options = {"add_generation_prompt": True, "return_dict": True, "return_tensors": "pt"}
    batch = tokenizer.apply_chat_template(chats, padding=True, **options)

    def answers(**options):
        inputs = batch.to(model.device)
        output = model.generate(**inputs, max_new_tokens=16, do_sample=False, **options)
        return output[:, inputs["input_ids"].shape[1] :].tolist()

    there = answers()
    model.to(device)
    assert answers() == there
    step = CompileConfig(backend="tpu", mode=None, fullgraph=True)
    step._compile_all_devices = True
    counters.clear()
    assert answers(cache_implementation="static", compile_config=step) == there
    assert counters["stats"]["unique_graphs"] > 0
    assert len({tuple(answer) for answer in there}) == len(PROMPTS)
