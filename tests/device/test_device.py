"""The device itself: names, indices, properties, settings and modes."""

import pytest
import torch

import torch_tpu
from torch_tpu._internal import execution_mode, sync


def test_the_device_is_the_accelerator():
    assert torch.tpu.is_available() and torch.backends.tpu.is_available()
    assert torch.backends.tpu.is_built()
    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    assert torch.accelerator.is_available()
    assert torch.tpu.device_count() == torch.accelerator.device_count() == 1
    assert torch.get_device_module("tpu") is torch.tpu
    import torch.tpu as module

    assert module is torch.tpu


def test_tensors_and_modules_know_the_device():
    x = torch.ones(2, device="tpu")
    assert x.device == torch.device("tpu", 0) and x.is_tpu and not torch.ones(2).is_tpu
    assert x.get_device() == 0
    assert torch.ones(2).tpu().is_tpu
    assert torch.nn.Linear(2, 2).tpu().weight.is_tpu
    assert torch.ones(2, device=0).is_tpu
    assert x.cpu().device.type == "cpu"


def test_indices():
    assert torch.tpu.current_device() == torch.accelerator.current_device_index() == 0
    for same in (0, "tpu", "tpu:0", torch.device("tpu"), torch.device("tpu", 0)):
        torch.tpu.set_device(same)
        with torch.tpu.device(same):
            assert torch.tpu.current_device() == 0
    torch.tpu.set_device(-1)
    with torch.tpu.device(None), torch.tpu.device(-1):
        assert torch.tpu.current_device() == 0
    for obj in (torch.ones(1, device="tpu"), torch.ones(1)):
        with torch.tpu.device_of(obj):
            assert torch.tpu.current_device() == 0


def test_wrong_indices_are_refused():
    message = "TPU1002: device tpu:1 does not exist; hint: a process has one device, tpu:0$"
    for call in (
        lambda: torch.tpu.set_device(1),
        lambda: torch.tpu.device("tpu:1"),
        lambda: torch.tpu.memory_allocated(1),
        lambda: torch.accelerator.set_device_index(1),
        lambda: torch.ones(1, device="tpu:1"),
        lambda: torch.ones(1).to("tpu:1"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(ValueError, match="Expected a tpu device, but got: cpu"):
        torch.tpu.set_device("cpu")


def test_properties():
    properties = torch.tpu.get_device_properties()
    assert properties.name == torch.tpu.get_device_name() != ""
    assert properties.platform in ("cpu", "tpu")
    assert properties.total_memory == torch.tpu.mem_get_info()[1] > 1 << 20
    assert (properties.major, properties.minor) == torch.tpu.get_device_capability()
    assert (properties.major == 0) == (properties.platform == "cpu")
    assert torch.tpu.is_bf16_supported() and torch.tpu.get_arch_list() == []


def test_capability_lists_what_can_be_allocated():
    dtypes = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert torch.qint8 not in dtypes and torch.complex32 not in dtypes
    for dtype in dtypes:
        assert torch.empty(2, dtype=dtype, device="tpu").dtype == dtype


def test_default_device():
    with torch.device("tpu"):
        assert torch.zeros(2).is_tpu
    torch.set_default_device("tpu")
    try:
        assert torch.arange(3).is_tpu
    finally:
        torch.set_default_device(None)


def test_eager_mode_is_a_setter_and_a_context():
    before = torch.tpu.get_eager_mode()
    with torch.tpu.eager_mode("debug"):
        assert torch.tpu.get_eager_mode() == "debug"
        assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
    assert torch.tpu.get_eager_mode() == before
    undo = torch.tpu.eager_mode("debug")
    assert torch.tpu.get_eager_mode() == "debug"
    with undo:
        pass
    assert torch.tpu.get_eager_mode() == before
    with pytest.raises(ValueError, match="expected one of `strict`, `debug`"):
        torch.tpu.eager_mode("quick")


def test_settings_change_all_or_nothing():
    before = torch_tpu.settings.all()
    with torch_tpu.settings(fallback="allow", check_bounds=False):
        now = torch_tpu.settings.all()
        assert (now["fallback"], now["check_bounds"]) == ("allow", "false")
    assert torch_tpu.settings.all() == before
    with pytest.raises(ValueError, match="expected `true` or `false`"):
        torch_tpu.settings(fallback="allow", check_bounds="perhaps")
    with pytest.raises(KeyError, match="there is no setting `fall_back`"):
        torch_tpu.settings(check_bounds=False, fall_back="allow")
    assert torch_tpu.settings.all() == before


def test_settings_that_come_too_late():
    torch.ones(1, device="tpu")
    other = "off" if torch_tpu.settings.all()["cache"] == "on" else "on"
    with pytest.raises(RuntimeError, match="counts only before the device starts"):
        torch_tpu.settings(cache=other)


def test_stats_count_what_happens():
    x = torch.ones(3, device="tpu")
    (x + 1).cpu()
    torch_tpu.reset_stats()
    assert torch_tpu.stats()["launches"] == 0
    y = x + 1
    z = torch.arange(4.0).to("tpu")
    y.cpu()
    torch.tpu.synchronize()
    stats = torch_tpu.stats()
    assert stats["launches"] == 1
    assert stats["cache"]["memory_hits"] + stats["cache"]["disk_hits"] <= 1
    assert stats["compiles"]["quick"] == stats["compiles"]["full"] == 0
    assert (stats["h2d_bytes"], stats["d2h_bytes"]) == (z.nbytes, y.nbytes)
    assert stats["fallbacks"] == {}


def test_aliases_of_the_original():
    assert execution_mode.eager_mode == execution_mode.EagerMode.DEFER_NEVER
    blocking = execution_mode.EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING
    with execution_mode.set_eager_mode(blocking):
        assert execution_mode.get_eager_mode() == blocking
        assert torch.tpu.get_eager_mode() == "debug"
    with execution_mode.eager_mode(blocking):
        assert execution_mode.eager_mode == blocking
    execution_mode.eager_mode = blocking
    assert torch.tpu.get_eager_mode() == "debug"
    execution_mode.eager_mode = execution_mode.EagerMode.DEFER_NEVER
    before = execution_mode.enable_cpu_fallback
    with execution_mode.cpu_fallback_mode(not before):
        assert execution_mode.enable_cpu_fallback is not before
    assert execution_mode.enable_cpu_fallback is before
    x = torch.ones(2, device="tpu")
    sync.synchronize([x], wait=True)
    sync.synchronize()


@pytest.mark.parametrize("variable", ["TPU_LAUNCH_BLOCKING"])
def test_the_original_variable_sets_the_mode(python, variable):
    code = "import torch; print(torch.tpu.get_eager_mode())"
    assert python(code, **{variable: "1"}) == "debug\n"
    assert python(code, **{variable: "0"}) == "strict\n"
