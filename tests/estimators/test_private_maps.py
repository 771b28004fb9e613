# SPDX-License-Identifier: BSD-3-Clause
"""Private scores that are not linear in the features."""

from dataclasses import dataclass

import numpy as np
import pytest

from pairlearn import PrivacyLedger, PrivateAUCClassifier, PrivateBounds
from pairlearn.estimators.private.entries import FitEntry
from pairlearn.features import FeatureMap, Hats, Identity, Nystroem, RandomFourier, Union
from pairlearn.features.base import Bounds
from pairlearn.metrics import roc_auc
from pairlearn.models import load_model, register_part
from pairlearn.privacy.accounting.certificate import accounting_problems
from pairlearn.privacy.audit.exact import check_entry
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.public_maps import map_publicly, mapped_setting

pytestmark = pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")


@dataclass(frozen=True)
class Squares(FeatureMap):
    """A map of one's own that learns nothing."""

    def mapped(self, X):
        return np.tanh(X) ** 2

    def bounds(self):
        return Bounds(0.0, 1.0)


register_part(Squares)


@dataclass(frozen=True)
class Unbounded(FeatureMap):
    def mapped(self, X):
        return X**3


@dataclass(frozen=True)
class Learning(FeatureMap):
    def learn(self, X, rng):
        return {"mean": np.asarray(X).mean(axis=0)}

    def mapped(self, X):
        return np.tanh(X - self.learned["mean"])


MAPS = {
    "hats": "hats",
    "fourier": "fourier",
    "between": Hats.between([-2.0, -2.0], [2.0, 2.0], n_knots=3, cumulative=False),
    "frequencies": RandomFourier(8, "gaussian", gamma=0.3),
    "union": Union(Identity(), Hats(knots=((-1, 0, 1), (0, 1)))),
    "own": Squares(),
}


def ring(n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(n, 2)), -3, 3)
    y = (np.abs(X[:, 0]) + 0.3 * rng.normal(size=n) > 0.7).astype(int)
    return X, y


@pytest.mark.parametrize(
    ("name", "neighbours"),
    [
        *((name, "replace") for name in MAPS),
        *((name, "add_remove") for name in ("hats", "union", "own")),
        *(pytest.param(name, "add_remove", marks=pytest.mark.thorough)
          for name in ("fourier", "between", "frequencies")),
    ],
)  # fmt: skip
def test_neighbours_of_mapped_rows_stay_within_what_is_stated(name, neighbours):
    model = PrivateAUCClassifier(
        1.0, 1e-3, bounds=(-2.0, 2.0), features=MAPS[name], neighbours=neighbours
    )
    found = check_entry(FitEntry(model, n=20, n_features=2))
    assert found.findings == []
    assert found.share > 0.3


@pytest.mark.parametrize("name", MAPS)
def test_mapped_rows_lie_within_the_bounds_that_are_used(name):
    setting = PublicSetting.make(9, lower=[-2, -2], upper=[2, 2], epsilon=1, delta=0.01,
                                 centre=[1, 0])  # fmt: skip
    features = map_publicly(MAPS[name], setting)
    mapped = mapped_setting(features, setting)
    rows = np.random.default_rng(0).uniform(-9, 9, (500, 2))
    rows[0, 0] = np.nan
    found = features.transform(setting.clipped(rows))
    assert (found >= mapped.lower).all()
    assert (found <= mapped.upper).all()
    assert mapped.centre == pytest.approx(features.transform(np.array([[1.0, 0.0]]))[0])
    # Nothing but public numbers is in it: made again it is the same.
    again = map_publicly(MAPS[name], setting)
    np.testing.assert_array_equal(again.transform(setting.clipped(rows)), found)


@pytest.mark.parametrize("features", ["hats", "fourier"])
def test_a_curve_is_learned_stored_and_certified(features, tmp_path):
    X, y = ring(4000)
    model = PrivateAUCClassifier(2.0, 1e-5, bounds=(-3, 3), features=features).fit(X, y)
    linear = PrivateAUCClassifier(2.0, 1e-5, bounds=(-3, 3)).fit(X, y)
    test, labels = ring(2000, seed=1)
    curved = roc_auc(labels, model.decision_function(test))
    assert curved > 0.9 > 0.7 > roc_auc(labels, linear.decision_function(test))
    assert accounting_problems(model.certificate_) == []
    assert model.certificate_.n_features == model.n_features_in_ == 2
    assert "made of public numbers and of none of the examples" in model.certificate_.statement()
    assert float((model.predict(test) == labels).mean()) > 0.8
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = load_model(path)
    assert again.features == features
    np.testing.assert_array_equal(again.decision_function(test), model.decision_function(test))
    odd = np.array([[np.nan, 1e9]])
    np.testing.assert_array_equal(again.decision_function(odd), model.decision_function(odd))


def test_maps_stand_between_bounds_that_were_found():
    X, y = ring(4000)
    model = PrivateAUCClassifier(4.0, 1e-4, bounds=PrivateBounds(-90, 90), features="hats")
    model.fit(X, y, groups=np.arange(4000))
    knots = model.features_.knots_of(0)
    assert knots[[0, -1]].tolist() == model.bounds_[:, 0].tolist()
    assert roc_auc(y, model.decision_function(X)) > 0.8


def test_codes_have_a_knot_at_each_level():
    setting = PublicSetting.make(
        9, lower=[0, 0, 0], upper=[1, 2, 9], levels=[2, 3, 10], epsilon=1, delta=0.01
    )
    features = map_publicly("hats", setting)
    assert [features.knots_of(k).tolist() for k in range(3)] == [
        [0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 2.25, 4.5, 6.75, 9.0]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (Hats(), "quantiles of examples"),
        (Hats().fit(np.eye(2)), "quantiles of examples"),
        (RandomFourier(), "takes its scales, distances"),
        (RandomFourier(8, "gaussian"), "takes its scales, distances"),
        (RandomFourier(8, "gaussian", gamma=0.1).fit(np.eye(2), rng=0), "takes its scales"),
        (Union(Identity(), Hats()), "quantiles of examples"),
        (Nystroem(4), "Nystroem learns from examples"),
        (Learning(), "Learning learns from examples"),
        (Unbounded(), "does not know the bounds of its mapped features"),
        (Hats.between([0.0], [1.0]), "made for 1 features, but there are 2"),
        ("auto", "features must be one of 'linear', 'hats', 'fourier'"),
    ],
)
def test_maps_that_look_at_examples_are_refused_before_anything_is_paid(features, words):
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-3)
    model = PrivateAUCClassifier(1.0, 1e-3, bounds=(0, 1), features=features, ledger=ledger)
    with pytest.raises(ValueError, match=words):
        model.fit(np.eye(2), [0, 1])
    assert ledger.entries == ()
