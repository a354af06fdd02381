"""Compiled workloads: the device beside torch's CPU eager mode, Inductor and ``jax.jit``.

Every implementation runs in a process of its own; all processes of a workload live at once and
take turns, so a ratio is formed inside a turn. The parent asks by lines on their input.
"""

import json
import os
import pathlib
import select
import statistics
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER))

TURNS = 7
PATIENCE = 600
NAMES = ("tpu", "eager", "inductor", "jax")


def memory(key):
    """MB that the process holds (``VmRSS``) or held at most (``VmHWM``)."""
    status = pathlib.Path("/proc/self/status").read_text()
    return next(int(x.split()[1]) for x in status.splitlines() if x.startswith(key)) / 1024


def torch_step(implementation, name):
    """Imports, then gives what makes the step and what reads its result."""
    import torch
    import torch._dynamo
    import workloads

    device = "tpu" if implementation == "tpu" else "cpu"
    torch.ones(1, device=device).cpu()
    backend = {"tpu": "tpu", "inductor": "inductor"}.get(implementation)

    def wrap(function):
        compiled = torch.compile(function, backend=backend, dynamic=False) if backend else None
        return compiled or function

    return lambda: getattr(workloads, name)(device, wrap), lambda out: out.cpu().double().numpy()


def jax_step(name, arrays):
    """The same for the twin in JAX."""
    import jax.numpy as jnp
    import jax_twins
    import numpy

    jnp.zeros(1).block_until_ready()

    def make():
        with numpy.load(arrays) as data:
            return getattr(jax_twins, name)(*jax_twins.load(data.items()))

    return make, lambda out: numpy.asarray(out, numpy.float64)


def answer(**values):
    """One line for the parent."""
    print(json.dumps(values), flush=True)


def child(implementation, name, arrays):
    """Sets the step up, then runs as many steps as each line asks for."""
    jax = implementation == "jax"
    make, read = jax_step(name, arrays) if jax else torch_step(implementation, name)
    base = memory("VmRSS")
    step = make()
    for line in sys.stdin:
        count, start = int(line), time.perf_counter()
        for _ in range(count):
            out = step()
        sample = read(out).ravel()
        seconds = (time.perf_counter() - start) / count
        sample = sample[:: max(sample.size // 64, 1)].tolist()
        answer(seconds=seconds, sample=sample, peak=memory("VmHWM") - base)


class Process:
    """An implementation at work."""

    def __init__(self, python, implementation, name, arrays, cache):
        environment = dict(os.environ, TORCH_TPU_CACHE_DIR=cache, TORCHINDUCTOR_CACHE_DIR=cache)
        environment |= {"JAX_PLATFORMS": "cpu", "TORCH_TPU_FALLBACK": "error"}
        command = [python, __file__, implementation, name, arrays]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            bufsize=1,
        )

    def run(self, count):
        """What so many steps took.

        Raises:
            RuntimeError: the process ended or is silent; its last words.
        """
        try:
            self.process.stdin.write(f"{count}\n")
        except BrokenPipeError:
            pass
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.stop()
            self.log.seek(0)
            words = self.log.read().decode(errors="replace").strip().splitlines()
            raise RuntimeError(words[-1] if words else "no answer")
        return json.loads(line)

    def stop(self):
        self.process.kill()
        self.process.wait()


def measure(name, count, jax_python):
    """One row of the table: a dictionary."""
    import numpy
    import workloads

    with tempfile.TemporaryDirectory() as folder:
        arrays = os.path.join(folder, "arrays.npz")
        numpy.savez(arrays, **workloads.arrays(name))
        processes, first, failed = {}, {}, {}
        for who in NAMES if jax_python else NAMES[:-1]:
            python = jax_python if who == "jax" else sys.executable
            cache = os.path.join(folder, who)
            process = Process(python, who, name, arrays, cache)
            try:
                first[who] = process.run(1)
                process.run(max(count // 2, 2))
                processes[who] = process
            except RuntimeError as error:
                failed[who] = str(error)
        turns = take_turns(processes, count)
        for process in processes.values():
            process.stop()
        warm = Process(sys.executable, "tpu", name, arrays, os.path.join(folder, "tpu"))
        second = warm.run(1) if "tpu" in processes else None
        warm.stop()
    return row(name, turns, first, second, failed)


def take_turns(processes, count):
    """Answers of every process, turn by turn; the order is turned round each time."""
    turns = []
    for turn in range(TURNS):
        order = list(processes)[:: -1 if turn % 2 else 1]
        turns.append({who: processes[who].run(count) for who in order})
    return turns


def row(name, turns, first, second, failed):
    """Medians of the ratios, first steps, peaks."""
    done = {"name": name, "failed": failed, "warm": second and second["seconds"]}
    for who in turns[0]:
        ratios = [turn["tpu"]["seconds"] / turn[who]["seconds"] for turn in turns]
        done[f"to_{who}"] = statistics.median(ratios)
        done[f"spread_{who}"] = (min(ratios), max(ratios))
        done[f"first_{who}"] = first[who]["seconds"]
        done[f"peak_{who}"] = turns[-1][who]["peak"]
        done[f"gap_{who}"] = gap(first[who]["sample"], first["tpu"]["sample"])
    done["seconds"] = statistics.median(turn["tpu"]["seconds"] for turn in turns)
    return done


def gap(reference, got):
    """Largest difference of the first steps' results, relative to the reference's largest value."""
    largest = max(abs(x) for x in reference) or 1e-30
    return max(abs(x - y) for x, y in zip(reference, got, strict=True)) / largest


def table(rows):
    """The rows as Markdown."""
    import workloads

    lines = [
        "| compiled workload | tpu / jax.jit | tpu / CPU eager | tpu / Inductor | tpu | "
        "first step cold, warm | cold of jax, Inductor | peak MB of tpu, jax | largest gap |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        about = getattr(workloads, r["name"]).__doc__.splitlines()[0].rstrip(".")
        ratios = " | ".join(ratio(r, who) for who in ("jax", "eager", "inductor"))
        colds = ", ".join(amount(r.get(f"first_{who}"), "s") for who in ("jax", "inductor"))
        peaks = ", ".join(amount(r.get(f"peak_{who}"), "") for who in ("tpu", "jax"))
        gaps = max(value for key, value in r.items() if key.startswith("gap_"))
        lines.append(
            f"| {r['name']}: {about} | {ratios} | {1e3 * r['seconds']:.3g} ms | "
            f"{amount(r['first_tpu'], 's')}, {amount(r['warm'], 's')} | {colds} | {peaks} | "
            f"{gaps:.1e} |"
        )
        lines += [f"\n{r['name']}, {who}: {why}\n" for who, why in r["failed"].items()]
    return "\n".join(lines)


def ratio(row, who):
    """Median, and the spread of the turns."""
    if f"to_{who}" not in row:
        return "-"
    low, high = row[f"spread_{who}"]
    return f"{row[f'to_{who}']:.2f} ({low:.2f} to {high:.2f})"


def amount(value, unit):
    """A figure of three digits, or a dash."""
    return "-" if value is None else f"{value:.3g} {unit}".rstrip()


if __name__ == "__main__":
    child(*sys.argv[1:4])
