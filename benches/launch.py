"""What one compiled call costs the host, by the number of its tensor arguments.

The call of a graph's program as AOTAutograd makes it, without Dynamo's guards: from Python to the
launch by PJRT, which is part of the figure, and back to new tensors. The program adds up small
tensors. Beside it the call of a ``jax.jit`` function of the same sum, where a Python has JAX.
"""

import json
import pathlib
import subprocess
import sys
import time

SIZES = (1, 10, 50, 100, 200)
ROUNDS = 100
CALLS = 20


def fastest(functions):
    """Seconds a call of each, the least of many interleaved rounds."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(ROUNDS):
        for key, function in functions.items():
            function()
            start = time.perf_counter()
            for _ in range(CALLS):
                function()
            best[key] = min(best[key], (time.perf_counter() - start) / CALLS)
    return best


def of_tpu(count):
    """A call of a program with `count` arguments."""
    import torch

    from torch_tpu._graph.whole import Whole

    nodes = [{"op": "tensor", "args": [i]} for i in range(count)]
    for i in range(count):
        sum_so_far = {"node": len(nodes) - 1 if i else 0}
        nodes.append({"op": "add.Tensor", "args": [sum_so_far, {"node": i}, 1]})
    text = json.dumps({"nodes": nodes, "outputs": [{"node": len(nodes) - 1}], "written": []})
    whole = Whole(text, (), [], list(range(count)), [], 1, [0], count)
    given = [torch.ones(4).to("tpu") for _ in range(count)]
    call = whole.bind(whole.add())
    return lambda: call(*given)


def of_jax(count):
    """A call of a jitted function with `count` arguments."""
    import jax
    import jax.numpy as jnp

    call = jax.jit(lambda first, *rest: sum(rest, first + first))
    given = [jnp.ones(4) + i for i in range(count)]
    return lambda: call(*given)


def child(who):
    """Prints microseconds a call by number of arguments."""
    make = of_jax if who == "jax" else of_tpu
    best = fastest({count: make(count) for count in SIZES})
    print(json.dumps({count: 1e6 * seconds for count, seconds in best.items()}))


def measure(jax_python):
    """Microseconds by implementation and number of arguments."""
    found = {}
    for who, python in (("tpu", sys.executable), ("jax", jax_python)):
        if python:
            command = [python, __file__, who]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"launch: {done.stderr[-2000:]}")
            found[who] = {int(k): v for k, v in json.loads(done.stdout.splitlines()[-1]).items()}
    return found


def table(found):
    """The figures as Markdown, with the slope between one argument and the most."""
    head = " | ".join(f"{count} arguments" for count in SIZES)
    lines = [f"| one call | {head} | each argument more |", "|---" * (len(SIZES) + 2) + "|"]
    for who, by_count in found.items():
        slope = (by_count[SIZES[-1]] - by_count[SIZES[0]]) / (SIZES[-1] - SIZES[0])
        cells = " | ".join(f"{by_count[count]:.1f} us" for count in SIZES)
        lines.append(f"| {who} | {cells} | {slope:.2f} us |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    child(sys.argv[1])
