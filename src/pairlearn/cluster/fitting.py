# SPDX-License-Identifier: BSD-3-Clause
"""Fit an estimator of one machine on an engine, and judge a model there."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from pairlearn.cluster.passes import Passes, nameless
from pairlearn.cluster.scores import ModelScores, ScoreHistogram
from pairlearn.metrics.delong import AUCInterval
from pairlearn.validation import check_fraction

#: The trainer of each estimator: a module of this room, and its function.
_TRAINERS = {
    "AUCClassifier": ("auc", "train_auc"),
    "MulticlassAUCClassifier": ("multiclass", "train_multiclass"),
    "PairwiseRanker": ("ranking", "train_ranker"),
}
#: Scores between two edges of the histogram of very many scores, as a share.
_BINS = 16_384


def fit_on(
    engine: Any, estimator: Any, *, progress: Callable[[int, str], None] | None = None
) -> Any:
    """Return an estimator of one machine, fitted to rows where they are.

    Parameters
    ----------
    engine : object with `run`, or callable
        `OnDask`, `OnArrow` or `OnSpark`; or a function that takes a
        statistic, calls ``statistic.partial_state(X, y, sample_weight)`` for each partition and
        returns ``statistic.merge_all(states)``. It has to give the same rows in every pass.
    estimator : AUCClassifier, MulticlassAUCClassifier or PairwiseRanker
        What to fit. `AUCClassifier` is trained by class moments (``solver="auto"``, `Moments` or
        `Exact`, with the square loss): the model of ``AUCClassifier(solver=Moments(...))`` on one
        machine, with ``ranges`` bit for bit, for any partitions. `MulticlassAUCClassifier` takes
        the square loss, and `PairwiseRanker` needs partitions of whole queries, and takes any
        convex loss.
    progress : callable, optional
        Called before each pass with its number and its purpose.

    Returns
    -------
    estimator
        A fitted estimator of the same class: save it, export it, use it without the engine.
        `cluster_report_` has the number of passes, and the training AUC of `AUCClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from pairlearn import AUCClassifier, Moments
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] + rng.normal(size=300) > 0, "yes", "no")
    >>> def run(statistic):
    ...     return statistic.merge_all(statistic.partial_state(X[k::3], y[k::3]) for k in range(3))
    >>> model = fit_on(run, AUCClassifier(solver=Moments(0.1, ranges=(-5, 5))))
    >>> memory = AUCClassifier(solver=Moments(0.1, ranges=(-5, 5))).fit(X, y)
    >>> bool((model.coef_ == memory.coef_).all()), model.cluster_report_.n_passes
    (True, 2)
    """
    name = next((k.__name__ for k in type(estimator).__mro__ if k.__name__ in _TRAINERS), None)
    if name is None:
        raise TypeError(
            f"fit_on trains {', '.join(_TRAINERS)}, got {type(estimator).__name__}; its rows have "
            "to come to one machine."
        )
    module, function = _TRAINERS[name]
    train = getattr(importlib.import_module(f"pairlearn.cluster.{module}"), function)
    return train(Passes(engine, progress), estimator)


def score_on(
    engine: Any, model: Any, *, confidence: float = 0.95, limit: int = 10_000_000
) -> AUCInterval:
    """Return the AUC of a model over all rows of an engine, with its interval.

    Parameters
    ----------
    engine : object with `run`, or callable
        As of `fit_on`.
    model : AUCClassifier or another classifier of two classes
        The fitted model.
    confidence : float, default=0.95
        The level of the interval.
    limit : int, default=10_000_000
        Up to so many rows, scores and labels come here, 17 bytes a row: the result is that of
        `roc_auc_interval`. Of more rows a second pass brings a histogram: the AUC is at most a few
        1e-5 from the exact one, and the interval wider by this certified half-width.

    Returns
    -------
    AUCInterval
        The AUC and its interval, which is NaN with weights.

    Examples
    --------
    >>> import numpy as np
    >>> from pairlearn import AUCClassifier
    >>> X, y = np.arange(8.0)[:, None], np.array([0, 0, 1, 0, 1, 0, 1, 1])
    >>> model = AUCClassifier(random_state=0).fit(X, y)
    >>> run = lambda statistic: statistic.partial_state(X, y)
    >>> score_on(run, model).auc, bool(score_on(run, model, limit=4).auc == 0.8125)
    (0.8125, True)
    """
    check_fraction("confidence", confidence)
    passes = Passes(engine)
    model = nameless(model, passes.feature_names)
    found = passes(ModelScores(model, limit, confidence=confidence), "scores")
    if isinstance(found, AUCInterval):
        return found
    edges = np.unique(np.quantile(found, np.arange(1, _BINS) / _BINS))
    statistic = ScoreHistogram(model.decision_function, edges, model.classes_)
    interval: AUCInterval = passes(statistic, "histogram of scores").interval(confidence)
    return interval
