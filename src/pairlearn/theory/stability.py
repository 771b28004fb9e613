# SPDX-License-Identifier: BSD-3-Clause
"""Stability: how far the model moves when one example is replaced, and the generalisation gap.

Step t *touches* an example when it is one of i_t, i_{t-1}. A touch drives two runs apart by at most
eta times the change of the gradient, ``gradient_change`` (derivations, section 3).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.problem import Problem
from pairlearn.theory.conventions import (
    AverageRule,
    ConstantsChoice,
    StepSize,
    check_constants,
    check_rule,
    check_step_size,
    iterate_weights,
    not_negative,
    require_contraction,
    tail_mass,
    total_tail,
    touch_probability,
)
from pairlearn.theory.glossary import documented
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_positive


@documented
def auc_gradient_change(problem: Problem, *, norm_bound: float, radius: float = math.inf) -> float:
    r"""Return the largest change of a pair gradient when one of its examples is replaced.

    For binary labels, the linear score and a loss that never increases with the margin, it is G
    and not 2 G: the gradients are -a s (x - u) and -b s (x' - u) with a, b in [0, sup\|l'\|], and
    the norm of their difference is at most 2 B max(a, b) (derivations, section 1).

    Parameters
    ----------
    problem : Problem
        The score and the loss.
    radius : float, default=inf
        The radius of the ball that contains w.

    Returns
    -------
    float
        G where it is proved, and 2 G for other losses. The labels must be binary.

    Examples
    --------
    >>> from pairlearn.losses import Hinge, Square
    >>> from pairlearn.scores import LinearScore
    >>> auc_gradient_change(Problem(LinearScore(), Hinge()), norm_bound=1.0)
    2.0
    >>> auc_gradient_change(Problem(LinearScore(), Square()), norm_bound=1.0, radius=1.0)
    24.0
    """
    problem.check_by_labels("auc_gradient_change")
    lipschitz = problem.constants(norm_bound=norm_bound, radius=radius).lipschitz
    falls = problem.loss.falls(problem.score.pair_norm_bound(norm_bound) * radius)
    return lipschitz if falls else 2.0 * lipschitz


@documented
def generalization_gap(stability: float, *, lipschitz: float) -> float:
    r"""Return 2 G times the argument stability, a bound on \|E[F_S - F]\| (Lemma 1).

    Parameters
    ----------
    stability : float
        The argument stability, E||A(S) - A(S')||.

    Examples
    --------
    >>> generalization_gap(0.25, lipschitz=2.0)
    1.0
    """
    return 2.0 * check_positive("lipschitz", lipschitz) * not_negative("stability", stability)


def _change(lipschitz: float, gradient_change: float | None) -> float:
    check_positive("lipschitz", lipschitz)
    if gradient_change is None:
        return 2.0 * lipschitz
    return check_positive("gradient_change", gradient_change)


@documented
def stability_nonsmooth(
    n: int,
    n_steps: int,
    *,
    lipschitz: float,
    step_size: StepSize,
    averaging: AverageRule = "step_size",
    gradient_change: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Bound E\|A(S) - A(S')\| for Algorithm 1, neighbours S and S' and convex losses (Theorem 4).

    Parameters
    ----------
    step_size : float or array of shape (n_steps,)
        The step size eta; the paper's statement is for a constant one.
    constants : {"corrected", "paper"}, default="corrected"
        The paper states 2 sqrt(e) G eta (sqrt(5 t) + 2 t/n) for the last iterate and the average
        alike. Corrected, with c the gradient change and p = 2/n - 1/n^2:
        c eta (sqrt((1-p) t) + p t) for the last iterate and
        c eta (2/3 (1-p)^(1/2) (t-1)^(3/2)/t + p (t-1)(t-2)/(2t)) for the paper's average.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> round(stability_nonsmooth(100, 100, lipschitz=1.0, step_size=0.1), 3)
    1.493
    >>> round(stability_nonsmooth(100, 100, lipschitz=1.0, step_size=0.1, constants="paper"), 3)
    8.033
    """
    corrected = check_constants(constants)
    check_rule(averaging)
    steps = check_step_size(step_size, n_steps)
    probability = touch_probability(n)
    if not corrected:
        if not isinstance(steps, float):
            raise ValueError("the paper's Theorem 4 needs one constant step_size, got several.")
        root = math.sqrt(5.0 * n_steps) + 2.0 * n_steps / n
        return 2.0 * math.sqrt(math.e) * check_positive("lipschitz", lipschitz) * steps * root
    change = _change(lipschitz, gradient_change)
    touched = probability * total_tail(steps, n_steps, averaging)
    if isinstance(steps, float) and averaging == "last":
        spread = steps * math.sqrt(n_steps)
    elif isinstance(steps, float) and averaging == "step_size":
        # The sum of sqrt(m) over m <= t - 2 is at most 2/3 (t - 1)^(3/2).
        spread = steps * 2.0 / 3.0 * (n_steps - 1.0) ** 1.5 / n_steps
    else:
        path = np.full(n_steps, steps) if isinstance(steps, float) else steps
        roots = np.concatenate([[0.0], np.sqrt(np.cumsum(path**2))])
        spread = float(iterate_weights(path, averaging) @ roots)
    return change * (math.sqrt(1.0 - probability) * spread + touched)


@documented
def stability_smooth(
    n: int,
    n_steps: int,
    *,
    lipschitz: float,
    smoothness: float,
    step_size: StepSize,
    averaging: AverageRule = "step_size",
    gradient_change: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> float:
    r"""Bound E\|A(S) - A(S')\| for Algorithm 1, neighbours and convex smooth losses (Theorem 5).

    Parameters
    ----------
    smoothness : float
        L, the Lipschitz constant of its gradient. Steps must be at most 2 / L.
    constants : {"corrected", "paper"}, default="corrected"
        The paper states (4 G / n) sum_j eta_j. Corrected: (2/n - 1/n^2) c sum_j eta_j m_j, where
        m_j is the weight of w_j, ..., w_t in the average. It is 1 for the last iterate; for the
        paper's average the sum is about half as large.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> options = dict(lipschitz=1.0, smoothness=1.0, step_size=0.1)
    >>> round(stability_smooth(100, 100, **options), 4)
    0.1931
    >>> stability_smooth(100, 100, **options, constants="paper")
    0.4
    """
    corrected = check_constants(constants)
    check_rule(averaging)
    steps = check_step_size(step_size, n_steps)
    probability = touch_probability(n)
    require_contraction(steps, smoothness, corrected=corrected)
    if not corrected:
        total = n_steps * steps if isinstance(steps, float) else float(steps.sum())
        return 4.0 * check_positive("lipschitz", lipschitz) * total / n
    change = _change(lipschitz, gradient_change)
    return change * probability * total_tail(steps, n_steps, averaging)


@documented
def realized_stability(
    indices: ArrayLike,
    step_sizes: ArrayLike,
    *,
    n: int,
    lipschitz: float,
    smoothness: float = math.inf,
    averaging: AverageRule = "step_size",
    gradient_change: float | None = None,
) -> Vector:
    r"""Bound how far the model moves when example i is replaced, for a given index path.

    The indices do not depend on the data, so this holds surely, for every path and every
    neighbour: no expectation and no failure probability (derivations, section 3).

    Parameters
    ----------
    indices : array of shape (T + 1,)
        The path i_0, i_1, ..., i_T.
    step_sizes : array of shape (T,)
        The step sizes eta_1, ..., eta_T.
    smoothness : float, default=inf
        L; when finite, steps must be at most 2 / L and the smaller smooth bound is returned.

    Returns
    -------
    ndarray of shape (n,)
        Smooth losses: c sum_j eta_j m_j over the steps j that touch example i, where m_j is the
        weight of w_j, ..., w_T in the average. Non-smooth losses: the average of
        c (sqrt(sum of eta_j^2 over other steps) + sum of eta_j over touching steps), where steps
        before the first touch do not count. The maximum over i is the sensitivity of the run.

    Examples
    --------
    >>> realized_stability([0, 1, 2, 2], [1.0, 1.0, 1.0], n=4, lipschitz=1.0, smoothness=1.0,
    ...                    averaging="last")
    array([2., 4., 4., 0.])
    """
    path = np.asarray(indices)
    steps = np.asarray(step_sizes, dtype=np.float64)
    check_count("n", n, minimum=2)
    if path.ndim != 1 or not np.issubdtype(path.dtype, np.integer):
        raise ValueError("indices must be a vector of integers, i_0, i_1, ..., i_T.")
    if len(path) != len(steps) + 1:
        raise ValueError(
            f"indices must hold one number more than step_sizes (i_0 comes before the first step), "
            f"got {len(path)} and {len(steps)}."
        )
    if path.min() < 0 or path.max() >= n:
        raise ValueError(f"indices must lie between 0 and n - 1 = {n - 1}.")
    checked = check_step_size(steps, len(steps))
    change = _change(lipschitz, gradient_change)
    share = steps * tail_mass(steps, averaging)
    current, previous = path[1:], path[:-1]
    moved = np.bincount(current, weights=share, minlength=n)
    fresh = current != previous
    moved += np.bincount(previous[fresh], weights=share[fresh], minlength=n)
    if not math.isinf(smoothness):
        require_contraction(checked, smoothness, corrected=True)
        return np.asarray(change * moved, dtype=np.float64)
    weights = iterate_weights(steps, averaging)[1:]
    for example in np.unique(path):
        touches = (current == example) | (previous == example)
        after = (np.cumsum(touches) > 0) & ~touches
        moved[example] += float(weights @ np.sqrt(np.cumsum(np.where(after, steps**2, 0.0))))
    return np.asarray(change * moved, dtype=np.float64)
