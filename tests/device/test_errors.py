"""Errors a user meets: bounds, devices that do not match, operators that are missing."""

import warnings

import pytest
import torch

import torch_tpu

functional = torch.nn.functional


def index(*values, device):
    return torch.tensor(values, device=device)


# Reads and writes with an index that is out of range: the fourth of three.
OUT_OF_RANGE = {
    "x[i]": lambda x, i: x[i],
    "x[:, i]": lambda x, i: x.t()[:, i],
    "x[i, j]": lambda x, i: x[i * 0, i],
    "x[i] = 1": lambda x, i: x.__setitem__(i, 1.0),
    "index_put_": lambda x, i: x.index_put_((i,), x[:1] + 1, accumulate=True),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add_": lambda x, i: x[0].index_add_(0, i, x[1, :1]),
    "index_fill_": lambda x, i: x.index_fill_(0, i, 2.0),
    "gather": lambda x, i: x.gather(0, i.view(1, 1)),
    "scatter": lambda x, i: x.scatter(0, i.view(1, 1), 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i.view(1, 1), x),
    "take": lambda x, i: x.take(i + 20),
    "embedding": lambda x, i: functional.embedding(i, x),
    "nll_loss": lambda x, i: functional.nll_loss(x[:1], i),
    "cross_entropy": lambda x, i: functional.cross_entropy(x[:1], i),
}


def outcome(call, device):
    try:
        result = call()
        torch.get_device_module(device).synchronize()
        return result
    except Exception as error:
        return type(error), str(error).splitlines()[0]


@pytest.mark.parametrize("name", OUT_OF_RANGE)
@pytest.mark.parametrize("value", [3, -4])
def test_an_index_out_of_range_raises(name, value, device):
    def run(device):
        x = torch.arange(9.0, device=device).view(3, 3)
        return outcome(lambda: OUT_OF_RANGE[name](x, index(value, device=device)), device)

    kind, message = run("cpu")
    if name == "x[:, i]":
        # The CPU counts the indexed dimensions only.
        message = message.replace("dimension 0", "dimension 1")
    assert run(device) == (kind, message)
    assert (torch.ones(2, device=device) + 1).tolist() == [2, 2]


@pytest.mark.parametrize("dim", [2, -3])
def test_a_dimension_out_of_range_raises(dim, device):
    x = torch.ones(2, 2, device=device)
    for call in (lambda: x.sum(dim), lambda: x.softmax(dim), lambda: torch.cat([x, x], dim)):
        with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range"):
            call()
    with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0 with size 2"):
        x[2]


def test_bounds_can_be_left_unchecked(device):
    x = torch.arange(3.0, device=device)
    with torch_tpu.settings(check_bounds=False):
        x.index_select(0, index(2, device=device))
        torch.tpu.synchronize()


MIXED = {
    "add": lambda here, there: here + there,
    "add, the other way": lambda here, there: there + here,
    "add_": lambda here, there: here.add_(there),
    "mm": lambda here, there: here @ there,
    "linear": lambda here, there: functional.linear(here, there, there[0]),
    "cat": lambda here, there: torch.cat([here, there]),
    "where": lambda here, there: torch.where(here > 0, here, there),
    "out=": lambda here, there: torch.exp(here, out=there),
    "embedding": lambda here, there: functional.embedding(there.long(), here),
    "cross_entropy": lambda here, there: functional.cross_entropy(here, there[0].long()),
    "layer_norm": lambda here, there: functional.layer_norm(here, (2,), there[0]),
    "conv1d": lambda here, there: functional.conv1d(here[None], there[None]),
    "sdpa": lambda here, there: functional.scaled_dot_product_attention(here, here, there),
    "index_select": lambda here, there: here.index_select(0, there[0].long()),
    "gather": lambda here, there: here.gather(0, there.long()),
}


SAME = "(Expected all tensors to be on|Expected query, key, and value to have) the same device"


@pytest.mark.parametrize("name", MIXED)
def test_tensors_of_two_devices_raise(name, device):
    if device.type == "cpu":
        pytest.skip("needs a second device")
    here, there = torch.ones(2, 2, device=device), torch.ones(2, 2)
    with pytest.raises(RuntimeError, match=SAME) as said:
        MIXED[name](here, there)
    assert "tpu:0" in str(said.value) and "cpu" in str(said.value)
    assert torch.equal(here.cpu(), there)


def test_a_zero_dimensional_cpu_tensor_is_a_number(device):
    x, two = torch.ones(3, device=device), torch.tensor(2.0)
    assert (x * two).tolist() == (two * x).tolist() == [2, 2, 2]
    assert torch.where(x > 0, x, two).tolist() == [1, 1, 1]
    assert (x.to(torch.bfloat16) * two).dtype == torch.bfloat16
    assert x.masked_fill(x > 0, two).tolist() == [2, 2, 2]
    assert x.index_put((index(0, device=device),), two).tolist() == [2, 1, 1]


def test_indices_may_be_on_the_cpu(device):
    x = torch.arange(6.0, device=device).view(3, 2)
    assert x[torch.tensor([2, 0])].tolist() == [[4, 5], [0, 1]]
    assert x[torch.tensor([True, False, True])].tolist() == [[0, 1], [4, 5]]
    x[torch.tensor([1])] = 0
    assert x[1].tolist() == [0, 0]


def foreign(x):
    """An operator of PyTorch's own tests, which no device but the CPU has."""
    return torch._foobar(x)


NAME = "aten::_foobar"


def test_the_policy_error_forbids_a_fallback():
    x = torch.ones(3, device="tpu")
    torch_tpu.reset_stats()
    with torch_tpu.settings(fallback="error"):
        with pytest.raises(NotImplementedError, match=f"TPU2002: {NAME} has no kernel") as said:
            foreign(x)
    assert "TORCH_TPU_FALLBACK=warn" in str(said.value)
    assert torch_tpu.stats()["fallbacks"] == {}


def test_the_policy_warn_warns_once_and_counts():
    x = torch.ones(3, device="tpu")
    torch_tpu.reset_stats()
    with torch_tpu.settings(fallback="warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = [foreign(x), foreign(x[1:])]
    assert [r.tolist() for r in results] == [[1, 1, 1], [1, 1]]
    assert all(r.is_tpu for r in results)
    assert [NAME in str(w.message) for w in caught] == [True]
    counted = torch_tpu.stats()["fallbacks"]
    assert counted.keys() == {NAME} and counted[NAME]["calls"] == 2
    assert counted[NAME]["bytes"] >= x.nbytes


def test_the_policy_allow_is_silent_and_counts():
    x = torch.arange(6.0, device="tpu").view(2, 3)
    torch_tpu.reset_stats()
    with torch_tpu.settings(fallback="allow"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert foreign(x.t()).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert torch_tpu.stats()["fallbacks"][NAME]["calls"] == 1


def test_an_operator_of_a_library_runs_on_the_cpu():
    library = torch.library.Library("test_of_torch_tpu", "FRAGMENT")
    library.define("twice_(Tensor(a!) x, Tensor? y=None) -> Tensor(a!)")
    library.impl("twice_", lambda x, y=None: x.add_(x if y is None else y), "CPU")
    try:
        base = torch.arange(6.0, device="tpu").view(2, 3)
        view = base[:, 1:]
        with torch_tpu.settings(fallback="allow"):
            result = torch.ops.test_of_torch_tpu.twice_(view, view * 10)
        assert result is view
        assert base.tolist() == [[0, 11, 22], [3, 44, 55]]
    finally:
        library._destroy()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_sparse_and_quantised_tensors_say_what_to_do():
    x = torch.eye(3)
    for make in (
        lambda: x.to_sparse().to("tpu"),
        lambda: x.to_sparse_csr().to("tpu") @ x.to("tpu"),
        lambda: x.to("tpu").to_sparse(),
        lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).to("tpu"),
        lambda: torch.quantize_per_tensor(x.to("tpu"), 0.1, 0, torch.qint8),
    ):
        with pytest.raises(NotImplementedError, match="TPU2003.*hint"):
            make()
