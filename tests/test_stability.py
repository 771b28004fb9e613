# SPDX-License-Identifier: BSD-3-Clause
"""The public names, signatures and options are those of the list: a change is seen and meant.

`python tests/test_stability.py` writes the list anew. What docs/stability.md promises is in it.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from pathlib import Path

import click

import pairlearn

LIST = Path(__file__).parent / "public_names.txt"
#: Doors whose names are listed, without signatures. The extra torch has its own tests.
ROOMS = (
    "averaging", "cluster", "data", "domains", "estimators", "experiments", "features",
    "losses", "metrics", "models", "pairings", "privacy", "problem", "recipes", "reference",
    "schedules", "scores", "solvers", "streams", "tables", "theory",
)  # fmt: skip


def parameters_of(function):
    """Return the parameters as they are called: names, stars, and = where there is a default."""
    found = []
    seen_star = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            found.append(f"*{parameter.name}")
            seen_star = True
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not seen_star:
            found.append("*")
            seen_star = True
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else "="
        found.append(f"{stars}{parameter.name}{default}")
    return ", ".join(found)


def lines_of(owner, name, value):
    if inspect.isclass(value):
        if issubclass(value, Warning | Exception):
            yield f"{owner}.{name}"
            return
        yield f"{owner}.{name}({parameters_of(value.__init__)})"
        for attribute in sorted(dir(value)):
            method = getattr(value, attribute, None)
            ours = (getattr(method, "__module__", None) or "").startswith("pairlearn")
            if not attribute.startswith("_") and inspect.isroutine(method) and ours:
                yield f"{owner}.{name}.{attribute}({parameters_of(method)})"
    elif callable(value):
        yield f"{owner}.{name}({parameters_of(value)})"
    else:
        yield f"{owner}.{name}"


def commands_of(command, path):
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands_of(command.get_command(context, name), f"{path} {name}")
        return
    arguments = [p.name.upper() for p in command.params if isinstance(p, click.Argument)]
    options = sorted(
        max(p.opts, key=len) for p in command.params if isinstance(p, click.Option) and not p.hidden
    )
    yield " ".join([path, *arguments, *options])


def public():
    from pairlearn.cli.program import program

    lines = []
    for name in sorted(pairlearn.__all__):
        if not name.startswith("__"):
            lines += lines_of("pairlearn", name, getattr(pairlearn, name))
    for room in ROOMS:
        names = importlib.import_module(f"pairlearn.{room}").__all__
        lines.append(f"pairlearn.{room}: {' '.join(sorted(names))}")
    return [*lines, *commands_of(program, "$ pairlearn")]


def test_the_public_names_are_those_of_the_list():
    now, recorded = public(), LIST.read_text(encoding="utf-8").splitlines()
    changes = [line for line in difflib.unified_diff(recorded, now, lineterm="", n=0)]
    assert not changes, (
        "public names have changed; if that is meant, say so in CHANGELOG.md, see "
        "docs/stability.md, and run python tests/test_stability.py:\n" + "\n".join(changes)
    )


def test_a_renamed_parameter_and_a_lost_option_would_be_seen():
    def before(X, *, ridge=1.0):
        pass

    def after(X, *, l2=1.0):
        pass

    assert parameters_of(before) == "X, *, ridge="
    assert parameters_of(before) != parameters_of(after)
    some = click.Command("go", params=[click.Option(["-o", "--output"]), click.Argument(["data"])])
    assert list(commands_of(some, "$")) == ["$ DATA --output"]


if __name__ == "__main__":
    LIST.write_text("\n".join(public()) + "\n", encoding="utf-8")
