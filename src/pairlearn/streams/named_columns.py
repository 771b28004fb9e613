# SPDX-License-Identifier: BSD-3-Clause
"""Turn examples given as dicts into rows: each name gets a column when it first appears."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.typing import Vector

__all__ = ["NamedColumns", "widened"]

#: Up to this number of features rows are dense, beyond it sparse.
_DENSE_UP_TO = 512
#: Cached layouts (the columns of a tuple of names).
_LAYOUTS = 1024
_NONE = np.empty(0, dtype=np.int32)


class NamedColumns:
    """A column for each name, in order of appearance.

    Parameters
    ----------
    names : sequence
        The names that have a column.
    width : int, default=1
        The least width of rows.

    Examples
    --------
    >>> columns = NamedColumns()
    >>> columns.rows([{"a": 1.0}, {"b": 2.0, "a": 3.0}], np.array([1.0, 2.0, 3.0])).X
    array([[1., 0.],
           [3., 2.]])
    >>> columns.names
    ('a', 'b')
    """

    def __init__(self, names: Sequence[Any] = (), width: int = 1) -> None:
        #: The column of each name.
        self.index: dict[Any, int] = {name: k for k, name in enumerate(names)}
        self._layouts: dict[tuple[Any, ...], NDArray[np.int32]] = {}
        self._set_width(width)

    @property
    def names(self) -> tuple[Any, ...]:
        """The names, by column."""
        return tuple(self.index)

    @property
    def is_dense(self) -> bool:
        """Whether rows are dense."""
        return self.width <= _DENSE_UP_TO

    def rows(self, examples: list[dict[Any, float]], flat: Vector) -> Rows:
        """Return examples as rows; `flat` holds all of their values, joined."""
        columns = np.concatenate([_NONE, *map(self._layout, map(tuple, examples))])
        counts = np.array(list(map(len, examples)), dtype=np.intp)
        self._make_room()
        if not self.is_dense:
            return CsrRows(flat, columns, np.concatenate([[0], np.cumsum(counts)]), self.width)
        X = np.zeros((len(examples), self.width))
        X[np.repeat(np.arange(len(examples)), counts), columns] = flat
        return DenseRows(X)

    def rows_alike(self, names: tuple[Any, ...], m: int, flat: Vector) -> Rows:
        """Return m examples with the same names as rows."""
        layout, n = self._layout(names), len(names)
        self._make_room()
        if not self.is_dense:
            return CsrRows(flat, np.tile(layout, m), n * np.arange(m + 1), self.width)
        if n == self.width and (layout == self._in_order).all():
            return DenseRows(flat.reshape(m, n))
        X = np.zeros((m, self.width))
        X[:, layout] = flat.reshape(m, n)
        return DenseRows(X)

    def _layout(self, names: tuple[Any, ...]) -> NDArray[np.int32]:
        found = self._layouts.get(names)
        if found is None:
            index = self.index
            columns = [index.setdefault(name, len(index)) for name in names]
            found = np.array(columns, dtype=np.int32)
            if len(self._layouts) >= _LAYOUTS:
                # if names vary freely, every example would add a layout
                self._layouts.clear()
            self._layouts[names] = found
        return found

    def _make_room(self) -> None:
        needed = len(self.index)
        if needed > self.width:
            # dense rows get the exact width; the width of sparse rows costs nothing
            self._set_width(needed if needed <= _DENSE_UP_TO else 1 << needed.bit_length())

    def _set_width(self, width: int) -> None:
        #: The width of rows.
        self.width = width
        self._in_order = np.arange(width, dtype=np.int32)


def widened(rows: Rows, width: int) -> Rows:
    """Return rows widened to `width` columns, dense or sparse as this width requires."""
    if isinstance(rows, CsrRows):
        return CsrRows(rows.data, rows.indices, rows.indptr, width)
    if width <= _DENSE_UP_TO:
        return DenseRows(np.pad(rows.X, ((0, 0), (0, width - rows.X.shape[1]))))
    kept = rows.X != 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return CsrRows(rows.X[kept], np.nonzero(kept)[1].astype(np.int32), indptr, width)
