# SPDX-License-Identifier: BSD-3-Clause
"""The public estimator: a whole fit, and what leaving every choice to "auto" costs."""

from __future__ import annotations

from benchmarks import samples
from benchmarks.contestants import rival
from benchmarks.report import Effort, Row
from benchmarks.timing import best_of


def run(effort: Effort) -> list[Row]:
    """Fit 200,000 examples with 22 features in one pass."""
    from pairlearn import SGD, AUCClassifier

    X, y = samples.dense(200_000, 22, positives=samples.DENSE[22])
    given = AUCClassifier(solver=SGD(step_size=0.1, radius=10.0, n_passes=1), random_state=0)
    auto = AUCClassifier(random_state=0)
    pointwise = rival(n_epochs=1)
    best = best_of(
        {
            "given": lambda: given.fit(X, y),
            "auto": lambda: auto.fit(X, y),
            "rival": lambda: pointwise.fit(X, y),
        },
        seconds=effort.seconds,
    )
    ms = {name: 1e3 * seconds for name, seconds in best.items()}
    return [
        Row(
            "AUCClassifier.fit, one pass / SGDClassifier.fit", ms["given"], ms["rival"], "ms", 4, 6
        ),
        Row("fit, all auto / fit, all given", ms["auto"], ms["given"], "ms", 4, 3, at_most=True),
    ]
