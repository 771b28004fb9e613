# SPDX-License-Identifier: BSD-3-Clause
"""No module reaches into another's private attributes.

A private name (one leading underscore) belongs to the module that defines it: by `def` or `class`,
by an assignment to it, in a class, or on an object. Read or set elsewhere, on anything but
`self`, `cls` or `super()`, or imported, it is counted here.
"""

import ast
import re
from pathlib import Path

import pytest

import pairlearn

SOURCE = Path(pairlearn.__file__).resolve().parent

#: Private names of others that there is no public form of.
ALLOWED = {
    "_calibrator": "several labels keep the calibration that each of their classifiers found",
    "_exit": "os._exit: a child process ends without the clean-up of its parent",
    "_cache": "numba has no other way to say where compiled code is kept",
    "_replace": "public in a named tuple, whose fields must not be hidden by it",
    "_make": "public in a named tuple, too",
    "_meta": "Dask says by it alone what the parts of a collection are",
    "_name": "Dask says by it alone whether two expressions are the same",
    "_predictors": "scikit-learn keeps the boosted trees there alone, for the safe model file",
    "_baseline_prediction": "the score before the first of these trees",
    "_preprocessor": "how these trees encode categories",
    "_dummy": "pyspark declares the parameters of a class by it alone",
    "_resetUid": "pyspark gives a loaded object its old name by it alone",
    "_get_param_names": "scikit-learn names the parameters of an estimator's class by it alone",
}

OWN = re.compile(r"\b(?:self|cls|super\(\))\._")
IMPORTED = re.compile(r"^ *from pairlearn.* import .*\b_|^ +_\w+,?$", re.M)


def is_private(name):
    return name.startswith("_") and not name.endswith("__") and name != "_"


def is_own(value):
    """Whether an attribute is looked up on the object itself."""
    if isinstance(value, ast.Call):
        value = value.func
    return isinstance(value, ast.Name) and value.id in ("self", "cls", "super")


def names_defined(nodes):
    for node in nodes:
        stored = isinstance(getattr(node, "ctx", None), ast.Store)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif stored and isinstance(node, ast.Name):
            yield node.id
        elif stored and isinstance(node, ast.Attribute) and is_own(node.value):
            yield node.attr


def foreign(text):
    """Return what a module takes that is private to another, as (line, text)."""
    # A fit works on a copy of its object, and takes it over at the end.
    copies = ("model = copy.copy(self)", "model = object.__new__(type(self))")
    text = text.replace("model._", "self._") if any(one in text for one in copies) else text
    nodes = list(ast.walk(ast.parse(text)))
    own = set(names_defined(nodes))
    found = []
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if not is_own(node.value) and node.attr not in own and node.attr not in ALLOWED:
                found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pairlearn"):
            found += [(node.lineno, a.name) for a in node.names if is_private(a.name)]
    return found


def is_suspect(text):
    """Whether a private name may be taken from another: no tree is grown where it cannot."""
    return "._" in OWN.sub("", text) or IMPORTED.search(text) is not None


def test_no_module_reaches_into_another():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for line, text in foreign(source) if is_suspect(source) else ():
            found.append(f"{path.relative_to(SOURCE)}:{line} {text}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("model._stream = 1", 1),
        ("model.inner._stream.average", 1),
        ("class A:\n    def f(self):\n        return self._x", 0),
        ("class A:\n    _x = 1\ndef f(a):\n    return a._x", 0),
        ("class A(B):\n    def f(self):\n        return super()._f()", 0),
        ("from pairlearn.streams import _Thing", 1),
        ("from pairlearn import __version__\nimport os\nos._exit(1)", 0),
    ],
)
def test_what_is_counted(text, count):
    assert len(foreign(text)) == count
    assert is_suspect(text) or not count
