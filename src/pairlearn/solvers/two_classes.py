# SPDX-License-Identifier: BSD-3-Clause
"""Check examples of two classes, for solvers that read single examples or all at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.losses import PairLoss
from pairlearn.pairings.plans import draw_uniform
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, as_rows
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, check_labels, check_positive

#: More steps than this take years on any machine.
_MOST_STEPS = 1e15


def check_two_classes(X: Any, y: ArrayLike) -> tuple[Rows, Vector]:
    """Return rows and labels; refuse labels other than -1 and +1, and a missing class."""
    rows = as_rows(X)
    y = check_labels(y, rows.shape[0])
    kinds = np.unique(y)
    if not np.array_equal(kinds, [-1.0, 1.0]):
        raise ValueError(
            f"y must hold the labels -1 and +1, both of them; got {kinds[:5].tolist()}. AUC needs "
            "examples of two classes; relabel with np.where(y == positive, 1, -1)."
        )
    return rows, y


def dense_two_classes(X: Any, y: ArrayLike, name: str) -> tuple[DenseRows, Vector]:
    """Return dense float64 rows and labels for the method `name`."""
    rows, y = check_two_classes(X, y)
    if isinstance(rows, CsrRows):
        raise ValueError(f"{name} needs dense rows; pass X.toarray().")
    return DenseRows(rows.X.astype(np.float64, copy=False)), y


def n_steps_of(n_passes: float, n: int) -> int:
    """Return the number of steps for `n_passes` passes over n examples."""
    steps = check_positive("n_passes", n_passes) * n
    if steps > _MOST_STEPS:
        raise ValueError(
            f"n_passes = {n_passes:g} makes {steps:.2g} steps, which take years; choose at most "
            f"{_MOST_STEPS / n:.2g} for {n} examples."
        )
    return max(math.ceil(steps), 1)


def draw_path(n: int, n_steps: int, rng: np.random.Generator, *, order: str) -> NDArray[Any]:
    """Return the example of each step: "uniform" draws, or "shuffled" anew for each pass."""
    if order == "uniform":
        return draw_uniform(n, n_steps, rng)
    passes = [rng.permutation(n) for _ in range(math.ceil(n_steps / n))]
    return np.concatenate(passes)[:n_steps]


def check_finished(status: int, loss: PairLoss | None = None, *, first: int = 0) -> None:
    """Raise if a kernel that began after `first` steps stopped early."""
    step = first + (int(status) >> 2) + 1
    if loss is not None and int(status) & 3 == 2:
        raise DivergenceError(
            f"{type(loss).__name__} returned NaN at step {step}; check its derivative with finite "
            "scores."
        )
    if status:
        raise DivergenceError(
            f"The iterate stopped being finite at step {step}; take a smaller step_size, a radius, "
            "or scale the features (StandardScaler)."
        )
