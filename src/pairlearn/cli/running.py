# SPDX-License-Identifier: BSD-3-Clause
"""How a command ends: an exit status and at most one line about what went wrong."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

import click

from pairlearn.atomic import described
from pairlearn.cli.output import show_warning
from pairlearn.cli.standard_streams import is_about_output
from pairlearn.cli.stopping import Stopping

DONE, FAILED, USAGE = 0, 1, 2

TRACEBACK = "PAIRLEARN_TRACEBACK"

# Errors of data, arguments or the machine; any other error is a bug of the program.
_EXPECTED = (ValueError, TypeError, OSError, ArithmeticError, MemoryError, ImportError)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return described(error)
    return " ".join(str(error).split()) or type(error).__name__


def _say(message: str) -> None:
    click.echo(f"pairlearn: {message}", err=True)


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command and return the exit status; errors become one line on standard error.

    SIGTERM and SIGHUP end a command as Ctrl-C does, with a status of their own, 143 and 129.
    Warnings are one line each.

    With the environment variable ``PAIRLEARN_TRACEBACK=1`` the traceback is shown as well.
    """
    with Stopping(always=True) as stop, warnings.catch_warnings():
        warnings.showwarning = show_warning
        # A model that was interrupted is not kept.
        warnings.filterwarnings("ignore", "Interrupted after")
        status = _run(command, arguments, stop)
        _end_output()
        return status


def _run(command: click.Command, arguments: Sequence[str], stop: Stopping) -> int:
    """Run a command; return its exit status."""
    try:
        result = command.main(list(arguments), prog_name="pairlearn", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return DONE
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "pairlearn"
        _say(f"{_one_line_usage(error)} (try `{path} --help`)")
        return USAGE
    except (KeyboardInterrupt, click.Abort) as error:
        # Click turns an interrupt into an abort; a command may say what is left to do.
        said = str(error.__cause__ or "") if isinstance(error, click.Abort) else str(error)
        _say(said or "interrupted")
        return stop.status
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        _say(_one_line_usage(error))
        return FAILED
    except Exception as error:
        if stop.received is not None:
            # Some libraries turn an interrupt into an error of their own. A file that could not be
            # written must be known all the same.
            told = isinstance(error, (OSError, ValueError))
            _say(f"interrupted; {_one_line(error)}" if told else "interrupted")
            return stop.status
        about_output = isinstance(error, OSError) and is_about_output(error)
        # If nobody reads the output any more, nobody wants to hear of it.
        if not (about_output and isinstance(error, BrokenPipeError)):
            _report(error, _command_of(command, arguments))
        return FAILED
    return result if isinstance(result, int) and not isinstance(result, bool) else DONE


def _end_output() -> None:
    """Write what an error has left for standard output; Python would complain at its end."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # The status is that of the error, and there is nothing to add to it.
        is_about_output(error)


def _one_line_usage(error: click.ClickException) -> str:
    return " ".join(error.format_message().split())


def _command_of(command: click.Command, arguments: Sequence[str]) -> click.Command:
    """Return the command that the arguments name."""
    for name in arguments:
        if not isinstance(command, click.Group):
            break
        inner = command.get_command(click.Context(command), name)
        if inner is None:
            break
        command = inner
    return command


def _report(error: Exception, command: click.Command) -> None:
    if os.environ.get(TRACEBACK) == "1":
        import traceback

        traceback.print_exception(error)
    if isinstance(error, _EXPECTED):
        from pairlearn.cli.wording import in_options, options_of

        _say(f"error: {in_options(_one_line(error), options_of(command))}")
    else:
        _say(
            f"internal error: {type(error).__name__}: {_one_line(error)} "
            f"(please report it; {TRACEBACK}=1 shows where it happened)"
        )
