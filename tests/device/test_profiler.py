"""The profiler sees what runs on the device."""

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
