# SPDX-License-Identifier: BSD-3-Clause
r"""A ranker by risk, from survival times that may be censored.

`fit` minimises the loss over all comparable pairs (`_minimise`) or descends on single ones
(`_descend`).

A ranker's score has an order and no scale. A proportional hazard with the score as its only feature
gives it one:

.. math:: P(T > t \mid s) = \exp\left(-H(t) \, e^{b (s - c) / r}\right), \qquad
          H(t) = \sum_{t_i \le t} \frac{v_i}{\sum_{j : t_j \ge t_i} v_j e^{b (s_j - c) / r}},

with c and r the mean and the standard deviation of the training scores, v the weights, and the sum
over events. The slope b maximises Cox's partial likelihood (ties by Breslow's method) with a normal
prior of standard deviation 5. The prior keeps b finite where the score separates all pairs, and
changes nothing that matters elsewhere.

References
----------
N. Breslow, Discussion of Professor Cox's paper, Journal of the Royal Statistical Society B 34,
1972.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pairlearn.comparisons import EarlierEvent, signed_times
from pairlearn.estimators.shared.descent import descend
from pairlearn.estimators.shared.evidence import Choice, best_of
from pairlearn.estimators.shared.examples import forget_worth, validate_data
from pairlearn.estimators.shared.maps import MapsFeatures, is_linear
from pairlearn.estimators.shared.scaling import is_scaled, scaled_rows
from pairlearn.estimators.shared.solvers import (
    SGD,
    SOLVERS,
    Exact,
    Fitted,
    Moments,
    Solver,
    check_solver,
)
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.estimators.shared.weights import weigh
from pairlearn.features import FeatureMap
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.metrics.concordance import (
    ConcordanceIndex,
    censoring_free,
    comparable_pairs,
    survival_times,
)
from pairlearn.models.record import ArraySpec
from pairlearn.pairings import (
    PAIRINGS,
    ClassReservoirs,
    GivenPairs,
    ListedPairs,
    PreviousOfQuery,
    PreviousOpposite,
)
from pairlearn.problem import Problem
from pairlearn.scores import LinearScore
from pairlearn.solvers.exact.survival import SurvivalObjective
from pairlearn.solvers.rows import Rows, as_rows, mean_pair_distance
from pairlearn.solvers.solution import Trace
from pairlearn.typing import Places, Vector
from pairlearn.validation import check_fraction, check_generator

#: The ridges of "auto", from the strongest on: each search starts where the one before ended.
_RIDGES = (10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4)
#: With at least this many held-out events, one fold is held out; with fewer, all in turn.
_ENOUGH = 2_000
#: The most held-out examples that judge a step size.
_JUDGED = 20_000
#: Pairings by classes, queries or lists, which survival times do not have.
_BY_CLASSES = (ClassReservoirs, GivenPairs, ListedPairs, PreviousOfQuery, PreviousOpposite)

#: The standard deviation of the prior of the slope.
_PRIOR = 5.0
_MOST_STEPS = 200
#: The most that the first step changes the slope; a search that goes on doubles it.
_LONGEST_STEP = 2.0
#: The largest difference of two exponents whose sums may be made without their logarithms.
_RANGE = 600.0


@dataclass(frozen=True, eq=False)
class Hazard:
    """The hazard of a score: its slope by the score, and the cumulative baseline hazard.

    `times` are the times of events, in order, and `cumulative` the hazard until each, of an example
    with the score `centre`.
    """

    slope: float
    centre: float
    times: Vector
    cumulative: Vector

    def survival(self, scores: Vector, times: Vector) -> Vector:
        """Return the chance to survive each of the times, in a row for each score."""
        place = np.searchsorted(self.times, times, side="right")
        hazard = np.concatenate(([0.0], self.cumulative))[place]
        # a risk beyond e^700 leaves no chance, and one below e^-700 no danger
        risk = np.exp(np.clip(self.slope * (scores - self.centre), -700.0, 700.0))
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(-np.multiply.outer(risk, hazard)))


def fit_hazard(scores: Vector, event: NDArray[np.bool_], time: Vector, weight: Vector) -> Hazard:
    """Return the hazard of training scores."""
    total = float(weight.sum())
    centre = float(weight @ scores) / total
    spread = float(np.sqrt(weight @ (scores - centre) ** 2 / total))
    order = np.argsort(-time, kind="stable")
    z = (scores[order] - centre) / spread if spread > 0.0 else np.zeros(len(scores))
    v, times = weight[order], time[order]
    # the last position of each time: all who are still there at it come until then
    until = np.searchsorted(-times, -times, side="right") - 1
    at = np.flatnonzero(event[order])
    n_events = float(v[at].sum())

    def moments(slope: float) -> tuple[float, float, Vector]:
        """Return the first two derivatives of the log likelihood, and the sums over those there."""
        lift = float((slope * z).max())
        if lift - float((slope * z).min()) <= _RANGE:
            risk = v * np.exp(slope * z - lift)
            sums = [np.cumsum(risk * power)[until[at]] for power in (np.ones(len(z)), z, z * z)]
            mean, square = sums[1] / sums[0], sums[2] / sums[0]
            logs = np.log(sums[0]) + lift
        else:  # beside an outlier all others would count as nothing
            with np.errstate(divide="ignore"):
                height, risk = np.log(z - z.min()), np.log(v) + slope * z
            powers = (risk, risk + height, risk + 2.0 * height)
            sums = [np.logaddexp.accumulate(power)[until[at]] for power in powers]
            logs, up, square = sums[0], np.exp(sums[1] - sums[0]), np.exp(sums[2] - sums[0])
            mean = up + z.min()
            square = square - up**2 + mean**2
        first = float(v[at] @ (z[at] - mean)) - slope / _PRIOR**2
        second = float(v[at] @ np.maximum(square - mean**2, 0.0)) + 1.0 / _PRIOR**2
        return first, second, np.asarray(logs)

    slope, longest, low, high = 0.0, _LONGEST_STEP, -np.inf, np.inf
    for _ in range(_MOST_STEPS):
        first, second, _sums = moments(slope)
        low, high = (slope, high) if first > 0.0 else (low, slope)
        step = float(np.clip(first / second, -longest, longest))
        if abs(first / second) > longest:
            longest *= 2.0
        settled = abs(first) <= 1e-10 * n_events or abs(step) <= 1e-12
        if not settled and not low < slope + step < high:
            step = 0.5 * (low + high) - slope  # the likelihood is concave: its top lies between
        slope += step
        if settled:
            break
    there = moments(slope)[2]
    jumps = v[at] * np.exp(-there)
    distinct, place = np.unique(times[at], return_inverse=True)
    cumulative = np.asarray(np.cumsum(np.bincount(place, jumps, len(distinct))), dtype=np.float64)
    return Hazard(slope / spread if spread > 0.0 else 0.0, centre, distinct, cumulative)


class SurvivalRanker(MapsFeatures, Storable, BaseEstimator):  # type: ignore[misc]
    r"""Linear score of risk that orders survival times, some of which are censored.

    Two examples can be compared if the one with the earlier time had its event. The ranker
    minimises the mean loss over all such pairs,

    .. math:: \frac1D \sum_{i \text{ has its event, } j \text{ outlives } i} g_i v_i v_j \,
              \ell(\langle w, x_i - x_j \rangle) + \lambda \|w\|^2,

    with v the weights of the examples, D the sum of :math:`g_i v_i v_j`, and g = 1 or the weights
    of Uno's index. Its measure is the concordance index (`ConcordanceIndex`), whose pairs these
    are. There is no assumption of proportional hazards; where they are proportional, Cox's
    regression is as good and says more.

    Parameters
    ----------
    loss : str or PairLoss, default="squared_hinge"
        What a pair costs. Exact: "squared_hinge", in O(n log n) for each evaluation by sorting, or
        "logistic", which visits every pair: for up to 400 million products of events and examples.
        SGD: any loss of a margin ("hinge", "square", ..., or your own).
    features : {"linear", "hats", "fourier"} or FeatureMap, default="linear"
        What the score is linear in, as in `AUCClassifier`.
    solver : {"exact", "sgd"} or Solver, default="exact"
        ``Exact(ridge=...)`` fixes the ridge, for features of mean variance 1. With ``ridge="auto"``
        the best of 10, 1, ..., 1e-4 by the concordance index of held-out folds is taken. ``SGD()``
        takes steps over single pairs; its step size is chosen on the folds. For a stream take
        `PairwiseSGD` with the comparison `EarlierEvent`. Its pairing is "previous", "shuffled",
        "random", "fifo" or "reservoir"; a buffer needs a given step size.
    scaling : "auto" or None, default="auto"
        "auto" centres each feature and divides it by its standard deviation, but at least by a
        tenth of its range. Sparse features are not centred; pairs do not notice. Coefficients are
        in the units of X.
    ipcw : bool, default=False
        Whether a pair weighs :math:`\hat G(t)^{-2}`, with t its earlier time and
        :math:`\hat G(t)` the estimated chance not to be censored before t. The pairs are then those
        that would be there without censoring, if the censoring does not depend on the features.
    tau : float, optional
        Only events before this time are learned from and scored. Give one with ``ipcw=True`` if few
        are seen until the largest times.
    validation_fraction : float, default=0.2
        Share of the examples in each of the folds that choose the ridge. With 2,000 held-out events
        or more, one fold is held out; with fewer, all in turn. The final model is trained on all.
    random_state : int, RandomState, Generator or None, default=None
        Source of the folds and of random features.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients; with `features`, of mapped features. A higher score is a higher risk.
    features_ : FeatureMap
        The fitted map, `Identity` for a linear score.
    solver_ : str
        The name of the solver.
    loss_ : PairLoss
        The loss that it minimised.
    ridge_, step_size_ : float or None
        The ridge of the exact solver, or the step size of SGD; the other one is None.
    choice_ : Choice
        The ridges or step sizes that were tried, with the held-out concordance of each
        (`Tried.auc`) and its standard error over the folds.
    held_out_concordance_ : float or None
        The concordance of the chosen one on held-out folds; None for a given one.
    n_events_ : int
        Events that were learned from.
    n_steps_, n_gradients_ : int
        Steps of SGD and pairs evaluated; evaluations of the loss over all pairs in the final
        search of the exact solver, and 0.
    hazard_slope_, hazard_centre_ : float
        The log hazard of a score s is ``hazard_slope_ * (s - hazard_centre_)``.
    event_times_, cumulative_hazard_ : ndarray of shape (n_times,)
        The times of events, and Breslow's cumulative hazard at `hazard_centre_`.
    last_time_ : float
        The largest time in training.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    pairlearn.ConcordanceIndex : The measure, with intervals and paired tests.

    Notes
    -----
    An example that is censored at the time of an event has outlived it. Two events at one time are
    not compared. A time of entry (left truncation) and several kinds of events (competing risks)
    are not supported; such labels are refused.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> died, left = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2.0, size=300)
    >>> y = np.column_stack((died <= left, np.minimum(died, left)))
    >>> ranker = SurvivalRanker(random_state=0).fit(X[:200], y[:200])
    >>> bool(ranker.score(X[200:], y[200:]) > 0.65)
    True
    >>> ranker.predict_survival_function(X[200:203], times=[0.5, 1.0]).shape
    (3, 2)
    """

    def __init__(
        self,
        loss: str | PairLoss = "squared_hinge",
        *,
        features: str | FeatureMap = "linear",
        solver: str | Solver = "exact",
        scaling: str | None = "auto",
        ipcw: bool = False,
        tau: float | None = None,
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.loss, self.features, self.solver, self.scaling = loss, features, solver, scaling
        self.ipcw, self.tau = ipcw, tau
        self.validation_fraction, self.random_state = validation_fraction, random_state

    coef_: Vector
    _not_stored = ("random_state",)
    _takes_sparse = True
    _facts: ClassVar[Mapping[str, type]] = {"solver_": str, "loss_": PairLoss, "choice_": Choice}
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "ridge": ArraySpec((), required=False, low=0.0),
        "step_size": ArraySpec((), required=False, low=0.0),
        "held_out_concordance": ArraySpec((), required=False, low=0.0, high=1.0),
        **{
            name: ArraySpec((), ("int64",), low=0)
            for name in ("n_events", "n_steps", "n_gradients")
        },
        **{name: ArraySpec(()) for name in ("hazard_slope", "hazard_centre", "last_time")},
        "event_times": ArraySpec(("n_times",)),
        "cumulative_hazard": ArraySpec(("n_times",), low=0.0),
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = False
        tags.target_tags.two_d_labels = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on stored examples.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : structured array, data frame or array-like of shape (n_samples, 2)
            The event and the time of each example: an array with two fields, as scikit-survival has
            it; a frame with the columns "event" and "time"; or two columns, the event first. The
            event is false where the time is that of the last observation.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples. An example of weight zero
            is as good as absent.

        Returns
        -------
        self
            The fitted ranker.
        """
        model = copy.copy(self)  # A fit that fails leaves this model as it was.
        solver, loss = self._parts()
        rng = check_generator(self.random_state)
        rows, labels = model._examples(X, y)
        keep, weight = weigh(sample_weight, len(labels))
        if keep is not None:
            rows, labels = rows.take(keep), labels[keep]
        pairs = comparable_pairs(labels, self.tau)  # refuses labels without a pair
        rows = model._fit_map(rows, rng, weight)
        if not len(weight):
            weight = np.ones(len(labels))
        scaling, rows = scaled_rows(self.scaling, rows, weight, mapped=not is_linear(self.features))
        learn = self._minimise if isinstance(solver, Exact) else self._descend
        fitted = learn(solver, loss, rows, labels, weight, rng)
        w, choice = fitted.w, fitted.choice
        model.coef_ = w if scaling is None else scaling.to_user(w)
        model.solver_, model.loss_, model.choice_ = fitted.solver, fitted.loss, choice
        model.ridge_, model.step_size_ = choice.ridge, choice.step_size
        model.held_out_concordance_ = choice.auc
        model.n_events_ = int(np.count_nonzero(pairs.event))
        model.n_steps_, model.n_gradients_ = fitted.trace.n_steps, fitted.trace.n_gradients
        # scores of scaled rows differ from those of X by a constant only
        shift = 0.0 if scaling is None else float(scaling.centre @ (scaling.factor * w))
        hazard = fit_hazard(rows.scores(w) + shift, labels["event"], pairs.time, weight)
        model.hazard_slope_, model.hazard_centre_ = hazard.slope, hazard.centre
        model.event_times_, model.cumulative_hazard_ = hazard.times, hazard.cumulative
        model.last_time_ = float(pairs.time.max())
        self.__dict__ = model.__dict__
        return self

    def _examples(self, X: Any, y: Any) -> tuple[Rows, NDArray[Any]]:
        if y is None:
            raise ValueError(
                "SurvivalRanker requires y to be passed, but the target y is None; give the event "
                "and the time of each example."
            )
        rows = as_rows(
            validate_data(
                self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
                ensure_min_samples=2, reset=True,
            ),
            finite=True,
        )  # fmt: skip
        labels = survival_times(y)
        n = rows.shape[0]
        if len(labels) != n:
            raise ValueError(f"y holds {len(labels)} times for {n} rows of X; give one for each.")
        forget_worth(self)
        return rows, labels

    def _parts(self) -> tuple[Any, PairLoss]:
        """Return the solver and the loss, once all parameters are checked."""
        is_scaled(self.scaling)
        check_fraction("validation_fraction", self.validation_fraction)
        self._metric()
        solver, loss = SOLVERS.make(self.solver), LOSSES.make(self.loss)
        if isinstance(solver, Moments):  # a kind of exact solver
            raise ValueError(
                f"SurvivalRanker has no way to train by {solver!r}, which needs two classes; use "
                "solver='exact' or 'sgd'."
            )
        check_solver(solver, (Exact, SGD), "SurvivalRanker")
        if isinstance(solver, SGD) and isinstance(PAIRINGS.make(solver.pairing), _BY_CLASSES):
            raise ValueError(
                f"pairing={solver.pairing!r} pairs by classes, queries or a list, which survival "
                'times do not have; use "previous", "shuffled", "random", "fifo" or "reservoir".'
            )
        return solver, loss

    def _metric(self) -> ConcordanceIndex:
        return ConcordanceIndex(ipcw=self.ipcw, tau=self.tau)

    def _minimise(
        self,
        solver: Exact,
        loss: PairLoss,
        rows: Rows,
        labels: NDArray[Any],
        weight: Vector,
        rng: np.random.Generator,
    ) -> Fitted:
        metric = self._metric()

        def objective(part: Any) -> SurvivalObjective:
            pairs = comparable_pairs(labels[part], self.tau)
            mass = weight[part] * pairs.event
            if self.ipcw:
                mass /= censoring_free(labels[part], weight[part]) ** 2
            inside = rows if isinstance(part, slice) else rows.take(part)
            return SurvivalObjective(inside, pairs, loss, weight[part], mass)

        choice = Choice(ridge=solver.given_ridge)
        if choice.ridge is None:
            worth: list[list[float]] = [[] for _ in _RIDGES]
            for train, test in self._folds(labels, rng, "ridge", "Exact(ridge=0.1)"):
                of_train, held_out = objective(train), rows.take(test)
                w = np.zeros(rows.shape[1])
                for found, ridge in zip(worth, _RIDGES, strict=True):
                    w, _ = of_train.minimise(ridge, w, tolerance=1e-6)
                    scores = held_out.scores(w)
                    found.append(metric(labels[test], scores, sample_weight=weight[test]))
            best = best_of(
                ({"ridge": ridge}, ridge, found)
                for ridge, found in zip(_RIDGES, worth, strict=True)
            )
            choice = Choice(ridge=best.model, evidence=best.evidence, tried=best.tried)
        assert choice.ridge is not None
        w, n_evaluations = objective(slice(None)).minimise(choice.ridge)
        return Fitted(w, solver.name, loss, choice, Trace(n_steps=n_evaluations))

    def _descend(
        self,
        solver: SGD,
        loss: PairLoss,
        rows: Rows,
        labels: NDArray[Any],
        weight: Vector,
        rng: np.random.Generator,
    ) -> Fitted:
        metric = self._metric()
        weights = np.empty(0) if (weight == 1.0).all() else weight

        def judge(test: Places, scores: Vector) -> float:
            return metric(labels[test], scores, sample_weight=weight[test])

        def folds() -> list[tuple[Places, Places]]:
            splits = self._folds(labels, rng, "step size", "SGD(step_size=0.1)")
            return [(train, test[:_JUDGED]) for train, test in splits]

        return descend(
            Problem(LinearScore(), loss, EarlierEvent(weighed=self.ipcw)),
            solver,
            rows,
            pair_labels(labels, metric, weight),
            weights,
            rng,
            owner="SurvivalRanker",
            pairing_of=lambda part: PAIRINGS.make(solver.pairing),
            distance=lambda rows: mean_pair_distance(rows, weights),
            folds=folds,
            judge=judge,
        )

    def _folds(
        self, labels: NDArray[Any], rng: np.random.Generator, what: str, instead: str
    ) -> list[tuple[Places, Places]]:
        """Return folds with pairs that can be compared; refuse labels that give none."""
        from sklearn.model_selection import StratifiedKFold

        event, share = labels["event"], self.validation_fraction
        n_events = int(np.count_nonzero(event))
        n_folds = min(max(round(1.0 / share), 2), n_events)
        splits = []
        if n_folds > 1:
            # Without a censored example, or with few, there is only one kind to deal.
            kind = np.zeros(len(event)) if len(event) - n_events < n_folds else event
            splitter = StratifiedKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
            splits = list(splitter.split(np.zeros((len(event), 1)), kind))
        folds = []
        for split in splits[: 1 if share * n_events >= _ENOUGH else None]:
            try:
                for part in split:
                    comparable_pairs(labels[part], self.tau)
                folds.append(split)
            except ValueError:
                continue  # too few events for this fold
        if not folds:
            raise ValueError(
                f"y holds too few events ({n_events}) to choose a {what} on held-out folds; give "
                f"one, for example solver={instead}."
            )
        return folds

    def predict(self, X: Any) -> Vector:
        """Return the risk score of each row of `X`: the higher, the earlier the event."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._linear_scores(X, self.coef_, self.features_)

    def predict_survival_function(self, X: Any, times: ArrayLike | None = None) -> Vector:
        """Return the chance to survive given times, by proportional hazards of the score.

        The chances come from Breslow's estimate for the training scores (`hazard`), by proportional
        hazards; the ranker itself learns an order only.

        Parameters
        ----------
        X : array-like
            Examples, as in `fit`.
        times : array-like of shape (n_times,), optional
            Times up to the largest one in training; `event_times_` by default.

        Returns
        -------
        ndarray of shape (n_samples, n_times)
            The chance of each example to have no event until each time.
        """
        scores = self.predict(X)
        hazard = Hazard(
            self.hazard_slope_, self.hazard_centre_, self.event_times_, self.cumulative_hazard_
        )
        asked = np.asarray(self.event_times_ if times is None else times, dtype=np.float64)
        if asked.ndim != 1 or not (asked <= self.last_time_).all():
            raise ValueError(
                "times must be a vector of times up to the largest one in training, "
                f"{self.last_time_:g}, got {times!r}; nothing is known of what comes after."
            )
        return hazard.survival(scores, asked)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the concordance index of the predicted risks, with the own `ipcw` and `tau`."""
        return self._metric()(y, self.predict(X), sample_weight=sample_weight)


def pair_labels(y: NDArray[Any], metric: ConcordanceIndex, weight: Vector) -> Vector:
    r"""Return the labels by which `EarlierEvent` compares stored examples.

    They are signed times from the smallest on, or, with ``ipcw``, signed weights: the weight
    :math:`\hat G(t)^{-2}` of a pair does not fall with t, and where it stays the same, each later
    time gets the next larger floating-point number. Weights are divided by their mean over the
    events, so that a step size means the same with and without them.
    """
    event = comparable_pairs(y, metric.tau).event
    if not metric.ipcw:
        # times of any sign have an order, and labels carry a sign of their own
        return signed_times(event, y["time"] - min(float(y["time"].min()), 0.0))
    inverse = censoring_free(y, weight) ** -2.0
    inverse /= np.average(inverse, weights=weight * event)
    times, place = np.unique(y["time"], return_inverse=True)
    of_time = np.empty(len(times))
    of_time[place] = inverse
    # positive floating-point numbers are ordered as their bits are
    later = np.arange(len(times))
    bits = np.maximum.accumulate(of_time.view(np.int64) - later) + later
    return signed_times(event, bits.view(np.float64)[place])


register_storable(SurvivalRanker)
