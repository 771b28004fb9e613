# SPDX-License-Identifier: BSD-3-Clause
"""Choose among models by their AUC on private data.

The utility of a model is its share of correctly ordered pairs among n (n - 1), which ranks models
as AUC does and has sensitivity 1/n. *Permute and flip* (McKenna and Sheldon, 2020) visits the
models in a random order and takes the first whose coin, with probability
exp(-epsilon n (max u - u_c) / 2), shows heads. Lemma 10 in ``docs/privacy/lemmas.md`` proves it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.records import is_label, read_table
from pairlearn.typing import Vector
from pairlearn.validation import check_positive


def _half_wins(table: Vector, signs: ArrayLike) -> NDArray[np.int64]:
    """Return twice the number of correctly ordered pairs of each model, an integer."""
    from scipy.stats import rankdata

    positive = is_label(signs, 1, len(table))
    n_positive = int(positive.sum())
    # Average ranks are multiples of a half, and their sums exact in floating point.
    ranks = rankdata(np.nan_to_num(table), axis=0)[positive].sum(axis=0)
    wins: NDArray[np.int64] = np.rint(2.0 * ranks).astype(np.int64)
    wins -= n_positive * (n_positive + 1)
    return wins


def select_privately(
    scores: ArrayLike,
    signs: ArrayLike,
    *,
    epsilon: float,
    noise: NoiseSource | None = None,
    ledger: PrivacyLedger | None = None,
) -> int:
    """Choose one of several models by their AUC on private examples, with epsilon-DP.

    Parameters
    ----------
    scores : array-like of shape (n, k)
        Scores of k models on held-out private examples.
    signs : array-like of shape (n,)
        +1 for positive examples; any other value is negative.
    epsilon : float
        The privacy cost, with delta = 0 and one example replaced.
    noise : NoiseSource, optional
        A fresh secret one by default.
    ledger : PrivacyLedger, optional
        Records the cost before the data are read.

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
    table = read_table(scores, name="scores")
    if ledger is not None:
        ledger.spend(f"selection among {table.shape[1]} models", epsilon=epsilon)
    source = NoiseSource() if noise is None else noise
    wins = [int(count) for count in _half_wins(table, signs)]
    best = max(wins)
    for model in source.permutation(len(wins)).tolist():
        # epsilon n (max u - u_c) / 2, with u in halves of n (n - 1) pairs.
        exponent = price * (best - wins[model]) / (4 * max(1, len(table) - 1))
        if source.accept(exponent.numerator, exponent.denominator):
            return int(model)
    raise AssertionError("the best model is always accepted.")
