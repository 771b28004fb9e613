# SPDX-License-Identifier: BSD-3-Clause
"""Rooms have doors: users import from `pairlearn` and its rooms, never from a file inside one."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pairlearn
from pairlearn.lazy import door

SOURCE = Path(pairlearn.__file__).resolve().parent
DOORS = [
    "averaging", "cluster", "comparisons", "data", "domains", "estimators", "experiments",
    "features", "losses", "metrics", "models", "pairings", "privacy", "problem", "recipes",
    "reference", "schedules", "scores", "solvers", "streams", "tables", "theory",
    "torch",
]  # fmt: skip
#: Names that need an extra.
EXTRAS = {
    **dict.fromkeys(("OnSpark", "SparkAUCClassifier", "SparkAUCModel", "SparkJobError"), "pyspark"),
    "torch": "torch", "RiverAUCClassifier": "river", "RiverFeatures": "river",
}  # fmt: skip
DEEP = re.compile(r"^[ \t>.$]*(?:from|import) +(pairlearn\.\w+\.[\w.]+)", re.M)


def opened(room):
    if room in EXTRAS:
        pytest.importorskip(EXTRAS[room])
    return importlib.import_module(f"pairlearn.{room}")


def code_of(path):
    """Return a program, or the blocks of code of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    return "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M)) + "\n".join(
        line for line in text.splitlines() if line.lstrip().startswith(">>>")
    )


@pytest.mark.parametrize("room", DOORS)
def test_every_name_of_a_door_can_be_imported(room):
    package = opened(room)
    assert len(package.__all__) == len(set(package.__all__)) > 0
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        if name in EXTRAS:
            pytest.importorskip(EXTRAS[name])
        value = getattr(package, name)
        assert not inspect.ismodule(value), f"a module hides the public name {name}"


def test_the_top_is_small_and_each_of_its_names_stands_behind_a_door():
    assert len(pairlearn.__all__) <= 100
    behind = {name for room in DOORS if room not in EXTRAS for name in opened(room).__all__}
    own = {"__version__", "AssumptionWarning", "DivergenceError"}
    assert set(pairlearn.__all__) - behind == own


def test_a_door_names_what_it_does_not_have():
    load, listed, names = door("pairlearn.losses", {"margin": "Hinge Square"}, own=("Own",))
    assert names == listed() == ["Hinge", "Own", "Square"]
    assert load("Hinge") is pairlearn.Hinge
    with pytest.raises(AttributeError, match=r"'pairlearn\.losses' has no attribute 'Own'"):
        load("Own")


def test_doors_load_neither_numba_nor_scikit_learn():
    imports = "".join(f", pairlearn.{room}" for room in DOORS if room != "torch")
    code = f"import sys{imports}; print(sorted({{'numba', 'sklearn'}} & set(sys.modules)))"
    environment = {"PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_pages_and_examples_import_from_doors(root):
    paths = [root / "README.md", *(root / "examples").rglob("*.py")]
    paths += [p for kind in ("md", "rst", "py") for p in (root / "docs").rglob(f"*.{kind}")]
    built = {"_build", "auto_examples", "generated"}
    # The story is a program of the house, and looks inside the comparison.
    paths = [p for p in paths if not built & set(p.parts) and p.name != "story.py"]
    assert len(paths) > 50
    found = [f"{path.name}: {deep}" for path in paths for deep in DEEP.findall(code_of(path))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "is_deep"),
    [
        (">>> from pairlearn.privacy.planner import plan", True),
        ("    import pairlearn.solvers.exact.batch", True),
        (">>> from pairlearn.privacy import plan", False),
        ("from pairlearn import Hinge", False),
    ],
)
def test_what_counts_as_deep(line, is_deep):
    assert bool(DEEP.search(line)) is is_deep


def test_no_room_is_crowded():
    crowded = {
        str(folder.relative_to(SOURCE)): count
        for folder in [SOURCE, *(path for path in SOURCE.rglob("*") if path.is_dir())]
        if (count := len(list(folder.glob("*.py")))) > 20
    }
    assert not crowded


def test_every_room_has_a_folder_of_tests(root):
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert not rooms - {path.name for path in (root / "tests").iterdir()}
