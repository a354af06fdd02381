"""Text: greedy tokens are the CPU's, whatever holds the keys and values; a seed fixes samples."""

import pytest
import torch

NEW_TOKENS = 32
# With a static cache transformers would compile the step; here it runs operator by operator.
OPTIONS = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "disable_compile": True}


def generate(subject, device, **options):
    """What the model says to the batch, `[batch, tokens]`, on the CPU."""
    model, inputs = subject.on(device)
    of_training = ["labels", "output_router_logits"]
    prompt = {name: value for name, value in inputs.items() if name not in of_training}
    return model.generate(**prompt, **OPTIONS, **options).cpu()


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_greedy(speaker, cache, device):
    # Random weights say one word for ever; without repetition every token is another decision.
    options = {"do_sample": False, "no_repeat_ngram_size": 1, "cache_implementation": cache}
    here, there = (generate(speaker, where, **options) for where in (device, "cpu"))
    assert here.tolist() == there.tolist()
    assert all(len(row[-NEW_TOKENS:].unique()) == NEW_TOKENS for row in there)


def test_a_seed_fixes_samples(small_llama, device):
    def sample(seed):
        torch.manual_seed(seed)
        options = {"temperature": 0.8, "top_k": 40, "top_p": 0.95}
        return generate(small_llama, device, do_sample=True, **options).tolist()

    first = sample(1)
    assert first == sample(1) != sample(2)
