"""Adaptations of other libraries: that they work, and that they are still needed."""

import importlib.util
import os
import sys

import pytest
import safetensors
import torch

from torch_tpu import compat


def test_safetensors_still_refuses_the_name(tmp_path):
    """When this fails, `compat._adapt_safetensors` can go."""
    from safetensors import _safetensors_rust

    path = str(tmp_path / "x.safetensors")
    import safetensors.torch

    safetensors.torch.save_file({"x": torch.ones(2)}, path)
    with pytest.raises(safetensors.SafetensorError, match="device tpu is invalid"):
        _safetensors_rust.safe_open(path, framework="pt", device="tpu")
    with safetensors.safe_open(path, framework="pt", device="tpu") as opened:
        assert opened.get_tensor("x").is_tpu


def test_safetensors_is_adapted_whenever_it_is_imported(python):
    check = """print(
    safetensors.torch.safe_open is safetensors.safe_open,
    hasattr(safetensors.safe_open, "__wrapped__"),
)"""
    first = python(f"import safetensors.torch, torch; {check}")
    later = python(f"import torch, safetensors.torch; {check}")
    alone = python(f"import safetensors; import torch; import safetensors.torch; {check}")
    assert first == later == alone == "True True\n"


def test_accelerate_is_told_the_device(python):
    variable = compat.ACCELERATE_VARIABLE
    code = f"import os, torch; print(os.environ.get({variable!r}))"
    os.environ.pop(variable, None)
    try:
        assert python(code) == "tpu\n"
        assert python(code, **{variable: "cpu"}) == "cpu\n"
        assert python(code, TORCH_TPU_PJRT_PLUGIN="/nonexistent.so") == "None\n"
    finally:
        os.environ[variable] = "tpu"


def test_accelerate_still_needs_it():
    """When this fails, `compat.ACCELERATE_VARIABLE` can go."""
    if importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed")
    import inspect

    from accelerate.state import PartialState

    assert "tpu" not in inspect.getsource(PartialState.default_device.fget)


def test_other_imports_are_left_alone():
    finder = next(f for f in sys.meta_path if isinstance(f, compat._AfterImport))
    assert finder.find_spec("json", None) is None
