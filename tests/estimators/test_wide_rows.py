# SPDX-License-Identifier: BSD-3-Clause
"""Many more columns than rows: the same coefficients from the space that the rows span."""

import numpy as np
import pytest

from pairlearn import (
    EntropyRegressor,
    MulticlassAUCClassifier,
    MultilabelAUCClassifier,
    OrdinalAUCClassifier,
)
from pairlearn.estimators.shared import class_moments
from pairlearn.estimators.shared.class_moments import compact
from pairlearn.solvers.rows import DenseRows

RNG = np.random.default_rng(0)
CODES = np.arange(45) % 3
X = 0.3 * RNG.normal(size=(3, 120))[CODES] + RNG.normal(size=(45, 120))

MODELS = {
    MulticlassAUCClassifier: CODES,
    OrdinalAUCClassifier: CODES,
    MultilabelAUCClassifier: np.column_stack([CODES == 0, CODES == 1]),
}


def as_it_is(rows):
    return DenseRows(rows.X.astype(np.float64)), None


@pytest.mark.parametrize("scaling", ["auto", None])
@pytest.mark.parametrize("make", MODELS)
def test_coefficients_are_those_of_all_columns(make, scaling, monkeypatch):
    y = MODELS[make]
    found = make(scaling=scaling, random_state=0).fit(X, y)
    monkeypatch.setattr(class_moments, "compact", as_it_is)
    expected = make(scaling=scaling, random_state=0).fit(X, y)
    size = np.abs(expected.coef_).max()
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9, atol=1e-10 * size)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_the_basis_keeps_lengths_and_scores():
    rows, basis = compact(DenseRows(X))
    assert rows.shape == (45, 45)
    np.testing.assert_allclose(rows.X @ rows.X.T, X @ X.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(rows.X @ basis.T, X, rtol=1e-10, atol=1e-10)
    tall, none = compact(DenseRows(X.T.copy()))
    assert none is None
    assert tall.shape == (120, 45)


def test_more_columns_than_a_closed_form_takes():
    wide = np.zeros((12, 6_000))
    wide[:, :20] = X[:12, :20]
    assert MulticlassAUCClassifier(random_state=0).fit(wide, CODES[:12]).coef_.shape == (3, 6_000)


def test_entropy_of_wide_rows_starts_from_the_least_norm():
    y = X[:, 0] + 0.1 * RNG.normal(size=45)
    model = EntropyRegressor(random_state=0).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.abs(model.predict(X) - y).max() < 1.0
