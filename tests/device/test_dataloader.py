"""Data loading beside a running device: worker processes, pinning, fork."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset


def dataset():
    return TensorDataset(torch.arange(64.0).view(32, 2), torch.arange(32))


def total(loader):
    seen = torch.zeros(2, device="tpu")
    labels = []
    for x, y in loader:
        seen += x.to("tpu", non_blocking=True).sum(0)
        labels += y.tolist()
    assert sorted(labels) == list(range(32))
    return seen.tolist()


EXPECTED = torch.arange(64.0).view(32, 2).sum(0).tolist()


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_after_the_device_has_started(context):
    torch.ones(1, device="tpu")
    loader = DataLoader(
        dataset(), batch_size=8, shuffle=True, num_workers=2, multiprocessing_context=context
    )
    assert total(loader) == EXPECTED


@pytest.mark.parametrize("workers", [0, 1])
def test_pinned_batches(workers):
    loader = DataLoader(dataset(), batch_size=8, num_workers=workers, pin_memory=True)
    assert all(x.is_pinned() and y.is_pinned() for x, y in loader)
    assert total(loader) == EXPECTED


def test_shuffling_follows_the_seed():
    def order():
        torch.manual_seed(1)
        return [y.tolist() for _, y in DataLoader(dataset(), batch_size=4, shuffle=True)]

    assert order() == order()


class OnTheDevice(torch.utils.data.Dataset):
    """A dataset that computes on the device; fine without workers, an error in a forked one."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.ones(2, device="tpu") * index


def test_a_dataset_on_the_device():
    batches = list(DataLoader(OnTheDevice(), batch_size=2))
    assert batches[0].is_tpu and batches[0].tolist() == [[0, 0], [1, 1]]


def test_the_device_in_a_forked_worker_raises():
    torch.ones(1, device="tpu")
    loader = DataLoader(OnTheDevice(), num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match="fork"):
        list(loader)
    assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]


def test_a_forked_process_may_leave(python):
    code = """
import os, torch
x = torch.ones(1000, device="tpu")
child = os.fork()
if child == 0:
    assert torch.tpu._is_in_bad_fork()
    torch.manual_seed(0)
    assert (torch.ones(2) + 1).tolist() == [2, 2]
    try:
        x + 1
    except RuntimeError as error:
        assert "fork" in str(error), error
        del x
        os._exit(7)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print((x + 1).sum().item())
"""
    assert python(code) == "2000.0\n"


def test_a_process_forked_before_the_start_is_free(python):
    code = """
import os, torch
torch.manual_seed(0)
child = os.fork()
if child == 0:
    assert not torch.tpu._is_in_bad_fork()
    os._exit(int((torch.ones(2, device="tpu") * 3).sum().item()))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
print("done")
"""
    assert python(code) == "done\n"
