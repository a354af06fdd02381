"""Copies of tensors: deepcopy, pickle, other processes, other libraries."""

import copy
import pickle

import numpy
import pytest
import torch


def test_deepcopy_makes_new_memory():
    x = torch.arange(4.0, device="tpu")
    y = copy.deepcopy(x)
    y += 1
    assert x.tolist() == [0, 1, 2, 3] and y.tolist() == [1, 2, 3, 4]
    assert y.device == x.device


def test_deepcopy_keeps_sharing():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)).to("tpu")
    model[1].weight = model[0].weight
    twin = copy.deepcopy(model)
    assert twin[1].weight is twin[0].weight and twin[0].weight is not model[0].weight
    assert twin[0].weight.is_tpu and twin[0].weight.equal(model[0].weight)
    base = torch.zeros(4, device="tpu")
    base2, view2 = copy.deepcopy([base, base[1:]])
    base2 += 1
    assert view2.tolist() == [1, 1, 1]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    x = torch.tensor([[1.5, -2.0]], device="tpu", requires_grad=True)
    y = pickle.loads(pickle.dumps(x, protocol))
    assert y.device == x.device and y.requires_grad and y.tolist() == x.tolist()


def test_pickle_of_a_model():
    model = torch.nn.Linear(3, 2).to("tpu")
    twin = pickle.loads(pickle.dumps(model))
    x = torch.ones(1, 3, device="tpu")
    assert twin(x).equal(model(x))


def test_devices_and_streams_in_pickles():
    assert pickle.loads(pickle.dumps(torch.device("tpu:0"))) == torch.device("tpu:0")


def test_numpy():
    x = torch.arange(3.0, device="tpu")
    with pytest.raises(TypeError, match="can't convert tpu:0 device type tensor to numpy"):
        x.numpy()
    assert numpy.array_equal(x.cpu().numpy(), [0, 1, 2])
    assert numpy.array_equal(x.numpy(force=True), [0, 1, 2])
    assert torch.from_numpy(numpy.ones(2)).to("tpu").dtype == torch.float64
    assert torch.tensor(numpy.float32(2.5), device="tpu").item() == 2.5


THROUGH_THE_HOST = """
import torch
import torch.multiprocessing as mp

def child(inbox, outbox):
    outbox.put((inbox.get().to("tpu") * 2).tolist())

if __name__ == "__main__":
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(inbox, outbox))
    process.start()
    sent = torch.ones(3, device="tpu").cpu()
    inbox.put(sent)
    print(outbox.get(timeout=200), end=" ")
    process.join()
    print(process.exitcode)
"""


def test_tensors_for_another_process_go_through_the_host(python):
    assert python(THROUGH_THE_HOST) == "[2.0, 2.0, 2.0] 0\n"
