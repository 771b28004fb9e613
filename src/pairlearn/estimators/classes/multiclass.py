# SPDX-License-Identifier: BSD-3-Clause
"""Many classes: one score for each pair of classes, from the same moments.

The moments of the classes, found in one pass, give the minimiser of the square loss for every pair
and every ridge (see `class_moments`). One ridge for all pairs is chosen by Hand and Till's M on
held-out folds. The squared hinge, which does not mind pairs that are far apart, starts from there.

For probabilities each pair has a sigmoid, fitted on held-out scores. Pairs are coupled by Wu, Lin
and Weng's second method: p minimises the sum over a != b of (r_ba p_a - r_ab p_b)^2, r_ab being the
probability of a against b. Coupled probabilities are too cautious where many pairs agree. One power
of them, p_a^t / sum_b p_b^t, found by maximum likelihood on held-out examples, corrects this
(temperature scaling) and keeps the most probable class.

References
----------
D. Hand and R. Till, A simple generalisation of the area under the ROC curve for multiple class
classification problems, Machine Learning 45, 2001.
T.-F. Wu, C.-J. Lin and R. Weng, Probability estimates for multi-class classification by pairwise
coupling, JMLR 5, 2004.
C. Guo, G. Pleiss, Y. Sun and K. Weinberger, On calibration of modern neural networks, ICML 2017.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.class_moments import (
    ClassSystems,
    ClosedForm,
    class_folds,
)
from pairlearn.estimators.shared.decisions import Sigmoid, fit_sigmoid
from pairlearn.estimators.shared.evidence import Candidate, Choice, Tried, best_of, threads
from pairlearn.estimators.shared.examples import check_many_classes, with_weight
from pairlearn.estimators.shared.scaling import Scaling
from pairlearn.estimators.shared.solvers import Exact
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.estimators.shared.weights import chunk_weights, example_weights
from pairlearn.folds import Fold
from pairlearn.losses import SquaredHinge
from pairlearn.metrics.hand_till import HandTill, mean_pair_auc
from pairlearn.models.record import ArraySpec, ModelFileError, ModelRecord
from pairlearn.solvers.exact.batch import PairObjective
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import as_counts, check_generator

#: With more classes the squared hinge, which is minimised pair by pair, is not worth its time.
_FEW_CLASSES = 10
_LOSSES = ("auto", "square", "squared_hinge")
#: Examples whose classes are coupled at once.
_BLOCK = 4_096
#: Powers beyond these are a sign of too few examples, not of probabilities.
_POWERS = (0.2, 5.0)


class MulticlassAUCClassifier(ClosedForm, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear scores for each pair of classes that maximise Hand and Till's M.

    Each pair of classes has a score of its own, the minimiser of a loss over pairs of their
    examples. `score` is M, the mean over pairs of classes of the AUC of that score.

    Parameters
    ----------
    loss : {"auto", "square", "squared_hinge"}, default="auto"
        The square loss is minimised in closed form, the squared hinge from there. "auto" takes
        the better by M over stratified folds; for more than ten classes, the square loss.
    solver : "exact" or Exact, default="exact"
        `Exact` holds the ridge. ``Exact(ridge="auto")`` takes the best of 100, 10, ..., 1e-6 for
        all pairs by M of the square loss over stratified folds.
    scaling : "auto" or None, default="auto"
        "auto" centres and scales features inside `fit`, as in `AUCClassifier`; coefficients are in
        the units of X.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with `sample_weight`. They move the probabilities and
        the predicted classes; the scores of the pairs do not depend on them.
    validation_fraction : float, default=0.2
        The share of a fold; 0.2 makes five.
    n_jobs : int or None, default=None
        Threads that try the folds, -1 for all processors. The result does not depend on it.
    random_state : int, RandomState, Generator or None, default=None
        Deals the folds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    coef_ : ndarray of shape (n_pairs, n_features)
        The coefficients of the pairs: first with second class, first with third, ...
    sigmoids_ : ndarray of shape (n_pairs, 2)
        Slope and intercept of the probability of the later class of each pair.
    power_ : float
        The power of coupled probabilities, found on held-out examples.
    loss_ : str
        The loss that was minimised.
    ridge_ : float
        The ridge used.
    choice_ : Choice
        The ridges that were tried with the square loss, and for each its M on held-out folds with
        the standard error over them; as evidence that of what was chosen.
    scaling_ : Scaling or None
        After `fit`: by what features were scaled.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pairlearn import MulticlassAUCClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MulticlassAUCClassifier(random_state=0).fit(X, y)
    >>> clf.coef_.shape, bool(clf.score(X, y) > 0.99)
    ((3, 4), True)
    """

    _facts: ClassVar[Mapping[str, type]] = {"loss_": str, "choice_": Choice}
    _arrays: ClassVar[dict[str, ArraySpec]] = {
        "coef": ArraySpec(("n_pairs", "n_features")),
        "sigmoids": ArraySpec(("n_pairs", 2)),
        "ridge": ArraySpec(()),
        "power": ArraySpec((), low=0.0),
    }

    classes_: NDArray[Any]
    coef_: Vector
    sigmoids_: Vector
    scaling_: Scaling | None

    def __init__(
        self,
        *,
        loss: str = "auto",
        solver: str | Exact = "exact",
        scaling: str | None = "auto",
        class_weight: dict[Any, float] | str | None = None,
        validation_fraction: float = 0.2,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.loss, self.solver, self.scaling = loss, solver, scaling
        self.class_weight, self.validation_fraction = class_weight, validation_fraction
        self.n_jobs, self.random_state = n_jobs, random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the scores of all pairs of classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights of the examples, positive for some of every class.

        Returns
        -------
        self
            The fitted classifier.
        """
        model = copy.copy(self)  # A fit that fails leaves this model as it was.
        X, y = model._checked(X, y)
        labels = np.asarray(y)
        given, labels, sample_weight = with_weight(
            as_rows(X, finite=True), labels, sample_weight, len(np.unique(labels))
        )
        model.fit_rows(given, labels, sample_weight)
        self.__dict__ = model.__dict__
        return self

    def fit_rows(
        self,
        given: Rows,
        labels: NDArray[Any],
        sample_weight: ArrayLike | None = None,
        *,
        mapped: bool = False,
    ) -> Self:
        """Find the scores as `fit` does, from checked examples, `mapped` or not."""
        candidates = self._ridges()
        if self.loss not in _LOSSES:
            raise ValueError(f"loss must be one of {_LOSSES}, got {self.loss!r}.")
        classes, codes, weight = _weighed_classes(labels, sample_weight, self.class_weight)
        # Weights of classes say nothing about units.
        counts = chunk_weights(sample_weight, len(labels))
        what, cure = "pairs of classes are not solved", "OneVsOneClassifier(AUCClassifier())"
        found = self._compact(given, counts, what, cure=cure, mapped=mapped)
        rows = found.rows
        rng = check_generator(self.random_state)
        folds = class_folds(codes, weight, self.validation_fraction, rng)
        n_classes = len(classes)
        tests = [test for _, test in folds]

        def moments_of(fold: Fold) -> ClassSystems:
            train, _ = fold
            return ClassSystems.of(rows.take(train), codes[train], n_classes, weight[train])

        def hinge_of(fold: Fold, start: Vector) -> Vector:
            train, test = fold
            w = _minimise(rows.take(train), codes[train], weight[train], start, ridge)
            return found.scores(test, w)

        with threads(self.n_jobs) as run:
            moments = list(run(moments_of, folds))

        def worth(scores: list[Vector]) -> list[float]:
            return [
                mean_pair_auc(codes[test], one, weight[test], n_classes)
                for test, one in zip(tests, scores, strict=True)
            ]

        def solutions() -> Iterator[Candidate[tuple[list[Vector], list[Vector]]]]:
            for ridge in candidates:
                solved = [one.solve_pairs(ridge) for one in moments]
                scores = [found.scores(t, w) for t, w in zip(tests, solved, strict=True)]
                yield {"ridge": ridge}, (scores, solved), worth(scores)

        best = best_of(solutions())
        evidence, (out_of_fold, starts) = best.evidence, best.model
        ridge, loss, power = evidence.values["ridge"], "square", 1.0
        coef = ClassSystems.of(rows, codes, n_classes, weight).solve_pairs(ridge)
        if self.loss == "squared_hinge" or (self.loss == "auto" and n_classes <= _FEW_CLASSES):
            with threads(self.n_jobs) as run:
                hinge = list(run(hinge_of, folds, starts))
            value = Tried.of(evidence.values, worth(hinge))
            if self.loss == "squared_hinge" or value.auc > evidence.auc:
                evidence, loss, out_of_fold = value, "squared_hinge", hinge
                coef = _minimise(rows, codes, weight, coef, ridge)
        coef, shift = found.to_user(coef)
        held = np.concatenate(tests)
        held_scores = np.concatenate(out_of_fold)
        sigmoids = pair_sigmoids(codes[held], weight[held], held_scores)
        if n_classes > 2:
            coupled = couple(pair_probabilities(held_scores, sigmoids), n_classes)
            power = find_power(coupled, codes[held], weight[held])
        sigmoids[:, 1] -= sigmoids[:, 0] * shift
        self.power_, self.ridge_, self.loss_ = power, ridge, loss
        self.choice_ = Choice(ridge=ridge, evidence=evidence, tried=best.tried)
        self.n_features_in_, self.scaling_ = given.shape[1], found.scaling
        self.classes_, self.coef_, self.sigmoids_ = classes, coef, sigmoids
        return self

    def adopt_pairs(
        self,
        classes: NDArray[Any],
        coef: Vector,
        sigmoids: Vector,
        *,
        power: float = 1.0,
        choice: Choice | None = None,
    ) -> Self:
        """Become the model whose coefficients and sigmoids of pairs were found elsewhere."""
        # A stream has made no choice of a ridge for the square loss.
        self.classes_, self.coef_, self.sigmoids_, self.power_ = classes, coef, sigmoids, power
        self.n_features_in_, self.scaling_ = coef.shape[1], None
        if choice is not None:
            assert choice.ridge is not None
            self.choice_, self.ridge_, self.loss_ = choice, choice.ridge, "square"
        return self

    def pair_scores(self, X: Any) -> Vector:
        """Return the scores of all pairs of classes, larger for the later class of a pair."""
        return self._products(X)

    def predict_proba(self, X: Any) -> Vector:
        """Return probabilities of ``classes_``, coupled from those of the pairs of classes."""
        return self.couple_scores(self.pair_scores(X))

    def couple_scores(self, scores: Vector) -> Vector:
        """Return the probabilities of ``classes_`` that belong to the scores of the pairs."""
        pairs = pair_probabilities(scores, self.sigmoids_)
        return raise_to(couple(pairs, len(self.classes_)), self.power_)

    def decision_function(self, X: Any) -> Vector:
        """Return the logarithm of the probabilities; for two classes, of their ratio."""
        logs = np.log(self.predict_proba(X))
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row of `X`."""
        likeliest = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[likeliest])

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return Hand and Till's M of the pairs; a class that is missing in `y` is left out."""
        check_is_fitted(self, "coef_")
        metric = HandTill(pairs=True, classes=tuple(self.classes_.tolist()))
        return metric(y, self.pair_scores(X), sample_weight=sample_weight)

    def _unpack(self, record: ModelRecord) -> None:
        super()._unpack(record)
        k = 0 if record.classes is None else len(record.classes)
        if k < 2 or len(self.coef_) != k * (k - 1) // 2:
            raise ModelFileError(f"its {k} classes do not have {len(self.coef_)} pairs.")
        if (self.sigmoids_[:, 0] < 0.0).any():
            raise ModelFileError(
                "the probability of a pair would fall with its score; save the fitted model again."
            )


def _weighed_classes(
    labels: NDArray[Any], sample_weight: ArrayLike | None, class_weight: Any
) -> tuple[NDArray[Any], Places, Vector]:
    """Return the classes, the number of each example's class, and the weights of the examples."""
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y must hold at least two classes, got 1 class ({classes.tolist()[0]!r}); there "
            "is no pair to tell apart."
        )
    check_many_classes(classes, len(labels))
    weight = example_weights(sample_weight, class_weight, labels)
    if not len(weight):
        weight = np.ones(len(labels))
    empty = np.bincount(codes, weight) == 0.0
    if empty.any():
        raise ValueError(
            f"sample_weight or class_weight is zero for every example of class "
            f"{classes[empty].tolist()[0]!r}; leave the class out of y, or give it weight."
        )
    return classes, codes, as_counts(weight)


def _minimise(rows: Rows, codes: Places, weight: Vector, starts: Vector, ridge: float) -> Vector:
    """Return the minimisers of the squared hinge for all pairs, from those of the square."""
    found = []
    kept = np.flatnonzero(weight > 0.0)
    for start, (place, later) in zip(starts, _pairs_of(codes[kept]), strict=True):
        index, y = kept[place], np.where(later, 1.0, -1.0)
        objective = PairObjective(rows.take(index), y, SquaredHinge(), weight[index])
        found.append(objective.minimise(ridge, start, tolerance=1e-7)[0])
    return np.array(found)


def couple(pairs: Vector, n_classes: int) -> Vector:
    """Return class probabilities from those of pairs (Wu, Lin and Weng's second method).

    `pairs` holds the probability of the later class of each pair, in a column for each pair.
    """
    # Certainty would make the system singular.
    later = np.clip(pairs, 1e-7, 1.0 - 1e-7)
    if n_classes == 2:
        return np.column_stack((1.0 - later[:, 0], later[:, 0]))
    first, second = np.triu_indices(n_classes, 1)
    result = np.empty((len(pairs), n_classes))
    for start in range(0, len(pairs), _BLOCK):
        block = later[start : start + _BLOCK]
        r = np.zeros((len(block), n_classes, n_classes))
        r[:, second, first], r[:, first, second] = block, 1.0 - block
        # Q_aa = sum over b of r_ba^2, Q_ab = -r_ba r_ab; Q p is the same for all classes.
        system = -r * r.transpose(0, 2, 1)
        diagonal = np.arange(n_classes)
        system[:, diagonal, diagonal] = (r**2).sum(axis=1)
        ones = np.ones((len(block), n_classes, 1))
        p = np.linalg.solve(system + np.ones((n_classes, n_classes)), ones)[:, :, 0]
        p = np.maximum(p, 1e-12)
        result[start : start + _BLOCK] = p / p.sum(axis=1, keepdims=True)
    return result


def raise_to(probabilities: Vector, power: float) -> Vector:
    """Return p_a^t / sum_b p_b^t."""
    logs = np.log(probabilities)
    logs -= logs.max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        logs *= power  # a probability of almost nothing, raised to a large power
    raised = np.maximum(np.exp(logs), 1e-12)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def find_power(probabilities: Vector, codes: Places, weight: Vector) -> float:
    """Return the power with the largest likelihood of held-out classes.

    The likelihood is concave in the power, and so has one maximum.
    """
    logs = np.log(probabilities)
    own = logs[np.arange(len(codes)), codes]
    power = 1.0
    for _ in range(50):
        p = raise_to(probabilities, power)
        mean = (p * logs).sum(axis=1)
        slope = float(weight @ (own - mean))
        curvature = float(weight @ ((p * logs**2).sum(axis=1) - mean**2))
        if not curvature > 0.0:
            break
        # Newton's step may overshoot where the likelihood is flat.
        step = min(max(slope / curvature, -0.5 * power), power)
        power = min(max(power + step, _POWERS[0]), _POWERS[1])
        if abs(step) < 1e-10:
            break
    return power


def pair_sigmoids(codes: Places, weight: Vector, scores: Vector) -> Vector:
    """Return slope and intercept of each pair of classes, from held-out scores."""
    found = []
    for column, (index, later) in enumerate(_pairs_of(codes)):
        sigmoid = fit_sigmoid(scores[index, column], later, weight[index])
        found.append((sigmoid.slope, sigmoid.intercept))
    return np.array(found)


def _pairs_of(codes: Places) -> Iterator[tuple[Places, Mask]]:
    """Yield the examples of each pair of classes, and which of them are of the later class."""
    for first, second in combinations(range(codes.max() + 1), 2):
        index = np.flatnonzero((codes == first) | (codes == second))
        yield index, codes[index] == second


def pair_probabilities(scores: Vector, sigmoids: Vector) -> Vector:
    """Return the probability of each column of scores: of a label, or the later class of a pair."""
    return np.column_stack(
        [
            Sigmoid(slope, intercept)(scores[:, column])
            for column, (slope, intercept) in enumerate(sigmoids.tolist())
        ]
    )


register_storable(MulticlassAUCClassifier)
