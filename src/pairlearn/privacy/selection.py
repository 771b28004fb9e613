# SPDX-License-Identifier: BSD-3-Clause
r"""Choosing among models on private data, at a price.

Looking at which of k models has the best AUC on private data is a query like any other. The
utility of a model with scores s on n held-out examples is its share of correctly ordered pairs,

    u = 1/(n (n - 1)) sum over (i, j) with y_i = 1, y_j = -1 of 1[s_i > s_j] + 1[s_i = s_j] / 2,

which ranks models as AUC does. *Sensitivity 1/n*: replacing one example touches its n - 1 pairs;
with a given partner, the pair is active before and after (same label) or in exactly one of the two
(label flipped), so each contributes a change of at most 1/(n (n - 1)). []

The exponential mechanism picks model c with probability proportional to exp(epsilon n u_c / 2) and
is epsilon-DP (McSherry and Talwar, 2007), whatever k. The candidates themselves must not depend on
the held-out examples, or their own privacy cost on them has to be added.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.noise import NoiseSource
from pairlearn.validation import check_positive

__all__ = ["pair_utility", "select_privately"]


def pair_utility(scores: ArrayLike, signs: ArrayLike) -> NDArray[np.float64]:
    """Return the share of correctly ordered pairs of each model.

    Parameters
    ----------
    scores : array-like of shape (n, k)
        Scores of k models.
    signs : array-like of shape (n,)
        +1 for positive examples; any other value is negative.

    Returns
    -------
    ndarray of shape (k,)
        The utilities; not for publication.

    Examples
    --------
    >>> pair_utility([[2.0, 1.0], [1.0, 2.0]], [1, -1])
    array([0.5, 0. ])
    """
    from scipy.stats import rankdata

    table = np.asarray(scores, dtype=np.float64)
    positive = np.asarray(signs) == 1
    n = len(table)
    n_positive = int(positive.sum())
    wins = rankdata(table, axis=0)[positive].sum(axis=0) - n_positive * (n_positive + 1) / 2
    utility: NDArray[np.float64] = wins / max(1, n * (n - 1))
    return utility


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
        +1 for positive examples.
    epsilon : float
        The price, with delta = 0 and one example replaced.
    noise : NoiseSource, optional
        A fresh secret one by default.
    ledger : PrivacyLedger, optional
        Where the price is entered before the data are looked at.

    Returns
    -------
    int
        The number of the chosen model, and nothing else.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> signs = np.where(rng.random(2000) < 0.5, 1, -1)
    >>> good = signs + rng.normal(size=2000)
    >>> select_privately(np.stack([-good, good], axis=1), signs, epsilon=1.0)
    1
    """
    epsilon = check_positive("epsilon", epsilon)
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] == 0 or len(table) != len(np.asarray(signs)):
        raise ValueError(
            f"scores must have one row per example and one column per model, got {table.shape}."
        )
    if ledger is not None:
        ledger.spend(f"selection among {table.shape[1]} models", epsilon=epsilon)
    source = NoiseSource() if noise is None else noise
    # The largest of (log weight + Gumbel noise) is a draw from the normalised weights.
    log_weights = 0.5 * epsilon * len(table) * pair_utility(np.nan_to_num(table), signs)
    return int(np.argmax(log_weights + source.gumbel(table.shape[1])))
