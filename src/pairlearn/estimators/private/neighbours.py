# SPDX-License-Identifier: BSD-3-Clause
"""Neighbouring tables for the audit of private estimators, and what is public of a fitted model.

Tables differ in one example. They are adversarial: examples in the corners of the public bounds and
far outside, labels that are flipped, unknown or of another type, cells that are not numbers, and
sorted rows, where one replaced example moves many others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.descent.localized import stage_sizes
from pairlearn.typing import Vector


@dataclass(frozen=True)
class PublicNeighbours:
    """Two neighbouring tables.

    `rows` is the index in the second table of each row of the first, if the orders differ. None if
    the order is the same; one table may then lack a row.
    """

    name: str
    X: Any
    y: Any
    other: Any
    other_y: Any
    rows: NDArray[np.int64] | None = None


def public_neighbours(
    lower: Vector, upper: Vector, labels: tuple[Any, ...], *, n: int, neighbours: str, seed: int = 0
) -> list[PublicNeighbours]:
    """Return neighbouring tables of n examples for public bounds and labels.

    The larger table has n examples. The last of two labels is the positive one. `neighbours` is
    "replace" or "add_remove".
    """
    maker = _Maker(lower, upper, labels, n, neighbours == "add_remove")
    middle, negative, positive = 0.5 * (lower + upper), labels[0], labels[-1]
    rng = np.random.default_rng(seed)
    still = np.tile(middle, (n, 1))
    one_class = [negative] * n
    spread = rng.uniform(lower, upper, (n, len(lower)))
    corners = np.where(rng.random(spread.shape) < 0.5, lower, upper)
    mixed = [labels[k] for k in rng.integers(0, len(labels), n)]
    half = [labels[0] if k % 2 else labels[-1] for k in range(n)]

    pairs = [
        maker.pair("a corner to the opposite one", still, one_class, upper, positive, lower,
                   positive),
        maker.pair("a label turned in a corner", still, one_class, upper, positive, upper,
                   negative),
        maker.pair("the middle to a corner", still, one_class, middle, negative, upper, positive),
        maker.pair("the middle to a corner, one label", still, half, middle, positive, upper,
                   positive),
        maker.pair("a label turned in the middle", still, half, middle, positive, middle, negative),
        maker.pair("an outlier", spread, mixed, np.full_like(middle, 1e300), positive,
                   np.full_like(middle, -np.inf), positive),
        maker.pair("a missing example", spread, mixed, upper, negative,
                   np.full_like(middle, np.nan), negative),
        maker.pair("an unknown label", spread, half, upper, positive, upper, "n/a"),
        maker.pair("a corner among random ones", spread, mixed, upper, positive, lower, positive),
        maker.pair("a corner among corners", corners, mixed, upper, positive, lower, positive),
        maker.pair("a label turned among corners", corners, mixed, upper, positive, upper,
                   negative),
        maker.pair("a label turned among random ones", spread, mixed, upper, negative, upper,
                   positive),
    ]  # fmt: skip
    pairs += [maker.strange_cell(spread, mixed), maker.sorted_rows(spread, mixed)]
    if not maker.removes:
        pairs.append(maker.shifted_rows())
    return pairs


@dataclass(frozen=True)
class _Maker:
    """Makes pairs of tables for fixed bounds, labels, size and relation."""

    lower: Vector
    upper: Vector
    labels: tuple[Any, ...]
    n: int
    removes: bool

    def pair(
        self, name: str, X: Vector, y: list[Any], row: Any, label: Any, new: Any, new_label: Any
    ) -> PublicNeighbours:
        """Put an example in the second row; the other table has another one there, or none."""
        # Not the first row: in a single pass the first row is in one pair only.
        place = min(1, self.n - 1)
        X, y = X.copy(), list(y)
        X[place], y[place] = row, label
        if self.removes:
            return PublicNeighbours(
                name, X, y, np.delete(X, place, axis=0), y[:place] + y[place + 1 :]
            )
        other, other_y = X.copy(), list(y)
        other[place], other_y[place] = new, new_label
        return PublicNeighbours(name, X, y, other, other_y)

    def strange_cell(self, X: Vector, y: list[Any]) -> PublicNeighbours:
        """Put cells that are not numbers in one row of a list."""
        pair = self.pair("cells that are no numbers", X, y, self.upper, y[0], self.lower, y[0])
        rows, other = pair.X.tolist(), pair.other.tolist()
        rows[min(1, self.n - 1)] = ["n/a", *([10**400] * len(self.lower))][: len(self.lower)]
        return PublicNeighbours(pair.name, rows, pair.y, other, pair.other_y)

    def shifted_rows(self) -> PublicNeighbours:
        """Shift every row by one, as when a replaced row of a sorted table moves to the front.

        In the first table each block of rows ends with a positive example in a corner. After the
        shift it holds the example of the block before, in the opposite corner. This attacks
        mechanisms that take blocks of rows in the given order.
        """
        X = np.tile(0.5 * (self.lower + self.upper), (self.n, 1))
        y = [self.labels[0]] * self.n
        for k, end in enumerate(np.cumsum(stage_sizes(self.n)).tolist()):
            X[end - 1] = self.lower if k % 2 else self.upper
            y[end - 1] = self.labels[-1]
        other, other_y = np.roll(X, 1, axis=0), [*y[-1:], *y[:-1]]
        other[0], other_y[0] = self.lower, self.labels[-1]
        rows = np.roll(np.arange(self.n), -1)
        return PublicNeighbours("rows that all move on by one", X, y, other, other_y, rows)

    def sorted_rows(self, X: Vector, y: list[Any]) -> PublicNeighbours:
        """Sort the rows of both tables by label and then by the first feature."""
        label, turned = self.labels[-1], self.labels[0]
        pair = self.pair("rows that are sorted", X, y, self.upper, label, self.lower, turned)

        def order(table: Any, labels: list[Any]) -> NDArray[np.int64]:
            codes = [self.labels.index(one) for one in labels]
            return np.lexsort([np.asarray(table)[:, 0], np.array(codes)])

        first, second = order(pair.X, pair.y), order(pair.other, pair.other_y)
        rows = None
        if not self.removes:
            # Row i of the first table was row first[i], which is now where second has it.
            rows = np.argsort(second)[first].astype(np.int64)
        return PublicNeighbours(
            pair.name,
            pair.X[first],
            [pair.y[k] for k in first],
            pair.other[second],
            [pair.other_y[k] for k in second],
            rows,
        )


def observed(model: Any, probes: Vector) -> dict[str, Any]:
    """Return everything public about a fitted estimator, as plain values to compare."""
    seen: dict[str, Any] = {
        name: _plain(value) for name, value in vars(model).items() if name.endswith("_")
    }
    record = model.to_record()
    seen["model file"] = (
        {name: array.tobytes() for name, array in record.arrays.items()},
        json.dumps([record.parameters, record.provenance, record.certificate], sort_keys=True),
    )
    for name in ("decision_function", "predict_proba", "predict", "transform"):
        numbers = _answer(model, name, probes)
        if numbers is not None:
            seen[name] = numbers.tolist()
    return seen


def _answer(model: Any, name: str, probes: Vector) -> NDArray[Any] | None:
    """Return the result of a method on new examples; None if there is no such method."""
    method = getattr(model, name, None)
    return None if method is None else np.asarray(method(probes))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist()
    to_dict = getattr(value, "to_dict", None)
    return repr(value) if to_dict is None else json.dumps(to_dict(), sort_keys=True)


def public_numbers(model: Any, probes: Vector) -> Vector:
    """Return the public numbers of a fitted estimator that an attack uses."""
    parts = [
        np.ravel(value)
        for name, value in sorted(vars(model).items())
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f"
    ]
    for name in ("decision_function", "predict_proba", "transform"):
        numbers = _answer(model, name, probes)
        if numbers is not None:
            parts.append(np.ravel(numbers))
    return np.concatenate(parts)
