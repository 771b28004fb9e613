# SPDX-License-Identifier: BSD-3-Clause
"""Regression that minimises the entropy of its errors.

`fit` finds a starting point (Huber's regression), a bandwidth from its errors, and corrects the
start by descent on pairs of errors; the intercept is the location of what is left. A loss of two
errors sees only their difference, so that a correction is learned from zero.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from pairlearn.averaging import AVERAGINGS
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.shared.examples import rows_and_targets, validate_data
from pairlearn.estimators.shared.maps import MapsFeatures, is_linear
from pairlearn.estimators.shared.scaling import Scaling, is_scaled, scaled_rows
from pairlearn.estimators.shared.solvers import (
    SGD,
    SOLVERS,
    Solver,
    as_schedule,
    auto_steps,
    check_solver,
    step_and_radius,
)
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.estimators.shared.weights import representatives, weigh
from pairlearn.features import FeatureMap
from pairlearn.losses import WINDOWS, PairLoss
from pairlearn.metrics.entropy import DENSITIES, error_entropy
from pairlearn.models.record import ArraySpec, ModelRecord
from pairlearn.pairings import PAIRINGS
from pairlearn.problem import Problem
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.rows import NO_WEIGHTS, DenseRows, Rows, mean_pair_distance
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, check_generator, check_positive

INTERCEPTS = ("median", "mean", "mode")
#: Steps of n_passes="auto".
_AUTO_STEPS = 130_000
#: Relative step sizes: c over the mean squared distance of two examples.
_STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
#: Pairs that the quartile of the differences is estimated from.
_PAIRS = 16_384
#: Rounds of reweighted least squares.
_ROUNDS = 30
#: What targets may span: squares of errors, and sums of them, must be numbers.
_LEAST_SPAN, _MOST_SPAN = 1e-140, 1e140


class EntropyRegressor(MapsFeatures, Storable, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Linear regression that minimises the entropy of its errors.

    With errors :math:`e_i = y_i - \langle w, x_i \rangle`, window G and bandwidth :math:`\gamma`,
    it minimises the empirical Renyi entropy of section 2.1 of the paper,

    .. math:: \hat H(w) = -\log \frac{1}{n^2 \gamma} \sum_{i, j}
              G\left(\frac{(e_i - e_j)^2}{2 \gamma^2}\right),

    by stochastic gradient descent on pairs, each example with the previous one (Algorithm 1).
    Errors far apart do not pull on each other, so that neither gross outliers, nor a long tail on
    one side, nor several modes bias the coefficients. For a stream take `PairwiseSGD` with the
    loss `Welsch` or `Epanechnikov`.

    Parameters
    ----------
    window : str or PairLoss, default="gaussian"
        "gaussian" (Welsch loss), "epanechnikov" (truncated square), or a loss of your own of
        ``(y - y') - score``. If that has a field ``bandwidth`` it is set, otherwise
        `bandwidth` must be None.
    bandwidth : float, "auto" or None, default="auto"
        The bandwidth gamma. "auto" is ``1.06 n^(-1/5) Q`` with Q the Rousseeuw-Croux scale of the
        errors of the starting point (2.2219 times the lower quartile of \|e - e'\|).
    features : {"linear", "hats", "fourier"} or FeatureMap, default="linear"
        What the score is linear in, as in `AUCClassifier`. There is no ridge: a map of many
        features needs many more examples.
    solver : str or SGD, default="sgd"
        "sgd", or `SGD` with settings of its own. With ``step_size="auto"`` it trains with each of
        six step sizes and keeps the model of least entropy on training data, the starting point
        included: it never ends worse than it began. The radius is that of a ball around the
        starting point; "auto" means none. ``n_passes="auto"`` takes 130,000 steps, but at least 1
        and at most 200 passes.
    scaling : "auto" or None, default="auto"
        "auto" centres each feature and divides it by its standard deviation, but at least by a
        tenth of its range, so that units do not matter. Sparse features are not centred; pairs do
        not notice. Coefficients are in the units of X; step size and radius refer to scaled
        features. None is the bare algorithm.
    init : str or array-like of shape (n_features,), default="auto"
        Where to start: "huber", "least_squares", "zero" or coefficients. "auto" is "huber".
        The loss is not convex: the result depends on it.
    intercept : {"median", "mean", "mode"}, default="median"
        The entropy does not see a constant added to all errors. So the intercept is found
        afterwards as the median, mean or half-sample mode of the training errors.
    random_state : int, RandomState, Generator or None, default=None
        Source of the sampled indices.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients; with `features`, of mapped features.
    features_ : FeatureMap
        The fitted map, `Identity` for a linear score.
    intercept_ : float
        Intercept.
    solver_ : str
        The name of the solver.
    loss_ : PairLoss
        The window with its bandwidth.
    bandwidth_ : float
        The bandwidth (NaN for a window of your own without one).
    entropy_, entropy_start_ : float
        Empirical entropy of the training errors of the model and of the starting point (the window
        "gaussian" unless "epanechnikov" was asked for).
    step_size_ : float
        The step size (0 if the starting point was not improved).
    n_steps_ : int
        Steps of a run.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    When errors are normal, least squares is more efficient and faster: this estimator is for
    skewed, multimodal or contaminated errors, and its predictions are of the location that
    `intercept` names.

    References
    ----------
    Hu, Fan, Wu, Zhou. Learning theory approach to minimum error entropy criterion. JMLR 2013.

    Rousseeuw, Croux. Alternatives to the median absolute deviation. JASA 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from pairlearn import EntropyRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> noise = rng.choice([-5.0, 5.0], 500) + 0.1 * rng.normal(size=500)
    >>> model = EntropyRegressor(random_state=0).fit(X, X @ [1.0, 2.0] + noise)
    >>> bool(np.abs(model.coef_ - [1.0, 2.0]).max() < 0.05)
    True
    """

    def __init__(
        self,
        window: str | PairLoss = "gaussian",
        *,
        bandwidth: float | str | None = "auto",
        features: str | FeatureMap = "linear",
        solver: str | Solver = "sgd",
        scaling: str | None = "auto",
        init: str | ArrayLike = "auto",
        intercept: str = "median",
        random_state: Any = None,
    ) -> None:
        self.window, self.bandwidth, self.features = window, bandwidth, features
        self.solver, self.scaling, self.init, self.intercept = solver, scaling, init, intercept
        self.random_state = random_state

    coef_: Vector
    _not_stored = ("random_state",)
    _takes_sparse = True
    _facts: ClassVar[Mapping[str, type]] = {"solver_": str, "loss_": PairLoss}
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "intercept": ArraySpec(()),
        "n_steps": ArraySpec((), ("int64",), low=0),
        **{name: ArraySpec((), required=False, low=0.0) for name in ("step_size", "bandwidth")},
        **{name: ArraySpec((), required=False) for name in ("entropy", "entropy_start")},
    }

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on stored examples (Algorithm 1).

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Real targets, not all equal.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples, which are divided by
            their mean. The starting point, the bandwidth, the intercept and the entropies are
            weighted too. An example of weight zero is as good as absent.

        Returns
        -------
        self
            The fitted regressor.
        """
        model = copy.copy(self)  # A fit that fails leaves this model as it was.
        solver = self._checked_solver()
        rows, y = rows_and_targets(model, X, y, reset=True, minimum=2)
        keep, weight = weigh(sample_weight, len(y))
        if keep is not None:
            rows, y = rows.take(keep), y[keep]
        typical = representatives(weight)
        _check_targets(y)
        rng = check_generator(self.random_state)
        mapped = model._fit_map(rows, rng, weight)
        scaling, scaled = scaled_rows(
            self.scaling, mapped, weight, mapped=not is_linear(self.features)
        )
        start = start_from(scaled, y, self.init, weight, scaling)
        errors = y - scaled.scores(start)
        loss = self._loss(errors[typical], rng)
        change, model.step_size_, model.n_steps_ = _correction(
            loss, solver, scaled, errors, weight, rng
        )
        w = start + change
        model.coef_ = w if scaling is None else scaling.to_user(w)
        left = (y - mapped.scores(model.coef_))[typical]
        find: Any = {"median": np.median, "mean": np.mean, "mode": half_sample_mode}[self.intercept]
        model.intercept_ = float(find(left))
        model.loss_, model.solver_ = loss, solver.name
        model.bandwidth_ = float(getattr(loss, "bandwidth", np.nan))
        model.entropy_ = model._entropy(left)
        model.entropy_start_ = model._entropy(errors[typical])
        self.__dict__ = model.__dict__
        return self

    def predict(self, X: Any) -> Vector:
        """Return the predicted target of each row of `X`."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores = self._linear_scores(X, self.coef_, self.features_)
        return np.asarray(scores + self.intercept_, dtype=np.float64)

    def _unpack(self, record: ModelRecord) -> None:
        super()._unpack(record)
        for name in ("step_size_", "bandwidth_", "entropy_", "entropy_start_"):
            if getattr(self, name) is None:
                setattr(self, name, np.nan)

    def _checked_solver(self) -> SGD:
        """Return the solver, once all parameters are checked."""
        is_scaled(self.scaling)
        if self.intercept not in INTERCEPTS:
            raise ValueError(f"intercept must be one of {INTERCEPTS}, got {self.intercept!r}.")
        if isinstance(self.bandwidth, str) and self.bandwidth != "auto":
            raise ValueError(f'bandwidth must be a number, "auto" or None, got {self.bandwidth!r}.')
        if self.bandwidth is not None and not isinstance(self.bandwidth, str):
            check_positive("bandwidth", self.bandwidth)
        self._loss(np.arange(2.0), np.random.default_rng(0))
        solver: Any = SOLVERS.make(self.solver)
        check_solver(solver, (SGD,), "EntropyRegressor")
        step_and_radius(solver, "EntropyRegressor")
        return solver  # type: ignore[no-any-return]

    def _loss(self, errors: Vector, rng: np.random.Generator) -> PairLoss:
        """Return the window; with "auto" its bandwidth comes from the errors."""
        loss = WINDOWS.make(self.window)
        if loss.opposite_labels_only:
            raise ValueError(
                f"{type(loss).__name__} counts pairs of unequal labels by their order; a "
                "window is a PairLoss of (y - y_partner) - score with opposite_labels_only = False."
            )
        if self.bandwidth is None:
            return loss
        if not any(field.name == "bandwidth" for field in dataclasses.fields(loss)):
            raise ValueError(
                f"{type(loss).__name__} has no field named bandwidth; set bandwidth=None."
            )
        if self.bandwidth != "auto":
            return dataclasses.replace(loss, bandwidth=float(self.bandwidth))  # type: ignore[call-arg]
        scale = pair_quartile(errors, rng)
        if scale == 0.0:
            # A quarter of the pairs agree exactly, so the window only has to see the others.
            scale = float(np.abs(errors - np.median(errors)).mean()) or 1.0
        bandwidth = 1.06 * scale * len(errors) ** -0.2
        return dataclasses.replace(loss, bandwidth=bandwidth)  # type: ignore[call-arg]

    def _entropy(self, errors: Vector) -> float:
        if not np.isfinite(self.bandwidth_):
            return float("nan")
        window = "epanechnikov" if self.window == "epanechnikov" else "gaussian"
        return error_entropy(errors, self.bandwidth_, window=window)


def _correction(
    loss: PairLoss,
    solver: SGD,
    rows: Rows,
    errors: Vector,
    weight: Vector,
    rng: np.random.Generator,
) -> tuple[Vector, float, int]:
    """Return what to add to the starting point, the step size, and the steps of a run.

    All step sizes run on one sample path.
    """
    given_step, radius = step_and_radius(solver, "EntropyRegressor")
    pairing, averaging = PAIRINGS.make(solver.pairing), AVERAGINGS.make(solver.averaging)
    shape = as_schedule(solver.schedule, default="constant")
    problem, domain = Problem(LinearScore(), loss), ball_or_whole(radius)
    n_steps = auto_steps(solver.n_passes, len(errors), budget=_AUTO_STEPS)

    def run(step_size: float) -> Vector:
        descent = PairwiseSGD(pairing, shape.scaled(step_size), domain, averaging)
        return descent.solve(
            problem,
            rows,
            errors,
            n_steps=n_steps,
            rng=copy.deepcopy(rng),
            example_weight=weight if len(weight) else None,
        ).average

    if given_step is not None:
        return run(given_step), given_step, n_steps
    typical, seed = representatives(weight), int(rng.integers(2**63))
    best, best_step = np.zeros(rows.shape[1]), 0.0
    least = _pair_loss(loss, errors[typical], seed)
    unit = 1.0 / mean_pair_distance(rows, weight)
    for c in _STEPS:
        try:
            change = run(c * unit)
        except DivergenceError:
            break
        risk = _pair_loss(loss, (errors - rows.scores(change))[typical], seed)
        if risk < least:
            best, best_step, least = change, c * unit, risk
    return best, best_step, n_steps


def _pair_loss(loss: PairLoss, errors: Vector, seed: int) -> float:
    """Return a number that orders models as their mean pair loss does.

    For the windows of this package it is the entropy, which has a fast form; for any other the
    mean loss of 20,000 pairs, the same for every model.
    """
    if not np.isfinite(errors).all():
        return np.inf
    window = WINDOWS.name_of(loss)
    if window in DENSITIES:
        return error_entropy(errors, loss.parameter, window=window, method="binned")
    n, rng = len(errors), np.random.default_rng(seed)
    left = rng.integers(0, n, 20_000)
    right = (left + rng.integers(1, n, 20_000)) % n
    pairs = zip(errors[left].tolist(), errors[right].tolist(), strict=True)
    return float(np.mean([loss.value(0.0, e, other, loss.parameter) for e, other in pairs]))


def _check_targets(y: Vector) -> None:
    """Refuse equal targets, and such whose squares of errors overflow or vanish."""
    if y.max() == y.min():
        raise ValueError(
            f"y is constant ({y[0]:g}): all errors can be made equal and there is "
            "nothing to learn. Check the target column."
        )
    with np.errstate(over="ignore"):
        span = float(y.max() - y.min())
    if not _LEAST_SPAN <= span <= _MOST_SPAN:
        raise ValueError(
            f"y must span between {_LEAST_SPAN:g} and {_MOST_SPAN:g}, got values from {y.min():g} "
            f"to {y.max():g}: squares of errors overflow or vanish. Give y in another unit."
        )


def half_sample_mode(values: Vector) -> float:
    """Return the half-sample mode: halve the sample to its densest half until two are left."""
    x = np.sort(values)
    while len(x) > 2:
        half = (len(x) + 1) // 2
        widths = x[half - 1 :] - x[: len(x) - half + 1]
        first = int(np.argmin(widths))
        x = x[first : first + half]
        if x[-1] == x[0]:
            break
        if len(x) == 3:
            x = x[:2] if x[1] - x[0] <= x[2] - x[1] else x[1:]
    return float(x.mean())


def pair_quartile(errors: Vector, rng: np.random.Generator) -> float:
    """Return a robust scale: 2.2219 times the lower quartile of |e - e'| over pairs.

    This is the estimator of Rousseeuw and Croux (1993) with its factor for normal errors. Half of
    the errors may be arbitrary, and errors around two or three values give the spread around each.
    More than 256 errors give about 16,384 pairs: each, in random order on a ring, with the next.
    """
    n = len(errors)
    if n <= 256:
        left, right = np.triu_indices(n, 1)
        return 2.2219 * float(np.quantile(np.abs(errors[left] - errors[right]), 0.25))
    some = rng.permutation(errors) if n <= _PAIRS else errors[rng.integers(0, n, _PAIRS)]
    ring = np.concatenate([some, some[: _PAIRS // len(some)]])
    partners = np.lib.stride_tricks.sliding_window_view(ring[1:], len(some))
    return 2.2219 * float(np.quantile(np.abs(partners - some), 0.25))


def start_from(
    rows: Rows,
    y: Vector,
    init: Any,
    example_weight: Vector = NO_WEIGHTS,
    scaling: Scaling | None = None,
) -> Vector:
    """Return coefficients to start from, without an intercept.

    `init` is "zero", "least_squares", "huber" (reweighted least squares with Huber's weights at
    1.345 times the normalised median absolute deviation), or coefficients of shape (d,). The
    weights are not all zero; an empty array means equal weights.
    """
    d = rows.shape[1]
    if not isinstance(init, str):
        w = np.asarray(init, dtype=np.float64)
        if w.shape != (d,):
            raise ValueError(f"init must have shape ({d},), got {w.shape}.")
        if not np.isfinite(w).all():
            raise ValueError("init contains NaN or infinity; pass finite coefficients.")
        return w if scaling is None else scaling.from_user(w)
    if init == "zero":
        return np.zeros(d)
    if init not in ("auto", "least_squares", "huber"):
        raise ValueError(
            f'init must be "auto", "zero", "least_squares", "huber" or coefficients, got {init!r}.'
        )
    base = example_weight if len(example_weight) else np.ones(len(y))
    typical = representatives(example_weight)
    w = _least_squares(rows, y, base)
    if init != "least_squares":
        for _ in range(_ROUNDS):
            errors = y - rows.scores(w)
            errors = errors - np.median(errors[typical])
            scale = 1.4826 * float(np.median(np.abs(errors[typical])))
            if scale == 0.0:
                break
            weight = 1.0 / np.maximum(1.0, np.abs(errors) / (1.345 * scale))
            before, w = w, _least_squares(rows, y, base * weight)
            if np.linalg.norm(w - before) <= 1e-6 * np.linalg.norm(w):
                break
    return w


def _least_squares(rows: Rows, y: Vector, weight: Vector) -> Vector:
    """Return the least-squares coefficients of least norm, without the intercept."""
    share, root = weight / weight.sum(), np.sqrt(weight)
    target = root * (y - float(share @ y))
    if isinstance(rows, DenseRows):
        X = rows.X.astype(np.float64, copy=False)
        return np.asarray(np.linalg.lstsq(root[:, None] * (X - share @ X), target, rcond=None)[0])
    from scipy.sparse.linalg import LinearOperator, lsqr

    X = rows.matrix
    mean = np.asarray(share @ X)
    centred = LinearOperator(
        rows.shape,
        matvec=lambda w: root * (X @ w.ravel() - float(mean @ w.ravel())),
        rmatvec=lambda e: X.T @ (root * e.ravel()) - mean * float(root @ e.ravel()),
        dtype=np.float64,
    )
    return np.asarray(lsqr(centred, target, atol=1e-8, btol=1e-8, iter_lim=200)[0])


register_storable(EntropyRegressor)
