"""Runs code in an interpreter of its own, for what needs a fresh process."""

import os
import subprocess
import sys

import pytest


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
