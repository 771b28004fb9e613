# SPDX-License-Identifier: BSD-3-Clause
"""Rows in partitions that a model forgets, whatever engine runs the pass over them."""

from __future__ import annotations

from pairlearn.distributed.passes import Pass
from pairlearn.distributed.statistics.mapped import MomentsAlike
from pairlearn.estimators.auc.classifier import AUCClassifier


def forget_auc(run: Pass, model: AUCClassifier) -> AUCClassifier:
    """Let a model forget rows in partitions, as `AUCClassifier.partial_unfit` does in memory.

    Parameters
    ----------
    run : callable
        As of `train_auc`, for partitions of the rows to be forgotten.
    model : AUCClassifier
        A model of ``train_auc(solver=Moments(keep_state=True))``, or of `AUCClassifier.fit`.

    Returns
    -------
    AUCClassifier
        The model, which has changed; `forgetting_certificate_` names the states.

    Examples
    --------
    >>> import numpy as np
    >>> from pairlearn import Moments
    >>> from pairlearn.distributed import train_auc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    >>> solver = Moments(0.1, keep_state=True, ranges=(-5, 5))
    >>> some = lambda X, y: lambda statistic: statistic.of_part(0).partial_state(X, y)
    >>> model = forget_auc(some(X[:50], y[:50]), train_auc(some(X, y), solver=solver).model)
    >>> without = AUCClassifier(solver=solver).fit(X[50:], y[50:])
    >>> bool((model.coef_ == without.coef_).all()), model.n_examples_
    (True, 250)
    """
    statistic = MomentsAlike(model.kept_moments(), model.classes_, model.kept_unit())
    state = run(statistic)
    gone, n_rows = statistic.finish(state)
    span = float(state["lightest"]), float(state["heaviest"])
    weighed, zeros = bool(state["weighed"]), bool(state["zeros"])
    return model.take_back(gone, n_rows, span=span, weighed=weighed, zeros=zeros)
