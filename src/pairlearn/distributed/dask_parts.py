# SPDX-License-Identifier: BSD-3-Clause
"""Dask collections as partitions of examples, one delayed value each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Parts", "as_column", "as_table", "is_array", "is_frame", "parts_of", "require_dask"]

_EXTRA = "Dask is not installed; pip install 'pairlearn[dask]'."


def require_dask() -> Any:
    """Return the module, or say how it is installed."""
    try:
        import dask
    except ImportError:
        raise ImportError(_EXTRA) from None
    return dask


def is_array(value: Any) -> bool:
    """Tell a Dask array."""
    import dask.array

    return isinstance(value, dask.array.Array)


def is_frame(value: Any) -> bool:
    """Tell a Dask data frame or series, without importing pandas for those who have none."""
    return (
        hasattr(value, "__dask_graph__")
        and hasattr(value, "map_partitions")
        and not is_array(value)
    )


@dataclass(frozen=True, eq=False)
class Parts:
    """Partitions of examples: delayed rows, labels, further columns (None where there are none)."""

    rows: list[Any]
    labels: list[Any]
    others: dict[str, list[Any]]
    feature_names: list[str] | None

    def __len__(self) -> int:
        return len(self.rows)


def parts_of(X: Any, y: Any = None, **others: Any) -> Parts:
    """Return the partitions of collections that are partitioned alike.

    Parameters
    ----------
    X : dask array of shape (n, d) or dask data frame
        Examples; blocks may be sparse, the numbers of rows unknown.
    y : dask array or series, optional
        Labels.
    **others : dask array, series or None
        Weights, queries: one number for each example.

    Returns
    -------
    Parts
        In the order of the rows.
    """
    require_dask()
    if is_array(X):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions (examples, features), got {X.ndim}.")
        rows = [_row_of_blocks(blocks.tolist()) for blocks in X.to_delayed()]
        sizes: Any = X.chunks[0]
        names = None
    elif is_frame(X):
        if X.ndim != 2:
            raise ValueError("X must be a data frame, got a series; select columns with a list.")
        _check_columns(X)
        rows, sizes = list(X.to_delayed()), None
        texts = all(isinstance(name, str) for name in X.columns)
        names = [str(name) for name in X.columns] if texts else None
    else:
        raise TypeError(
            f"X must be a Dask array or data frame, got {type(X).__name__}; for data in memory use "
            "the estimator without Dask, or dask.array.from_array(X, chunks=(100_000, -1))."
        )
    if sizes is not None and any(np.isnan(size) for size in sizes):
        sizes = None
    return Parts(
        rows,
        _column("y", y, len(rows), sizes),
        {
            name: _column(name, value, len(rows), sizes)
            for name, value in others.items()
            if value is not None
        },
        names,
    )


def as_table(part: Any) -> Any:
    """Return a computed partition as an array or a sparse matrix."""
    if hasattr(part, "columns") and hasattr(part, "to_numpy"):
        kinds = {np.dtype(kind) for kind in part.dtypes if isinstance(kind, np.dtype)}
        dtype = np.float32 if kinds == {np.dtype(np.float32)} else np.float64
        return part.to_numpy(dtype=dtype, na_value=np.nan)
    return part


def as_column(part: Any) -> Any:
    """Return computed labels, weights or queries as an array; None for none."""
    if part is None:
        return None
    return part.to_numpy() if hasattr(part, "to_numpy") else np.asarray(part)


def _row_of_blocks(blocks: list[Any]) -> Any:
    if len(blocks) == 1:
        return blocks[0]
    return require_dask().delayed(_side_by_side)(blocks)


def _side_by_side(blocks: list[Any]) -> Any:
    if all(isinstance(block, np.ndarray) for block in blocks):
        return np.hstack(blocks)
    import scipy.sparse

    return scipy.sparse.hstack(blocks, format="csr")


def _check_columns(frame: Any) -> None:
    wrong = [
        f"{name!r} ({kind})"
        for name, kind in zip(frame.columns, frame.dtypes, strict=True)
        if getattr(kind, "kind", "O") not in "biuf"
    ]
    if wrong:
        shown = ", ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else "")
        raise ValueError(
            f"Features must be numbers, got columns {shown}; encode categories and texts first "
            "(dask.dataframe.get_dummies after .categorize()), or leave them out."
        )


def _column(name: str, value: Any, n_parts: int, sizes: Any) -> list[Any]:
    if value is None:
        return [None] * n_parts
    if is_array(value):
        if value.ndim == 2 and value.shape[1] == 1:
            value = value[:, 0]
        if value.ndim != 1:
            raise ValueError(f"{name} must have one dimension, got {value.ndim}.")
        known = not any(np.isnan(size) for size in value.chunks[0])
        if known and sizes is not None and value.chunks[0] != sizes:
            if sum(sizes) != value.shape[0]:
                raise ValueError(
                    f"X has {sum(sizes)} rows and {name} has {value.shape[0]}; give one for each."
                )
            value = value.rechunk((sizes,))
    elif not is_frame(value):
        raise TypeError(
            f"{name} must be a Dask array or series like X, got {type(value).__name__}; "
            f"dask.array.from_array({name}, chunks=X.chunks[0]) makes one."
        )
    elif value.ndim != 1:
        raise ValueError(f"{name} must be a series, got a data frame; select one column by name.")
    delayed = list(np.ravel(np.asarray(value.to_delayed(), dtype=object)))
    if len(delayed) != n_parts:
        raise ValueError(
            f"X has {n_parts} partitions and {name} has {len(delayed)}; partition both alike, with "
            f"{name}.repartition(npartitions=...) or .rechunk(X.chunks[0])."
        )
    return delayed
