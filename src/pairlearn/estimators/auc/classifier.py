# SPDX-License-Identifier: BSD-3-Clause
"""AUC maximisation as a scikit-learn classifier."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from pairlearn.averaging import Averaging
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.auc.classes import AUCClasses
from pairlearn.estimators.auc.exact import fit_exact
from pairlearn.estimators.auc.shapes import Explanation, explain
from pairlearn.estimators.auc.top import fit_top
from pairlearn.estimators.shared.by_name import (
    as_averaging,
    as_pairing,
    as_schedule,
    auto_steps,
)
from pairlearn.estimators.shared.choice import (
    Choice,
    advice_for,
    choose,
    find_classes,
    opposite_scale,
    relative_radii,
    relative_steps,
)
from pairlearn.estimators.shared.features_seen import see_features
from pairlearn.estimators.shared.maps import (
    as_map,
    choose_features,
    fit_map,
    fit_moments,
    is_linear,
    map_rows,
    signs_of,
)
from pairlearn.estimators.shared.published import DEFERRED, publish
from pairlearn.estimators.shared.scaling import Scaling, scaled_rows
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import (
    chunk_weights,
    example_weights,
    opposite_pair_weights,
)
from pairlearn.features import FeatureMap, Identity
from pairlearn.losses import PairLoss
from pairlearn.models.provenance import data_fingerprint
from pairlearn.pairings import Pairing, PreviousExample, RandomPair
from pairlearn.problem import Problem
from pairlearn.progress import Progress
from pairlearn.schedules import Schedule
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.running import Callback
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_generator

__all__ = ["AUCClassifier"]

#: Steps of a run with n_passes="auto": this many if the classes are balanced, but from 1 to 200
#: passes, and more, up to ten times as many, where opposite pairs are rare.
_AUTO_STEPS, _RAREST = 500_000, 0.1
#: Examples that descent for the top of the list learns with n_passes="auto", and passes at most. An
#: example meets a thousand others at a time: 20 passes were as good as 200 (10 sets, 2 splits).
_TOP_STEPS, _TOP_PASSES = 100_000, 20


class AUCClassifier(AUCClasses, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Linear classifier that maximises the area under the ROC curve.

    Minimises the pair risk

    .. math:: F_S(w) = \frac{1}{n(n-1)} \sum_{i \neq j} \ell(y_i \langle w, x_i - x_j \rangle)
              \, 1[y_i \neq y_j]

    by stochastic gradient descent over a ball, pairing each example with the previous one
    (Algorithm 1 of the paper; `partial_fit` is Algorithm 2), or exactly where that is cheap.
    Features are first brought to a common scale, so that their units do not matter.

    More than two classes have one score for each pair of them, found in closed form by
    `MulticlassAUCClassifier`, on mapped features if `features` says so. Of the parameters those
    that mean something there are taken (`loss` "auto", "square" or "squared_hinge", `ridge`,
    `scaling`, `features`, `validation_fraction`, `class_weight`, `dtype`, `max_memory`), and
    others are refused.

    Parameters
    ----------
    loss : str or PairLoss, default="auto"
        "hinge", "squared_hinge", "square", "logistic", "exponential", "loglink",
        "smoothed_hinge", or a loss of your own. "auto" is the hinge for stochastic gradient descent
        and the squared hinge for the exact solver.
    step_size : float, "auto" or "theory", default="auto"
        The scale of the step sizes. "auto" trains a grid of step sizes and radii on one sample
        path and keeps the best by AUC on held-out training data; in `partial_fit` it is 3, or
        without `scaling` the best of a grid by the AUC of predictions made before learning, over
        the first 4096 examples. "theory" takes the
        step size that minimises the bound on the excess risk (Theorem 2, or Theorem 1 for a
        loss with a kink; `pairlearn.theory.advise_auc`). It needs a finite `radius`, reads the
        largest norm of a row of X as the bound on the norm of an example, and is cautious: a
        bound covers the worst case. For `fit` only.
    radius : float or "auto", default="auto"
        Radius of the ball that the coefficients live in; infinity for none. "auto" is chosen
        together with the step size; in `partial_fit`, and with a given step size, it means none.
    n_passes : float or "auto", default="auto"
        Number of steps in units of the number of examples. "auto" takes 500,000 steps, up to ten
        times as many where one class is rare, but at least 1 and at most 200 passes; 100,000 and 20
        with another `objective` than "auc".
    schedule : str or Schedule, default="auto"
        "constant" (the default of `fit`), "inverse_sqrt" (the default of `partial_fit`, whose
        horizon is not known), "inverse_time", or a schedule, whose scale is then multiplied by
        the step size.
    averaging : str or Averaging, default="step_size"
        "step_size" (the paper's average), "linear", "undelayed", "uniform", "tail", "last" or a
        rule.
    pairing : str or Pairing, default="previous"
        "previous", "shuffled" (the previous one too, with passes in random order in the place of
        independent draws), "random" (uniform pairs; like "shuffled" not for `partial_fit`), "fifo"
        (the last `buffer_size` examples), "opposite" (the latest of the other class), "reservoir"
        and "class_reservoirs" (random samples of the past, of both classes or of each),
        "all_previous", or a pairing.
    buffer_size : int, default=1
        Number of examples that each one meets with "fifo", "reservoir" and "class_reservoirs".
    threshold : float or str, default="balanced_accuracy"
        Scores above the threshold are predicted positive. A criterion ("balanced_accuracy",
        "accuracy", "f1") is maximised on training scores; "cost" makes decisions on them as cheap
        as can be, with `costs`; "probability" cuts where `predict_proba` crosses 1/2.
    calibrate : {"sigmoid", "isotonic"}, default="sigmoid"
        How `predict_proba` maps scores to probabilities: fitted on training scores and monotone.
    validation_fraction : float, default=0.2
        Share of the training data held out to choose step size and radius. With fewer than 200
        held-out examples of the rarer class all parts are held out in turn (cross-validation), as
        always with the exact solver, whose folds have this share. The final model is trained on
        all data.
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
    solver : {"auto", "sgd", "exact", "moments"}, default="auto"
        "sgd" is Algorithm 1. "exact" minimises the mean loss over all opposite pairs plus
        ridge times the squared norm of the coefficients: in closed form for the square loss, by
        Newton's method or L-BFGS with exact gradients otherwise. It is for data in memory and
        convex smooth losses. "auto" is exact for few examples (fewer than 1,000 of the rarer class
        if X is dense, at most 4 million numbers if it is sparse), where a choice of step size and
        radius is noise and the exact solution is cheap, unless a parameter that only the other
        solver looks at is given. With fewer than 300 of the rarer class it mixes the solution with
        Fisher's discriminant, by the share that is best on held-out folds (`choice_.fisher`; 0 if
        none is better by a standard error), unless rows are wide or stay sparse, features are
        mapped or not scaled, or a solver, a loss or a ridge is named. A parameter that the named
        solver would ignore is refused.
        "moments" is the square loss in closed form by the moments of the two classes, in one pass
        over blocks of mapped rows, which are never held together; in `partial_fit`, one pass gives
        what `fit` would give. "auto" takes it for features that are many and say little each
        (Fourier), and where mapped rows exceed `max_memory`, unless `objective` asks for more.
    ridge : float or "auto", default="auto"
        The ridge of the exact solver, for features of mean variance 1. "auto" takes the best of
        100, 10, ..., 1e-6 by AUC over stratified folds, dealt three times if the rarer class has
        fewer than 60 examples; with "moments", of 1, .1, ..., 1e-4, on one fold if there are many.
    scaling : "auto" or None, default="auto"
        "auto" centres each feature and divides it by its standard deviation, but at least by a
        tenth of its range (so that rare indicators are not blown up), and leaves out what is
        constant up to rounding; sparse features are not centred, which pairs do not notice. The
        coefficients are in the units of X, but `step_size`, `radius` and `ridge` refer to scaled
        features. `partial_fit` finds the scales on the way, see
        `solvers.streams.running_scales`; its scaled features have variances that add up to 1.
        None is the bare algorithm of the paper, and so is "auto" with
        ``step_size="theory"``, whose bound is about the features as they are.
    n_jobs : int or None, default=None
        Threads that try the folds of the exact solver, -1 for all processors. The result does not
        depend on it.
    callbacks : sequence of callable or None, default=None
        Each is called between blocks of steps with a `Running`: `step`, `seconds`, `n_gradients`,
        `risk`, `average` and `w`.
    warm_start : bool, default=False
        Whether `fit` starts from the coefficients of the previous fit.
    features : {"linear", "hats", "fourier", "auto"} or FeatureMap, default="linear"
        What the score is linear in: the features as they are, piecewise linear functions of each
        (`Hats`: an additive model), sines and cosines of random projections (`RandomFourier`: a
        kernel machine), or a map of `pairlearn.features` or your own; one that is fitted already
        stays as it is. "auto" takes the simplest of the three that is within a standard error of
        the best by AUC on held-out training data; `choice_` says why.
    max_memory : float, default=2**30
        Bytes that mapped rows may take. Where all of them do not fit, blocks are mapped as they
        are needed, by "moments"; a solver that needs all of them is refused.
    monotone : mapping or None, default=None
        Features, by name or number, whose function must increase (1) or decrease (-1), for hats:
        ``monotone={"age": 1}``. It is solved by "moments".
    objective : {"auc", "partial_auc", "average_precision", "push"}, default="auc"
        What to be good at. The others look at the top of the list and need a loss that falls with
        the margin: "partial_auc" takes the pairs with the worst share `max_fpr` of negatives (and
        the worst share 1 - `min_tpr` of positives), "push" the p-norm of the losses of the
        negatives, "average_precision" a smooth surrogate, whose ridge weighs the distance to the
        minimiser for "auc" (with a ridge of its own, `choice_.anchor_ridge`) in place of zero.
        The exact solver is the default of `fit`; its ridge, and the step size of ``solver="sgd"``,
        are chosen by partial AUC or average precision. "sgd" and `partial_fit` learn batches
        together with a sample of the past, see `pairlearn.solvers.top.stream`; of the parameters of
        stochastic gradient descent they take `step_size`, `radius` and `n_passes`.
    max_fpr, min_tpr : float or None, default=None
        For ``objective="partial_auc"``.
    power : float or None, default=None
        For ``objective="push"``: the larger, the more the highest negatives count. If None, the
        better of 2 and 8 on held-out data where the exact solver chooses the ridge, else 8;
        `choice_.top` says which.
    costs : tuple of two floats or None, default=None
        For ``threshold="cost"``: what a false positive and a false negative cost. Weights of
        examples multiply them.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels; of two the second is the positive one.
    coef_ : ndarray of shape (1, n_features) or (n_pairs, n_features)
        Coefficients; with `features`, of mapped features. More than two classes have a row for
        each pair: first with second class, first with third, ...
    features_ : FeatureMap
        The fitted map, `Identity` for a linear score.
    intercept_ : ndarray of shape (1,)
        Minus the threshold, so that `decision_function` is positive where `predict` is.
    threshold_ : float
        The cut on ``X @ coef_[0]``. More than two classes have neither threshold nor intercept.
    pairs_ : MulticlassAUCClassifier
        With more than two classes, the scores of the pairs and how they are coupled.
    solver_ : str
        What `fit` used, "sgd", "exact" or "moments".
    loss_ : PairLoss
        The loss that it minimised.
    step_size_, radius_, ridge_ : float or None
        The values used; None for what the solver does not have.
    choice_ : Choice
        What was chosen, all candidates that were tried, and for each its AUC on held-out training
        data with the standard error over the folds.
    advice_ : Advice or None
        After `fit` with ``step_size="theory"``: the recommendation and the value of the bound.
    held_out_auc_ : float or None
        The AUC by which step size and radius, or the ridge, were chosen; with another objective,
        the metric that stands for it, and with more than two classes Hand and Till's M.
    n_steps_, n_gradients_ : int
        Steps taken and pairs evaluated.
    n_examples_ : int
        Examples seen.
    data_fingerprint_ : str or None
        Digest of the data of `fit`, see `pairlearn.models.data_fingerprint`; None for a stream.
    trace_ : Trace
        What happened on the way.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    In stochastic gradient descent `sample_weight` multiplies gradients; weights of zero leave an
    example out of all pairs but not out of the sampled path.

    References
    ----------
    Yang, Lei, Wang, Yang, Ying. Simple stochastic and online gradient descent algorithms for
    pairwise learning. NeurIPS 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from pairlearn import AUCClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AUCClassifier(random_state=0).fit(X, y)
    >>> bool(clf.score(X, y) > 0.99), clf.solver_
    (True, 'exact')
    """

    def __init__(
        self,
        loss: str | PairLoss = "auto",
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
        solver: str = "auto",
        ridge: float | str = "auto",
        scaling: str | None = "auto",
        n_jobs: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        warm_start: bool = False,
        features: str | FeatureMap = "linear",
        max_memory: float = 2**30,
        monotone: Mapping[str | int, int] | None = None,
        objective: str = "auc",
        max_fpr: float | None = None,
        min_tpr: float | None = None,
        power: float | None = None,
        costs: tuple[float, float] | None = None,
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
        self.scaling = scaling
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.features = features
        self.max_memory = max_memory
        self.monotone = monotone
        self.objective = objective
        self.max_fpr = max_fpr
        self.min_tpr = min_tpr
        self.power = power
        self.costs = costs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --------------------------------------------------------------------------- training

    @one_at_a_time
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on stored examples (Algorithm 1).

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Two kinds of labels, or more.
        sample_weight : array-like of shape (n_samples,), optional
            A pair weighs the product of the weights of its two examples, scaled so that the
            mean weight of an opposite pair is 1.

        Returns
        -------
        self
            The fitted classifier.
        """
        self._check_parameters()
        given, labels = self._examples(X, y, reset=True, minimum=2, finite=None)
        classes = find_classes(labels)
        if len(classes) > 2:
            return self._fit_pairs(given, labels, classes, sample_weight)
        y = np.where(labels == classes[1], 1.0, -1.0)
        rng = check_generator(self.random_state)
        weight = example_weights(sample_weight, self.class_weight, labels)
        weight = opposite_pair_weights(weight, y > 0, classes)
        if not is_linear(self.features):
            given.checked()  # else the scaling, which reads every value, looks for NaN on the way
        features, found = self._features_for(given, y, weight, rng)
        source, solver = self._source_for(features, given)
        bare = self.scaling is None or self.step_size == "theory" or solver == "moments"
        # Weights of classes say nothing about units.
        counts = chunk_weights(sample_weight, len(y))
        scaling, rows = None, source
        if solver == "moments":  # which are scaled themselves
            rows.checked()
        else:
            scaling, rows = scaled_rows(
                None if bare else "auto", source, counts, mapped=not isinstance(features, Identity)
            )
        solver = solver or self._solver_for(rows, y)
        self.loss_ = self._loss_for(solver)
        self.advice_ = None
        if scaling is not None and scaling.n_constant == rows.shape[1]:
            # A warning has said so: no coefficient makes a difference.
            w, choice, self.trace_ = np.zeros(rows.shape[1]), Choice(), Trace()
        elif solver == "moments":
            w, choice = self._fit_moments(features, given, y, weight, rng, found)
        elif solver == "exact":
            plain = isinstance(features, Identity)
            w, choice = self._fit_exact(rows, y, weight, rng, plain and self._is_free())
        elif self.objective != "auc":
            w, choice = self._fit_top(rows, y, weight, rng)
        else:
            start = self._warm_start(rows.shape[1], scaling)
            w, choice = self._fit_sgd(rows, y, weight, start, rng)
        if found is not None:
            choice = replace(choice, features=found[0])
            if self.verbose:
                print(found[0].reason, file=sys.stderr)
        self._record(solver, choice, len(y), data_fingerprint(given, y.astype(np.int8)))
        self._known_scales = scaling
        coef = (w if scaling is None else scaling.to_user(w))[np.newaxis]
        publish(self, coef_=coef, classes_=classes, features_=features, **{DEFERRED: ()})
        self._decide_from(given, y, weight, rng)
        return self

    @one_at_a_time
    def adopt_solution(
        self,
        w: Vector,
        *,
        classes: NDArray[Any],
        feature_names: list[str] | None,
        loss: PairLoss,
        choice: Choice,
        trace: Trace,
        scores: tuple[Vector, Mask, Vector],
        n_examples: int,
        fingerprint: str | None,
        features: FeatureMap | None = None,
    ) -> Self:
        """Become the model whose coefficients were found elsewhere, on many machines for example.

        Parameters
        ----------
        w : ndarray of shape (d,)
            Coefficients, in the units of the user.
        classes : ndarray of shape (2,)
            The labels; the second is the positive one.
        feature_names : list of str, optional
            Names of the features.
        loss, choice, trace : PairLoss, Choice, Trace
            What was minimised, what was chosen, and what it took.
        scores : tuple of three ndarrays
            Training scores, or representatives of them, whether each is positive, and their
            weights: what threshold and calibration are found from.
        n_examples : int
            Number of training examples.
        fingerprint : str, optional
            Digest of the data.
        features : FeatureMap, optional
            The fitted map whose features the coefficients belong to.

        Returns
        -------
        self
            The fitted classifier.
        """
        self._check_parameters()
        width = len(w) if features is None else features.n_inputs
        see_features(self, {"n_features": width, "feature_names": feature_names})
        self.loss_, self.trace_, self.advice_ = loss, trace, None
        solver = "exact" if features is None else "moments"
        self._record(solver, choice, n_examples, fingerprint)
        coef = np.asarray(w, dtype=np.float64)[np.newaxis]
        publish(self, coef_=coef, classes_=classes, features_=features, **{DEFERRED: ()})
        self._decision = self._decide(*scores)
        return self

    # --------------------------------------------------------------------------- features

    def _features_for(
        self,
        given: Rows,
        y: Vector,
        weight: Vector,
        rng: np.random.Generator,
    ) -> tuple[FeatureMap, tuple[Any, Any] | None]:
        """Return the fitted map; if it was chosen, also the evidence and its moments."""
        if is_linear(self.features):
            return Identity().fit(np.zeros((1, given.shape[1]))), None
        # Numbers of their own, so that a linear choice is trained as it is by itself.
        draws = copy.deepcopy(rng)
        if isinstance(self.features, str) and self.features == "auto" and not self.monotone:
            choice, features, held_out = choose_features(
                given,
                y,
                weight=weight,
                validation_fraction=self.validation_fraction,
                max_memory=self.max_memory,
                rng=draws,
            )
            return features, (choice, held_out)
        return fit_map(as_map(self.features, given, y), given, draws), None

    def _source_for(self, features: FeatureMap, given: Rows) -> tuple[Rows, str | None]:
        """Return the rows to train on, and the solver if features decide about it."""
        plain = isinstance(features, Identity)
        if self.solver == "moments" or self.monotone:
            return given, "moments"
        if plain:
            return given, None
        if self.warm_start and hasattr(self, "coef_") and features is not self.features:
            raise ValueError(
                "warm_start=True needs features that stay the same: pass a map that is fitted."
            )
        too_large = 8.0 * given.shape[0] * features.n_outputs > self.max_memory
        if self._suits_moments() and (features.closed_form or too_large):
            return given, "moments"
        other = 'solver="moments"' if self.objective == "auc" else "a map of fewer features"
        cure = f"use {other}, or a larger max_memory."
        return as_rows(map_rows(features, given, self.max_memory, cure), finite=True), None

    def _fit_moments(
        self,
        features: FeatureMap,
        rows: Rows,
        y: Vector,
        weight: Vector,
        rng: np.random.Generator,
        found: tuple[Any, Any] | None,
    ) -> tuple[Vector, Choice]:
        """Return the minimiser in closed form, and how its ridge was chosen."""
        w, choice = fit_moments(
            features,
            rows,
            y,
            loss=self.loss_,
            ridge=None if self.ridge == "auto" else float(self.ridge),
            weight=weight,
            validation_fraction=self.validation_fraction,
            max_memory=self.max_memory,
            scaled=self.scaling is not None,
            signs=signs_of(self.monotone, features, getattr(self, "feature_names_in_", None)),
            held_out=None if found is None else found[1],
            rng=rng,
        )
        self.trace_ = Trace(n_steps=len(y), n_gradients=len(y))
        return w, choice

    def explain(self, x: ArrayLike) -> Explanation:
        """Return what each feature adds to the score of one example, see `pairlearn.explain`."""
        return explain(self, x)

    def _restore_map(self, features: FeatureMap) -> None:
        publish(self, features_=features)

    @property
    def features_(self) -> FeatureMap:
        """The fitted map, `Identity` for a linear score."""
        model = self._published()
        found: FeatureMap | None = model.get("features_")
        return Identity().fit(np.zeros((1, self.n_features_in_))) if found is None else found

    def _fit_sgd(
        self,
        rows: Rows,
        y: Vector,
        weight: Vector,
        start: Vector | None,
        rng: np.random.Generator,
    ) -> tuple[Vector, Choice]:
        """Return the average of Algorithm 1, and how its step size and radius were chosen."""
        problem = Problem(LinearScore(), self.loss_)
        # Only opposite pairs teach anything: where they are rare, there are more steps.
        n_positive = int(np.count_nonzero(y > 0))
        share = 4.0 * (n_positive / len(y)) * ((len(y) - n_positive) / len(y))
        budget = int(_AUTO_STEPS / max(share, _RAREST))
        n_steps = auto_steps(self.n_passes, len(y), budget=budget)
        pairing = as_pairing(self.pairing, self.buffer_size)
        averaging = as_averaging(self.averaging)
        shape = as_schedule(self.schedule, default="constant")
        step_size, radius = self._given_step_size(), self._given_radius()
        choice = Choice(step_size, np.inf if radius is None else radius)
        if self.step_size == "theory":
            advice = self.advice_ = advice_for(
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
            choice = Choice(advice.step_size, choice.radius)
        elif step_size is None:
            scale = opposite_scale(rows, y, rng)
            choice = choose(
                problem,
                rows,
                y,
                n_steps=n_steps,
                pairing=pairing
                if isinstance(pairing, PreviousExample | RandomPair)
                else PreviousExample(),
                schedule=shape,
                averaging=averaging,
                step_sizes=relative_steps(scale),
                radii=relative_radii(scale) if radius is None else (radius,),
                validation_fraction=self.validation_fraction,
                example_weight=weight,
                rng=rng,
            )
        assert choice.step_size is not None
        solver = PairwiseSGD(
            pairing, shape.scaled(choice.step_size), ball_or_whole(choice.radius), averaging
        )
        with contextlib.ExitStack() as stack:
            callbacks = list(self.callbacks or ())
            if self.verbose:
                bar = stack.enter_context(Progress(n_steps, unit="steps", asked_for=True))
                told = "" if choice.auc is None else f", {_evidence(choice)}"
                callbacks.append(
                    lambda run: bar.update(run.step, note=f"pair risk {run.risk:.4g}{told}")
                )
            solution = solver.solve(
                problem,
                rows,
                y,
                n_steps=n_steps,
                rng=rng,
                w_start=start,
                example_weight=weight if len(weight) else None,
                callbacks=callbacks,
            )
        self.trace_ = solution.trace
        return solution.average, choice

    def _fit_top(
        self,
        rows: Rows,
        y: Vector,
        weight: Vector,
        rng: np.random.Generator,
    ) -> tuple[Vector, Choice]:
        """Return what descent finds for the top of the list, and how its step size was chosen."""
        objective = self._objective()
        objective.check_data(y)
        n_steps = auto_steps(self.n_passes, len(y), budget=_TOP_STEPS, most_passes=_TOP_PASSES)
        w, choice, self.trace_ = fit_top(
            rows,
            y,
            objective=objective,
            loss=self.loss_,
            weight=weight,
            step_size=self._given_step_size(),
            radius=self._given_radius(),
            n_passes=n_steps / len(y),
            is_scaled=self.scaling is not None,
            validation_fraction=self.validation_fraction,
            rng=rng,
        )
        if self.verbose:
            told = "" if choice.auc is None else f", {_evidence(choice, objective.title)}"
            print(f"batches, step size {choice.step_size:g}{told}", file=sys.stderr)
        return w, choice

    def _fit_exact(
        self,
        rows: Rows,
        y: Vector,
        weight: Vector,
        rng: np.random.Generator,
        free: bool,
    ) -> tuple[Vector, Choice]:
        """Return the exact minimiser, if free with a share of another, and how both were chosen."""
        objective = self._objective()
        objective.check_data(y)
        fit = fit_exact(
            rows,
            y,
            loss=self.loss_,
            ridge=None if self.ridge == "auto" else float(self.ridge),
            weight=weight,
            validation_fraction=self.validation_fraction,
            n_jobs=self.n_jobs,
            rng=rng,
            objective=objective,
            fisher=None if free else 0.0,
        )
        self.trace_ = fit.trace
        if self.verbose:
            top = "" if fit.choice.top is None else f"{fit.choice.top!r} of "
            chosen = f"exact solver, {top}{type(self.loss_).__name__}, ridge {fit.choice.ridge:g}"
            if fit.choice.fisher:
                chosen += f", Fisher's discriminant by {fit.choice.fisher:g}"
            told = "" if fit.choice.auc is None else f", {_evidence(fit.choice, objective.title)}"
            print(f"{chosen}{told}", file=sys.stderr)
        return fit.w, fit.choice

    def _is_free(self) -> bool:
        """Whether nothing was asked for that a share of another model would not honour."""
        return self.solver == self.loss == self.ridge == "auto" and self.scaling is not None

    def _warm_start(self, n_features: int, scaling: Scaling | None) -> Vector | None:
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        start = self.coef_[0]
        if len(start) != n_features:
            raise ValueError(
                f"warm_start: X has {n_features} features, the model has {len(start)}."
            )
        return start if scaling is None else scaling.from_user(start)


def _evidence(choice: Choice, title: str = "AUC") -> str:
    """Return how good the chosen candidate was, for a person."""
    found = choice.evidence
    assert found is not None
    error = "" if found.n_folds == 1 else f" +- {found.standard_error:.4f}"
    return f"held-out {title} {found.auc:.4f}{error}"


register_storable(AUCClassifier)
