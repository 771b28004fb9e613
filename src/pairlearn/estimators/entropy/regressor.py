# SPDX-License-Identifier: BSD-3-Clause
"""Regression that minimises the entropy of its errors."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.entropy.online import Beginning, OnlineCorrection, scaled_start
from pairlearn.estimators.entropy.stages import EntropyTask, Known, Windows
from pairlearn.estimators.entropy.start import (
    INTERCEPTS,
    check_span,
    check_start,
    locate,
    start_from,
)
from pairlearn.estimators.shared.examples import validate_data
from pairlearn.estimators.shared.features_seen import rows_and_targets, see_features, seen_features
from pairlearn.estimators.shared.mapping import MapsFeatures
from pairlearn.estimators.shared.maps import is_linear
from pairlearn.estimators.shared.order import watch_order
from pairlearn.estimators.shared.published import Attribute, all_or_nothing, publish, published
from pairlearn.estimators.shared.scaling import Scaling, is_scaled, scaled_rows
from pairlearn.estimators.shared.solvers import SOLVERS, Solver
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.estimators.shared.weights import (
    chunk_weights,
    representatives,
    weigh,
    weighing_examples,
)
from pairlearn.features import FeatureMap
from pairlearn.losses import PairLoss
from pairlearn.metrics.entropy import error_entropy
from pairlearn.models.record import ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.solvers.blas_threads import with_one_thread
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.rows import Rows, check_squares
from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.solvers.streams.settings import keep_settings
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Vector
from pairlearn.validation import check_generator

#: What a stream is made of, so that it cannot change on the way.
_KEPT = ("window", "bandwidth", "features", "solver", "scaling", "init")


class EntropyRegressor(MapsFeatures, Storable, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Linear regression that minimises the entropy of its errors.

    With errors :math:`e_i = y_i - \langle w, x_i \rangle`, window G and bandwidth :math:`\gamma`,
    it minimises the empirical Renyi entropy of section 2.1 of the paper,

    .. math:: \hat H(w) = -\log \frac{1}{n^2 \gamma} \sum_{i, j}
              G\left(\frac{(e_i - e_j)^2}{2 \gamma^2}\right),

    by stochastic gradient descent on pairs, each example with the previous one (Algorithm 1;
    `partial_fit` is Algorithm 2). Errors far apart do not pull on each other, so that neither
    gross outliers, nor a long tail on one side, nor several modes bias the coefficients.

    Parameters
    ----------
    window : str or PairLoss, default="gaussian"
        "gaussian" (Welsch loss), "epanechnikov" (truncated square), or a loss of your own of
        ``(y - y') - score``. If that has a field ``bandwidth`` it is set, otherwise
        `bandwidth` must be None.
    bandwidth : float, sequence of float, "auto" or None, default="auto"
        The bandwidth gamma; a decreasing sequence is a schedule, each run starting from the
        result of the wider one before (graduated non-convexity: a wide window is nearly least
        squares, hence nearly convex). "auto" is the schedule 8, 4, 2, 1 times
        ``1.06 n^(-1/5) Q`` with Q the Rousseeuw-Croux scale of the current errors (2.2219 times
        the lower quartile of \|e - e'\|), found anew before each run. A stream takes the last
        one, from its first 256 examples.
    features : {"linear", "hats", "fourier"} or FeatureMap, default="linear"
        What the score is linear in, as in `AUCClassifier`. `partial_fit` needs a fitted map. There
        is no ridge: a map of many features needs many more examples.
    solver : str or Solver, default="sgd"
        "sgd", `SGD` with settings of its own, or a solver of your own. With ``step_size="auto"``
        `fit` trains a grid on one sample path and keeps the model of least entropy on training
        data, the starting point included: a run never ends worse than it began. A stream takes 1
        over the mean squared distance of two examples. The radius is that of a ball around the
        starting point; "auto" means none. ``n_passes="auto"`` takes 130,000 steps, shared by the
        stages of a schedule, but at least 1 and at most 200 passes.
    scaling : "auto" or None, default="auto"
        "auto" centres each feature and divides it by its standard deviation, but at least by a
        tenth of its range, so that units do not matter. Sparse features are not centred; pairs do
        not notice. Coefficients are in the units of X; step size and radius refer to scaled
        features. A stream learns scales on the way (see `solvers.streams.running_scales`), in which
        the variances add up to 1. None is the bare algorithm.
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
    loss_ : PairLoss or None
        The window of the last run, with its bandwidth; None until a stream has 256 examples.
    bandwidth_ : float
        The final bandwidth (NaN for a window of your own without one).
    bandwidths_ : list of float
        The bandwidths of all runs.
    entropy_, entropy_start_ : float
        Empirical entropy of the training errors at the final bandwidth, of the model and of the
        starting point (the window "gaussian" unless "epanechnikov" was asked for). NaN in a
        stream.
    step_size_ : float
        The last step size (0 if the starting point was not improved).
    n_steps_ : int
        Steps taken.
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
        bandwidth: float | Sequence[float] | str | None = "auto",
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

    coef_, intercept_, features_ = Attribute(), Attribute(), Attribute()
    _not_stored = ("random_state",)
    _takes_sparse = True
    _facts: ClassVar[Mapping[str, type]] = {"solver_": str, "loss_": PairLoss}
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "intercept": ArraySpec(()),
        "n_steps": ArraySpec((), ("int64",), low=0),
        "bandwidths": ArraySpec(("n_stages",), required=False, low=0.0),
        **{name: ArraySpec((), required=False, low=0.0) for name in ("step_size", "bandwidth")},
        **{name: ArraySpec((), required=False) for name in ("entropy", "entropy_start")},
    }

    @one_at_a_time
    @all_or_nothing
    @with_one_thread
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
        solver = self._checked_solver()
        given, y = rows_and_targets(self, X, y, reset=True, minimum=2)
        keep, weight = weigh(sample_weight, len(y))
        if keep is not None:
            given, y = given.take(keep), y[keep]
        typical = representatives(weight)
        if y.max() == y.min():
            raise ValueError(
                f"y is constant ({y[0]:g}): all errors can be made equal and there is "
                "nothing to learn. Check the target column."
            )
        check_span(y)
        rng = check_generator(self.random_state)
        given = self._fit_map(given, rng, weight)
        scaling, rows = scaled_rows(
            self.scaling, given, weight, mapped=not is_linear(self.features)
        )
        w = start = start_from(rows, y, self._init(scaling), weight)
        windows = self._windows()
        bandwidths, n_steps = [], 0
        for k, stage in enumerate(windows.stages):
            loss = windows.loss(stage, (y - rows.scores(w))[typical], rng)
            task = EntropyTask(loss, rng, start, w, k, len(windows.stages))
            fitted = solver.fit(task, rows, y, weight)
            w, n_steps = fitted.w, n_steps + fitted.trace.n_steps
            bandwidths.append(float(getattr(loss, "bandwidth", np.nan)))
        self.bandwidth_, self.bandwidths_ = bandwidths[-1], bandwidths
        self.loss_: PairLoss | None = fitted.loss
        self.solver_ = fitted.solver
        self.step_size_, self.n_steps_ = fitted.choice.step_size, n_steps
        coef = w if scaling is None else scaling.to_user(w)
        errors = (y - given.scores(coef))[typical]
        publish(self, coef_=coef, intercept_=locate(errors, self.intercept))
        self.entropy_ = self._entropy(errors)
        self.entropy_start_ = self._entropy((y - rows.scores(start))[typical])
        self._online: OnlineCorrection | None = None
        return self

    @one_at_a_time
    @with_one_thread
    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from the next chunk of a stream, in order (Algorithm 2).

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Real targets.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, for every chunk or for none. A pair weighs the product of both, unscaled.

        Returns
        -------
        self
            The regressor.

        Notes
        -----
        After `fit` the stream goes on from its coefficients, with the step sizes and the average
        that follow after as many steps; they and the intercept stay until 256 examples have come.
        Otherwise the first 256 examples are collected, the starting point and whatever is "auto"
        are found from them, and they are then learned from in order. The coefficients do not depend
        on how the stream is cut into chunks; the intercept does, slightly: it is located in the
        last 4096 errors, each made before its chunk was learned.
        """
        solver = self._checked_solver()
        if self.bandwidth is not None and np.ndim(self.bandwidth) > 0:
            raise ValueError(
                "A decreasing schedule of bandwidths needs several runs over stored examples; "
                'for partial_fit give one number or "auto".'
            )
        online = getattr(self, "_online", None)
        keep_settings(self, _KEPT, begun=online is not None)
        rows, y = rows_and_targets(
            self, X, y, reset=online is None and not hasattr(self, "coef_"), minimum=1
        )
        weight = chunk_weights(sample_weight, len(y))
        weight, rows, y = weighing_examples(weight, rows, y, begun=online is not None)
        if not len(y):
            return self
        rows = self._map_chunk(rows)
        if self.scaling is None:
            check_squares(rows, whole=online is None)
        if online is None:
            known = None
            if hasattr(self, "coef_"):
                known = self.coef_, float(self.intercept_), self.n_steps_
            online = OnlineCorrection(rows.shape[1], is_scaled=is_scaled(self.scaling), known=known)
        begin = functools.partial(self._begin, solver, online.known)
        online.learn(rows, y, weight, begin)
        self._adopt(online, solver)
        watch_order(self, rows, y, online.scales)
        return self

    def _begin(
        self,
        solver: Solver,
        known: tuple[Vector, float, int] | None,
        rows: Rows,
        y: Vector,
        weight: Vector,
    ) -> Beginning:
        """Return the starting point of a stream, its window and its solver, from first examples."""
        check_span(y)
        rng = check_generator(self.random_state)
        scales = RunningScales(rows.shape[1]).take(rows) if is_scaled(self.scaling) else None
        init = self._init(None) if known is None else known[0]
        start = scaled_start(rows, y, init, weight, scales)
        errors = (y - rows.scores(start))[representatives(weight)]
        windows = self._windows()
        loss = windows.loss(windows.stages[-1], errors, rng)
        task = EntropyTask(loss, rng, start, start)
        before = Known(rows, scales, 0 if known is None else known[2])
        stream, step_size = solver.stream(task, rows.shape[1], before)
        return Beginning(start, stream, float(getattr(loss, "bandwidth", np.nan)), step_size)

    def _adopt(self, online: OnlineCorrection, solver: Solver) -> None:
        """Take over what a stream has learned."""
        self._online, self.solver_ = online, solver.name
        publish(self, coef_=online.coef, intercept_=online.locate(self.intercept))
        self.loss_ = self._windows().of_bandwidth(online.bandwidth) if online.begun else None
        self.bandwidth_, self.bandwidths_ = online.bandwidth, [online.bandwidth]
        self.step_size_, self.n_steps_ = online.step_size, online.n_steps
        self.entropy_ = self.entropy_start_ = float("nan")

    @one_at_a_time
    def stream_state(self) -> dict[str, Any]:
        """Return what the next chunk depends on, see `OnlineLearner`; empty before the first."""
        online = getattr(self, "_online", None)
        return {} if online is None else {**seen_features(self), **online.state()}

    @one_at_a_time
    def restore_stream(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `stream_state` of an estimator made alike returned."""
        if state:
            see_features(self, state)
            solver, scaled = self._checked_solver(), is_scaled(self.scaling)
            keep_settings(self, _KEPT, begun=False)
            online = OnlineCorrection(self._n_mapped(), is_scaled=scaled)

            def start(bandwidth: float, step_size: float, n_features: int) -> Stream:
                loss, zero = self._windows().of_saved(bandwidth), np.zeros(n_features)
                task = EntropyTask(loss, check_generator(self.random_state), zero, zero)
                scales = RunningScales(n_features) if scaled else None
                known = Known(scales=scales, step_size=step_size)
                return solver.stream(task, n_features, known)[0]  # type: ignore[no-any-return]

            online.restore(state, start)
            self._restore_features()
            self._adopt(online, solver)

    def _unpack(self, record: ModelRecord) -> None:
        super()._unpack(record)
        for name in ("step_size_", "bandwidth_", "entropy_", "entropy_start_"):
            if getattr(self, name) is None:
                setattr(self, name, np.nan)
        stages = record.arrays.get("bandwidths")
        self.bandwidths_ = [self.bandwidth_] if stages is None else stages.tolist()

    def predict(self, X: Any) -> Vector:
        """Return the predicted target of each row of `X`."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        model = published(self)
        scores = self._linear_scores(X, model["coef_"], model.get("features_"))
        return np.asarray(scores + model["intercept_"], dtype=np.float64)

    def _checked_solver(self) -> Solver:
        """Return the solver, once all parameters are checked."""
        is_scaled(self.scaling)
        if self.intercept not in INTERCEPTS:
            raise ValueError(f"intercept must be one of {INTERCEPTS}, got {self.intercept!r}.")
        self._windows().check()
        return SOLVERS.make(self.solver)

    def _init(self, scaling: Scaling | None) -> Any:
        """Return the starting point that is asked for, for features in units of their own."""
        if isinstance(self.init, str):
            return "huber" if self.init == "auto" else self.init
        if scaling is None:
            return self.init
        return scaling.from_user(check_start(self.init, len(scaling.factor)))

    def _windows(self) -> Windows:
        return Windows(self.window, self.bandwidth)

    def _entropy(self, errors: Vector) -> float:
        if not np.isfinite(self.bandwidth_):
            return float("nan")
        window = "epanechnikov" if self.window == "epanechnikov" else "gaussian"
        return error_entropy(errors, self.bandwidth_, window=window)


register_storable(EntropyRegressor)
