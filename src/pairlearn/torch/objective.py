# SPDX-License-Identifier: BSD-3-Clause
"""The paper's algorithms for a function f(w; z, z') of one's own, by automatic differentiation.

At step t the parameter moves to w_t = Proj(w_{t-1} - eta_t grad f(w_{t-1}; z_{i_t}, z_{i_{t-1}})),
as in `PairwiseSGD`, with the same pairings, schedules, domains and averages. Each step is one call
of Python: where f depends on one linear score, `PairwiseSGD` is thousands of times faster.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pairlearn.averaging import Averaging, DelayedByStepSize, DelayedLinear
from pairlearn.domains import Ball, CoordinatewiseDomain, Domain, WholeSpace
from pairlearn.pairings import Pairing, Plan, PreviousExample, SlotPlan
from pairlearn.pairings.plans import ZERO_POSITIVE
from pairlearn.pairings.sound import check_keep, check_plan, sound_source
from pairlearn.schedules import Constant, Schedule, StronglyConvex
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.descent.localized import localized_stages
from pairlearn.solvers.running import Callback, run_blocks
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.support import averaging_for
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, check_generator, check_steps

#: Steps after which callbacks and Ctrl-C have their turn: a step takes half a millisecond.
_BLOCK = 256
#: A tensor, or tensors by name: the parameters of a network.
Parameters = Any
#: f(w, x, y, x_partner, y_partner), one number.
PairFunction = Callable[[Any, Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class ObjectiveSolution:
    """The result of a run.

    Parameters
    ----------
    average : Tensor or mapping of str to Tensor
        The average by the averaging rule, in the form of the starting point: the output of the
        algorithm.
    w : Tensor or mapping of str to Tensor
        The last iterate.
    trace : Trace
        What happened on the way.
    """

    average: Any
    w: Any
    trace: Trace


@dataclass(frozen=True)
class PairwiseObjective:
    """A function f(w; z, z') of one's own in Algorithms 1, 2 and 4.

    Parameters
    ----------
    f : callable
        ``f(w, x, y, x_partner, y_partner)`` returns one number, as a tensor that depends on w. The
        parameter w is a tensor, or a mapping from names to tensors, as
        ``torch.func.functional_call`` takes it; x is a row of X and y its label.
    pairing : Pairing, default=PreviousExample()
        Who meets whom.
    schedule : Schedule, default=Constant(0.1)
        The step sizes.
    domain : Domain, default=WholeSpace()
        Where the parameter, as one long vector, may live. `Ball` works on every device, others on
        the CPU.
    averaging : Averaging, default=DelayedByStepSize()
        Which average of the iterates is returned.

    See Also
    --------
    pairlearn.PairwiseSGD : The same for losses of one linear score, in machine code.

    Examples
    --------
    >>> def f(w, x, y, x_partner, y_partner):
    ...     margin = torch.sign(y - y_partner) * (w @ (x - x_partner))
    ...     return torch.relu(1.0 - margin) * (y != y_partner)
    >>> X = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    >>> y = torch.tensor([1.0, -1.0])
    >>> objective = PairwiseObjective(f, schedule=Constant(0.1))
    >>> objective.solve(X, y, w_start=torch.zeros(1, dtype=torch.float64), n_steps=50, rng=0).w
    tensor([0.6000], dtype=torch.float64)
    """

    f: PairFunction
    pairing: Pairing = field(default_factory=PreviousExample)
    schedule: Schedule = field(default_factory=lambda: Constant(0.1))
    domain: Domain = field(default_factory=WholeSpace)
    averaging: Averaging = field(default_factory=DelayedByStepSize)

    def __post_init__(self) -> None:
        if not callable(self.f):
            raise TypeError(
                f"f must be a function of (w, x, y, x_partner, y_partner), got {self.f!r}."
            )

    def solve(
        self,
        X: Tensor,
        y: Tensor,
        *,
        w_start: Parameters,
        n_steps: int | None = None,
        n_passes: float | None = None,
        rng: Any = None,
        callbacks: Sequence[Callback] = (),
    ) -> ObjectiveSolution:
        """Run Algorithm 1 on stored examples.

        Parameters
        ----------
        X : Tensor of shape (n, ...)
            Examples, on the device of the parameter.
        y : Tensor of shape (n,)
            Labels.
        w_start : Tensor or mapping of str to Tensor
            The starting point; the run starts at its projection onto the domain.
        n_steps : int, optional
            The number T of steps.
        n_passes : float, optional
            The number of steps in units of n. Give one of `n_steps` and `n_passes`.
        rng : int or numpy.random.Generator, optional
            Source of the indices; the path is that of `PairwiseSGD.solve`.
        callbacks : sequence of callable
            Each is called between blocks of steps with a `Running`, whose vectors are NumPy's.

        Returns
        -------
        ObjectiveSolution
            The average, the last iterate and the trace. Ctrl-C ends the run early, with a
            warning, and returns what there is.
        """
        n = _check_examples(X, y)
        n_steps = check_steps(n, n_steps, n_passes)
        labels = y.detach().cpu().numpy().astype(np.float64)
        source = sound_source(self.pairing, n, check_generator(rng), labels)
        run = _Descent(self, w_start, X, horizon=n_steps)
        plan: Plan | SlotPlan | None = None
        taken = 0

        def advance(count: int) -> int:
            nonlocal plan, taken
            repeats = 0
            if plan is None or taken == len(plan):
                # As many at once as the compiled solver draws: the path depends on it.
                plan, taken = source.draw(min(BLOCK, n_steps - run.n_steps)), 0
                repeats = plan.n_repeats
            begin, taken = taken, min(taken + count, len(plan))
            run.take(X, y, plan, begin, taken)
            return repeats

        trace = run_blocks(run, advance, n_steps, block=_BLOCK, callbacks=callbacks)
        return ObjectiveSolution(run.shaped(run.mean()), run.shaped(run.vector), trace)

    def start(self, w_start: Parameters, *, rng: Any = None) -> ObjectiveStream:
        """Return Algorithm 2 on a stream, from `w_start`; `rng` is for pairings that draw."""
        return ObjectiveStream(self, w_start, check_generator(rng))

    def solve_localized(
        self,
        X: Tensor,
        y: Tensor,
        *,
        w_start: Parameters,
        locality: float,
        n_passes: float = 1.0,
        rng: Any = None,
    ) -> ObjectiveSolution:
        """Run Algorithm 4: stages on disjoint examples, each held near the result of the last.

        Its steps zeta_k n_k / (j + 1), its average and its pairs are prescribed: `schedule`,
        `averaging` and `pairing` must be left at their defaults.

        Parameters
        ----------
        X : Tensor of shape (n, ...)
            Examples, at least 4.
        y : Tensor of shape (n,)
            Labels.
        w_start : Tensor or mapping of str to Tensor
            The first centre, projected onto the domain.
        locality : float
            zeta; Theorem 11 takes D / (G sqrt(n)) for a domain of diameter D and gradients of at
            most G.
        n_passes : float, default=1.0
            Steps of a stage in units of its number of examples.
        rng : int or numpy.random.Generator, optional
            Deals the examples to the stages and draws the indices.

        Returns
        -------
        ObjectiveSolution
            The average of the last stage, its last iterate, and the trace.
        """
        for name in ("schedule", "averaging", "pairing"):
            given = getattr(self, name)
            if given != getattr(PairwiseObjective(self.f), name):
                raise ValueError(f"Algorithm 4 has its own {name}, got {given!r}; leave it out.")
        if isinstance(self.domain, CoordinatewiseDomain) and not self.domain.is_projection:
            raise ValueError(
                f"Algorithm 4 projects onto a set, got the penalty {self.domain!r}; use solve."
            )
        n = _check_examples(X, y)
        stages = localized_stages(n, locality=locality, n_passes=n_passes)
        generator = check_generator(rng)
        order = generator.permutation(n)
        run = _Descent(self, w_start, X)
        centre = last = run.vector
        trace = Trace()
        for stage in stages:
            members, order = order[: stage.n_examples], order[stage.n_examples :]
            plan = PreviousExample().offline(stage.n_examples, generator).draw(stage.n_steps)
            pairs = Plan(members[plan.left], members[plan.right])
            schedule = StronglyConvex.of(stage.strong_convexity)
            rule = (schedule, DelayedLinear())
            run = _Descent(self, run.shaped(centre), X, rule=rule, pull=stage.strong_convexity)
            run.take(X, y, pairs)
            trace.n_repeats += plan.n_repeats
            trace.n_steps += run.n_steps
            trace.n_gradients += run.n_gradients
            centre, last = run.project(run.mean(), 0.0), run.vector
        return ObjectiveSolution(run.shaped(centre), run.shaped(last), trace)


class ObjectiveStream:
    """Algorithm 2 for a function of one's own; made by `PairwiseObjective.start`.

    Feeding a stream in chunks of any sizes gives the same result. A chunk that fails leaves the
    stream as it was.

    Parameters
    ----------
    objective : PairwiseObjective
        The function, and the parts.
    w_start : Tensor or mapping of str to Tensor
        The starting point, projected onto the domain.
    rng : numpy.random.Generator
        Source of randomness, for pairings that need one.
    """

    def __init__(
        self, objective: PairwiseObjective, w_start: Parameters, rng: np.random.Generator
    ) -> None:
        if objective.averaging.needs_horizon:
            raise ValueError(
                f"{type(objective.averaging).__name__} averaging needs the number of steps; for a "
                "stream use DelayedByStepSize()."
            )
        self._run = _Descent(objective, w_start)
        self._name = type(objective.pairing).__name__
        self._source = objective.pairing.online(rng)
        self._buffer: tuple[Tensor, Tensor] | None = None
        #: Number of examples received.
        self.n_examples = 0

    def learn_many(self, X: Tensor, y: Tensor) -> ObjectiveStream:
        """Learn from rows and labels in the order of their arrival; return the stream itself."""
        n = _check_examples(X, y)
        self._run.check_device(X)
        if not n:
            return self
        # Assigned at the end only.
        run, source = copy.copy(self._run), copy.deepcopy(self._source)
        arrival = source.arrive(y.detach().cpu().numpy().astype(np.float64))
        if self._buffer is not None:
            X, y = torch.cat([self._buffer[0], X]), torch.cat([self._buffer[1], y])
        check_plan(self._name, arrival.plan, len(X))
        check_keep(self._name, arrival.keep, len(X))
        run.take(X, y, arrival.plan)
        keep = torch.from_numpy(np.asarray(arrival.keep)).to(X.device)
        self._run, self._source, self._buffer = run, source, (X[keep], y[keep])
        self.n_examples += n
        return self

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return self._run.n_steps

    @property
    def w(self) -> Any:
        """The last iterate."""
        return self._run.shaped(self._run.vector)

    @property
    def average(self) -> Any:
        """The average of the iterates so far: the output of Algorithm 2."""
        return self._run.shaped(self._run.mean())


def _check_examples(X: Any, y: Any) -> int:
    """Check rows and labels; return the number of examples."""
    for name, value in (("X", X), ("y", y)):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name} must be a tensor, got {type(value).__name__}; torch.from_numpy."
            )
    if X.device != y.device:
        raise ValueError(
            f"X is on {X.device}, y on {y.device}; move one of them, nothing is copied between "
            "devices."
        )
    if y.ndim != 1 or X.ndim < 1 or len(X) != len(y):
        raise ValueError(
            f"y must hold one label for each of the rows of X, got shapes {tuple(X.shape)} and "
            f"{tuple(y.shape)}."
        )
    return len(y)


class _Descent:
    """The iterate, as one long vector, and its weighted sum."""

    def __init__(
        self,
        objective: PairwiseObjective,
        w_start: Parameters,
        X: Tensor | None = None,
        *,
        horizon: int | None = None,
        rule: tuple[Schedule, Averaging] | None = None,
        pull: float = 0.0,
    ) -> None:
        named = w_start if isinstance(w_start, Mapping) else {"": w_start}
        if not named or not all(isinstance(v, Tensor) for v in named.values()):
            raise TypeError("w_start must be a tensor, or a mapping from names to tensors.")
        if not all(v.is_floating_point() for v in named.values()):
            raise TypeError("w_start must hold floating-point numbers.")
        places = {(v.device, v.dtype) for v in named.values()}
        if len(places) != 1:
            raise ValueError(f"w_start must be on one device and of one type, got {places}.")
        self._is_mapping = isinstance(w_start, Mapping)
        self._shapes = {name: v.shape for name, v in named.items()}
        self.vector = torch.cat([v.detach().reshape(-1) for v in named.values()]).clone()
        self._f, self._domain = objective.f, objective.domain
        own = averaging_for(objective.averaging, objective.pairing)
        self._schedule, self._averaging = rule or (objective.schedule, own)
        if X is not None:
            self.check_device(X)
        if not isinstance(self._domain, WholeSpace | Ball) and self.vector.device.type != "cpu":
            raise ValueError(
                f"{type(self._domain).__name__} is computed on the CPU, the parameter is on "
                f"{self.vector.device}; use Ball or WholeSpace, or the CPU."
            )
        if not bool(torch.isfinite(self.vector).all()):
            raise ValueError("w_start must hold finite numbers, got NaN or infinity.")
        # The averages weigh w_0 too, so a start outside the domain would take them outside.
        self.vector = self.project(self.vector, 0.0)
        self._horizon, self._pull, self._centre = horizon, pull, self.vector
        self._before = self.vector
        #: The last iterates that the averaging rule remembers, the oldest first.
        self._past = [self.vector] * self._averaging.remembers
        self._sum = torch.zeros_like(self.vector, dtype=torch.float64)
        self._weight = 0.0
        self.n_steps = self.n_gradients = 0

    @property
    def w(self) -> Vector:
        """The iterate as a NumPy vector, for callbacks."""
        return np.asarray(self.vector.detach().cpu().numpy(), dtype=np.float64)

    @property
    def average(self) -> Vector:
        """The average so far as a NumPy vector, for callbacks."""
        return np.asarray(self.mean().cpu().numpy(), dtype=np.float64)

    def check_device(self, X: Tensor) -> None:
        """Refuse examples that are elsewhere than the parameter."""
        if X.device != self.vector.device:
            raise ValueError(
                f"X is on {X.device}, w_start on {self.vector.device}; move one of them, nothing "
                "is copied between devices."
            )

    def shaped(self, vector: Tensor) -> Any:
        """Return a long vector in the form of the starting point."""
        sizes = [shape.numel() for shape in self._shapes.values()]
        parts = torch.split(vector, sizes)
        named = {
            name: part.reshape(shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }
        return named if self._is_mapping else named[""]

    def take(
        self, X: Tensor, y: Tensor, plan: Plan | SlotPlan, begin: int = 0, end: int | None = None
    ) -> None:
        """Take the steps of a plan, or some of them."""
        n = (len(plan) if end is None else end) - begin
        if not n:
            return
        first = self.n_steps + 1
        steps = self._schedule.step_sizes(first, n).tolist()
        horizon = None if self._past else self._horizon
        owed = self._averaging.owed(self._schedule, first, n, horizon=horizon)
        if first == 1:
            self._pay(self._averaging.at_start(self._schedule))
        for t, step_size, weight in zip(range(begin, begin + n), steps, owed.tolist(), strict=True):
            if isinstance(plan, SlotPlan):
                met = plan.right[plan.offsets[t] : plan.offsets[t + 1]].tolist()
                scale = float(plan.scale[t])
            else:
                met, scale = [int(plan.right[t])], 1.0
            gradient = self._gradient(X, y, int(plan.left[t]), met, scale)
            if self._pull:
                # The pull of Algorithm 4 to its centre, 2 (w - c) / (zeta_k n_k).
                gradient = gradient + self._pull * (self.vector - self._centre)
            self._pay(weight)
            moved = self.project(self.vector - step_size * gradient, step_size)
            if self._past:
                self._past = [*self._past[1:], self.vector]
            self._before, self.vector = self.vector, moved
            self.n_steps += 1
            if not bool(torch.isfinite(moved).all()):
                raise DivergenceError(
                    f"The iterate stopped being finite at step {self.n_steps}; take a smaller "
                    "step_size or a Ball, or scale the features."
                )

    def _gradient(
        self, X: Tensor, y: Tensor, left: int, met: Sequence[int], scale: float
    ) -> Tensor:
        """Return the gradient of the objective at the present parameters."""
        if not met:
            return torch.zeros_like(self.vector)
        vector = self.vector.detach().requires_grad_(True)
        w = self.shaped(vector)
        total = torch.zeros((), dtype=vector.dtype, device=vector.device)
        for right in met:
            value = self._f(w, X[left], y[left], *_partner(X, y, right))
            if not isinstance(value, Tensor) or value.numel() != 1:
                raise TypeError(
                    f"f must return one number as a tensor, got {type(value).__name__} "
                    f"of shape {tuple(getattr(value, 'shape', ()))}."
                )
            total = total + value.reshape(())
        self.n_gradients += len(met)
        if not bool(torch.isfinite(total)):
            raise DivergenceError(f"f returned {float(total.detach())} at step {self.n_steps + 1}.")
        if not total.requires_grad:
            # A pair that costs nothing, whatever w: a constant.
            return torch.zeros_like(self.vector)
        (gradient,) = torch.autograd.grad(total, vector, allow_unused=True)
        return torch.zeros_like(self.vector) if gradient is None else scale * gradient

    def project(self, vector: Tensor, step_size: float) -> Tensor:
        """Return the closest point of the domain, or the proximal step of a penalty."""
        domain = self._domain
        if isinstance(domain, WholeSpace):
            return vector
        if isinstance(domain, Ball):
            norm = torch.sqrt(torch.dot(vector, vector))
            return vector if float(norm) <= domain.radius else vector * (domain.radius / norm)
        point = vector.detach().numpy().astype(np.float64)
        if isinstance(domain, CoordinatewiseDomain):
            found = domain.step(point, step_size)
        else:
            found = domain.project(point)
        return torch.from_numpy(np.ascontiguousarray(found)).to(vector.dtype)

    def _pay(self, weight: float) -> None:
        if weight:
            self._sum = self._sum + weight * self.vector.to(torch.float64)
            self._weight += weight

    def mean(self) -> Tensor:
        """Return the average by the rule, as if the run ended here."""
        rule, schedule, t = self._averaging, self._schedule, self.n_steps
        if t == 0 or not rule.keeps_sum:
            return self.vector
        early, last = rule.paid_early(schedule, t), rule.owed_to_last(t)
        total = self._weight + last - early
        if not total > 0.0:
            return self.vector
        found = self._sum + last * self.vector.to(torch.float64)
        found = found - early * self._before.to(torch.float64)
        for weight, iterate in zip(rule.taken_back(schedule, t), self._past, strict=True):
            found, total = found - weight * iterate.to(torch.float64), total - weight
        return (found / total).to(self.vector.dtype)


def _partner(X: Tensor, y: Tensor, row: int) -> tuple[Tensor, Tensor]:
    """Return an example, or the zero row with a label that some buffers start with."""
    if row >= 0:
        return X[row], y[row]
    return torch.zeros_like(X[0]), torch.full_like(y[0], 1 if row == ZERO_POSITIVE else -1)
