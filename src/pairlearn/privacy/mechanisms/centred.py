# SPDX-License-Identifier: BSD-3-Clause
"""The default private AUC learner: centred sufficient statistics in a few rounds.

The noise of a release about a point c grows with the radius R that holds the data, so it pays to
find the centre first. Each round spends a share of the budget: it releases moments
(`sufficient_statistics.release_moments`) about the current centre and chooses the next centre and
radius from the releases so far. The shares of mu^2 add up to 1, so the rounds compose to mu
exactly, whatever the choices in between.

Everything after the releases is post-processing. With D_k = A_k - m g_k C_k, where A_k, C_k are
the released means of y v and v in round k, m the released label mean (all rounds together) and
g_k a James-Stein factor, R_k D_k estimates Cov(x, y); the rounds are averaged by precision. The
direction is (S + lambda I)^{-1} D, with S the released covariance, shrunk towards a multiple of
the identity by the known size of its noise, and lambda from the known noise of D and S.

Moments are released of rows that are clipped to a ball; scores are of rows that are not. Released
lengths of rows say how much was clipped: `kept_by_clipping` finds the normal law whose clipped
lengths are the released ones, and the shares of its moments that clipping keeps. Lemma 5 in
``docs/privacy/lemmas.md`` derives these shares, and the belief about rare classes.

Simulations on several data sets and Gaussian models fixed the constants below. They do not change
at run time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting
from pairlearn.privacy.mechanisms.sufficient_statistics import (
    Grid,
    Moments,
    Weights,
    release_moments,
)
from pairlearn.privacy.noise import NoiseSource
from pairlearn.typing import Vector
from pairlearn.validation import check_flag

# By number of rounds: (share of mu^2, weight b of the mean) of each round. The weight of the last
# round is multiplied by |label mean|.
_ROUNDS = {
    1: ((1.0, 1.2),),
    2: ((0.15, 2.0), (0.85, 1.2)),
    3: ((0.06, 2.0), (0.16, 1.5), (0.78, 1.2)),
    5: ((0.03, 2.0), (0.04, 2.0), (0.05, 2.0), (0.10, 1.2), (0.78, 1.2)),
}
# Lower bound on the weight of the mean in the last round.
_SMALLEST_LAST_WEIGHT = 0.3
# Radius of the first round, in units of sqrt(d) standard units.
_FIRST_RADIUS = 1.3
# The same if the user gave a public centre.
_FIRST_RADIUS_WITH_CENTRE = 0.8
# Radius of a middle round, in units of the estimated length of a record.
_MIDDLE_RADIUS = 1.1
#: Radius of the last round, in the same unit.
LAST_RADIUS = 0.85
# Bounds on every radius, in units of sqrt(d) standard units.
_SMALLEST_RADIUS = 0.1
_LARGEST_RADIUS = 1.5
# A priori mean of the length of a record, in units of sqrt(d) standard units.
_EXPECTED_LENGTH = 0.75
# A priori standard deviation of that length, in the same unit.
_LENGTH_DEVIATION = 0.25
# Lower bound on the estimated length, in the same unit.
_SMALLEST_LENGTH = 0.5
# A priori standard deviation of the label mean about 0.
_LABEL_DEVIATION = 0.3
# Bound on the size of the estimated label mean, so that both classes keep some weight.
_LARGEST_LABEL_MEAN = 0.98
# Bias by clipping in the earlier rounds, as a share of the radius.
_CLIPPING_BIAS = 0.05
#: Lower bound on the estimated signal, as a share of its noise.
SMALLEST_SIGNAL = 0.2
# kappa of the belief about rare classes: the share of the expected difference that is believed.
_BELIEF_SHARE = 0.25
# tau of the belief about rare classes, in standard units.
_BELIEF_SPREAD = 0.5
# Error of the normal model in a mean clipped length, as a share of the radius.
_MODEL_ERROR = 0.02
# A priori standard deviation of the logarithm of the length of a row.
_LOG_LENGTH_DEVIATION = 0.5
# The lengths that are tried, in units of sqrt(d) standard units.
_LENGTHS = np.geomspace(0.02, 4.0, 240)
# Lower bound on the corrected distance between the classes, as a share of the released one.
_LEAST_APART = 0.1
# Lower bound on the variance within a class, as a share of the mean released variance.
_LEAST_WITHIN = 0.05


@dataclass(frozen=True)
class _Beliefs:
    """Estimates of the label mean, the centre and the length of a record from the releases."""

    label: float
    centre: Vector
    length: float


@dataclass(frozen=True)
class CentredStatistics(Mechanism):
    """Centred sufficient statistics released in adaptive rounds.

    Centres, radii and weights of a round depend on earlier releases and public quantities only.

    Parameters
    ----------
    n_rounds : {5, 3, 2, 1}, default=5
        Number of rounds. Fewer rounds can pay with a good public centre; ``pairlearn reproduce
        private-regimes`` compares them.
    rare_class_belief : bool, default=True
        Whether to expect the mean of a rare class nearer to the public middle (or the public
        centre) than the bulk of the examples. This is post-processing and leaves
        the guarantee as it is.
    narrow_bounds : bool, default=True
        Whether an estimator narrows public bounds that turn out far wider than the examples before
        it learns, with at most .15 of mu^2 (`privacy.bounds`). False keeps the bounds as
        they are given. Bounds of codes, and those that a `PrivateBounds` finds, are never narrowed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(2000) < 0.5, 1.0, -1.0)
    >>> Z = rng.standard_normal((2000, 2)) + np.outer(y, [1.0, 0.0])
    >>> setting = PublicSetting.make(2000, lower=[-3] * 2, upper=[3] * 2, epsilon=1, delta=1e-5)
    >>> fit = CentredStatistics().fit(Z, y, setting=setting, noise=NoiseSource(seed=1))
    >>> bool(fit.direction[0] > 3 * abs(fit.direction[1]))
    True
    """

    n_rounds: int = 5
    rare_class_belief: bool = True
    narrow_bounds: bool = True

    name = "statistics"

    def __post_init__(self) -> None:
        check_flag("rare_class_belief", self.rare_class_belief)
        check_flag("narrow_bounds", self.narrow_bounds)
        if self.n_rounds not in _ROUNDS:
            names = ", ".join(map(str, _ROUNDS))
            raise ValueError(f"n_rounds must be one of {names}, got {self.n_rounds!r}.")

    offers_persons = True

    def check(self, setting: PublicSetting) -> None:
        """Refuse a setting that the proof does not cover; see `Mechanism.check`."""
        super().check(setting)
        rounds = _ROUNDS[self.n_rounds]
        for k, (share, mean_weight) in enumerate(rounds, start=1):
            weights = _weights(mean_weight, k == len(rounds), setting.neighbours)
            mu = setting.mu * math.sqrt(share)
            Grid.fitting(weights, setting.n_features, mu=mu, neighbours=setting.neighbours)

    def fit(
        self, Z: Vector, signs: Vector, *, setting: PublicSetting, noise: NoiseSource,
        persons: NDArray[np.int64] | None = None,
    ) -> PrivateFit:  # fmt: skip
        """Learn privately; see `Mechanism.fit`.

        `persons` holds the person of each row, numbered from 0. ``setting.n_examples`` is then
        the number of persons, and the guarantee protects a person with all rows.
        """
        self.check(setting)
        if persons is not None:
            order = np.argsort(persons, kind="stable")
            Z, signs, persons = Z[order], signs[order], persons[order]
        start, root = setting.standard_centre, math.sqrt(setting.n_features)
        # Rounding in the shares must not lift the total above the budget.
        budget = setting.mu * (1.0 - 1e-12)
        rounds = _ROUNDS[self.n_rounds]
        moments: list[Moments] = []
        beliefs = _Beliefs(0.0, start, first_radius(setting))
        for k, (share, mean_weight) in enumerate(rounds):
            is_last = k == len(rounds) - 1
            factor = LAST_RADIUS if is_last else _MIDDLE_RADIUS if k else 1.0
            if is_last:
                mean_weight = last_round(beliefs.label, self.n_rounds)[1]
            radius = factor * beliefs.length
            moments.append(
                release_moments(
                    Z, signs, centre=beliefs.centre,
                    radius=min(max(radius, _SMALLEST_RADIUS * root), _LARGEST_RADIUS * root),
                    weights=_weights(mean_weight, is_last, setting.neighbours),
                    mu=budget * math.sqrt(share), n_examples=setting.n_examples,
                    neighbours=setting.neighbours, noise=noise, persons=persons,
                    name=f"centred moments, round {k + 1} of {len(rounds)}",
                )
            )  # fmt: skip
            if not is_last:
                beliefs = _update(moments, start)
        solved = solve_moments(
            moments, setting, setting.n_examples, rare_class_belief=self.rare_class_belief
        )
        return PrivateFit(solved[0], tuple(one.release for one in moments), *solved[1:])


def solve_moments(
    moments: list[Moments], setting: PublicSetting, n: int, *, rare_class_belief: bool = True
) -> tuple[Vector, float, tuple[float, float]]:
    """Return direction, threshold and log odds of n examples, by post-processing of releases.

    The last release must hold second moments.
    """
    beliefs = _update(moments, setting.standard_centre)
    last, m = moments[-1], beliefs.label
    assert last.second is not None
    mean = _shrink_of(moments, len(moments) - 1) * last.mean
    spread: Vector = last.second - np.outer(mean, mean)
    d, trace = len(mean), max(float(np.trace(spread)), 1e-3)
    covariance, variance = _covariance(moments, m)
    if rare_class_belief:
        # Cov(x, y) and its noise variance, shrunk towards the belief about rare classes.
        h = 0.5 * (1.0 - m**2)
        away = setting.from_public_centre(beliefs.centre)
        expected = _BELIEF_SHARE * h * 2.0 * m / (1.0 + m**2) * away
        believed = 2.0 * (h * _BELIEF_SPREAD) ** 2 / (1.0 + m**2)
        sampled = trace * last.radius**2 / d * (1.0 - m**2) / n
        weight = believed / (believed + variance + sampled)
        covariance = weight * covariance + (1.0 - weight) * expected
        variance = weight * variance
    solver, shrunk = _solver(last, spread, trace, covariance / last.radius, variance)
    direction = solver @ (covariance / last.radius)
    kept = kept_by_clipping(moments, beliefs.centre, shrunk)
    # How far apart the classes score.
    both, squared = 1.0 - m**2, float(direction @ direction)
    total = float(direction @ covariance)
    chance = variance * float(np.trace(solver)) / last.radius
    chance += last.radius * both * float(np.sum(solver * shrunk)) / n
    apart = max(total - chance, _LEAST_APART * total) / (0.5 * both) / kept[0]
    # The variance of the scores. Noise may make it 0 or negative, so it keeps a share of the mean.
    chosen = float(np.trace(solver)) * squared + float(direction @ solver @ direction)
    chosen *= last.deviation**2 / last.weights.second
    scores = last.radius**2 * (float(direction @ shrunk @ direction) + chosen) / kept[1]
    usual = last.radius**2 * max(float(np.trace(shrunk)), 1e-3) / d * squared
    least = max(_LEAST_WITHIN * usual / kept[1], 1e-300)
    slope = apart / max(scores - (total / kept[0]) ** 2 / both, least)
    offset = _offset(slope * 0.5 * m * apart, slope * math.sqrt(max(scores, least)), m)
    threshold = float(direction @ beliefs.centre) - 0.5 * m * apart
    return direction, threshold, (slope, offset)


def _offset(mean: float, deviation: float, label: float) -> float:
    """Return what to add to normal log odds, so that the mean probability is that of the label."""
    nodes, weights = _normal_nodes()
    odds = mean + deviation * nodes
    low, high = -50.0 - float(np.abs(odds).max()), 50.0 + float(np.abs(odds).max())
    for _ in range(40):
        offset = 0.5 * (low + high)
        shown = 0.5 + 0.5 * float(weights @ np.tanh(0.5 * (odds + offset)))
        low, high = (low, offset) if shown > 0.5 * (1.0 + label) else (offset, high)
    return 0.5 * (low + high)


@lru_cache(maxsize=1)
def _normal_nodes() -> tuple[Vector, Vector]:
    """Return nodes and weights of a quadrature over the standard normal law."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    return nodes, weights / weights.sum()


def last_round(label: float, n_rounds: int = 5) -> tuple[float, float]:
    """Return the share of mu^2 of the last round, and its weight of the mean at a label mean."""
    share, mean_weight = _ROUNDS[n_rounds][-1]
    return share, max(_SMALLEST_LAST_WEIGHT, mean_weight * abs(label))


def first_radius(setting: PublicSetting) -> float:
    """Return the radius about the public centre within which most records are expected."""
    known = setting.centre is not None
    share = _FIRST_RADIUS_WITH_CENTRE if known else _FIRST_RADIUS
    return share * math.sqrt(setting.n_features)


def _weights(mean: float, last: bool, neighbours: str) -> Weights:
    """Return the weights of a round: free ones for replacement, small ones for add or remove."""
    if neighbours == "replace":
        return Weights.free(mean, second_moments=last)
    # Here every part adds to the length of T(z), so the scalar parts get small weights.
    return Weights(mean, 0.5 * min(1.0, mean), 0.3, 0.25 * (1 + mean**2) if last else 0.0)


def _update(moments: list[Moments], start: Vector) -> _Beliefs:
    """Pool the releases of all rounds so far into estimates."""
    d = len(start)
    root = math.sqrt(d)
    label_precision = np.array([(m.weights.label / m.deviation) ** 2 for m in moments])
    label = float(label_precision @ [m.label for m in moments]) / (
        float(label_precision.sum()) + _LABEL_DEVIATION**-2
    )
    label = min(max(label, -_LARGEST_LABEL_MEAN), _LARGEST_LABEL_MEAN)

    errors = [(m.radius * m.deviation / m.weights.mean) ** 2 for m in moments]
    biases = [(_CLIPPING_BIAS * m.radius) ** 2 / d for m in moments]
    precision = np.array([1.0 / (e + b) for e, b in zip(errors, biases, strict=True)])
    pooled = precision @ [m.centre + m.radius * m.mean for m in moments] / precision.sum()
    variance = 1.0 / float(precision.sum())
    spread = max(1e-6, float(np.mean((pooled - start) ** 2)) - variance)
    shrink = spread / (spread + variance)
    centre = start + shrink * (pooled - start)
    variance = shrink * variance

    newest = moments[-1]
    measured = min(max(newest.length, 0.2), 1.0) * newest.radius
    moved = float(np.sum((centre - newest.centre) ** 2))
    squared = measured**2 - moved - d * variance
    length = math.sqrt(max(squared, (_SMALLEST_LENGTH * root) ** 2))
    error = newest.radius * newest.deviation / newest.weights.length
    trust = d * _LENGTH_DEVIATION**2 / (d * _LENGTH_DEVIATION**2 + error**2)
    length = trust * length + (1.0 - trust) * _EXPECTED_LENGTH * root
    return _Beliefs(label, centre, math.sqrt(length**2 + d * variance))


def _shrink_of(moments: list[Moments], k: int) -> float:
    """Return the James-Stein factor of the mean of round k; 1 in the first round."""
    if not k:
        return 1.0
    m = moments[k]
    noise = len(m.mean) * (m.deviation / m.weights.mean) ** 2
    return max(0.0, 1.0 - noise / max(float(m.mean @ m.mean), 1e-300))


def _covariance(moments: list[Moments], label: float) -> tuple[Vector, float]:
    """Return Cov(x, y) in standard coordinates from all rounds, and its noise variance."""
    d = len(moments[-1].mean)
    total = np.zeros(d)
    precision = 0.0
    for k, m in enumerate(moments):
        shrink = _shrink_of(moments, k)
        variance = (m.radius * m.deviation) ** 2 * (1.0 + label**2 * shrink / m.weights.mean**2)
        if m is not moments[-1]:
            variance += (_CLIPPING_BIAS * m.radius) ** 2 / d
        total += m.radius * (m.label_mean - label * shrink * m.mean) / variance
        precision += 1.0 / variance
    return total / precision, 1.0 / precision


def _solver(
    last: Moments, spread: Vector, trace: float, scaled: Vector, variance: float
) -> tuple[Vector, Vector]:
    """Return (S + lambda I)^{-1} and S, in units of the last radius, as `scaled` = Cov(x, y) is."""
    d = len(scaled)
    deviation = last.deviation / math.sqrt(last.weights.second)
    identity = np.eye(d)
    unequal = spread - trace / d * identity
    noise = deviation**2 * d * (d + 1) / 2
    keep = max(0.0, 1.0 - noise / max(float(np.sum(unequal**2)), 1e-300))
    values, vectors = np.linalg.eigh(trace / d * identity + keep * unequal)
    values = np.maximum(values, 0.0)
    noise = d * variance / last.radius**2
    signal = max(float(scaled @ scaled) - noise, SMALLEST_SIGNAL * noise)
    ridge = noise / d * trace / signal + deviation * math.sqrt(d)
    return (vectors / (values + ridge)) @ vectors.T, (vectors * values) @ vectors.T


def kept_by_clipping(moments: list[Moments], centre: Vector, spread: Vector) -> tuple[float, float]:
    """Return the shares of first and of second moments that clipping kept in the last round.

    `centre` is the estimated mean of all rows in standard coordinates, and `spread` the estimated
    covariance of clipped rows, up to a factor.
    """
    d = len(centre)
    trace = float(np.trace(spread))
    k = min(max(trace**2 / max(float(np.sum(spread**2)), 1e-300), 1.0), float(d))
    squares = d * _LENGTHS**2
    misfit = (np.log(_LENGTHS / _EXPECTED_LENGTH) / _LOG_LENGTH_DEVIATION) ** 2
    for m in moments:
        # Rows scatter about their mean, which lies off the centre of a round.
        moved = float(np.sum((centre - m.centre) ** 2))
        first, second, _ = clipped_lengths((squares + moved) / m.radius**2, k)
        error = math.hypot(m.deviation / m.weights.length, _MODEL_ERROR)
        misfit += ((m.length - first) / error) ** 2
        if m.second is not None and m.weights.second:
            error = math.hypot(m.deviation * math.sqrt(d / m.weights.second), _MODEL_ERROR)
            misfit += ((float(np.trace(m.second)) - second) / error) ** 2
    likely = squares[int(np.argmin(misfit))] / moments[-1].radius ** 2
    _, second, mixed = clipped_lengths(np.array([likely]), k)
    return float(mixed[0] / likely), float(second[0] / likely)


def clipped_lengths(mean_square: Vector, k: float) -> tuple[Vector, Vector, Vector]:
    """Return the means of min(r, 1), min(r, 1)^2 and r min(r, 1) of random lengths r.

    r^2 is `mean_square` / k times a chi-square with k degrees of freedom.

    >>> first, second, mixed = clipped_lengths(np.array([1e-4]), 3.0)
    >>> bool(np.isclose(second, 1e-4)[0] and np.isclose(mixed, 1e-4)[0])
    True
    """
    from scipy.special import gammainc, gammaln

    scale = mean_square / k
    inside, inside_1, inside_2 = (gammainc(0.5 * (k + j), 0.5 / scale) for j in range(3))
    mean = np.sqrt(2.0 * scale) * math.exp(gammaln(0.5 * (k + 1.0)) - gammaln(0.5 * k))
    first = mean * inside_1 + 1.0 - inside
    second = mean_square * inside_2 + 1.0 - inside
    mixed = mean_square * inside_2 + mean * (1.0 - inside_1)
    return first, second, mixed
