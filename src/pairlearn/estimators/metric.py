# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from pairlearn.averaging import Averaging
from pairlearn.domains import PsdBall, PsdCone
from pairlearn.estimators.metric_start import (
    components_of,
    judge_by_neighbors,
    judge_by_pairs,
    neighbor_pairs,
    start_from,
    unit_step,
)
from pairlearn.estimators.pairs import PairMixin, check_pair_labels, check_pairs
from pairlearn.estimators.parts import (
    as_averaging,
    as_generator,
    as_radius,
    as_schedule,
    auto_steps,
    named,
)
from pairlearn.estimators.storage import Storable, register_storable
from pairlearn.losses import PairLoss
from pairlearn.losses.metric import get_metric_loss
from pairlearn.models.record import ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.pairings import Pairing, PreviousExample, RandomPair
from pairlearn.pairings.given import GivenPairs, as_rows_of_pairs
from pairlearn.problem import Problem
from pairlearn.schedules import Schedule
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.pairwise_sgd import PairwiseSGD, Stream
from pairlearn.validation import DivergenceError, check_count, check_fraction, check_positive

__all__ = ["MetricLearner"]

Vector = NDArray[np.float64]

_PAIRINGS: dict[str, type[Pairing]] = {"previous": PreviousExample, "random": RandomPair}
#: Step sizes of the grid in units of `unit_step`.
_STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: The one of a stream, with steps c / sqrt(t).
_STREAM_STEP = 1.0
#: Least number of steps and of passes of n_passes="auto".
_AUTO_STEPS, _AUTO_PASSES = 10_000, 8
#: Steps of the runs that choose the step size, at most.
_CHOICE_STEPS = 50_000
#: With fewer held-out examples than this, three parts are held out in turn.
_ENOUGH = 1000


class MetricLearner(
    Storable,
    PairMixin,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    r"""Mahalanobis metric in which equal labels are near and different labels far.

    Learns a positive semi-definite W for the squared distance
    :math:`h_W(x, x') = (x - x')^\top W (x - x')` by minimising the mean over pairs of

    .. math:: \ell(\tau (h_W(x, x') - b)), \qquad \tau = 1 \text{ if } y = y' \text{ else } -1,

    with stochastic gradient descent, each example meeting the previous one (Algorithm 1 of the
    paper; `partial_fit` is Algorithm 2).

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
    step_size : float or "auto", default="auto"
        The scale of the step sizes. "auto" trains a grid on a part of the training data and keeps
        the best by nearest neighbours (`n_neighbors`) on the rest, the starting point included;
        for given pairs by the AUC of held-out pairs. A stream takes the unit step, that which
        moves the squared distance of a typical pair of its first chunk by 1, over sqrt(t).
    radius : float, default=inf
        Bound on the Frobenius norm of W.
    projection : {"exact", "every"}, default="exact"
        Whether W is projected onto the PSD cone at each step that leaves it (by finding the one
        negative eigenvalue, see `pairlearn.kernels.mahalanobis`), or every `period` steps by a
        full eigendecomposition.
    period : int, default=1
        The number of steps between projections with ``projection="every"``.
    init : str or array-like, default="auto"
        "identity", scaled so that the mean squared distance of a pair is the bias of the loss or
        1 if that is larger (for a low rank the leading principal components, scaled so); or W
        of shape (d, d), its diagonal, or L, taken as they are. "auto" is "identity".
    n_passes : float or "auto", default="auto"
        Number of steps in units of the number of examples (of pairs). "auto" takes 8 passes, or
        more up to 10,000 steps, but at most 200 passes.
    n_neighbors : int, default=3
        Neighbours by which "auto" judges, and of ``pairing="neighbors"``.
    schedule : str or Schedule, default="auto"
        "constant" (the default of `fit`), "inverse_sqrt" (the default of `partial_fit`),
        "inverse_time" or a schedule, whose scale is then multiplied by the step size.
    averaging : str or Averaging, default="auto"
        "tail" (the default of `fit`: the mean over the second half of the steps, since the
        starting point is far from neutral), "step_size" (the paper's average, the default of
        `partial_fit`), "linear", "uniform", "last", or a rule.
    pairing : str or Pairing, default="previous"
        "previous"; "random"; "neighbors", pairs drawn from each example's `n_neighbors` nearest
        ones of its own label and of other labels in the Euclidean metric, which is what nearest
        neighbours need, for the price of finding them; or a pairing of one pair a step. Only
        "previous" serves `partial_fit`. Given pairs are taken as they are.
    validation_fraction : float, default=0.2
        Share of the training data held out by "auto". With fewer than 1000 held-out examples
        three parts are held out in turn.
    random_state : int, RandomState, Generator or None, default=None
        Source of the sampled indices.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L with W = L' L: the map of `transform`.
    threshold_ : float
        The distance up to which `predict` calls a pair similar. Set by fitting on pairs (the
        best accuracy on them), `calibrate_threshold` or `set_threshold`.
    step_size_ : float
        The step size used (0 if the starting point was judged best).
    held_out_score_ : float or None
        What the step size was chosen by.
    n_steps_, n_gradients_ : int
        Steps taken and pairs evaluated.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Features are neither centred nor scaled. A metric that is good for pairs of examples far apart
    is not always good for nearest neighbours, which see near ones only: compare with the Euclidean
    metric, as "auto" does.

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
        projection: str = "exact",
        period: int = 1,
        init: str | ArrayLike = "auto",
        n_passes: float | str = "auto",
        n_neighbors: int = 3,
        schedule: str | Schedule = "auto",
        averaging: str | Averaging = "auto",
        pairing: str | Pairing = "previous",
        validation_fraction: float = 0.2,
        random_state: Any = None,
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

    _not_stored = ("random_state",)
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "components": ArraySpec(("n_components", "n_features")),
        "threshold": ArraySpec((), required=False),
        "step_size": ArraySpec(()),
        "held_out_score": ArraySpec((), required=False),
        "n_steps": ArraySpec((), ("int64",)),
        "n_gradients": ArraySpec((), ("int64",)),
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

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Train on stored examples or pairs (Algorithm 1).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_pairs, 2, n_features)
            Examples, or pairs.
        y : array-like of shape (n_samples,) or (n_pairs,)
            Labels of the examples, at least two kinds; or +1 for similar and -1 for dissimilar
            pairs.

        Returns
        -------
        self
            The fitted learner.
        """
        problem, domain = self._problem(), self._domain()
        rows, labels, paired = self._examples(X, y, reset=True, minimum=2)
        if not paired and len(np.unique(labels)) < 2:
            raise ValueError(
                "y has one kind of labels (1 class): without different labels the best metric is "
                "zero. Add examples of another label."
            )
        rng = as_generator(self.random_state)
        pairing = self._pairing_of(rows, labels, paired)
        n = len(labels) // (2 if paired else 1)
        n_steps = auto_steps(self.n_passes, n, budget=max(_AUTO_STEPS, _AUTO_PASSES * n))
        shape = as_schedule(self.schedule, default="constant")
        averaging = as_averaging("tail" if self.averaging == "auto" else self.averaging)
        score = problem.score
        assert isinstance(score, MahalanobisScore)
        start = start_from(score, problem.loss, self.init, rows, pairing, rng)
        solvers = {
            c: PairwiseSGD(pairing, shape.scaled(c), domain, averaging)
            for c in self._grid(score, problem.loss, rows, pairing, rng)
        }
        held_out = None
        step_size = next(iter(solvers))
        if self.step_size == "auto":
            step_size, held_out = self._choose(
                problem, solvers, rows, labels, paired, start, n_steps, shape, rng
            )
        self.n_steps_ = self.n_gradients_ = 0
        w = start.ravel()
        if step_size > 0:
            solution = solvers[step_size].solve(
                problem, rows, labels, n_steps=n_steps, rng=rng, w_start=start
            )
            w = solution.average
            self.n_steps_, self.n_gradients_ = solution.trace.n_steps, solution.trace.n_gradients
        self.step_size_, self.held_out_score_ = step_size, held_out
        self._stream: Stream | None = None
        self._finish(score, w)
        self._forget_threshold()
        if paired:
            signs = np.where(labels[::2] == labels[1::2], 1.0, -1.0)
            if len(np.unique(signs)) == 2:
                pairs = rows.reshape(-1, 2, rows.shape[1])
                self.calibrate_threshold(pairs, signs)
        return self

    def _grid(
        self,
        score: MahalanobisScore,
        loss: PairLoss,
        rows: Vector,
        pairing: Pairing,
        rng: np.random.Generator,
    ) -> list[float]:
        if self.step_size != "auto":
            return [check_positive("step_size", self.step_size)]  # type: ignore[arg-type]
        unit = unit_step(score, loss, rows, pairing, rng)
        return [c * unit for c in _STEPS]

    def _choose(
        self,
        problem: Problem,
        solvers: dict[float, PairwiseSGD],
        rows: Vector,
        labels: Vector,
        paired: bool,
        start: Vector,
        n_steps: int,
        shape: Schedule,
        rng: np.random.Generator,
    ) -> tuple[float, float]:
        """Return the step size that is best on held-out data, 0 for the starting point."""
        score, d = problem.score, rows.shape[1]
        assert isinstance(score, MahalanobisScore)
        n_choice = min(n_steps, _CHOICE_STEPS)
        # The best constant step is proportional to 1/sqrt(T) (Theorem 6a).
        stretch = float(np.sqrt(n_steps / n_choice)) if shape.is_constant else 1.0
        candidates = [0.0, *solvers]
        total = np.zeros(len(candidates))
        folds = self._folds(len(labels) // (2 if paired else 1), rng)
        for held in folds:
            out = np.repeat(held, 2) if paired else held
            train, test = (rows[~out], labels[~out]), (rows[out], labels[out])
            if not paired and len(np.unique(train[1])) < 2:
                continue
            seed = int(rng.integers(2**63))
            pairing = self._pairing_of(*train, paired)
            for position, c in enumerate(candidates):
                w = start.ravel()
                if c > 0:
                    solver = solvers[c]
                    longer = PairwiseSGD(
                        pairing,
                        solver.schedule.scaled(stretch),
                        solver.domain,
                        solver.averaging,
                    )
                    try:
                        w = longer.solve(
                            problem, *train, n_steps=n_choice, rng=seed, w_start=start
                        ).average
                    except DivergenceError:
                        total[position] = -np.inf
                        continue
                components = components_of(score, w, d)
                total[position] += (
                    judge_by_pairs(components, test)
                    if paired
                    else judge_by_neighbors(components, train, test, self.n_neighbors)
                )
        best = int(np.argmax(total))
        return candidates[best], float(total[best] / len(folds))

    def _folds(self, n: int, rng: np.random.Generator) -> list[NDArray[np.bool_]]:
        """Return which examples (pairs) to hold out: once, or three parts in turn."""
        fraction = check_fraction("validation_fraction", self.validation_fraction)
        check_count("n_neighbors", self.n_neighbors)
        order = rng.permutation(n)
        if fraction * n >= _ENOUGH:
            parts = [order[: round(fraction * n)]]
        else:
            size = min(max(round(fraction * n), 1), max(n // 2, 1))
            parts = [np.roll(order, -k * size)[:size] for k in range(3)]
        masks = []
        for part in parts:
            mask = np.zeros(n, dtype=bool)
            mask[part] = True
            masks.append(mask)
        return masks

    def partial_fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn from the next chunk of a stream, in order (Algorithm 2).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_pairs, 2, n_features)
            Examples, or pairs; a stream has one kind.
        y : array-like of shape (n_samples,) or (n_pairs,)
            Labels, or +1 and -1.

        Returns
        -------
        self
            The learner. The starting point and the step size come from the first chunk if they
            are not given.
        """
        problem, domain = self._problem(), self._domain()
        stream = getattr(self, "_stream", None)
        if stream is None:
            self._codes: dict[Any, float] = {}
        rows, labels, paired = self._examples(X, y, reset=stream is None, minimum=1, coded=False)
        score = problem.score
        assert isinstance(score, MahalanobisScore)
        if stream is None:
            rng = as_generator(self.random_state)
            if self.pairing == "neighbors" and not paired:
                raise ValueError(
                    'pairing="neighbors" needs all examples at once; for partial_fit use '
                    '"previous".'
                )
            pairing = self._pairing_of(rows, labels, paired)
            n_needed = 2 if self.step_size == "auto" or isinstance(self.init, str) else 1
            if len(rows) < n_needed:
                raise ValueError(
                    f"The first chunk has n_samples={len(rows)}; the scale of the data needs "
                    "2 examples, or give step_size and init."
                )
            start = start_from(score, problem.loss, self.init, rows, pairing, rng)
            if self.step_size == "auto":
                step_size = _STREAM_STEP * unit_step(score, problem.loss, rows, pairing, rng)
            else:
                step_size = check_positive("step_size", self.step_size)  # type: ignore[arg-type]
            schedule = as_schedule(self.schedule, default="inverse_sqrt").scaled(step_size)
            averaging = as_averaging("step_size" if self.averaging == "auto" else self.averaging)
            solver = PairwiseSGD(pairing, schedule, domain, averaging)
            stream = solver.start(problem, rows.shape[1], rng=rng, w_start=start)
            self._paired = paired
            self.step_size_, self.held_out_score_ = step_size, None
            self._forget_threshold()
        elif paired != self._paired:
            raise ValueError("A stream holds examples or pairs, not both.")
        stream.learn_many(rows, labels)
        self._stream = stream
        self.n_steps_, self.n_gradients_ = stream.n_steps, stream.n_gradients
        self._finish(score, stream.average)
        return self

    def _finish(self, score: MahalanobisScore, w: Vector) -> None:
        d = self.n_features_in_
        if score.parameterization == "full" and self.projection == "every":
            # Iterates between two projections may have left the cone, and their average with them.
            w = PsdCone().project(w)
        self.components_ = components_of(score, w, d)
        self._n_features_out = len(self.components_)

    def _forget_threshold(self) -> None:
        if hasattr(self, "threshold_"):
            del self.threshold_

    # ------------------------------------------------------------------------- parameters

    def _problem(self) -> Problem:
        loss = get_metric_loss(self.loss)
        return Problem(MahalanobisScore(self.parameterization, self.rank), loss)

    def _domain(self) -> PsdCone | PsdBall:
        radius = as_radius(self.radius)
        if np.isinf(radius):
            return PsdCone(projection=self.projection, period=self.period)
        return PsdBall(radius, projection=self.projection, period=self.period)

    def _pairing_of(self, rows: Vector, labels: Vector, paired: bool) -> Pairing:
        if paired:
            return GivenPairs()
        if isinstance(self.pairing, Pairing):
            return self.pairing
        if self.pairing == "neighbors":
            return neighbor_pairs(rows, labels, check_count("n_neighbors", self.n_neighbors))
        return named("pairing", self.pairing, _PAIRINGS)()

    def _examples(
        self, X: Any, y: ArrayLike, *, reset: bool, minimum: int, coded: bool = True
    ) -> tuple[Vector, Vector, bool]:
        """Return rows, numbers as labels, and whether the rows are pairs."""
        if getattr(X, "ndim", None) == 3 or np.ndim(X[0] if isinstance(X, list) else 0) == 2:
            known = None if reset else self.n_features_in_
            pairs = check_pairs(X, known)
            signs = check_pair_labels(y, len(pairs))
            rows, labels = as_rows_of_pairs(pairs, signs)
            validate_data(self, rows, reset=reset)
            return rows, labels, True
        X, y = validate_data(
            self, X, y, dtype=np.float64, order="C", reset=reset, ensure_min_samples=minimum
        )
        check_classification_targets(y)
        names = np.asarray(y)
        if coded:
            return X, np.unique(names, return_inverse=True)[1].astype(np.float64), False
        codes = [self._codes.setdefault(name, float(len(self._codes))) for name in names.tolist()]
        return X, np.array(codes), False


register_storable(MetricLearner)
