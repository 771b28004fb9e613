# SPDX-License-Identifier: BSD-3-Clause
r"""Sums of private statistics over partitions, and noise that a repeated task repeats.

The statistics of a record are rounded to a grid before they are summed
(`privacy.mechanisms.sufficient_statistics`). So sums are whole numbers, and no bit of them depends
on how the examples are partitioned.

If nobody outside a partition is trusted, the partition draws its own noise. A task may run again,
because its worker died after others had seen its answer. It must not answer with other noise: two
answers would be two releases. So the noise is a function of the fit, of the question, of the
partition and of its exact sum, under a secret key that the workers share (HMAC-SHA-256, expanded by
SHAKE-256). The same question about the same examples has one answer within a fit. Any other fit,
question or sum gets other noise, and without the key nobody can tell it from an independent draw.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.distributed.statistics.chunk import same_width
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.sufficient_statistics import Weights, summed_on_grid
from pairlearn.privacy.narrowing import Bins
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.records import person_keys, read_labels, read_persons, read_table
from pairlearn.typing import Vector

#: The least number of bytes of a key.
_KEY_SIZE = 32


@dataclass(frozen=True)
class PartitionNoise:
    """The noise of one partition: within a fit the same question always gets the same noise.

    Parameters
    ----------
    key_file : path-like, optional
        A file of at least 32 secret random bytes. Every worker reads it under the same name, and
        nobody else can.
    key : bytes, optional
        The secret itself, for simulations: it travels with the task.
    nonce : bytes, default=b""
        Public bytes that no other fit has. Without them, a second fit would repeat the noise of
        the first exactly where nothing has changed, and so tell what has.

    Examples
    --------
    >>> noise = PartitionNoise(key=bytes(32), nonce=b"the first fit")
    >>> asked = [noise.protect(np.array([5, 7]), 1 << 20, q) for q in (b"1", b"1", b"2")]
    >>> bool((asked[0] == asked[1]).all()), bool((asked[0] == asked[2]).any())
    (True, False)
    """

    key_file: str | os.PathLike[str] | None = None
    key: bytes | None = None
    nonce: bytes = b""

    def __post_init__(self) -> None:
        if (self.key_file is None) == (self.key is None):
            raise ValueError(
                'trust="none" needs key_file, the name of a file with 32 or more secret random '
                "bytes that workers can read and others cannot (head -c 32 /dev/urandom makes one)."
            )

    def protect(self, total: NDArray[np.int64], scale: int, question: bytes) -> NDArray[np.int64]:
        """Return a sum of whole numbers with its noise."""
        # Each part but the last has its length in front, so that no two askings are the same bytes.
        known = b"".join(len(one).to_bytes(8, "little") + one for one in (self.nonce, question))
        asked = known + total.astype("<i8").tobytes()
        derived = hmac.digest(self._secret(), asked, hashlib.sha256)
        return NoiseSource(key=derived).protect_integers(total, scale)

    def _secret(self) -> bytes:
        """Return the secret key, from the file or as it was given."""
        if self.key is not None:
            return self.key
        assert self.key_file is not None
        try:
            with open(self.key_file, "rb") as file:
                secret = file.read()
        except OSError as error:
            raise ValueError(
                f"a worker cannot read key_file {os.fspath(self.key_file)!r} ({error.strerror}); "
                "put the same file at that place on every worker, or on a folder that they share."
            ) from None
        if len(secret) < _KEY_SIZE:
            raise ValueError(
                f"key_file {os.fspath(self.key_file)!r} has {len(secret)} bytes, at least "
                f"{_KEY_SIZE} are needed: head -c 32 /dev/urandom > FILE."
            )
        return secret


@dataclass(frozen=True, eq=False)
class SummedStatistics:
    """A sum of statistics in steps of the grid, and the number of partitions."""

    total: NDArray[np.int64]
    n_parts: int


def _without_repeats(parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of partitions; refuse one that has answered twice."""
    numbers, counts = np.unique(parts, return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"partition {numbers[counts > 1][0]} has answered more than once in a pass; give each "
            "partition a number of its own (statistic.of_part(k)) and ask for all its rows at once."
        )
    return parts


class _OfPrivateRows(Statistic):
    """Base class of statistics of private rows, which are read cell by cell.

    `unit` is "example", or "person" if the rows of a person count together. `part` is the number
    of the partition. `numbered` says whether each partition must answer exactly once.
    """

    reads_cells: ClassVar[bool] = True
    unit: str
    part: int
    numbered: bool

    def of_part(self, part: int) -> Any:
        """Return the statistic for a partition."""
        own = copy.copy(self)
        own.part = part
        return own

    def _joined(self, a: State, b: State) -> NDArray[np.int64]:
        parts = np.concatenate([a["parts"], b["parts"]])
        return _without_repeats(parts) if self.numbered else parts

    def _persons(self, groups: Any, n_rows: int) -> NDArray[np.int64] | None:
        """Return the person of each row, numbered from 0 in this partition; None for examples."""
        if (groups is None) != (self.unit == "example"):
            raise ValueError(
                'partial_state takes groups, the person of each row, if unit="person", and not '
                f"else; got {'none' if groups is None else 'groups'} with unit={self.unit!r}."
            )
        return None if groups is None else read_persons(groups, n_rows)


class ProtectedSums(_OfPrivateRows):
    """Sums of whole numbers over private records, with the noise of each partition if asked for.

    Without `noise` the states are as secret as the data. No state is empty, since it is secret
    whether a partition holds any record. A subclass has `_sum` and `_question`. `away` holds, by
    the number of a partition, the persons who count elsewhere (`TableForm`).
    """

    scale: int
    noise: PartitionNoise | None
    away: Mapping[int, NDArray[np.int64]]
    n_features: int

    @property
    def numbered(self) -> bool:  # type: ignore[override]
        """Whether each partition must answer exactly once."""
        return self.noise is not None or self.unit == "person"

    def partial_state(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> State:
        """Return the sum over one partition; weights are refused, since they have no bound."""
        if sample_weight is not None:
            raise ValueError("a private fit takes no sample_weight: every record counts as one.")
        rows = read_table(X, n_features=self.n_features)
        persons = self._persons(groups, len(rows))
        order: Any = slice(None)
        if persons is not None:
            # The rows of a person side by side, each person's in their order.
            order = np.argsort(persons, kind="stable")
            order = order[~np.isin(persons[order], self.away.get(self.part, ()))]
            persons = persons[order]
        total = self._sum(rows, y, order, persons)
        if self.noise is not None:
            total = self.noise.protect(total, self.scale, self._question())
        return {"total": total, "parts": np.array([self.part])}

    def combine(self, a: State, b: State) -> State:
        """Add."""
        same_width(len(a["total"]), len(b["total"]))
        return {"total": a["total"] + b["total"], "parts": self._joined(a, b)}

    def finish(self, state: State) -> SummedStatistics:
        """Return the sum."""
        state = self.needs(state)
        return SummedStatistics(state["total"], len(state["parts"]))

    @abstractmethod
    def _sum(
        self, rows: Vector, y: Any, order: Any, persons: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        """Return the exact sum over the rows ``rows[order]``, which are of `persons`."""

    @abstractmethod
    def _question(self) -> bytes:
        """Encode everything but the examples that an answer depends on, without ambiguity."""


class PrivateSums(ProtectedSums):
    """Sums of the statistics of private records.

    Parameters
    ----------
    setting : PublicSetting
        The public settings.
    labels : tuple (negative, positive)
        The public labels; any other counts as negative.
    centre, radius, weights : ndarray, float, Weights
        The centre of the moments, the largest distance of a record from it, and the weights of
        the parts; see `release_moments`.
    step : float
        The width of the grid.
    scale : int
        The standard deviation of the noise, in steps.
    noise : PartitionNoise, optional
        The noise that each partition adds to its own sum.
    unit : {"example", "person"}, default="example"
        What counts as one. A person counts as the mean of the statistics of his or her rows, and
        ``partial_state(X, y, groups=...)`` says whose row each is.
    away : mapping of int to ndarray, optional
        The persons of a partition who count elsewhere, by the number of the partition; see
        `TableForm`.
    part : int, default=0
        The number of the partition; see `of_part`.

    Examples
    --------
    >>> setting = PublicSetting.make(4, lower=[-1.0], upper=[1.0], epsilon=1.0, delta=1e-3)
    >>> statistic = PrivateSums(setting, (0, 1), centre=np.zeros(1), radius=2.0,
    ...     weights=Weights.free(1.0), step=0.5, scale=8)
    >>> X, y = np.array([[0.5], [0.5], [-1.0], [1.0]]), np.array([0, 1, 0, 1])
    >>> states = [statistic.of_part(k).partial_state(X[k::2], y[k::2]) for k in range(2)]
    >>> statistic.finish(statistic.merge_all(states)).total
    array([ 4,  4,  0, 10,  6])
    """

    def __init__(
        self,
        setting: PublicSetting,
        labels: tuple[Any, Any],
        *,
        centre: Vector,
        radius: float,
        weights: Weights,
        step: float,
        scale: int,
        noise: PartitionNoise | None = None,
        unit: str = "example",
        away: Mapping[int, NDArray[np.int64]] | None = None,
        part: int = 0,
    ) -> None:
        self.setting, self.labels = setting, labels
        self.centre, self.radius, self.weights = centre, radius, weights
        self.step, self.scale, self.noise, self.part = step, scale, noise, part
        self.unit, self.away, self.n_features = unit, dict(away or {}), setting.n_features

    def _sum(
        self, rows: Vector, y: Any, order: Any, persons: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        signs = np.where(read_labels(y, self.labels, len(rows)) == 1, 1.0, -1.0)[order]
        V = (self.setting.to_standard(rows[order]) - self.centre) / self.radius
        return summed_on_grid(V, signs, weights=self.weights, step=self.step, persons=persons)

    def _question(self) -> bytes:
        setting, weights = self.setting, self.weights
        numbers = np.concatenate(
            [
                setting.lower, setting.upper, setting.levels, self.centre,
                [self.radius, weights.mean, weights.label, weights.length, weights.second],
                [self.step],
            ]
        )  # fmt: skip
        # Whole numbers are written out: two parts beyond 2^53 must not have one noise.
        whole = setting.n_features, int(self.scale), int(self.part)
        named = repr((*whole, setting.neighbours, tuple(self.labels), self.unit))
        return numbers.astype("<f8").tobytes() + named.encode()


class BinSums(ProtectedSums):
    """Numbers of private records in bins of their features.

    Parameters
    ----------
    bins : Bins
        The question.
    neighbours : str
        The neighbouring relation.
    n_features : int
        The public number of features.
    steps : int
        Steps of the grid in one record.
    scale : int
        The standard deviation of the noise, in steps.
    noise, unit, away, part : optional
        Those of `PrivateSums`.

    Examples
    --------
    >>> bins = Bins(np.array([0]), np.array([0.0]), np.array([16.0]))
    >>> statistic = BinSums(bins, "replace", n_features=1, steps=4, scale=8)
    >>> states = [statistic.of_part(k).partial_state(np.array([[k + 0.5]])) for k in range(2)]
    >>> statistic.finish(statistic.merge_all(states)).total[:3]
    array([4, 4, 0])
    """

    def __init__(
        self,
        bins: Bins,
        neighbours: str,
        *,
        n_features: int,
        steps: int,
        scale: int,
        noise: PartitionNoise | None = None,
        unit: str = "example",
        away: Mapping[int, NDArray[np.int64]] | None = None,
        part: int = 0,
    ) -> None:
        self.bins, self.neighbours, self.steps = bins, neighbours, steps
        self.scale, self.noise, self.part = scale, noise, part
        self.unit, self.away, self.n_features = unit, dict(away or {}), n_features

    def _sum(
        self, rows: Vector, y: Any, order: Any, persons: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        return self.bins.counts(rows[order], self.steps, persons)

    def _question(self) -> bytes:
        asked = self.bins
        numbers = np.concatenate([asked.features, asked.lower, asked.upper])
        whole = self.n_features, int(self.steps), int(self.scale), int(self.part)
        named = repr(("bins", len(asked.features), *whole, self.neighbours, self.unit))
        return numbers.astype("<f8").tobytes() + named.encode()


@dataclass(frozen=True, eq=False)
class FormOfParts:
    """What is known of partitions before a sum is asked for.

    Parameters
    ----------
    n_units : int
        The number of examples or persons, 0 where it is not counted.
    n_features, n_parts : int
        The numbers of features and of partitions.
    away : dict
        For each partition, the persons who count in an earlier one.

    Examples
    --------
    >>> FormOfParts(6, 3, 2).n_parts
    2
    """

    n_units: int
    n_features: int
    n_parts: int
    away: dict[int, NDArray[np.int64]] = field(default_factory=dict)


class TableForm(_OfPrivateRows):
    """The numbers of partitions, of features and, where it is public, of examples or persons.

    Parameters
    ----------
    counted : bool, default=True
        Whether examples or persons are counted.
    n_features : int, optional
        The number of features where it is public; the partitions are then not asked.
    unit : {"example", "person"}, default="example"
        What is counted.
    compared : bool, default=False
        Whether the states hold the ids of persons, for somebody who may see them. A person with
        rows in several partitions then counts once, in the first of them.
    numbered : bool, default=False
        Whether each partition must answer exactly once; with persons it always must.

    Examples
    --------
    >>> form = TableForm()
    >>> found = form.finish(form.merge_all([form.partial_state(np.eye(3)) for _ in range(2)]))
    >>> found.n_units, found.n_features
    (6, 3)
    >>> form = TableForm(unit="person", compared=True)
    >>> states = [form.of_part(k).partial_state(np.eye(2), groups=ids)
    ...           for k, ids in enumerate((["ann", "bob"], ["cid", "ann"]))]
    >>> found = form.finish(form.merge_all(states))
    >>> found.n_units, found.away
    (3, {1: array([1])})
    """

    def __init__(
        self,
        counted: bool = True,
        *,
        n_features: int | None = None,
        unit: str = "example",
        compared: bool = False,
        numbered: bool = False,
    ) -> None:
        self.counted, self.n_features, self.unit, self.part = counted, n_features, unit, 0
        self.compared, self.numbered = compared, numbered or unit == "person"

    def partial_state(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> State:
        """Return the form of one partition."""
        shape: tuple[int, ...] = getattr(X, "shape", ())
        if len(shape) != 2 and (self.n_features is None or self.counted):
            raise TypeError(
                "the rows of a partition must be an array, a sparse matrix or a data frame with "
                "rows and columns."
            )
        state = {
            "d": np.array(shape[1] if self.n_features is None else self.n_features),
            "parts": np.array([self.part]),
            "n": np.array([shape[0] if self.counted else 0]),
        }
        if self.unit == "person" and self.counted:
            persons = self._persons(groups, shape[0])
            assert persons is not None
            first = np.unique(persons, return_index=True)[1]
            state["n"] = np.array([len(first)])
            if self.compared:
                keys = person_keys(groups, shape[0])
                state["ids"] = np.empty(len(first), dtype=object)
                state["ids"][:] = [keys[row] for row in first.tolist()]
        return state

    def combine(self, a: State, b: State) -> State:
        """Put the partitions side by side."""
        same_width(int(a["d"]), int(b["d"]))
        joined = {"d": a["d"], "parts": self._joined(a, b)}
        for name in a.keys() - joined.keys():
            joined[name] = np.concatenate([a[name], b[name]])
        return joined

    def finish(self, state: State) -> FormOfParts:
        """Return what was found."""
        state = self.needs(state)
        n, n_parts, away = int(state["n"].sum()), len(state["parts"]), {}
        if "ids" in state:
            # States arrive in any order; a person counts in the partition of the least number.
            ends = np.cumsum(state["n"])
            seen: set[Any] = set()
            for place in np.argsort(state["parts"]).tolist():
                mine = state["ids"][ends[place] - state["n"][place] : ends[place]].tolist()
                gone = [k for k, person in enumerate(mine) if person in seen]
                if gone:
                    away[int(state["parts"][place])] = np.array(gone)
                seen.update(mine)
            n = len(seen)
        return FormOfParts(n, int(state["d"]), n_parts, away)
