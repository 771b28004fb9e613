# SPDX-License-Identifier: BSD-3-Clause
"""A default that a docstring states is the default."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
ROOMS = ["averaging", "domains", "features", "kernels", "losses", "metrics", "pairings", "privacy",
         "scores", "schedules", "solvers", "theory"]  # fmt: skip

#: ``name, name : kind, default=value`` at any depth of indentation.
_STATED = re.compile(r"^ *([a-zA-Z_][\w, ]*) : [^\n]*?default=([^\n]+)$", re.MULTILINE)


def stated(text):
    """Return the defaults that a docstring states as numbers, words, True, False or None."""
    found = {}
    for names, value in _STATED.findall(text):
        try:
            default = ast.literal_eval(value.strip())
        except (SyntaxError, ValueError):
            continue  # a call or a formula
        found |= dict.fromkeys((name.strip() for name in names.split(",")), default)
    return found


def described(room):
    """Yield the public functions, classes and methods of a room that have a signature."""
    top = SOURCE / "pairlearn" / room
    for path in sorted(top.rglob("*.py")) if top.is_dir() else [top.with_suffix(".py")]:
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = importlib.import_module(".".join(p for p in parts if p != "__init__"))
        for name, one in vars(module).items():
            if getattr(one, "__module__", None) != module.__name__ or not inspect.getdoc(one):
                continue
            if inspect.isclass(one) or inspect.isfunction(one):
                yield f"{module.__name__}.{name}", one
            if inspect.isclass(one):
                for inner, method in vars(one).items():
                    if inspect.isfunction(method) and method.__doc__:
                        yield f"{module.__name__}.{name}.{inner}", method


def test_what_is_read_from_a_docstring():
    text = """Do it.

    Parameters
    ----------
    a, b : float, default=0.5
    c : {"x", "y"}, default="x"
    d : Loss, default=Hinge()
    e : int, optional
    """
    assert stated(text) == {"a": 0.5, "b": 0.5, "c": "x"}


@pytest.mark.parametrize("room", ROOMS)
def test_stated_defaults_are_the_defaults(room):
    wrong, n_checked = [], 0
    for name, one in described(room):
        defaults = stated(inspect.getdoc(one))
        if not defaults:
            continue
        found = {
            p.name: p.default
            for p in inspect.signature(one).parameters.values()
            if p.default is not inspect.Parameter.empty
        }
        for parameter, default in defaults.items():
            if parameter in found:
                n_checked += 1
                actual = found[parameter]
                if actual != default or isinstance(actual, bool) != isinstance(default, bool):
                    wrong.append(f"{name}({parameter}): states {default!r}, is {actual!r}")
    assert not wrong
    assert n_checked or room in ("averaging", "kernels", "scores")
