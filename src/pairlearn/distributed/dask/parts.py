# SPDX-License-Identifier: BSD-3-Clause
"""Dask collections as partitions of examples, one delayed value each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pairlearn.distributed.dask.recipes import Recipe, recipes_of

_EXTRA = "Dask is not installed; pip install 'pairlearn[dask]'."


def require_dask() -> Any:
    """Import Dask, or tell how to install it."""
    try:
        import dask
    except ImportError:
        raise ImportError(_EXTRA) from None
    return dask


def is_collection(value: Any) -> bool:
    """Return whether a value is a collection of Dask, and not data in memory."""
    return hasattr(value, "__dask_graph__")


def is_array(value: Any) -> bool:
    """Return whether a value is a Dask array."""
    import dask.array

    return isinstance(value, dask.array.Array)


def is_frame(value: Any) -> bool:
    """Return whether a value is a Dask data frame or series, without importing pandas."""
    return is_collection(value) and hasattr(value, "map_partitions") and not is_array(value)


@dataclass(frozen=True)
class Layout:
    """Where the values of a partition stand in its frame.

    `columns` are the names of the columns, None for arrays; the last ones are what `attached` says.
    A name that is there several times is a frame.
    """

    columns: tuple[Any, ...] | None = None
    attached: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Parts:
    """Partitions of examples, each of delayed values by name.

    They are the rows "X", labels "y" and further columns, or else one frame "whole".
    """

    values: list[dict[str, Any]]
    feature_names: list[str] | None
    layout: Layout = Layout()

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def recipes(self) -> list[Recipe]:
        """How a task makes each partition."""
        return recipes_of(self.values)


def parts_of(X: Any, y: Any = None, *, cells: bool = False, **others: Any) -> Parts:
    """Return the partitions of collections that are partitioned alike.

    Blocks of `X` may be sparse and of unknown length. `others` are weights, queries or persons, one
    for each example. The parts keep the order of the rows. With `cells`, columns may be of any
    type, since a statistic reads them cell by cell, and `others` may have several columns.
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
        if not cells:
            _check_columns(X)
        texts = all(isinstance(name, str) for name in X.columns)
        names = [str(name) for name in X.columns] if texts else None
        series = {name: v for name, v in (("y", y), *others.items()) if v is not None}
        if all(is_frame(value) for value in series.values()):
            return _parts_of_frame(X, series, names, several=cells)
        rows, sizes = _delayed(X), None
    else:
        raise TypeError(
            f"X must be a Dask array or data frame, got {type(X).__name__}; for data in memory use "
            "the estimator without Dask, or dask.array.from_array(X, chunks=(100_000, -1))."
        )
    if sizes is not None and any(np.isnan(size) for size in sizes):
        sizes = None
    columns = {"X": rows}
    for name, value in (("y", y), *others.items()):
        if value is not None:
            several = cells and name != "y"
            columns[name] = _column(
                name, value, len(rows), sizes, several=several, of_frame=is_frame(X)
            )
    return Parts(
        [dict(zip(columns, part, strict=True)) for part in zip(*columns.values(), strict=True)],
        names,
        Layout(tuple(X.columns) if is_frame(X) else None),
    )


def _parts_of_frame(
    X: Any, series: dict[str, Any], names: list[str] | None, *, several: bool
) -> Parts:
    """Return the partitions of a data frame and of series that are partitioned alike.

    They become one frame first. So files are read once, and Dask, which may read several small
    files as one partition, does so for all columns alike.
    """
    attached: list[str] = []
    for name, value in series.items():
        _check_series(name, value, several=several and name != "y")
        attached += [name] * (1 if value.ndim == 1 else len(value.columns))
        if value.npartitions != X.npartitions:
            raise ValueError(
                f"X has {X.npartitions} partitions and {name} has {value.npartitions}; partition "
                f"both alike, with {name}.repartition(npartitions={X.npartitions})."
            )
    whole = _of_one_frame(X, series)
    if whole is None:
        known = [_names_of(value) for value in (X, *series.values())]
        meta = _with_columns(
            X._meta, list(series), known, *(value._meta for value in series.values())
        )
        whole = X.map_partitions(
            _with_columns,
            list(series),
            known,
            *series.values(),
            meta=meta,
            align_dataframes=False,
            # Dask would compare each partition with what it expects, in milliseconds.
            enforce_metadata=False,
        )
    layout = Layout(tuple(whole.columns), tuple(attached))
    return Parts([{"whole": part} for part in whole.to_delayed()], names, layout)


def _of_one_frame(X: Any, series: dict[str, Any]) -> Any:
    """Select X and then the series from the one frame that all of them come from.

    Dask then reads only these columns; a later selection would copy them. Returns None if they are
    not different columns of one frame.
    """
    selected: list[Any] = [getattr(value, "expr", None) for value in (X, *series.values())]
    if any(type(one).__name__ != "Projection" for one in selected):
        return None
    frames = {one.frame._name: one.frame for one in selected}
    names = [name for value in (X, *series.values()) for name in _names_of(value)]
    if len(frames) > 1 or len(set(names)) < len(names):
        return None
    from dask.dataframe.dask_expr import new_collection

    (frame,) = map(new_collection, frames.values())
    # A frame may have two columns of one name.
    return frame[names] if len(set(frame.columns)) == len(frame.columns) else None


def _names_of(value: Any) -> list[Any]:
    """Return the names of the columns of a frame, or the name of a series."""
    return [value.name] if value.ndim == 1 else list(value.columns)


def taken_apart(found: Mapping[str, Any], layout: Layout) -> tuple[Any, Any, dict[str, Any]]:
    """Return the rows of a computed partition, its labels or None, and further columns by name."""
    if "whole" in found:
        attached = layout.attached
        frame = in_order(found["whole"], layout.columns)
        columns = {name: _attached(frame, attached, name) for name in attached}
        rows = frame.iloc[:, : -len(attached)] if attached else frame
    else:
        columns = dict(found)
        rows = in_order(columns.pop("X"), layout.columns)
    return rows, columns.pop("y", None), columns


def in_order(frame: Any, names: Sequence[Any] | None) -> Any:
    """Return a computed frame with its columns in the order of the collection.

    Dask does not look: a file may have other columns, or the same ones in another order.
    """
    if names is None or frame.ndim == 1 or not len(frame):
        return frame
    found, wanted = list(frame.columns), list(names)
    if found == wanted:
        return frame
    if len(set(found)) == len(found) == len(wanted) and set(found) == set(wanted):
        return frame[wanted]
    lacks, beside = ([n for n in a if n not in b] for a, b in ((wanted, found), (found, wanted)))
    raise ValueError(
        f"One partition lacks the columns {lacks[:5]} of the others, and has {beside[:5]} beside "
        "them; all partitions need the same columns."
    )


def _with_columns(frame: Any, names: list[str], known: list[list[Any]], *values: Any) -> Any:
    # By position: an index may repeat, and a feature may be called y.
    wide = in_order(frame, known[0]).copy(deep=False)
    ordered = map(in_order, values, known[1:])
    for name, value in zip(names, ordered, strict=True):
        if len(value) != len(frame):
            # Without the numbers: those of private rows may be secret.
            raise ValueError(
                f"X and {name} have different numbers of rows in one partition; partition both "
                "alike."
            )
        columns = [value] if value.ndim == 1 else [value.iloc[:, k] for k in range(value.shape[1])]
        for column in columns:
            # In its own type: NumPy has no missing integers, and would make floats of all.
            wide[f"pairlearn column {wide.shape[1]}"] = column.array
    return wide


def _attached(frame: Any, attached: tuple[str, ...], name: str) -> Any:
    """Return what is attached to a frame under a name: a series, or a frame of several columns."""
    first = frame.shape[1] - len(attached)
    places = [first + k for k, one in enumerate(attached) if one == name]
    return frame.iloc[:, places[0] if len(places) == 1 else places]


def _delayed(collection: Any) -> list[Any]:
    """Return one delayed value for each partition, even where Dask would read several as one."""
    delayed = list(collection.to_delayed())
    if len(delayed) != collection.npartitions:
        delayed = list(collection.to_delayed(optimize_graph=False))
    return delayed


def as_table(part: Any) -> Any:
    """Return a computed partition as an array or a sparse matrix."""
    if hasattr(part, "columns") and hasattr(part, "to_numpy"):
        kinds = {kind if isinstance(kind, np.dtype) else None for kind in part.dtypes}
        if kinds in ({np.dtype(np.float32)}, {np.dtype(np.float64)}):
            # Numbers of one type are not copied.
            return part.to_numpy()
        if len(part):
            _check_columns(part, or_objects=True)
        return part.to_numpy(dtype=np.float64, na_value=np.nan)
    return part


def as_column(part: Any) -> Any:
    """Return computed labels, weights or queries as an array; None for none."""
    if part is None:
        return None
    # With its mask, to be refused.
    return part.to_numpy() if hasattr(part, "to_numpy") else np.asanyarray(part)


def _row_of_blocks(blocks: list[Any]) -> Any:
    if len(blocks) == 1:
        return blocks[0]
    return require_dask().delayed(_side_by_side)(blocks)


def _side_by_side(blocks: list[Any]) -> Any:
    if all(isinstance(block, np.ndarray) for block in blocks):
        return np.hstack(blocks)
    import scipy.sparse

    return scipy.sparse.hstack(blocks, format="csr")


def _check_columns(frame: Any, *, or_objects: bool = False) -> None:
    """Refuse columns that are no numbers; those of objects may be, in a computed partition."""
    # Dask does not look: a file may have a column of another type than the others.
    wrong = [
        f"{name!r} ({kind})"
        for name, kind in zip(frame.columns, frame.dtypes, strict=True)
        if getattr(kind, "kind", "O") not in "biuf" and not (or_objects and kind == np.dtype("O"))
    ]
    if wrong:
        shown = ", ".join(wrong[:5]) + (", ..." if len(wrong) > 5 else "")
        raise ValueError(
            f"Features must be numbers, got columns {shown}; encode categories and texts first "
            "(dask.dataframe.get_dummies after .categorize()), or leave them out."
        )


def _column(
    name: str,
    value: Any,
    n_parts: int,
    sizes: Any,
    *,
    several: bool = False,
    of_frame: bool = False,
) -> list[Any]:
    """Return labels, weights, queries or persons as one delayed value a partition."""
    if is_array(value):
        if value.ndim == 2 and value.shape[1] == 1:
            value = value[:, 0]
        if value.ndim != 1 and not (several and value.ndim == 2):
            raise ValueError(f"{name} must have one dimension, got {value.ndim}.")
        known = not any(np.isnan(size) for size in value.chunks[0])
        if known and sizes is not None and value.chunks[0] != sizes:
            if sum(sizes) != value.shape[0]:
                raise ValueError(
                    f"X and {name} have different numbers of rows; give one {name} for each row."
                )
            value = value.rechunk({0: sizes})
        blocks = value.to_delayed().tolist()
        delayed = blocks if value.ndim == 1 else [_row_of_blocks(row) for row in blocks]
    else:
        _check_series(name, value, several=several)
        delayed = _delayed(value)
    if len(delayed) != n_parts and of_frame and is_array(value):
        raise ValueError(
            f"X is a data frame of {n_parts} partitions, and {name} is an array of {len(delayed)}: "
            "Dask reads several small files as one where it makes an array of few columns. Pass "
            f"{name} as the series that it comes from (table[column], without .values), which is "
            "then read together with X."
        )
    if len(delayed) != n_parts:
        raise ValueError(
            f"X has {n_parts} partitions and {name} has {len(delayed)}; partition both alike, with "
            f"{name}.repartition(npartitions=...) or .rechunk(X.chunks[0])."
        )
    return delayed


def _check_series(name: str, value: Any, *, several: bool) -> None:
    if not is_frame(value):
        raise TypeError(
            f"{name} must be a Dask array or series like X, got {type(value).__name__}; "
            f"dask.array.from_array({name}, chunks=X.chunks[0]) makes one."
        )
    if value.ndim != 1 and not several:
        raise ValueError(f"{name} must be a series, got a data frame; select one column by name.")
    if value.ndim != 1 and not len(value.columns):
        raise ValueError(f"{name} has no column; select one or more.")
