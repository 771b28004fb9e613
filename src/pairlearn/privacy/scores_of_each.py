# SPDX-License-Identifier: BSD-3-Clause
"""Scores of private rows, each by itself, for a private AUC or ROC curve of them."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np

from pairlearn.typing import Vector

#: Rows of a table that is scored.
_TOGETHER = 256


def scores_of_each(model: Any, X: Any) -> Vector:
    """Return the scores of private rows, of which no other row changes the last digit.

    A product of matrices rounds a row by its place in the table and by the number of rows. So one
    person more may break ties of others, and move a private AUC by more than its noise is for;
    lemma 19 needs the score of a row to be its own. Here all tables have one size, the place of a
    row follows from its content, and equal rows are scored once.

    Parameters
    ----------
    model : estimator
        A fitted model with `decision_function`.
    X : ndarray or sparse array of shape (n, d)
        The rows, of which each must be made without the others. Columns are those of the model, in
        its order; a data frame is refused, since its names would not be compared.

    Returns
    -------
    ndarray of shape (n,)
        Scores as of ``model.decision_function(X)``, but for rounding.

    Examples
    --------
    >>> from pairlearn import AUCClassifier
    >>> from pairlearn.privacy import scores_of_each
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = AUCClassifier(random_state=0).fit(X, X[:, 0] > 0.5)
    >>> np.allclose(scores_of_each(model, X), model.decision_function(X))
    True
    >>> bool((scores_of_each(model, X[7:]) == scores_of_each(model, X)[7:]).all())
    True
    """
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    elif isinstance(X, np.ndarray):
        X = np.ascontiguousarray(X)
    else:
        raise TypeError(
            f"X must be an array or a sparse array, got {type(X).__name__}; of a data frame pass "
            "X[model.feature_names_in_].to_numpy()."
        )
    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns, got {X.ndim} dimensions.")
    contents = _contents(X)
    known: dict[bytes, int] = {}
    which = [known.setdefault(content, len(known)) for content in contents]
    if not known:
        return np.empty(0)
    rows = np.unique(which, return_index=True)[1]  # the first row of each content
    places = np.array([int.from_bytes(content[:2], "little") % _TOGETHER for content in known])
    # The rows of a place are in one table each.
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=_TOGETHER)
    tables = np.empty(len(rows), dtype=np.int64)
    tables[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    members = np.full((tables.max() + 1, _TOGETHER), -1)
    members[tables, places] = np.arange(len(rows))
    scores = np.empty(len(rows))
    for table in members:
        filled = table >= 0
        # What stands where there is no row makes no difference to the others.
        found = model.decision_function(X[rows[np.where(filled, table, table[filled][0])]])
        if np.ndim(found) != 1:
            raise ValueError(
                f"{type(model).__name__} has {np.shape(found)[1]} scores for each row, and an AUC "
                "is of one; take a model of two classes."
            )
        scores[table[filled]] = found[filled]
    return np.asarray(scores[which])


def _contents(X: Any) -> list[bytes]:
    """Return a digest of each row."""
    if hasattr(X, "indptr"):
        parts = pairwise(X.indptr.tolist())
        rows = (X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in parts)
    else:
        rows = (row.tobytes() for row in X)
    return [hashlib.blake2b(row, digest_size=16).digest() for row in rows]
