# SPDX-License-Identifier: BSD-3-Clause
"""A warning is laid at the line of the user: Python shows it once for each line."""

import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import pairlearn
from pairlearn import AUCClassifier, EntropyRegressor, PairwiseRanker

CONSTANT = np.ones((60, 2))
LABELS = np.arange(60) % 2
FEW = np.arange(60) % 30 == 0
SPREAD = np.random.default_rng(0).normal(size=(60, 2))


def sorted_stream():
    X, y = np.random.default_rng(0).normal(size=(4000, 2)), np.repeat([0, 1], 2000)
    AUCClassifier(solver="sgd", random_state=0).partial_fit(X, y, classes=[0, 1])


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: AUCClassifier().fit(CONSTANT, LABELS),
        lambda: make_pipeline(AUCClassifier()).fit(CONSTANT, LABELS),
        lambda: EntropyRegressor().fit(CONSTANT, LABELS * 1.0),
        lambda: PairwiseRanker().fit(CONSTANT, LABELS),
        lambda: AUCClassifier(objective="average_precision").fit(SPREAD, FEW),
        lambda: AUCClassifier(objective="average_precision", solver="sgd").fit(SPREAD, FEW),
        sorted_stream,
    ],
)
def test_a_warning_names_the_line_of_the_user(misuse):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        misuse()
    assert caught
    assert {warning.filename for warning in caught} == {__file__}


def test_one_model_does_not_silence_another():
    program = """
        import numpy as np
        from pairlearn import AUCClassifier, EntropyRegressor
        X, y = np.ones((50, 2)), np.arange(50) % 2
        AUCClassifier().fit(X, y)
        AUCClassifier().fit(X, y)
        EntropyRegressor().fit(X, y * 1.0)
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert found.stderr.count("None of the 2 features varies") == 3


def test_nothing_warns_by_a_depth_of_its_own():
    home = Path(pairlearn.__file__).parent
    places = {
        path.relative_to(home).as_posix()
        for path in home.rglob("*.py")
        if "warnings.warn(" in path.read_text(encoding="utf-8")
    }
    # The program shows its warnings by itself.
    assert places <= {"validation.py", "cli/stream.py"}
