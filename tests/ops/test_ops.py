"""Every operator of PyTorch's databases against the CPU.

`pytest tests/ops -k hypot` takes a seeded sample of one operator, `--full` all of it. To look into
a failure: `python tests/ops/sweep/worker.py hypot float32 forward`.
"""

from sweep import cases


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        selected = cases.select(metafunc.config.getoption("--full"))
        metafunc.parametrize("case", selected, ids=str)


def test_op(case, sweep):
    wrong = sweep.check(case)
    assert not wrong, f"{case.op}, {case.dtype}\n{wrong}"
