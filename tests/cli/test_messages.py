# SPDX-License-Identifier: BSD-3-Clause
"""No dead ends: every option that a message names exists, and no message speaks Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import pairlearn
from pairlearn.cli.program import COMMANDS, program
from pairlearn.cli.wording import in_options, options_of

ROOT = Path(pairlearn.__file__).parent
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]+)")
#: Options of other programs that messages name.
FOREIGN = {"version", "help"}


def texts_of(path):
    """Yield the texts of a module that are no docstrings, f-strings joined."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body
        and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else "…" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # noqa: SIM102
            # a style sheet has names of its own that begin with two dashes
            if id(node) not in docs and "var(--" not in node.value:
                yield node.value


def command_of(name):
    return program.get_command(None, name)


ALL = set().union(*(options_of(command_of(name)) for name in COMMANDS)) | FOREIGN


NAMING = [p for p in sorted(ROOT.rglob("*.py")) if OPTION.search(p.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", NAMING, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_option_that_a_text_names_exists(path):
    own = {module: name for name, (module, _) in COMMANDS.items()}
    known = ALL
    if path.parent == ROOT / "cli" and path.stem in own:
        # beside its own a command may name options of the command that it points to
        known = options_of(command_of(own[path.stem])) | options_of(command_of("train")) | FOREIGN
    for text in texts_of(path):
        for option in OPTION.findall(text):
            assert option.rstrip("-") in known, text


def test_docstrings_of_commands_name_options_that_exist():
    for name in COMMANDS:
        command = command_of(name)
        inner = getattr(command, "commands", {}).values()
        for one in (command, *inner):
            for option in OPTION.findall(one.help or ""):
                assert option in ALL, (name, option)


READERS = [p for room in ("streams", "tables", "models") for p in (ROOT / room).rglob("*.py")]
PYTHON = re.compile(r"\b(?:pass|with|in|name|raise|use) (?:them )?(?:with )?([a-z_]+)=")


@pytest.mark.parametrize("path", READERS, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_message_of_a_reader_speaks_python_in_the_program(path):
    options = options_of(command_of("train"))
    for text in texts_of(path):
        said = in_options(text, options)
        found = PYTHON.search(said)
        assert found is None, said


def test_values_of_arguments_stand_beside_their_options():
    known = ["n-features", "no-verify", "radius"]
    assert (
        in_options("pass n_features=7, radius=1e3.", known) == "pass --n-features 7, --radius 1e3."
    )
    said = in_options("pass n_features=7 or max_fpr=0.1; n_passes must be positive.", ["set"])
    assert said == (
        "pass --set reading.n_features=7 or --set objective.max_fpr=0.1; --set solver.n_passes "
        "must be positive."
    )
    assert in_options("with verify_digest=False if", known) == "with --no-verify if"
