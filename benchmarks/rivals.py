# SPDX-License-Identifier: BSD-3-Clause
"""The rivals: what a buffer costs, our buffers against NumPy loops, exact solvers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from benchmarks import samples
from benchmarks.numpy_loops import oam_loop, olp_loop
from benchmarks.report import Effort, Row
from benchmarks.timing import best_of

D = 22
STEP_SIZE, RADIUS = 0.1, 10.0
#: (bar, goal): how many times faster than a NumPy loop of the same buffer.
PER_STEP = (20.0, 40.0)
#: A uniform pair against the previous example.
SAME_COST = (1.15, 1.05)
#: Sizes at which a buffer is compared with one pair a step; shown, without a bar.
SIZES = (1, 10, 50, 200)
CLOSED_FORM_MS = 15.0
#: Passes of plain SGD, momentum and variance reduction, and the step sizes tried for each.
PASSES = 10
STEPS = tuple(10.0**exponent for exponent in (-3.5, -3, -2.5, -2, -1.5, -1, -0.5))


def run(effort: Effort) -> list[Row]:
    """Return all comparisons."""
    return [
        *_buffers(effort),
        *(_uniform_pairs(d, effort) for d in (D, 8, 256)),
        *_exact(effort),
        _localized(effort),
    ]


def _buffers(effort: Effort) -> list[Row]:
    from pairlearn import (
        Ball,
        Constant,
        Hinge,
        InverseSqrt,
        LinearScore,
        PairwiseSGD,
        PreviousExample,
        Problem,
        ReservoirBuffer,
        Uniform,
        WholeSpace,
    )
    from pairlearn.pairings import ClassReservoirs

    X, y = samples.dense(20_000, D, positives=samples.DENSE[D])
    problem = Problem(LinearScore(), Hinge())
    n_slow, n_fast = effort.pick(2_000, 10_000), effort.pick(40_000, 200_000)

    def ours(
        pairing: Any, schedule: Any, n_steps: int, *, projects: bool = True
    ) -> Callable[[], Any]:
        domain = Ball(RADIUS) if projects else WholeSpace()
        solver = PairwiseSGD(pairing, schedule, domain, Uniform())
        return lambda: solver.solve(problem, X, y, n_steps=n_steps, rng=0)

    constant, decreasing = Constant(STEP_SIZE), InverseSqrt(STEP_SIZE)
    oam = ClassReservoirs(100, 100, weighting="oam")
    best = best_of(
        {
            "previous": ours(PreviousExample(), constant, n_fast),
            **{
                f"buffer {size}": ours(ReservoirBuffer(size), constant, n_slow * 4)
                for size in SIZES
            },
            "olp": ours(ReservoirBuffer(200), decreasing, n_slow * 4),
            "oam": ours(oam, Constant(1e-3), n_slow * 4, projects=False),
            "olp loop": lambda: olp_loop(
                X, y, n_steps=n_slow, size=200, step_size=STEP_SIZE, radius=RADIUS
            ),
            "oam loop": lambda: oam_loop(X, y, n_steps=n_slow, size=100, step_size=1e-3),
        },
        seconds=effort.seconds,
        min_rounds=5,
    )
    to_ns = {name: 1e9 / (n_fast if name == "previous" else n_slow * 4) for name in best}
    to_ns["olp loop"] = to_ns["oam loop"] = 1e9 / n_slow
    ns = {name: seconds * to_ns[name] for name, seconds in best.items()}
    rows = []
    for size in SIZES:
        name = f"buffer of {size} / previous, per step (shown)"
        cost = ns[f"buffer {size}"]
        rows.append(Row(name, cost, ns["previous"], "ns", math.inf, math.inf, True))
    for name, label in (("olp", "OLP 200"), ("oam", "OAM 100+100")):
        rows.append(
            Row(
                f"{label} against a NumPy loop, d={D}",
                ns[name],
                ns[f"{name} loop"],
                "ns",
                *PER_STEP,
            )
        )
    return rows


def _uniform_pairs(d: int, effort: Effort) -> Row:
    """Compare uniform pairs with the previous example; the bar is for d = 22, others are shown."""
    from pairlearn import Hinge, LinearScore, PairwiseSGD, PreviousExample, Problem, RandomPair

    X, y = samples.dense(20_000 if d < 256 else 5_000, d, positives=samples.DENSE[d])
    problem, n_steps = Problem(LinearScore(), Hinge()), round(effort.pick(10, 40) * 1e6 / (10 + d))
    schedule, domain = _step_and_ball()
    best = best_of(
        {
            name: lambda pairing=pairing: PairwiseSGD(pairing, schedule, domain).solve(  # type: ignore[misc]
                problem, X, y, n_steps=n_steps, rng=0
            )
            for name, pairing in (("pair", RandomPair()), ("previous", PreviousExample()))
        },
        seconds=effort.seconds,
        min_rounds=5,
    )
    ours, rival = (1e9 / n_steps * best[name] for name in ("pair", "previous"))
    bars = SAME_COST if d == D else (math.inf, math.inf)
    name = f"SGD_pair / previous, per step, d={d}" + (" (shown)" if d != D else "")
    return Row(name, ours, rival, "ns", *bars, True)


def _step_and_ball() -> tuple[Any, Any]:
    from pairlearn import Ball, Constant

    return Constant(STEP_SIZE), Ball(RADIUS)


def _exact(effort: Effort) -> list[Row]:
    return [row for share in (samples.DENSE[D], 0.5) for row in _exact_at(share, effort)]


def _exact_at(share: float, effort: Effort) -> list[Row]:
    """Compare closed form and L-BFGS with logistic regression on 50,000 x 22."""
    from sklearn.linear_model import LogisticRegression

    from pairlearn.metrics import pair_risk
    from pairlearn.solvers import ExactSolver, solve_square_auc

    X, y = samples.dense(50_000, D, positives=share)
    solver = ExactSolver("squared_hinge", tolerance=1e-8)
    best = best_of(
        {
            "closed": lambda: solve_square_auc(X, y),
            "lbfgs": lambda: solver.solve(X, y),
            "logistic": lambda: LogisticRegression().fit(X, y),
        },
        seconds=effort.seconds,
        min_rounds=5,
    )
    closed, lbfgs, logistic = (1e3 * best[name] for name in ("closed", "lbfgs", "logistic"))
    found = pair_risk("squared_hinge", X @ solver.solve(X, y).w, y)
    exact = ExactSolver("squared_hinge", tolerance=1e-15).solve(X, y).w
    gap = max(found / pair_risk("squared_hinge", X @ exact, y) - 1.0, 1e-16)
    tail = f"50,000 x {D}, {share:.0%} positive"
    return [
        Row(f"closed form, {tail}", closed, CLOSED_FORM_MS, "ms", 1.0, 0.67, True),
        Row(f"closed form / logistic, {tail}", closed, logistic, "ms", 0.5, 0.3, True),
        Row(f"L-BFGS / logistic, {tail}", lbfgs, logistic, "ms", 1.5, 1.0, True),
        Row(f"L-BFGS excess of F_S / 1e-6, {tail}", gap, 1e-6, "", 1.0, 0.1, True),
    ]


def _localized(effort: Effort) -> Row:
    from pairlearn.recipes import RECIPES

    n = effort.pick(5_000, 20_000)
    X, y = samples.dense(n, D, positives=0.5)
    trace = RECIPES["localized"].solve(X, y, step_size=10.0, radius=100.0, rng=0).trace
    return Row("localized SGD, gradients / n", trace.n_gradients, n, "pairs", 2.0, 2.0, True)
