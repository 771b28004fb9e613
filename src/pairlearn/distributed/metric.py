# SPDX-License-Identifier: BSD-3-Clause
r"""Metric learning from the moments of the classes: one pass.

With S and D the mean scatters of differences of equal and of different labels, the log-likelihood
ratio of two Gaussian models of a difference is x' (S^{-1} - D^{-1}) x up to constants (Koestinger
et al., Large scale metric learning from equivalence constraints, CVPR 2012). Its positive part is
the metric. S and D get a multiple of the identity, relative to the mean variance of S, chosen by
nearest neighbours on a sample: moments of the training folds only, judged on the held-out fold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.first_passes import in_two_passes
from pairlearn.distributed.passes import OnePass, Pass, Passes, scaling_by_passes
from pairlearn.distributed.statistics.moments import (
    LabelledMoments,
    LabelMoments,
    PairScatters,
)
from pairlearn.distributed.statistics.sample import SampledRows
from pairlearn.estimators.metric.learner import MetricLearner
from pairlearn.estimators.metric.start import components_of
from pairlearn.estimators.shared.scaling import is_scaled
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.folds import Keys, deal, members_of, seed_of
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.rows import DenseRows
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_generator

_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
_FOLDS = 3


def metric_of(scatters: PairScatters, ridge: float) -> Vector:
    """Return the positive part of S^{-1} - D^{-1}.

    Parameters
    ----------
    scatters : PairScatters
        S and D.
    ridge : float
        The multiple of the identity that both get, in units of the mean variance of S.

    Returns
    -------
    ndarray of shape (d, d)
        The metric.

    Examples
    --------
    >>> metric_of(PairScatters(np.diag([1.0, 4.0]), np.diag([2.0, 4.0])), 0.0)
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    d = len(scatters.similar)
    shift = ridge * float(np.trace(scatters.similar)) / d * np.eye(d)
    difference = np.linalg.pinv(scatters.similar + shift, hermitian=True)
    difference = difference - np.linalg.pinv(scatters.dissimilar + shift, hermitian=True)
    values, vectors = np.linalg.eigh(0.5 * (difference + difference.T))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def train_metric(
    run: Pass,
    *,
    solver: str | Solver = "one_pass",
    scaling: str | None = "auto",
    n_neighbors: int = 3,
    random_state: Any = None,
    feature_names: list[str] | None = None,
    progress: Callable[[int, str], None] | None = None,
) -> MetricLearner:
    """Train a `MetricLearner` by one pass over partitioned examples.

    Parameters
    ----------
    run : callable
        As of `train_auc`.
    solver : "one_pass", OnePass or Exact, default="one_pass"
        The ridge of the metric, see `metric_of`, and the size of the sample that chooses it.
    scaling : "auto" or None, default="auto"
        As of `MetricLearner`.
    n_neighbors : int, default=3
        The number of neighbours that judge a metric.
    random_state : int, Generator or None, default=None
        Draws the sample and its folds.
    feature_names : list of str, optional
        Names of the columns.
    progress : callable, optional
        Called before each pass with its number and its purpose.

    Returns
    -------
    MetricLearner
        The fitted learner.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> X = rng.normal(size=(200, 2)) + 3 * y[:, None] * [1, 0]
    >>> learner = train_metric(lambda statistic: statistic.partial_state(X, y), random_state=0)
    >>> bool(np.abs(learner.components_[0, 0]) > 3 * np.abs(learner.components_[0, 1]))
    True
    """
    scaled = is_scaled(scaling)
    check_count("n_neighbors", n_neighbors)
    settings = OnePass.of(solver)
    rng = check_generator(random_state)
    passes = Passes(run, progress)
    found = in_two_passes(passes, settings.sample_size, seed_of(rng), settings.max_classes)
    moments: LabelledMoments = found["moments"]
    scales = found["scales"].of_classes(moments.counts, moments.means, moments.scatters)
    units = scaling_by_passes(scales, scaled, passes)
    scatters = moments.pair_scatters().scaled(units.weights)
    ridge, held_out = settings.given_ridge, None
    if ridge is None:
        sample: SampledRows = found["sample"]
        rows = units.apply(DenseRows(sample.X))
        assert isinstance(rows, DenseRows)
        ridge, held_out = _choose(rows.X, sample.labels, n_neighbors, sample.keys)
    W = metric_of(scatters, ridge)
    components = units.to_user(components_of(MahalanobisScore(), W, len(W)))
    n = int(moments.n_examples.sum())
    return MetricLearner(n_neighbors=n_neighbors, scaling=scaling).adopt_solution(
        components, feature_names=feature_names, held_out_score=held_out, n_gradients=n * (n - 1)
    )


def _choose(X: Vector, labels: NDArray[Any], n_neighbors: int, keys: Keys) -> tuple[float, float]:
    """Return the ridge with the best nearest neighbours on held-out examples, and their share."""
    from sklearn.neighbors import KNeighborsClassifier

    fold = deal(members_of(labels), len(labels), keys, n_folds=_FOLDS)
    right = np.zeros(len(_RIDGES))
    statistic = LabelMoments(len(labels))
    for part in range(_FOLDS):
        train, test = fold != part, fold == part
        if not test.any() or np.count_nonzero(train) <= n_neighbors:
            continue
        scatters = statistic.finish(
            statistic.partial_state(X[train], labels[train])
        ).pair_scatters()
        for k, ridge in enumerate(_RIDGES):
            L = components_of(MahalanobisScore(), metric_of(scatters, ridge), X.shape[1])
            judge = KNeighborsClassifier(n_neighbors).fit(X[train] @ L.T, labels[train])
            right[k] += np.count_nonzero(judge.predict(X[test] @ L.T) == labels[test])
    best = int(np.argmax(right))
    return _RIDGES[best], float(right[best] / len(labels))
