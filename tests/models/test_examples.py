"""The examples run as their first lines say, and give what a reader would expect."""

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def run(name, device):
    """The last line that an example prints."""
    command = [sys.executable, EXAMPLES / name, str(device)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chat.py", r"The capital of France is Paris\."),
        ("embed.py", r"nearest to `A cat sleeps on the sofa.`: `A kitten sleeps on the sofa.`"),
        ("digits.py", r"(9[7-9]\.\d|100\.0) % of the test pictures right"),
    ],
)
def test_example(name, expected, device):
    assert re.match(expected, run(name, device))
