# SPDX-License-Identifier: BSD-3-Clause
"""AUC by stochastic gradient descent: Algorithm 1 on stored examples, Algorithm 2 on a stream.

The step size and the radius of a fit are chosen by held-out AUC: a grid of models is trained on
one sample path (`solvers.descent.sweep`) on a part of the training data and scored on the rest. The
grid is relative to the data: with v the mean squared distance of two examples of opposite labels, a
step of c / v moves the score of a typical pair by about c, and a ball of radius rho / sqrt(v)
allows typical scores of about rho. So the choice does not depend on the unit of the features.
``step_size="theory"`` uses only the number of examples and the largest norm of a row, which stands
for the bound B of the theorems.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pairlearn.averaging import AVERAGINGS, Averaging, DelayedByStepSize
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.auc.composition import Before, Task
from pairlearn.estimators.auc.ways.grid import OnlineGrid, relative_to
from pairlearn.estimators.shared.evidence import Choice, best_of
from pairlearn.estimators.shared.examples import watch_order
from pairlearn.estimators.shared.maps import map_rows
from pairlearn.estimators.shared.solvers import SGD, Fitted, as_schedule, auto_steps
from pairlearn.estimators.shared.weights import judged_auc, kept_of_chunk, weighed_flags
from pairlearn.features import Identity
from pairlearn.folds import Fold, Keys, deal, n_folds_of, splits_of
from pairlearn.pairings import PAIRINGS, Pairing, PreviousExample, RandomPair
from pairlearn.problem import Problem
from pairlearn.progress import Progress
from pairlearn.restored import check_as_saved
from pairlearn.schedules import Constant, Schedule
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.sweep import Sweep
from pairlearn.solvers.rows import NO_WEIGHTS, DenseRows, Rows, as_rows, check_squares
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.running_scales import STEP_SIZE, RunningScales
from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.theory import Advice

#: How a descent pairs examples, how long its steps are, and how it averages.
Parts = tuple[Pairing, Schedule, Averaging]
#: The cure for rows that are sorted by label only.
RESERVOIRS = ", or, if it is by label only, take solver=SGD(pairing=ClassReservoirs(64, 64))"
#: Steps of a fit with n_passes="auto" for balanced classes.
_AUTO_STEPS = 500_000
#: Fewer opposite pairs mean more steps, down to this share of what balanced classes have.
_RAREST = 0.1
#: Relative step sizes c, half a decade apart; a step of c moves the score of a typical pair by c.
_STEPS = tuple(10.0**exponent for exponent in np.arange(-3.0, 1.0, 0.5))
#: Relative radii rho: typical scores of a pair may reach rho, from three margins on.
_RADII = (3.0, 10.0, 30.0, np.inf)
#: The most examples of a class that train the grid.
_TRAIN_CAP = 10_000
#: The most examples of a class that score the grid: the error of an AUC is then about 0.01.
_SCORE_CAP = 1_000
#: The most opposite pairs that train the grid; the final run may take more.
_PAIR_CAP = 25_000
#: The most examples of a class that a grid reads.
_MOST = _TRAIN_CAP + _SCORE_CAP
#: With fewer held-out examples of the rarer class, all folds are held out in turn.
_ENOUGH = 200
#: The most examples of a class that measure the distance of opposite examples.
_SCALE_SAMPLE = 1_000


def solve_by_descent(task: Task, solver: SGD, rows: Rows, y: Vector, weight: Vector) -> Fitted:
    """Return the average of Algorithm 1, with the step size and radius that were chosen."""
    problem = Problem(LinearScore(), task.loss)
    # Only opposite pairs change the model: if they are rare, more steps are taken.
    share = max(2.0 * _opposite_share(y), _RAREST)
    n_steps = auto_steps(solver.n_passes, len(y), budget=int(_AUTO_STEPS / share))
    pairing, averaging = PAIRINGS.make(solver.pairing), AVERAGINGS.make(solver.averaging)
    shape = as_schedule(solver.schedule, default="constant")
    parts, radius, advice = (pairing, shape, averaging), solver.given_radius, None
    choice = Choice(solver.given_step, np.inf if radius is None else radius)
    if solver.step_size == "theory":
        known = {"weighted": len(weight) > 0, "warm": task.start is not None}
        advice = _advice(problem, rows, radius, n_steps, parts, **known)
        choice = Choice(advice.step_size, choice.radius)
    elif choice.step_size is None:
        if not isinstance(pairing, PreviousExample | RandomPair):
            parts = PreviousExample(), shape, averaging
        choice = _choose(task, problem, (rows, y, weight), n_steps, parts, radius)
    assert choice.step_size is not None
    descent = PairwiseSGD(
        pairing, shape.scaled(choice.step_size), ball_or_whole(choice.radius), averaging
    )
    with contextlib.ExitStack() as stack:
        callbacks = list(task.callbacks)
        if task.verbose:
            bar = stack.enter_context(Progress(n_steps, unit="steps", asked_for=True))
            told = task.evidence(choice)
            callbacks.append(
                lambda run: bar.update(run.step, note=f"pair risk {run.risk:.4g}{told}")
            )
        solution = descent.solve(
            problem,
            rows,
            y,
            n_steps=n_steps,
            rng=task.rng,
            w_start=task.start,
            example_weight=weight if len(weight) else None,
            callbacks=callbacks,
        )
    return Fitted(solution.average, "sgd", task.loss, choice, solution.trace, advice)


def opposite_scale(rows: Rows, y: Vector, keys: Keys, weight: Vector = NO_WEIGHTS) -> float:
    """Return the mean squared distance of opposite examples, by a sample of each class.

    A pair weighs the product of the weights of its examples, if there are any.
    """
    spreads = []
    for label in (-1.0, 1.0):
        members = np.flatnonzero(y == label)
        if len(members) > _SCALE_SAMPLE:
            # As many as the grid will need are drawn at once.
            members = keys.first(members, _MOST)[:_SCALE_SAMPLE]
        spreads.append(rows.take(members).spread(weight[members] if len(weight) else weight))
    (mean_a, spread_a), (mean_b, spread_b) = spreads
    scale = spread_a + spread_b + float(((mean_a - mean_b) ** 2).sum())
    return max(scale, float(np.finfo(float).tiny))


def _choose(
    task: Task,
    problem: Problem,
    examples: tuple[Rows, Vector, Vector],
    n_steps: int,
    parts: Parts,
    radius: float | None,
) -> Choice:
    """Return the best of a grid by held-out AUC, with the weights of the examples.

    `n_steps` is the number of steps of the final run. If the grid is trained with fewer active
    pairs, the chosen constant step size is divided by the square root of their ratio: the optimal
    constant step of Theorem 6a is proportional to 1/sqrt(T).
    """
    (rows, y, weight), keys = examples, task.keys
    assert keys is not None
    scale = opposite_scale(rows, y, keys, weight)
    radii = [float(rho / np.sqrt(scale)) for rho in _RADII] if radius is None else [radius]
    grid = [(float(c / scale), bound) for c in _STEPS for bound in radii]
    aucs: list[list[float]] = [[] for _ in grid]
    n_active = n_steps * _opposite_share(y)
    n_pairs = min(n_active, _PAIR_CAP)
    shrink = float(np.sqrt(n_pairs / n_active)) if parts[1].is_constant else 1.0
    for train, held in _hold_out(y, weight, task.validation_fraction, keys):
        steps, bounds = zip(*((step / shrink, bound) for step, bound in grid), strict=True)
        solution = Sweep(steps, bounds, *parts).solve(
            problem,
            rows.take(train),
            y[train],
            n_steps=max(int(n_pairs / _opposite_share(y[train])), 1),
            rng=task.rng,
            example_weight=weight[train] if len(weight) else weight,
        )
        scores = rows.take(held).scores(solution.averages)
        own = weight[held] if len(weight) else weight
        lost = solution.diverged | ~np.isfinite(scores).all(axis=1)
        known: dict[bytes, float] = {}
        for average, of_model, is_lost, found in zip(
            solution.averages, scores, lost, aucs, strict=True
        ):
            # A ball that was never reached leaves the model of a larger one.
            same = average.tobytes()
            if same not in known:
                known[same] = 0.0 if is_lost else judged_auc(y[held], of_model, own)
            found.append(known[same])
    best = best_of(
        ({"step_size": step, "radius": bound}, (step, bound), found)
        for (step, bound), found in zip(grid, aucs, strict=True)
    )
    return Choice(*best.model, evidence=best.evidence, tried=best.tried)


def _opposite_share(y: Vector) -> float:
    """Return the share of opposite pairs among pairs of examples that are drawn one by one."""
    positive = np.count_nonzero(y > 0) / len(y)
    return 2.0 * positive * (np.count_nonzero(y < 0) / len(y))


def _hold_out(y: Vector, weight: Vector, fraction: float, keys: Keys) -> list[Fold]:
    """Return (train, held-out) index pairs: one, or all in turn when the rarer class is small."""
    # A sample within each class does not change the distribution of opposite pairs.
    members = [keys.first(own, _MOST) for own in weighed_flags(y, weight)]
    sizes = [min(max(round(fraction * len(m)), 1), _SCORE_CAP) for m in members]
    everything = np.concatenate(members)
    if min(sizes) >= _ENOUGH:
        return splits_of(deal(members, len(y), sizes=sizes), 1, everything)
    n_folds = n_folds_of(fraction, min(map(len, members)))
    return splits_of(deal(members, len(y), n_folds=n_folds), among=everything)


def _advice(
    problem: Problem,
    rows: Rows,
    radius: float | None,
    n_steps: int,
    parts: Parts,
    *,
    weighted: bool,
    warm: bool,
) -> Advice:
    """Return what Theorem 1 or 2 recommends, refusing what the theorems do not cover.

    The theorems need a convex loss, a finite radius, the previous example as partner, a constant
    step, the paper's average, no weights, and a run that starts at zero (not `warm`).
    """
    from pairlearn.theory import advise_auc

    if radius is None or math.isinf(radius):
        raise ValueError(
            'step_size="theory" needs a finite radius (the bounds grow with it), got '
            f"radius={'auto' if radius is None else radius!r}; pass for example radius=1.0."
        )
    pairing, schedule, averaging = parts
    wrong = {
        'pairing="previous"': pairing != PreviousExample(),
        'schedule="constant"': schedule != Constant(1.0),
        'averaging="step_size"': not isinstance(averaging, DelayedByStepSize),
        "no sample_weight": weighted,
        "warm_start=False": warm,
    }
    if any(wrong.values()):
        use = ", ".join(text for text, is_wrong in wrong.items() if is_wrong)
        raise ValueError(f'step_size="theory" is for Algorithm 1: use {use}.')
    norm = rows.largest_norm()
    if norm == 0.0:
        raise ValueError('step_size="theory" needs an example that is not zero.')
    return advise_auc(problem, rows.shape[0], norm_bound=norm, radius=radius, n_steps=n_steps)


class DescentStream:
    """A stream by Algorithm 2: one step size with running scales, else the best of a grid."""

    kind = "sgd"
    loss = property(lambda self: self._task.loss)

    def __init__(self, task: Task, solver: SGD, before: Before | None = None) -> None:
        if solver.step_size == "theory":
            raise ValueError(
                'step_size="theory" needs the number of examples beforehand; for a stream pass '
                "a number (pairlearn.theory.advise gives one) or step_size='auto'."
            )
        self._task, self._solver, self._before = task, solver, before
        self._grid: OnlineGrid | None = None

    @property
    def grid(self) -> OnlineGrid:
        """The streams of the step sizes that are still tried."""
        assert self._grid is not None
        return self._grid

    def _parts(self) -> dict[str, Any]:
        solver = self._solver
        return {
            "pairing": PAIRINGS.make(solver.pairing),
            "schedule": as_schedule(solver.schedule, default="inverse_sqrt"),
            "averaging": AVERAGINGS.make(solver.averaging),
            "rng": self._task.rng,
        }

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk; return the scores that it had before, NaN for examples without weight."""
        kept = kept_of_chunk(weight, begun=self._grid is not None)
        if kept is not None:
            scores = np.full(len(y), np.nan)
            self._latest = rows.take(kept), y[kept]
            if len(kept):
                scores[kept] = self.learn(*self._latest, weight[kept])
            return scores
        rows = mapped_chunk(self._task, rows, self._solver.max_memory)
        if not self._task.is_scaled:
            check_squares(rows, whole=self._grid is None and self._before is None)
        grid = self._grid or self._begun(rows, weight)
        scores = grid.learn(rows, y, weight)
        self._grid, self._latest = grid, (rows, y)
        return scores

    def _begun(self, rows: Rows, weight: Vector) -> OnlineGrid:
        """Return the grid for a first chunk, which goes on from the model before."""
        task, solver, before = self._task, self._solver, self._before
        step_size, radius = solver.given_step, solver.given_radius
        scales = None
        if task.is_scaled:
            scales = _running_scales(rows.shape[1], before)
            step_sizes: tuple[float, ...] = (step_size or STEP_SIZE,)
        else:
            step_sizes = relative_to(rows, weight) if step_size is None else (step_size,)
        return OnlineGrid(
            Problem(LinearScore(), task.loss),
            rows.shape[1],
            dtype=rows.X.dtype if isinstance(rows, DenseRows) else np.float64,
            step_sizes=step_sizes,
            radius=np.inf if radius is None else radius,
            start=None if before is None else before.coef,
            n_before=0 if before is None else before.n_examples,
            decided=None if before is None else before.decision,
            origin=None if before is None else before.origin,
            scales=scales,
            **self._parts(),
        )

    def watch(self, model: Any) -> None:
        """Warn if the examples of the last chunk are not in random order."""
        rows, y = self._latest
        del self._latest
        watch_order(model, rows, y, self.grid.best.scales, cure=RESERVOIRS)

    def facts(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        grid, stream = self.grid, self.grid.best
        return {
            "step_size_": grid.step_size,
            "radius_": grid.radius,
            "held_out_auc_": grid.progressive_auc,
            "n_steps_": stream.n_steps,
            "n_gradients_": stream.n_gradients,
            "n_examples_": grid.n_before + stream.n_examples,
            "trace_": Trace(n_steps=stream.n_steps, n_gradients=stream.n_gradients),
        }

    def published(self) -> dict[str, Any]:
        """Return what predictions are made of."""
        coef, decision = self.grid.average[np.newaxis], self.grid.undecided()
        return {"coef_": coef, "_decision": decision, "features_": self._task.features}

    @property
    def scales(self) -> Any:
        """The running scales, from which a stream that starts anew goes on."""
        return self.grid.best.scales

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        return self.grid.state()

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        features, radius = self._task.features, self._solver.given_radius
        grid = OnlineGrid.from_state(
            state,
            Problem(LinearScore(), self._task.loss),
            n_features if features is None else features.n_outputs,
            is_scaled=self._task.is_scaled,
            **self._parts(),
        )
        check_as_saved("step_size", self._solver.given_step, grid.step_size)
        check_as_saved("radius", np.inf if radius is None else radius, grid.radius)
        self._grid = grid


def _running_scales(n_features: int, before: Before | None) -> RunningScales:
    """Return the scales of a new stream: those of the model before, if they are known."""
    if before is None:
        return RunningScales(n_features)
    known = before.scales
    if known is None:
        return RunningScales(n_features, start="given")
    return known.going_on() if isinstance(known, RunningScales) else RunningScales.known(known)


def mapped_chunk(task: Task, rows: Rows, max_memory: float) -> Rows:
    """Return the mapped rows of a chunk. Streams refuse an unfitted map before this."""
    if task.features is None or isinstance(task.features, Identity):
        return rows
    return as_rows(map_rows(task.features, rows, max_memory, "pass smaller chunks."))
