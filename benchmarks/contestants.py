# SPDX-License-Identifier: BSD-3-Clause
"""The two sides of most comparisons: our solver and scikit-learn's pointwise SGD."""

from __future__ import annotations

from typing import Any

__all__ = ["rival", "solver"]


def solver(*, step_size: float, radius: float) -> Any:
    """Return Algorithm 1 with constant steps, a ball and the paper's average."""
    from pairlearn import Ball, Constant, PairwiseSGD, PreviousExample
    from pairlearn.averaging import DelayedByStepSize

    return PairwiseSGD(
        pairing=PreviousExample(),
        schedule=Constant(step_size),
        domain=Ball(radius),
        averaging=DelayedByStepSize(),
    )


def rival(*, n_epochs: int) -> Any:
    """Return averaged pointwise SGD on the hinge loss with a fixed number of epochs."""
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(loss="hinge", average=True, max_iter=n_epochs, tol=None, random_state=0)
