# SPDX-License-Identifier: BSD-3-Clause
"""The list of commands. Help comes from this table: asking for it loads no command."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Mapping
from typing import Any

import click

from pairlearn import __version__

# name: (module under pairlearn.cli, one line of help); the module's command is `command`
COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("train", "Train a model on files of any size."),
    "predict": ("predict", "Score data with a model: one line for each row."),
    "evaluate": ("evaluate", "Evaluate a model on labelled data that it was not trained on."),
    "rate": ("rate", "Rate players by votes between two of them."),
    "stream": ("stream", "Learn from standard input and score as it goes."),
    "inspect": ("inspect_model", "Show what a model file holds."),
    "export": ("export", "Export a model for programs that do not use this library."),
    "privacy": ("privacy", "Plan, certify and audit private models."),
    "compare": ("compare", "Compare methods on data sets by test AUC, time and memory."),
    "reproduce": ("reproduce", "Reproduce tables and figures of the paper."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called.

    `table` holds for each command its module within `package`, and one line of help.
    """

    def __init__(
        self, *, table: Mapping[str, tuple[str, str]], package: str, **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self._table = table
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in self._table:
            return None
        module = importlib.import_module(f"{self._package}.{self._table[cmd_name][0]}")
        command: click.Command = module.command
        _keep_lines(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command named first, or say which name comes near."""
        if args and args[0] not in self._table and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self._table, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "see `pairlearn --help`."
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._table.items()])


def _keep_lines(command: click.Command) -> None:
    """Turn the two characters of a raw docstring into click's mark for lines kept as they are."""
    if command.help:
        command.help = re.sub(r"^( *)\\b$", "\\1\b", command.help, flags=re.MULTILINE)
    for inner in getattr(command, "commands", {}).values():
        _keep_lines(inner)


program = LazyGroup(
    name="pairlearn",
    table=COMMANDS,
    package="pairlearn.cli",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Learn an order from pairs: AUC, ranking, ratings, metrics, streams, privacy.

    Results go to standard output, messages and progress to standard error. Exit status: 0 done,
    1 failed, 2 wrong usage, 129 terminal closed, 130 interrupted, 143 terminated.
    """,
    epilog="""Examples: `pairlearn train customers.csv --label churned`, then
    `pairlearn evaluate customers.safetensors test.csv` and
    `pairlearn predict customers.safetensors new.csv`. For completion in bash:
    `eval "$(_PAIRLEARN_COMPLETE=bash_source pairlearn)"`.""",
)
program = click.version_option(__version__, prog_name="pairlearn", message="%(prog)s %(version)s")(
    program
)
