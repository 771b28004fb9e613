# SPDX-License-Identifier: BSD-3-Clause
"""The step size, number of steps and averaging that the bounds recommend, with their bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from pairlearn.averaging import Averaging, DelayedByStepSize, DelayedLinear
from pairlearn.problem import Problem
from pairlearn.register import RECORDS, Record
from pairlearn.schedules import Constant, Schedule, StronglyConvex
from pairlearn.theory.conventions import ConstantsChoice, check_constants
from pairlearn.theory.excess import (
    excess_nonsmooth,
    excess_online,
    excess_smooth,
    step_size_nonsmooth,
    step_size_online,
    step_size_smooth,
)
from pairlearn.theory.glossary import documented
from pairlearn.theory.optimization import strongly_convex_gap
from pairlearn.theory.stability import auc_gradient_change
from pairlearn.validation import check_count, check_positive


@RECORDS.add()
@dataclass(frozen=True)
class Advice(Record):
    """The recommendation of a theorem.

    Parameters
    ----------
    schedule : Schedule
        The step sizes.
    n_steps : int
        The number of steps.
    averaging : Averaging
        The average to return.
    bound : float
        The bound on the expected excess risk of that average.
    theorem : str
        The statement that gives it.
    """

    schedule: Schedule
    n_steps: int
    averaging: Averaging
    bound: float
    theorem: str

    @property
    def step_size(self) -> float:
        """The scale of the schedule."""
        return self.schedule.step_size


@documented
def advise(
    n: int,
    *,
    lipschitz: float,
    diameter: float,
    smoothness: float = math.inf,
    strong_convexity: float = 0.0,
    setting: Literal["offline", "online"] = "offline",
    n_steps: int | None = None,
    distance: float | None = None,
    gradient_change: float | None = None,
    constants: ConstantsChoice = "corrected",
) -> Advice:
    r"""Return the step size, horizon and averaging that the bounds recommend for a convex loss.

    Parameters
    ----------
    smoothness : float, default=inf
        L, the Lipschitz constant of the gradient; infinite for a loss with a kink.
    strong_convexity : float, default=0.0
        alpha; when positive, only for ``setting="online"``.
    setting : {"offline", "online"}, default="offline"
        "offline": Algorithm 1, examples drawn with replacement (Theorem 2, or Theorem 1 for a
        loss with a kink). "online": Algorithm 2, one pass in order of arrival, or one pass over a
        shuffled data set (Theorem 6). One pass has the smaller bound.
    n_steps : int, optional
        Number of steps. Default: n for smooth losses, n^2 for losses with a kink, n - 1 online
        (the most steps that n examples allow).
    distance : float, optional
        A bound on \|w_0 - w*\|. Default: the diameter; for a ball and w_0 = 0 half of it.
    gradient_change : float, optional
        Largest change of a pair gradient, 2 G by default; see `auc_gradient_change`. It matters
        offline, for corrected constants.

    Returns
    -------
    Advice
        The recommendation and the value of the bound.

    Examples
    --------
    >>> advice = advise(10_000, lipschitz=2.0, smoothness=1.0, diameter=2.0)
    >>> advice.n_steps, round(advice.step_size, 5), round(advice.bound, 3), advice.theorem
    (10000, 0.00302, 0.133, 'Theorem 2')
    >>> advise(10_000, lipschitz=2.0, diameter=2.0, setting="online").averaging
    DelayedByStepSize()
    """
    check_constants(constants)
    check_count("n", n, minimum=3)
    if distance is None:
        distance = check_positive("diameter", diameter)
    else:
        distance = check_positive("distance", distance)
        if distance > check_positive("diameter", diameter):
            raise ValueError(f"distance must be at most the diameter {diameter!r}.")
    if setting not in ("offline", "online"):
        raise ValueError(f"setting must be 'offline' or 'online', got {setting!r}.")
    if not strong_convexity >= 0.0:
        raise ValueError(f"strong_convexity must be at least 0, got {strong_convexity!r}.")
    if setting == "online":
        steps = n - 1 if n_steps is None else check_count("n_steps", n_steps)
        if steps > n - 1:
            raise ValueError(
                f"n_steps must be at most n - 1 = {n - 1} for one pass, got {steps}; "
                "for more steps use setting='offline'."
            )
        if strong_convexity > 0.0:
            gap = strongly_convex_gap(
                steps, lipschitz=lipschitz, strong_convexity=strong_convexity, constants=constants
            )
            schedule = StronglyConvex.of(strong_convexity)
            return Advice(schedule, steps, DelayedLinear(), gap, "Theorem 6b")
        eta = step_size_online(steps, lipschitz=lipschitz, distance=distance, constants=constants)
        bound = excess_online(
            steps, lipschitz=lipschitz, distance=distance, step_size=eta, constants=constants
        )
        return Advice(Constant(eta), steps, DelayedByStepSize(), bound, "Theorem 6a")
    if strong_convexity > 0.0:
        raise ValueError(
            "the paper has no excess-risk bound for strongly convex losses with several passes; "
            "use setting='online' or strong_convexity=0."
        )
    options: dict[str, Any] = {
        "lipschitz": lipschitz,
        "distance": distance,
        "gradient_change": gradient_change,
    }
    if math.isinf(smoothness):
        steps = n * n if n_steps is None else check_count("n_steps", n_steps)
        eta = step_size_nonsmooth(n, steps, constants=constants, **options)
        bound = excess_nonsmooth(n, steps, step_size=eta, constants=constants, **options)
        return Advice(Constant(eta), steps, DelayedByStepSize(), bound, "Theorem 1")
    steps = n if n_steps is None else check_count("n_steps", n_steps)
    eta = step_size_smooth(n, steps, smoothness=smoothness, constants=constants, **options)
    bound = excess_smooth(
        n, steps, smoothness=smoothness, step_size=eta, constants=constants, **options
    )
    return Advice(Constant(eta), steps, DelayedByStepSize(), bound, "Theorem 2")


@documented
def advise_auc(
    problem: Problem,
    n: int,
    *,
    norm_bound: float,
    radius: float,
    setting: Literal["offline", "online"] = "offline",
    n_steps: int | None = None,
    constants: ConstantsChoice = "corrected",
) -> Advice:
    """Return the recommendation for binary labels, a linear score and a ball about w_0 = 0.

    The constants come from the problem: G and L from bounds on examples and model, the radius
    bounds the distance to the minimiser, and `auc_gradient_change` the effect of a replaced
    example.

    Parameters
    ----------
    problem : Problem
        The score and the loss, which must be convex.
    radius : float
        Radius of the ball that contains w; it must be finite.
    setting : {"offline", "online"}, default="offline"
        See `advise`.
    n_steps : int, optional
        Number of steps; see `advise`.

    Returns
    -------
    Advice
        The recommendation and the value of the bound.

    Examples
    --------
    >>> from pairlearn.losses import Logistic
    >>> from pairlearn.scores import LinearScore
    >>> problem = Problem(LinearScore(), Logistic())
    >>> advice = advise_auc(problem, 10_000, norm_bound=1.0, radius=1.0)
    >>> round(advice.step_size, 5), round(advice.bound, 4)
    (0.00215, 0.0466)
    """
    problem.check_by_labels("advise_auc")
    if not problem.loss.convex:
        raise ValueError(
            f"{type(problem.loss).__name__} is not convex and has no excess-risk bound without "
            "further conditions; see pl_excess."
        )
    check_positive("radius", radius)
    lipschitz, smoothness, _ = problem.constants(norm_bound=norm_bound, radius=radius)
    return advise(
        n,
        lipschitz=lipschitz,
        smoothness=smoothness,
        diameter=2.0 * radius,
        distance=radius,
        gradient_change=auc_gradient_change(problem, norm_bound=norm_bound, radius=radius),
        setting=setting,
        n_steps=n_steps,
        constants=constants,
    )
