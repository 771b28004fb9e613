# SPDX-License-Identifier: BSD-3-Clause
r"""Intervals for coefficients and AUC of a fitted classifier, by resampling the examples.

Each replicate draws the examples of each class with replacement and trains on them as the fit to
all examples did: same scales, step size and radius (or ridge), but its own sample path. So the
spread of the replicates contains the randomness of the sample and of the path.

- Coefficients: the fit plus and minus normal quantiles of the standard deviation of the replicates.
  Both have the randomness of one sample and one path. Percentiles would count the bias of few
  examples, which all replicates share, twice; reflected percentiles would count the randomness of
  the path twice.
- AUC: every example is scored by the replicates that did not draw it, about 37 % of them, and the
  AUC of these *out-of-bag* scores has the interval of `roc_auc_interval`. It is the AUC on new
  examples; no example is judged by a model that has seen it, and all of them judge.
- Differences: of two AUCs by the paired test on out-of-bag scores of the same examples; of
  coefficients, or any sum of them with weights, like coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.auc.composition import Task
from pairlearn.estimators.auc.ways.exact import fit_exact
from pairlearn.estimators.shared.examples import two_classes
from pairlearn.estimators.shared.solvers import SGD
from pairlearn.features import Identity
from pairlearn.folds import Keys
from pairlearn.metrics.delong import AUCComparison, AUCInterval, compare_auc, roc_auc_interval
from pairlearn.metrics.metric import Interval
from pairlearn.shown import Shown, Table, number
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.top.objectives import OBJECTIVES, AllPairs
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction, check_generator, check_vector

#: Scores of replicates that are held at once: 160 MB.
_SCORES = 20_000_000
#: The fewest replicates: a standard deviation of fewer says little.
_FEWEST = 20


@dataclass(frozen=True, eq=False)
class Bootstrap(Shown):
    """Replicates and intervals of `bootstrap`.

    Parameters
    ----------
    estimator : AUCClassifier
        The fit to all examples.
    coef : ndarray of shape (n_features,)
        Its coefficients.
    coefs : ndarray of shape (n, n_features)
        Those of the replicates.
    low, high : ndarray of shape (n_features,)
        The interval of each coefficient.
    auc : AUCInterval
        AUC on new examples, by out-of-bag scores.
    scores, y : ndarray of shape (n_samples,)
        The out-of-bag score of each example, and the labels -1 and +1.
    confidence : float
        The level of all intervals.

    Examples
    --------
    >>> from pairlearn import Exact
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X[:, 0] + rng.normal(size=200) > 0
    >>> model = AUCClassifier(solver=Exact(ridge=0.01), random_state=0)
    >>> found = bootstrap(model, X, y, n=50, random_state=0)
    >>> found.contrast([1.0, -1.0]).low > 0.0
    True
    """

    estimator: AUCClassifier
    coef: Vector
    coefs: Vector
    low: Vector
    high: Vector
    auc: AUCInterval
    scores: Vector
    y: Vector
    confidence: float

    def contrast(self, weights: ArrayLike) -> Interval:
        """Return the interval of a weighted sum of coefficients, such as a difference of two."""
        along = check_vector("weights", weights, len(self.coef))
        value, spread = float(self.coef @ along), float((self.coefs @ along).std(ddof=1))
        half = _quantile(self.confidence) * spread
        return Interval(value, value - half, value + half, spread, self.confidence)

    def compare(self, other: Bootstrap) -> AUCComparison:
        """Return the difference to the AUC of another estimator on the same rows, tested."""
        if not np.array_equal(self.y, other.y):
            raise ValueError(
                "the two were not made from the same examples in the same order: their labels "
                "differ; call bootstrap with the same X and y."
            )
        return compare_auc(self.y, self.scores, other.scores, confidence=self.confidence)

    def shown_title(self) -> str:
        """Return the AUC on new examples."""
        return f"AUC on new examples {self.auc}"

    def shown_table(self) -> Table:
        """Return the interval of each coefficient."""
        names = getattr(self.estimator, "feature_names_in_", range(len(self.coef)))
        ends = zip(names, self.coef, self.low, self.high, strict=True)
        head = ("feature", "coefficient", "low", "high")
        return head, [[str(name), *(number(float(v)) for v in values)] for name, *values in ends]


def bootstrap(
    estimator: AUCClassifier,
    X: Any,
    y: ArrayLike,
    *,
    n: int = 1000,
    confidence: float = 0.95,
    random_state: Any = None,
) -> Bootstrap:
    """Fit a classifier, and find intervals for its coefficients and its AUC.

    Parameters
    ----------
    estimator : AUCClassifier
        A classifier with a linear score; it is cloned, not changed.
    X : array-like of shape (n_samples, n_features)
        Examples, dense.
    y : array-like of shape (n_samples,)
        Two kinds of labels, at least two examples of each.
    n : int, default=1000
        The number of replicates, at least 20.
    confidence : float, default=0.95
        The level of the intervals.
    random_state : int, Generator or None, default=None
        Source of the resamples and of their paths.

    Returns
    -------
    Bootstrap
        Replicates and intervals.

    Notes
    -----
    Step size, radius or ridge are chosen once, on all examples: intervals do not hold the chance of
    that choice, nor the bias of a descent that was stopped early. Classes are resampled each on its
    own, so that their sizes stay.

    Examples
    --------
    >>> from pairlearn import Exact
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = X[:, 0] + rng.normal(size=300) > 0
    >>> model = AUCClassifier(solver=Exact(ridge=0.01), random_state=0)
    >>> found = bootstrap(model, X, y, n=100, random_state=0)
    >>> bool(found.low[0] > 0.0), bool(found.low[1] < 0.0 < found.high[1])
    (True, True)
    >>> found.auc.low < 0.85 < found.auc.high
    True
    """
    from sklearn.base import clone
    from sklearn.utils import column_or_1d

    if not isinstance(estimator, AUCClassifier):
        raise TypeError(f"bootstrap takes an AUCClassifier, got {estimator!r}.")
    check_fraction("confidence", confidence)
    check_count("n", n, minimum=_FEWEST)
    if hasattr(X, "tocsr"):
        raise ValueError("bootstrap takes dense rows; pass X.toarray().")
    labels = column_or_1d(y)
    two_classes(labels)
    fitted = clone(estimator).fit(X, y)
    if not isinstance(fitted.features_, Identity) or fitted.solver_ not in ("sgd", "exact"):
        raise ValueError(
            f"bootstrap takes a linear score by solver sgd or exact; the fit has "
            f"{fitted.features_!r} by {fitted.solver_}. Map the rows first, or use "
            'features="linear".'
        )
    signs = np.where(labels == fitted.classes_[1], 1.0, -1.0)
    kind = X.dtype if getattr(X, "dtype", None) == np.float32 else np.float64
    given = as_rows(np.asarray(X, dtype=kind))
    # Step size, radius and ridge are in the scales of the fit.
    scaling = fitted.known_scales
    rows = given if scaling is None else scaling.apply(given)
    generators = check_generator(random_state).spawn(n)
    drawn = [_resample(signs, generator) for generator in generators]
    replicate = _replicates(fitted, rows, signs)
    W = np.array([replicate(*one) for one in zip(drawn, generators, strict=True)])
    scores = _out_of_bag(rows.matrix, W, drawn)
    coefs = W if scaling is None else scaling.to_user(W)
    coef = fitted.coef_[0].copy()
    half = _quantile(confidence) * coefs.std(axis=0, ddof=1)
    auc = roc_auc_interval(signs, scores, confidence=confidence)
    return Bootstrap(fitted, coef, coefs, coef - half, coef + half, auc, scores, signs, confidence)


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


def _resample(y: Vector, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return as many examples of each class as there are, with replacement."""
    classes = (np.flatnonzero(y > 0), np.flatnonzero(y < 0))
    if min(map(len, classes)) < 2:
        raise ValueError(
            f"the classes have {len(classes[0])} and {len(classes[1])} examples; resampling needs "
            "at least 2 of each."
        )
    return np.concatenate([rng.choice(members, len(members)) for members in classes])


def _out_of_bag(X: NDArray[Any], W: Vector, drawn: list[NDArray[np.int64]]) -> Vector:
    """Return the mean score of each example over the models whose resample left it out."""
    n = len(X)
    total, count = np.zeros(n), np.zeros(n)
    step = max(1, _SCORES // n)
    for begin in range(0, len(W), step):
        part = slice(begin, begin + step)
        left_out = np.ones((len(W[part]), n), dtype=bool)
        for row, index in zip(left_out, drawn[part], strict=True):
            row[index] = False
        total += np.einsum("bn,bn->n", W[part] @ X.T, left_out)
        count += left_out.sum(axis=0)
    if not count.all():
        raise ValueError(
            f"{int(np.sum(count == 0))} examples were drawn by every resample, so no replicate can "
            "score them; take more replicates."
        )
    return total / count


def _replicates(
    model: AUCClassifier, rows: Rows, y: Vector
) -> Callable[[NDArray[np.int64], np.random.Generator], Vector]:
    """Return what trains on some examples as the model was trained, without any choice."""
    solver, choice, n = model.solver, model.choice_, len(y)

    def exact(index: NDArray[np.int64], rng: np.random.Generator) -> Vector:
        part, objective = rows.take(index), choice.top or AllPairs()
        keys = Keys.of(part, seed=rng)
        task = Task(objective, model.loss_, None, True, rng, model.validation_fraction, keys=keys)
        return fit_exact(task, model.ridge_, part, y[index], np.empty(0), choice.fisher).w

    def descent(index: NDArray[np.int64], rng: np.random.Generator) -> Vector:
        known = {"step_size": model.step_size_, "radius": model.radius_}
        own = (solver if isinstance(solver, SGD) else SGD()).with_params(
            **known, n_passes=model.n_steps_ / n
        )
        objective = OBJECTIVES.make(model.objective)
        task = Task(objective, model.loss_, None, model.scaling is not None, rng)
        return task.solve(own, rows.take(index), y[index], np.empty(0)).w

    return exact if model.solver_ == "exact" else descent
