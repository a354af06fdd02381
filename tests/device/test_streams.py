"""Streams and events."""

import threading
import time

import pytest
import torch


def test_streams_have_names():
    first, second = torch.tpu.Stream(), torch.Stream(device="tpu")
    assert first.device == torch.device("tpu:0") and first != second
    assert torch.tpu.default_stream().stream_id == 0
    assert torch.tpu.default_stream() not in (first, second)


def test_a_stream_is_current_for_its_block():
    default, stream = torch.tpu.default_stream(), torch.tpu.Stream()
    assert torch.tpu.current_stream() == torch.accelerator.current_stream() == default
    with torch.tpu.stream(stream):
        assert torch.tpu.current_stream() == torch.accelerator.current_stream() == stream
        with torch.tpu.stream(None):
            assert torch.tpu.current_stream() == stream
        with torch.tpu.StreamContext(default):
            assert torch.tpu.current_stream() == default
    assert torch.tpu.current_stream() == default
    with stream:
        assert torch.tpu.current_stream() == stream
    torch.tpu.set_stream(stream)
    assert torch.tpu.current_stream() == stream
    torch.tpu.set_stream(None)
    assert torch.tpu.current_stream() == stream
    torch.tpu.set_stream(default)


def test_each_thread_has_its_stream():
    seen = []
    with torch.tpu.stream(torch.tpu.Stream()):
        thread = threading.Thread(target=lambda: seen.append(torch.tpu.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.tpu.default_stream()]


def test_work_on_several_streams_is_ordered():
    x = torch.zeros(1000, device="tpu")
    producer, consumer = torch.tpu.Stream(), torch.tpu.Stream()
    with torch.tpu.stream(producer):
        for _ in range(10):
            x += 1
        ready = producer.record_event()
    with torch.tpu.stream(consumer):
        consumer.wait_event(ready)
        consumer.wait_stream(producer)
        y = x * 2
        y.record_stream(consumer)
    consumer.synchronize()
    assert consumer.query() and producer.query()
    assert y.eq(20).all().item()


def test_events_measure_time():
    begin, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    begin.record()
    time.sleep(0.05)
    end.record()
    end.synchronize()
    assert 50 <= begin.elapsed_time(end) < 5000
    assert end.elapsed_time(begin) == pytest.approx(-begin.elapsed_time(end))


def test_an_event_comes_after_the_work_before_it():
    x = torch.ones(300, 300, device="tpu")
    torch.tpu.synchronize()
    begin, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    wall = time.perf_counter()
    begin.record()
    for _ in range(20):
        x = x @ x / 300
    end.record()
    x.cpu()
    wall = (time.perf_counter() - wall) * 1000
    assert 0 < begin.elapsed_time(end) <= wall


def test_events_without_a_record():
    event = torch.tpu.Event(enable_timing=True)
    assert event.query()
    event.synchronize()
    torch.tpu.current_stream().wait_event(event)
    recorded = torch.tpu.Event(enable_timing=True)
    recorded.record()
    with pytest.raises(ValueError, match="must be recorded"):
        event.elapsed_time(recorded)
    untimed = torch.tpu.Event()
    untimed.record()
    assert untimed.query()
    with pytest.raises(ValueError, match="enable_timing=True"):
        untimed.elapsed_time(recorded)


def test_synchronize():
    x = torch.ones(4, device="tpu") * 3
    for wait in (torch.tpu.synchronize, torch.accelerator.synchronize):
        wait()
        wait("tpu:0")
    assert x.tolist() == [3, 3, 3, 3]
