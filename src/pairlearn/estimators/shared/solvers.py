# SPDX-License-Identifier: BSD-3-Clause
"""Solvers: how an estimator finds its coefficients, each with its own settings.

An estimator hands its solver a *task*: everything about a fit but the examples. The built-in
solvers are settings, and the task knows how its estimator trains by each of them. A solver of your
own derives from `Solver` and defines `fit` itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pairlearn.averaging import Averaging
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.losses import PairLoss
from pairlearn.pairings import Pairing
from pairlearn.register import Part, Register
from pairlearn.schedules import SCHEDULES, Schedule
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.two_classes import n_steps_of
from pairlearn.typing import Vector
from pairlearn.validation import check_flag, check_positive

if TYPE_CHECKING:
    from pairlearn.solvers.closed_form.grid import Grid

#: The most bytes that mapped rows may take by default: one gibibyte.
MAPPED_BYTES = 2.0**30


@dataclass(frozen=True)
class Fitted:
    """The result of a solver.

    Parameters
    ----------
    w : ndarray of shape (d,)
        Coefficients of the rows that the solver was given.
    solver : str
        The name of the solver.
    loss : PairLoss
        The loss that it minimised.
    choice : Choice
        The choices, and their evidence.
    trace : Trace
        Counts, times and history.
    advice : Advice, optional
        The recommendation of a theorem, if step_size="theory".
    kept : MappedMoments, optional
        The state that rows can be taken back from, if the solver keeps it.

    Examples
    --------
    >>> from pairlearn import Hinge
    >>> Fitted([1.0, 0.0], "mine", Hinge(), Choice(ridge=0.1), Trace()).choice.ridge
    0.1
    """

    w: Vector
    solver: str
    loss: PairLoss
    choice: Choice
    trace: Trace
    advice: Any = None
    kept: Any = None


@dataclass(frozen=True, repr=False)
class Solver(Part):
    """Base class of solvers.

    Examples
    --------
    >>> isinstance(SGD(), Solver), SGD().name
    (True, 'sgd')
    """

    #: Parameters of the estimator that only this solver uses.
    takes: ClassVar[frozenset[str]] = frozenset()
    #: Whether the solver maps rows itself, block by block, so that they need not fit in memory.
    maps_rows: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The short name."""
        return SOLVERS.name_of(self)

    def fit(self, task: Any, rows: Rows, y: Vector, weight: Vector) -> Fitted:
        """Train on stored examples.

        Parameters
        ----------
        task : object
            What is to be done: objective, loss, randomness, folds.
        rows : DenseRows or CsrRows
            Examples, mapped and scaled (unless `maps_rows`).
        y : ndarray of shape (n,)
            Labels as the loss sees them.
        weight : ndarray of shape (n,) or (0,)
            Weights of the examples; none if all are equal.

        Returns
        -------
        Fitted
            The coefficients and how they were found.
        """
        fitted: Fitted = task.solve(self, rows, y, weight)
        return fitted

    def stream(self, task: Any, n_features: int, before: Any = None) -> Any:
        """Return what learns a stream chunk by chunk: it has `learn`, `fitted` and `state`.

        Parameters
        ----------
        task : object
            What is to be done.
        n_features : int
            The number of features of a chunk.
        before : object, optional
            The model that the stream goes on from.

        Returns
        -------
        object
            The stream.
        """
        return task.stream(self, n_features, before)


SOLVERS: Register[Solver] = Register("solver", Solver)


def given_number(name: str, value: Any, *, or_infinite: bool = False) -> float | None:
    """Return a positive number, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    return check_positive(name, value, allow_infinite=or_infinite)


def as_schedule(schedule: str | Schedule, *, default: str) -> Schedule:
    """Return a schedule given by name (with scale 1) or as an object; "auto" is the default."""
    asked = isinstance(schedule, str) and schedule == "auto"
    return SCHEDULES.make(default if asked else schedule)


def auto_steps(n_passes: float | str, n: int, *, budget: int, most_passes: int = 200) -> int:
    """Return the number of steps; "auto" takes `budget`, but from 1 to `most_passes` passes.

    >>> auto_steps("auto", 100, budget=50_000)
    20000
    """
    if n_passes == "auto":
        return int(np.clip(budget, n, most_passes * n))
    return n_steps_of(n_passes, n)  # type: ignore[arg-type]


@SOLVERS.add("sgd")
@dataclass(frozen=True, repr=False)
class SGD(Solver):
    r"""Stochastic gradient descent over pairs: the paper's Algorithm 1, and 2 on a stream.

    Each step moves w against the gradient of one pair,
    w_{t+1} = Proj(w_t - eta_t grad f(w_t; z_{i_t}, z_{i_{t-1}})).

    Parameters
    ----------
    step_size : float, "auto" or "theory", default="auto"
        The scale of the step sizes. "auto" trains a grid of step sizes and radii on one sample
        path and keeps the best on held-out training data; a stream takes a fixed one in units of
        its running scales. "theory" takes the step size that minimises the bound on the excess
        risk (Theorem 2, or Theorem 1 for a loss with a kink): for `AUCClassifier.fit` with a
        finite `radius`. It reads the largest norm of a row as the bound on the norm of an example.
    radius : float or "auto", default="auto"
        Radius of the ball that the coefficients live in; infinity for none. "auto" is chosen
        together with the step size; with a given step size, and on a stream, it means none.
    n_passes : float or "auto", default="auto"
        Number of steps in units of the number of examples.
    schedule : str or Schedule, default="auto"
        "constant" (the default on stored examples), "inverse_sqrt" (the default on a stream, whose
        length is not known), "inverse_time", or a schedule, whose scale the step size multiplies.
    averaging : str or Averaging, default="step_size"
        "step_size" (the paper's average), "past_buffer" (the same with the delay that a "fifo"
        buffer needs), "linear", "undelayed", "uniform", "tail", "last", or a rule.
    pairing : str or Pairing, default="previous"
        Whom an example meets: "previous", "shuffled" (the previous one, in random passes),
        "random" (uniform pairs), "fifo", "opposite" (the latest of the other class), "reservoir",
        "class_reservoirs", "all_previous", or a pairing, which holds the size of its buffer.
    max_memory : float, default=2**30
        Bytes that mapped rows may take.

    Examples
    --------
    >>> SGD(step_size=0.1)
    SGD(step_size=0.1)
    """

    step_size: float | str = "auto"
    radius: float | str = "auto"
    n_passes: float | str = "auto"
    schedule: str | Schedule = "auto"
    averaging: str | Averaging = "step_size"
    pairing: str | Pairing = "previous"
    max_memory: float = MAPPED_BYTES

    takes = frozenset({"callbacks", "warm_start"})

    def __post_init__(self) -> None:
        self.given_step, self.given_radius  # noqa: B018 - they check
        given_number("n_passes", self.n_passes)
        check_positive("max_memory", self.max_memory, allow_infinite=True)

    @property
    def given_step(self) -> float | None:
        """The step size, if it is a number."""
        return None if self.step_size == "theory" else given_number("step_size", self.step_size)

    @property
    def given_radius(self) -> float | None:
        """The radius, if it is a number."""
        return given_number("radius", self.radius, or_infinite=True)

    @property
    def chooses(self) -> bool:
        """Whether held-out examples choose the step size."""
        return self.step_size == "auto"

    def changed(self, *fields: str) -> list[str]:
        """Return those of the fields that are not at their default."""
        default = type(self)()
        return [
            name for name in fields
            if (value := getattr(self, name)) is not getattr(default, name)
            and value != getattr(default, name)
        ]  # fmt: skip


@SOLVERS.add("exact")
@dataclass(frozen=True, repr=False)
class Exact(Solver):
    """The minimiser of the mean loss over all pairs plus a ridge, for data in memory.

    In closed form for the square loss, by Newton's method or L-BFGS with exact gradients for other
    smooth convex losses.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        The weight of the squared norm of the coefficients, for features of mean variance 1. "auto"
        takes the best of a grid on held-out folds.
    max_memory : float, default=2**30
        Bytes that mapped rows may take.

    Examples
    --------
    >>> Exact(ridge=0.1)
    Exact(ridge=0.1)
    """

    ridge: float | str = "auto"
    max_memory: float = MAPPED_BYTES

    def __post_init__(self) -> None:
        self.given_ridge  # noqa: B018 - it checks
        check_positive("max_memory", self.max_memory, allow_infinite=True)

    @property
    def given_ridge(self) -> float | None:
        """The ridge, if it is a number."""
        if self.ridge == "auto":
            return None
        if isinstance(self.ridge, str) or not 0.0 <= float(self.ridge) < math.inf:
            raise ValueError(f'ridge must be at least 0 or "auto", got {self.ridge!r}.')
        return float(self.ridge)


@SOLVERS.add("moments")
@dataclass(frozen=True, repr=False)
class Moments(Exact):
    """The square loss in closed form, from the moments of the two classes.

    One pass over blocks of mapped rows, which are never held together; on a stream one pass gives
    what `fit` would give.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        The ridge, for features of mean variance 1. "auto" takes the best of 1, .1, ..., 1e-4 on
        held-out examples.
    max_memory : float, default=2**30
        Bytes that the tables of moments may take.
    memory : float or "auto", default="auto"
        How long a stream remembers, as a half-life in examples: an example counts half as much
        once this many have followed. Examples come in blocks of 128, later 256, or of two for each
        feature, and those of a block count alike. Infinity remembers everything. "auto" keeps
        several half-lives side by side and takes the longest that is as good as the best on recent
        examples, each scored before it is learned; a stream that does not change loses nothing.
        `fit` weighs all rows alike, and takes no number.
    keep_state : bool, default=False
        Whether `fit` keeps the exact moments, so that `AUCClassifier.partial_unfit` can take rows
        back. They take about 8 bytes for each pair of mapped features, and a model file does not
        hold them. A stream with `ranges` always has them.
    ranges : (low, high), optional
        About what the features lie between: two numbers, or two sequences with a number for each
        feature; for linear features. The moments are then whole numbers on a grid that follows
        from the ranges alone, with 44 binary digits; values outside are as exact, and slower from
        256 times the range on. So the coefficients depend on what the rows hold and on nothing
        else: `fit`, any chunks of a stream, and any partitions of a cluster give the same bits, and
        after rows are taken back those of a fit without them. Three things differ from the default.
        Features are divided by their standard deviations alone, and "auto" chooses the ridge on a
        sample of each class, see the guide "Forgetting rows". Weights must be whole numbers. A
        stream remembers everything.

    Examples
    --------
    >>> Moments().given_ridge is None
    True
    >>> Moments(0.1, ranges=(0, 1)).grid(2).exponents
    array([-44, -44])
    >>> Moments().half_lives(22), Moments(memory=500).half_lives(22)
    ((inf, 4000.0, 1000.0, 250.0), (500.0,))
    """

    memory: float | str = "auto"
    keep_state: bool = False
    ranges: Any = None

    maps_rows = True

    def __post_init__(self) -> None:
        super().__post_init__()
        given_number("memory", self.memory, or_infinite=True)
        check_flag("keep_state", self.keep_state)
        if self.ranges is None:
            return
        object.__setattr__(self, "ranges", _as_ranges(self.ranges))
        if self.memory not in ("auto", math.inf):
            raise ValueError(
                f"ranges={self.ranges!r:.60} are for exact moments of all rows, and memory="
                f'{self.memory!r} forgets some; leave memory at "auto", or leave out ranges.'
            )

    def grid(self, n_features: int) -> Grid | None:
        """Return the grid of so many features that the ranges make; None without ranges."""
        if self.ranges is None:
            return None
        sides = [np.asarray(side, dtype=np.float64) for side in self.ranges]
        for side in sides:
            if side.ndim and len(side) != n_features:
                raise ValueError(
                    f"ranges are of {len(side)} features, X has {n_features}; give two numbers, or "
                    "one of each for every feature."
                )
        from pairlearn.solvers.closed_form.grid import FINE, Grid

        low, high = (np.broadcast_to(side, (n_features,)) for side in sides)
        return Grid.between(low, high, bits=FINE)

    def half_lives(self, n_features: int) -> tuple[float, ...]:
        """Return the half-lives that a stream of mapped rows keeps, the longest first."""
        given = given_number("memory", self.memory, or_infinite=True)
        from pairlearn.solvers.closed_form.past import half_lives_for

        return half_lives_for(n_features, given, self.max_memory)


def _as_ranges(given: Any) -> tuple[Any, Any]:
    """Return lows and highs as numbers or tuples of numbers, checked."""
    rule = "ranges must be (low, high), two numbers or two sequences of numbers with low < high"
    try:
        low, high = (np.asarray(side, dtype=np.float64) for side in given)
        right = low.shape == high.shape and low.ndim <= 1 and bool((low < high).all())
        right = right and bool(np.isfinite([low, high]).all())
    except (TypeError, ValueError):
        right = False
    if not right:
        raise ValueError(f"{rule}, got {given!r:.80}.")
    sides = [tuple(side.tolist()) if side.ndim else float(side) for side in (low, high)]
    return sides[0], sides[1]


def step_and_radius(solver: SGD, owner: str) -> tuple[float | None, float]:
    """Return the step size, None for "auto", and the radius of an estimator without a theorem.

    A radius of "auto" means none. `owner` is the name of the estimator.
    """
    if solver.step_size == "theory":
        raise ValueError(
            f'step_size="theory" is for AUCClassifier, {owner} has no such bound; pass a number or '
            '"auto".'
        )
    radius = solver.given_radius
    return solver.given_step, math.inf if radius is None else radius


def check_solver(solver: Solver, kinds: tuple[type[Solver], ...], owner: str) -> None:
    """Refuse a solver that an estimator has no way to train by."""
    if not isinstance(solver, kinds):
        names = " or ".join(repr(SOLVERS.name_of(kind())) for kind in kinds)
        raise ValueError(f"{owner} has no way to train by {solver!r}; use solver={names}.")
