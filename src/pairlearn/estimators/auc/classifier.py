# SPDX-License-Identifier: BSD-3-Clause
"""AUC maximisation as a scikit-learn classifier: a composition of parts."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin

from pairlearn.estimators.auc.many import check_closed_form, map_for, pair_parameters
from pairlearn.estimators.auc.shapes import Explanation, explain
from pairlearn.estimators.auc.streams import AUCStreams
from pairlearn.estimators.auc.task import Composition, Task
from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.examples import find_classes, is_plain, validate_data
from pairlearn.estimators.shared.features_seen import see_features
from pairlearn.estimators.shared.maps import (
    as_map,
    choose_features,
    fit_map,
    is_linear,
    map_rows,
)
from pairlearn.estimators.shared.published import DEFERRED, publish
from pairlearn.estimators.shared.rules import DecisionRule
from pairlearn.estimators.shared.scaling import Scaling, scaled_rows
from pairlearn.estimators.shared.solvers import SGD, Fitted, Solver
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import (
    chunk_weights,
    example_weights,
    opposite_pair_weights,
)
from pairlearn.features import FeatureMap, Hats, Identity
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.models.provenance import data_fingerprint
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.running import Callback
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.top.objectives import Objective
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Labels, Mask, Vector
from pairlearn.validation import check_generator

__all__ = ["AUCClassifier"]


class AUCClassifier(AUCStreams, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Classifier that orders the positives before the negatives: it maximises AUC.

    Minimises the pair risk of a score that is linear in the features,

    .. math:: F_S(w) = \frac{1}{n(n-1)} \sum_{i \neq j} \ell(y_i \langle w, x_i - x_j \rangle)
              \, 1[y_i \neq y_j],

    exactly where that is cheap, else by stochastic gradient descent that pairs each example with
    the previous one (Algorithm 1 of the paper; `partial_fit` is Algorithm 2). Features are first
    brought to a common scale, so that their units do not matter.

    Each part is a name or an object with its own settings. A name stands for the object with its
    defaults. ``solver__step_size`` and the like work in a grid search.

    Parameters
    ----------
    objective : str or Objective, default="auc"
        What to be good at. "auc": all pairs count the same. The others look at the top of the list:
        "partial_auc" (`PartialArea`) takes the pairs with the worst share of negatives, "push"
        (`Push`) a p-norm of the losses of the negatives, "average_precision" (`SmoothPrecision`) a
        smooth form of it. Or an objective of your own.
    features : str or FeatureMap, default="linear"
        What the score is linear in: "linear", "hats" (`Hats`: a curve for each feature, monotone
        if it says so), "fourier" (`RandomFourier`: a kernel machine), or a map, which stays as it
        is if it is fitted. "auto" takes the simplest of the three that is within a standard error
        of the best on held-out training data.
    loss : str or PairLoss, default="auto"
        "hinge", "squared_hinge", "square", "logistic", "exponential", "loglink",
        "smoothed_hinge", or a loss of your own. "auto" is the loss that suits the solver: the hinge
        for descent, the square for moments, else the squared hinge.
    solver : str or Solver, default="auto"
        How to get there: "sgd" (`SGD`: the paper's algorithms), "exact" (`Exact`: the minimiser,
        for data in memory), "moments" (`Moments`: the square loss from class moments, in one
        pass), or a solver of your own. "auto" is exact for few examples, moments for maps of many
        features that say little each, and else descent; the guide "what auto does" has the rules.
    scaling : "auto" or None, default="auto"
        "auto" divides each feature by its standard deviation, but at least by a tenth of its
        range, and leaves constant ones out. Coefficients are in the units of X; step sizes, radii
        and ridges refer to scaled features. None is the bare algorithm of the paper, and so is
        "auto" with ``SGD(step_size="theory")``, whose bound is about the features as they are.
    decision : float, str or DecisionRule, default="balanced_accuracy"
        How scores become labels and probabilities: "balanced_accuracy", "accuracy" or "f1" is
        maximised on training scores; "probability" cuts where `predict_proba` crosses 1/2; a
        number is the cut. `Threshold` also names the calibration; `Costs` makes decisions cheap.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with `sample_weight`. They move the threshold and the
        probabilities, and not the coefficients: every pair has one example of each class, so
        weights of classes only scale the loss.
    validation_fraction : float, default=0.2
        Share of the training data of a held-out fold, where anything is chosen. The final model is
        trained on all data.
    warm_start : bool, default=False
        Whether `fit` starts from the coefficients of the previous fit; for descent.
    callbacks : sequence of callable or None, default=None
        Each is called between blocks of steps of descent with a `Running`.
    n_jobs : int or None, default=None
        Threads that try the folds of the exact solver, -1 for all processors. The result does not
        depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Source of sampled indices and folds.
    verbose : int, default=0
        1 tells on stderr what was chosen, and shows a progress bar of descent.

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
        The name of the solver that was used.
    loss_ : PairLoss
        The loss that it minimised.
    step_size_, radius_, ridge_ : float or None
        The values used; None for what the solver does not have.
    choice_ : Choice or None
        What was chosen, all candidates that were tried, and for each its value on held-out training
        data with the standard error over the folds; None for a stream.
    advice_ : Advice or None
        After `fit` with ``SGD(step_size="theory")``: the recommendation and the bound.
    held_out_auc_ : float or None
        The AUC by which settings were chosen; with another objective, the metric that stands for
        it, and with more than two classes Hand and Till's M.
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
    More than two classes have one score for each pair of them, found in closed form by
    `MulticlassAUCClassifier`; parts that mean nothing there are refused. In descent,
    `sample_weight` multiplies gradients; weights of zero leave an example out of all pairs but not
    out of the sampled path.

    References
    ----------
    Yang, Lei, Wang, Yang, Ying. Simple stochastic and online gradient descent algorithms for
    pairwise learning. NeurIPS 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from pairlearn import SGD, AUCClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AUCClassifier(random_state=0).fit(X, y)
    >>> bool(clf.score(X, y) > 0.99), clf.solver_
    (True, 'exact')
    >>> AUCClassifier(solver=SGD(pairing="opposite"))
    AUCClassifier(solver=SGD(pairing='opposite'))
    """

    def __init__(
        self,
        objective: str | Objective = "auc",
        *,
        features: str | FeatureMap = "linear",
        loss: str | PairLoss = "auto",
        solver: str | Solver = "auto",
        scaling: str | None = "auto",
        decision: float | str | DecisionRule = "balanced_accuracy",
        class_weight: dict[Any, float] | str | None = None,
        validation_fraction: float = 0.2,
        warm_start: bool = False,
        callbacks: Sequence[Callback] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.objective = objective
        self.features = features
        self.loss = loss
        self.solver = solver
        self.scaling = scaling
        self.decision = decision
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

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
        parts = self._composition()
        given, labels = self._examples(X, y, reset=True, minimum=2, finite=None)
        classes = find_classes(labels)
        if len(classes) > 2:
            return self._fit_pairs(parts, given, labels, classes, sample_weight)
        y = np.where(labels == classes[1], 1.0, -1.0)
        rng = check_generator(self.random_state)
        weight = example_weights(sample_weight, self.class_weight, labels)
        weight = opposite_pair_weights(weight, y > 0, classes)
        features, found = self._features_for(given, y, weight, rng)
        linear = isinstance(features, Identity)
        solver = parts.before_mapping(features, len(y), linear=linear)
        rows, scaling = self._rows_for(
            parts, solver, features, given, chunk_weights(sample_weight, len(y))
        )
        solver = solver or parts.by_data(rows, y)
        task = Task(
            parts.objective,
            parts.loss_for(solver),
            features,
            parts.is_scaled,
            rng,
            self.validation_fraction,
            free=linear and parts.is_scaled and parts.solver is None and parts.loss is None,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            callbacks=self.callbacks or (),
            start=self._warm_start(rows.shape[1], scaling),
            signs=features.signs(getattr(self, "feature_names_in_", None))
            if isinstance(features, Hats)
            else None,
            held_out=None if found is None else found[1],
        )
        if scaling is not None and scaling.n_constant == rows.shape[1]:
            # A warning has said so: no coefficient makes a difference.
            fitted = Fitted(np.zeros(rows.shape[1]), solver.name, task.loss, Choice(), Trace())
        else:
            fitted = solver.fit(task, rows, y, weight)
        if found is not None:
            fitted = replace(fitted, choice=replace(fitted.choice, features=found[0]))
            if self.verbose:
                print(found[0].reason, file=sys.stderr)
        self._note(fitted, len(y), data_fingerprint(given, y.astype(np.int8)))
        self._known_scales = scaling
        coef = (fitted.w if scaling is None else scaling.to_user(fitted.w))[np.newaxis]
        publish(self, coef_=coef, classes_=classes, features_=features, **{DEFERRED: ()})
        self._decide_from(given, y, weight, rng)
        return self

    @one_at_a_time
    def adopt_solution(
        self,
        w: Vector,
        *,
        classes: Labels,
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
        self._composition()
        width = len(w) if features is None else features.n_inputs
        see_features(self, {"n_features": width, "feature_names": feature_names})
        solver = "exact" if features is None else "moments"
        coef = np.asarray(w, dtype=np.float64)
        self._note(Fitted(coef, solver, loss, choice, trace), n_examples, fingerprint)
        publish(
            self, coef_=coef[np.newaxis], classes_=classes, features_=features, **{DEFERRED: ()}
        )
        self._decision = self._decide(*scores)
        return self

    def explain(self, x: ArrayLike) -> Explanation:
        """Return what each feature adds to the score of one example, see `pairlearn.explain`."""
        return explain(self, x)

    # ------------------------------------------------------------------- steps of a fit

    def _examples(
        self, X: Any, y: Any, *, reset: bool, minimum: int, finite: bool | None = False
    ) -> tuple[Rows, Labels]:
        """Return rows and labels; whether they are finite is left to others if `finite` is None."""
        if is_plain(self, X, y, reset=reset, minimum=minimum, dtype=None):
            rows = as_rows(X, finite=finite)
            self.n_features_in_ = X.shape[1]
            return rows, y
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            reset=reset,
            ensure_min_samples=minimum,
            ensure_all_finite=finite is not None,
        )
        return as_rows(X, finite=None if finite is None else True), np.asarray(y)

    def _features_for(
        self, given: Rows, y: Vector, weight: Vector, rng: np.random.Generator
    ) -> tuple[FeatureMap, tuple[Any, Any] | None]:
        """Return the fitted map; if it was chosen, also the evidence and its moments."""
        if is_linear(self.features):
            return Identity.of(given.shape[1]), None
        given.checked()  # else the scaling, which reads every value, looks for NaN on the way
        # Numbers of their own, so that a linear choice is trained as it is by itself.
        draws = copy.deepcopy(rng)
        if isinstance(self.features, str) and self.features == "auto":
            choice, features, held_out = choose_features(
                given,
                y,
                weight=weight,
                validation_fraction=self.validation_fraction,
                max_memory=self._max_memory,
                rng=draws,
            )
            return features, (choice, held_out)
        features = as_map(self.features, given, y)
        return fit_map(features, given, draws, constrained=isinstance(features, Hats)), None

    def _rows_for(
        self,
        parts: Composition,
        solver: Solver | None,
        features: FeatureMap,
        given: Rows,
        counts: Vector,
    ) -> tuple[Rows, Scaling | None]:
        """Return the rows that the solver trains on, mapped and scaled, and their scales."""
        if solver is not None and solver.maps_rows:  # it scales them itself, too
            return given.checked(), None
        linear = isinstance(features, Identity)
        if not linear:
            if self.warm_start and hasattr(self, "coef_") and features is not self.features:
                raise ValueError(
                    "warm_start=True needs features that stay the same: pass a map that is fitted."
                )
            other = 'solver="moments" or ' if parts.objective.over_pairs else ""
            cure = f"use {other}a map of fewer features, or a larger max_memory."
            given = as_rows(map_rows(features, given, self._max_memory, cure), finite=True)
        bare = self.scaling is None or (isinstance(solver, SGD) and solver.step_size == "theory")
        # Weights of classes say nothing about units.
        scaling, rows = scaled_rows(None if bare else "auto", given, counts, mapped=not linear)
        return rows, scaling

    def _note(self, fitted: Fitted, n_examples: int, fingerprint: str | None) -> None:
        """Note how the coefficients of a fit were found; a stream begins anew."""
        choice, trace = fitted.choice, fitted.trace
        self.solver_, self.loss_, self.choice_ = fitted.solver, fitted.loss, choice
        self.trace_, self.advice_ = trace, fitted.advice
        self.step_size_, self.radius_ = choice.step_size, choice.radius
        self.ridge_, self.held_out_auc_ = choice.ridge, choice.auc
        self.n_steps_, self.n_gradients_ = trace.n_steps, trace.n_gradients
        self.n_examples_, self.data_fingerprint_ = n_examples, fingerprint
        self._stream, self._restarted, self._known_scales = None, False, None

    def _warm_start(self, n_features: int, scaling: Scaling | None) -> Vector | None:
        """Return the coefficients of the previous fit in the units of this one."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        start: Vector = self.coef_[0]
        if len(start) != n_features:
            raise ValueError(
                f"warm_start: X has {n_features} features, the model has {len(start)}."
            )
        return start if scaling is None else scaling.from_user(start)

    def _pair_parameters(self) -> dict[str, Any]:
        return pair_parameters(self)

    def _fit_pairs(
        self,
        parts: Composition,
        given: Rows,
        labels: Labels,
        classes: Labels,
        sample_weight: ArrayLike | None,
    ) -> Self:
        """Train one score for each pair of more than two classes."""
        check_closed_form(self, len(classes), parts)
        features: FeatureMap = Identity.of(given.shape[1])
        source = given.checked()
        mapped = not is_linear(self.features)
        if mapped:
            features = map_for(self, given, labels, classes, self._max_memory)
            cure = "use a map with fewer features, or a larger max_memory."
            source = as_rows(map_rows(features, given, self._max_memory, cure), finite=True)
        pairs = MulticlassAUCClassifier(**self._pair_parameters())
        pairs.fit_rows(source, labels, sample_weight, mapped=mapped)
        n, choice = len(labels), pairs.choice_
        loss = LOSSES.make(pairs.loss_)
        fitted = Fitted(pairs.coef_, "exact", loss, choice, Trace(n_steps=n, n_gradients=n))
        self._note(fitted, n, data_fingerprint(given, np.searchsorted(classes, labels)))
        if self.verbose:
            print(
                f"{len(pairs.coef_)} pairs of classes, {type(loss).__name__}, ridge "
                f"{choice.ridge:g}, held-out M {choice.auc:.4f}",
                file=sys.stderr,
            )
        publish(
            self,
            coef_=pairs.coef_,
            classes_=pairs.classes_,
            features_=features,
            pairs_=pairs,
            _decision=None,
            **{DEFERRED: ()},
        )
        return self


register_storable(AUCClassifier)
