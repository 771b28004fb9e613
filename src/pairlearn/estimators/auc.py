# SPDX-License-Identifier: BSD-3-Clause
"""AUC maximisation as a scikit-learn classifier."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pairlearn.averaging import (
    Averaging,
    DelayedByStepSize,
    DelayedLinear,
    LastIterate,
    Tail,
    Uniform,
)
from pairlearn.domains import Ball, WholeSpace
from pairlearn.estimators.advised import advice_for
from pairlearn.estimators.calibration import (
    THRESHOLDS,
    Isotonic,
    Sigmoid,
    choose_threshold,
    fit_isotonic,
    fit_sigmoid,
)
from pairlearn.estimators.exact import fit_exact, smooth_relative
from pairlearn.estimators.progress import ProgressBar
from pairlearn.estimators.selection import choose, pair_scale, relative_radii, relative_steps
from pairlearn.losses import PairLoss, get_loss
from pairlearn.metrics import roc_auc
from pairlearn.pairings import (
    AllPrevious,
    ClassReservoirs,
    FifoBuffer,
    Pairing,
    PreviousExample,
    PreviousOpposite,
    RandomPair,
    ReservoirBuffer,
)
from pairlearn.problem import Problem
from pairlearn.schedules import Constant, InverseSqrt, InverseTime, Schedule
from pairlearn.scores import LinearScore
from pairlearn.solvers.pairwise_sgd import PairwiseSGD, Stream, Trace, check_weights
from pairlearn.solvers.rows import DenseRows, Rows, as_rows
from pairlearn.validation import check_count, check_fraction, check_generator, check_positive

__all__ = ["AUCClassifier"]

_T = TypeVar("_T")

_SCHEDULES: dict[str, type[Schedule]] = {
    "constant": Constant,
    "inverse_sqrt": InverseSqrt,
    "inverse_time": InverseTime,
}
_AVERAGINGS: dict[str, type[Averaging]] = {
    "step_size": DelayedByStepSize,
    "linear": DelayedLinear,
    "uniform": Uniform,
    "tail": Tail,
    "last": LastIterate,
}
#: Steps of a run with n_passes="auto": this many, but from 1 to 200 passes.
_AUTO_STEPS = 500_000
#: Threshold and calibration use at most so many training scores of each class.
_SCORES_PER_CLASS = 2_500
#: A stream with step_size="auto" trains a grid on so many examples, then keeps the best.
_WARM_UP = 4096
#: Relative step sizes of that grid; the schedule is c / sqrt(t).
_STREAM_STEPS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
#: Scores of a stream that threshold and calibration are found from.
_WINDOW = 4096


class AUCClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Linear classifier that maximises the area under the ROC curve.

    Minimises the pair risk

    .. math:: F_S(w) = \frac{1}{n(n-1)} \sum_{i \neq j} \ell(y_i \langle w, x_i - x_j \rangle)
              \, 1[y_i \neq y_j]

    over a ball by stochastic gradient descent, pairing each example with the previous one
    (Algorithm 1 of the paper; `partial_fit` is Algorithm 2).

    Parameters
    ----------
    loss : str or PairLoss, default="hinge"
        "hinge", "squared_hinge", "square", "logistic", "exponential", "loglink",
        "smoothed_hinge", or a loss of your own.
    step_size : float, "auto" or "theory", default="auto"
        The scale of the step sizes. "auto" trains a grid of step sizes and radii on one sample
        path and keeps the best by AUC on held-out training data; in `partial_fit`, by the AUC of
        predictions made before learning, over the first 4096 examples. "theory" takes the
        step size that minimises the bound on the excess risk (Theorem 2, or Theorem 1 for a
        loss with a kink; `pairlearn.theory.advise_auc`). It needs a finite `radius`, reads the
        largest norm of a row of X as the bound on the norm of an example, and is cautious: a
        bound covers the worst case. For `fit` only.
    radius : float or "auto", default="auto"
        Radius of the ball that the coefficients live in; infinity for none. "auto" is chosen
        together with the step size; in `partial_fit`, and with a given step size, it means none.
    n_passes : float or "auto", default="auto"
        Number of steps in units of the number of examples. "auto" takes 500,000 steps, but at
        least 1 and at most 200 passes.
    schedule : str or Schedule, default="auto"
        "constant" (the default of `fit`), "inverse_sqrt" (the default of `partial_fit`, whose
        horizon is not known), "inverse_time", or a schedule, whose scale is then multiplied by
        the step size.
    averaging : str or Averaging, default="step_size"
        "step_size" (the paper's average), "linear", "uniform", "tail", "last", or a rule.
    pairing : str or Pairing, default="previous"
        "previous", "random" (uniform pairs; not for `partial_fit`), "fifo" (the last
        `buffer_size` examples), "opposite" (the latest one of the other class), "reservoir" and
        "class_reservoirs" (random samples of the past, of both classes or of each),
        "all_previous", or a pairing.
    buffer_size : int, default=1
        Number of examples that each one meets with "fifo", "reservoir" and "class_reservoirs".
    threshold : float or str, default="balanced_accuracy"
        Scores above the threshold are predicted positive. A criterion ("balanced_accuracy",
        "accuracy", "f1") is maximised on training scores; "probability" cuts where
        `predict_proba` crosses 1/2.
    calibrate : {"sigmoid", "isotonic"}, default="sigmoid"
        How `predict_proba` maps scores to probabilities: fitted on training scores and monotone.
    validation_fraction : float, default=0.2
        Share of the training data held out to choose step size and radius. With fewer than 200
        held-out examples of the rarer class all parts are held out in turn (cross-validation).
        The final model is trained on all data.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with `sample_weight`. A pair weighs the product of
        its two examples, and only pairs of opposite classes count, so weights of the classes
        alone scale the loss and do not change the optimum: AUC has no class prior to correct.
        They do move the threshold and the probabilities; in the balanced accuracy the two
        classes count the same unless a dict says otherwise.
    dtype : dtype or None, default=None
        float32 or float64 to convert the data, None to train in the type of the data.
    random_state : int, RandomState, Generator or None, default=None
        Source of the sampled indices.
    verbose : int, default=0
        1 shows a progress bar on stderr.
    solver : {"sgd", "exact"}, default="sgd"
        "sgd" is Algorithm 1. "exact" minimises the mean loss over all opposite pairs plus
        ridge times the squared norm of the coefficients: in closed form for the square loss, by
        L-BFGS with exact gradients otherwise. It is for data in memory and convex losses; the
        hinge, which has kinks, is replaced by the squared hinge. Step size, radius, passes,
        schedule, averaging and pairing do not matter then, and there is no `partial_fit` and no
        `sample_weight`.
    ridge : float or "auto", default="auto"
        The ridge of ``solver="exact"``. "auto" takes the best of a grid by AUC on held-out
        training data.
    callbacks : sequence of callable or None, default=None
        Each is called between blocks of steps with (step, seconds, risk).
    warm_start : bool, default=False
        Whether `fit` starts from the coefficients of the previous fit.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive one.
    coef_ : ndarray of shape (1, n_features)
        Coefficients.
    intercept_ : ndarray of shape (1,)
        Minus the threshold, so that `decision_function` is positive where `predict` is.
    threshold_ : float
        The cut on ``X @ coef_[0]``.
    step_size_, radius_ : float
        The values used.
    advice_ : Advice or None
        After `fit` with ``step_size="theory"``: the recommendation and the value of the bound.
    held_out_auc_ : float or None
        The AUC by which step size and radius were chosen.
    n_steps_, n_gradients_ : int
        Steps taken and pairs evaluated.
    ridge_ : float
        The ridge used, with ``solver="exact"``.
    trace_ : Trace
        What happened on the way.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Features are not scaled. A warning names StandardScaler when their scales differ by orders of
    magnitude. `sample_weight` multiplies gradients; weights of zero leave an example out of all
    pairs but not out of the sampled path.

    References
    ----------
    Yang, Lei, Wang, Yang, Ying. Simple stochastic and online gradient descent algorithms for
    pairwise learning. NeurIPS 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from pairlearn import AUCClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AUCClassifier(random_state=0).fit(scale(X), y)
    >>> bool(clf.score(scale(X), y) > 0.99)
    True
    """

    def __init__(
        self,
        loss: str | PairLoss = "hinge",
        *,
        step_size: float | str = "auto",
        radius: float | str = "auto",
        n_passes: float | str = "auto",
        schedule: str | Schedule = "auto",
        averaging: str | Averaging = "step_size",
        pairing: str | Pairing = "previous",
        buffer_size: int = 1,
        threshold: float | str = "balanced_accuracy",
        calibrate: str = "sigmoid",
        validation_fraction: float = 0.2,
        class_weight: dict[Any, float] | str | None = None,
        dtype: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        solver: str = "sgd",
        ridge: float | str = "auto",
        callbacks: Sequence[Callable[[int, float, float], None]] | None = None,
        warm_start: bool = False,
    ) -> None:
        self.loss = loss
        self.step_size = step_size
        self.radius = radius
        self.n_passes = n_passes
        self.schedule = schedule
        self.averaging = averaging
        self.pairing = pairing
        self.buffer_size = buffer_size
        self.threshold = threshold
        self.calibrate = calibrate
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.solver = solver
        self.ridge = ridge
        self.callbacks = callbacks
        self.warm_start = warm_start

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags

    # --------------------------------------------------------------------------- training

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on stored examples (Algorithm 1).

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Two kinds of labels.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples, scaled so that the
            mean weight of an opposite pair is 1.

        Returns
        -------
        self
            The fitted classifier.
        """
        problem = self._problem()
        rows, labels = self._examples(X, y, reset=True, minimum=2)
        classes = _two_classes(labels)
        signs = np.where(labels == classes[1], 1.0, -1.0)
        rng = self._generator()
        if self.solver == "exact":
            return self._fit_exact(problem.loss, rows, signs, classes, sample_weight, rng)
        _warn_of_scales(rows, rng)
        weight = self._pair_weights(sample_weight, labels, classes, signs)
        n = len(signs)
        n_steps = self._n_steps(n)
        pairing, averaging = self._pairing(), self._averaging()
        shape = self._schedule(default="constant")
        start = None
        if self.warm_start and hasattr(self, "coef_"):
            start = self.coef_[0]
            if len(start) != rows.shape[1]:
                raise ValueError(
                    f"warm_start: X has {rows.shape[1]} features, the model has {len(start)}."
                )
        held_out_auc, advice = None, None
        step_size, radius = self._given_step_size(), self._given_radius()
        if self.step_size == "theory":
            advice = advice_for(
                problem,
                rows,
                radius=radius,
                n_steps=n_steps,
                pairing=pairing,
                schedule=shape,
                averaging=averaging,
                weighted=len(weight) > 0,
                warm=start is not None,
            )
            step_size = advice.step_size
        if step_size is None or (radius is None and self.step_size == "auto"):
            scale = pair_scale(rows, signs, rng)
            choice = choose(
                problem,
                rows,
                signs,
                n_steps=n_steps,
                pairing=pairing if isinstance(pairing, RandomPair) else PreviousExample(),
                schedule=shape,
                averaging=averaging,
                step_sizes=relative_steps(scale) if step_size is None else (step_size,),
                radii=relative_radii(scale) if radius is None else (radius,),
                validation_fraction=check_fraction("validation_fraction", self.validation_fraction),
                example_weight=weight,
                rng=rng,
            )
            step_size, radius, held_out_auc = choice.step_size, choice.radius, choice.auc
        radius = np.inf if radius is None else radius
        solver = PairwiseSGD(pairing, shape.scaled(step_size), _domain(radius), averaging)
        with contextlib.ExitStack() as stack:
            callbacks = list(self.callbacks or ())
            if self.verbose:
                callbacks.append(stack.enter_context(ProgressBar(n_steps, held_out_auc)))
            solution = solver.solve(
                problem,
                rows,
                signs,
                n_steps=n_steps,
                rng=rng,
                w_start=start,
                example_weight=weight if len(weight) else None,
                callbacks=callbacks,
            )
        self.classes_ = classes
        self.step_size_, self.radius_ = step_size, radius
        self.held_out_auc_, self.advice_ = held_out_auc, advice
        self.trace_ = solution.trace
        self.n_steps_, self.n_gradients_ = solution.trace.n_steps, solution.trace.n_gradients
        self._stream: _StreamLearner | None = None
        self.coef_: NDArray[np.float64] = solution.average[np.newaxis]
        self._decide_from(rows, signs, weight, rng)
        return self

    def _fit_exact(
        self,
        loss: PairLoss,
        rows: Rows,
        signs: NDArray[np.float64],
        classes: NDArray[Any],
        sample_weight: ArrayLike | None,
        rng: np.random.Generator,
    ) -> Self:
        if sample_weight is not None:
            raise ValueError('solver="exact" takes no sample_weight; use solver="sgd".')
        ridge = None if self.ridge == "auto" else float(self.ridge)
        fit = fit_exact(
            rows,
            signs,
            loss=smooth_relative(loss),
            ridge=ridge,
            validation_fraction=check_fraction("validation_fraction", self.validation_fraction),
            rng=rng,
        )
        self.classes_, self.ridge_, self.held_out_auc_ = classes, fit.ridge, fit.auc
        self.step_size_ = self.radius_ = np.inf
        self.trace_ = fit.trace
        self.n_steps_, self.n_gradients_ = fit.trace.n_steps, fit.trace.n_gradients
        self._stream = None
        self.coef_ = fit.w[np.newaxis]
        self._decide_from(rows, signs, np.empty(0), rng)
        return self

    def _decide_from(
        self, rows: Rows, signs: NDArray[np.float64], example_weight: NDArray[np.float64], rng: Any
    ) -> None:
        """Set threshold and calibration from training scores."""
        keep, weight = [], []
        for sign in (-1.0, 1.0):
            members = np.flatnonzero(signs == sign)
            count = len(members)
            if count > _SCORES_PER_CLASS:
                members = rng.choice(members, _SCORES_PER_CLASS, replace=False)
            keep.append(members)
            weight.append(np.full(len(members), count / max(len(members), 1)))
        index = np.concatenate(keep)
        weights = np.concatenate(weight)
        if len(example_weight):
            weights = weights * example_weight[index] / example_weight.mean()
        self._decide(rows.take(index).scores(self.coef_[0]), signs[index] > 0, weights)

    def _decide(
        self,
        scores: NDArray[np.float64],
        positive: NDArray[np.bool_],
        weight: NDArray[np.float64],
    ) -> None:
        if self.calibrate == "isotonic":
            self._calibrator: Sigmoid | Isotonic = fit_isotonic(scores, positive, weight)
        else:
            self._calibrator = fit_sigmoid(scores, positive, weight)
        if self.threshold == "probability":
            self._threshold = self._calibrator.score_of_half()
        elif isinstance(self.threshold, str):
            self._threshold = choose_threshold(
                scores, positive, weight, self.threshold, importance=self._importance()
            )
        else:
            self._threshold = float(self.threshold)

    def _importance(self) -> tuple[float, float]:
        """How much the recall of each class counts in the balanced accuracy."""
        if not isinstance(self.class_weight, Mapping):
            return (1.0, 1.0)
        negative, positive = (float(self.class_weight.get(c, 1.0)) for c in self.classes_.tolist())
        return (negative, positive)

    @property
    def threshold_(self) -> float:
        """The cut on ``X @ coef_[0]``."""
        check_is_fitted(self, "coef_")
        self._freshen()
        return self._threshold

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Minus the threshold, so that `decision_function` is positive where `predict` is."""
        return np.array([-self.threshold_])

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next chunk of a stream, in order (Algorithm 2).

        After `fit` the stream starts from its coefficients.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (2,), optional
            Both labels; needed in the first call, unless the model is fitted.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, for every chunk or for none. A pair weighs the product of both, unscaled.

        Returns
        -------
        self
            The classifier. A chunk that fails leaves it as it was.
        """
        first = not hasattr(self, "classes_")
        if self.solver != "sgd":
            raise ValueError(f'partial_fit needs solver="sgd", got {self.solver!r}.')
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        try:
            self._learn_chunk(X, y, classes, sample_weight, first=first)
        except BaseException:
            if first:
                # Validation has noted the features of a chunk that was not learned.
                for name in ("n_features_in_", "feature_names_in_"):
                    self.__dict__.pop(name, None)
            raise
        return self

    def _learn_chunk(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        *,
        first: bool,
    ) -> None:
        problem = self._problem()
        rows, labels = self._examples(X, y, reset=first, minimum=1)
        if classes is not None:
            known = np.unique(np.asarray(classes))
            if len(known) != 2:
                raise ValueError(f"classes must hold two labels, got {known.tolist()}.")
            if not first and not np.array_equal(known, self.classes_):
                raise ValueError(
                    f"classes={known.tolist()} differ from those of the model, "
                    f"{self.classes_.tolist()}."
                )
        else:
            known = self.classes_
        is_positive = labels == known[1]
        is_unknown = ~is_positive & (labels != known[0])
        if is_unknown.any():
            unknown = np.unique(labels[is_unknown])
            raise ValueError(
                f"y contains {unknown.tolist()}, which is not in classes={known.tolist()}."
            )
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all labels at once; pass a dict to partial_fit."
            )
        signs = np.where(is_positive, 1.0, -1.0)
        weight = self._example_weights(sample_weight, labels)
        learner = getattr(self, "_stream", None)
        if learner is None:
            start = None if first else self.coef_[0]
            learner = _StreamLearner(self, problem, rows, start)
        learner.learn(rows, signs, weight)
        self._stream = learner
        self.classes_ = known
        stream = learner.best
        self.coef_ = learner.average[np.newaxis]
        self.step_size_, self.radius_ = learner.step_size, learner.radius
        self.held_out_auc_ = learner.progressive_auc
        self.n_steps_, self.n_gradients_ = stream.n_steps, stream.n_gradients
        self.trace_ = Trace(n_steps=stream.n_steps, n_gradients=stream.n_gradients)
        self._stale = True

    def _freshen(self) -> None:
        """Find threshold and calibration of a stream from its latest progressive scores."""
        if self._stream is not None and self._stale:
            scores, positive, weight = self._stream.window()
            if min(weight[positive].sum(), weight[~positive].sum()) > 0:
                self._decide(scores, positive, weight)
            else:
                # Only one class so far: the sign of the score is all there is.
                self._threshold = 0.0 if isinstance(self.threshold, str) else float(self.threshold)
                self._calibrator = Sigmoid(1.0, -self._threshold)
            self._stale = False

    # ------------------------------------------------------------------------- prediction

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return scores minus the threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Positive where `predict` says positive; the order is that of the scores.
        """
        check_is_fitted(self, "coef_")
        self._freshen()
        return np.asarray(self._scores(X) - self._threshold)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted labels.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        decision = self.decision_function(X)
        return np.asarray(self.classes_[(decision > 0).astype(np.intp)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return calibrated probabilities, increasing in the score.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Probabilities of ``classes_``.
        """
        check_is_fitted(self, "coef_")
        self._freshen()
        positive = self._calibrator(self._scores(X))
        return np.column_stack([1.0 - positive, positive])

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the AUC, which is what the classifier maximises (not the accuracy).

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Labels, both of them present.
        sample_weight : array-like of shape (n_samples,), optional
            Weights.

        Returns
        -------
        float
            The area under the ROC curve.
        """
        decision = self.decision_function(X)
        return roc_auc(np.asarray(y) == self.classes_[1], decision, sample_weight=sample_weight)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return np.asarray(X @ self.coef_[0], dtype=np.float64)

    # ------------------------------------------------------------------------- parameters

    def _generator(self) -> np.random.Generator:
        if isinstance(self.random_state, np.random.Generator | np.random.RandomState):
            return check_generator(self.random_state)
        return np.random.default_rng(self.random_state)

    def _problem(self) -> Problem:
        if self.calibrate not in ("sigmoid", "isotonic"):
            raise ValueError(f'calibrate must be "sigmoid" or "isotonic", got {self.calibrate!r}.')
        names = (*THRESHOLDS, "probability")
        if isinstance(self.threshold, str):
            if self.threshold not in names:
                raise ValueError(
                    f"threshold must be a number or one of {names}, got {self.threshold!r}."
                )
        elif not np.isfinite(float(self.threshold)):
            raise ValueError(f"threshold must be a finite number, got {self.threshold!r}.")
        if self.dtype is not None and np.dtype(self.dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32, float64 or None, got {self.dtype!r}.")
        if self.solver not in ("sgd", "exact"):
            raise ValueError(f'solver must be "sgd" or "exact", got {self.solver!r}.')
        return Problem(LinearScore(), get_loss(self.loss))

    def _given_step_size(self) -> float | None:
        if self.step_size in ("auto", "theory"):
            return None
        return check_positive("step_size", self.step_size)  # type: ignore[arg-type]

    def _given_radius(self) -> float | None:
        if self.radius == "auto":
            return None
        return check_positive("radius", self.radius, allow_infinite=True)  # type: ignore[arg-type]

    def _n_steps(self, n: int) -> int:
        if self.n_passes == "auto":
            return int(np.clip(_AUTO_STEPS, n, 200 * n))
        passes = check_positive("n_passes", self.n_passes)  # type: ignore[arg-type]
        return max(int(np.ceil(passes * n)), 1)

    def _schedule(self, *, default: str) -> Schedule:
        schedule = default if self.schedule == "auto" else self.schedule
        if isinstance(schedule, Schedule):
            return schedule
        return _named("schedule", schedule, _SCHEDULES)(1.0)

    def _averaging(self) -> Averaging:
        if isinstance(self.averaging, Averaging):
            return self.averaging
        return _named("averaging", self.averaging, _AVERAGINGS)()

    def _pairing(self) -> Pairing:
        if isinstance(self.pairing, Pairing):
            return self.pairing
        size = check_count("buffer_size", self.buffer_size)
        makers: dict[str, Callable[[], Pairing]] = {
            "previous": PreviousExample,
            "random": RandomPair,
            "fifo": lambda: FifoBuffer(size),
            "opposite": PreviousOpposite,
            "reservoir": lambda: ReservoirBuffer(size),
            "class_reservoirs": lambda: ClassReservoirs(size, size),
            "all_previous": AllPrevious,
        }
        return _named("pairing", self.pairing, makers)()

    def _examples(
        self, X: Any, y: ArrayLike, *, reset: bool, minimum: int
    ) -> tuple[Rows, NDArray[Any]]:
        if not reset and _is_plain(X, y, self):
            return as_rows(X), np.asarray(y)
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32] if self.dtype is None else self.dtype,
            order="C",
            reset=reset,
            ensure_min_samples=minimum,
        )
        return as_rows(X, finite=True), np.asarray(y)

    def _example_weights(
        self, sample_weight: ArrayLike | None, labels: NDArray[Any]
    ) -> NDArray[np.float64]:
        if sample_weight is None and self.class_weight is None:
            return np.empty(0)
        weight = check_weights(
            np.ones(len(labels)) if sample_weight is None else sample_weight, len(labels)
        )
        if self.class_weight is not None:
            from sklearn.utils.class_weight import compute_sample_weight

            weight = weight * compute_sample_weight(self.class_weight, labels)
        return weight

    def _pair_weights(
        self,
        sample_weight: ArrayLike | None,
        labels: NDArray[Any],
        classes: NDArray[Any],
        signs: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return weights whose products over opposite pairs have mean 1."""
        weight = self._example_weights(sample_weight, labels)
        if not len(weight):
            return weight
        means = [float(weight[signs == sign].mean()) for sign in (-1.0, 1.0)]
        if not min(means) > 0:
            raise ValueError(
                f"The weight of all examples of one of the classes {classes.tolist()} is zero; "
                "both classes need a positive sample_weight and class_weight."
            )
        return np.asarray(weight / np.sqrt(means[0] * means[1]))


class _StreamLearner:
    """One stream, or a grid of streams of which the best is kept after the warm-up."""

    def __init__(
        self,
        owner: AUCClassifier,
        problem: Problem,
        rows: Rows,
        start: NDArray[np.float64] | None,
    ) -> None:
        if owner.step_size == "theory":
            raise ValueError(
                'step_size="theory" needs the number of examples beforehand; for a stream pass '
                "a number (pairlearn.theory.advise gives one) or step_size='auto'."
            )
        shape = owner._schedule(default="inverse_sqrt")
        averaging, pairing, rng = owner._averaging(), owner._pairing(), owner._generator()
        step_size, radius = owner._given_step_size(), owner._given_radius()
        self.radius = np.inf if radius is None else radius
        if step_size is None:
            mean, spread = rows.spread()
            scale = 2.0 * spread if spread > 0 else float(mean @ mean)
            self._steps = [c / scale if scale > 0 else c for c in _STREAM_STEPS]
        else:
            self._steps = [step_size]
        self._dtype = rows.X.dtype if isinstance(rows, DenseRows) else np.float64
        self._streams: list[Stream] = [
            PairwiseSGD(pairing, shape.scaled(step), _domain(self.radius), averaging).start(
                problem, rows.shape[1], rng=copy.deepcopy(rng), dtype=self._dtype, w_start=start
            )
            for step in self._steps
        ]
        self._averages = np.array([stream.average for stream in self._streams])
        self._progress = np.zeros(len(self._steps))
        self._pairs = 0.0
        self._scores = np.empty((len(self._steps), 0))
        self._positive = np.empty(0, dtype=bool)
        self._weight = np.empty(0)
        self._best = 0

    @property
    def best(self) -> Stream:
        """The stream with the highest progressive AUC."""
        return self._streams[self._best]

    @property
    def average(self) -> NDArray[np.float64]:
        """The average of the best stream."""
        return np.asarray(self._averages[self._best])

    @property
    def step_size(self) -> float:
        """The step size of the best stream."""
        return self._steps[self._best]

    @property
    def progressive_auc(self) -> float | None:
        """AUC of predictions made before learning, over the chunks that chose the step size."""
        return float(self._progress[self._best] / self._pairs) if self._pairs else None

    def window(self) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
        """Return the latest progressive scores of the best model, their labels and weights."""
        return self._scores[self._best], self._positive, self._weight

    def learn(
        self,
        rows: Rows,
        signs: NDArray[np.float64],
        weight: NDArray[np.float64],
    ) -> None:
        """Learn a chunk; `weight` may be empty."""
        if isinstance(rows, DenseRows) and rows.X.dtype != self._dtype:
            rows = DenseRows(rows.X.astype(self._dtype))
        scores = rows.scores(self._averages)
        # A stream that fails restores itself, not the ones before it.
        saved = [stream.save() for stream in self._streams[:-1]]
        try:
            for stream in self._streams:
                stream.learn_many(rows, signs, example_weight=weight if len(weight) else None)
        except BaseException:
            for stream, state in zip(self._streams, saved, strict=False):
                stream.restore(state)
            raise
        self._averages = np.array([stream.average for stream in self._streams])
        positive = signs > 0
        self._scores = np.concatenate([self._scores, scores], axis=1)[:, -_WINDOW:]
        self._positive = np.concatenate([self._positive, positive])[-_WINDOW:]
        latest = weight if len(weight) else np.ones(len(signs))
        self._weight = np.concatenate([self._weight, latest])[-_WINDOW:]
        if len(self._streams) > 1:
            self._compare(scores, positive)

    def _compare(self, scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> None:
        """Add a chunk to the progressive AUC of each stream; after the warm-up keep the best."""
        n_pairs = float(positive.sum()) * float((~positive).sum())
        if n_pairs:
            self._progress += [n_pairs * roc_auc(positive, row) for row in scores]
            self._pairs += n_pairs
        self._best = best = int(np.argmax(self._progress))
        if self.best.n_examples >= _WARM_UP:
            self._streams, self._steps = [self._streams[best]], [self._steps[best]]
            self._progress, self._scores = self._progress[[best]], self._scores[[best]]
            self._averages = self._averages[[best]]
            self._best = 0


def _named(name: str, value: Any, table: Mapping[str, Callable[..., _T]]) -> Callable[..., _T]:
    if not isinstance(value, str) or value not in table:
        raise ValueError(f"{name} must be one of {sorted(table)} or an object, got {value!r}.")
    return table[value]


def _domain(radius: float) -> WholeSpace | Ball:
    return WholeSpace() if np.isinf(radius) else Ball(radius)


def _is_plain(X: Any, y: Any, model: AUCClassifier) -> bool:
    """Tell an array that needs none of scikit-learn's conversions, which cost more than a chunk."""
    return (
        type(X) is np.ndarray
        and type(y) is np.ndarray
        and X.ndim == 2
        and y.shape == (len(X),)
        and len(X) > 0
        and X.shape[1] == model.n_features_in_
        and X.dtype == (X.dtype if model.dtype is None else model.dtype)
        and X.dtype in (np.float64, np.float32)
        and y.dtype.kind in "iufUS"
        and not hasattr(model, "feature_names_in_")
    )


def _two_classes(labels: NDArray[Any]) -> NDArray[Any]:
    if labels.dtype.kind in "iuf":
        # Two numbers are found without sorting all of them.
        low, high = labels.min(), labels.max()
        if low != high and ((labels == low) | (labels == high)).all():
            return np.array([low, high])
    classes = np.unique(labels)
    if len(classes) > 2:
        check_classification_targets(labels)
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"y has {len(classes)} classes. Train one classifier per pair of classes "
            "(sklearn.multiclass.OneVsOneClassifier)."
        )
    if len(classes) < 2:
        raise ValueError(
            f"AUC needs examples of both classes, but y has one class: {classes.tolist()}. "
            "Add examples of the other class."
        )
    return np.asarray(classes)


def _warn_of_scales(rows: Rows, rng: np.random.Generator) -> None:
    """Warn when the scales of the features differ by orders of magnitude."""
    if not isinstance(rows, DenseRows):
        return
    n = rows.shape[0]
    part = rows.X if n <= 1000 else rows.X[rng.integers(0, n, 1000)]
    deviation = part.std(axis=0, dtype=np.float64)
    moving = deviation[deviation > 0]
    if len(moving) > 1 and moving.max() > 1e3 * moving.min():
        warnings.warn(
            f"The standard deviations of the features range from {moving.min():.2g} to "
            f"{moving.max():.2g}; gradient descent hardly sees the small ones. Scale the features, "
            "for example with sklearn.preprocessing.StandardScaler.",
            UserWarning,
            stacklevel=3,
        )
