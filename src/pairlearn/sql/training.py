# SPDX-License-Identifier: BSD-3-Clause
"""Train from a query: passes over its Arrow batches, in flat memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pairlearn.distributed.auc import DistributedFit, train_auc
from pairlearn.sql.engine import BATCH_ROWS, QueryEngine


def train_query(
    source: Any,
    query: str | None = None,
    *,
    target: str,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    batch_rows: int = BATCH_ROWS,
    **settings: Any,
) -> DistributedFit:
    """Train an `AUCClassifier` on the rows of a query, which stay where they are.

    Parameters
    ----------
    source, query, target, columns, weight, batch_rows
        As of `QueryEngine`.
    **settings
        As of `pairlearn.distributed.train_auc`: `features`, `loss`, `solver`, `scaling`,
        `decision`, `class_weight`, `validation_fraction`, `random_state`, `progress`.

    Returns
    -------
    DistributedFit
        The model, an ordinary `AUCClassifier`, and what the passes tell about it.

    Notes
    -----
    With ``loss="square"`` neither the order of the rows nor `batch_rows` changes a bit of the
    coefficients; other losses sum floats, in the order in which the engine gives the rows.

    Examples
    --------
    >>> import duckdb  # doctest: +SKIP
    >>> sales = duckdb.connect("sales.duckdb")  # doctest: +SKIP
    >>> fit = train_query(sales, "SELECT age, visits, bought FROM visitors", target="bought",
    ...                   loss="square", random_state=0)  # doctest: +SKIP
    >>> fit.model.save("model.safetensors")  # doctest: +SKIP
    """
    run = QueryEngine(
        source, query, target=target, columns=columns, weight=weight, batch_rows=batch_rows
    )
    return train_auc(run, feature_names=run.feature_names, **settings)
