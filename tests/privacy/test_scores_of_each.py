# SPDX-License-Identifier: BSD-3-Clause
"""The score of a private row is its own, to the last digit."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from pairlearn import AUCClassifier, RandomFourier
from pairlearn.privacy import scores_of_each


class ByPlace:
    """Rounds a score by the place of its row and the size of the table, as a product does."""

    def decision_function(self, X):
        return np.asarray(X.sum(axis=1)).ravel() + 1e-6 * np.arange(X.shape[0]) + X.shape[0]


@pytest.fixture
def rows(rng):
    X = np.round(rng.normal(size=(700, 3)), 1)
    X[300:500] = X[299]
    return X


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array, scipy.sparse.coo_array])
def test_no_row_changes_the_score_of_another(rows, rng, kind):
    whole = scores_of_each(ByPlace(), kind(rows))
    np.testing.assert_allclose(whole, rows.sum(axis=1) + 256, atol=3e-4)
    assert len(np.unique(whole[299:500])) == 1
    kept = rng.random(700) < 0.3
    for some in (kept, np.arange(700) == 4, np.arange(700) > 0, rng.permutation(700)):
        np.testing.assert_array_equal(scores_of_each(ByPlace(), kind(rows[some])), whole[some])
    more = np.vstack([rng.normal(size=(500, 3)), rows])
    np.testing.assert_array_equal(scores_of_each(ByPlace(), kind(more))[500:], whole)
    assert ByPlace().decision_function(rows[1:])[0] != ByPlace().decision_function(rows)[1]


@pytest.mark.parametrize("features", ["linear", RandomFourier(64)])
def test_scores_are_those_of_the_model(rows, features):
    model = AUCClassifier(features=features, random_state=0).fit(rows, rows[:, 0] > 0.3)
    expected = model.decision_function(rows)
    np.testing.assert_allclose(scores_of_each(model, rows), expected, rtol=1e-9, atol=1e-9)


def test_no_rows_have_no_scores():
    assert len(scores_of_each(ByPlace(), np.empty((0, 3)))) == 0


def test_frames_and_more_than_one_score_are_refused(rows):
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    model = AUCClassifier(random_state=0).fit(frame, rows[:, 0] > 0.3)
    # The columns of another order would be taken for those of the model.
    with pytest.raises(TypeError, match=r"got DataFrame; .*X\[model.feature_names_in_\].to_numpy"):
        scores_of_each(model, frame[["c", "b", "a"]])
    with pytest.raises(ValueError, match="must have rows and columns, got 1 dimensions"):
        scores_of_each(model, rows[0])
    many = AUCClassifier(random_state=0).fit(rows, np.digitize(rows[:, 0], [-0.5, 0.5]))
    with pytest.raises(ValueError, match="AUCClassifier has 3 scores for each row"):
        scores_of_each(many, rows)
