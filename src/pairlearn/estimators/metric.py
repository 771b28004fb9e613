# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets

from pairlearn.averaging import Averaging
from pairlearn.domains import PsdBall, PsdCone
from pairlearn.estimators.auc_features import is_linear
from pairlearn.estimators.by_name import (
    as_averaging,
    as_schedule,
    auto_steps,
    is_scaled,
    named,
)
from pairlearn.estimators.examples import validate_data
from pairlearn.estimators.features_seen import see_features, seen_features
from pairlearn.estimators.mapping import MapsFeatures
from pairlearn.estimators.metric_mixin import Metric, PairMixin, check_pair_labels, check_pairs
from pairlearn.estimators.metric_start import (
    components_of,
    sample_differences,
    start_from,
    unit_step,
)
from pairlearn.estimators.metric_training import (
    Examples,
    Training,
    choose,
    choose_step_size,
    held_out_masks,
)
from pairlearn.estimators.order import watch_order
from pairlearn.estimators.scaling import Scaling, scaled_rows
from pairlearn.estimators.storage import Storable, register_storable
from pairlearn.estimators.weights import chunk_weights, weigh
from pairlearn.features import FeatureMap, Identity
from pairlearn.losses import PairLoss
from pairlearn.losses.metric import get_metric_loss
from pairlearn.models.record import ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.pairings import GivenPairs, Pairing, PreviousExample, RandomPair
from pairlearn.pairings.given import as_rows_of_pairs
from pairlearn.problem import Problem
from pairlearn.restored import restored_array
from pairlearn.schedules import Schedule
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.rows import DenseRows
from pairlearn.solvers.running_scales import RunningScales
from pairlearn.solvers.stream import Stream
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.validation import check_count, check_fraction, check_generator, check_positive

__all__ = ["MetricLearner"]

Vector = NDArray[np.float64]

_PAIRINGS: dict[str, Callable[[], Pairing]] = {
    "previous": PreviousExample,
    "shuffled": lambda: PreviousExample("shuffled"),
    "random": RandomPair,
}
#: Step sizes of the grid in units of `unit_step`.
_STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: The one for pairs of near examples, and that of a stream, with steps c / sqrt(t).
_NEIGHBOR_STEP, _STREAM_STEP = 0.1, 1.0
#: Least number of steps and of passes of n_passes="auto" where the step size is chosen.
_AUTO_STEPS, _AUTO_PASSES = 10_000, 8
#: Passes that it tries where the step size is known, and the steps beyond which one run suffices.
_PASSES, _MOST_STEPS = (10, 50, 200), 200_000
#: Rows that a scaled stream collects before it chooses a starting point and a step size.
_WARM_UP = 64
#: Steps between two projections of projection="auto" in `fit`.
_PERIOD = 2000


class MetricLearner(
    MapsFeatures,
    Storable,
    PairMixin,
    BaseEstimator,  # type: ignore[misc]
):
    r"""Mahalanobis metric in which equal labels are near and different labels far.

    Learns a positive semi-definite W for the squared distance
    :math:`h_W(x, x') = (x - x')^\top W (x - x')` by minimising the mean over pairs of

    .. math:: \ell(\tau (h_W(x, x') - b)), \qquad \tau = 1 \text{ if } y = y' \text{ else } -1,

    with stochastic gradient descent (Algorithm 1 of the paper; `partial_fit` is Algorithm 2).
    `fit` learns from pairs of near examples, which is what nearest neighbours need;
    ``pairing="previous"`` lets each example meet the previous one, as in the paper.

    Parameters
    ----------
    loss : str or PairLoss, default="hinge"
        "hinge", :math:`(1 + \tau (h - 1))_+` (section 2.1 of the paper), "hinge_no_bias",
        :math:`(1 + \tau h)_+` (section 1), "logistic", :math:`\log(1 + e^{\tau (h - 1)})`, or a
        loss such as ``DistanceHinge(bias=4.0)``.
    parameterization : {"full", "diagonal", "low_rank"}, default="full"
        W itself; a diagonal W, a weight for each feature; or W = L L' with L of `rank` columns,
        which is not convex but costs O(d rank) a step.
    rank : int, optional
        Number of columns of L, at most the number of features.
    step_size : float, "auto" or "held_out", default="auto"
        The scale of the step sizes. The unit step moves the squared distance of a typical pair by
        1. "auto" takes 0.1 units for pairs of near examples, and for other pairs "held_out"; a
        stream takes the unit step of its first 64 examples (of its first chunk without `scaling`)
        over sqrt(t). "held_out" trains a grid on
        a part of the training data and keeps the best by nearest neighbours (`n_neighbors`) on
        the rest, the starting point included; for given pairs by the AUC of held-out pairs.
    radius : float, default=inf
        Bound on the Frobenius norm of W.
    projection : {"auto", "exact", "every"}, default="auto"
        Whether W is projected onto the PSD cone at each step that leaves it ("exact", by finding
        the one negative eigenvalue, see `pairlearn.kernels.mahalanobis`), or every `period`
        steps by a full eigendecomposition. "auto" is every 2000 steps in `fit`, and exact in
        `partial_fit`. The result is positive semi-definite in any case.
    period : int, default=1
        The number of steps between projections with ``projection="every"``.
    init : str or array-like, default="auto"
        "identity", scaled so that the mean squared distance of a pair is the bias of the loss or
        1 if that is larger (for a low rank the leading principal components, scaled so); or W
        of shape (d, d), its diagonal, or L, taken as they are. "auto" is "identity".
    n_passes : float or "auto", default="auto"
        Number of steps in units of the number of examples (of pairs). "auto" takes the best of 10,
        50 and 200 passes, but at most 200,000 steps or 8 passes, on held-out examples; where the
        step size is chosen instead, 8 passes, or more up to 10,000 steps, but at most 200 passes.
    n_neighbors : int, default=3
        Neighbours of ``pairing="neighbors"``, and those by which "held_out" judges.
    schedule : str or Schedule, default="auto"
        "constant" (the default of `fit`), "inverse_sqrt" (the default of `partial_fit`),
        "inverse_time" or a schedule, whose scale is then multiplied by the step size.
    averaging : str or Averaging, default="auto"
        "tail" (the default of `fit`: the mean over the second half of the steps, since the
        starting point is far from neutral), "step_size" (the paper's average, the default of
        `partial_fit`), "linear", "uniform", "last", or a rule.
    pairing : str or Pairing, default="auto"
        "neighbors" (the default of `fit`), pairs drawn from each example's `n_neighbors` nearest
        ones of its own label and of other labels, both equally often. Half of the examples look
        for theirs in the Euclidean metric, for the first half of the steps; the others in the
        metric learned so far, for the second half, which takes a third of the step size, in units
        of its own pairs. "previous" (the default of
        `partial_fit`, for which the others do not serve); "shuffled", the same with passes in
        random order; "random"; or a pairing of one pair a step. Given pairs are taken as they are.
    validation_fraction : float, default=0.2
        Share of the training data held out by "held_out". With fewer than 1000 held-out examples
        three parts are held out in turn.
    random_state : int, RandomState, Generator or None, default=None
        Source of the sampled indices.
    scaling : "auto" or None, default="auto"
        "auto" divides each feature by its standard deviation, but at least by a tenth of its
        range, so that units do not matter. `components_` and a given `init` are in the units of X;
        `step_size` and `radius` refer to scaled features. A stream finds scales on the way (see
        `pairlearn.solvers.running_scales`), in which the variances add up to 1. None is the bare
        algorithm.
    features : {"linear", "hats", "fourier"} or FeatureMap, default="linear"
        What the metric is about, as of `AUCClassifier`: a distance of mapped examples. For `fit`;
        the cost grows with the square of the number of mapped features.
    max_memory : float, default=2**30
        Bytes that mapped rows may take; they are held together.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L with W = L' L: the map of `transform`.
    threshold_ : float
        The distance up to which `predict` calls a pair similar. Set by fitting on pairs (the
        best accuracy on them), `calibrate_threshold` or `set_threshold`.
    step_size_ : float or None
        The step size used (0 if the starting point was judged best; None for a metric that was
        found on many machines).
    held_out_score_ : float or None
        What the step size or the number of passes was chosen by, if it was.
    n_steps_, n_gradients_ : int
        Steps taken and pairs evaluated.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    X is dense: a learned distance between sparse examples
    would be dense too, so pass ``X.toarray()`` or reduce the dimension first (TruncatedSVD). No
    metric is best everywhere: ``step_size="held_out"`` counts the Euclidean one among the
    candidates.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from pairlearn import MetricLearner
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(MetricLearner(random_state=0), KNeighborsClassifier(3))
    >>> model.fit(X[:1200] / 16, y[:1200]).score(X[1200:] / 16, y[1200:]) > 0.95
    True
    """

    def __init__(
        self,
        loss: str | PairLoss = "hinge",
        *,
        parameterization: str = "full",
        rank: int | None = None,
        step_size: float | str = "auto",
        radius: float = np.inf,
        projection: str = "auto",
        period: int = 1,
        init: str | ArrayLike = "auto",
        n_passes: float | str = "auto",
        n_neighbors: int = 3,
        schedule: str | Schedule = "auto",
        averaging: str | Averaging = "auto",
        pairing: str | Pairing = "auto",
        validation_fraction: float = 0.2,
        random_state: Any = None,
        scaling: str | None = "auto",
        features: str | FeatureMap = "linear",
        max_memory: float = 2**30,
    ) -> None:
        self.loss = loss
        self.parameterization = parameterization
        self.rank = rank
        self.step_size = step_size
        self.radius = radius
        self.projection = projection
        self.period = period
        self.init = init
        self.n_passes = n_passes
        self.n_neighbors = n_neighbors
        self.schedule = schedule
        self.averaging = averaging
        self.pairing = pairing
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.scaling = scaling
        self.features = features
        self.max_memory = max_memory

    _not_stored = ("random_state",)
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "components": ArraySpec(("n_components", "n_features")),
        "threshold": ArraySpec((), required=False),
        "step_size": ArraySpec((), required=False, low=0.0),
        "held_out_score": ArraySpec((), required=False),
        "n_steps": ArraySpec((), ("int64",), low=0),
        "n_gradients": ArraySpec((), ("int64",), low=0),
    }

    def _unpack(self, record: ModelRecord) -> None:
        super()._unpack(record)
        if self.threshold_ is None:
            self._forget_threshold()
        self._n_features_out = len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.three_d_array = True
        return tags

    # --------------------------------------------------------------------------- training

    @one_at_a_time
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on stored examples or pairs (Algorithm 1).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_pairs, 2, n_features)
            Examples, or pairs.
        y : array-like of shape (n_samples,) or (n_pairs,)
            Labels of the examples, at least two kinds; or +1 for similar and -1 for dissimilar
            pairs.
        sample_weight : array-like of shape (n_samples,) or (n_pairs,), optional
            A pair weighs the product of the weights of its two examples, which are divided by
            their mean; a given pair has a weight of its own. An example (pair) of weight zero is
            as good as absent.

        Returns
        -------
        self
            The fitted learner.
        """
        problem, domain = self._problem(), self._domain(stored=True)
        given, y, paired = self._examples(X, y, reset=True, minimum=2)
        data = _weighted(given, y, paired, sample_weight)
        given, y = data.rows, data.y
        source = self._fit_map(DenseRows(given), copy.deepcopy(self.random_state))
        scaling, scaled = scaled_rows(
            self.scaling, source, data.weight, mapped=not is_linear(self.features)
        )
        assert isinstance(scaled, DenseRows)
        data = Examples(scaled.X, y, data.weight)
        rows = data.rows
        if paired and (y[::2] == y[1::2]).all():
            raise ValueError(
                "All pairs are similar: without dissimilar pairs the best metric is zero. Add some."
            )
        if not paired and len(np.unique(y)) < 2:
            raise ValueError(
                "y has one kind of labels (1 class): without different labels the best metric is "
                "zero. Add examples of another label."
            )
        rng = check_generator(self.random_state)
        n = len(y) // (2 if paired else 1)
        training = Training(
            problem,
            domain,
            as_schedule(self.schedule, default="constant"),
            as_averaging("tail" if self.averaging == "auto" else self.averaging),
            self._pairing(paired),
            check_count("n_neighbors", self.n_neighbors),
        )
        fraction = check_fraction("validation_fraction", self.validation_fraction)
        pairing = training.pair(rows, y, rng)
        differences = sample_differences(rows, pairing, rng)
        start = start_from(training.score, problem.loss, self.init, rows, differences, scaling)
        unit = training.unit(differences)
        n_steps = auto_steps(self.n_passes, n, budget=max(_AUTO_STEPS, _AUTO_PASSES * n))
        held_out = None
        if self.step_size == "held_out" or (
            self.step_size == "auto" and training.pairing is not None
        ):
            step_size, held_out = choose_step_size(
                training,
                [c * unit for c in _STEPS],
                data,
                start=start,
                n_steps=n_steps,
                folds=held_out_masks(n, fraction, rng),
                rng=rng,
            )
        else:
            step_size = self._given_step_size(_NEIGHBOR_STEP * unit)
            if self.n_passes == "auto":
                most = max(_MOST_STEPS, _AUTO_PASSES * n)
                lengths = sorted({min(passes * n, most) for passes in _PASSES})
                best = 0
                if len(lengths) > 1:
                    best, held_out = choose(
                        training,
                        [(step_size, length) for length in lengths],
                        data,
                        start=start,
                        folds=held_out_masks(n, fraction, rng),
                        rng=rng,
                    )
                n_steps = lengths[best]
        self.n_steps_ = self.n_gradients_ = 0
        w = start.ravel()
        if step_size > 0:
            learned = training.run(
                data, pairing, start=start, step_size=step_size, unit=unit, n_steps=n_steps, rng=rng
            )
            w, self.n_steps_, self.n_gradients_ = learned.w, learned.n_steps, learned.n_gradients
        self.step_size_: float | None = step_size
        self.held_out_score_ = held_out
        self._stream: Stream | None = None
        self._waiting: list[tuple[Vector, Vector, Vector]] = []
        self._finish(training.score, w, scaling)
        self._forget_threshold()
        if paired:
            signs = np.where(y[::2] == y[1::2], 1.0, -1.0)
            if len(np.unique(signs)) == 2:
                pairs = given.reshape(-1, 2, given.shape[1])
                self.calibrate_threshold(pairs, signs)
        return self

    @one_at_a_time
    def adopt_solution(
        self,
        components: Vector,
        *,
        feature_names: list[str] | None,
        held_out_score: float | None,
        n_gradients: int,
    ) -> Self:
        """Become the learner whose metric was found elsewhere, on many machines for example.

        Parameters
        ----------
        components : ndarray of shape (n_components, d)
            L with W = L' L, in the units of the user.
        feature_names : list of str, optional
            Names of the features.
        held_out_score : float, optional
            What the metric was chosen by.
        n_gradients : int
            Pairs that it was learned from.

        Returns
        -------
        self
            The fitted learner.
        """
        self._problem()
        components = np.asarray(components, dtype=np.float64)
        see_features(self, {"n_features": components.shape[1], "feature_names": feature_names})
        self.components_, self._n_features_out = components, len(components)
        self.step_size_, self.held_out_score_ = None, held_out_score
        self.n_steps_, self.n_gradients_ = 0, n_gradients
        self._stream = None
        self._forget_threshold()
        return self

    @one_at_a_time
    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from the next chunk of a stream, in order (Algorithm 2).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_pairs, 2, n_features)
            Examples, or pairs; a stream has one kind.
        y : array-like of shape (n_samples,) or (n_pairs,)
            Labels, or +1 and -1.
        sample_weight : array-like of shape (n_samples,) or (n_pairs,), optional
            Weights, for every chunk or for none. A pair weighs the product of both, unscaled; a
            given pair has a weight of its own.

        Returns
        -------
        self
            The learner. The starting point and the step size come from the first chunk if they
            are not given.
        """
        self._problem()
        if not is_linear(self.features):
            raise ValueError(
                f"a stream of metrics has no feature map, got features={self.features!r}; map the "
                "chunks yourself, or use fit."
            )
        stream, waiting = getattr(self, "_stream", None), self._waiting_rows()
        first = stream is None and not waiting
        if first:
            self._codes: dict[Any, float] = {}
        rows, y, paired = self._examples(X, y, reset=first, minimum=1, coded=False)
        self._map_chunk(DenseRows(rows))
        weight = chunk_weights(sample_weight, len(rows) // (2 if paired else 1))
        if paired:
            weight = np.repeat(np.sqrt(weight), 2)
        if not first and paired != self._paired:
            raise ValueError("A stream holds examples or pairs, not both.")
        if self.step_size == "held_out":
            raise ValueError(
                'step_size="held_out" needs all examples at once; for partial_fit give a '
                'number or "auto".'
            )
        step_size = None if first else self.step_size_
        if stream is None:
            if waiting and bool(len(weight)) != bool(len(waiting[0][2])):
                raise ValueError("Give sample_weight for every chunk of a stream or for none.")
            parts = [*waiting, (rows, y, weight)]
            rows, y, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
            stream, step_size = self._begin(rows, paired)
            if self._waits() and len(rows) < _WARM_UP:
                self._adopt(stream, step_size, paired)
                self._stream, self._waiting = None, parts
                return self
        assert step_size is not None
        stream.learn_many(rows, y, example_weight=weight if len(weight) else None)
        if first:
            self._forget_threshold()
        self._waiting = []
        self._adopt(stream, step_size, paired)
        if not paired:
            watch_order(self, DenseRows(rows), y, stream.scales)
        return self

    def _waiting_rows(self) -> list[tuple[Vector, Vector, Vector]]:
        """Return the rows, labels and weights that wait for a stream to begin."""
        waiting: list[tuple[Vector, Vector, Vector]] = self.__dict__.get("_waiting", [])
        return waiting

    def _waits(self) -> bool:
        """Return whether a stream needs some examples before it can begin."""
        is_found = self.step_size == "auto" or isinstance(self.init, str)
        return is_scaled(self.scaling) and is_found

    def _begin(self, rows: Vector, paired: bool) -> tuple[Stream, float]:
        """Return a stream that starts from what its first rows say, and its step size."""
        problem, score = self._problem(), self._score()
        rng, pairing = check_generator(self.random_state), self._stream_pairing(paired)
        scales = None
        if self._waits():
            # Whatever follows the warm-up has no part in the choices.
            rows = rows[:_WARM_UP]
        elif (self.step_size == "auto" or isinstance(self.init, str)) and len(rows) < 2:
            raise ValueError(
                f"The first chunk has n_samples={len(rows)}; the scale of the data needs "
                "2 examples, or give step_size and init."
            )
        if is_scaled(self.scaling):
            scales = RunningScales(
                rows.shape[1],
                start="scaled" if isinstance(self.init, str) else "given",
                together=2 if paired else 1,
            )
            if self._waits():
                known = DenseRows(rows)
                rows = scales.take(known).apply(known).X.copy()  # type: ignore[union-attr]
        differences = np.empty((0, rows.shape[1]))
        if len(rows) > 1:
            differences = sample_differences(rows, pairing, rng)
        start = start_from(score, problem.loss, self.init, rows, differences)
        step_size = self._given_step_size(
            _STREAM_STEP * unit_step(score, problem.loss, differences)
        )
        return self._start(rows.shape[1], step_size, pairing, rng, start, scales), step_size

    def _start(
        self,
        n_features: int,
        step_size: float,
        pairing: Pairing,
        rng: np.random.Generator,
        start: Vector,
        scales: RunningScales | None,
    ) -> Stream:
        schedule = as_schedule(self.schedule, default="inverse_sqrt").scaled(step_size)
        averaging = as_averaging("step_size" if self.averaging == "auto" else self.averaging)
        solver = PairwiseSGD(pairing, schedule, self._domain(stored=False), averaging)
        return solver.start(self._problem(), n_features, rng=rng, w_start=start, scales=scales)

    def _adopt(self, stream: Stream, step_size: float, paired: bool) -> None:
        """Take over what a stream has learned."""
        self._stream, self._paired = stream, paired
        self.step_size_, self.held_out_score_ = step_size, None
        self.n_steps_, self.n_gradients_ = stream.n_steps, stream.n_gradients
        self._finish(self._score(), stream.scaled_average)
        if stream.scales is not None:
            # Taken apart in scaled units, in which eigenvalues are comparable.
            self.components_ = self.components_ * stream.scales.unit

    @one_at_a_time
    def stream_state(self) -> dict[str, Any]:
        """Return what the next chunk depends on, see `OnlineLearner`; empty before the first."""
        stream, waiting = getattr(self, "_stream", None), self._waiting_rows()
        if stream is None and not waiting:
            return {}
        return {
            **seen_features(self),
            "step_size": self.step_size_,
            "paired": self._paired,
            "codes": self._codes.copy(),
            "waiting": [list(part) for part in waiting],
            "stream": None if stream is None else stream.state(),
        }

    @one_at_a_time
    def restore_stream(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `stream_state` of an estimator made alike returned."""
        if state:
            see_features(self, state)
            self._codes = dict(state["codes"])
            step_size = check_positive("the saved step_size", state["step_size"])
            paired = bool(state["paired"])
            self.features_ = Identity().fit(np.zeros((1, self.n_features_in_)))
            waiting = _checked_waiting(state["waiting"], self.n_features_in_)
            if state["stream"] is None:
                if not waiting:
                    raise ValueError("the saved stream has neither begun nor examples that wait.")
                rows = np.concatenate([part[0] for part in waiting])
                self._adopt(*self._begin(rows, paired), paired)
                self._stream, self._waiting = None, waiting
                return
            # As large as the file says, before an array of that size is made.
            w = restored_array(state["stream"]["descent"], "w", (None,))
            if len(w) % self.n_features_in_ or not len(w):
                raise ValueError(
                    f"the saved metric has {len(w)} entries for {self.n_features_in_} features."
                )
            stream = self._start(
                self.n_features_in_,
                step_size,
                self._stream_pairing(paired),
                check_generator(self.random_state),
                w,
                RunningScales(self.n_features_in_) if is_scaled(self.scaling) else None,
            )
            stream.restore(state["stream"])
            self._waiting = []
            self._adopt(stream, step_size, paired)

    def _finish(self, score: MahalanobisScore, w: Vector, scaling: Scaling | None = None) -> None:
        # Iterates between two projections may have left the cone, and their average with them:
        # `components_of` leaves the negative eigenvalues out, which projects it.
        components = components_of(score, w, self.features_.n_outputs)
        self.components_ = components if scaling is None else scaling.to_user(components)
        self._n_features_out = len(self.components_)

    def _rows(self, X: Any) -> Any:
        rows = super()._rows(X)
        return rows if self._stored_map() is None else self.features_.transform(rows)

    def _pairs(self, pairs: Any) -> Vector:
        found = super()._pairs(pairs)
        if self._stored_map() is None:
            return found
        n, _, d = found.shape
        mapped: Vector = self.features_.transform(found.reshape(2 * n, d)).reshape(n, 2, -1)
        return mapped

    def get_metric(self) -> Metric:
        """Return the distance as a function of two vectors, see `MetricMixin.get_metric`."""
        found = super().get_metric()
        return found if self._stored_map() is None else replace(found, features=self.features_)

    def _forget_threshold(self) -> None:
        if hasattr(self, "threshold_"):
            del self.threshold_

    # ------------------------------------------------------------------------- parameters

    def _problem(self) -> Problem:
        is_scaled(self.scaling)
        loss = get_metric_loss(self.loss)
        return Problem(self._score(), loss)

    def _score(self) -> MahalanobisScore:
        return MahalanobisScore(self.parameterization, self.rank)

    def _given_step_size(self, auto: float) -> float:
        if isinstance(self.step_size, str) and self.step_size == "auto":
            return auto
        if isinstance(self.step_size, str):
            raise ValueError(
                f'step_size must be a number, "auto" or "held_out", got {self.step_size!r}.'
            )
        return check_positive("step_size", self.step_size)

    def _domain(self, *, stored: bool) -> PsdCone | PsdBall:
        projection, period = self.projection, self.period
        if projection == "auto":
            projection = "exact"
            if stored and self.period == 1:
                projection, period = "every", _PERIOD
        radius = check_positive("radius", self.radius, allow_infinite=True)
        if np.isinf(radius):
            return PsdCone(projection=projection, period=period)
        return PsdBall(radius, projection=projection, period=period)

    def _pairing(self, paired: bool) -> Pairing | None:
        """Return the pairing, None for near examples."""
        if paired:
            return GivenPairs()
        if isinstance(self.pairing, Pairing):
            return self.pairing
        if self.pairing in ("auto", "neighbors"):
            return None
        return named("pairing", self.pairing, _PAIRINGS)()

    def _stream_pairing(self, paired: bool) -> Pairing:
        """Return the pairing of a stream, in which nobody's neighbours are known."""
        pairing = self._pairing(paired)
        if pairing is None and self.pairing == "neighbors":
            raise ValueError(
                'pairing="neighbors" needs all examples at once; for partial_fit use "previous" '
                'or "auto".'
            )
        return PreviousExample() if pairing is None else pairing

    def _examples(
        self, X: Any, y: ArrayLike, *, reset: bool, minimum: int, coded: bool = True
    ) -> tuple[Vector, Vector, bool]:
        """Return rows, numbers as labels, and whether the rows are pairs."""
        if getattr(X, "ndim", None) == 3 or np.ndim(X[0] if isinstance(X, list) else 0) == 2:
            known = None if reset else self.n_features_in_
            pairs = check_pairs(X, known)
            signs = check_pair_labels(y, len(pairs))
            rows, y = as_rows_of_pairs(pairs, signs)
            validate_data(self, rows, reset=reset)
            return rows, y, True
        X, y = validate_data(
            self, X, y, dtype=np.float64, order="C", reset=reset, ensure_min_samples=minimum
        )
        check_classification_targets(y)
        names = np.asarray(y)
        if coded:
            return X, np.unique(names, return_inverse=True)[1].astype(np.float64), False
        codes = [self._codes.setdefault(name, float(len(self._codes))) for name in names.tolist()]
        return X, np.array(codes), False


def _checked_waiting(saved: Any, d: int) -> list[tuple[Vector, Vector, Vector]]:
    """Return the rows, labels and weights of a saved state that wait for the stream to begin."""
    if not isinstance(saved, list) or not all(isinstance(part, list) for part in saved):
        raise ValueError("the saved examples that wait are not a list of lists.")
    waiting = []
    for part in saved:
        if len(part) != 3:
            raise ValueError("the saved examples that wait are not rows, labels and weights.")
        named = dict(zip(("rows", "labels", "weights"), part, strict=True))
        rows = restored_array(named, "rows", (None, d))
        labels = restored_array(named, "labels", (len(rows),))
        weights = restored_array(named, "weights", (None,))
        if len(weights) not in (0, len(rows)) or (weights < 0).any():
            raise ValueError(f"the saved weights are not one for each of {len(rows)} examples.")
        waiting.append((rows, labels, weights))
    if sum(len(part[0]) for part in waiting) >= _WARM_UP:
        raise ValueError("the saved examples that wait are too many; the stream has begun.")
    return waiting


def _weighted(rows: Vector, y: Vector, paired: bool, sample_weight: ArrayLike | None) -> Examples:
    """Return the examples of positive weight; the weight of a given pair is shared by its rows."""
    keep, weight = weigh(sample_weight, len(y) // (2 if paired else 1))
    if paired:
        weight = np.repeat(np.sqrt(weight), 2)
        keep = None if keep is None else np.column_stack([2 * keep, 2 * keep + 1]).ravel()
    if keep is not None:
        rows, y = rows[keep], y[keep]
    return Examples(rows, y, weight)


register_storable(MetricLearner)
