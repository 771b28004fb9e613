# SPDX-License-Identifier: BSD-3-Clause
r"""The square loss without pairs: AUC as a stochastic saddle-point problem.

With p the share of positives, the pair risk of the square loss equals (up to the factor
1/(p (1 - p)) and the pairs of an example with itself)

    min over w, a, b, max over alpha of  E (1 - p)(<w,x> - a)^2 [y = 1] + p (<w,x> - b)^2 [y = -1]
        + 2 (1 + alpha)(p <w,x> [y = -1] - (1 - p) <w,x> [y = 1]) - p (1 - p) alpha^2,

in which examples come one at a time. SOLAM descends in w, a, b and ascends in alpha. SPAUC inserts
the best a, b and alpha, which follow from the class means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.averaging import Averaging, ByStepSize, Uniform
from pairlearn.domains import Ball, WholeSpace
from pairlearn.schedules import InverseSqrt, Schedule
from pairlearn.solvers.iterates import Iterates
from pairlearn.solvers.running import Callback
from pairlearn.solvers.solution import Solution
from pairlearn.solvers.support import check_parts
from pairlearn.solvers.two_classes import dense_two_classes, draw_path, n_steps_of
from pairlearn.typing import Vector
from pairlearn.validation import check_generator

#: A kernel, and its arguments before and after the iterate.
Kernel = tuple[Callable[..., int], tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True)
class _Saddle:
    """The parts and the loop that both solvers share."""

    schedule: Schedule = field(default_factory=lambda: InverseSqrt(0.1))
    domain: WholeSpace | Ball = field(default_factory=WholeSpace)
    averaging: Averaging = field(default_factory=Uniform)
    moments: str = "online"

    def __post_init__(self) -> None:
        if self.moments not in ("online", "known"):
            raise ValueError(f'moments must be "online" or "known", got {self.moments!r}.')

    def solve(
        self,
        X: Any,
        y: ArrayLike,
        *,
        n_passes: float = 10.0,
        rng: Any = None,
        callbacks: Sequence[Callback] = (),
        pauses: Sequence[int] = (),
    ) -> Solution:
        """Run on examples drawn uniformly, with labels -1 and +1, for `n_passes` times n steps.

        `callbacks` and `pauses` are as in `PairwiseSGD.solve`, but there is no risk, and pauses do
        not change the path. Gradients are counted per example, not per pair. Ctrl-C ends the run
        early, with a warning.
        """
        name = type(self).__name__
        check_parts(name, domain=self.domain)
        rows, y = dense_two_classes(X, y, name)
        n, d = rows.shape
        n_steps = n_steps_of(n_passes, n)
        path = draw_path(n, n_steps, check_generator(rng), order="uniform")
        run = Iterates(self.averaging, self.schedule, n_steps, d)
        kernel, before, after = self._kernel(rows.X, y)

        def take(now: slice, step_sizes: Vector) -> int:
            shared = rows.flat, y, path[now], step_sizes, run.shares[now]
            return kernel(*shared, *before, run.w, run.weighted_sum, *after)

        return run.run(take, callbacks=callbacks, pauses=pauses)

    def _kernel(self, X: Vector, y: Vector) -> Kernel:
        raise TypeError(f"{type(self).__name__} must define _kernel(X, y).")


@dataclass(frozen=True)
class SPAUC(_Saddle):
    """Stochastic proximal AUC maximisation, without a regulariser.

    Parameters
    ----------
    schedule : Schedule, default=InverseSqrt(0.1)
        The step sizes.
    domain : WholeSpace or Ball, default=WholeSpace()
        Where w may live.
    averaging : Averaging, default=Uniform()
        Which average of the iterates is returned.
    moments : {"online", "known"}, default="online"
        Class means and the share of positives. "online" uses running means over the steps so far.
        "known" computes them from all of X before the first step, as the code released with the
        paper does (outside its clock).

    References
    ----------
    Lei, Ying. Stochastic proximal AUC maximization. JMLR 2021.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> w = SPAUC(InverseSqrt(1.0)).solve(X, y, n_passes=20, rng=0).average
    >>> bool(w[0] > 5 * abs(w[1]))
    True
    """

    def _kernel(self, X: Vector, y: Vector) -> Kernel:
        from pairlearn.kernels.steps.saddle import descend_spauc

        online = self.moments == "online"
        d = X.shape[1]
        means, counts = (np.zeros((2, d)), np.zeros(2)) if online else _class_means(X, y)
        return descend_spauc, (means, counts, online), (self.domain.radius,)


@dataclass(frozen=True)
class SOLAM(_Saddle):
    """Stochastic online AUC maximisation: primal and dual steps.

    Parameters
    ----------
    schedule : Schedule, default=InverseSqrt(0.1)
        The step sizes.
    domain : WholeSpace or Ball, default=WholeSpace()
        Where w may live. With a ball of radius R, a and b stay within R max||x|| and alpha within
        twice that, as in the original.
    averaging : Averaging, default=ByStepSize()
        Which average of the iterates is returned; the original weighs them by step sizes.
    moments : {"online", "known"}, default="online"
        The share of positives: of the steps so far, or of all of X. Class means are not used.

    References
    ----------
    Ying, Wen, Lyu. Stochastic online AUC maximization. NeurIPS 2016.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> w = SOLAM(InverseSqrt(1.0)).solve(X, y, n_passes=20, rng=0).average
    >>> bool(w[0] > 5 * abs(w[1]))
    True
    """

    averaging: Averaging = field(default_factory=ByStepSize)

    def _kernel(self, X: Vector, y: Vector) -> Kernel:
        from pairlearn.kernels.steps.saddle import descend_solam

        online, radius = self.moments == "online", self.domain.radius
        counts = np.zeros(2) if online else _class_counts(y)
        largest = math.sqrt(float(np.einsum("ij,ij->i", X, X).max()))
        bound = math.inf if math.isinf(radius) else radius * largest
        return descend_solam, (counts, online), (np.zeros(3), radius, bound)


def _class_counts(y: Vector) -> Vector:
    positives = float(np.count_nonzero(y > 0))
    return np.array([positives, len(y) - positives])


def _class_means(X: Vector, y: Vector) -> tuple[Vector, Vector]:
    return np.array([X[y > 0].mean(axis=0), X[y < 0].mean(axis=0)]), _class_counts(y)
