# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from pairlearn.averaging import Averaging
from pairlearn.estimators.metric.mixin import Metric, PairMixin
from pairlearn.estimators.metric.start import sample_differences, start_from
from pairlearn.estimators.metric.stream import MetricStream
from pairlearn.estimators.metric.training import (
    Examples,
    Training,
    choose,
    choose_step_size,
    held_out_masks,
)
from pairlearn.estimators.shared.by_name import as_averaging, as_schedule, auto_steps
from pairlearn.estimators.shared.features_seen import see_features
from pairlearn.estimators.shared.maps import is_linear
from pairlearn.estimators.shared.scaling import scaled_rows
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.estimators.shared.weights import weigh
from pairlearn.features import FeatureMap
from pairlearn.losses import PairLoss
from pairlearn.models.record import ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.pairings import Pairing
from pairlearn.schedules import Schedule
from pairlearn.solvers.rows import DenseRows
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction, check_generator

__all__ = ["MetricLearner"]

#: Step sizes of the grid in units of `unit_step`.
_STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: The one for pairs of near examples.
_NEIGHBOR_STEP = 0.1
#: Least number of steps and of passes of n_passes="auto" where the step size is chosen.
_AUTO_STEPS, _AUTO_PASSES = 10_000, 8
#: Passes that it tries where the step size is known, and the steps beyond which one run suffices.
_PASSES, _MOST_STEPS = (10, 50, 200), 200_000


class MetricLearner(
    MetricStream,
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
        the one negative eigenvalue, see `pairlearn.kernels.steps.mahalanobis`), or every `period`
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
        `solvers.streams.running_scales`), in which the variances add up to 1. None is the bare
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
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from pairlearn import MetricLearner
    >>> X, y = load_wine(return_X_y=True)
    >>> KNeighborsClassifier(3).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) < 0.75
    True
    >>> model = make_pipeline(MetricLearner(random_state=0), KNeighborsClassifier(3))
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
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
        _check_both_kinds(y, paired)
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
        self.step_size_ = step_size
        self.held_out_score_ = held_out
        self._stream, self._waiting = None, []
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
        self._stream, self._waiting = None, []
        self._forget_threshold()
        return self

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


def _check_both_kinds(y: Vector, paired: bool) -> None:
    """Refuse labels or pairs that say only what is near, or only what is far."""
    if paired:
        similar = y[::2] == y[1::2]
        if similar.all():
            raise ValueError(
                "All pairs are similar: without dissimilar pairs the best metric is zero. Add some."
            )
        if not similar.any():
            raise ValueError(
                "All pairs are dissimilar: without similar pairs every metric is better the "
                "longer its distances. Add some."
            )
        return
    n_labels = len(np.unique(y))
    if n_labels < 2:
        raise ValueError(
            "y has one kind of labels (1 class): without different labels the best metric is "
            "zero. Add examples of another label."
        )
    if n_labels == len(y):
        raise ValueError(
            f"y has {n_labels} labels for {n_labels} examples, as numbers of rows have: no two "
            "examples are similar, and every metric is better the longer its distances. Check y."
        )


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
