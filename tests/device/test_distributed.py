"""``torch.distributed`` with two processes, against Gloo on the CPU."""

import pathlib
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def collectives(rank, size, device):
    """Every collective that PyTorch's public functions reach; results on the CPU."""
    x = (torch.arange(6.0) + 10 * rank).to(device)
    seen = []

    def note(*tensors):
        seen.extend(t.cpu().clone() for t in tensors)

    y = x.clone()
    dist.all_reduce(y)
    note(y)
    y = x[::2].clone()
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    note(y)
    y = x.clone()
    dist.broadcast(y, 1)
    note(y)
    y = x.clone()
    dist.reduce(y, 0)
    if rank == 0:
        note(y)
    parts = [torch.empty(6, device=device) for _ in range(size)]
    dist.all_gather(parts, x)
    note(*parts)
    whole = torch.empty(12, device=device)
    dist.all_gather_into_tensor(whole, x)
    note(whole)
    half = torch.empty(3, device=device)
    dist.reduce_scatter_tensor(half, x)
    note(half)
    dist.scatter(half, list(x.split(3)) if rank == 0 else None, src=0)
    note(half)
    swapped = torch.empty(6, device=device)
    dist.all_to_all_single(swapped, x)
    note(swapped)
    if rank == 0:
        dist.send(x * 2, 1)
    else:
        y = torch.zeros(6, device=device)
        dist.recv(y, 0)
        note(y)
    dist.barrier()
    return seen


def train(rank, device):
    """Losses and weights of three steps of data parallel training."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 3).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    losses = []
    for _ in range(3):
        x = torch.randn(5, 4).to(device)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [torch.tensor(losses), *(p.detach().cpu() for p in model.parameters())]


def work(rank, size, device, folder):
    backend = dist.get_default_backend_for_device(device)
    store = f"file://{folder}/store-{device}"
    dist.init_process_group(backend, init_method=store, rank=rank, world_size=size)
    results = collectives(rank, size, device) + train(rank, device)
    torch.save(results, f"{folder}/{device}-{rank}")
    dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_available(), reason="torch has no torch.distributed")
def test_two_processes_agree_with_the_cpu(device, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("cpu", device.type):
            mp.spawn(work, (2, kind, folder), nprocs=2)
        for rank in range(2):
            here, there = (
                torch.load(pathlib.Path(folder) / f"{kind}-{rank}") for kind in (device.type, "cpu")
            )
            assert len(here) == len(there) > 10
            for one, other in zip(here, there):
                torch.testing.assert_close(one, other)


def test_the_backend_has_its_name():
    assert dist.get_default_backend_for_device("tpu") == "tpu_dist"
