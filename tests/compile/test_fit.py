"""Calls traced without data against eager mode, and what a TPU's compiler says to them."""

import json

import pytest
import torch
from torch.nn import functional

from torch_tpu import _cli, fit
from torch_tpu._fit import compiler
from torch_tpu._fit.ask import Question
from torch_tpu._fit.capture import CaptureError, capture, without_data
from torch_tpu._fit.places import place_of
from torch_tpu._fit.targets import GENERATIONS
from torch_tpu._graph.lower import lower
from torch_tpu._loader import native


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(6, 8)
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, x):
        return self.norm(functional.gelu(self.inner(x)))


def training(model):
    """A step of training as a function of its inputs."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x):
        loss = model(x).exp().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step, optimizer


@pytest.fixture(scope="module")
def libtpu():
    try:
        return compiler.library()
    except compiler.CompilerError as error:
        pytest.skip(str(error))


def test_a_step_of_training_is_one_program(device):
    with without_data():
        step, _ = training(Model())
        traced = capture(step, [torch.ones(5, 6)])
    lowered = lower(traced.graph, native().platform(), traced.names)
    names = dict(zip(traced.graph.graph.find_nodes(op="placeholder"), traced.names))
    torch.manual_seed(0)
    model = Model()
    step, optimizer = training(model)
    x = torch.randn(5, 6)
    step(x)
    held = {name: t.detach().clone() for name, t in values(model, optimizer).items()}
    held = {name: t.to(device) for name, t in held.items()} | {"input 0": x.to(device)}
    program = native().add_program(lowered.description, lowered.text)
    read, written = ([held[names[n]] for n in nodes] for nodes in (lowered.read, lowered.written))
    (loss,) = torch.ops.torch_tpu.run_graph.default(program, 1, [], read, written)
    torch.testing.assert_close(loss.cpu(), step(x).detach())
    # The program has the corrections of the second step, as the trace is of the second.
    for name, expected in values(model, optimizer).items():
        torch.testing.assert_close(held[name].cpu(), expected.detach())
    assert len(written) == 4 * 3 + 3


def values(model, optimizer):
    """Parameters, buffers and what the optimizer keeps, by the names of a trace."""
    named = dict(model.named_parameters())
    found = {**named, **dict(model.named_buffers())}
    for name, parameter in named.items():
        for key, tensor in optimizer.state[parameter].items():
            if key != "step":
                found[f"{key} of {name}"] = tensor
    return found


def test_gradients_have_the_place_of_their_operator():
    with without_data():
        step, _ = training(Model())
        traced = capture(step, [torch.ones(5, 6)])
    places = [place_of(node) for node in traced.graph.graph.nodes]
    products = [p for p in places if p and p.op in ("addmm", "mm (gradient)")]
    assert [p.part for p in products] == ["inner", "inner"]
    line = Model.forward.__code__.co_firstlineno + 1
    assert all(p.file.endswith("test_fit.py") and p.line == line for p in products)


def test_what_a_call_holds_is_named():
    with without_data():
        cache = {"keys": [torch.zeros(2, 3)]}

        def call(x):
            cache["keys"][0].add_(x)
            return cache["keys"][0] * 2

        traced = capture(call, [torch.ones(2, 3)])
    assert traced.names == ["input 0", "cache['keys'][0]"]


def test_a_value_that_is_asked_for_is_said_with_its_line():
    def call(x):
        return x if x.sum() > 0 else -x

    with without_data(), pytest.raises(CaptureError, match=r"TPU4020.*test_fit.py:\d+"):
        capture(call, [torch.ones(2)])


def test_an_operator_without_a_lowering_is_said_with_its_line():
    def call(x):
        return torch.linalg.eig(x)[0]

    report = Question(lambda _: (call, [torch.ones(3, 3)]), False).ask("v5e:1x1")
    line = call.__code__.co_firstlineno + 1
    assert report.verdict == "does not lower"
    assert f"test_fit.py:{line}" in report.reasons[0] and "eig" in report.reasons[0]


def test_memory_is_not_taken():
    def call(x):
        return (x @ x).sum()

    with without_data():
        traced = capture(call, [torch.empty(1 << 20, 1 << 20)])
    assert traced.tensors[0].numel() == 1 << 40


@pytest.mark.parametrize("target", GENERATIONS, ids=lambda target: target.name)
def test_every_generation_compiles(libtpu, target):
    step, _ = training(Model())
    report = fit(Model(), [torch.ones(5, 6)], target.single, effort="low")
    assert report.fits and report.reasons == []
    assert 0 < report.hbm["peak"] <= report.hbm["needed"] < report.hbm["limit"]
    assert report.flops == 2 * 5 * 6 * 8
    names = {tensor.name for tensor in report.tensors}
    assert {"inner.weight", "norm.running_mean", "input 0"} <= names
    assert any("test_fit.py:" in tensor.line for tensor in report.tensors)


def test_what_does_not_fit_is_refused_with_advice_that_holds(libtpu):
    with torch.device("meta"):
        model = torch.nn.Sequential(*(torch.nn.Linear(32768, 32768, bias=False) for _ in range(5)))
    report = fit(model, [torch.empty(1, 32768)], "v5e:1x1", effort="low")
    assert report.verdict == "does not fit"
    assert "exceeds available HBM (15.75G)" in report.reasons[0]
    assert report.hbm["needed"] > 20 << 30 and report.tensors[0].name.endswith(".weight")
    assert [advice.partition(":")[0] for advice in report.advice] == [
        "--dtype bfloat16",
        "--topology v6e",
    ]
    assert fit(model, [torch.empty(1, 32768)], "v5e:1x1", dtype=torch.bfloat16, effort="low").fits


def test_the_command_reports(libtpu, tmp_path, capfd):
    script = tmp_path / "decode.py"
    script.write_text(
        "import sys, torch\n"
        "print('printed')\n"
        "def fit():\n"
        "    model = torch.nn.Linear(300, 64)\n"
        "    return (lambda x: model(x).softmax(-1)), (torch.randn(int(sys.argv[1]), 300),)\n"
    )
    page = tmp_path / "page.html"
    options = ["--topology", "v5e:1x1", "--effort", "low", "--html", str(page)]
    assert _cli.main(["fit", *options, str(script), "7"]) == 0
    out, err = capfd.readouterr()
    assert "v5e:1x1 float32: fits" in out and "decode.py:5" in out and "printed" in err
    assert "limit 15.75 GiB" in page.read_text()
    assert _cli.main(["fit", "--json", "--effort", "low", str(script), "7"]) == 0
    (report,) = json.loads(capfd.readouterr().out)
    assert report["topology"] == "v6e:1x1" and report["flops"] == 2 * 7 * 300 * 64


def test_a_script_that_defines_nothing_is_told(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("torch_tpu._fit.compiler.library", lambda: "libtpu.so")
    script = tmp_path / "empty.py"
    script.write_text("x = 1\n")
    assert _cli.main(["fit", str(script)]) == 2
    assert "TPU4024" in capfd.readouterr().err
