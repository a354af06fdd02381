"""What every test runs under: no silent fallback, fixed seeds, a program cache of its own."""

import os
import pathlib
import subprocess
import sys

# Before torch is imported: the device reads its settings when torch loads it.
os.environ.setdefault("TORCH_TPU_FALLBACK", "error")
os.environ.setdefault(
    "TORCH_TPU_CACHE_DIR", str(pathlib.Path(__file__).resolve().parents[1] / "target/test-cache")
)
# The models are built from configurations or come with packages.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also run the tests marked `full`")
    parser.addoption("--device", default="tpu", help="what the fixture `device` is (default: tpu)")


def pytest_report_header(config):
    device = config.getoption("--device")
    fallback = os.environ["TORCH_TPU_FALLBACK"]
    return f"torch {torch.__version__}, device {device}, fallback {fallback}"


def pytest_collection_modifyitems(config, items):
    """Leaves out what is marked `full` unless `--full` asks for it."""
    if config.getoption("--full"):
        return
    long = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


@pytest.fixture
def device(request):
    """The device under test; `--device cpu` shows whether a test itself is right."""
    return torch.device(request.config.getoption("--device"))


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def python(tmp_path):
    """`python(code, **variables)` runs `code` as a file and returns what it printed.

    It must succeed.
    """

    def run(code, **variables):
        program = tmp_path / "program.py"
        program.write_text(code)
        command = [sys.executable, program]
        environment = dict(os.environ, **variables)
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run
