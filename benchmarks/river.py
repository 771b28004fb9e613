# SPDX-License-Identifier: BSD-3-Clause
"""Learning one dict after the other: our River classifier and River's logistic regression.

Run alone with ``python -m benchmarks --only river``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.report import Effort, Row, UnavailableError
from benchmarks.timing import best_of


def run(effort: Effort) -> list[Row]:
    """Compare learning alone, and predicting before learning."""
    try:
        from river import linear_model
    except ImportError:
        raise UnavailableError("it needs River; install pairlearn[river]") from None
    from pairlearn.streams import RiverAUCClassifier

    n = effort.pick(20_000, 50_000)
    rng = np.random.default_rng(0)
    rows = []
    for d in (8, 28):
        X = rng.normal(size=(n, d))
        labels = (X[:, 0] + rng.normal(size=n) > 0).tolist()
        names = [f"f{j}" for j in range(d)]
        examples = [dict(zip(names, row, strict=True)) for row in X.tolist()]
        for what, work, bar in (
            (f"learn_one, {d} features", _learn, 5.0),
            (f"predict_proba_one and learn_one, {d} features", _both, 3.0),
        ):
            best = best_of(
                {
                    "ours": _with(work, RiverAUCClassifier, examples, labels),
                    "rival": _with(work, linear_model.LogisticRegression, examples, labels),
                },
                seconds=effort.seconds,
            )
            rows.append(
                Row(
                    f"{what} / river LogisticRegression",
                    1e6 * best["ours"] / n, 1e6 * best["rival"] / n, "us", bar, bar,
                )
            )  # fmt: skip
    return rows


def _with(
    work: Callable[..., None], make: Callable[[], Any], examples: list[Any], labels: list[bool]
) -> Callable[[], None]:
    return lambda: work(make(), examples, labels)


def _learn(model: Any, examples: list[dict[str, float]], labels: list[bool]) -> None:
    for x, y in zip(examples, labels, strict=True):
        model.learn_one(x, y)


def _both(model: Any, examples: list[dict[str, float]], labels: list[bool]) -> None:
    for x, y in zip(examples, labels, strict=True):
        model.predict_proba_one(x)
        model.learn_one(x, y)
