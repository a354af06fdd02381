"""Pinned host memory."""

import gc

import pytest
import torch


def test_pinned_tensors_know_it():
    x = torch.arange(100.0)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned.device.type == "cpu" and pinned.equal(x)
    assert pinned.pin_memory() is pinned
    assert pinned[10:].is_pinned() and pinned.view(10, 10).t().is_pinned()
    assert not pinned.clone().is_pinned()
    assert torch.empty(7, pin_memory=True).is_pinned()
    assert not torch.empty(0, pin_memory=True).is_pinned()
    assert pinned.untyped_storage().is_pinned() and not x.untyped_storage().is_pinned()


def test_blocks_are_aligned_for_reading_without_a_copy():
    blocks = [torch.empty(n, dtype=torch.uint8, pin_memory=True) for n in (1, 63, 64, 65, 4097)]
    assert all(block.data_ptr() % 64 == 0 for block in blocks)


def test_a_freed_block_is_no_longer_pinned():
    pinned = torch.ones(1 << 20, pin_memory=True)
    address = pinned.data_ptr()
    del pinned
    gc.collect()
    assert torch.accelerator.memory_stats() is not None
    assert address


def test_copies_from_and_to_pinned_memory():
    source = torch.arange(1000.0).pin_memory()
    x = source.to("tpu", non_blocking=True)
    source.zero_()
    assert x.cpu().equal(torch.arange(1000.0))
    target = torch.empty(1000, pin_memory=True)
    target.copy_(x * 2, non_blocking=True)
    torch.tpu.synchronize()
    assert target.equal(torch.arange(1000.0) * 2)
    assert x.to("cpu", non_blocking=True).equal(torch.arange(1000.0))


def test_only_host_tensors_can_be_pinned():
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="tpu").pin_memory()
    assert not torch.ones(2, device="tpu").is_pinned()


def test_the_cache_may_be_emptied_at_exit(python):
    code = """
import atexit, torch
atexit.register(torch.accelerator.empty_host_cache)
keep = torch.ones(1000).pin_memory()
print(keep.to("tpu").sum().item())
"""
    assert python(code) == "1000.0\n"
