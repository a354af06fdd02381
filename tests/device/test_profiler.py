"""The profiler sees what runs on the device."""

import json

import torch
from torch.profiler import ProfilerActivity, profile, record_function


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
