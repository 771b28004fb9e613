# SPDX-License-Identifier: BSD-3-Clause
"""What ``pairlearn evaluate`` prints for rankings, regressions and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pairlearn.cli.shared.problem_kinds import kind_of
from pairlearn.typing import Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pairlearn.cli.shared.scoring import Scored


def measure(model: Any, chunks: list[Scored]) -> dict[str, Any]:
    """Return the measures of a model's problem by name, from labelled chunks that it has scored."""
    import numpy as np

    results = np.concatenate([chunk.scores for chunk in chunks])
    y = np.concatenate([chunk.y for chunk in chunks if chunk.y is not None])
    kind = kind_of(model).name
    if kind == "ranking":
        queries = [chunk.qid for chunk in chunks if chunk.qid is not None]
        return _ranking(model, results, y, np.concatenate(queries) if queries else None)
    if kind == "entropy":
        return _errors(model, y - results)
    return _distances(results, y)


def _ranking(
    model: Any, scores: Vector, grades: Vector, qid: NDArray[np.int64] | None
) -> dict[str, Any]:
    from pairlearn.metrics.ranking import ndcg, pair_accuracy

    found: dict[str, Any] = {"pair_accuracy": pair_accuracy(grades, scores, qid=qid)}
    if qid is not None and grades.min() >= 0:
        name = "ndcg" if model.k is None else f"ndcg@{model.k}"
        found[name] = ndcg(grades, scores, qid=qid, k=model.k, gain=model.gain)
        found["queries"] = len(set(qid.tolist()))
    return found


def _errors(model: Any, errors: Vector) -> dict[str, Any]:
    import numpy as np

    from pairlearn.metrics.entropy import error_entropy

    found: dict[str, Any] = {
        "median_absolute_error": float(np.median(np.abs(errors))),
        "mean_absolute_error": float(np.abs(errors).mean()),
        "root_mean_squared_error": float(np.sqrt(np.mean(errors**2))),
    }
    # A private regression descends with several windows, and none is its own.
    bandwidth = getattr(model, "bandwidth_", np.inf)
    if np.isfinite(bandwidth):
        window = "epanechnikov" if model.window == "epanechnikov" else "gaussian"
        found["error_entropy"] = error_entropy(errors, bandwidth, window=window)
        found["bandwidth"] = bandwidth
    return found


def _distances(images: Vector, y: Vector) -> dict[str, Any]:
    """Return how often a pair of one label is nearer than a pair of two (each row is in two)."""
    import numpy as np

    from pairlearn.metrics.auc import roc_auc
    from pairlearn.streams.readers.base import ReadError

    order = np.random.default_rng(0).permutation(len(y))
    other = np.roll(order, 1)
    similar = y[order] == y[other]
    if similar.all() or not similar.any():
        raise ReadError("the data have no pairs of both kinds, of one label and of two.")
    nearness = -((images[order] - images[other]) ** 2).sum(axis=1)
    return {"pair_auc": roc_auc(similar, nearness), "similar_pairs": int(similar.sum())}
