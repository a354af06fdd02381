"""Programs of ``torch.export``, written down and run again, against eager mode."""

import json
import subprocess
import sys

import pytest
import torch
from torch.nn import functional

from torch_tpu import export


class Layers(torch.nn.Module):
    """Weights, a constant, a buffer that changes, attention; a dictionary comes out."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(8, 24)
        self.norm = torch.nn.BatchNorm1d(6)
        self.register_buffer("calls", torch.zeros(()))
        self.scale = torch.tensor([1.0, 2.0, 0.5, 4.0, -1.0, 3.0])

    def forward(self, x, factor, *, positions):
        self.calls.add_(1)
        q, k, v = self.project(self.norm(x)).chunk(3, -1)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True) * factor
        picked = y.transpose(1, 2)[:, :, positions] * self.scale[:3]
        return {"y": picked, "again": picked, "x": x, "none": None, "n": self.calls * 1}


def example():
    torch.manual_seed(0)
    return torch.randn(2, 6, 8), torch.tensor([4, 0, 2])


def saved(tmp_path, module, *args, **kwargs):
    export.save(torch.export.export(module, args, kwargs), tmp_path / "program")
    return tmp_path / "program"


def test_a_program_equals_its_module(tmp_path, device):
    x, positions = example()
    module = Layers()
    path = saved(tmp_path, module, x, 1.5, positions=positions)
    program = export.load(path)
    for _ in range(2):
        here = x.to(device)
        got = program(here, 1.5, positions=positions.to(device))
        expected = module(x, 1.5, positions=positions)
        assert got["x"] is here and got["again"] is got["y"] and got["none"] is None
        torch.testing.assert_close(got["y"].cpu(), expected["y"])
        assert got["n"].item() == expected["n"].item()
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(program.weights[name].cpu(), tensor)


def test_it_runs_without_its_source(tmp_path, device):
    x, positions = example()
    module = Layers().eval()
    path = saved(tmp_path, module, x, 1.5, positions=positions)
    torch.save((x, positions), tmp_path / "inputs.pt")
    code = (
        "import torch; from torch_tpu import export; "
        f"x, i = torch.load({str(tmp_path / 'inputs.pt')!r}); "
        f"y = export.load({str(path)!r})(x.to('tpu'), 1.5, positions=i.to('tpu'))['y']; "
        f"torch.save(y.cpu(), {str(tmp_path / 'y.pt')!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    expected = module(x, 1.5, positions=positions)["y"]
    torch.testing.assert_close(torch.load(tmp_path / "y.pt"), expected)


def test_bounds_are_checked(tmp_path, device):
    x, positions = example()
    program = export.load(saved(tmp_path, Layers().eval(), x, 1.5, positions=positions))
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        program(x.to(device), 1.5, positions=torch.tensor([0, 9, 1], device=device))
        torch.tpu.synchronize()


def test_random_numbers_are_those_of_eager_mode(tmp_path, device):
    module = torch.nn.Dropout(0.5)
    x = torch.ones(64)
    program = export.load(saved(tmp_path, module, x))
    torch.manual_seed(3)
    got = [program(x.to(device)).cpu() for _ in range(2)]
    torch.manual_seed(3)
    expected = [module(x.to(device)).cpu() for _ in range(2)]
    assert torch.equal(torch.stack(got), torch.stack(expected))
    assert not torch.equal(*got)


def test_the_module_is_stablehlo_for_either_platform():
    program = torch.export.export(torch.nn.Linear(3, 4), (torch.randn(2, 3),))
    for platform in ("cpu", "tpu"):
        text = export.stablehlo(program, platform)
        assert "func.func public @main(" in text and "stablehlo.dot_general" in text


def test_arguments_of_another_type_are_refused(tmp_path, device):
    x, positions = example()
    program = export.load(saved(tmp_path, Layers(), x, 1.5, positions=positions))
    i = positions.to(device)
    with pytest.raises(TypeError, match=r"argument 0 is .*\[1, 6, 8\]"):
        program(x[:1].to(device), 1.5, positions=i)
    with pytest.raises(TypeError, match="argument 1 is 2.0, expected 1.5"):
        program(x.to(device), 2.0, positions=i)
    with pytest.raises(TypeError, match="the program takes"):
        program(x.to(device), 1.5, i)


def test_what_cannot_be_exported_or_read_is_said(tmp_path):
    dynamic = {"input": {0: torch.export.Dim("n", min=2)}}
    program = torch.export.export(torch.nn.ReLU(), (torch.randn(4),), dynamic_shapes=dynamic)
    with pytest.raises(ValueError, match="TPU4011.*`input`"):
        export.stablehlo(program)
    path = saved(tmp_path, torch.nn.ReLU(), torch.randn(4))
    description = json.loads((path / "program.json").read_text())
    for key, value, code in (("platform", "tpu", "TPU4012"), ("form", 99, "TPU4010")):
        (path / "program.json").write_text(json.dumps({**description, key: value}))
        with pytest.raises(ValueError, match=code):
            export.load(path)
    (path / "program.json").write_text(json.dumps(description))
    (path / "module.mlir").write_text("module {\n}\n")
    with pytest.raises(ValueError, match="TPU4010"):
        export.load(path)


def test_says_what_it_wants(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ImportError, match="TPU4013.*pip install safetensors"):
        saved(tmp_path, torch.nn.Linear(2, 2), torch.zeros(1, 2))
