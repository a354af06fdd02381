"""Running a script as ``python script.py`` would, for the commands that look on."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import traceback
from collections.abc import Sequence


def run(command: Sequence[str], *around: contextlib.AbstractContextManager) -> bool:
    """Runs ``[script, *arguments]`` within ``around``; whether it ended well.

    What it prints goes to standard error, and so does the traceback if it fails.
    """
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = list(command), os.path.dirname(os.path.abspath(command[0]))
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
            for manager in around:
                stack.enter_context(manager)
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        return end.code in (None, 0)
    except Exception:  # noqa: BLE001  (the script's; what it did before is still of use)
        traceback.print_exc()
        return False
    finally:
        sys.argv, sys.path[0] = before
    return True
