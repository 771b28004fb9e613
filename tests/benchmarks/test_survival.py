# SPDX-License-Identifier: BSD-3-Clause
"""The programs that measure survival rankers, the concordance index and ratings."""

import numpy as np
import pytest

from benchmarks import concordance_coverage, ratings, survival, survival_speed, survival_stack


def test_splits_hold_the_share_of_events_and_parts_are_prepared_by_the_training_part():
    y = np.zeros(40, dtype=[("event", bool), ("time", float)])
    y["event"][:10] = True
    train, test = survival.split(y, 0)
    assert sorted([*train, *test]) == list(range(40))
    assert y["event"][train].sum() == 7
    X = np.column_stack(
        (np.arange(40.0), np.ones(40), np.where(np.arange(40) == test[0], np.nan, 2))
    )
    A, B = survival.prepared(X, train, test)
    assert A.shape == (len(train), 1)
    assert (A.mean(), A.std()) == (pytest.approx(0.0, abs=1e-12), pytest.approx(1.0))
    np.testing.assert_allclose(B, (X[test, :1] - X[train, 0].mean()) / X[train, 0].std())


def test_the_table_compares_with_the_better_of_the_others():
    one = {
        "name": "set",
        "shape": "3 x 2, 1 events",
        "c": {"pairlearn": [0.7, 0.8], "Cox": [0.6, 0.8], "FastSurvivalSVM": [0.7, 0.78]},
        "cpu": {"pairlearn": [0.1, 0.1], "Cox": [1.0, 1.0], "FastSurvivalSVM": [2.0, 2.0]},
    }
    *_, row, mean = survival.lines([one])
    assert "| +0.0100 (0.0100) | 10.0 | 20.0 |" in row
    assert "+0.0100" in mean


def test_the_stack_takes_the_trees_where_they_are_needed():
    from pairlearn import ConcordanceIndex

    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 2))
    died, left = rng.exponential(np.exp(-2.0 * X[:, 0] * X[:, 1])), rng.exponential(2.0, 700)
    y = np.column_stack((died <= left, np.minimum(died, left)))
    found = survival_stack.risks(X[:500], y[:500], X[500:], 0)
    worth = {name: ConcordanceIndex()(y[500:], risk) for name, risk in found.items()}
    assert worth["linear"] < 0.6 < 0.65 < worth["trees"]
    assert worth["stack"] > worth["trees"] - 0.02


def test_places_of_the_coverage_have_the_wanted_index_and_share_of_events():
    slope = concordance_coverage.slope_of(0.8)
    end = concordance_coverage.end_of(slope, 0.3)
    y, _ = concordance_coverage.sample(np.random.default_rng(0), 100_000, slope, end)
    assert y[:, 0].mean() == pytest.approx(0.3, abs=0.01)


@pytest.mark.thorough
def test_the_programs_print(capsys):
    assert survival_speed.main(["--rows", "2000"]) == 0
    assert ratings.main(["--votes", "2000", "--streamed", "100000"]) == 0
    truth, share = concordance_coverage.coverage(0.7, (30, 100), 40)
    assert truth == pytest.approx(0.715, abs=0.01)
    assert share > 0.8
    printed = capsys.readouterr().out
    assert "one pass over 100,000 votes" in printed
