# SPDX-License-Identifier: BSD-3-Clause
r"""`MetricLearner` on an engine: the metric of the moments of the classes.

With S and D the mean scatters of differences of equal and of different labels, the log-likelihood
ratio of two Gaussian models of a difference is x' (S^{-1} - D^{-1}) x up to constants (Koestinger
et al., Large scale metric learning from equivalence constraints, CVPR 2012). Its positive part is
the metric. S and D get a multiple of the identity, relative to the mean variance of S, chosen by
nearest neighbours on a sample: moments of the training folds only, judged on the held-out fold.
"""

from __future__ import annotations

import numpy as np

from pairlearn.cluster.moments import LabelMoments, PairScatters
from pairlearn.cluster.multiclass import moments_and_sample
from pairlearn.cluster.passes import ClusterReport, Passes, refuse_others, ridge_of, scaling_from
from pairlearn.estimators.metric.learner import MetricLearner
from pairlearn.estimators.metric.start import components_of
from pairlearn.estimators.shared.scaling import is_scaled
from pairlearn.folds import Keys, deal, members_of
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.rows import DenseRows
from pairlearn.typing import Labels, Vector
from pairlearn.validation import check_count, check_generator

#: Multiples of the mean variance of pairs of equal labels.
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
_FOLDS = 3
#: The number of examples of each class that choose the ridge.
_SAMPLE = 500
_HEEDED = ("solver", "scaling", "n_neighbors", "random_state")


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


def train_metric(passes: Passes, estimator: MetricLearner) -> MetricLearner:
    """Return the learner that an engine trains; see `fit_on`."""
    refuse_others(estimator, _HEEDED)
    scaled = is_scaled(estimator.scaling)
    n_neighbors = check_count("n_neighbors", estimator.n_neighbors)
    ridge, held_out = ridge_of(estimator.solver, "sgd"), None
    rng = check_generator(estimator.random_state)
    moments, columns, sample = moments_and_sample(passes, rng, _SAMPLE)
    units = scaling_from(columns, scaled=scaled)
    if ridge is None:
        rows = units.apply(DenseRows(sample.X))
        assert isinstance(rows, DenseRows)
        ridge, held_out = _choose(rows.X, sample.labels, n_neighbors, sample.keys)
    W = metric_of(moments.pair_scatters().scaled(units.weights), ridge)
    components = units.to_user(components_of(MahalanobisScore(), W, len(W)))
    n = int(moments.n_examples.sum())
    learner = MetricLearner(**estimator.get_params(deep=False))
    learner.adopt_solution(
        components,
        feature_names=passes.feature_names,
        held_out_score=held_out,
        n_gradients=n * (n - 1),
    )
    learner.cluster_report_ = ClusterReport(passes.n_passes)
    return learner


def _choose(X: Vector, labels: Labels, n_neighbors: int, keys: Keys) -> tuple[float, float]:
    """Return the ridge with the best nearest neighbours on held-out examples, and their share."""
    from sklearn.neighbors import KNeighborsClassifier

    fold = deal(members_of(labels), len(labels), keys, n_folds=_FOLDS)
    right = np.zeros(len(_RIDGES))
    statistic = LabelMoments(len(labels))
    for part in range(_FOLDS):
        train, test = fold != part, fold == part
        if not test.any() or np.count_nonzero(train) <= n_neighbors:
            continue
        state = statistic.partial_state(X[train], labels[train])
        scatters = statistic.finish(state).pair_scatters()
        for k, ridge in enumerate(_RIDGES):
            L = components_of(MahalanobisScore(), metric_of(scatters, ridge), X.shape[1])
            judge = KNeighborsClassifier(n_neighbors).fit(X[train] @ L.T, labels[train])
            right[k] += np.count_nonzero(judge.predict(X[test] @ L.T) == labels[test])
    best = int(np.argmax(right))
    return _RIDGES[best], float(right[best] / len(labels))
