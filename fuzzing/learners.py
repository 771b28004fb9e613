# SPDX-License-Identifier: BSD-3-Clause
"""Every kind of learner that has a checkpoint, and the data that it reads.

Damage (`fuzzing.files`), kills (`fuzzing.kills`), swaps of checkpoints and long runs use the same
kinds, so that a new kind of learner is entered here alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["LEARNERS", "NAMED", "learner_and_reader", "named_learner", "spoken", "write_rows"]

NAMES = ("a", "b", "c", "d")


def _auc(solver: Any = "sgd", *, learner: dict[str, Any] | None = None, **options: Any) -> Any:
    from pairlearn import AUCClassifier
    from pairlearn.streams import OnlineLearner

    model = AUCClassifier(solver=solver, random_state=0, **options)
    return OnlineLearner(model, classes=[0, 1], window=20, **(learner or {}))


def _sgd(**options: Any) -> Any:
    from pairlearn import SGD

    return SGD(**{"step_size": 0.1, **options})


def _curves(n_features: int = len(NAMES)) -> Any:
    from pairlearn import Hats

    return Hats(n_knots=4).fit(np.random.default_rng(3).normal(size=(200, n_features)))


def _alarmed() -> Any:
    from pairlearn.streams import DriftAlarm

    return _auc(learner={"alarm": DriftAlarm(2000, block=20)})


def _buffered() -> Any:
    from pairlearn import ReservoirBuffer

    return _auc(_sgd(pairing=ReservoirBuffer(8)))


def _top(name: str) -> Callable[[], Any]:
    def make() -> Any:
        import pairlearn

        return _auc(objective=getattr(pairlearn, name)())

    return make


def _ranking(**options: Any) -> Any:
    from pairlearn import PairwiseRanker
    from pairlearn.streams import OnlineLearner

    return OnlineLearner(PairwiseRanker(solver=_sgd(), random_state=0, **options))


#: How a learner of each kind is made.
LEARNERS: dict[str, Callable[[], Any]] = {
    "sgd": _auc,
    "sparse": lambda: _auc(_sgd()),
    "buffered": _buffered,
    "forgetting": lambda: _auc(learner={"forget": 17}),
    "dropping": lambda: _auc(learner={"forget": "drop"}),
    "alarmed": _alarmed,
    "curves": lambda: _auc(_sgd(), features=_curves()),
    "moments": lambda: _auc("moments"),
    "forgetting moments": lambda: _auc("moments", learner={"forget": 17}),
    "mapped moments": lambda: _auc("moments", features="hats"),
    "partial area": _top("PartialArea"),
    "area of curves": lambda: _auc(objective="partial_auc", features=_curves()),
    "push": _top("Push"),
    "precision": _top("SmoothPrecision"),
    "ranking": _ranking,
    "ranking curves": lambda: _ranking(features=_curves()),
    "queries": _ranking,
}


#: Settings of each kind of learner of names: class moments, descent, and moments with more names
#: than they take (see `spoken`), which go on by descent.
NAMED: dict[str, dict[str, Any]] = {
    "moments": {},
    "forgetting moments": {"memory": 20.0},
    "descent": {"step_size": 0.1},
    "outgrown": {},
}


def named_learner(kind: str) -> Any:
    """Return a new learner of names of a kind."""
    from pairlearn.streams import NamedLearner

    return NamedLearner(**NAMED[kind])


def spoken(kind: str, n: int) -> list[str]:
    """Return `n` lines of `pairlearn stream` for a kind of learner of names.

    That of "outgrown" meets more names than class moments take, from the tenth line on.
    """
    rng = np.random.default_rng(5)
    lines = []
    for k in range(n):
        x: dict[str, float] = {"a": float(rng.normal()) + k % 2, "b": float(k % 7)}
        if kind == "outgrown" and k == 10:
            x |= {f"c{j}": 1.0 for j in range(300)}
        lines.append(json.dumps({"id": k, "x": x, "y": k % 2}))
    return lines


def write_rows(folder: Path, n: int, seed: int = 7) -> tuple[Any, Any]:
    """Write `n` examples as CSV and svmlight, and return them.

    The CSV file has the queries of the examples in a column of its own.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(NAMES)))
    y = (X[:, 0] + rng.normal(size=n) > 0).astype(np.int64)
    pairs = list(zip(X.tolist(), y.tolist(), strict=True))
    text = "".join(f"{','.join(map(repr, row))},{t}\n" for row, t in pairs)
    (folder / "a.csv").write_text(",".join(NAMES) + ",y\n" + text, encoding="ascii")
    lines = (f"{k // 6},{line}\n" for k, line in enumerate(text.splitlines()))
    (folder / "q.csv").write_text(f"q,{','.join(NAMES)},y\n" + "".join(lines), encoding="ascii")
    rows = (f"{t} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row) if abs(v) > 0.7) + "\n"
            for row, t in pairs)  # fmt: skip
    (folder / "a.svm").write_text("".join(rows), encoding="ascii")
    return X, y


def learner_and_reader(kind: str, folder: Path, chunk_rows: int) -> tuple[Any, Any]:
    """Return a new learner of a kind and a reader of its file, which `write_rows` wrote."""
    from pairlearn.streams import Schema, open_reader

    learner = LEARNERS[kind]()
    if kind == "sparse":
        return learner, open_reader(folder / "a.svm", n_features=len(NAMES), chunk_rows=chunk_rows)
    schema, name = Schema(label="y"), "a.csv"
    if kind == "queries":
        schema, name = Schema(label="y", qid="q"), "q.csv"
    elif kind.startswith("entropy"):
        schema = Schema(label="d", features=("a", "b", "c"))
    return learner, open_reader(folder / name, schema, chunk_rows=chunk_rows)
