# SPDX-License-Identifier: BSD-3-Clause
"""Plan a private fit: the cost of privacy in AUC, in numbers and in words, without any data.

`pairlearn.privacy.expected` has the model. The stated range holds nine fits of ten if its
assumptions are right; it is that of the model with noise and errors of bounds that are a quarter
larger at the lower end, and a quarter smaller at the upper one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pairlearn.privacy.expected import USUAL_RANGE, FitModel, budget, check_size, default_delta
from pairlearn.privacy.quartiles import PrivateBounds
from pairlearn.validation import check_fraction, check_positive

# The stated range of the AUC allows for noise that is larger or smaller by this factor.
_NOISE_ERROR = 1.25
# The search for an epsilon that is enough goes through these.
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-4, 10.0
# A larger epsilon promises nothing.
_NO_PROMISE = 1000.0
# The search for a number of examples that is enough goes up to this one.
_MOST_EXAMPLES = 1 << 40
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
        Nine fits of ten have an AUC in this range. It allows for noise, and for errors of the
        bounds, that are a quarter larger or smaller than the model says.
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


def plan(
    n_examples: int,
    n_features: int,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    n_persons: int | None = None,
    best_auc: float = 0.8,
    positives: float = 0.5,
    range_over_spread: float = USUAL_RANGE,
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
    With 2,000 examples, 10 features and epsilon 1, expect an AUC of about 0.80 (0.78 to 0.80) ...
    >>> 0.1 < plan(2000, 10, largest_loss=0.02).epsilon < 1
    True
    """
    model = FitModel(n_features, best_auc, positives, range_over_spread)
    n = check_size("n_examples", n_examples, 2)
    if n_persons is not None:
        if check_size("n_persons", n_persons, 2) > n:
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
        return model.loss(size, budget(size, promise, delta))

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
    if loss(_MOST_EXAMPLES, epsilon) <= largest_loss:
        most = _MOST_EXAMPLES
        while most > 4 and loss(most // 2, epsilon) <= largest_loss:
            most //= 2
        least = most // 2
        while most - least > 1:
            between = (least + most) // 2
            enough = loss(between, epsilon) <= largest_loss
            least, most = (least, between) if enough else (between, most)
        smallest_n = most
    mu = budget(n, epsilon, delta)
    public, searched = model.best(n, mu)
    search = PrivateBounds(0.0, 1.0) if searched > public else None
    narrow = None
    if range_over_spread >= 2 * _NARROWEST_RANGE:
        narrow = max(replace(model, range_over_spread=range_over_spread / 2).best(n, mu))
    return PrivacyPlan(
        n_examples=n_examples,
        n_features=n_features,
        epsilon=epsilon,
        delta=default_delta(n) if delta is None else delta,
        best_auc=best_auc,
        positives=positives,
        range_over_spread=range_over_spread,
        n_persons=n_persons,
        private_auc=max(public, searched),
        low=float(np.quantile(model.aucs(n, mu, search, _NOISE_ERROR), 0.05)),
        high=float(np.quantile(model.aucs(n, mu, search, 1 / _NOISE_ERROR), 0.95)),
        nonprivate_auc=nonprivate,
        public_bounds_auc=public,
        searched_bounds_auc=searched,
        twice_the_data_auc=max(model.best(2 * n, budget(2 * n, epsilon, delta))),
        twice_epsilon_auc=max(model.best(n, budget(n, 2 * epsilon, delta))),
        half_the_range_auc=narrow,
        largest_loss=largest_loss,
        smallest_n=smallest_n,
        smallest_epsilon=smallest_epsilon,
    )
