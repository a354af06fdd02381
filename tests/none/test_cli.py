"""The command `torchtpu`, which needs no device."""

import io
import json
import os
import subprocess
import sys
import tarfile

import pytest

from torch_tpu import _cli, _coverage

PROGRAM = """
import sys
import torch
print("size", sys.argv[1:])
x = torch.arange(6.0, device="tpu").reshape(2, 3).requires_grad_()
torch.nn.functional.softplus(x).narrow_copy(1, 0, 2).sum().backward()
torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 2, 4)] * 3)
for _ in range(2):
    x.detach().to_sparse()
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Runs the command on a script; gives exit status, output and what went to stderr."""

    def run(script, *options, arguments=()):
        path = tmp_path / "train.py"
        path.write_text(script)
        monkeypatch.chdir(tmp_path)
        status = _cli.main(["ops", *options, "--model", str(path), *arguments])
        return status, *capfd.readouterr()

    return run


def test_gaps_are_named_with_their_first_line(run):
    status, out, err = run(PROGRAM, arguments=["--large"])
    assert status == 1
    assert "size ['--large']" in err and "size" not in out
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["status", "calls", "operator", "first", "call"]
    assert lines[1] == ["fallback", "2", "aten::_to_sparse", "train.py:9"]
    assert ["native", "1", "aten::softplus", "train.py:6"] in lines
    assert out.rstrip().endswith("1 would leave the device")


def test_json_counts_calls_and_derivatives(run):
    _, out, _ = run(PROGRAM, "--json")
    found = {row["operator"]: row for row in json.loads(out)}
    assert found["aten::softplus_backward"]["status"] == "native"
    assert found["aten::_to_sparse"]["calls"] == 2
    # The device is not offered what PyTorch made for the CPU.
    assert "aten::_scaled_dot_product_fused_attention_overrideable" in found
    assert not any("for_cpu" in name for name in found)


def test_composed_operators_are_followed_to_their_parts(run):
    script = "import torch\ntorch.ops.aten.silu_backward(torch.ones(3), torch.ones(3))\n"
    status, out, _ = run(script, "--json")
    found = {row["operator"]: row["status"] for row in json.loads(out)}
    assert status == 0
    assert found["aten::silu_backward"] == "decomposed"
    assert found["aten::sigmoid"] == found["aten::mul.Tensor"] == "native"


def test_a_script_needs_no_data(run):
    status, out, _ = run(
        "import torch\n(torch.ones(1 << 40) @ torch.ones(1 << 40)).exp()", "--meta"
    )
    assert status == 0 and "aten::dot" in out


def test_a_script_that_fails_is_told_and_reported(run):
    status, out, err = run("import torch\ntorch.ones(2).cos()\nraise ValueError('no data')\n")
    assert status == 2
    assert "ValueError: no data" in err and "aten::cos" in out


def test_every_operator_is_listed():
    table = {name: (family, status) for family, name, status in _coverage.table()}
    assert table["mul.Tensor"] == table["mul_.Tensor"] == ("binary", "native")
    assert table["as_strided"] == ("bridge", "native")
    assert table["matmul"] == ("", "decomposed")
    assert table["_to_sparse"] == ("", "fallback")


def test_it_starts_no_device(tmp_path):
    path = tmp_path / "one.py"
    path.write_text("import torch\ntorch.ones(2, device='tpu').sin()\n")
    program = (
        "import sys; from torch_tpu import _C, _cli; "
        f"status = _cli.main(['ops', '--model', {str(path)!r}]); "
        "assert not _C.is_open(); sys.exit(status)"
    )
    environment = os.environ | {"TORCH_TPU_PJRT_PLUGIN": "/nowhere.so"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_what_is_no_whole_archive_is_one_line(tmp_path):
    """Members so large and unlike each other that half of the file ends inside of one."""
    archive, half = tmp_path / "programs.tar.gz", tmp_path / "half.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        member = tarfile.TarInfo("programs/00")
        member.size = 1 << 16
        file.addfile(member, io.BytesIO(os.urandom(member.size)))
    half.write_bytes(archive.read_bytes()[: 1 << 15])
    for path, said in ((half, "not all of one"), (tmp_path, "directory"), ("none", "No such")):
        with pytest.raises(SystemExit, match=f"^torchtpu cache: .*{said}"):
            _cli.main(["cache", "--dir", str(tmp_path), "import", str(path)])
