# SPDX-License-Identifier: BSD-3-Clause
"""Warn if the examples of `partial_fit` are not in random order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.solvers.streams.order import OrderWatch
from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.typing import Vector

#: The cure for rows that are sorted by label only.
RESERVOIRS = ", or, if it is by label only, take solver=SGD(pairing=ClassReservoirs(64, 64))"


def watch_order(
    model: Any,
    rows: Rows,
    y: Vector,
    scales: RunningScales | None,
    *,
    qid: ArrayLike | None = None,
    cure: str = "",
) -> None:
    """Look at a chunk that an estimator has learned, with the scales of its stream.

    The watch is no part of the state of a stream: a restored stream may warn again.
    """
    watch: OrderWatch | None = vars(model).get("_order_watch")
    if watch is None:
        watch = vars(model)["_order_watch"] = OrderWatch(cure)
    watch.note(
        y,
        None if qid is None else np.asarray(qid),
        scales=scales if isinstance(rows, DenseRows) else None,
    )
