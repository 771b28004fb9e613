# SPDX-License-Identifier: BSD-3-Clause
"""CSR rows like text: ball never reached, and ball hit at nearly every step."""

from __future__ import annotations

from benchmarks import samples
from benchmarks.contestants import rival, solver
from benchmarks.report import Effort, Row
from benchmarks.timing import marginal

#: Description -> (radius, bar, goal), with steps of 0.5.
BALLS = {"ball inactive": (50.0, 1.6, 2.5), "ball active": (1.0, 1.6, 2.0)}

#: Name -> examples in a quick and in a full run: multiples of the solver's block of 8,192 steps, at
#: whose ends it passes over all features, so that an epoch more contains that cost.
EXAMPLES = {"rcv1-like": (1 << 14, 1 << 17), "news20-like": (1 << 13, 1 << 14)}


def run(effort: Effort) -> list[Row]:
    """Compare our marginal time for a step with SGDClassifier's for a sample."""
    from pairlearn import Hinge, LinearScore, Problem

    problem = Problem(LinearScore(), Hinge())
    rows = []
    for name in samples.TEXT:
        n = effort.pick(*EXAMPLES[name])
        X, y = samples.text(name, n)
        ours = {
            ball: solver(step_size=0.5, radius=radius) for ball, (radius, _, _) in BALLS.items()
        }
        per_epoch = marginal(
            {
                "rival": (lambda epochs, X=X, y=y: rival(n_epochs=epochs).fit(X, y), 1, 4),
                **{
                    ball: (
                        lambda epochs, X=X, y=y, n=n, own=own: own.solve(
                            problem, X, y, n_steps=epochs * n, rng=0
                        ),
                        1,
                        4,
                    )
                    for ball, own in ours.items()
                },
            },
            seconds=effort.seconds,
        )
        rows += [
            Row(
                f"CSR {name}, {ball}, per step",
                1e9 * per_epoch[ball] / n,
                1e9 * per_epoch["rival"] / n,
                "ns",
                bar,
                goal,
            )
            for ball, (_, bar, goal) in BALLS.items()
        ]
    return rows
