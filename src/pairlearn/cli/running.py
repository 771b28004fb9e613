# SPDX-License-Identifier: BSD-3-Clause
"""How a command ends: an exit status and at most one line about what went wrong.

SIGTERM and SIGHUP end a command as Ctrl-C does: by `KeyboardInterrupt`, with statuses of their own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import click

from pairlearn.atomic import described

DONE, FAILED, USAGE = 0, 1, 2

TRACEBACK = "PAIRLEARN_TRACEBACK"

# Errors of data, arguments or the machine; any other error is a bug of the program.
_EXPECTED = (ValueError, TypeError, OSError, ArithmeticError, MemoryError, ImportError)

#: The signals that end a command; Windows has no SIGHUP.
SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class Stop:
    """Raises KeyboardInterrupt when a signal comes; inside `held` the signal is only noted."""

    def __init__(self) -> None:
        #: The first signal received.
        self.received: int | None = None
        self._holds = 0

    @property
    def status(self) -> int:
        """The exit status of a program that was stopped by the signal received."""
        return 128 + (self.received or signal.SIGINT)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Note a signal, and raise KeyboardInterrupt unless it is held back."""
        first = self.received is None
        if first:
            self.received = number
        # A second signal must not disturb what the first has set going.
        if first and not self._holds:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come, though something has swallowed it."""
        if self.received is not None:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold signals back in the block, where `check` asks for them."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let signals end the block within a block that holds them back."""
        self.check()
        holds, self._holds = self._holds, 0
        try:
            yield
        finally:
            self._holds = holds


#: The signals of this process, for the command that runs.
stop = Stop()


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command and return the exit status; errors become one line on standard error.

    With the environment variable ``PAIRLEARN_TRACEBACK=1`` the traceback is shown as well.
    """
    before: dict[int, Any] = {}
    stop.received = None
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            # A shell without job control lets background programs ignore Ctrl-C, `nohup` SIGHUP.
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, stop.receive)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            # A model that was interrupted is not kept.
            warnings.filterwarnings("ignore", "Interrupted after")
            status = _run(command, arguments)
            _end_output()
            return status
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def show_warning(message: Any, *_: Any, **__: Any) -> None:
    """Print a warning in one line, in place of `warnings.showwarning`."""
    _say(f"warning: {message}")


def _run(command: click.Command, arguments: Sequence[str]) -> int:
    try:
        result = command.main(list(arguments), prog_name="pairlearn", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return DONE
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "pairlearn"
        _say(f"{_one_line(error.format_message())} (try `{path} --help`)")
        return USAGE
    except (KeyboardInterrupt, click.Abort) as error:
        # Click turns an interrupt into an abort; a command may say what is left to do.
        said = str(error.__cause__ or "") if isinstance(error, click.Abort) else str(error)
        _say(said or "interrupted")
        return stop.status
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        _say(_one_line(error.format_message()))
        return FAILED
    except BrokenPipeError:
        return FAILED  # nobody reads the output any more
    except Exception as error:
        if stop.received is not None:
            # Some libraries turn an interrupt into an error of their own.
            _say("interrupted")
            return stop.status
        _report(error, command, arguments)
        return FAILED
    return result if isinstance(result, int) and not isinstance(result, bool) else DONE


def _say(message: str) -> None:
    with suppress(OSError):  # a message that cannot be shown must not end the work
        click.echo(f"pairlearn: {message}", err=True)


def _one_line(error: object) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return described(error)
    return " ".join(str(error).split()) or type(error).__name__


def _end_output() -> None:
    """Write what an error has left for standard output; Python would complain at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 1)


def _report(error: Exception, command: click.Command, arguments: Sequence[str]) -> None:
    if os.environ.get(TRACEBACK) == "1":
        import traceback

        traceback.print_exception(error)
    line = _one_line(error)
    if isinstance(error, _EXPECTED):
        from pairlearn.cli.shared.output import in_options

        _say(f"error: {in_options(line, _options_of(command, arguments))}")
        return
    _say(f"internal error: {type(error).__name__}: {line} (please report it; {TRACEBACK}=1 shows "
         "where it happened)")  # fmt: skip


def _options_of(command: click.Command, arguments: Sequence[str]) -> set[str]:
    """Return the long options, without dashes, of the command that the arguments name."""
    for name in arguments:
        if not isinstance(command, click.Group):
            break
        inner = command.get_command(click.Context(command), name)
        if inner is None:
            break
        command = inner
    names = (name for parameter in command.params for name in parameter.opts)
    return {name[2:] for name in names if name.startswith("--")}
