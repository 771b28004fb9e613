# SPDX-License-Identifier: BSD-3-Clause
r"""Plan a private fit: which AUC to expect, before any private data are touched.

The model: within each class the d features are normal with equal variances, the best linear score
has AUC a, and a share p of the examples is positive. With g = sqrt(2) Phi^{-1}(a) the signal is
Cov(x, y) = 2 p (1 - p) g along one axis, in standard deviations. A fit of the default mechanism
adds to each coordinate the chance of the sample, 4 p (1 - p) / n, and the noise of its last round,
which grows with the width of the bounds; bounds far too wide are narrowed to about eight standard
deviations for .15 of mu^2. The AUC is Phi(Phi^{-1}(a) cos) for the angle between what is found and
the axis. Correlated or skewed features, wrong bounds and codes change the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.bounds import fewest_examples
from pairlearn.privacy.mechanisms.base import STANDARD_RANGE
from pairlearn.privacy.mechanisms.centred import LAST_RADIUS, last_round
from pairlearn.privacy.mechanisms.sufficient_statistics import Weights
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction, check_positive

#: The least length of a record, over sqrt(d) standard units, for which noise is added.
_SHORTEST = 0.45
#: Width of narrowed bounds in standard deviations, and the share of mu^2 that is left.
_NARROWED, _LEFT = 8.0, 0.85
#: Epsilons and numbers of examples that are tried.
_EPSILONS, _SIZES = np.geomspace(0.01, 10.0, 60), np.geomspace(10.0, 1e12, 221)


def expected_auc(
    n_examples: int, n_features: int, *, epsilon: float | None, delta: float | None = None,
    best_auc: float = 0.8, positives: float = 0.5, range_over_spread: float = 8.0,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the expected AUC of a private fit, and the range of nine fits of ten.

    Parameters
    ----------
    n_examples, n_features : int
        Size of the data; the number of persons where one person with all rows is protected.
    epsilon : float or None
        The privacy parameter; None for no noise at all.
    delta : float, optional
        The smaller of 1/(10 n) and n^(-3/2) by default.
    best_auc, positives, range_over_spread : float
        What is assumed; see `plan`.

    Returns
    -------
    tuple of float
        The expected AUC, and the ends of the range.

    Examples
    --------
    >>> round(expected_auc(10**9, 10, epsilon=1.0)[0], 2)
    0.8
    >>> expected_auc(100, 50, epsilon=0.1)[0] < 0.6
    True
    """
    from scipy.special import ndtr, ndtri

    n, d = check_count("n_examples", n_examples, minimum=2), check_count("n_features", n_features)
    p = check_fraction("positives", positives)
    if not 0.5 < best_auc < 1:
        raise ValueError(f"best_auc must lie between 0.5 and 1, got {best_auc!r}.")
    if not range_over_spread >= 2:
        raise ValueError(
            f"range_over_spread must be at least 2, got {range_over_spread!r}: values within a "
            "range have a standard deviation of at most half of it."
        )
    reach, noise, kept = float(ndtri(best_auc)), 0.0, 1.0
    if epsilon is not None:
        mu = mu_of(epsilon, min(0.1 / n, n**-1.5) if delta is None else delta)
        if range_over_spread > _NARROWED and n >= fewest_examples(d, "replace", mu=mu):
            range_over_spread, mu = _NARROWED, mu * math.sqrt(_LEFT)
        width = range_over_spread / STANDARD_RANGE
        share, weight = last_round(abs(2.0 * p - 1.0))
        deviation = Weights.free(weight).sensitivity("replace") / (n * mu * math.sqrt(share))
        both = deviation**2 * (1.0 + ((2.0 * p - 1.0) / weight) ** 2)
        noise = both * LAST_RADIUS**2 * (1.0 + (_SHORTEST * width) ** 2) * (d + 1)
        # What the bounds cut off of a normal feature is lost to the signal.
        kept = 2.0 * float(ndtr(0.5 * STANDARD_RANGE * width)) - 1.0
    signal = 2.0 * p * (1.0 - p) * math.sqrt(2.0) * reach * kept
    variance = 4.0 * p * (1.0 - p) / n * kept**2 + noise
    drawn: Vector = ndtri((np.arange(200) + 0.5) / 200)

    def aucs(spread: float) -> Vector:
        along = signal + math.sqrt(spread) * drawn
        return np.sort(ndtr(reach * along / np.sqrt(along**2 + (d - 1) * spread)))

    # The stated range allows for noise that is a third larger or smaller.
    low, high = aucs(1.8 * variance)[10], aucs(variance / 1.8)[189]
    return float(aucs(variance).mean()), float(low), float(high)


@dataclass(frozen=True)
class PrivacyPlan:
    """The expected cost of privacy, in numbers and in words; see `plan`."""

    n_examples: int
    n_features: int
    n_persons: int | None
    epsilon: float
    private_auc: float
    low: float
    high: float
    nonprivate_auc: float
    largest_loss: float
    smallest_n: int | None
    smallest_epsilon: float | None

    @property
    def loss(self) -> float:
        """The expected loss of AUC through privacy."""
        return self.nonprivate_auc - self.private_auc

    def statement(self) -> str:
        """Return the plan in words."""
        ways = []
        if self.smallest_n is not None:
            ways.append(f"about {self.smallest_n:,} at epsilon {self.epsilon:.3g}")
        if self.smallest_epsilon is not None:
            ways.append(f"epsilon {self.smallest_epsilon:.2g} with what you have")
        needs = f"needs {', or '.join(ways)}" if ways else "is not in reach"
        return (
            f"With {self.n_examples:,} examples, {self.n_features:,} features and epsilon "
            f"{self.epsilon:.3g}, expect an AUC of about {self.private_auc:.2f} ({self.low:.2f} to "
            f"{self.high:.2f}) where a model without privacy has {self.nonprivate_auc:.2f}.\n"
            f"A loss of at most {self.largest_loss:g} {needs}.\n"
            "This is a guess from sizes alone: features that are roughly normal, one example "
            "replaced by another, and the default mechanism are assumed."
        )


def plan(
    n_examples: int, n_features: int, *, epsilon: float | None = None, delta: float | None = None,
    n_persons: int | None = None, largest_loss: float = 0.02, **guesses: float,
) -> PrivacyPlan:  # fmt: skip
    """Return what to expect from a private fit with the default mechanism, without any data.

    Parameters
    ----------
    n_examples, n_features : int
        Size of the data.
    epsilon : float, optional
        The privacy parameter. By default the smallest one at which privacy costs at most
        `largest_loss`.
    delta : float, optional
        The smaller of 1/(10 n) and n^(-3/2) by default.
    n_persons : int, optional
        Number of persons, if one person with all rows is to be protected; it takes the place of the
        number of examples.
    largest_loss : float, default=0.02
        The largest loss of AUC that is still useful.
    **guesses
        ``best_auc`` (.8), the AUC of the best linear score without privacy; ``positives`` (.5), the
        share of positive examples; ``range_over_spread`` (8), the width of the public bounds of a
        typical feature over its standard deviation: 100 / 15 for an age between 0 and 100 that
        varies by 15 years.

    Returns
    -------
    PrivacyPlan
        The numbers; `PrivacyPlan.statement` says them in words.

    Examples
    --------
    >>> print(plan(2000, 10, epsilon=1.0).statement().splitlines()[0])
    With 2,000 examples, 10 features and epsilon 1, expect an AUC of about 0.80 (0.80 to 0.80) ...
    >>> 0.1 < plan(2000, 10).epsilon < 1
    True
    """
    check_positive("largest_loss", largest_loss)
    if n_persons is not None and not 2 <= n_persons <= n_examples:
        raise ValueError(
            f"n_persons must lie between 2 and n_examples={n_examples}, got {n_persons!r}: each "
            "person has at least one example."
        )
    n = n_examples if n_persons is None else n_persons

    def auc(size: int, promise: float | None) -> float:
        known = None if promise is None else delta
        return expected_auc(size, n_features, epsilon=promise, delta=known, **guesses)[0]

    without = auc(n, None)
    enough = [float(one) for one in _EPSILONS if without - auc(n, float(one)) <= largest_loss]
    # A score that has nothing to lose loses nothing with any epsilon.
    smallest = enough[0] if enough and without - 0.5 > largest_loss else None
    if epsilon is None:
        if smallest is None:
            raise ValueError(
                f"no epsilon up to {_EPSILONS[-1]:g} keeps the loss within "
                f"largest_loss={largest_loss!r} with {n} examples and {n_features} features; allow "
                "more loss, use fewer features or find more data."
            )
        epsilon = smallest
    sizes = [round(one) for one in _SIZES]
    # From above: at very small n even the score without noise is useless.
    too_few = [
        k for k, size in enumerate(sizes) if auc(size, None) - auc(size, epsilon) > largest_loss
    ]
    last = max(too_few, default=-1)
    private, low, high = expected_auc(n, n_features, epsilon=epsilon, delta=delta, **guesses)
    return PrivacyPlan(
        n_examples, n_features, n_persons, epsilon, private, low, high, without, largest_loss,
        sizes[last + 1] if last + 1 < len(sizes) else None, smallest,
    )  # fmt: skip
