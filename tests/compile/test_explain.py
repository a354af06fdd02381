"""Every compile is listed with its line and its cause."""

import json
import secrets

import pytest
import torch

import torch_tpu
from torch_tpu import _cli


@pytest.fixture
def listed():
    """What was listed since the test began."""
    before = len(torch_tpu.explain())
    return lambda: torch_tpu.explain()[before:]


def new_size():
    """A size that no program on disk has, from whatever run."""
    return 10_000 + secrets.randbelow(10**7)


def test_a_new_size_is_told_with_its_line(device, listed):
    torch.ones(new_size(), device=device)
    rows = new_size()
    torch.ones(rows, device=device)
    last = listed()[-1]
    assert (last.what, last.cause, last.disk) == ("fill.Scalar", "shape", "cold")
    assert last.line.startswith("test_explain.py:")
    assert f"result 0 is f32[{rows}], was f32[" in last.reason
    assert last.seconds > 0 and "pad the input" in last.advice


def test_a_new_dtype_is_told(device, listed):
    rows = new_size()
    torch.empty(rows, device=device) - 1
    torch.empty(rows, dtype=torch.int32, device=device) - 1
    last = listed()[-1]
    assert last.cause == "dtype" and f"input 0 is i32[{rows}], was f32[{rows}]" in last.reason


def test_a_fixed_argument_is_told(device, listed):
    x = torch.ones(61, 61, 7 + new_size() % 97, device=device)
    x.flip(0)
    x.flip(1)
    last = listed()[-1]
    assert last.cause == "attribute" and "stablehlo.reverse" in last.reason, str(last)


def test_other_options_are_told(device, listed):
    x = torch.ones(new_size() % 97 + 3, 7, device=device)
    x @ x.T
    with torch_tpu.settings(matmul_precision="medium"):
        x @ x.T
    last = listed()[-1]
    assert last.cause == "attribute" and "precision" in last.reason, str(last)


def test_a_failed_guard_is_told_for_forward_and_backward(device, listed):
    @torch.compile(backend="tpu", dynamic=False)
    def f(x, factor):
        return (x * factor).sin().sum()

    size = new_size()
    for rows, factor in ((size, 2.0), (size, 3.0), (size + 1, 3.0)):
        f(torch.ones(rows, device=device, requires_grad=True), factor).backward()
    graphs = [one for one in listed() if one.what.startswith("graph")]
    causes = [one.cause for one in graphs]
    assert causes == ["operations"] * 2 + ["constant"] * 2 + ["shape"] * 2
    assert "factor == 2.0" in graphs[2].recompile and "factor == 2.0" in graphs[3].recompile
    assert f"expected {size}, actual {size + 1}" in graphs[4].recompile
    assert all(one.line.startswith("test_explain.py:") for one in graphs)


def test_the_text_counts(device, listed):
    torch.ones(new_size(), device=device)
    text = str(torch_tpu.explain())
    assert "fill.Scalar at test_explain.py:" in text
    compiled = sum(not one.loaded for one in torch_tpu.explain())
    assert text.splitlines()[-1].startswith(f"{compiled} compiled in ")


def test_the_command_runs_a_script(tmp_path, capfd):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\nprint('said', sys.argv[1:])\n"
        f"torch.full(({new_size()},), 2.0, device='tpu')\n"
    )
    assert _cli.main(["explain", "--compiled", "--json", str(script), "--fast"]) == 0
    out, err = capfd.readouterr()
    assert "said ['--fast']" in err
    mine = [row for row in json.loads(out) if row["line"] == "train.py:3"]
    assert [row["what"] for row in mine] == ["fill.Scalar"]
