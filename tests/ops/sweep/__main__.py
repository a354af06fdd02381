"""Runs what is asked for and writes down what came of it.

`python -m tests.ops.sweep RESULTS --dtype float32 --form forward=3 gradient` runs all operators
with three samples of the first form and all of the second, and appends a JSON object a line to
RESULTS; what stands there already is not run again. `--page docs/sweep.md` writes the page. The
results of `pytest tests/ops --full --results RESULTS` are of the same kind.
"""

import argparse
import fnmatch
import os
import pathlib
import sys

from . import cases, pool, skips, table

ROOT = pathlib.Path(__file__).resolve().parents[3]


def main():
    asked = arguments()
    os.environ.setdefault("TORCH_TPU_FALLBACK", "error")
    os.environ.setdefault("TORCH_TPU_CACHE_DIR", str(ROOT / "target/test-cache"))
    file = pathlib.Path(asked.results)
    file.touch()
    found = table.load(file.open())
    left = [lacking(case, found) for case in select(asked)]
    if not asked.no_run:
        run([case for case in left if case.amounts], file, asked.processes)
    if asked.page:
        command = f"python -m tests.ops.sweep RESULTS --page {asked.page}"
        text = table.page(table.load(file.open()), skips.load(), command)
        pathlib.Path(asked.page).write_text(text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", help="a file of JSON lines, which is appended to")
    parser.add_argument("--op", default="*", help="a pattern of full names")
    parser.add_argument("--dtype", nargs="*", help="dtypes; all without it")
    parser.add_argument("--form", nargs="*", help="FORM or FORM=SAMPLES; all without it")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--no-run", action="store_true", help="only write the page")
    parser.add_argument("--page", help="where to write the page")
    return parser.parse_args()


def select(asked):
    """The cases asked for, dtype by dtype."""
    amounts = dict(map(_amount, asked.form)) if asked.form else cases.FULL
    chosen = fnmatch.filter(cases.operators(), asked.op)
    known = {name: cases.dtypes(cases.operators()[name]) for name in chosen}
    wanted = asked.dtype or sorted({dtype for types in known.values() for dtype in types})
    return [
        cases.Case(op, dtype, cases.amounts(dtype, amounts))
        for dtype in wanted
        for op in chosen
        if dtype in known[op]
    ]


def _amount(text):
    form, _, count = text.partition("=")
    if form not in cases.FORMS:
        raise SystemExit(f"no form is called `{form}`: {', '.join(cases.FORMS)}")
    return form, int(count) if count else None


def lacking(case, found):
    """The case without the forms that have results."""
    left = tuple(a for a in case.amounts if (case.op, case.dtype, a[0]) not in found)
    return cases.Case(case.op, case.dtype, left)


def run(selected, file, processes):
    running = pool.Pool(min(processes, len(selected)))
    for case in selected:
        running.submit(case, ())
    running.start()
    with file.open("a", buffering=1) as lines:
        for number, case in enumerate(selected, 1):
            results = running.result(case)
            lines.write(table.record(case, results))
            said = [f"{form} {table.kind(result)}" for form, result in results.items()]
            print(f"{number}/{len(selected)} {case}: {', '.join(said)}", file=sys.stderr)


if __name__ == "__main__":
    main()
