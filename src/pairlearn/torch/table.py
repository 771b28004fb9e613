# SPDX-License-Identifier: BSD-3-Clause
"""Examples as networks see them: standardised rows on a device, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pairlearn.features import Hats
from pairlearn.solvers.rows import is_sparse
from pairlearn.torch.standardise import Standardiser
from pairlearn.torch.training import Batch
from pairlearn.typing import Vector

#: Numbers of a block of rows that are dense at the same time.
_NUMBERS = 2**21


def rows_of_a_block(n_features: int, most: int) -> int:
    """Return the number of rows that pass a network together, given their number of features."""
    return min(max(_NUMBERS // max(n_features, 1), 1), most)


class Table:
    """Rows in the units of a standardiser, in single precision, with their labels and weights.

    A dense table is moved to the device at once. Sparse rows stay as they are: what is asked for is
    made dense, centred and scaled, and nothing else. Without weights `weight` is empty. `counts`
    say how often each row counts in knots, if that is not its weight.
    """

    def __init__(
        self,
        X: Any,
        labels: Sequence[NDArray[Any]],
        weight: Vector,
        scaler: Standardiser,
        device: Any,
        *,
        counts: Vector | None = None,
    ) -> None:
        self._X, self.scaler, self.device = X, scaler, device
        self._counts = weight if counts is None else counts
        self._dense = None if is_sparse(X) else self._on_device(scaler.transform(X))
        self._labels = tuple(torch.from_numpy(kind).to(device) for kind in labels)
        self._weight = self._on_device(weight) if len(weight) else None

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self._X.shape[0])

    def _on_device(self, rows: NDArray[Any]) -> Any:
        return torch.from_numpy(rows.astype(np.float32, copy=False)).to(self.device)

    @property
    def on_device(self) -> bool:
        """Whether all rows are on the device: then a batch needs nothing of the host."""
        return self._dense is not None

    def take(self, index: Any) -> Any:
        """Return some rows, dense, on the device; the index is an array or a tensor."""
        if self._dense is not None:
            return self._dense[torch.as_tensor(index, device=self.device)]
        index = np.asarray(torch.as_tensor(index).cpu())
        rows = np.empty((len(index), self._X.shape[1]), dtype=np.float32)
        size = rows_of_a_block(rows.shape[1], len(self))
        for begin in range(0, len(index), size):
            part = slice(begin, begin + size)
            rows[part] = self.scaler.transform(self._X[index[part]])
        return self._on_device(rows)

    def batch(self, index: Any) -> Batch:
        """Return some rows with their labels and weights."""
        chosen = torch.as_tensor(index, device=self.device)
        weights = None if self._weight is None else self._weight[chosen]
        return self.take(chosen), tuple(kind[chosen] for kind in self._labels), weights

    def knots(self, count: int) -> list[Vector]:
        """Return at most so many quantiles of each column, increasing, in its standard units.

        They are those of a sample, if rows are many; a column of few levels has them all.
        """
        given = {"sample_weight": self._counts} if len(self._counts) else {}
        hats, scaler = Hats(count).fit(self._X, rng=0, **given), self.scaler
        return [
            (hats.knots_of(k) - centre) * factor
            for k, (centre, factor) in enumerate(zip(scaler.centre, scaler.factor, strict=True))
        ]

    def blocks(self, index: Any) -> Iterator[Any]:
        """Yield some rows in blocks that fit into memory."""
        size = rows_of_a_block(self._X.shape[1], len(self))
        for begin in range(0, len(index), size):
            yield self.take(index[begin : begin + size])
