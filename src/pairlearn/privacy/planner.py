# SPDX-License-Identifier: BSD-3-Clause
"""Predict the cost of privacy in AUC, before touching any private data.

The model: within each class the d features are Gaussian with equal variances, the best linear
score has AUC a, and a share p of the examples is positive. With g = sqrt(2) Phi^{-1}(a) the gap
between the class means in standard deviations, the default mechanism estimates
Cov(x, y) = 2 p (1 - p) g along one axis, with an error of variance

    v = 4 p (1 - p) / n  +  (c f (1 + |2p - 1|) / (n mu))^2 (d + 1)

in each direction: sampling, and noise. The factor f says what wide bounds cost, or bounds that
the budget had to find. Public bounds are first narrowed as a fit narrows them
(`pairlearn.privacy.narrowing`), with the expected counts of normal features. Found and narrowed
bounds give each feature a scale with an error, which turns the direction by an angle that a
stronger signal does not make smaller. The angle theta between the estimated and the best direction
gives the AUC Phi(Phi^{-1}(a) cos theta), and its law follows from d normal errors.

The form was chosen with 800 simulations, and the constants were fitted to half of them: 100 to
20,000 examples, 1 to 64 features, epsilon from .1 to 4, 3 to 50 % positive, ranges of 3 to 400
standard deviations. On the other half the mean is right within .02 in nine of ten cases with public
bounds that are not narrowed, and within .03 with found ones. For narrowed bounds no constant of the
mean was fitted: on 48 cases with ranges of 6 to 315 standard deviations, 24 fits of the default
each, its root mean square error was .014. It is about .02 too high where the counts are noisy, so
the stated range was widened there, after a look at such cases. ``pairlearn reproduce
private-planner`` repeats simulations beside the predictions. Correlated or skewed features, wrong
bounds and discrete codes change the result.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.mechanisms.base import Mechanism, PublicSetting
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.narrowing import Bins, NoisyCounts, ask_table, narrowed
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.quartiles import PrivateBounds, find_bounds
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction, check_positive

# c of the module.
_NOISE_CONSTANT = 2.0
# The range of a feature over its standard deviation if nothing is known. From the smallest to the
# largest value the ratio is about 6 on real data, and public ranges are wider.
_USUAL_RANGE = 8.0
# f = sqrt(1 + (this ratio)^2) for public bounds.
_WIDE_BOUNDS = 0.075
# Where the means of features lie between their bounds, for the narrowing of wide ones.
_PLACES = (np.arange(8) + 3.5) / 14
# Error of the direction through narrowed ranges that differ, over the signal and their spread.
_UNEQUAL_RANGES = 0.5
# Rows that stand for a normal feature there.
_NORMAL_ROWS = 1000
# f of bounds that the budget had to find, for many examples.
_SEARCHED_BOUNDS = 1.1
# Growth of that factor with the noise of the counts.
_COUNT_NOISE = 2.8
# Error of the direction through wrong scales, over the signal and the noise of the counts.
_WRONG_SCALES = 4.0
# The stated range of the AUC allows for noise that is larger or smaller by these factors: with
# public bounds, with found ones, and with public ones that are narrowed.
_NOISE_ERROR, _NOISE_ERROR_FOUND, _NOISE_ERROR_NARROWED = 1.25, 1.5, 2.0
# No data set is larger, in examples or in features.
_LARGEST = 1 << 40
# The search for an epsilon that is enough goes through these.
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-4, 10.0
# A larger epsilon promises nothing.
_NO_PROMISE = 1000.0
# No feature has a wider range, in standard deviations.
_WIDEST_RANGE = 1e12
# The model is not more exact than this.
_SMALLEST_LOSS = 1e-4
# Narrower bounds than this many standard deviations would cut off data.
_NARROWEST_RANGE = 6.0


@dataclass(frozen=True)
class PrivacyPlan:
    """The expected cost of privacy, in numbers and in words.

    Parameters
    ----------
    n_examples : int
        Number of examples.
    n_features : int
        Number of features.
    epsilon, delta : float
        The privacy parameters.
    best_auc, positives, range_over_spread : float
        What was assumed; see `plan`.
    n_persons : int or None
        Number of persons if one person with all rows is protected, else None.
    private_auc : float
        Expected AUC of the private score, with the better kind of bounds.
    low, high : float
        Nine fits of ten have an AUC in this range. It allows for noise that is a quarter larger or
        smaller than the model says, with found bounds a half, and twice as large or half as large
        with bounds that are narrowed.
    nonprivate_auc : float
        Expected AUC without noise, with the same data.
    public_bounds_auc : float
        Expected AUC with the bounds as they are, which the default narrows where they turn out far
        too wide.
    searched_bounds_auc : float
        Expected AUC with bounds that a fifth of the budget finds (`PrivateBounds`).
    twice_the_data_auc, twice_epsilon_auc : float
        Expected AUC with twice as many examples (persons), and with twice the epsilon.
    half_the_range_auc : float or None
        Expected AUC with bounds half as wide; None if they would cut off data.
    largest_loss : float
        The largest loss of AUC that is still useful.
    smallest_n : int or None
        Smallest number of examples (persons) at which privacy costs at most `largest_loss`; None
        if no realistic number does.
    smallest_epsilon : float or None
        Smallest epsilon at which privacy costs at most `largest_loss`; None if it is above 10, or
        if a score without privacy has nothing to lose.
    """

    n_examples: int
    n_features: int
    epsilon: float
    delta: float
    best_auc: float
    positives: float
    range_over_spread: float
    n_persons: int | None
    private_auc: float
    low: float
    high: float
    nonprivate_auc: float
    public_bounds_auc: float
    searched_bounds_auc: float
    twice_the_data_auc: float
    twice_epsilon_auc: float
    half_the_range_auc: float | None
    largest_loss: float
    smallest_n: int | None
    smallest_epsilon: float | None

    @property
    def loss(self) -> float:
        """The expected loss of AUC through privacy."""
        return self.nonprivate_auc - self.private_auc

    @property
    def private_bounds_pay(self) -> bool:
        """Whether bounds found with a part of the budget are expected to beat public ones."""
        return self.searched_bounds_auc > self.public_bounds_auc

    def statement(self) -> str:
        """Return the plan in words."""
        unit, size = "examples", f"{self.n_examples:,} examples"
        if self.n_persons is not None:
            unit = "persons"
            size = f"{self.n_persons:,} persons ({self.n_examples:,} examples)"
        low, high = math.floor(100 * self.low) / 100, math.ceil(100 * self.high) / 100
        narrower = ""
        if self.half_the_range_auc is not None:
            narrower = f"; bounds half as wide about {self.half_the_range_auc:.2f}"
        ways = []
        if self.smallest_n is not None:
            count = f"{_two_digits(self.smallest_n):,.0f}"
            ways.append(f"about {count} {unit} at epsilon {self.epsilon:.3g}")
        if self.smallest_epsilon is not None:
            ways.append(f"epsilon {self.smallest_epsilon:g} with what you have")
        enough = f"A loss of at most {self.largest_loss:g} needs {', or '.join(ways)}."
        if not ways:
            enough = (
                f"No realistic number of {unit} and no epsilon up to {_LARGEST_EPSILON:g} keeps "
                f"the loss within {self.largest_loss:g}."
            )
        lines = [
            f"With {size}, {self.n_features:,} features and epsilon {self.epsilon:.3g}, expect an "
            f"AUC of about {self.private_auc:.2f} ({low:.2f} to {high:.2f}) where a model without "
            f"privacy has {self.nonprivate_auc:.2f}.",
            f"Twice as many {unit} would give about {self.twice_the_data_auc:.2f}; epsilon "
            f"{2 * self.epsilon:.3g} about {self.twice_epsilon_auc:.2f}{narrower}.",
            enough,
            *self._about_bounds(),
            f"Protected: one {unit[:-1]} replaced by another, delta = {self.delta:.2g}.",
            f"Assumed: a best linear score with AUC {self.best_auc:g}, {100 * self.positives:g} % "
            f"positive, features that are roughly normal, with a range of "
            f"{self.range_over_spread:.3g} standard deviations"
            + (", rows of one person that are alike." if self.n_persons is not None else "."),
            "Nine fits of ten fall into the range in brackets if the assumptions hold.",
        ]
        return "\n".join(lines)

    def _about_bounds(self) -> list[str]:
        given, found = f"{self.public_bounds_auc:.2f}", f"{self.searched_bounds_auc:.2f}"
        if given == found:
            return []
        if self.private_bounds_pay:
            return [
                "Let the library find narrower bounds with a fifth of the budget (PrivateBounds): "
                f"about {found}, and {given} with the bounds as they are."
            ]
        return [
            "Use the bounds as they are (a fit narrows those that are far too wide): about "
            f"{given}, and {found} with PrivateBounds."
        ]


def _two_digits(value: float) -> float:
    """Return a positive number rounded up to two digits."""
    places = 1 - math.floor(math.log10(value))
    return round(math.ceil(value * 10.0**places * (1 - 1e-12)) / 10.0**places, max(0, places))


@dataclass(frozen=True)
class _Model:
    """The model of the module, with everything but n and the budget."""

    n_features: int
    best_auc: float
    positives: float
    range_over_spread: float

    def __post_init__(self) -> None:
        _check_size("n_features", self.n_features, 1)
        check_fraction("positives", self.positives)
        if not 0.5 < self.best_auc < 1:
            raise ValueError(
                f"best_auc must lie between 0.5 and 1, got {self.best_auc!r}: it is the AUC "
                "that you expect without privacy."
            )
        if not 2 <= self.range_over_spread <= _WIDEST_RANGE:
            raise ValueError(
                f"range_over_spread must lie between 2 and {_WIDEST_RANGE:g}, got "
                f"{self.range_over_spread!r}: values within a range have a standard deviation of "
                "at most half of it."
            )

    def aucs(
        self, n: int, mu: float | None, search: PrivateBounds | None = None, noise: float = 1.0
    ) -> Vector:
        """Return equally likely AUCs of fits; the noise of a mu of None is 0."""
        from scipy.special import gammaincinv, ndtr, ndtri

        d, p = self.n_features, self.positives
        reach = float(ndtri(self.best_auc))
        signal = 2 * p * (1 - p) * math.sqrt(2) * reach
        variance = 4 * p * (1 - p) / n
        turned = 0.0
        if mu is not None:
            if search is None:
                ranges, mu = self.narrowed(n, mu)
                factor = math.hypot(1.0, _WIDE_BOUNDS * float(ranges.mean()))
                turned = noise * _UNEQUAL_RANGES * float(np.log(ranges).std()) * signal
            else:
                counts = math.sqrt(2 * d * search.levels / search.share) / (n * mu)
                factor = _SEARCHED_BOUNDS + _COUNT_NOISE * counts
                turned = noise * _WRONG_SCALES * counts * signal
            scale = noise * factor * _NOISE_CONSTANT * (1 + abs(2 * p - 1)) / (n * mu)
            variance += scale**2 * (d + 1)
        # Quantiles of the error along the best direction and, squared, of all others.
        along = signal + math.sqrt(variance) * ndtri((np.arange(201) + 0.5) / 201)[:, None]
        others = np.zeros(1)
        if d > 1:
            others = 2 * variance * gammaincinv((d - 1) / 2, (np.arange(41) + 0.5) / 41)
            others = others + turned**2 * (1 - 1 / d)
        aucs: Vector = ndtr(reach * along / np.sqrt(along**2 + others)).ravel()
        return aucs

    def narrowed(self, n: int, mu: float) -> tuple[Vector, float]:
        """Return ranges over spread and the budget after the default has narrowed public bounds.

        The looks are those of a fit, at normal features with means in several places. So many
        features with this part of mu have the noise of each of d features.
        """
        part = math.sqrt(len(_PLACES) / self.n_features)
        lower, upper = -_PLACES * self.range_over_spread, (1 - _PLACES) * self.range_over_spread
        given = PublicSetting(
            n, lower, upper, np.zeros(len(_PLACES), np.int64), 0.0, 0.0, budget=part * mu
        )

        def ask(bins: Bins, *, neighbours: str, mu: float, name: str) -> NoisyCounts:
            counts: Vector = bins.counts(_normal_rows(), 1) * np.float64(n / _NORMAL_ROWS)
            release = bins.grid(neighbours, mu=mu).release(name, len(counts))
            return NoisyCounts(counts, release.noise_scale, release)

        after, _ = narrowed(given, ask)
        return after.upper - after.lower, after.mu / part

    def best(self, n: int, mu: float) -> tuple[float, float]:
        """Return the expected AUC with public bounds, and with found ones."""
        found = self.aucs(n, mu, PrivateBounds(0.0, 1.0))
        return float(self.aucs(n, mu).mean()), float(found.mean())

    def loss(self, n: int, mu: float) -> float:
        """Return the expected loss, with the better kind of bounds."""
        return float(self.aucs(n, None).mean()) - max(self.best(n, mu))


@functools.cache
def _normal_rows() -> Vector:
    """Return the quantiles of a normal feature, one a row, for each of the places."""
    from scipy.special import ndtri

    one = ndtri((np.arange(_NORMAL_ROWS) + 0.5) / _NORMAL_ROWS)
    return np.repeat(one[:, np.newaxis], len(_PLACES), axis=1)


def _check_size(name: str, value: int, minimum: int) -> int:
    if check_count(name, value, minimum=minimum) > _LARGEST:
        raise ValueError(f"{name} must be at most {_LARGEST:,}, got {value}; no data are larger.")
    return int(value)


def _budget(n: int, epsilon: float, delta: float | None) -> float:
    return mu_of(epsilon, _default_delta(n) if delta is None else delta)


def _default_delta(n: int) -> float:
    return min(1.0 / (10.0 * n), 1.0 / (n * math.sqrt(n)))


def expected_auc(
    n_examples: int,
    n_features: int,
    *,
    epsilon: float | None,
    delta: float | None = None,
    best_auc: float = 0.8,
    positives: float = 0.5,
    range_over_spread: float = _USUAL_RANGE,
    search: PrivateBounds | None = None,
) -> float:
    """Return the expected AUC under the model of the module.

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
    search : PrivateBounds, optional
        How to find bounds with a part of the budget; by default the bounds are public.

    Returns
    -------
    float
        Between 0.5 and `best_auc`.

    Examples
    --------
    >>> round(expected_auc(10**9, 10, epsilon=1.0), 3)
    0.8
    >>> expected_auc(100, 50, epsilon=0.1) < 0.6
    True
    """
    model = _Model(n_features, best_auc, positives, range_over_spread)
    n = _check_size("n_examples", n_examples, 2)
    mu = None if epsilon is None else _budget(n, epsilon, delta)
    return float(model.aucs(n, mu, search).mean())


def plan(
    n_examples: int,
    n_features: int,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    n_persons: int | None = None,
    best_auc: float = 0.8,
    positives: float = 0.5,
    range_over_spread: float = _USUAL_RANGE,
    largest_loss: float = 0.02,
) -> PrivacyPlan:
    """Return what to expect from a private fit with the default mechanism.

    No data are needed, only what is known or guessed about them.

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
        Number of persons, if one person with all rows is to be protected (`groups` of `fit`). The
        plan then takes the rows of a person as alike, so that n is this number everywhere. If they
        differ, the AUC is higher with and without privacy.
    best_auc : float, default=0.8
        AUC of the best linear score without privacy, a guess.
    positives : float, default=0.5
        Share of positive examples, a guess.
    range_over_spread : float, default=8.0
        The width of the public bounds of a typical feature, divided by the standard deviation that
        you expect: 100 / 15 for an age between 0 and 100 that varies by 15 years. At least 2.
    largest_loss : float, default=0.02
        The largest loss of AUC that is still useful.

    Returns
    -------
    PrivacyPlan
        The numbers; `PrivacyPlan.statement` says them in words.

    Examples
    --------
    >>> print(plan(2000, 10, epsilon=1.0).statement().splitlines()[0])
    With 2,000 examples, 10 features and epsilon 1, expect an AUC of about 0.80 (0.79 to 0.80) ...
    >>> 0.1 < plan(2000, 10, largest_loss=0.02).epsilon < 1
    True
    """
    model = _Model(n_features, best_auc, positives, range_over_spread)
    n = _check_size("n_examples", n_examples, 2)
    if n_persons is not None:
        if _check_size("n_persons", n_persons, 2) > n:
            raise ValueError(
                f"n_persons={n_persons} is more than n_examples={n_examples}: each person has at "
                "least one example."
            )
        n = n_persons
    if not n * min(positives, 1 - positives) >= 1:
        raise ValueError(
            f"positives={positives!r} leaves less than one of {n} for a class; a model needs both."
        )
    if not _SMALLEST_LOSS <= largest_loss < best_auc - 0.5:
        raise ValueError(
            f"largest_loss must lie between {_SMALLEST_LOSS:g} and best_auc - 0.5 = "
            f"{best_auc - 0.5:g}, got {largest_loss!r}: no model loses more than it has."
        )
    if epsilon is not None and check_positive("epsilon", epsilon) > _NO_PROMISE:
        raise ValueError(
            f"epsilon must be at most {_NO_PROMISE:g}, got {epsilon!r}: more promises nothing."
        )
    if delta is not None:
        check_fraction("delta", delta)

    def loss(size: int, promise: float) -> float:
        return model.loss(size, _budget(size, promise, delta))

    nonprivate = float(model.aucs(n, None).mean())
    smallest_epsilon = None
    # A score that has nothing to lose loses nothing with any epsilon.
    if nonprivate - 0.5 > largest_loss and loss(n, _LARGEST_EPSILON) <= largest_loss:
        low, high = _SMALLEST_EPSILON, _LARGEST_EPSILON
        while high > 1.001 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if loss(n, middle) <= largest_loss else (middle, high)
        smallest_epsilon = min(_two_digits(high), _LARGEST_EPSILON)
    if epsilon is None:
        if smallest_epsilon is None:
            raise ValueError(
                f"no epsilon up to {_LARGEST_EPSILON:g} keeps the loss within "
                f"largest_loss={largest_loss!r} with {n} examples and {n_features} features; allow "
                "more loss, use fewer features or find more data."
            )
        epsilon = smallest_epsilon
    # Search from above: at very small n even the score without noise is useless, so the loss is
    # small for the wrong reason.
    smallest_n = None
    if loss(_LARGEST, epsilon) <= largest_loss:
        most = _LARGEST
        while most > 4 and loss(most // 2, epsilon) <= largest_loss:
            most //= 2
        least = most // 2
        while most - least > 1:
            between = (least + most) // 2
            enough = loss(between, epsilon) <= largest_loss
            least, most = (least, between) if enough else (between, most)
        smallest_n = most
    mu = _budget(n, epsilon, delta)
    public, searched = model.best(n, mu)
    search, error = None, _NOISE_ERROR
    if searched > public:
        search, error = PrivateBounds(0.0, 1.0), _NOISE_ERROR_FOUND
    elif (model.narrowed(n, mu)[0] < range_over_spread).any():
        error = _NOISE_ERROR_NARROWED
    narrow = None
    if range_over_spread >= 2 * _NARROWEST_RANGE:
        narrow = max(replace(model, range_over_spread=range_over_spread / 2).best(n, mu))
    return PrivacyPlan(
        n_examples=n_examples,
        n_features=n_features,
        epsilon=epsilon,
        delta=_default_delta(n) if delta is None else delta,
        best_auc=best_auc,
        positives=positives,
        range_over_spread=range_over_spread,
        n_persons=n_persons,
        private_auc=max(public, searched),
        low=float(np.quantile(model.aucs(n, mu, search, error), 0.05)),
        high=float(np.quantile(model.aucs(n, mu, search, 1 / error), 0.95)),
        nonprivate_auc=nonprivate,
        public_bounds_auc=public,
        searched_bounds_auc=searched,
        twice_the_data_auc=max(model.best(2 * n, _budget(2 * n, epsilon, delta))),
        twice_epsilon_auc=max(model.best(n, _budget(n, 2 * epsilon, delta))),
        half_the_range_auc=narrow,
        largest_loss=largest_loss,
        smallest_n=smallest_n,
        smallest_epsilon=smallest_epsilon,
    )


def simulated_auc(
    n_examples: int,
    n_features: int,
    *,
    epsilon: float,
    delta: float | None = None,
    best_auc: float = 0.8,
    positives: float = 0.5,
    mechanism: Mechanism | None = None,
    range_over_spread: float = _USUAL_RANGE,
    search: bool = False,
    n_runs: int = 40,
    seed: int = 0,
) -> float:
    """Return the mean AUC of a mechanism on data drawn from the model.

    The mean of a feature lies off the middle of its bounds, the more the wider they are; the AUC
    of a direction is known in closed form.

    Parameters
    ----------
    n_examples, n_features, epsilon, delta, best_auc, positives, range_over_spread
        As in `expected_auc`.
    mechanism : Mechanism, optional
        The default mechanism if None.
    search : bool, default=False
        Whether to find bounds with a part of the budget (`PrivateBounds`). Else the default
        mechanism narrows them as a fit does.
    n_runs : int, default=40
        Number of data sets.
    seed : int, default=0
        Seed of data and noise.

    Returns
    -------
    float
        Mean AUC.
    """
    from scipy.special import ndtr, ndtri

    n, d = n_examples, n_features
    learner = CentredStatistics() if mechanism is None else mechanism
    reach = float(ndtri(best_auc))
    total = 0.0
    facts: dict[str, Any] = {
        "epsilon": epsilon, "delta": _default_delta(n) if delta is None else delta
    }  # fmt: skip
    for run in range(n_runs):
        rng = np.random.default_rng([seed, run])
        signs = np.where(rng.random(n) < positives, 1.0, -1.0)
        axis = rng.normal(size=d)
        axis /= np.linalg.norm(axis)
        X = rng.normal(size=(n, d)) + np.outer(signs > 0, math.sqrt(2) * reach * axis)
        # In units of a standard unit at the usual range: the bounds are [-3, 3] there.
        width = range_over_spread / _USUAL_RANGE
        X = 0.75 * X + 0.5 * min(1.0, max(0.0, 2 * width - 1)) * np.sign(rng.normal(size=d))
        noise = NoiseSource(seed=rng)
        off = np.zeros(d) if width <= 1 else 3.0 * (width - 1.0) * rng.uniform(-0.5, 0.5, d)
        lower, upper = off - 3.0 * width, off + 3.0 * width
        setting = PublicSetting.make(n, lower=lower, upper=upper, **facts)
        if search:
            bounds = PrivateBounds(lower, upper)
            mu = setting.mu
            lower, upper, _ = find_bounds(
                X, bounds, searched=np.ones(d, dtype=np.bool_), mu=mu * math.sqrt(bounds.share),
                neighbours="replace", noise=noise, n_examples=n,
            )  # fmt: skip
            setting = replace(
                PublicSetting.make(n, lower=lower, upper=upper, **facts),
                budget=mu * math.sqrt(1.0 - bounds.share),
            )
        elif learner.narrows:
            setting, _ = narrowed(setting, ask_table(X, noise))
        fit = learner.fit(setting.to_standard(X), signs, setting=setting, noise=noise)
        w = fit.direction / setting.unit
        total += float(ndtr(reach * (w @ axis) / np.linalg.norm(w)))
    return total / n_runs
