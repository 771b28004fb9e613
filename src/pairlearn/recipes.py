# SPDX-License-Identifier: BSD-3-Clause
r"""Published methods for AUC maximisation, as compositions of parts with one interface.

Every recipe takes the same arguments: a step size eta, the radius of a ball, a number of passes.
Each recipe gives them their published meaning: eta is divided by sqrt(T) if the paper's experiments
do so, and methods published without a projection ignore the radius unless told otherwise.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(200, 3))
>>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
>>> for name in ("previous_example", "olp", "spauc"):
...     w = RECIPES[name].solve(X, y, step_size=1.0, radius=10.0, rng=0).average
...     print(name, bool(w[0] > 3 * abs(w[1:]).max()))
previous_example True
olp True
spauc True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from pairlearn.averaging import Averaging, DelayedByStepSize, Tail, Uniform
from pairlearn.domains import Ball, WholeSpace, ball_or_whole
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.pairings import (
    AllPrevious,
    ClassReservoirs,
    FifoBuffer,
    FrozenExample,
    Pairing,
    PreviousExample,
    PreviousOpposite,
    RandomEarlier,
    RandomPair,
    ReservoirBuffer,
)
from pairlearn.problem import Problem
from pairlearn.schedules import Constant, InverseSqrt, InverseTime, Schedule
from pairlearn.scores import LinearScore
from pairlearn.solvers.closed_form.opauc import OPAUC
from pairlearn.solvers.descent.localized import LocalizedSGD
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.saddle import SOLAM, SPAUC
from pairlearn.solvers.descent.sweep import Sweep, SweepSolution
from pairlearn.solvers.exact.batch import ExactSolver
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.running import Callback
from pairlearn.solvers.solution import Solution
from pairlearn.solvers.top.objectives import Objective, PartialArea, Push, SmoothPrecision
from pairlearn.solvers.top.stream import solve_top
from pairlearn.solvers.two_classes import check_two_classes, n_steps_of
from pairlearn.typing import Vector
from pairlearn.validation import check_generator, check_positive

__all__ = ["RECIPES", "Recipe"]

#: Step sizes by name, for a scale eta and T steps.
STEPS: dict[str, Callable[[float, int], Schedule]] = {
    # As in the paper's experiments.
    "constant": lambda eta, n_steps: Constant(eta / math.sqrt(n_steps)),
    "fixed": lambda eta, n_steps: Constant(eta),
    "inverse_sqrt": lambda eta, n_steps: InverseSqrt(eta),
    "inverse_time": lambda eta, n_steps: InverseTime(eta),
    "delayed": lambda eta, n_steps: InverseTime(eta, offset=0.1 * n_steps),
}


@dataclass(frozen=True)
class Setting:
    """The arguments of one run of a recipe."""

    loss: PairLoss
    step_size: float
    radius: float
    n_passes: float
    n_steps: int
    callbacks: Sequence[Callback] = ()
    pauses: Sequence[int] = ()

    @property
    def domain(self) -> WholeSpace | Ball:
        """The ball, or no constraint if the radius is infinite."""
        return ball_or_whole(self.radius)

    def schedule(self, steps: str) -> Schedule:
        """Return step sizes by name."""
        return STEPS[steps](self.step_size, self.n_steps)

    @property
    def watched(self) -> dict[str, Any]:
        """Callbacks and pauses as arguments."""
        return {"callbacks": self.callbacks, "pauses": self.pauses}


Run = Callable[[Setting, Rows, Vector, Any], Solution]


@dataclass(frozen=True)
class PairRun:
    """Pairwise SGD as a recipe runs it.

    `steps` is a key of `STEPS`; `factor` multiplies the step sizes; `projects` says whether w is
    projected onto the ball.
    """

    pairing: Pairing
    averaging: Averaging
    steps: str
    projects: bool = True
    factor: float = 1.0

    def __call__(self, setting: Setting, rows: Rows, y: Vector, rng: Any) -> Solution:
        """Run it."""
        domain = setting.domain if self.projects else WholeSpace()
        schedule = setting.schedule(self.steps).scaled(self.factor)
        solver = PairwiseSGD(self.pairing, schedule, domain, self.averaging)
        problem = Problem(LinearScore(), setting.loss)
        return solver.solve(problem, rows, y, n_steps=setting.n_steps, rng=rng, **setting.watched)


@dataclass(frozen=True)
class SaddleRun:
    """SPAUC as a recipe runs it; the fields are those of `PairRun` and `SPAUC`."""

    averaging: Averaging
    moments: str
    steps: str = "inverse_sqrt"

    def __call__(self, setting: Setting, rows: Rows, y: Vector, rng: Any) -> Solution:
        """Run it."""
        schedule = setting.schedule(self.steps)
        solver = SPAUC(schedule, WholeSpace(), self.averaging, self.moments)
        return solver.solve(rows, y, n_passes=setting.n_passes, rng=rng, **setting.watched)


@dataclass(frozen=True)
class Recipe:
    """A published method with its published settings.

    Parameters
    ----------
    name : str
        Its name in `RECIPES`.
    description : str
        One line.
    citation : str
        Where it was published.
    run : callable
        Runs it for a setting.
    n_passes : float
        The number of passes in the paper's experiments (Tables 1 and 3), or in the original.
    loss : str, default="hinge"
        The published loss.
    any_loss : bool, default=False
        Whether other losses may be used.
    tunes_step_size, tunes_radius : bool, default=True
        Whether the method has a step size and a projection.
    """

    name: str
    description: str
    citation: str
    run: Run
    n_passes: float
    loss: str = "hinge"
    any_loss: bool = False
    tunes_step_size: bool = True
    tunes_radius: bool = True

    def solve(
        self,
        X: Any,
        y: ArrayLike,
        *,
        step_size: float = 1.0,
        radius: float = math.inf,
        n_passes: float | None = None,
        loss: str | PairLoss | None = None,
        rng: Any = None,
        callbacks: Sequence[Callback] = (),
        pauses: Sequence[int] = (),
    ) -> Solution:
        """Run the method.

        Parameters
        ----------
        X : array-like or sparse container of shape (n, d)
            Examples; some methods need dense ones.
        y : array-like of shape (n,)
            Labels -1 and +1, both present.
        step_size : float, default=1.0
            The scale eta of the step sizes.
        radius : float, default=inf
            Radius of the ball; ignored by methods without a projection.
        n_passes : float, optional
            Steps in units of n; the published number by default.
        loss : str or PairLoss, optional
            Another loss, if the method allows it.
        rng : int or numpy.random.Generator, optional
            Source of randomness.
        callbacks, pauses : sequence
            As in `PairwiseSGD.solve`; methods that cannot pause refuse them.

        Returns
        -------
        Solution
            The model is `average`.
        """
        if callbacks and self.run in (_localized, _exact):
            raise ValueError(f"{self.name} cannot pause; leave out callbacks.")
        rows, labels = check_two_classes(X, y)
        passes = self.n_passes if n_passes is None else check_positive("n_passes", n_passes)
        setting = Setting(
            self._loss(loss),
            check_positive("step_size", step_size),
            check_positive("radius", radius, allow_infinite=True),
            passes,
            n_steps_of(passes, rows.shape[0]),
            callbacks,
            pauses,
        )
        return self.run(setting, rows, labels, rng)

    def sweep(
        self,
        X: Any,
        y: ArrayLike,
        *,
        step_sizes: Sequence[float],
        radii: Sequence[float],
        n_passes: float | None = None,
        loss: str | PairLoss | None = None,
        rng: Any = None,
    ) -> SweepSolution:
        """Run `solve` for several step sizes and their radii on one sample path."""
        run = self.run
        if not isinstance(run, PairRun) or not run.pairing.one_pair_a_step:
            raise ValueError(f"{self.name} does not take one pair per step; call `solve` for each.")
        rows, labels = check_two_classes(X, y)
        n_steps = n_steps_of(self.n_passes if n_passes is None else n_passes, rows.shape[0])
        shape = STEPS[run.steps](1.0, n_steps).scaled(run.factor)
        radii = radii if run.projects else [math.inf] * len(radii)
        sweep = Sweep(tuple(step_sizes), tuple(radii), run.pairing, shape, run.averaging)
        problem = Problem(LinearScore(), self._loss(loss))
        return sweep.solve(problem, rows, labels, n_steps=n_steps, rng=rng)

    def varied(self, **parts: Any) -> Recipe:
        """Return the recipe with other fields, such as ``steps="constant"`` or ``projects=True``.

        Parameters
        ----------
        **parts
            Fields of its run.

        Returns
        -------
        Recipe
            The changed recipe.

        Examples
        --------
        >>> RECIPES["olp"].varied(steps="constant").run.steps
        'constant'
        """
        if not parts:
            return self
        if not isinstance(self.run, PairRun | SaddleRun):
            raise ValueError(f"{self.name} is one piece; it has no {', '.join(parts)} to vary.")
        if parts.get("steps", "constant") not in STEPS:
            raise ValueError(f"steps must be one of {', '.join(STEPS)}, got {parts['steps']!r}.")
        tunes_radius = parts.get("projects", self.tunes_radius)
        return replace(self, run=replace(self.run, **parts), tunes_radius=tunes_radius)

    @property
    def n_remembered(self) -> int | None:
        """Number of stored examples; None if it grows or has no meaning."""
        pairing = self.run.pairing if isinstance(self.run, PairRun) else AllPrevious()
        if isinstance(pairing, ClassReservoirs):
            return pairing.n_positive + pairing.n_negative
        return None if isinstance(pairing, AllPrevious) else getattr(pairing, "buffer_size", 1)

    def _loss(self, loss: str | PairLoss | None) -> PairLoss:
        chosen = LOSSES.make(self.loss if loss is None else loss)
        if chosen != LOSSES.make(self.loss) and not self.any_loss:
            raise ValueError(f"{self.name} is made for the {self.loss} loss, got {chosen!r}.")
        return chosen


def _solam(setting: Setting, rows: Rows, y: Vector, rng: Any) -> Solution:
    solver = SOLAM(setting.schedule("inverse_sqrt"), setting.domain)
    return solver.solve(rows, y, n_passes=setting.n_passes, rng=rng, **setting.watched)


def _opauc(rank: int | None) -> Run:
    def run(setting: Setting, rows: Rows, y: Vector, rng: Any) -> Solution:
        solver = OPAUC(Constant(setting.step_size), rank=rank)
        return solver.solve(rows, y, n_passes=setting.n_passes, rng=rng, **setting.watched)

    return run


def _localized(setting: Setting, rows: Rows, y: Vector, rng: Any) -> Solution:
    if math.isinf(setting.radius):
        raise ValueError("localized needs a finite radius: its theorem is about a bounded domain.")
    locality = setting.step_size / math.sqrt(rows.shape[0])
    solver = LocalizedSGD(setting.radius, locality, setting.n_passes)
    return solver.solve(Problem(LinearScore(), setting.loss), rows, y, rng=rng)


def _exact(setting: Setting, rows: Rows, y: Vector, rng: Any) -> Solution:
    return ExactSolver(setting.loss).solve(rows, y)


def _top(objective: Objective) -> Run:
    """Return the run of descent for an objective of the top of the list."""

    def run(setting: Setting, rows: Rows, y: Vector, rng: Any) -> Solution:
        if setting.callbacks:
            raise ValueError("descent for the top of the list cannot pause; leave out callbacks.")
        return solve_top(
            objective,
            setting.loss,
            rows,
            y,
            n_passes=setting.n_passes,
            step_size=setting.step_size,
            radius=setting.radius,
            rng=check_generator(rng),
        )

    return run


_YANG = "Yang, Lei, Wang, Yang, Ying. NeurIPS 2021"
_KAR = "Kar, Sriperumbudur, Jain, Karnick. ICML 2013"
_ZHAO = "Zhao, Hoi, Jin, Yang. ICML 2011"
_LEI = "Lei, Ying. JMLR 2021"
_GAO = "Gao, Jin, Zhu, Zhou. ICML 2013"
_DELAYED = DelayedByStepSize()
#: The released code reports the mean of the last 29 to 50 % of the iterates.
_RELEASED = Tail(0.4)
_OAM = ClassReservoirs(100, 100, weighting="oam")
_OAM_1 = ClassReservoirs(1, 1, weighting="oam")
_OAM_ZERO = ClassReservoirs(100, 100, weighting="oam", zero_filled=True)
_OAM_1_ZERO = ClassReservoirs(1, 1, weighting="oam", zero_filled=True)


def _published(
    citation: str, run: Run, n_passes: float, **settings: Any
) -> Callable[[str], dict[str, Any]]:
    """Return a function from a description to the other fields of a recipe, except its name."""
    fields = {"citation": citation, "run": run, "n_passes": n_passes, **settings}
    return lambda description: {"description": description, **fields}


def _pairs(
    citation: str, pairing: Pairing, averaging: Averaging, steps: str, n_passes: float
) -> Callable[[str], dict[str, Any]]:
    return _published(citation, PairRun(pairing, averaging, steps), n_passes, any_loss=True)


def _oam(
    citation: str, pairing: Pairing, averaging: Averaging, n_passes: float, factor: float = 0.5
) -> Callable[[str], dict[str, Any]]:
    run = PairRun(pairing, averaging, "fixed", projects=False, factor=factor)
    return _published(citation, run, n_passes, tunes_radius=False)


_FREE: dict[str, Any] = {"loss": "square", "tunes_radius": False}
_UNTUNED = {"tunes_step_size": False, "tunes_radius": False}
_TOP: dict[str, Any] = {"loss": "squared_hinge"}
_VARIANT = "a variant of Algorithm 1"
_WANG = "Wang, Khardon, Pechyony, Jones. COLT 2012"

_PUBLISHED: dict[str, dict[str, Any]] = {
    "previous_example": _pairs(_YANG, PreviousExample(), _DELAYED, "constant", 10)(
        "Algorithm 1: each example meets the previous one"
    ),
    "fifo": _pairs(_YANG, FifoBuffer(10), _DELAYED, "constant", 10)(
        "each example meets the last 10, averaged (remark after Theorem 6)"
    ),
    "sgd_pair": _pairs("Lei, Ledent, Kloft. NeurIPS 2020", RandomPair(), _DELAYED, "constant", 10)(
        "uniform pairs of distinct examples"
    ),
    "olp": _pairs(_KAR, ReservoirBuffer(200), Uniform(), "inverse_sqrt", 3)(
        "a reservoir of 200 with replacement"
    ),
    "olp_rs1": _pairs(_KAR, ReservoirBuffer(1), Uniform(), "inverse_sqrt", 30)(
        "OLP with one slot; after a while it hardly ever changes"
    ),
    "oam_gra": _oam(_ZHAO, _OAM, Uniform(), 5)(
        "a reservoir of 100 for each class, gradient steps C_t / 2"
    ),
    "oam_gra_released": _oam(_YANG, _OAM_ZERO, _RELEASED, 5, factor=1.0)(
        "OAM_gra as in the paper's code: reservoirs filled with zeros, steps C_t"
    ),
    "oam_rs1": _oam(_ZHAO, _OAM_1, Uniform(), 30)(
        "OAM_gra with one slot for each class; its steps grow with t"
    ),
    "oam_rs1_released": _oam(_YANG, _OAM_1_ZERO, _RELEASED, 30)(
        "OAM-RS1 as in the paper's code: slots filled with zeros"
    ),
    "all_previous": _pairs(_WANG, AllPrevious(), Uniform(), "inverse_sqrt", 1)(
        "each example meets all earlier ones, O(t) a step"
    ),
    "frozen_example": _pairs(_VARIANT, FrozenExample(), _DELAYED, "constant", 10)(
        "each example meets the first one"
    ),
    "random_earlier": _pairs(_VARIANT, RandomEarlier(), _DELAYED, "constant", 10)(
        "each example meets a uniform earlier one"
    ),
    "previous_opposite": _pairs(_VARIANT, PreviousOpposite(), _DELAYED, "constant", 10)(
        "each example meets the latest one of the other class"
    ),
    # without a projection the first iterates may be far away; the average omits them
    "spauc": _published(_LEI, SaddleRun(_RELEASED, "online"), 10, **_FREE)(
        "saddle-point form, class means and prior estimated online"
    ),
    "spauc_released": _published(_YANG, SaddleRun(_RELEASED, "known"), 10, **_FREE)(
        "SPAUC as in the paper's code: means and prior of all data known beforehand"
    ),
    "solam": _published("Ying, Wen, Lyu. NeurIPS 2016", _solam, 10, loss="square")(
        "saddle-point form with dual steps, prior estimated online"
    ),
    "opauc": _published(_GAO, _opauc(None), 1, **_FREE)(
        "first and second moments of both classes, O(d^2) a step"
    ),
    "opauc_sketch": _published(_GAO, _opauc(50), 1, **_FREE)(
        "OPAUC with covariances sketched to rank 50"
    ),
    # At most half of the steps meet opposite labels, so 4 passes would need at most 2 n gradients
    # on average; 3.8 keeps random variation below 2 n too.
    "localized": _published(_YANG, _localized, 3.8, any_loss=True)(
        "Algorithm 4: stages on disjoint data; eta stands for D / G in zeta = eta / sqrt(n)"
    ),
    "closed_form": _published("class means and covariances", _exact, 1, loss="square", **_UNTUNED)(
        "the exact minimiser of the square loss, one linear system"
    ),
    "lbfgs": _published(
        "exact gradients by sorting", _exact, 1, loss="squared_hinge", any_loss=True, **_UNTUNED
    )("L-BFGS on the exact pair risk of the squared hinge"),
    # the published objectives; batches with a sample of the past replace their running averages
    "p_norm_push": _published("Rudin. JMLR 2009", _top(Push(8.0)), 10, **_TOP)(
        "the 8-norm, over negatives, of their mean loss; batches and reservoirs"
    ),
    "sopa": _published("Zhu, Li, Wang, Wu, Yang. ICML 2022", _top(PartialArea(0.05)), 10, **_TOP)(
        "partial AUC for false positive rates up to .05 as a conditional value at risk (SOPA-like)"
    ),
    "soap": _published("Qi, Luo, Xu, Ji, Yang. NeurIPS 2021", _top(SmoothPrecision()), 10, **_TOP)(
        "average precision with soft counts, started from all pairs (SOAP-like)"
    ),
}
#: Published methods by name, each with its published settings.
RECIPES: dict[str, Recipe] = {name: Recipe(name, **facts) for name, facts in _PUBLISHED.items()}
