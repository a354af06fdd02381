"""The program that the README opens with runs and learns."""

import pathlib
import re

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def test_first_program(device, capsys):
    program = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]
    assert 'device="tpu"' in program
    exec(program.replace('"tpu"', repr(str(device))), {})
    losses = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert len(losses) == 3 and losses[2] < losses[0]
