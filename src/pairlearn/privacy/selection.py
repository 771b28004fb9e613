# SPDX-License-Identifier: BSD-3-Clause
"""Choose among models by their AUC on private data.

The utility of a model is its share of correctly ordered pairs among n (n - 1), which ranks models
as AUC does and has sensitivity 1/n. *Permute and flip* (McKenna and Sheldon, 2020) visits the
models in a random order and takes the first whose coin, with probability
exp(-epsilon n (max u - u_c) / 2), shows heads. Lemma 10 in ``docs/privacy/lemmas.md`` proves it,
and lemma 19 for persons with several rows.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics.auc import doubled_wins_weighted
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.persons import WHOLE, shares
from pairlearn.privacy.records import is_label, read_table
from pairlearn.privacy.release import paid_noise
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_positive


def _half_wins(table: Vector, positive: Mask) -> NDArray[np.int64]:
    """Return twice the number of correctly ordered pairs of each model, an integer."""
    from scipy.stats import rankdata

    n_positive = int(positive.sum())
    # Average ranks are multiples of a half, and their sums exact in floating point.
    ranks = rankdata(table, axis=0)[positive].sum(axis=0)
    wins: NDArray[np.int64] = np.rint(2.0 * ranks).astype(np.int64)
    wins -= n_positive * (n_positive + 1)
    return wins


def select_privately(
    scores: ArrayLike,
    signs: ArrayLike,
    *,
    epsilon: float,
    ledger: PrivacyLedger | None = None,
    groups: Any = None,
) -> int:
    """Choose one of several models by their AUC on private examples, with epsilon-DP.

    Parameters
    ----------
    scores : array-like of shape (n, k)
        Scores of k models on held-out private examples.
    signs : array-like of shape (n,)
        +1 for positive examples; any other value is negative.
    epsilon : float
        The privacy cost, with delta = 0 and one example replaced, or one person with `groups`.
    ledger : PrivacyLedger, optional
        Records the cost before the data are read.
    groups : array-like of shape (n,), optional
        The person of each row. The guarantee then protects a person with all rows. Each person has
        the same weight, and the number of persons is public.

    Returns
    -------
    int
        The index of the chosen model.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> signs = np.where(rng.random(2000) < 0.5, 1, -1)
    >>> good = signs + rng.normal(size=2000)
    >>> select_privately(np.stack([-good, good], axis=1), signs, epsilon=1.0)
    1
    """
    price = Fraction(check_positive("epsilon", epsilon))
    table = np.nan_to_num(read_table(scores, name="scores"))
    positive = is_label(signs, 1, len(table))
    weight, n = (None, len(table)) if groups is None else shares(groups, len(table))
    unit = "example" if groups is None else "person"
    what = f"selection among {table.shape[1]} models"
    source = paid_noise(ledger, what, epsilon=epsilon, unit=unit)
    if weight is None:
        wins = [int(count) for count in _half_wins(table, positive)]
        # A replaced example changes n - 1 pairs, and wins are counted in halves of a pair.
        most = Fraction(2 * max(1, n - 1))
    else:
        wins = [doubled_wins_weighted(column, positive, weight) for column in table.T]
        most = 2 * WHOLE**2 * max(Fraction(1, 4), n - Fraction(3, 4))
    best = max(wins)
    for model in source.permutation(len(wins)).tolist():
        # epsilon (max u - u_c) / 2, with u in units of its sensitivity.
        exponent = price * (best - wins[model]) / (2 * most)
        if source.accept(exponent.numerator, exponent.denominator):
            return int(model)
    raise AssertionError("the best model is always accepted.")
