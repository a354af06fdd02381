"""The profiler sees what runs on the device."""

import gzip
import json
import time

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

import torch_tpu


def test_calls_and_compiles_are_events():
    x = torch.arange(7.0, device="tpu")
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        with record_function("mine"):
            # A shape of its own, so that there is something to compile or to load.
            (x.view(1, 7, 1, 1) * 3 + x.view(7, 1, 1)).sum().item()
    events = {event.key: event for event in profiled.key_averages()}
    assert {"mine", "aten::mul", "aten::add", "aten::sum"} <= events.keys()
    ours = [name for name in events if name.startswith("tpu::")]
    assert ours, sorted(events)
    assert all(events[name].cpu_time_total > 0 for name in ours)


def test_the_trace_can_be_written(tmp_path):
    x = torch.ones(4, device="tpu")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        (x + 1).cpu()
    path = tmp_path / "trace.json"
    profiled.export_chrome_trace(str(path))
    assert "aten::add" in path.read_text()


def test_a_trace_for_tensorboard_has_graphs_and_lines(tmp_path):
    def double_and_add(x):
        return (x * 2 + 1).sum()

    compiled = torch.compile(double_and_add, backend="tpu")
    x = torch.ones(3, 5, device="tpu", requires_grad=True)
    compiled(x).backward()
    # Dynamo has traced by now, of which the profiler would keep every Python call.
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path))
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, on_trace_ready=handler):
        (x + 1).sum().backward()
        compiled(x).backward()
    (path,) = tmp_path.glob("*.pt.trace.json")
    events = json.loads(path.read_text())["traceEvents"]
    spans = [e for e in events if e.get("ph") == "X"]
    names = [e["name"] for e in spans]
    # Forward and backward of the graph, each a launch of its own.
    assert names.count("torch_tpu::run_graph") == 2
    graphs = [e for e in spans if e["name"] == "torch_tpu::run_graph"]
    calls = [e for e in spans if e["name"] == "tpu::call"]
    for graph in graphs:
        end = graph["ts"] + graph["dur"]
        within = [c for c in calls if graph["ts"] <= c["ts"] and c["ts"] + c["dur"] <= end]
        assert len(within) == 1
    lines = [e["name"] for e in spans if e.get("cat") == "python_function"]
    assert any("test_profiler.py" in line and "double_and_add" in line for line in lines)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_device_spans_and_host_gaps_are_in_the_trace(tmp_path, name):
    x = torch.ones(300, 300, device="tpu")
    double = torch.compile(lambda x: torch.tanh(x @ x) * 2, backend="tpu")
    double(x)
    with torch_tpu.profile(activities=[ProfilerActivity.CPU]) as profiled:
        double(x)
        torch.tpu.synchronize()
        time.sleep(0.02)
        x @ x
    path = tmp_path / name
    profiled.export_chrome_trace(str(path))
    data = path.read_bytes()
    events = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)["traceEvents"]
    graph, product = (e for e in events if e.get("cat") == "kernel")
    assert graph["name"].startswith("graph ") and product["name"] == "mm"
    assert all("test_profiler.py:" in span["args"]["line"] for span in (graph, product))
    assert graph["dur"] > 0 and product["dur"] > 0
    (gap,) = [e for e in events if e.get("cat") == "host_gap"]
    assert gap["dur"] >= 19e3 and gap["args"]["before"] == "mm"
    assert graph["ts"] + graph["dur"] <= gap["ts"] + 1
    # On the clock of the host's own events, to some microseconds.
    calls = [e for e in events if e["name"] == "tpu::call"]
    within = [c for c in calls if c["ts"] - 500 <= graph["ts"] <= c["ts"] + c["dur"] + 500]
    assert len(within) == 1


def test_without_a_profile_nothing_is_noted():
    (torch.ones(3, device="tpu") + 1).cpu()
    assert json.loads(torch_tpu._loader.native().stop_launches()) == []
