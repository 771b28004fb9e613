# SPDX-License-Identifier: BSD-3-Clause
r"""Moments of each class: the square loss exactly, and the scatter of similar and dissimilar pairs.

Let n_c, m_c and S_c be the weight, the mean and the scatter of class c. Summed over ordered pairs
of equal labels, (x - x')(x - x')' is 2 sum_c n_c S_c. Over all pairs it is 2 n S, with n and S of
all examples together. The difference of both is the sum over pairs of different labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.distributed.statistics.chunk import Chunk, as_chunk, same_width
from pairlearn.estimators.shared.examples import two_classes
from pairlearn.solvers.closed_form.moments import ClassMoments
from pairlearn.typing import Vector

#: The limit on the numbers of a state, since states travel between machines.
_MOST_NUMBERS = 2e8
#: The approximate number of values that are multiplied at once.
_NUMBERS = 131_072


@dataclass(frozen=True, eq=False)
class PairScatters:
    """Means over pairs of (x - x')(x - x')': of equal labels, and of different ones."""

    similar: Vector
    dissimilar: Vector

    def scaled(self, weights: Vector) -> PairScatters:
        """Return the scatters of columns that are multiplied by these weights."""
        outer = np.outer(weights, weights)
        return PairScatters(self.similar * outer, self.dissimilar * outer)


@dataclass(frozen=True, eq=False)
class LabelledMoments:
    """Weights, means and scatter matrices of the classes."""

    #: Labels, sorted.
    classes: NDArray[Any]
    #: Sums of weights.
    counts: Vector
    #: Sums of squared weights.
    squares: Vector
    #: Numbers of examples.
    n_examples: NDArray[np.int64]
    means: Vector
    scatters: Vector

    def two_classes(self) -> ClassMoments:
        """Return the moments of the two classes, the larger label being positive."""
        two_classes(self.classes)
        order = [1, 0]
        return ClassMoments.from_state(
            {
                "counts": self.counts[order],
                "means": self.means[order],
                "scatters": self.scatters[order],
            }
        )

    def pair_scatters(self) -> PairScatters:
        """Return the mean scatters of pairs; a pair weighs the product of both examples."""
        n = self.counts
        total = float(n.sum())
        mean = n @ self.means / total
        gaps = self.means - mean
        everything = self.scatters.sum(axis=0) + (gaps * n[:, None]).T @ gaps
        similar = np.tensordot(n, self.scatters, axes=1)
        n_similar = float((n**2 - self.squares).sum())
        n_dissimilar = total**2 - float((n**2).sum())
        if not n_similar > 0 or len(n) < 2:
            raise ValueError(
                f"Metric learning needs two labels and two examples of one of them, got "
                f"{len(n)} labels."
            )
        return PairScatters(
            2.0 * similar / n_similar, 2.0 * (total * everything - similar) / n_dissimilar
        )


class LabelMoments(Statistic):
    """Moments of each class that occurs, whatever its label.

    Parameters
    ----------
    max_classes : int, default=2
        The limit on the number of labels.

    Examples
    --------
    >>> statistic = LabelMoments()
    >>> X, y = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array(["no", "no", "yes", "yes"])
    >>> state = statistic.merge(
    ...     statistic.partial_state(X[:3], y[:3]), statistic.partial_state(X[3:], y[3:])
    ... )
    >>> moments = statistic.finish(state)
    >>> moments.classes, moments.two_classes().solve().round(4)
    (array(['no', 'yes'], dtype='<U3'), array([0.2609]))
    """

    def __init__(self, max_classes: int = 2) -> None:
        self.max_classes = max_classes

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the moments of one chunk; `y` holds its labels."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        if chunk.labels is None:
            raise ValueError("Moments of classes need labels; pass y.")
        classes, code = np.unique(chunk.labels, return_inverse=True)
        self._check_classes(classes)
        d = chunk.shape[1]
        if len(classes) * d * d > _MOST_NUMBERS:
            raise ValueError(
                f"Moments of {len(classes)} classes with {d} features have "
                f"{len(classes) * d * d:.3g} numbers, more than machines should exchange; choose "
                "fewer features."
            )
        k = len(classes)
        state: State = {
            "classes": classes,
            "counts": np.zeros(k),
            "squares": np.bincount(code, chunk.weight**2, minlength=k),
            "n_examples": np.bincount(code, minlength=k),
            "means": np.zeros((k, d)),
            "scatters": np.zeros((k, d, d)),
        }
        # Two classes at a time, since that costs one product.
        for first in range(0, k, 2):
            index = np.flatnonzero(code >> 1 == first >> 1)
            some = chunk if len(index) == len(code) else chunk.part(index)
            two = _two_moments(some, np.where(code[index] == first, -1.0, 1.0))
            for kind, place in ((1, first), (0, first + 1)):
                if place < k:
                    state["counts"][place] = two.counts[kind]
                    state["means"][place] = two.means[kind]
                    state["scatters"][place] = two.scatters[kind]
        return state

    def combine(self, a: State, b: State) -> State:
        """Merge class by class."""
        same_width(a["means"].shape[1], b["means"].shape[1])
        classes = np.unique(np.concatenate(comparable(a["classes"], b["classes"])))
        self._check_classes(classes)
        k, d = len(classes), a["means"].shape[1]
        place_a, place_b = (np.searchsorted(classes, s["classes"]) for s in (a, b))
        merged: State = {"classes": classes}
        for name in ("counts", "squares", "n_examples"):
            total = np.zeros(k, dtype=a[name].dtype)
            total[place_a] += a[name]
            total[place_b] += b[name]
            merged[name] = total
        means, scatters = np.zeros((k, d)), np.zeros((k, d, d))
        means[place_a], scatters[place_a] = a["means"], a["scatters"]
        for j, place in enumerate(place_b):
            total, share = merged["counts"][place], b["counts"][j]
            gap = b["means"][j] - means[place]
            scatters[place] += b["scatters"][j]
            scatters[place] += ((total - share) * share / total) * np.outer(gap, gap)
            means[place] += (share / total) * gap
        merged["means"], merged["scatters"] = means, scatters
        return merged

    def finish(self, state: State) -> LabelledMoments:
        """Return the moments."""
        return LabelledMoments(**self.needs(state))

    def _check_classes(self, classes: NDArray[Any]) -> None:
        if len(classes) > self.max_classes:
            shown = ", ".join(map(repr, classes[:5].tolist()))
            raise ValueError(
                f"y has {len(classes)} classes ({shown}, ...), at most {self.max_classes} are "
                "expected; check the column of labels."
            )


def _two_moments(chunk: Chunk, signs: Vector) -> ClassMoments:
    """Return the moments of two classes, block by block, since products copy their rows."""
    moments = ClassMoments(chunk.shape[1])
    own = None if (chunk.weight == 1.0).all() else chunk.weight
    # With at least 4 d rows in a block, the table of products is small beside the block.
    d = chunk.shape[1]
    for now, block in chunk.blocks(max(_NUMBERS // d, 4 * d)):
        moments.add(block, signs[now], example_weight=None if own is None else own[now])
    return moments


def comparable(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the labels of two partitions; refuse texts in one and numbers in the other."""
    kinds = {"S" if labels.dtype.kind in "USOT" else "n" for labels in (a, b)}
    if len(kinds) > 1:
        raise ValueError(
            f"Labels are texts in one partition and numbers in another ({a[:1]}, {b[:1]}); give "
            "the column of labels one type."
        )
    return a, b
