"""`import torch` with this package installed: silent when it works, one line when it cannot."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch

from torch_tpu import _plugin

PACKAGE = pathlib.Path(importlib.util.find_spec("torch_tpu").submodule_search_locations[0])
EXTENSION = pathlib.Path(importlib.util.find_spec("torch_tpu._C").origin)
HIDE_PLUGINS = "import sys\n" + "".join(
    f"sys.modules[{package!r}] = None\n" for package, _ in _plugin.CPU_PLUGINS
)


def run(code, site=None, **variables):
    """Runs `code` in a new interpreter that sees the folder `site` before all others."""
    environment = dict(os.environ, TORCH_TPU_PLATFORM="cpu", **variables)
    paths = [str(site)] if site else []
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def copy_package(site, change):
    """Puts a copy of the package into `site` whose extension's bytes went through `change`."""
    package = site / "torch_tpu"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (package / EXTENSION.name).write_bytes(change(EXTENSION.read_bytes()))
    return site


def only_line(result):
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith('torch_tpu: TPU1004: the device "tpu" is off: '), lines[0]
    return lines[0]


def test_import_is_silent_and_starts_nothing():
    code = """
import torch
assert torch.tpu.device_count() == 1
torch.manual_seed(0)
assert not torch.tpu.is_initialized()
"""
    result = run(code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_import_costs_less_than_half_a_second():
    code = """
import time, torch
begin = time.process_time()
import torch_tpu
print(time.process_time() - begin)
"""
    result = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 0.5


def test_it_loads_without_the_entry_point_too():
    code = "import torch_tpu, torch; print(torch.tpu.is_available())"
    result = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (result.stdout, result.stderr) == ("True\n", "")


AFTER_A_REFUSAL = """
import torch, torch_tpu
assert torch.ones(2).sum().item() == 2
assert not hasattr(torch, "tpu")
accelerator = torch.accelerator.current_accelerator()
assert accelerator is None or accelerator.type != "tpu"
try:
    torch_tpu.stats()
except RuntimeError as error:
    print(error)
"""


def test_another_minor_release_of_torch(tmp_path):
    major, minor = torch.__version__.split(".")[:2]
    other = f"{major}.{int(minor) - 1}"
    own = re.escape(f"{major}.{minor}.".encode())
    mark = rb"(torch_tpu is built for torch )%s" % own
    site = copy_package(tmp_path, lambda so: re.sub(mark, rb"\g<1>" + other.encode() + b".", so))
    result = run(AFTER_A_REFUSAL, site)
    line = only_line(result)
    assert f"this build is for torch {other} and this is torch {torch.__version__}" in line
    assert re.search(rf'; hint: pip install "torch=={other}\.\d+"$', line)
    assert line == f"torch_tpu: {result.stdout.strip()}"


def test_an_extension_that_does_not_load(tmp_path):
    site = copy_package(tmp_path, lambda so: b"no library")
    line = only_line(run(AFTER_A_REFUSAL, site))
    assert line.endswith("; hint: pip install --force-reinstall --no-deps torchtpu-rs")


def test_the_original_in_the_same_environment(tmp_path):
    metadata = tmp_path / "torch_tpu-0.2.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: torch-tpu\nVersion: 0.2.0\n")
    line = only_line(run(AFTER_A_REFUSAL, tmp_path))
    assert "; hint: pip uninstall -y torch-tpu && pip install --force-reinstall" in line


def test_another_device_in_the_slot():
    code = """
import torch
torch.utils.rename_privateuse1_backend("other")
import torch_tpu
assert torch.device("other").type == "other"
"""
    line = only_line(run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0"))
    assert "`other` has it" in line


def test_no_stderr_is_no_problem(tmp_path):
    site = copy_package(tmp_path, lambda so: b"no library")
    for closing in ("sys.stderr = None", "sys.stderr.close()"):
        code = f"import sys; {closing}; import torch; print(torch.ones(1).item())"
        assert run(code, site).stdout == "1.0\n"


WITHOUT_A_PLUGIN = """
import torch
assert not torch.tpu.is_available() and not torch.backends.tpu.is_available()
assert torch.tpu.device_count() == torch.accelerator.device_count() == 0
torch.manual_seed(0)
weight = torch.ones(2, requires_grad=True)
(weight * 2).sum().backward()
assert weight.grad.tolist() == [2, 2]
for _ in range(2):
    try:
        torch.ones(2, device="tpu")
    except RuntimeError as error:
        print(error)
"""


def test_no_plugin_is_an_error_at_first_use_only():
    result = run(HIDE_PLUGINS + WITHOUT_A_PLUGIN)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    first, second = result.stdout.splitlines()
    assert first == second
    assert first.startswith("TPU1001: no PJRT plugin for the CPU is installed; hint: ")
    assert first.endswith('pip install "torchtpu-rs[cpu]"')


def test_a_named_plugin_that_does_not_exist(tmp_path):
    missing = str(tmp_path / "missing.so")
    result = run(WITHOUT_A_PLUGIN, TORCH_TPU_PJRT_PLUGIN=missing)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    first = result.stdout.splitlines()[0]
    assert first.startswith(f"TPU1001: there is no PJRT plugin `{missing}`; hint: ")
    assert first.endswith('or unset it and pip install "torchtpu-rs[cpu]"')


def test_a_plugin_that_does_not_load(tmp_path):
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(b"no library")
    code = """
import torch
try:
    torch.ones(2, device="tpu")
except RuntimeError as error:
    print(error)
print(torch.ones(2).sum().item())
"""
    result = run(code, TORCH_TPU_PJRT_PLUGIN=str(broken))
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    error, total = result.stdout.splitlines()
    assert error.startswith('TPU1003: the device "tpu" does not start: ') and str(broken) in error
    assert error.endswith('or unset it and pip install "torchtpu-rs[cpu]"')
    assert total == "2.0"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with the PCI devices that are added to it, and no installed libtpu."""
    monkeypatch.setattr(_plugin, "PCI_DEVICES", tmp_path)
    monkeypatch.setitem(sys.modules, "libtpu", None)
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)

    def add(vendor, device):
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "vendor").write_text(vendor + "\n")
        (folder / "device").write_text(device + "\n")

    return add


def test_the_cpu_plugin_is_taken_without_a_tpu(machine):
    machine(_plugin.GOOGLE, "0x0042")  # a network card of theirs
    machine("0x8086", "0x0063")
    assert not _plugin.has_tpu()
    package, file = _plugin.CPU_PLUGINS[0]
    found = _plugin.find()
    assert found.platform == "cpu" and found.path.endswith(f"{package}/{file}")


def test_libtpu_is_taken_where_there_is_a_tpu(machine, tmp_path, monkeypatch):
    import torch_tpu

    machine(_plugin.GOOGLE, "0x0063")
    library = tmp_path / "elsewhere" / "libtpu.so"
    library.parent.mkdir()
    library.touch()
    with pytest.raises(_plugin.PluginError, match="pip install libtpu"):
        _plugin.find()
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(library))
    assert _plugin.find() == (str(library), "tpu")
    if not torch.tpu.is_initialized():
        with torch_tpu.settings(platform="cpu"):
            assert _plugin.find().platform == "cpu"
