# SPDX-License-Identifier: BSD-3-Clause
"""Scores that no number can hold are refused, whichever estimator they come from."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from pairlearn import AUCClassifier, EntropyRegressor, MetricLearner, PairwiseRanker, roc_auc
from pairlearn.estimators import MetricSGD
from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.arange(60) % 2
SMALL, LARGE = X * 1e-150, X * 1e200

#: Coefficients of about 1e150 after a fit on SMALL, and what meets them.
ASKED = {
    "AUCClassifier": (AUCClassifier(random_state=0), ("decision_function", "predict")),
    "sparse": (AUCClassifier(random_state=0), ("predict_proba",)),
    "PairwiseRanker": (PairwiseRanker(random_state=0), ("predict",)),
    "EntropyRegressor": (EntropyRegressor(random_state=0), ("predict",)),
    "MulticlassAUCClassifier": (MulticlassAUCClassifier(random_state=0), ("predict",)),
    "MetricLearner": (
        MetricLearner(solver=MetricSGD(step_size=0.1), random_state=0),
        ("transform",),
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_scores_beyond_all_numbers_are_refused_in_one_line(name):
    model, methods = ASKED[name]
    labels = np.arange(60) % 3 if name.startswith("Multi") else Y
    model.fit(SMALL, labels)
    for method in methods:
        call = getattr(model, method)
        assert np.isfinite(call(SMALL)).all()
        rows = SMALL.copy()
        rows[7] = LARGE[7]
        given = scipy.sparse.csr_array(rows) if name == "sparse" else rows
        with pytest.raises(ValueError, match="the score of row 7 is too large for a number"):
            call(given)


def test_distances_whose_squares_are_beyond_all_numbers_are_refused():
    model = MetricLearner(solver=MetricSGD(step_size=0.1), random_state=0).fit(X, Y)
    pairs = np.stack([X[:4], X[4:8]], axis=1)
    pairs[2] *= 1e170
    with pytest.raises(ValueError, match="row 2 is too large"):
        model.pair_distance(pairs)


def test_probabilities_of_large_scores_are_numbers():
    from pairlearn.estimators.shared.decisions import Sigmoid

    found = Sigmoid(1e200, 0.0)(np.array([-1e200, 1e200]))
    np.testing.assert_allclose(found, [0.0, 1.0], atol=1e-300)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_complex_numbers_are_refused(kind):
    rows, target = np.ones((4, 2)), np.array([0.0, 1.0, 0.0, 1.0])
    for model in (AUCClassifier(), EntropyRegressor(), PairwiseRanker()):
        with pytest.raises(ValueError, match="Complex data not supported"):
            model.fit(kind(rows + 1j), target)
        with pytest.raises(ValueError, match="Complex data not supported"):
            model.fit(kind(rows), target + 1j)


DAYS = np.arange("2020-01-01", "2020-03-01", dtype="M8[D]").astype("M8[us]")


@pytest.mark.parametrize(
    "kind",
    [
        lambda days: days,
        list,
        lambda days: days - days[0],
        lambda days: pd.DataFrame(days, columns=["on"]),
        lambda days: pd.DataFrame(days - days[0], columns=["on"]),
        lambda days: pytest.importorskip("polars").DataFrame(days, schema=["on"]),
        lambda days: pytest.importorskip("pyarrow").table({"on": days[:, 0]}),
    ],
    ids=["dates", "list", "durations", "frame", "frame of durations", "polars", "arrow"],
)
def test_features_that_are_times_are_refused(kind):
    """NumPy would take NaT for -9.2e18 units of whatever unit the column happens to have."""
    days = DAYS[:, None].copy()
    days[3] = "NaT"
    labels = np.arange(len(days)) % 2
    for model in (AUCClassifier(random_state=0), MetricLearner(random_state=0)):
        with pytest.raises(ValueError, match=r"X holds d|'on' is of the type .*TableEncoder"):
            model.fit(kind(days), labels)
    model = AUCClassifier(random_state=0).fit(np.arange(len(days))[:, None], labels)
    with pytest.raises(ValueError, match=r"X holds d|'on' is of the type .*TableEncoder"):
        model.predict(kind(days))


def test_scores_targets_and_weights_that_are_times_are_refused():
    labels, rows = np.arange(len(DAYS)) % 2, np.arange(len(DAYS), dtype=float)[:, None]
    with pytest.raises(ValueError, match=r"scores holds dates .* without missing ones"):
        roc_auc(labels, pd.Series(DAYS).mask(labels == 1))
    with pytest.raises(ValueError, match="y holds durations"):
        EntropyRegressor().fit(rows, DAYS - DAYS[0])
    with pytest.raises(ValueError, match="sample_weight holds durations"):
        AUCClassifier().fit(rows, labels, sample_weight=DAYS - DAYS[0])


def test_a_column_of_polars_that_holds_texts_is_named():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "city": ["a", "b", "c", "d"]})
    with pytest.raises(ValueError, match="column 'city' is of the type String, as in 'a'; put"):
        AUCClassifier().fit(table, [0, 1, 0, 1])


@pytest.mark.parametrize("values", [[True, None, False, True], ["a", None, "b", "b"]])
def test_a_missing_label_of_polars_is_named(values):
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match="y has no label in row 1"):
        AUCClassifier().fit(X[:4], polars.Series(values))
