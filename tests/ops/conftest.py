"""Makes the package `sweep` importable, and runs its workers for the selected tests."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def pytest_addoption(parser):
    parser.addoption("--processes", type=int, default=os.cpu_count(), help="workers of the sweep")
    parser.addoption("--results", help="a file for what came of each case, a JSON object a line")


class Sweep:
    """The results of the selected cases, as the workers come to them."""

    def __init__(self, selected, config):
        from sweep import pool, skips

        self.skips = skips.load()
        self.listed = {case: skips.reasons(self.skips, case) for case in selected}
        self.pool = pool.Pool(min(config.getoption("--processes"), len(selected)))
        self.file = config.getoption("--results")
        for case in selected:
            self.pool.submit(case, self.listed[case])
        self.pool.start()

    def check(self, case):
        """What is wrong with a case: nothing, or what a person needs to know."""
        from sweep import skips, table

        results = self.pool.result(case)
        if self.file:
            with open(self.file, "a") as file:
                file.write(table.record(case, results))
        return skips.judge(case, results, self.listed[case])


@pytest.fixture(scope="session")
def sweep(request):
    """Starts the workers; the cases of all selected tests are theirs."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    selected = [call.params["case"] for call in calls if call and "case" in call.params]
    running = Sweep(selected, request.config)
    yield running
    running.pool.stop()
