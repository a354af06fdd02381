"""Runs cases, one after the other: a process of its own, because a kernel may end it.

Without arguments it reads jobs from standard input, a JSON object a line, and writes what happens
to standard output in the same way. `worker.py OP DTYPE [FORM...]` runs one case by hand.
"""

import json
import os
import pathlib
import random
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch

from sweep import cases, forms, trees

# Failures of one form that are told; the others are counted.
TOLD = 5


def run(job, tell, device="tpu"):
    """Runs the forms of a job; `tell` gets a form's name before it, and what came of it after."""
    op = cases.operators()[job["op"]]
    subject = forms.Subject(op, cases.dtype(job["dtype"]), device)
    for form, amount in job["forms"].items():
        tell({"begins": form})
        tell({"ends": form, **check(subject, form, amount, job.get("until_failure", []), tell)})


def check(subject, form, amount, until_failure, tell):
    checks, failed, told = 0, 0, []
    try:
        every = forms.samples(subject, form)
    except Exception as error:
        # The database cannot make samples of this dtype.
        return {"checks": 0, "failed": 0, "told": [], "without": line(error)}
    for index in choose(len(every), amount, f"{subject.op.full_name}/{subject.dtype}/{form}"):
        tell({"at": index})
        try:
            forms.CHECKS[form](subject, every[index])
        except forms.NotACase:
            continue
        except Exception as error:
            failed += 1
            if len(told) < TOLD:
                told.append({"sample": f"#{index} {sample(every[index])}", "error": line(error)})
            if form in until_failure:
                return {"checks": checks + 1, "failed": failed, "told": told}
        checks += 1
    return {"checks": checks, "failed": failed, "told": told}


def choose(count, amount, key):
    """Positions of the samples to take: all, or a seeded choice."""
    if amount is None or amount >= count:
        return range(count)
    return sorted(random.Random(f"{cases.SEED}/{key}").sample(range(count), amount))


def sample(given):
    given = getattr(given, "sample_input", given)
    return trees.describe(forms.arguments(given))


def line(error):
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", []))
    text = " ".join(str(error).split())[:500]
    return f"{type(error).__name__}: {text}{notes}"


def serve():
    """Standard output belongs to the protocol: what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def tell(message):
        answers.write(json.dumps(message) + "\n")

    tell({"ready": os.getpid()})
    for text in sys.stdin:
        run(json.loads(text), tell)
        tell({"done": True})


def by_hand(op, dtype, *names):
    def tell(message):
        if "ends" in message:
            print(f"{message['ends']}: {message['checks']} checks, {message['failed']} failed")
            for failure in message["told"]:
                print(f"  {failure['sample']}\n    {failure['error']}")

    run({"op": op, "dtype": dtype, "forms": dict.fromkeys(names or cases.FORMS)}, tell)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    by_hand(*sys.argv[1:]) if len(sys.argv) > 1 else serve()
