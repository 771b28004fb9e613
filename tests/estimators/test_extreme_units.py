# SPDX-License-Identifier: BSD-3-Clause
"""Features near the ends of all numbers: an answer or one line, never a warning of NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from pairlearn import (
    AUCClassifier,
    EntropyRegressor,
    MetricLearner,
    MulticlassAUCClassifier,
    MultilabelAUCClassifier,
    OrdinalAUCClassifier,
    PairwiseRanker,
)
from pairlearn.solvers.rows import CsrRows, DenseRows, as_rows, check_squares
from pairlearn.validation import DivergenceError

RNG = np.random.default_rng(0)
X = np.clip(RNG.normal(size=(40, 3)), -1.0, 1.0) * (RNG.random((40, 3)) < 0.8)
TARGET = X[:, 0] + 0.3 * RNG.normal(size=40)
BINARY, GRADES = (TARGET > 0).astype(int), np.digitize(TARGET, [-0.4, 0.4])
SEVERAL = np.column_stack([BINARY, np.roll(BINARY, 1)])

MODELS = {
    "auc": (AUCClassifier, {}, BINARY),
    "auc sgd": (AUCClassifier, {"solver": "sgd"}, BINARY),
    "ranker": (PairwiseRanker, {}, TARGET),
    "entropy": (EntropyRegressor, {}, TARGET),
    "metric": (MetricLearner, {}, BINARY),
    "multiclass": (MulticlassAUCClassifier, {}, GRADES),
    "multilabel": (MultilabelAUCClassifier, {}, SEVERAL),
    "ordinal": (OrdinalAUCClassifier, {}, GRADES),
}


def answers(model, rows):
    """Return all numbers that a fitted model gives."""
    names = ("decision_function", "predict_proba", "predict", "transform")
    return [np.asarray(getattr(model, name)(rows)) for name in names if hasattr(model, name)]


def learn(name, scaling, rows, *, online):
    make, options, y = MODELS[name]
    model = make(**options, scaling=scaling, random_state=0)
    if not online:
        return model.fit(rows, y)
    first = {"classes": [0, 1]} if name.startswith("auc") else {}
    model.partial_fit(rows[:20], y[:20], **first)
    return model.partial_fit(rows[20:], y[20:])


def cases():
    for name, (make, _, _) in MODELS.items():
        for online in (False, True):
            if online and not hasattr(make, "partial_fit"):
                continue
            for kind in ("dense", "sparse"):
                if not (kind == "sparse" and name == "metric"):  # which takes tables only
                    slow = pytest.mark.thorough if name in ("multiclass", "ordinal") else ()
                    yield pytest.param(name, online, kind, marks=slow)


@pytest.mark.parametrize(("name", "online", "kind"), list(cases()))
def test_a_model_learns_in_extreme_units_or_says_why_not(name, online, kind):
    for unit in (1e308, 1e200, 1e72, 1e-200, 5e-324):
        rows = X * unit
        rows = sparse.csr_array(rows) if kind == "sparse" else rows
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            if (name, online) == ("auc", True) and unit > 1e150:
                with pytest.raises(DivergenceError, match="overflow"):
                    learn(name, "auto", rows, online=online)
                continue
            for values in answers(learn(name, "auto", rows, online=online), rows):
                assert values.dtype.kind != "f" or np.isfinite(values).all()
            with pytest.raises(DivergenceError, match=r"Unscaled features must .*got "):
                learn(name, None, rows, online=online)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_squares_are_looked_at_once(kind, dtype):
    for values in ([[1.0, 2.0]], [[0.0, 0.0]], [[1e30, 0.0]], [[1e-30, 0.0]]):
        rows = as_rows(kind(np.array(values, dtype=dtype)))
        assert check_squares(rows, whole=True) is rows
    assert isinstance(check_squares(as_rows(np.empty((0, 3)))), DenseRows)
    assert isinstance(check_squares(as_rows(sparse.csr_array((4, 3)))), CsrRows)
    tiny = as_rows(kind(np.array([[1e-160, 0.0]])))
    assert check_squares(tiny) is tiny  # others may follow
    with pytest.raises(DivergenceError, match="not all below 1e-70, got 1e-160"):
        check_squares(tiny, whole=True)
    with pytest.raises(DivergenceError, match=r"at most 1e\+70, got 3e\+80"):
        check_squares(as_rows(kind(np.array([[1.0, -3e80]]))))


@pytest.mark.parametrize("averaging", ["step_size", "uniform"])
@pytest.mark.parametrize("step_size", [1e200, 1e308, np.finfo(float).max])
@pytest.mark.parametrize(
    ("kind", "y"),
    [(AUCClassifier, BINARY), (PairwiseRanker, GRADES), (EntropyRegressor, TARGET),
     (MetricLearner, BINARY)],
)  # fmt: skip
def test_step_sizes_near_the_largest_number_end_in_one_line(kind, y, step_size, averaging):
    rows, labels = np.tile(X, (8, 1)), np.tile(y, 8)
    model = kind(random_state=0).set_params(
        solver="sgd", solver__step_size=step_size, solver__averaging=averaging
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DivergenceError, match="take a smaller step_size"):
            model.fit(rows, labels)
        given = {"classes": [0, 1]} if kind is AUCClassifier else {}
        if not hasattr(model, "partial_fit"):
            return
        with pytest.raises(DivergenceError, match="take a smaller step_size"):
            model.partial_fit(rows, labels, **given)
