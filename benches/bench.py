"""Ratios of the device to torch's CPU eager mode, measured in the same run.

    cargo x bench [WORKLOAD...] [--jax PYTHON]

Steady: both devices take turns in one process; a ratio is formed inside a turn, and the median of
the turns is printed. Cold and warm: the first step in a new process, with an empty program cache
and with the one that the cold process left; medians of a few such pairs. Absolute times say little
on a shared machine.
``compiled:NAME`` is a workload through ``torch.compile`` (``compiled.py``), ``launch`` the cost of
one compiled call (``launch.py``); with a Python that has JAX, both stand beside ``jax.jit``.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import compiled
import launch
import workloads

TURNS = 7
STARTS = 3


def clocked(step, count):
    """Seconds a step, over `count` steps, and the last one's result, read back."""
    start = time.perf_counter()
    for _ in range(count):
        out = step()
    out = out.cpu()
    return (time.perf_counter() - start) / count, out


def child(name):
    """In a process of its own: the first step, and the steady ratio unless only that is asked."""
    import torch

    step = getattr(workloads, name)("tpu")
    first, got = clocked(step, 1)
    answer = {"first": first, "ratio": None, "cpu": None}
    if os.environ.get("BENCH_STEADY"):
        reference = getattr(workloads, name)("cpu")
        count = workloads.ALL[name]
        answer["gap"] = gap(clocked(reference, 1)[1], got)
        for device in (reference, step):
            clocked(device, max(count // 10, 1))
        pairs = [(clocked(reference, count)[0], clocked(step, count)[0]) for _ in range(TURNS)]
        answer["ratio"] = statistics.median(mine / cpu for cpu, mine in pairs)
        answer["cpu"] = statistics.median(cpu for cpu, _ in pairs)
    import torch_tpu

    answer["stats"] = torch_tpu.stats()
    answer["torch"] = torch.__version__
    print(json.dumps(answer))


def gap(reference, got):
    """Largest difference of the first steps' results, relative to the reference's largest value."""
    reference, got = reference.detach().double(), got.detach().cpu().double()
    return ((got - reference).abs().max() / reference.abs().max().clamp(min=1e-30)).item()


def run(name, cache, steady):
    environment = dict(os.environ, TORCH_TPU_CACHE_DIR=cache, TORCH_TPU_FALLBACK="error")
    environment["BENCH_STEADY"] = "1" if steady else ""
    command = [sys.executable, __file__, "--child", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def started(name):
    """The first steps of a new process with an empty cache, and of one that finds it filled."""
    with tempfile.TemporaryDirectory() as cache:
        return run(name, cache, steady=False), run(name, cache, steady=False)


def measure(name):
    """One row: cold, warm, steady."""
    starts = [started(name) for _ in range(STARTS)]
    with tempfile.TemporaryDirectory() as cache:
        steady = run(name, cache, steady=True)
    return {
        "name": name,
        "cpu": steady["cpu"],
        "ratio": steady["ratio"],
        "gap": steady["gap"],
        "cold": statistics.median(cold["first"] for cold, _ in starts),
        "warm": statistics.median(warm["first"] for _, warm in starts),
        "start": statistics.median(warm["first"] / cold["first"] for cold, warm in starts),
        "programs": compiles(starts[0][0]),
        "recompiled": max(compiles(warm) for _, warm in starts),
        "torch": steady["torch"],
    }


def compiles(answer):
    """How many programs a process compiled, in both tiers."""
    return answer["stats"]["compiles"]["quick"] + answer["stats"]["compiles"]["full"]


def duration(seconds):
    """A time in a unit that reads well."""
    for unit, factor in (("s", 1), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def table(rows):
    """The rows as Markdown."""
    lines = [
        "| workload | steady: tpu / CPU eager | CPU eager | first step cold | warm cache | "
        "warm / cold | programs cold, warm | largest gap |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        about = getattr(workloads, r["name"]).__doc__.splitlines()[0].rstrip(".")
        lines.append(
            f"| {r['name']}: {about} | {r['ratio']:.2f} | {duration(r['cpu'])} | "
            f"{duration(r['cold'])} | {duration(r['warm'])} | {r['start']:.2f} | "
            f"{r['programs']}, {r['recompiled']} | {r['gap']:.1e} |"
        )
    return "\n".join(lines)


def names_of(given):
    """Eager workloads, compiled ones, and whether launches are measured."""
    known = [*workloads.ALL, *(f"compiled:{name}" for name in workloads.COMPILED), "launch"]
    for name in given:
        if name not in known:
            sys.exit(f"no workload `{name}`; there are {', '.join(known)}")
    chosen = given or known
    graphs = [name for name in workloads.COMPILED if f"compiled:{name}" in chosen]
    return [name for name in workloads.ALL if name in chosen], graphs, "launch" in chosen


def eager(names):
    """The table of eager workloads."""
    rows = []
    for name in names:
        rows.append(measure(name))
        note(f"{name}: {rows[-1]['ratio']:.2f} times CPU eager")
    return table(rows)


def graphs(names, jax):
    """The table of compiled workloads."""
    rows = []
    for name in names:
        rows.append(compiled.measure(name, workloads.COMPILED[name], jax))
        ratios = (f"{who} {compiled.ratio(rows[-1], who)}" for who in ("jax", "eager", "inductor"))
        note(f"{name}: compiled, to {', to '.join(ratios)}")
    return compiled.table(rows)


def note(text):
    print(text, file=sys.stderr, flush=True)


def head():
    """What the file of numbers says before its tables."""
    import torch

    return (
        "# Numbers\n\nMeasured by `cargo x bench --write docs/numbers.md` with XLA's CPU plugin "
        f"and torch {torch.__version__} on {os.cpu_count()} cores. Ratios are medians of "
        f"{TURNS} turns in which all took part, those of first steps of {STARTS} pairs of processes; "
        "absolute times say little on a shared machine. Nothing here speaks about TPUs.\n\n"
    )


COMPILED = (
    "Through `torch.compile`, the optimizer as it is except in `mlp_whole`; in JAX the whole step is one program. Each in "
    "a process of its own. Peaks are resident memory above what the process held after imports, "
    "compilation included.\n\n"
)
LAUNCH = "A call of a compiled graph, guards aside, with PJRT's part (the least of many).\n\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", nargs="*", default=[], metavar="WORKLOAD")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--jax", metavar="PYTHON", help="an interpreter that can import jax")
    parser.add_argument("--write", help="also write the tables into this file")
    options = parser.parse_args()
    if options.child:
        return child(options.child)
    names, compiled_names, launches = names_of(options.workload)
    parts = [eager(names)] if names else []
    if compiled_names:
        parts.append(COMPILED + graphs(compiled_names, options.jax))
    if launches:
        parts.append(LAUNCH + launch.table(launch.measure(options.jax)))
    text = "\n\n".join(parts)
    print(text)
    if options.write:
        pathlib.Path(options.write).write_text(head() + text + "\n")
    return None


if __name__ == "__main__":
    main()
