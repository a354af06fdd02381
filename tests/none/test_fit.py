"""What `torchtpu fit` reads of a compiler's notes (recorded from libtpu 0.0.52), and how it asks."""

import json
import re
from pathlib import Path

import pytest

from torch_tpu import _cli
from torch_tpu._fit import compiler, cost, hlo, memory, page, targets
from torch_tpu._fit.compiler import Answer
from torch_tpu._fit.report import Report, assemble, thinned

RECORDED = Path(__file__).parent / "recorded"
V5E = targets.target_of("v5e:1x1")


def recorded(name):
    return (RECORDED / f"{name}.txt").read_text()


@pytest.fixture(scope="module")
def module():
    return hlo.parse(recorded("after_codegen"))


@pytest.fixture(scope="module")
def plan():
    return memory.parse(recorded("buffer_assignment"), recorded("live_range"))


def answer(error=""):
    notes = {
        "after_codegen": recorded("after_codegen"),
        "after_optimizations-buffer-assignment": recorded("buffer_assignment"),
        "after_optimizations-live-range": recorded("live_range"),
    }
    return Answer(1.5, error, {} if error else {"peak": 600_000}, notes)


@pytest.mark.parametrize(
    "text, elements, padded",
    [
        ("f32[200,192]{0,1:T(8,128)}", 153_600, 192 * 256 * 4),
        ("bf16[32,2048,64]{2,1,0:T(8,128)(2,1)}", 8_388_608, 32 * 2048 * 128 * 2),
        ("f32[576]{0:T(1024)}", 2304, 4096),
        ("s64[]{:T(128)}", 8, 8),
        ("pred[3,5]{1,0}", 15, 15),
        ("f8e4m3fn[16]{0}", 16, 16),
        ("s4[10]{0}", 5, 5),
    ],
)
def test_layouts_fill_up(text, elements, padded):
    (shape,) = hlo.shapes(text)
    assert (shape.bytes, shape.padded) == (elements, padded)


def test_a_program_is_read_with_its_lines(module):
    entry = {i.name: i for i in module.computations[module.entry]}
    assert entry["weight.1"].op_name == "weight" and entry["weight.1"].parameter == 0
    loop = entry["while"]
    assert module.line(loop) == "model.py:3" and loop.op_name == "layers/scan"
    assert [shape.in_hbm for shape in loop.shapes] == [True, False, True, True]
    assert entry["copy-start"].operands == ["while"] and entry["copy-start"].elements == [1]


def test_loops_count_as_often_as_they_run(module):
    (loop,) = (i for body in module.computations.values() for i in body if i.opcode == "while")
    assert module.trips(loop) == 5
    times = {i.name: n for i, n in module.scheduled()}
    assert times["fusion.8"] == 5 and times["copy-start"] == 1
    costs = cost.count(recorded("module"), module, V5E)
    assert costs.total("flops") == 5 * 2 * 200 * 200 * 192
    assert costs.total("cycles") == 5 * (28 + 1408)
    # The loop reads one operand anew each time; before and after it one is moved in and out.
    assert costs.total("bytes") == pytest.approx(5 * 204_800 + 2 * 196_608, rel=0.01)
    assert costs.total("compute") == pytest.approx(6 * 76.8e6 / V5E.flops)


def test_a_loop_of_unknown_length_is_said():
    text = recorded("after_codegen").replace("direction=LT", "direction=NE")
    costs = cost.count(recorded("module"), hlo.parse(text), V5E)
    assert costs.endless == ["layers/scan"]
    assert costs.total("flops") == 2 * 200 * 200 * 192


def test_custom_calls_and_collectives_are_listed_and_nothing_is_negative(module):
    text = recorded("after_codegen").replace(
        "  ROOT %copy-done = ",
        "  %kernel = f32[8,128]{1,0:T(8,128)} custom-call(%weight.1), "
        'custom_call_target="tpu_custom_call", backend_config={}\n'
        "  %sum = f32[8,128]{1,0:T(8,128)} all-reduce(%kernel), replica_groups={{0,1}}\n"
        "  %old = f32[8,128]{1,0:T(8,128)} add(%sum, %sum), backend_config={"
        '"window_config":{"estimated_cycles":"9223372036854775807"}}\n'
        "  ROOT %copy-done = ",
    )
    costs = cost.count(recorded("module"), hlo.parse(text), V5E)
    assert costs.uncosted == {"tpu_custom_call": 1}
    assert costs.collectives == {"all-reduce": [1, 4096]}
    assert costs.total("cycles") == 5 * (28 + 1408)
    assert all(min(r.flops, r.bytes, r.cycles) >= 0 for r in costs.regions)


def test_memory_is_sorted_and_followed(plan):
    assert plan.categories == {
        "arguments": 401_408,
        "results": 196_608,
        "constants": 2048,
        "temporaries": 82_432,
    }
    assert plan.total == sum(plan.categories.values())
    used = plan.timeline()
    assert len(used) == plan.moments + 1 == 29
    assert used[0] == 401_408 + 196_608 + 2048 and max(used) == 601_600
    assert [b.instruction for b in plan.largest(12)[:2]] == ["input_0.1", "copy-start"]


def test_products_are_read_from_stablehlo():
    line = (
        '%2 = "stablehlo.convolution"(%a, %b) <{dimension_numbers = '
        "#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>, feature_group_count = 1 : i64, "
        "lhs_dilation = array<i64: 1, 1>, precision_config = [#stablehlo<precision DEFAULT>]}> : "
        "(tensor<2x4x6x7xf32>, tensor<8x4x3x2xf32>) -> tensor<2x8x3x7xf32>\n"
    )
    (product,) = cost.products(line)
    assert product.flops == 2 * (2 * 8 * 3 * 7) * (4 * 3 * 2)
    (product,) = cost.products(recorded("module"))
    assert (product.rows, product.inner, product.columns) == (200, 200, 192)
    assert product.filled(V5E) == 2 * 256 * 256 * 192


def test_a_report_says_what_the_compiler_said():
    report = assemble(answer(), recorded("module"), V5E, Report("v5e:1x1", "not asked"))
    assert report.fits and report.hbm["peak"] == 601_600 and report.seconds["compile"] == 1.5
    first = report.tensors[0]
    assert (first.name, first.line, first.padding) == ("input 0", "model.py:3", 44_800)
    assert json.loads(json.dumps(report.as_dict()))["verdict"] == "fits"
    error = "E1000: CompileTimeHbmOom: Ran out ... (31.11G) exceeds available HBM (15.75G)."
    report = assemble(answer(error), recorded("module"), V5E, Report("v5e:1x1", "not asked"))
    assert report.verdict == "does not fit" and report.reasons == [error]
    assert report.hbm["peak"] == 601_600
    report = assemble(answer("no such op"), recorded("module"), V5E, Report("v5e:1x1", ""))
    assert report.verdict == "refused"


def test_a_page_needs_nothing_else():
    report = assemble(answer(), recorded("module"), V5E, Report("v5e:1x1", "not asked"))
    report.reasons = ["<script>"]
    text = page.write([report], "train.py")
    assert "<polyline" in text and "limit 15.75 GiB" in text and "model.py:3" in text
    assert "<script>" not in text and not re.search(r"(src|href)=|https?:|@import", text)


def test_a_long_timeline_keeps_its_peak():
    assert thinned([1, 9, 2, 3, 4], 2) == [9, 4]
    assert thinned([1, 2], 5) == [1, 2]


def test_a_topology_that_is_not_known_is_refused():
    assert [target.name for target in targets.GENERATIONS] == ["v4", "v5e", "v5p", "v6e", "tpu7x"]
    with pytest.raises(ValueError, match="TPU4021.*v9:1x1.*v5e:1x1"):
        targets.target_of("v9:1x1")


def test_without_the_compiler_the_command_that_installs_it_is_said(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(tmp_path / "libtpu.so"))
    monkeypatch.setattr("torch_tpu._plugin._file_of", lambda *_: "")
    with pytest.raises(compiler.CompilerError, match="TPU4022"):
        compiler.library()
    script = tmp_path / "train.py"
    script.write_text("import torch\nmodel, inputs = torch.relu, (torch.ones(2),)\n")
    assert _cli.main(["fit", str(script)]) == 2
    assert compiler.INSTALL in capfd.readouterr().err


def test_the_compiler_that_is_named_is_the_one_of_the_table():
    tasks = Path(__file__).parents[2] / "crates/xtask/src/ahead.rs"
    assert compiler.INSTALL.split()[-1] in tasks.read_text()
