# SPDX-License-Identifier: BSD-3-Clause
"""Columns in another order than in training are refused wherever tables have names."""

import numpy as np
import pandas as pd
import pytest

from pairlearn import (
    AUCClassifier,
    AUCStack,
    EntropyRegressor,
    MetricLearner,
    MulticlassAUCClassifier,
    MultilabelAUCClassifier,
    OnlineLearner,
    OrdinalAUCClassifier,
    PairwiseRanker,
    PrivateAUCClassifier,
    PrivateAUCContinual,
    PrivateEntropyRegressor,
    PrivateMetricLearner,
    load_model,
)

N = 120
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] + RNG.normal(size=N) > 0.3).astype(int)
GRADES = np.arange(N) % 3
TABLE = pd.DataFrame(X, columns=["a", "b", "c"])
OTHER = TABLE[["c", "b", "a"]]
PUBLIC = {"epsilon": 1.0, "delta": 1e-4, "bounds": (-4.0, 4.0)}

FITTED = {
    "AUCClassifier": lambda: AUCClassifier().fit(TABLE, Y),
    "three classes": lambda: AUCClassifier().fit(TABLE, GRADES),
    "partial_fit": lambda: AUCClassifier().partial_fit(TABLE, Y, classes=[0, 1]),
    "Multiclass": lambda: MulticlassAUCClassifier().fit(TABLE, GRADES),
    "AUCStack": lambda: AUCStack(random_state=0).fit(TABLE, Y),
    "Ordinal": lambda: OrdinalAUCClassifier().fit(TABLE, GRADES),
    "Multilabel": lambda: MultilabelAUCClassifier().fit(TABLE, np.column_stack([Y, 1 - Y])),
    "Ranker": lambda: PairwiseRanker().fit(TABLE, GRADES),
    "Entropy": lambda: EntropyRegressor().fit(TABLE, X[:, 0]),
    "Metric": lambda: MetricLearner().fit(TABLE, Y),
    "Private": lambda: PrivateAUCClassifier(**PUBLIC).fit(TABLE, Y),
    "Private entropy": lambda: PrivateEntropyRegressor(target_bounds=(-4, 4), **PUBLIC).fit(
        TABLE, X[:, 0]
    ),
    "Private metric": lambda: PrivateMetricLearner(**PUBLIC).fit(TABLE, Y),
    "Private continual": lambda: (
        PrivateAUCContinual(N, 2, **PUBLIC).partial_fit(TABLE, Y).release()
    ),
}


@pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")
@pytest.mark.parametrize("name", FITTED)
def test_predictions_and_stored_models(name, tmp_path):
    model = FITTED[name]()
    model.save(tmp_path / "model")
    for one in (model, load_model(tmp_path / "model")):
        answer = next(
            getattr(one, kind)
            for kind in ("decision_function", "transform", "predict")
            if hasattr(one, kind) and not (kind == "decision_function" and "etric" in name)
        )
        assert one.feature_names_in_.tolist() == ["a", "b", "c"]
        assert np.isfinite(answer(TABLE)).all()
        with pytest.raises(ValueError, match="names should match"):
            answer(OTHER)


STREAMS = {
    "AUCClassifier": lambda: AUCClassifier().partial_fit(TABLE, Y, classes=[0, 1]).partial_fit,
    "OnlineLearner": lambda: (
        OnlineLearner(AUCClassifier(), classes=[0, 1]).learn_many(TABLE, Y).learn_many
    ),
    "Private continual": lambda: (
        PrivateAUCContinual(2 * N, 2, **PUBLIC).partial_fit(TABLE, Y).partial_fit
    ),
}


@pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")
@pytest.mark.parametrize("name", STREAMS)
def test_the_next_chunk(name):
    learn = STREAMS[name]()
    with pytest.raises(ValueError, match="names should match"):
        learn(OTHER, Y)
    learn(TABLE, Y)


@pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")
def test_a_fit_without_names_forgets_those_before():
    model = PrivateAUCClassifier(**PUBLIC).fit(TABLE, Y).fit(X, Y)
    assert not hasattr(model, "feature_names_in_")
