# SPDX-License-Identifier: BSD-3-Clause
"""Whatever is True or False takes nothing else: the text "no" would count as True."""

import importlib
import inspect
from dataclasses import MISSING, fields, is_dataclass

import numpy as np
import pytest

import pairlearn as pl
from pairlearn.cluster import fit_on
from pairlearn.features import Hats
from pairlearn.losses import GapWeighted
from pairlearn.metrics import ConcordanceIndex, HandTill, PartialAUC
from pairlearn.models import ModelFileError, write_model

ROOMS = ("losses", "features", "pairings", "solvers", "metrics", "privacy", "estimators")
#: What the library makes by itself, and a field that is documented to be ignored.
MADE = {"Certificate", "Extents", "GapWeighted", "Measured", "Plan", "PrivateFit", "Trace"}


def flags():
    """Return the classes with a field that is True or False by default, and its name."""
    doors = [pl, *(importlib.import_module(f"pairlearn.{room}") for room in ROOMS)]
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


X = np.random.default_rng(0).standard_normal((40, 2))
Y = (X[:, 0] > 0).astype(int)
VOTES = (["ann", "bob", "cid"], ["bob", "cid", "ann"], [1, 0, 1])

USES = {
    "home": lambda flag: pl.PairwiseRatings(home=flag).fit(*VOTES),
    "neutral": lambda flag: (
        pl.PairwiseRatings().fit(*VOTES).predict_proba("ann", "bob", neutral=flag)
    ),
    "weight_by_grade": lambda flag: pl.PairwiseRanker(weight_by_grade=flag).fit(X, Y),
    "weight_by_grade of parts": lambda flag: fit_on(
        lambda statistic: statistic.partial_state(X, Y, qid=np.zeros(40, int)),
        pl.PairwiseRanker("square", weight_by_grade=flag),
    ),
    "warm_start": lambda flag: pl.AUCClassifier(solver="sgd", warm_start=flag).fit(X, Y),
    "ipcw": ConcordanceIndex,
    "ipcw of a ranker": lambda flag: pl.SurvivalRanker(ipcw=flag).fit(
        X, [(True, t) for t in 1.0 + X[:, 0] ** 2]
    ),
    "standardised": lambda flag: PartialAUC(standardised=flag),
    "pairs": lambda flag: HandTill(pairs=flag),
    "cumulative": lambda flag: Hats(cumulative=flag),
    "keep_state": lambda flag: pl.Moments(keep_state=flag),
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("flag", ["no", 1, None, 0.0])
def test_refused(name, flag):
    with pytest.raises(ValueError, match=rf"{name.split()[0]} must be True or False, got"):
        USES[name](flag)


@pytest.mark.parametrize("name", USES)
@pytest.mark.filterwarnings("ignore")
def test_a_flag_of_numpy_is_one(name):
    USES[name](np.bool_(True))
    USES[name](False)


@pytest.mark.parametrize("given", ["no", None, 0.5, -1])
def test_verbose_is_a_whole_number(given):
    """The text "no" counted as true, and the fit printed."""
    model = pl.AUCClassifier(verbose=given)
    with pytest.raises((TypeError, ValueError), match=f"verbose must be .* got {given!r}"):
        model.fit(X, Y)
    with pytest.raises((TypeError, ValueError), match=f"verbose must be .* got {given!r}"):
        model.partial_fit(X, Y, classes=[0, 1])
    for good in (0, 1, 2, True, np.False_):
        pl.AUCClassifier(verbose=good).fit(X, Y)


@pytest.mark.parametrize("given", ["auto", [1, -1], 1])
def test_monotone_names_features(given, tmp_path):
    """It ended with an AttributeError, also on loading a file."""
    with pytest.raises(TypeError, match="monotone must name features"):
        Hats(monotone=given)
    record = pl.AUCClassifier(features=Hats(), random_state=0).fit(X, Y).to_record()
    record.parameters["features"]["monotone"] = given
    write_model(tmp_path / "model", record)
    with pytest.raises(ModelFileError, match="monotone must name features"):
        pl.load_model(tmp_path / "model")


def test_a_weighted_loss_needs_a_loss():
    with pytest.raises(TypeError, match=r"base must be a PairLoss, such as Hinge\(\), got 'hinge'"):
        GapWeighted(base="hinge")
