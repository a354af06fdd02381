"""Compiled graphs on disk: found again, shipped, damaged, and shared by processes."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from torch_tpu import _cli

STEP = """
import json
import torch
import torch_tpu
from torch._dynamo.utils import counters

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 4)
).to("tpu")
step = torch.compile(model, backend="tpu")
loss = step(torch.ones(2, 8, device="tpu")).square().sum()
loss.backward()
numbers = [loss.item(), *(p.grad.sum().item() for p in model.parameters())]
counts = torch_tpu.stats()
made = [one.what for one in torch_tpu.explain() if not one.loaded]
cache = dict(counters["aot_autograd"])
print(json.dumps({"numbers": numbers, "made": made, "aot": cache, "cache": counts["cache"]}))
"""

LONG = """
import json
import torch
import torch_tpu

x = torch.ones(32, 32, device="tpu")

def f(x):
    for i in range(40):
        x = (x @ x.softmax(0) + i).cumsum(0).tanh()
    return x.sum()

total = torch.compile(f, backend="tpu")(x).item()
made = [one.what for one in torch_tpu.explain() if not one.loaded]
print(json.dumps({"total": total, "made": made}))
"""


@pytest.fixture
def store(tmp_path):
    """The variables of a process whose caches are its own folders."""
    variables = {"TORCH_TPU_CACHE_DIR": "programs", "TORCHINDUCTOR_CACHE_DIR": "traces"}
    return {name: str(tmp_path / folder) for name, folder in variables.items()}


@pytest.fixture
def process(python, store):
    """What a program printed, run as a process of its own on the store."""
    return lambda code, **variables: json.loads(python(code, **(store | variables)))


def test_a_second_process_neither_traces_nor_compiles(process):
    first, second = process(STEP), process(STEP)
    assert "graph 0" in first["made"] and "graph 1" in first["made"]
    assert first["aot"]["autograd_cache_saved"] == 1 and "autograd_cache_hit" not in first["aot"]
    assert second["made"] == [] and second["aot"]["autograd_cache_hit"] == 1
    assert second["numbers"] == first["numbers"]


def test_other_options_are_traced_and_compiled_again(process):
    process(STEP)
    other = STEP.replace('"tpu")\nloss', '"tpu", mode="max-autotune")\nloss')
    again = process(other)
    assert {"graph 0", "graph 1"} <= set(again["made"])
    assert again["aot"]["autograd_cache_saved"] == 1


def test_a_store_is_shipped(process, store, tmp_path, capsys):
    first = process(STEP)
    archive, there = str(tmp_path / "store.tar.gz"), str(tmp_path / "there")
    here = store["TORCH_TPU_CACHE_DIR"]
    assert _cli.main(["cache", "--dir", here, "export", archive]) == 0
    assert _cli.main(["cache", "--dir", there, "import", archive]) == 0
    count = len([n for n in os.listdir(f"{here}/programs") if n.endswith(".program")])
    assert f"{count} programs added, 0 were there, 0 files refused" in capsys.readouterr().out
    traces = str(tmp_path / "no traces")
    second = process(STEP, TORCH_TPU_CACHE_DIR=there, TORCHINDUCTOR_CACHE_DIR=traces)
    assert second["made"] == [] and second["numbers"] == first["numbers"]
    assert _cli.main(["cache", "--dir", there, "import", archive]) == 0
    assert f"0 programs added, {count} were there" in capsys.readouterr().out


def test_a_damaged_store_is_seen_and_compiled_again(process, store, capsys):
    first = process(STEP)
    here = store["TORCH_TPU_CACHE_DIR"]
    programs = [p for p in os.listdir(f"{here}/programs") if p.endswith(".program")]
    for name in programs:
        with open(f"{here}/programs/{name}", "r+b") as file:
            file.seek(-9, os.SEEK_END)
            file.write(b"damaged!!")
    assert _cli.main(["cache", "--dir", here, "verify"]) == 1
    assert f"0 sound, {len(programs)} not" in capsys.readouterr().out
    second = process(STEP)
    assert second["numbers"] == first["numbers"]
    assert second["cache"]["misses"]["corrupt"] == len(programs)
    assert _cli.main(["cache", "--dir", here, "verify"]) == 0


def test_what_is_listed_and_pruned(process, store, capsys):
    process(STEP)
    command = ["cache", "--dir", store["TORCH_TPU_CACHE_DIR"]]
    assert _cli.main([*command, "ls", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    count = len(entries)
    assert count > 2 and {e["state"] for e in entries} == {"sound"}
    assert {e["tier"] for e in entries} == {"quick", "full"}
    assert _cli.main([*command, "ls"]) == 0
    assert entries[0]["key"][:10] in capsys.readouterr().out
    assert _cli.main([*command, "prune", "--size", "0"]) == 0
    assert capsys.readouterr().out == f"{count} programs removed, 0 B left\n"


def test_a_miss_is_explained(process, store, capsys):
    process(STEP)
    root = store["TORCH_TPU_CACHE_DIR"]
    command = ["cache", "--dir", root, "why-miss"]
    assert _cli.main(command) == 0
    assert "found here" in capsys.readouterr().out
    (maker,) = (name for name in os.listdir(f"{root}/makers") if name.endswith(".maker"))
    with open(f"{root}/makers/{maker}", "r+") as file:
        text = file.read()
        file.seek(0)
        file.write(text.replace("plugin ", "plugin 0", 1))
    assert _cli.main(command) == 0
    assert "made by another maker: its plugin differs" in capsys.readouterr().out
    assert _cli.main([*command, "0123456789abcdef"]) == 1


def start(code, tmp_path, store):
    path = tmp_path / "started.py"
    path.write_text(code)
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, path], env=os.environ | store, **pipe)


def test_a_process_killed_while_it_compiles_harms_nobody(process, store, tmp_path):
    victim = start(LONG, tmp_path, store)
    programs = f"{store['TORCH_TPU_CACHE_DIR']}/programs"
    deadline = time.monotonic() + 120
    # The graph is what is compiled once the small programs before it are there.
    while time.monotonic() < deadline and victim.poll() is None:
        names = os.listdir(programs) if os.path.isdir(programs) else []
        if any(n.endswith(".program") for n in names) and any(n.endswith(".lock") for n in names):
            break
        time.sleep(0.001)
    victim.send_signal(signal.SIGKILL)
    assert victim.wait() == -signal.SIGKILL
    after = process(LONG)
    assert "graph 0" in after["made"]
    again = process(LONG)
    assert again["made"] == [] and again["total"] == after["total"]


def test_two_processes_compile_a_graph_once(store, tmp_path):
    both = [start(LONG, tmp_path, store) for _ in range(2)]
    printed = [one.communicate(timeout=300) for one in both]
    assert [one.returncode for one in both] == [0, 0], printed
    one, other = (json.loads(out) for out, _ in printed)
    assert one["total"] == other["total"]
    assert sorted(one["made"] + other["made"]).count("graph 0") == 1
