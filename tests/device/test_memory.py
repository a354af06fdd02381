"""Memory figures, and tensors that hold none."""

import gc

import pytest
import torch

from torch_tpu._memory import largest_tensors

MIB = 1 << 20


@pytest.fixture(autouse=True)
def settled():
    """Constants that programs read are kept on the device from their first use."""
    x = torch.zeros(2, device="tpu") + torch.ones(2, device="tpu")
    x += 1
    del x
    gc.collect()
    torch.tpu.synchronize()
    torch.tpu.reset_peak_memory_stats()


def test_allocated_follows_tensors():
    before = torch.tpu.memory_allocated()
    x = torch.ones(MIB // 4, device="tpu")
    assert torch.tpu.memory_allocated() - before == MIB
    y = x + 1
    assert torch.tpu.memory_allocated() - before == 2 * MIB
    del x
    assert torch.tpu.memory_allocated() - before == MIB
    assert torch.tpu.max_memory_allocated() - before >= 2 * MIB
    del y
    assert torch.tpu.memory_allocated() == before
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() == before


def test_views_share_memory():
    x = torch.ones(256, 1024, device="tpu")
    before = torch.tpu.memory_allocated()
    views = [x.t(), x[3:], x.view(-1), x.expand(4, 256, 1024), x.detach()]
    assert torch.tpu.memory_allocated() == before
    del x
    gc.collect()
    assert torch.tpu.memory_allocated() == before
    del views
    gc.collect()
    assert torch.tpu.memory_allocated() == before - MIB


def test_empty_holds_no_memory():
    before = torch.tpu.memory_allocated()
    size = torch.tpu.mem_get_info()[1] // 2
    x = torch.empty(size, dtype=torch.uint8, device="tpu")
    assert x.numel() == size
    assert torch.tpu.memory_allocated() == before


def test_what_can_never_fit_is_refused_where_it_is_asked_for():
    held = torch.ones(MIB, device="tpu")
    with pytest.raises(torch.OutOfMemoryError, match="tried to allocate 8796093022208 bytes") as e:
        torch.empty(1 << 43, dtype=torch.uint8, device="tpu")
    assert f"{held.nbytes} bytes by float32[{MIB}]" in str(e.value)


def test_the_largest_are_named_beside_what_vmap_left():
    left = []
    torch.vmap(lambda x: left.append(x) or x * 2)(torch.ones(2, device="tpu"))
    held = torch.ones(MIB, device="tpu")
    assert f"{held.nbytes} bytes by float32[{MIB}]" in largest_tensors()


def test_in_place_work_takes_no_second_buffer_for_good():
    x = torch.zeros(MIB // 4, device="tpu")
    before = torch.tpu.memory_allocated()
    for _ in range(5):
        x += 1
    assert torch.tpu.memory_allocated() == before
    assert x.eq(5).all().item()


def test_free_and_total():
    free, total = torch.tpu.mem_get_info()
    assert 0 < free <= total
    assert torch.accelerator.get_memory_info() == (free, total)
    x = torch.ones(MIB // 4, device="tpu")
    assert free - torch.tpu.mem_get_info()[0] == x.nbytes


def test_all_interfaces_agree():
    x = torch.ones(MIB // 4, device="tpu")
    allocated, peak = torch.tpu.memory_allocated(), torch.tpu.max_memory_allocated()
    assert torch.tpu.memory_reserved() == torch.accelerator.memory_allocated() == allocated
    assert torch.tpu.max_memory_reserved() == torch.accelerator.max_memory_allocated() == peak
    assert torch.accelerator.memory_reserved() == allocated
    stats = torch.tpu.memory_stats("tpu:0")
    assert stats["allocated_bytes.all.current"] == allocated >= x.nbytes
    assert stats["allocated_bytes.all.peak"] == peak
    assert stats["allocation.all.current"] >= 1
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()
    torch.tpu.reset_accumulated_memory_stats()


def test_summary():
    x = torch.ones(MIB // 4, device="tpu")
    text = torch.tpu.memory_summary()
    assert text.splitlines()[0] == "memory of tpu:0"
    assert all(word in text for word in ("allocated", "peak", "live buffers"))
    short = torch.tpu.memory_summary(abbreviated=True)
    assert short.startswith("tpu:0: ") and "\n" not in short and "MiB" in short
    assert x.nbytes == MIB


def test_caches_may_be_emptied():
    x = torch.ones(4, device="tpu")
    for empty in (
        torch.tpu.empty_cache,
        torch.tpu.empty_host_cache,
        torch.tpu.ipc_collect,
        torch.accelerator.empty_cache,
        torch.accelerator.empty_host_cache,
    ):
        empty()
    assert x.tolist() == [1, 1, 1, 1]


def test_dead_results_lend_their_memory_to_no_living_one():
    """Small results are written where dead ones were."""
    x = torch.arange(16.0, device="tpu")
    kept = []
    for i in range(40):
        dead = x * i
        view = (x + i)[4:8]
        del dead
        kept.append((i, view, x - i))
    before = torch.tpu.memory_allocated()
    for i, view, difference in kept:
        assert view.tolist() == [n + i for n in range(4, 8)]
        assert difference.tolist() == [n - i for n in range(16)]
    del kept, view, difference
    assert torch.tpu.memory_allocated() == before - 80 * 64
    torch.tpu.empty_cache()
    assert (x + 1).tolist() == [n + 1 for n in range(16)]


def test_dead_uploads_lend_nothing():
    """The memory of an array that was uploaded in place stays the array's."""
    array = torch.full((64,), 3.0).pin_memory()
    torch.ones(64, device="tpu") + array.to("tpu", non_blocking=True)
    gc.collect()
    for _ in range(3):
        torch.ones(64, device="tpu") + 1
    assert array.tolist() == [3] * 64


def test_storages_grow_and_shrink_in_place():
    x = torch.arange(4.0, device="tpu")
    view = x[:2]
    x.untyped_storage().resize_(32)
    assert x.untyped_storage().nbytes() == 32
    assert x.tolist() == [0, 1, 2, 3] and view.tolist() == [0, 1]
    x.resize_(8)
    assert x[:4].tolist() == [0, 1, 2, 3]
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0
    x.untyped_storage().resize_(16)
    assert x.untyped_storage().nbytes() == 16


def test_storages_move():
    storage = torch.arange(4, dtype=torch.uint8).untyped_storage()
    moved = storage.to(device="tpu")
    assert moved.device == torch.device("tpu:0") and moved.is_tpu
    assert moved.cpu().tolist() == moved.tolist() == [0, 1, 2, 3]
    assert moved.clone().tolist() == [0, 1, 2, 3]
