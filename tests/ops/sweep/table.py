"""Results of cases as JSON lines, and the page that counts them."""

import collections
import json

from . import cases

# The order of the page's columns; further dtypes follow by name.
DTYPES = ("float32", "bfloat16", "float16", "float64", "complex64", "int64", "int32", "bool")

HEAD = """# Operators against the CPU

Written by `{command}`: how many of PyTorch's own operator
descriptions (OpInfo), run on the device with fallback to the CPU forbidden, agree with the CPU, of
those that have the form and the dtype and were run. {samples} samples were compared in all: of an
operator with a dtype and a form not always all that a run with `--full` takes (`sweep.cases.FULL`).

"""


def record(case, results):
    """The line of a case."""
    return json.dumps({"op": case.op, "dtype": case.dtype, "results": results}) + "\n"


def load(file):
    """`{(operator, dtype, form): result}`; of several results the last counts."""
    found = {}
    for line in file:
        case = json.loads(line)
        for form, result in case["results"].items():
            found[case["op"], case["dtype"], form] = result
    return found


def kind(result, reason=None):
    """What came of a form: `pass`, `fail`, `crash`, `fallback`, `listed`, or None: no such form."""
    if result["failed"] == 0:
        return "pass" if result["checks"] else None
    if reason:
        return "listed"
    text = " ".join(one["error"] for one in result["told"])
    return "crash" if "crash: " in text else "fallback" if "TPU2002" in text else "fail"


def counted(found, skips):
    """`{(form, dtype): Counter of kinds}`."""
    counts = collections.defaultdict(collections.Counter)
    for (op, dtype, form), result in found.items():
        reason = next((s.reason for s in skips if s.covers(op, dtype, form)), None)
        if came := kind(result, reason):
            counts[form, dtype][came] += 1
    return counts


def page(found, skips, command):
    """The results as Markdown."""
    counts = counted(found, skips)
    dtypes = _dtypes(counts)
    samples = collections.Counter()
    for (_, _, form), result in found.items():
        samples[form] += result["checks"]
    rows = [
        [form, *(_cell(counts[form, dtype]) for dtype in dtypes), str(samples[form])]
        for form in cases.FORMS
    ]
    listed = [[_operators(s), ", ".join(s.dtypes), ", ".join(s.forms), s.reason] for s in skips]
    return HEAD.format(command=command, samples=samples.total()) + "".join(
        [
            _table(["form", *dtypes, "samples"], rows),
            "\n## Listed in `tests/ops/skips.toml`\n\n",
            _table(["operator", "dtype", "form", "reason"], listed),
            "\n## Failing\n\n",
            _table(["operator", "form", "dtypes", "first error"], sorted(_wrong(found, skips))),
        ]
    )


def _operators(skip):
    but = f" but {', '.join(skip.but)}" if skip.but else ""
    return ", ".join(skip.ops) + but


def _dtypes(counts):
    every = {dtype for _, dtype in counts}
    return [d for d in DTYPES if d in every] + sorted(every - set(DTYPES))


def _cell(counter):
    return f"{counter['pass']} of {counter.total()}" if counter else ""


def _table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _wrong(found, skips):
    """A row for each operator and form that fails unlisted."""
    gathered = collections.defaultdict(list)
    for (op, dtype, form), result in found.items():
        if result["failed"] and not any(s.covers(op, dtype, form) for s in skips):
            gathered[op, form].append((dtype, result["told"][0]["error"]))
    for (op, form), failures in gathered.items():
        error = failures[0][1].replace("|", "\\|").replace("`", "'")[:160]
        yield [op, form, ", ".join(dtype for dtype, _ in failures), f"`{error}`"]
