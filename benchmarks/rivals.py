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


def run(effort: Effort) -> list[Row]:
    """Return all comparisons; `optimizers` has those of momentum and variance reduction."""
    return [*_buffers(effort), *_exact(effort), _localized(effort)]


def _buffers(effort: Effort) -> list[Row]:
    from pairlearn import (
        Ball,
        ClassReservoirs,
        Constant,
        Hinge,
        InverseSqrt,
        LinearScore,
        PairwiseSGD,
        PreviousExample,
        Problem,
        RandomPair,
        ReservoirBuffer,
        Uniform,
    )

    X, y = samples.dense(20_000, D, positives=samples.DENSE[D])
    problem = Problem(LinearScore(), Hinge())
    n_slow, n_fast = effort.pick(2_000, 10_000), effort.pick(40_000, 200_000)

    def ours(
        pairing: Any, schedule: Any, n_steps: int, *, projects: bool = True
    ) -> Callable[[], Any]:
        solver = PairwiseSGD(pairing, schedule, Ball(RADIUS if projects else 1e9), Uniform())
        return lambda: solver.solve(problem, X, y, n_steps=n_steps, rng=0)

    constant, decreasing = Constant(STEP_SIZE), InverseSqrt(STEP_SIZE)
    oam = ClassReservoirs(100, 100, weighting="oam")
    best = best_of(
        {
            "previous": ours(PreviousExample(), constant, n_fast),
            "pair": ours(RandomPair(), constant, n_fast),
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
    to_ns = {name: 1e9 / (n_fast if name in ("previous", "pair") else n_slow * 4) for name in best}
    to_ns["olp loop"] = to_ns["oam loop"] = 1e9 / n_slow
    ns = {name: seconds * to_ns[name] for name, seconds in best.items()}
    rows = [
        Row("SGD_pair / previous, per step", ns["pair"], ns["previous"], "ns", *SAME_COST, True)
    ]
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


def _exact(effort: Effort) -> list[Row]:
    """Compare closed form and L-BFGS with logistic regression on 50,000 x 22."""
    import warnings

    from sklearn.linear_model import LogisticRegression

    from pairlearn import ExactSolver, pair_risk, solve_square_auc

    rows = []
    for share in (samples.DENSE[D], 0.5):
        X, y = samples.dense(50_000, D, positives=share)
        solver, logistic = ExactSolver("squared_hinge", tolerance=1e-8), LogisticRegression()
        with warnings.catch_warnings():
            # The rival is timed as it comes.
            warnings.simplefilter("ignore")
            best = best_of(
                {
                    "closed": lambda X=X, y=y: solve_square_auc(X, y),  # type: ignore[misc]
                    "lbfgs": lambda X=X, y=y, s=solver: s.solve(X, y),  # type: ignore[misc]
                    "logistic": lambda X=X, y=y, s=logistic: s.fit(X, y),  # type: ignore[misc]
                },
                seconds=effort.seconds,
                min_rounds=5,
            )
        ms = {name: 1e3 * seconds for name, seconds in best.items()}
        found = pair_risk("squared_hinge", X @ solver.solve(X, y).w, y)
        optimum = pair_risk(
            "squared_hinge", X @ ExactSolver("squared_hinge", tolerance=1e-15).solve(X, y).w, y
        )
        gap = max(found / optimum - 1.0, 1e-16)
        tail = f"50,000 x {D}, {share:.0%} positive"
        rows += [
            Row(f"closed form, {tail}", ms["closed"], CLOSED_FORM_MS, "ms", 1.0, 0.67, True),
            Row(
                f"closed form / logistic, {tail}",
                ms["closed"],
                ms["logistic"],
                "ms",
                0.5,
                0.3,
                True,
            ),
            Row(f"L-BFGS / logistic, {tail}", ms["lbfgs"], ms["logistic"], "ms", 1.5, 1.0, True),
            Row(f"L-BFGS excess of F_S / 1e-6, {tail}", gap, 1e-6, "", 1.0, 0.1, True),
        ]
    return rows


def _localized(effort: Effort) -> Row:
    from pairlearn.recipes import RECIPES

    n = effort.pick(5_000, 20_000)
    X, y = samples.dense(n, D, positives=0.5)
    trace = RECIPES["localized"].solve(X, y, step_size=10.0, radius=100.0, rng=0).trace
    return Row("localized SGD, gradients / n", trace.n_gradients, n, "pairs", 2.0, 2.0, True)
