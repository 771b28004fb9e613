# SPDX-License-Identifier: BSD-3-Clause
"""How much each column of a table moves the score."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from pairlearn import AUCClassifier
from pairlearn.cli.fit_report import _importance_lines, _spread_by_exchange, column_importance

SPANS = {"a": slice(0, 1), "b": slice(1, 3), "c": slice(3, 4)}


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * (rng.random((300, 4)) < 0.5)
    return X, (X[:, 0] - 0.5 * X[:, 1] + 0.3 * rng.normal(size=300) > 0).astype(int)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_share_is_the_spread_of_what_a_column_adds(is_sparse: bool) -> None:
    X, y = table()
    model = AUCClassifier(random_state=0).fit(X, y)
    spread = {name: np.std(X[:, s] @ model.coef_[0][s]) for name, s in SPANS.items()}
    shares = column_importance(model, sparse.csr_matrix(X) if is_sparse else X, SPANS)
    for entry in shares:
        expected = spread[entry["column"]] / sum(spread.values())
        assert entry["share"] == pytest.approx(expected, rel=1e-6)
    assert shares[0]["column"] == "a"
    assert [entry["direction"] for entry in shares[:2]] == ["+", ""]


def test_an_exchange_of_values_gives_the_same_of_a_sum() -> None:
    X, y = table()
    model = AUCClassifier(random_state=0).fit(X, y)
    measured = np.array(_spread_by_exchange(model, X, list(SPANS.values())))
    expected = np.array([np.std(X[:, s] @ model.coef_[0][s]) for s in SPANS.values()])
    np.testing.assert_allclose(measured / measured.sum(), expected / expected.sum(), atol=0.05)


def test_a_column_that_is_nearly_all_of_a_good_score_is_pointed_at() -> None:
    def lines(auc, shares):
        entries = [{"column": name, "share": s, "direction": ""} for name, s in shares.items()]
        return " ".join(_importance_lines(entries, auc))

    alone = {"closed_at": 0.9, "age": 0.06, "plan": 0.04}
    assert "nearly all of one column" in lines(0.95, alone)
    assert "look at 'closed_at' first" in lines(0.95, alone)
    assert "such a high AUC" in lines(0.995, {"a": 0.4, "b": 0.3, "c": 0.3})
    for auc, shares in (
        (0.85, alone),  # a strong column of an ordinary model
        (0.95, {"a": 0.6, "b": 0.3, "c": 0.1}),
        (0.95, {"a": 0.9, "b": 0.1}),  # of two columns one is always most
    ):
        assert "look at" not in lines(auc, shares)
