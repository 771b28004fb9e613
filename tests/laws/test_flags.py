# SPDX-License-Identifier: BSD-3-Clause
"""Whatever is True or False takes nothing else: the text "no" would count as True."""

import importlib
import inspect
from dataclasses import MISSING, fields, is_dataclass

import numpy as np
import pytest

import pairlearn
from pairlearn import (
    AUCClassifier,
    PairwiseRanker,
    PairwiseRatings,
    PrivateAUCClassifier,
    SurvivalRanker,
    load_model,
)
from pairlearn.features import Hats
from pairlearn.losses import GapWeighted
from pairlearn.models import ModelFileError, write_model

ROOMS = ("losses", "features", "pairings", "solvers", "metrics", "privacy", "estimators")
#: What the library makes by itself, and a field that is documented to be ignored.
MADE = {"Certificate", "Extents", "GapWeighted", "Measured", "Plan", "PrivateFit", "Trace"}


def flags():
    """Return the classes with a field that is True or False by default, and its name."""
    doors = [pairlearn, *(importlib.import_module(f"pairlearn.{room}") for room in ROOMS)]
    exported = [getattr(door, name) for door in doors for name in door.__all__]
    kinds = {one for one in exported if inspect.isclass(one)}
    found = {
        (kind, one.name)
        for kind in kinds
        if is_dataclass(kind) and kind.__name__ not in MADE
        for one in fields(kind)
        if one.init and isinstance(one.default, bool)
    }
    return sorted(found, key=lambda one: (one[0].__name__, one[1]))


@pytest.mark.parametrize(("kind", "name"), flags())
def test_a_part_takes_no_word_for_a_flag(kind, name):
    needed = {
        one.name: 1 for one in fields(kind)
        if one.init and one.default is MISSING and one.default_factory is MISSING
    }  # fmt: skip
    for value in (True, np.False_):
        kind(**needed, **{name: value})
    for value in ("no", "False", None, 2):
        with pytest.raises(ValueError, match=f"{name} must be True or False, got {value!r}"):
            kind(**needed, **{name: value})


def test_the_flags_are_found():
    names = {(kind.__name__, name) for kind, name in flags()}
    assert {("Hinge", "one_sided"), ("Hats", "cumulative"), ("PartialAUC", "standardised")} < names


X = np.random.default_rng(0).normal(size=(40, 2))
Y = np.arange(40) % 2


@pytest.mark.parametrize(
    ("estimator", "examples"),
    [
        (AUCClassifier(solver="sgd", warm_start="no"), (X, Y)),
        (PairwiseRanker(weight_by_grade="no"), (X, Y)),
        (PairwiseRatings(home="no"), (Y, 1 - Y)),
        (SurvivalRanker(ipcw="no"), (X, np.column_stack([Y, np.arange(40)]))),
        (PrivateAUCClassifier(secure="no", bounds=(-4.0, 4.0)), (X, Y)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_estimator_takes_no_word_for_a_flag(estimator, examples):
    with pytest.raises(ValueError, match="must be True or False, got 'no'"):
        estimator.fit(*examples)


@pytest.mark.parametrize("given", ["auto", [1, -1], 1])
def test_monotone_names_features(given, tmp_path):
    """It ended with an AttributeError, also on loading a file."""
    with pytest.raises(TypeError, match="monotone must name features"):
        Hats(monotone=given)
    record = AUCClassifier(features=Hats(), random_state=0).fit(X, Y).to_record()
    record.parameters["features"]["monotone"] = given
    write_model(tmp_path / "model", record)
    with pytest.raises(ModelFileError, match="monotone must name features"):
        load_model(tmp_path / "model")


def test_a_weighted_loss_needs_a_loss():
    with pytest.raises(TypeError, match=r"base must be a PairLoss, such as Hinge\(\), got 'hinge'"):
        GapWeighted(base="hinge")
