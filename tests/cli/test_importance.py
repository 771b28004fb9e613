# SPDX-License-Identifier: BSD-3-Clause
"""How much each column of a table moves the score, in one product for all columns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from pairlearn.cli.training.importance import _spread_of_columns


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_spread_is_that_of_each_column_alone(is_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    widths = [1, 3, 0, 2, 1]
    X = rng.normal(size=(20, 7)) * (rng.random((20, 7)) < 0.5)
    X[:, 6] = 1e9 + rng.normal(size=20)  # far from zero: squares would lose all digits
    coef = rng.normal(size=7)
    ends = np.cumsum(widths)
    expected = [
        np.std(X[:, e - w : e] @ coef[e - w : e]) for e, w in zip(ends, widths, strict=True)
    ]
    found = _spread_of_columns(sparse.csr_matrix(X) if is_sparse else X, coef, widths)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


def test_a_column_that_is_nearly_all_of_a_good_score_is_pointed_at():
    from pairlearn.cli.training.fitted import _with_importance

    def lines(auc, shares):
        entries = [{"column": name, "share": s, "direction": ""} for name, s in shares.items()]
        return " ".join(_with_importance({"auc": auc, "lines": []}, entries)["lines"])

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
