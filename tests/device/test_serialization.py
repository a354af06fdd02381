"""torch.save, torch.load, safetensors."""

import io

import pytest
import safetensors
import safetensors.torch
import torch


def saved(obj):
    buffer = io.BytesIO()
    torch.save(obj, buffer)
    buffer.seek(0)
    return buffer


DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_come_back_where_they_were(dtype):
    x = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    y = torch.load(saved(x.to("tpu")))
    assert y.device == torch.device("tpu:0") and y.dtype == dtype
    assert y.cpu().equal(x)


def test_places_may_be_changed_on_the_way():
    x = torch.arange(6.0)
    on_device = saved(x.to("tpu"))
    for place in ("cpu", torch.device("cpu"), {"tpu:0": "cpu"}, lambda storage, _: storage.cpu()):
        on_device.seek(0)
        assert torch.load(on_device, map_location=place).device.type == "cpu"
    on_host = saved(x)
    for place in ("tpu", "tpu:0", torch.device("tpu"), {"cpu": "tpu"}):
        on_host.seek(0)
        y = torch.load(on_host, map_location=place)
        assert y.is_tpu and y.cpu().equal(x)
    on_host.seek(0)
    with pytest.raises(RuntimeError, match="device tpu:3 does not exist"):
        torch.load(on_host, map_location="tpu:3")


def test_memory_mapped_files(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"x": torch.arange(1000.0)}, path)
    loaded = torch.load(path, map_location="tpu", mmap=True)["x"]
    assert loaded.is_tpu and loaded.cpu().equal(torch.arange(1000.0))


def test_views_share_their_storage_after_loading():
    base = torch.arange(6.0, device="tpu")
    loaded, view = torch.load(saved([base, base[2:4]]))
    assert view.tolist() == [2, 3]
    loaded[2] = 9
    assert view.tolist() == [9, 3]


def test_strides_and_flags_are_kept():
    x = torch.arange(6.0, device="tpu").view(2, 3).t()
    y = torch.load(saved(x))
    assert y.stride() == (1, 3) and y.tolist() == x.tolist()
    z = torch.load(saved(torch.ones(2, device="tpu", requires_grad=True)))
    assert z.requires_grad
    parameter = torch.nn.Parameter(torch.ones(2, device="tpu"))
    loaded = torch.load(saved(parameter))
    assert isinstance(loaded, torch.nn.Parameter) and loaded.is_tpu
    conj = torch.tensor([1 + 2j]).to("tpu").conj()
    assert torch.load(saved(conj)).tolist() == [1 - 2j]


def test_models_and_optimizers():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3, device="tpu")).sum().backward()
    optimizer.step()
    state = torch.load(saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()}))
    assert all(value.is_tpu for value in state["model"].values())
    fresh = torch.nn.Linear(3, 2).to("tpu")
    fresh.load_state_dict(state["model"])
    assert fresh.weight.equal(model.weight)
    other = torch.optim.AdamW(fresh.parameters())
    other.load_state_dict(state["optimizer"])
    averages = [s["exp_avg"] for s in other.state.values()]
    assert len(averages) == 2 and all(average.is_tpu for average in averages)
    on_host = torch.nn.Linear(3, 2)
    on_host.load_state_dict(state["model"])
    assert on_host.weight.equal(model.weight.cpu())


def test_storages():
    x = torch.arange(4, dtype=torch.uint8, device="tpu")
    loaded = torch.load(saved(x.untyped_storage()))
    assert loaded.device.type == "tpu" and loaded.tolist() == [0, 1, 2, 3]


@pytest.fixture
def file(tmp_path):
    path = str(tmp_path / "model.safetensors")
    tensors = {
        "weight": torch.arange(6.0).view(2, 3).to("tpu"),
        "half": torch.ones(2, dtype=torch.bfloat16, device="tpu"),
        "count": torch.tensor([7], device="tpu"),
    }
    safetensors.torch.save_file(tensors, path)
    return path


@pytest.mark.parametrize("place", ["tpu", "tpu:0", torch.device("tpu"), 0], ids=str)
def test_safetensors_go_straight_to_the_device(file, place):
    loaded = safetensors.torch.load_file(file, device=place)
    assert {name: t.device.type for name, t in loaded.items()} == dict.fromkeys(loaded, "tpu")
    assert loaded["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert loaded["half"].dtype == torch.bfloat16 and loaded["count"].item() == 7
    with safetensors.safe_open(file, framework="pt", device=place) as opened:
        assert opened.get_tensor("weight").is_tpu
        assert opened.get_slice("weight")[:, 1:].tolist() == [[1, 2], [4, 5]]


def test_safetensors_to_the_host(file):
    assert safetensors.torch.load_file(file)["weight"].device.type == "cpu"
    assert safetensors.torch.load_file(file, device="cpu")["weight"].device.type == "cpu"


def test_safetensors_into_a_model(tmp_path):
    model = torch.nn.Linear(3, 2).to("tpu")
    path = tmp_path / "linear.safetensors"
    safetensors.torch.save_model(model, path)
    fresh = torch.nn.Linear(3, 2).to("tpu")
    safetensors.torch.load_model(fresh, path, device="tpu")
    assert fresh.weight.equal(model.weight) and fresh.weight.is_tpu
