"""Real models on the CPU and on `tpu`, side by side: `cargo x demo`.

Ends with status 1 where the devices disagree or an op had to leave the device.
"""

import os
import sys
from functools import partial

# Nothing is fetched, and the progress bars of loading would tear the tables.
os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1")

import chat
import digits
import embed
from side_by_side import compare


def chat_work(tokenizer, model, device):
    tokens = chat.answer(tokenizer, model.to(device))
    return tokens, len(tokens), repr(tokenizer.decode(tokens)[:60])


def same_tokens(first, second):
    equal = sum(a == b for a, b in zip(first, second))
    return first == second, f"{equal} of {len(first)} tokens equal"


def embed_work(tokenizer, model, device):
    vectors = embed.embed(tokenizer, model.to(device))
    return vectors, len(vectors), f"{len(vectors)} vectors of {vectors.shape[1]}"


def same_direction(first, second):
    cosine = (first.double() * second.double()).sum(1).min().item()
    return cosine >= 0.99999, f"smallest cosine {cosine:.8f} over {len(first)} sentences"


def digits_work(device):
    accuracy, pictures = digits.train(device)
    return accuracy, pictures, f"{100 * accuracy:.2f} % of the test pictures right"


def both_learn(first, second):
    return min(first, second) >= 0.97, f"both at least 97 %, {100 * abs(first - second):.2f} apart"


def main(pair):
    answer, vectors = partial(chat_work, *chat.load()), partial(embed_work, *embed.load())
    well = [
        compare("SmolLM2-135M answers", "tokens", answer, same_tokens, pair),
        compare("MiniLM-L6 embeds", "sentences", vectors, same_direction, pair),
        compare("A CNN learns digits", "pictures", digits_work, both_learn, pair),
    ]
    print("\nall agree" if all(well) else "\nNOT ALL AGREE")
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["cpu", "tpu"]))
