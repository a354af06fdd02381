"""Adaptations of other libraries: that they work, and that they are still needed."""

import importlib.util
import inspect
import os
import sys

import pytest
import torch

import torch_tpu
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
    from accelerate.state import PartialState

    assert "tpu" not in inspect.getsource(PartialState.default_device.fget)


def test_other_imports_are_left_alone():
    finder = next(f for f in sys.meta_path if isinstance(f, compat._AfterImport))
    assert finder.find_spec("json", None) is None


def test_printing_runs_one_program_at_most():
    x = torch.linspace(0, 1, 30, device="tpu")
    str(x[1:].view(29, 1))
    torch_tpu.reset_stats()
    text = str(x[1:].view(29, 1))
    assert text == str(x.cpu()[1:].view(29, 1)).replace(")", ", device='tpu:0')")
    assert torch_tpu.stats()["launches"] <= 1


def test_torch_would_still_print_on_the_device():
    """When this fails, `compat._adapt_printing` can go."""
    import torch._tensor_str

    assert "tpu" not in inspect.getsource(torch._tensor_str._str_intern)


def test_printing_runs_nothing_on_the_device():
    x = torch.linspace(-1, 1, 9).to("tpu")
    launched = torch_tpu.stats()["launches"]
    shown = repr(x)
    assert torch_tpu.stats()["launches"] == launched
    shown = " ".join(shown.split())
    assert shown == " ".join(repr(x.cpu()).split()).replace("])", "], device='tpu:0')")


def test_torch_still_prints_on_the_device():
    """When this fails, `compat._adapt_printing` can go."""
    import inspect

    assert '"tpu"' not in inspect.getsource(torch._tensor_str._str_intern)


def test_flex_attention_still_has_its_own_devices():
    """When this fails, `compat._adapt_flex_attention` can go."""
    from torch.nn.attention import flex_attention

    assert '"tpu"' not in inspect.getsource(flex_attention)


def test_transformers_still_takes_flex_attention_for_lacking():
    """When this fails, `compat._adapt_transformers` can go."""
    from transformers.utils import import_utils

    assert 'get_device_type() != "tpu"' in inspect.getsource(import_utils)


def test_transformers_is_adapted_whenever_it_is_imported(python):
    check = """from transformers.utils import is_torch_flex_attn_available
print(is_torch_flex_attn_available())"""
    assert python(f"import transformers, torch\n{check}") == "True\n"
    assert python(f"import torch, transformers\n{check}") == "True\n"


def test_jagged_attention_still_needs_strided_tensors_elsewhere():
    """When this fails, `compat._adapt_jagged_attention` can go."""
    from torch.nested._internal import sdpa

    assert "get_strided_layout_nested_tensor" in inspect.getsource(sdpa)
