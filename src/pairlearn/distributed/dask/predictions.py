# SPDX-License-Identifier: BSD-3-Clause
"""Lazy predictions of a fitted model for Dask collections."""

from __future__ import annotations

from typing import Any

import numpy as np

from pairlearn.distributed.dask.parts import is_array, is_frame, require_dask

__all__ = ["mapped"]


def mapped(
    model: Any, method: str, X: Any, dtype: Any, *, columns: list[Any] | None = None, width: int = 0
) -> Any:
    """Apply a method of a model to a collection, lazily.

    Parameters
    ----------
    model : object
        A fitted estimator; it travels once, not with every partition.
    method : str
        The name of the method.
    X : dask array, dask data frame, or data in memory
        Examples; data in memory get their answers at once.
    dtype : dtype
        The type of the answers.
    columns : list, optional
        Names of the columns, if an answer has several.
    width : int, default=0
        The number of columns, if they have no names.

    Returns
    -------
    dask array, series or data frame
        One answer for each example, partitioned as X is. For a data frame an answer without names
        of columns is a series, with the index of X.
    """
    if not hasattr(X, "__dask_graph__"):
        return getattr(model, method)(X)
    once = require_dask().delayed(model)
    width = len(columns) if columns is not None else width
    if is_array(X):
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        shape = {"drop_axis": 1} if not width else {"chunks": (X.chunks[0], (width,))}
        meta = np.empty((0,) if not width else (0, width), dtype=dtype)
        return X.map_blocks(_answer, once, method, dtype, width, meta=meta, **shape)
    if is_frame(X):
        import pandas as pd

        meta_frame: Any = pd.Series([], dtype=dtype)
        if width:
            names = list(range(width)) if columns is None else columns
            meta_frame = pd.DataFrame({name: pd.Series([], dtype=dtype) for name in names})
        return X.map_partitions(_answer_frame, once, method, dtype, columns, width, meta=meta_frame)
    raise TypeError(f"X must be a Dask array or data frame, got {type(X).__name__}.")


def _answer(block: Any, model: Any, method: str, dtype: Any, width: int) -> Any:
    if not block.shape[0]:
        return np.empty((0, width) if width else 0, dtype=dtype)
    return getattr(model, method)(block)


def _answer_frame(
    frame: Any, model: Any, method: str, dtype: Any, columns: list[Any] | None, width: int
) -> Any:
    import pandas as pd

    if len(frame):
        answers = getattr(model, method)(frame)
    else:
        answers = np.empty((0, width) if width else 0, dtype=dtype)
    if width:
        return pd.DataFrame(answers, index=frame.index, columns=columns)
    return pd.Series(answers, index=frame.index)
