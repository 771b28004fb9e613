# SPDX-License-Identifier: BSD-3-Clause
"""The AUC of a classifier on new data, estimated on held-out rows."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.folds import Keys, members_of, stratified
from pairlearn.metrics.delong import AUCInterval, mean_auc_interval, roc_auc_interval
from pairlearn.typing import Vector

#: The most numbers in X for which all folds are held out in turn; beyond, only one fold is.
_ALL_IN_TURN = 1_000_000
#: The number of folds.
_FOLDS = 5


class HeldOutAUC(NamedTuple):
    """The AUC on rows that were held out in parts, and their scores by models of the others."""

    interval: AUCInterval
    n_folds: int
    rows: NDArray[np.int64]
    #: Each part is scored relative to its own threshold.
    scores: Vector


def held_out_auc(
    model: Any, X: Any, y: ArrayLike, *, confidence: float = 0.95, seed: int = 0
) -> HeldOutAUC | None:
    """Return the AUC of a classifier on rows that it was not trained on.

    All rows are held out in five parts in turn, or one fifth of many rows. Choices that the
    classifier makes while it trains are made anew for each part, on the other rows alone.

    Copies of the model are trained. The larger of the two labels is positive. Returns None if a
    class has fewer than four examples.
    """
    from sklearn.base import clone

    labels = np.asarray(y)
    positive = labels == labels.max()
    rarer = int(min(positive.sum(), (~positive).sum()))
    if rarer < 4:
        return None
    n_folds = min(_FOLDS, rarer // 2)
    size = X.nnz if hasattr(X, "nnz") else X.size
    keys = Keys.of(X, seed=seed)
    in_turn = None if size <= _ALL_IN_TURN else 1
    splits = stratified(members_of(positive, (True, False)), n_folds, keys, n_held=in_turn)
    scores = []
    for rest, part in splits:
        with warnings.catch_warnings():
            # The final fit on all rows gives the same warnings.
            warnings.simplefilter("ignore")
            fitted = clone(model).fit(X[rest], labels[rest])
        scores.append(np.asarray(fitted.decision_function(X[part]), dtype=np.float64))
    intervals = [
        roc_auc_interval(positive[part], found, confidence=confidence)
        for (_, part), found in zip(splits, scores, strict=True)
    ]
    rows = np.concatenate([part for _, part in splits])
    return HeldOutAUC(mean_auc_interval(intervals), len(splits), rows, np.concatenate(scores))
