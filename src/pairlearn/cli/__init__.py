# SPDX-License-Identifier: BSD-3-Clause
"""The program ``pairlearn``. Begin with `program`, which lists the commands.

One file for each command, loaded when it is called: train (with train_stream and fit_report),
predict, evaluate, inspect_model, export, stream, rate, privacy, reproduce, compare. `shared` has
what several of them need: settings (--set, --config), files (input and output), reading (the data,
in the terms of streams and tables), output (names and numbers on the terminal), scoring and
onnx_models. `private` has what --private does. `running` turns errors into exit statuses.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the program with the arguments of the process and exit with its status."""
    import gc
    import os
    import signal
    import sys

    # A wide table makes a million small objects and hardly a cycle.
    gc.set_threshold(50_000)
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # A closed stream: the next file that is opened would get its number.
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    from pairlearn.cli.program import program
    from pairlearn.cli.running import SIGNALS, run

    status = run(program, sys.argv[1:])
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # the status is known
    sys.exit(status)
