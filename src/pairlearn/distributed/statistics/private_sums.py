# SPDX-License-Identifier: BSD-3-Clause
r"""Sums of private statistics over partitions, and noise that a repeated task repeats.

The statistics of a record are rounded to a grid before they are summed
(`privacy.mechanisms.sufficient_statistics`). So sums are whole numbers, and no bit of them depends
on how the examples are partitioned.

If nobody outside a partition is trusted, the partition draws its own noise. A task may run again,
because its worker died after others had seen its answer. It must not answer with other noise: two
answers would be two releases. So the noise is a function of the question, of the partition and of
its exact sum, under a secret key that the workers share (HMAC-SHA-256, expanded by SHAKE-256). The
same question about the same examples has one answer. Any other question or sum gets other noise,
and without the key nobody can tell it from an independent draw.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import os
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.distributed.statistics.chunk import same_width
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.sufficient_statistics import Weights, summed_on_grid
from pairlearn.privacy.narrowing import Bins
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.records import read_labels, read_table
from pairlearn.typing import Vector

#: The least number of bytes of a key.
_KEY_SIZE = 32


@dataclass(frozen=True)
class PartitionNoise:
    """The noise of one partition: the same question always gets the same noise.

    Parameters
    ----------
    key_file : path-like, optional
        A file of at least 32 secret random bytes. Every worker reads it under the same name, and
        nobody else can.
    key : bytes, optional
        The secret itself, for simulations: it travels with the task.

    Examples
    --------
    >>> noise = PartitionNoise(key=bytes(32))
    >>> asked = [noise.protect(np.array([5, 7]), 1 << 20, q) for q in (b"1", b"1", b"2")]
    >>> bool((asked[0] == asked[1]).all()), bool((asked[0] == asked[2]).any())
    (True, False)
    """

    key_file: str | os.PathLike[str] | None = None
    key: bytes | None = None

    def __post_init__(self) -> None:
        if (self.key_file is None) == (self.key is None):
            raise ValueError(
                'trust="none" needs key_file, the name of a file with 32 or more secret random '
                "bytes that workers can read and others cannot (head -c 32 /dev/urandom makes one)."
            )

    def protect(self, total: NDArray[np.int64], scale: int, question: bytes) -> NDArray[np.int64]:
        """Return a sum of whole numbers with its noise."""
        asked = question + b"\0" + total.astype("<i8").tobytes()
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


class ProtectedSums(Statistic):
    """Sums of whole numbers over private records, with the noise of each partition if asked for.

    Without `noise` the states are as secret as the data. No state is empty, since it is secret
    whether a partition holds any record. A subclass has `_sum` and `_question`.
    """

    scale: int
    noise: PartitionNoise | None
    part: int

    def of_part(self, part: int) -> Self:
        """Return the statistic for a partition."""
        own = copy.copy(self)
        own.part = part
        return own

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the sum over one chunk; weights are refused, since they have no bound."""
        if sample_weight is not None:
            raise ValueError("a private fit takes no sample_weight: every record counts as one.")
        total = self._sum(X, y)
        if self.noise is not None:
            total = self.noise.protect(total, self.scale, self._question())
        return {"total": total, "n_parts": np.array(1)}

    def combine(self, a: State, b: State) -> State:
        """Add."""
        same_width(len(a["total"]), len(b["total"]))
        return {name: a[name] + b[name] for name in ("total", "n_parts")}

    def finish(self, state: State) -> SummedStatistics:
        """Return the sum."""
        state = self.needs(state)
        return SummedStatistics(state["total"], int(state["n_parts"]))

    @abstractmethod
    def _sum(self, X: Any, y: Any) -> NDArray[np.int64]:
        """Return the exact sum over one chunk."""

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
        part: int = 0,
    ) -> None:
        self.setting, self.labels = setting, labels
        self.centre, self.radius, self.weights = centre, radius, weights
        self.step, self.scale, self.noise, self.part = step, scale, noise, part

    def _sum(self, X: Any, y: Any) -> NDArray[np.int64]:
        rows = read_table(X, n_features=self.setting.n_features)
        signs = np.where(read_labels(y, self.labels, len(rows)) == 1, 1.0, -1.0)
        V = (self.setting.to_standard(rows) - self.centre) / self.radius
        return summed_on_grid(V, signs, weights=self.weights, step=self.step)

    def _question(self) -> bytes:
        setting, weights = self.setting, self.weights
        numbers = np.concatenate(
            [
                setting.lower, setting.upper, setting.levels, self.centre,
                [self.radius, weights.mean, weights.label, weights.length, weights.second],
                [self.step, self.scale, self.part],
            ]
        )  # fmt: skip
        named = repr((setting.n_features, setting.neighbours, tuple(self.labels)))
        return numbers.astype("<f8").tobytes() + named.encode()


class BinSums(ProtectedSums):
    """Numbers of private records in bins of their features.

    Parameters
    ----------
    bins : Bins
        The question.
    neighbours : str
        The neighbouring relation.
    steps : int
        Steps of the grid in one record.
    scale : int
        The standard deviation of the noise, in steps.
    noise : PartitionNoise, optional
        The noise that each partition adds to its own sum.
    part : int, default=0
        The number of the partition; see `of_part`.

    Examples
    --------
    >>> bins = Bins(np.array([0]), np.array([0.0]), np.array([32.0]))
    >>> statistic = BinSums(bins, "replace", steps=4, scale=8)
    >>> states = [statistic.of_part(k).partial_state(np.array([[k + 0.5]])) for k in range(2)]
    >>> statistic.finish(statistic.merge_all(states)).total[:3]
    array([4, 4, 0])
    """

    def __init__(
        self,
        bins: Bins,
        neighbours: str,
        *,
        steps: int,
        scale: int,
        noise: PartitionNoise | None = None,
        part: int = 0,
    ) -> None:
        self.bins, self.neighbours, self.steps = bins, neighbours, steps
        self.scale, self.noise, self.part = scale, noise, part

    def _sum(self, X: Any, y: Any) -> NDArray[np.int64]:
        return self.bins.counts(read_table(X), self.steps)

    def _question(self) -> bytes:
        asked = self.bins
        others = [self.steps, self.scale, self.part]
        numbers = np.concatenate([asked.features, asked.lower, asked.upper, others])
        named = repr(("bins", len(asked.features), self.neighbours))
        return numbers.astype("<f8").tobytes() + named.encode()


class TableForm(Statistic):
    """The numbers of features and, where it is public, of rows.

    Parameters
    ----------
    counted : bool, default=True
        Whether rows are counted.

    Examples
    --------
    >>> form = TableForm()
    >>> form.finish(form.merge(form.partial_state(np.eye(3)), form.partial_state(np.eye(3))))
    (6, 3)
    """

    def __init__(self, counted: bool = True) -> None:
        self.counted = counted

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the form of one chunk."""
        return {"n": np.array(X.shape[0] if self.counted else 0), "d": np.array(X.shape[1])}

    def combine(self, a: State, b: State) -> State:
        """Add the rows."""
        same_width(int(a["d"]), int(b["d"]))
        return {"n": a["n"] + b["n"], "d": a["d"]}

    def finish(self, state: State) -> tuple[int, int]:
        """Return the numbers of rows and of features."""
        state = self.needs(state)
        return int(state["n"]), int(state["d"])
