# SPDX-License-Identifier: BSD-3-Clause
"""The concordance index of scores on a Dask cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.dask.parts import (
    Parts,
    as_column,
    as_table,
    is_array,
    is_frame,
    parts_of,
)
from pairlearn.distributed.dask.passes import DaskEngine
from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.distributed.statistics.concordance import (
    ConcordanceSketch,
    MergedConcordance,
    SurvivalScores,
    place_of_times,
)
from pairlearn.metrics.concordance import ConcordanceIndex, survival_times
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction

#: The number of quantiles of each partition that place the bins, and the number of bins.
_QUANTILES, _BINS = 16_385, 65_536

#: Scores, events with times, and weights (None for none).
Held = tuple[Vector, NDArray[Any], Any]


def dask_concordance(
    y: Any,
    scores: Any,
    metric: ConcordanceIndex | None = None,
    *,
    sample_weight: Any = None,
    confidence: float = 0.95,
    limit: int = 10_000_000,
    client: Any = None,
    worker_timeout: float = 60.0,
) -> MergedConcordance:
    """Return the concordance index over all partitions, as of all rows in one memory.

    Up to `limit` rows come to the client, with 17 bytes each: value and interval are then those of
    ``metric.interval``, bit for bit. Of more rows there are tables of constant size
    (`ConcordanceSketch`): the value is at most `half_width`, about 2e-4, from the exact one.

    Parameters
    ----------
    y : dask array of shape (n, 2) or data frame
        The event and the time of each row, as in `ConcordanceIndex`; a frame has the columns
        "event" and "time".
    scores : dask array of shape (n,) or series
        Risks, such as ``X.map_blocks(ranker.predict, dtype=float, drop_axis=1)``.
    metric : ConcordanceIndex, optional
        Harrell's index by default. Uno's index has weights of all rows, so that more than `limit`
        rows are refused.
    sample_weight : dask array or series, optional
        Weights of the rows.
    confidence : float, default=0.95
        The level of the interval.
    limit : int, default=10000000
        The most rows that come to the client.
    client, worker_timeout : see `DaskAUCClassifier`
        As of `DaskAUCClassifier`.

    Returns
    -------
    MergedConcordance
        Value, half-width and interval.

    Examples
    --------
    >>> risks = X.map_blocks(ranker.predict, dtype=float, drop_axis=1)  # doctest: +SKIP
    >>> dask_concordance(y, risks).interval  # doctest: +SKIP
    """
    metric = ConcordanceIndex() if metric is None else metric
    if not isinstance(metric, ConcordanceIndex):
        raise TypeError(f"metric must be a ConcordanceIndex, got {metric!r}.")
    check_fraction("confidence", confidence)
    limit = check_count("limit", limit)
    engine = DaskEngine(client, worker_timeout=worker_timeout)
    held = engine.persist(engine.each(_parts(y, scores, sample_weight), _held, None))
    from dask import delayed

    n = sum(engine.compute([delayed(_count)(one) for one in held]))
    if n <= limit:
        return _asked(engine, SurvivalScores(metric, confidence=confidence), held)
    if metric.ipcw:
        raise ValueError(
            f"{metric!r} of {n} rows: its weights need all rows in one memory, and limit is "
            f"{limit}; raise limit, or leave out ipcw."
        )
    found = engine.compute([delayed(_quantiles)(one) for one in held])
    share = np.arange(1, _BINS) / _BINS
    # a quantile is a value that is there, so that a value of many rows has a bin of its own
    times, risks = (
        np.quantile(np.concatenate([one[k] for one in found]), share, method="inverted_cdf")
        for k in (0, 1)
    )
    return _asked(engine, ConcordanceSketch(times, risks, metric), held)


def _asked(engine: DaskEngine, statistic: Statistic, held: list[Any]) -> MergedConcordance:
    found: MergedConcordance = statistic.finish(engine.ask(statistic, _state_of, held))
    return found


def _parts(y: Any, scores: Any, sample_weight: Any) -> Parts:
    """Return the partitions of scores, events with times, and weights."""
    if is_frame(y):
        names = [] if y.ndim == 1 else [str(name) for name in y.columns]
        if sorted(names) != ["event", "time"]:
            raise ValueError(
                f'y is a frame or series with the columns {names!r}; it needs "event" and "time".'
            )
        y = y[["event", "time"]]
    if is_frame(scores):
        scores = scores if scores.ndim == 2 else scores.to_frame()
    elif is_array(scores):
        scores = scores if scores.ndim == 2 else scores[:, np.newaxis]
    if hasattr(scores, "shape") and scores.ndim == 2 and scores.shape[1] != 1:
        raise ValueError(f"scores must have one column, got {scores.shape[1]}.")
    return parts_of(scores, cells=True, survival=y, sample_weight=sample_weight)


def _held(_what: None, _part: int, rows: Any, _labels: None, others: Mapping[str, Any]) -> Held:
    scores, times = as_table(rows), survival_times(as_column(others["survival"]))
    if len(scores) != len(times):
        raise ValueError(
            f"scores has {len(scores)} rows and y has {len(times)} in one partition; partition "
            "both alike."
        )
    weight = as_column(others.get("sample_weight"))
    return np.asarray(scores, dtype=np.float64)[:, 0], times, weight


def _count(held: Held) -> int:
    return len(held[0])


def _state_of(statistic: Statistic, held: Held) -> State:
    return statistic.partial_state(*held)


def _quantiles(held: Held) -> tuple[Vector, Vector]:
    scores, times, _ = held
    if not len(scores):
        return scores, scores
    levels = np.linspace(0.0, 1.0, min(_QUANTILES, len(scores)))
    when = place_of_times(times, times["event"])
    first, second = (np.quantile(v, levels, method="inverted_cdf") for v in (when, scores))
    return first, second
