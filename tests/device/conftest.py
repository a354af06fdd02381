"""Runs code in an interpreter of its own, for what needs a fresh process."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def python():
    """`python(code, **variables)` runs `code` and returns what it printed; it must succeed."""

    def run(code, **variables):
        command = [sys.executable, "-c", code]
        environment = dict(os.environ, **variables)
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run
