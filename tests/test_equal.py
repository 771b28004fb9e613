# SPDX-License-Identifier: BSD-3-Clause
"""A result equals its copy, even with a standard error that is not known."""

import pickle
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from pairlearn import AUCClassifier, compare_auc, load_model, roc_auc_interval
from pairlearn.estimators.shared.evidence import Choice, JudgedFeatures, Tried
from pairlearn.experiments.comparison.statistics import resampled_mean
from pairlearn.metrics import BrierScore
from pairlearn.register import EqualFields

Y, P = [0, 0, 0, 1], [0.1, 0.4, 0.6, 0.5]
#: Results with a NaN in them.
RESULTS = {
    "tried": lambda: Tried.of({"ridge": 0.1}, [0.75]),
    "judged": lambda: JudgedFeatures("hats", 0.75, float("nan"), 0.1, 3),
    "interval": lambda: BrierScore().interval(Y, P),
    "auc": lambda: roc_auc_interval(Y, P),
    "comparison": lambda: compare_auc(Y, P, P[::-1]),
    "mean": lambda: resampled_mean([0.5], n_train=3, n_test=1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RESULTS)
def test_a_result_equals_its_pickle(name):
    found = RESULTS[name]()
    assert isinstance(found, EqualFields)
    assert is_dataclass(found)
    values = [getattr(found, field.name) for field in fields(found)]
    assert any(isinstance(value, float) and np.isnan(value) for value in values)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert found == found
    if name != "tried":  # which holds a dict
        assert hash(again) == hash(found)
    first = next(f.name for f in fields(found) if type(getattr(found, f.name)) is float)
    assert replace(found, **{first: 0.125}) != found
    assert found != tuple(values)
    nan = next(f.name for f in fields(found) if getattr(found, f.name) != getattr(found, f.name))
    assert replace(found, **{nan: 0.125}) != found


def test_a_choice_with_one_fold_equals_its_copies():
    one = Tried.of({"ridge": 0.1}, [0.75])
    choice = Choice(ridge=0.1, evidence=one, tried=(one, Tried.of({"ridge": 1.0}, [0.5])))
    assert pickle.loads(pickle.dumps(choice)) == choice
    assert replace(choice, tried=(one,)) != choice


def test_the_choice_of_a_stream_comes_back_from_a_file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.normal(size=200) > 0.0).astype(int)
    model = AUCClassifier(solver="moments", random_state=0).partial_fit(X, y, classes=[0, 1])
    evidence = model.choice_.evidence
    assert evidence is None or np.isnan(evidence.standard_error) or evidence.n_folds > 1
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").choice_ == model.choice_
