# SPDX-License-Identifier: BSD-3-Clause
"""The program ``pairlearn``: one file for each command, loaded when it is called."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the program with the arguments of the process and exit with its status."""
    import atexit
    import gc
    import sys

    from pairlearn.cli.standard_streams import mend
    from pairlearn.cli.stopping import ignore, leave_by

    # A wide table makes a million small objects and hardly a cycle: to look for cycles after every
    # 700 of them, as Python does, takes a seventh of the time.
    gc.set_threshold(50_000)
    leave_by(None)
    mend()
    atexit.register(ignore)  # The first registered function runs last.
    from pairlearn.cli.program import program
    from pairlearn.cli.running import run

    status = run(program, sys.argv[1:])
    leave_by(status)
    sys.exit(status)
