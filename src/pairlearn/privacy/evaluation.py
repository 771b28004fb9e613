# SPDX-License-Identifier: BSD-3-Clause
"""Evaluate fixed models on private examples: AUC and ROC curve with valid intervals, and a choice.

The AUC comes from a noisy (U/(n - 1), sqrt(3/4) n_+), where n_+ of n examples are positive and
U = (AUC - 1/2) n_+ (n - n_+). The ROC curve comes from noisy counts of the scores of each class
between public thresholds. Lemma 13 in ``docs/privacy/lemmas.md`` proves the sensitivities, 1 and
sqrt(2), and derives the intervals. With `groups`, each person counts as one example, the average of
his or her rows; lemma 19 shows that the bounds then hold for a person with all rows.

A choice among models uses the share of correctly ordered pairs among n (n - 1), which ranks models
as AUC does and has sensitivity 1/n. *Permute and flip* (McKenna and Sheldon, 2020) visits the
models in a random order and takes the first whose coin, with probability
exp(-epsilon n (max u - u_c) / 2), shows heads (lemma 10).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics.auc import doubled_wins_weighted
from pairlearn.privacy.accounting.certificate import Certificate, cautions_about
from pairlearn.privacy.accounting.gaussian import check_epsilon, mu_of
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.base import relative_slack
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.persons import WHOLE, shares
from pairlearn.privacy.records import is_label, read_labels, read_numbers, read_table
from pairlearn.privacy.release import paid_noise, release_vector
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_fraction, check_positive

#: Step of the grid of rates and areas; an interval is one step wider at each end.
_STEP = 1e-4


@dataclass(frozen=True)
class PrivateAUC:
    """A private AUC.

    Parameters
    ----------
    auc : float
        The estimate.
    low, high : float
        Interval for the AUC of the population that the examples come from.
    sample_low, sample_high : float
        Interval for the AUC of the sample itself: noise only.
    confidence : float
        Level of the intervals.
    certificate : Certificate
        The privacy certificate.
    """

    auc: float
    low: float
    high: float
    sample_low: float
    sample_high: float
    confidence: float
    certificate: Certificate


@dataclass(frozen=True)
class PrivateROC:
    """A private ROC curve with a band that holds everywhere at once.

    Parameters
    ----------
    thresholds : ndarray of shape (k,)
        The public thresholds, increasing; an example counts as positive at or above one.
    fpr, tpr : ndarray of shape (k,)
        Estimated rates.
    fpr_low, fpr_high, tpr_low, tpr_high : ndarray of shape (k,)
        The band.
    confidence : float
        Probability that all rates lie inside.
    certificate : Certificate
        The privacy certificate.
    """

    thresholds: Vector
    fpr: Vector
    tpr: Vector
    fpr_low: Vector
    fpr_high: Vector
    tpr_low: Vector
    tpr_high: Vector
    confidence: float
    certificate: Certificate


def private_roc_auc(
    y: ArrayLike, scores: ArrayLike, *, epsilon: float, delta: float,
    labels: tuple[Any, Any] = (0, 1), confidence: float = 0.95, random_state: Any = None,
    ledger: PrivacyLedger | None = None, groups: Any = None,
) -> PrivateAUC:  # fmt: skip
    """Return the AUC of a fixed model on private examples, with noise and an interval.

    If the model was trained on these examples, the cost of its training adds up with this one; a
    `ledger` does the sum.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels; any label but the positive one counts as negative.
    scores : array-like of shape (n,)
        Scores of the model, larger for examples that look positive, as `scores_of_each` finds them:
        the score of a row must not depend on other rows, nor on their number, in any digit. A score
        that is not a number counts as 0.
    epsilon, delta : float
        The privacy cost, for one example replaced, or one person with `groups`; n is public.
    labels : tuple (negative, positive), default=(0, 1)
        The two labels, public.
    confidence : float, default=0.95
        Level of the intervals.
    random_state : int, optional
        Makes the noise reproducible, hence the result not private; a warning says so.
    ledger : PrivacyLedger, optional
        A budget shared with other releases; it records the cost before the data are read.
    groups : array-like of shape (n,), optional
        The person of each row. The guarantee then protects a person with all rows, and the number
        of persons is public. Each person has the same weight: the estimate is that of
        ``roc_auc(y, scores, sample_weight=...)`` with 1/m for each of the m rows of a person. The
        interval is about a random row of each of two random persons.

    Returns
    -------
    PrivateAUC
        Estimate, intervals and certificate.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 20_000)
    >>> found = private_roc_auc(y, y + rng.normal(size=20_000), epsilon=1.0, delta=1e-6)
    >>> found.low < 0.7602 < found.high
    True
    >>> found.high - found.low < 0.04
    True
    """
    values = np.nan_to_num(read_numbers("scores", scores))
    n = len(values)
    positive = read_labels(y, _two(labels), n) == 1
    weight, n, whole, unit = _weighed(groups, n)
    query = _Query(n, unit, epsilon, delta, confidence)
    noise = query.pay(ledger, "AUC", random_state)
    total, ahead = int(weight.sum()), int(weight[positive].sum())
    doubled = doubled_wins_weighted(values, positive, weight)
    centred = (doubled - ahead * (total - ahead)) / (2 * whole**2)
    exact = np.array([centred / _most_wins(n, unit), math.sqrt(0.75) * ahead / whole])
    noisy, certificate = query.release(exact, "centred wins and positives", 1.0, noise)
    scale = certificate.releases[0].noise_scale
    intervals = auc_intervals(noisy, n, scale=scale, confidence=confidence, unit=unit)
    return PrivateAUC(*intervals, confidence, certificate)


def _weighed(groups: Any, n: int) -> tuple[NDArray[np.int64], int, int, str]:
    """Return the weight of each row, the number of units, the weight of one, and what it is."""
    if groups is None:
        return np.ones(n, dtype=np.int64), n, 1, "example"
    return *shares(groups, n), WHOLE, "person"


def _most_wins(n: int, unit: str) -> float:
    """Return by how much one of n examples, or persons, can change the centred wins."""
    return max(1.0, n - 1.0) if unit == "example" else max(1.0, n - 0.75)


def auc_intervals(
    noisy: Vector, n: int, *, scale: float, confidence: float, unit: str = "example"
) -> tuple[float, float, float, float, float]:
    """Return the AUC and its intervals, population and sample, from the two noisy numbers.

    `noisy` are the centred wins over the most that one of the n examples or persons can change, and
    the root of 3/4 times the number of positives, with noise of standard deviation `scale`. Returns
    the AUC, the low and high end for the population, then those for the sample.
    """
    most = _most_wins(n, unit)
    if n < 2:
        # Fewer than two examples have no pair.
        return 0.5, 0.0, 1.0, 0.0, 1.0
    wins, count = float(noisy[0]) * most, float(noisy[1]) / math.sqrt(0.75)
    variance = scale**2 / 0.75
    pairs = count * (n - count) + variance
    likely = min(max(count, 1.0), max(1.0, n - 1.0))
    auc = 0.5 if pairs <= 0 else min(max(0.5 + wins / pairs, 0.0), 1.0)
    area = _tried(auc)
    error = (scale * most) ** 2 + (area - 0.5) ** 2 * (
        (n - 2.0 * likely) ** 2 * variance + 2.0 * variance**2
    )
    gap = np.abs(wins - (area - 0.5) * pairs)
    sampled = area * (1.0 - area) / max(1.0, min(likely, n - likely))
    sampled = sampled * (likely * (n - likely)) ** 2
    z = _two_sided(confidence)
    # Pairs within a person, of which the population knows nothing.
    within = 0.0 if unit == "example" else min(likely, n - likely, 0.25 * n)
    low, high = _hull(area, gap <= z * np.sqrt(error + sampled) + within)
    sample_low, sample_high = _hull(area, gap <= z * np.sqrt(error))
    return auc, low, high, sample_low, sample_high


def private_roc_curve(
    y: ArrayLike, scores: ArrayLike, *, thresholds: ArrayLike, epsilon: float, delta: float,
    labels: tuple[Any, Any] = (0, 1), confidence: float = 0.95, random_state: Any = None,
    ledger: PrivacyLedger | None = None, groups: Any = None,
) -> PrivateROC:  # fmt: skip
    """Return the ROC curve of a fixed model on private examples, with noise and a band.

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        As in `private_roc_auc`.
    thresholds : array-like of shape (k,)
        Public and increasing, such as ``np.linspace(0.05, 0.95, 19)`` for probabilities. About
        twenty thresholds that fill the bins evenly work best.
    epsilon, delta : float
        The privacy cost, for one example replaced, or one person with `groups`; n is public.
    labels : tuple (negative, positive), default=(0, 1)
        The two labels, public.
    confidence : float, default=0.95
        Probability that the whole band holds.
    random_state, ledger, groups : optional
        As in `private_roc_auc`. With `groups` the rates are those of a random row of a random
        person.

    Returns
    -------
    PrivateROC
        Rates at the thresholds, the band, and the certificate.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 20_000)
    >>> curve = private_roc_curve(y, y + rng.normal(size=20_000), epsilon=1.0, delta=1e-6,
    ...                           thresholds=np.linspace(-1, 2, 13))
    >>> bool((curve.tpr_low <= curve.tpr_high).all())
    True
    """
    cuts = np.asarray(thresholds, dtype=np.float64)
    if cuts.ndim != 1 or not len(cuts) or not np.isfinite(cuts).all() or (np.diff(cuts) <= 0).any():
        raise ValueError(
            "thresholds must be public, finite and increasing numbers, such as "
            f"np.linspace(0.05, 0.95, 19) for probabilities; got {thresholds!r}."
        )
    values = np.nan_to_num(read_numbers("scores", scores))
    n = len(values)
    positive = read_labels(y, _two(labels), n) == 1
    # Whole numbers below 2^53: the sums are exact.
    weight, n, whole, unit = _weighed(groups, n)
    query = _Query(n, unit, epsilon, delta, confidence)
    noise = query.pay(ledger, "ROC curve", random_state)
    bins = np.searchsorted(cuts, values, side="right")
    parts = (np.bincount(bins[k], weight[k], len(cuts) + 1) for k in (positive, ~positive))
    exact = np.concatenate([part / whole for part in parts])
    noisy, certificate = query.release(exact, "counts of scores", math.sqrt(2.0), noise)
    scale = certificate.releases[0].noise_scale
    # Bonferroni: a two-sided interval for each of two classes at each threshold.
    z = _two_sided(1.0 - (1.0 - confidence) / (2.0 * len(cuts)))
    tpr, fpr = (_rates(part, scale, z) for part in np.split(noisy, 2))
    return PrivateROC(cuts, fpr[0], tpr[0], *fpr[1:], *tpr[1:], confidence, certificate)


def _rates(counts: Vector, scale: float, z: float) -> tuple[Vector, Vector, Vector]:
    """Return the share at or above each threshold, and its band, from noisy counts of bins."""
    total = float(counts.sum())
    n_above = np.arange(len(counts) - 1, 0, -1)
    above = np.cumsum(counts[::-1])[::-1][1:]
    share = np.clip(above / max(total, 1.0), 0.0, 1.0)
    low, high = np.zeros(len(above)), np.ones(len(above))
    for k, (count, bins) in enumerate(zip(above, n_above, strict=True)):
        rate = _tried(float(share[k]))
        noise = scale**2 * ((1.0 - rate) ** 2 * bins + rate**2 * (len(counts) - bins))
        # An upper bound on the number of examples, for the sampling variance.
        most = max(total + z * scale * math.sqrt(len(counts)), 1.0)
        near = np.abs(count - rate * total) <= z * np.sqrt(noise + most * rate * (1.0 - rate))
        low[k], high[k] = _hull(rate, near)
    # Shares fall as thresholds rise.
    low, share = (np.maximum.accumulate(one[::-1])[::-1] for one in (low, share))
    return share, low, np.minimum.accumulate(high)


@dataclass(frozen=True)
class _Query:
    """One query on private examples: its privacy claim, its cost and its noise."""

    n: int
    unit: str
    epsilon: float
    delta: float
    confidence: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_fraction("delta", self.delta)
        check_fraction("confidence", self.confidence)

    def pay(self, ledger: PrivacyLedger | None, what: str, seed: Any) -> NoiseSource:
        units = "n" if self.unit == "example" else "persons"
        cautions = cautions_about(self.delta, max(self.n, 1), seeded=seed is not None)
        return paid_noise(
            ledger, f"{what} of a model, {units} = {self.n}", seed=seed, cautions=cautions,
            mu=mu_of(self.epsilon, self.delta), unit=self.unit,
        )  # fmt: skip

    def release(
        self, exact: Vector, name: str, sensitivity: float, noise: NoiseSource
    ) -> tuple[Vector, Certificate]:
        mu = mu_of(self.epsilon, self.delta) * (1.0 - 1e-12)
        noisy, release = release_vector(
            exact, name=name, sensitivity=sensitivity * relative_slack, mu=mu, noise=noise
        )
        certificate = Certificate(
            mechanism="evaluation", neighbours="replace", epsilon=float(self.epsilon),
            delta=float(self.delta), n_examples=self.n, n_features=1, releases=(release,),
            generator=noise.description, private=noise.private, mu=release.mu,
            public={f"number of {self.unit}s": f"{self.n}, as in the data"},
            accounting="one Gaussian release, converted exactly",
            warnings=cautions_about(self.delta, max(self.n, 1), seeded=not noise.private),
            unit=self.unit,
        )  # fmt: skip
        return noisy, certificate


def _two(labels: tuple[Any, Any]) -> tuple[Any, Any]:
    if len(tuple(labels)) != 2:
        raise ValueError(f"labels must be (negative, positive), got {labels!r}.")
    return labels


def _two_sided(confidence: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(0.5 + 0.5 * confidence))


def _tried(estimate: float) -> Vector:
    """Return the candidate values: a fine grid on [0, 1] and the estimate itself."""
    return np.sort(np.append(np.arange(0.0, 1.0 + _STEP / 2, _STEP), estimate))


def _hull(values: Vector, inside: Mask) -> tuple[float, float]:
    """Return the range of the values `inside`, widened by one step; (0, 1) if there are none."""
    places = np.flatnonzero(inside)
    if not len(places):
        return 0.0, 1.0
    return max(0.0, float(values[places[0]]) - _STEP), min(1.0, float(values[places[-1]]) + _STEP)


def select_privately(
    scores: ArrayLike, signs: ArrayLike, *, epsilon: float, ledger: PrivacyLedger | None = None,
    groups: Any = None,
) -> int:  # fmt: skip
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
    weight, n, whole, unit = _weighed(groups, len(table))
    what = f"selection among {table.shape[1]} models"
    source = paid_noise(ledger, what, epsilon=epsilon, unit=unit)
    wins = [doubled_wins_weighted(column, positive, weight) for column in table.T]
    # A replaced example changes n - 1 pairs, and wins are counted in halves of a pair.
    changed = max(1, n - 1) if groups is None else max(Fraction(1, 4), n - Fraction(3, 4))
    most = 2 * whole**2 * Fraction(changed)
    best = max(wins)
    for model in source.permutation(len(wins)).tolist():
        # epsilon (max u - u_c) / 2, with u in units of its sensitivity.
        exponent = price * (best - wins[model]) / (2 * most)
        if source.accept(exponent.numerator, exponent.denominator):
            return int(model)
    raise AssertionError("the best model is always accepted.")


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
