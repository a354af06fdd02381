"""Runs one piece of work on two devices and prints what it gave, how fast, and what it took."""

import time

import torch_tpu


def counts():
    """What the runtime has done so far in this process."""
    stats = torch_tpu.stats()
    return {
        "compiled": stats["compiles"]["quick"] + stats["compiles"]["full"],
        "from disk": stats["cache"]["disk_hits"],
        "launches": stats["launches"],
        "fallbacks": sum(op["calls"] for op in stats["fallbacks"].values()),
    }


def timed(work, device):
    """The result of a second run and the seconds of both: the first may have to compile."""
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        result = work(device)
        seconds.append(time.perf_counter() - begin)
    return result, seconds


def compare(title, unit, work, agreement, devices):
    """Prints a table of `work(device) -> (result, units, text)`; returns whether all is well.

    `agreement(first result, second result)` gives a verdict and the words for it.
    """
    print(f"\n{title}\n  device    first s   again s {unit + '/s':>12}  result", flush=True)
    before, results = counts(), []
    for device in devices:
        (result, units, text), (first, again) = timed(work, device)
        print(f"  {device:6} {first:10.2f} {again:9.2f} {units / again:12.1f}  {text}", flush=True)
        results.append(result)
    agrees, words = agreement(*results)
    print(f"  {'agreement' if agrees else 'DISAGREEMENT'}: {words}")
    done = {name: count - before[name] for name, count in counts().items()}
    print("  programs: " + ", ".join(f"{count:,} {name}" for name, count in done.items()))
    return agrees and not done["fallbacks"]
