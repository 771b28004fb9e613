# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of rankings within queries: NDCG and the share of pairs in the right order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics._inputs import check_scores
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_labels, check_names

#: Documents in a query beyond which pairs are counted by sorting, not one by one.
_MANY = 512


def query_slices(qid: ArrayLike | None, n: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each query, in the order of the query names."""
    if qid is None:
        yield np.arange(n)
        return
    names = check_names("qid", qid, "query")
    if names.shape != (n,):
        raise ValueError(f"qid must hold one query for each of {n} examples, got {names.shape}.")
    order = np.argsort(names, kind="stable")
    cuts = np.flatnonzero(names[order][1:] != names[order][:-1]) + 1
    yield from np.split(order, cuts)


def check_ndcg(k: int | None, gain: str) -> None:
    """Refuse a number of ranks or a gain that `ndcg` does not know."""
    if k is not None:
        check_count("k", k)
    if gain not in ("exponential", "linear"):
        raise ValueError(f'gain must be "exponential" or "linear", got {gain!r}.')


def ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    qid: ArrayLike | None = None,
    k: int | None = None,
    gain: str = "exponential",
) -> float:
    r"""Return the mean normalised discounted cumulative gain over queries.

    DCG@k = sum over the ranks r = 1, ..., k of g(y_(r)) / log2(1 + r), divided by that of the best
    order. Documents of equal score share the mean gain of their ranks, so the order of the rows
    does not matter.

    Parameters
    ----------
    y : array-like of shape (n,)
        Grades of at least 0.
    scores : array-like of shape (n,)
        Scores; larger is ranked higher.
    qid : array-like of shape (n,), optional
        The query of each document; one query by default.
    k : int, optional
        The number of ranks that count; all by default.
    gain : {"exponential", "linear"}, default="exponential"
        2^y - 1 or y.

    Returns
    -------
    float
        The mean over the queries that have a document of positive gain.

    Examples
    --------
    >>> ndcg([3, 2, 0, 1], [0.9, 0.8, 0.1, 0.2])
    1.0
    >>> round(ndcg([0, 1], [1.0, 0.0]), 4)
    0.6309
    """
    predicted = check_scores("scores", scores)
    grades = check_labels(y, len(predicted))
    if (grades < 0).any():
        raise ValueError(
            f"NDCG needs grades of at least 0, got {grades.min():g}; shift them, or use "
            "pair_accuracy."
        )
    check_ndcg(k, gain)
    values = []
    for rows in query_slices(qid, len(grades)):
        g = _gains(grades[rows], gain)
        discount = 1.0 / np.log2(np.arange(2.0, len(g) + 2.0))
        if k is not None:
            discount[k:] = 0.0
        best = float(np.sort(g)[::-1] @ discount)
        if best > 0.0:
            _, group, counts = np.unique(-predicted[rows], return_inverse=True, return_counts=True)
            shared = np.bincount(group, g) / counts
            values.append(min(float(np.repeat(shared, counts) @ discount) / best, 1.0))
    if not values:
        raise ValueError("No query has a document of positive gain; NDCG is not defined.")
    return float(np.mean(values))


def _gains(grades: Vector, gain: str) -> Vector:
    """Return the gains of a query but for a common factor, with which their sums stay finite.

    It is a power of two, which changes no digit.
    """
    largest = float(grades.max(initial=0.0))
    if gain == "linear":
        return np.ldexp(grades, -int(np.frexp(largest)[1]))
    unit = np.floor(largest)
    return np.asarray(np.exp2(grades - unit) - np.exp2(-unit))


def pair_accuracy(y: ArrayLike, scores: ArrayLike, *, qid: ArrayLike | None = None) -> float:
    """Return the mean over queries of the share of pairs that scores put in the right order.

    A pair counts if its grades differ; equal scores count one half. With two grades it is the AUC
    of each query.

    Parameters
    ----------
    y : array-like of shape (n,)
        Grades, or any real target.
    scores : array-like of shape (n,)
        Scores; larger should mean a larger grade.
    qid : array-like of shape (n,), optional
        The query of each document; one query by default.

    Returns
    -------
    float
        The mean over the queries that have two different grades.

    Notes
    -----
    Queries of up to 512 documents visit all pairs; larger ones use Kendall's tau in O(m log m).

    Examples
    --------
    >>> pair_accuracy([2, 1, 0], [0.9, 0.1, 0.5])
    0.6666666666666666
    """
    predicted = check_scores("scores", scores)
    grades = check_labels(y, len(predicted))
    values = [
        _share_in_order(grades[rows], predicted[rows])
        for rows in query_slices(qid, len(grades))
        if len(rows) > 1 and grades[rows].max() > grades[rows].min()
    ]
    if not values:
        raise ValueError("No query has two different grades; there is no pair to order.")
    return float(np.mean(values))


def _share_in_order(y: Vector, s: Vector) -> float:
    """Return the share of pairs of different grades in the right order; a tie counts half."""
    if len(y) <= _MANY:
        larger = y[:, None] > y
        ahead = 0.5 + 0.5 * np.sign(s[:, None] - s)[larger]
        return float(ahead.mean())
    from scipy.stats import kendalltau

    n_pairs = len(y) * (len(y) - 1) / 2.0
    comparable, apart = n_pairs - _n_tied(y), n_pairs - _n_tied(s)
    if not apart:
        return 0.5
    # tau-b = (right - wrong) / sqrt(comparable apart); a tie adds to neither
    tau = float(kendalltau(y, s, method="asymptotic").statistic)
    return 0.5 + 0.5 * tau * float(np.sqrt(comparable) * np.sqrt(apart)) / comparable


def _n_tied(values: Vector) -> float:
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1.0) / 2.0).sum())
