# SPDX-License-Identifier: BSD-3-Clause
"""The package as a whole: imports, cache of machine code, docstrings, layers."""

import gc
import importlib
import inspect
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from numpydoc.validate import validate

import pairlearn
from pairlearn.lazy import without_collections

SOURCE = Path(pairlearn.__file__).resolve().parent

FIT = """
import numpy as np
import scipy.sparse
from pairlearn import {loss}, Constant, LinearScore, PairwiseSGD, Problem

rng = np.random.default_rng(0)
X = rng.normal(size=(50, 3))
y = np.where(X[:, 0] > 0, 1.0, -1.0)
problem = Problem(LinearScore(), {loss}())
for data in (X, scipy.sparse.csr_array(X)):
    found = PairwiseSGD(schedule=Constant(0.1)).solve(problem, data, y, n_steps=200, rng=0)
    print(found.average.tolist())
"""
OWN_LOSS = """
import math
import numpy as np
from pairlearn import Exponential, LinearScore, PairLoss, PairwiseSGD, Problem, scalar

class Mine(PairLoss):
    @scalar
    def value(score, y, y_partner, _):
        m = score if y > y_partner else -score
        return math.exp(-m)

    @scalar
    def derivative(score, y, y_partner, _):
        sign = 1.0 if y > y_partner else -1.0
        return -sign * math.exp(-sign * score)

rng = np.random.default_rng(0)
X = rng.normal(size=(100, 3))
y = np.where(X[:, 0] > 0, 1.0, -1.0)
mine, theirs = (
    PairwiseSGD().solve(Problem(LinearScore(), loss), X, y, n_steps=200, rng=0).average
    for loss in (Mine(), Exponential())
)
assert np.allclose(mine, theirs, rtol=1e-12), (mine, theirs)
print("agree")
"""


def python(*arguments, cwd=None, **environment):
    """Run Python in a new process and return what it prints."""
    path = os.pathsep.join([str(SOURCE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder for machine code that the processes of this module share."""
    return tmp_path_factory.mktemp("cache")


def files_in(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file())


# ------------------------------------------------------------------------------------- imports


def test_importing_the_package_imports_nothing_heavy():
    code = """
        import sys
        import pairlearn
        heavy = {"numba", "llvmlite", "sklearn", "scipy", "pandas", "matplotlib", "pyarrow"}
        print(sorted(heavy & set(sys.modules)))
    """
    assert python("-c", textwrap.dedent(code)) == "[]\n"


def test_parts_need_neither_numba_nor_scikit_learn():
    code = """
        import sys
        from pairlearn import (
            Ball, Constant, Hinge, LinearScore, PairwiseSGD, PreviousExample, Problem, scalar,
        )
        from pairlearn.averaging import DelayedByStepSize
        solver = PairwiseSGD(PreviousExample(), Constant(0.1), Ball(1.0), DelayedByStepSize())
        print(Problem(LinearScore(), Hinge()).constants(norm_bound=1.0, radius=1.0).lipschitz)
        print(callable(scalar), sorted({"numba", "sklearn"} & set(sys.modules)))
    """
    assert python("-c", textwrap.dedent(code)) == "2.0\nTrue []\n"


def test_public_names():
    assert pairlearn.__all__ == sorted(set(pairlearn.__all__))
    assert dir(pairlearn) == pairlearn.__all__
    for name in pairlearn.__all__:
        value = getattr(pairlearn, name)
        if name != "__version__":
            assert not inspect.ismodule(value), f"a module hides the public name {name}"
            assert inspect.getdoc(value), name
    with pytest.raises(AttributeError, match="module 'pairlearn' has no attribute 'Hinges'"):
        _ = pairlearn.Hinges


@pytest.mark.parametrize("enabled", [True, False])
def test_loading_leaves_the_garbage_collector_as_it_was(enabled):
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with without_collections():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
        with pytest.raises(ImportError), without_collections():
            raise ImportError
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was else gc.disable)()


def test_version_is_the_one_of_the_distribution():
    tomllib = pytest.importorskip("tomllib")
    project = SOURCE.parents[1] / "pyproject.toml"
    if not project.exists():
        pytest.skip("the package is installed without its project file")
    assert tomllib.loads(project.read_text())["project"]["version"] == pairlearn.__version__


# ------------------------------------------------------------------- the cache of machine code


@pytest.mark.thorough
def test_a_second_process_adds_nothing_to_the_cache(cache):
    code = FIT.format(loss="Logistic")
    first = python("-c", code, NUMBA_CACHE_DIR=str(cache))
    files = {p: p.stat().st_mtime_ns for p in files_in(cache)}
    assert files, "the first process fills the cache"
    assert python("-c", code, NUMBA_CACHE_DIR=str(cache)) == first
    assert {p: p.stat().st_mtime_ns for p in files_in(cache)} == files


@pytest.mark.thorough
def test_an_edited_helper_is_seen_by_kernels_in_other_files(tmp_path):
    copy = tmp_path / "pairlearn"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = """
        import numpy as np
        from pairlearn.kernels.plan import draw_indices
        out = np.empty(3, dtype=np.int64)
        draw_indices(np.uint64(0), 1000, out)
        print(*out)
    """

    def drawn():
        # No byte code: it would not see an edit within the same second that keeps the length.
        printed = python("-Bc", textwrap.dedent(code), PYTHONPATH=str(tmp_path), NUMBA_CACHE_DIR="")
        return printed, {p: p.stat().st_mtime_ns for p in copy.rglob("*.nb[ic]")}

    first, files = drawn()
    assert len(files) == 2, "an index and the machine code"
    assert drawn() == (first, files), "a second process adds nothing"
    helper = copy / "kernels" / "splitmix.py"
    helper.write_text(helper.read_text().replace("np.uint64(27)", "np.uint64(17)"))
    second, edited = drawn()
    assert second != first
    assert len(edited) == 2, "code of the old sources is removed"
    assert not edited.keys() & files.keys()


@pytest.mark.thorough
def test_works_where_no_cache_can_be_written(tmp_path):
    """Files stand where the folders of the cache would be, which stops even a privileged user."""
    copy = tmp_path / "site" / "pairlearn"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(p for p in copy.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("")
    wall = tmp_path / "wall"
    wall.write_text("")
    fit = FIT.format(loss="Hinge").replace("(X, scipy.sparse.csr_array(X))", "(X,)")
    code = "import pairlearn; print(pairlearn.__file__)\n" + fit
    environment = {
        "PYTHONPATH": str(copy.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(wall / "cache"),
        "XDG_CACHE_HOME": str(wall),
        "HOME": str(wall),
        "IPYTHONDIR": str(wall),
    }
    before = files_in(tmp_path)
    where, *found = python("-c", code, **environment).splitlines()
    assert Path(where).parent == copy
    assert found == python("-c", fit).splitlines()
    assert files_in(tmp_path) == before


# ----------------------------------------------------------------------- losses of one's own


@pytest.mark.thorough
def test_a_loss_in_a_script(tmp_path, cache):
    script = tmp_path / "script.py"
    script.write_text(OWN_LOSS)
    environment = {"NUMBA_CACHE_DIR": str(cache)}
    assert python(str(script), **environment) == "agree\n"
    before = files_in(cache)
    assert any("Mine.derivative" in p.name for p in before)
    assert python(str(script), **environment) == "agree\n"
    assert files_in(cache) == before
    # An edit is seen at once: the cache does not outlive the source.
    script.write_text(OWN_LOSS.replace("return -sign *", "return -2.0 * sign *"))
    with pytest.raises(AssertionError, match="AssertionError"):
        python(str(script), **environment)


@pytest.mark.thorough
def test_a_loss_that_allocates_is_loaded_with_the_runtime_of_numba(tmp_path, cache):
    """Kernels are loaded without it; a function that calls it by name would end the process."""
    script = tmp_path / "script.py"
    script.write_text(
        OWN_LOSS.replace(
            "return -sign *",
            "room = np.ones(2 + int(score > 1e9)); return -0.5 * room.sum() * sign *",
        )
    )
    environment = {"NUMBA_CACHE_DIR": str(cache)}
    assert python(str(script), **environment) == "agree\n"
    before = files_in(cache)
    code = [p.read_bytes() for p in cache.rglob("*Mine.derivative*.nbc")]
    assert any(b"NRT_" in one for one in code)
    assert python(str(script), **environment) == "agree\n"
    assert files_in(cache) == before


@pytest.mark.thorough
def test_a_loss_with_a_constant_from_elsewhere(tmp_path, cache):
    """The cache would not see an edit of the other file: such a loss is compiled each time."""
    (tmp_path / "elsewhere.py").write_text("FACTOR = 1.0\n")
    script = tmp_path / "script.py"
    script.write_text(
        OWN_LOSS.replace("import math", "import math\nfrom elsewhere import FACTOR", 1).replace(
            "return -sign *", "return -FACTOR * sign *"
        )
    )
    environment = {"NUMBA_CACHE_DIR": str(cache)}
    assert python("-B", str(script), **environment) == "agree\n"
    (tmp_path / "elsewhere.py").write_text("FACTOR = 2.0\n")
    with pytest.raises(AssertionError, match="AssertionError"):
        python("-B", str(script), **environment)


@pytest.mark.thorough
def test_a_loss_at_a_prompt(cache):
    assert python("-c", OWN_LOSS, NUMBA_CACHE_DIR=str(cache)) == "agree\n"


# --------------------------------------------------------------------------- docstrings, layers

#: What numpydoc asks for and this project does not.
IGNORED = {
    "ES01": "one sentence is enough where it says everything",
    "SA01": "the table of public names in the documentation shows what belongs together",
    "PR08": "a description may begin with a value or a symbol",
    "RT04": "a description may begin with a symbol",
}
#: Also not asked of a method whose docstring is one sentence that names its result.
IGNORED_OF_ONE_SENTENCE = {
    "PR01": "the parameters of small methods of a part are described with the class",
    "RT01": "the sentence says what is returned",
}
#: Not asked of methods, and of errors, warnings and results, which nobody makes by hand.
IGNORED_OF_SOME = {"EX01": "the class, or the function that returns it, has the example"}
RESULTS = {
    "AUCComparison",
    "AUCInterval",
    "Advice",
    "HistogramAUC",
    "LabelledMoments",
    "PrivateAUC",
    "PrivateROC",
    "PublicAudit",
    "QueryPairs",
    "Recipe",
    "SampledRows",
    "TableMoments",
    "load_model",
}
#: Rooms whose names are looked at.
ROOMS = [
    "averaging", "cluster", "data", "domains", "estimators", "features", "losses", "metrics",
    "models", "pairings", "privacy", "problem", "recipes", "schedules", "scores", "solvers",
    "streams", "tables", "theory",
]  # fmt: skip
#: Names behind doors whose docstrings lack a section. The list may only become shorter.
BRIEF = {
    "Alarm", "ArraySpec", "Arrival", "ArrowTable", "Averaging", "Block",
    "Bounds", "CentredStatistics", "Chunk", "Constants", "Dataset", "Decision",
    "ExcessMeasurement", "FittedTable", "LabelRule", "ListedPairs", "LocalizedStage",
    "Mechanism", "NamedLearner", "NoiseSource", "OfflineSource", "OnlineSource",
    "Pairing", "PartialArea", "Plan", "PrivacyPlan", "PrivateLocalizedStage", "PrivateStage",
    "PsdSet", "PublicSetting", "Push", "Reader", "Refusal", "Refusals", "Running", "Schedule",
    "SlotPlan", "SmoothPrecision", "Solution", "Source", "StabilityMeasurement",
    "Storable", "Stream", "SweepSolution", "TableEncoding", "TableOptions", "TableReader",
    "TopObjective", "Trace", "accounting_problems", "as_metric", "ball_or_whole",
    "binomial_upper", "certify", "chernoff_upper", "compose", "convex_gap_with_confidence",
    "epsilon_of_mu", "erm_sensitivity", "find", "find_bounds", "fitted_slope", "gaussian_delta",
    "generalization_gap", "get_mechanism", "gradient_norm_nonconvex", "gradient_norm_step_size",
    "iterate_weights", "load_table", "localized_excess", "localized_schedule",
    "localized_stage_gap", "lookup", "measure_excess", "measure_stability", "mu_of", "names",
    "open_table", "pl_excess", "pl_gap", "pl_horizon", "plan_table", "private_excess",
    "private_nonsmooth_excess", "private_schedule", "read_checkpoint", "read_libsvm",
    "register_part", "register_storable", "release_vector",
    "step_size_nonsmooth", "step_size_online", "step_size_smooth",
    "strongly_convex_gap", "strongly_convex_gap_with_confidence",
}  # fmt: skip


def public_objects():
    rooms = [pairlearn, *(importlib.import_module(f"pairlearn.{room}") for room in ROOMS)]
    # Those of Spark need an extra.
    named = [
        (name, getattr(room, name))
        for room in rooms
        for name in room.__all__
        if "Spark" not in name
    ]
    functions = {value: name for name, value in named if inspect.isroutine(value)}
    classes = {value: name for name, value in named if inspect.isclass(value)}
    for value, name in (functions | classes).items():
        if name in BRIEF and name not in pairlearn.__all__:
            continue
        home = f"{value.__module__}.{value.__qualname__}"
        is_error = inspect.isclass(value) and issubclass(value, Exception)
        yield home, not is_error and name not in RESULTS
        if inspect.isclass(value):
            for attribute, member in vars(value).items():
                kinds = property | classmethod | staticmethod
                if not attribute.startswith("_") and (
                    isinstance(member, kinds) or inspect.isfunction(member)
                ):
                    yield f"{home}.{attribute}", False


@pytest.mark.parametrize(("home", "has_example"), list(public_objects()))
def test_docstrings_follow_numpydoc(home, has_example):
    found = validate(home)
    ignored = set(IGNORED)
    if not has_example:
        ignored |= set(IGNORED_OF_SOME)
        if "\n" not in (found["docstring"] or "").strip():
            ignored |= set(IGNORED_OF_ONE_SENTENCE)
    errors = [(code, message) for code, message in found["errors"] if code not in ignored]
    assert not errors


def test_layers(root):
    program = Path(sys.executable).with_name("lint-imports")
    if not program.exists():
        pytest.skip("import-linter is not installed next to this Python")
    path = os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [str(program), "--no-cache"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout
