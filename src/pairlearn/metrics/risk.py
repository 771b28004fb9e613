# SPDX-License-Identifier: BSD-3-Clause
r"""The exact empirical pair risk F_S of given scores, and its gradient.

F_S = 1/(n (n - 1)) sum over ordered pairs i != j of f(s_i - s_j; y_i, y_j). Here f counts a pair of
different labels in both orders or, for a loss with ``one_sided=True``, only from the larger label.
A pair of equal labels counts nothing unless the loss says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.losses import LOSSES, PairLoss
from pairlearn.metrics._inputs import check_scores
from pairlearn.typing import Vector
from pairlearn.validation import check_labels, check_weights

#: Pairs in a block; they fit into the second-level cache.
_BLOCK = 1 << 15


def pair_risk(
    loss: str | PairLoss, scores: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    r"""Return the exact pair risk F_S of scores.

    F_S = 1/(n (n - 1)) sum over i != j of f(s_i - s_j; y_i, y_j).

    Parameters
    ----------
    loss : str or PairLoss
        The pair loss, or the name of one.
    scores : array-like of shape (n,)
        Finite scores, for a linear model X @ w.
    y : array-like of shape (n,)
        Labels; in a pair, the example with the larger label should have the larger score.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights. F_S is then the mean of f over ordered pairs i != j with the pair
        weights w_i w_j.

    Returns
    -------
    float
        The risk; 0 if all labels are equal, since then no pair costs anything (for losses of
        unequal labels).

    Notes
    -----
    With two distinct labels: O(n log n) for the hinge, squared and smoothed hinge, O(n) for the
    square and exponential losses, all pairs in blocks (O(n^2) time, O(n) memory) for any other.
    With more distinct labels: all pairs in blocks.

    Examples
    --------
    >>> round(pair_risk("hinge", [0.0, 0.5, 2.0], [-1, 1, 1]), 6)
    0.166667
    """
    sample = _Sample(loss, scores, y, sample_weight)
    if sample.idle:
        return 0.0
    with np.errstate(over="ignore"):
        if sample.by_class:
            p, q, a, b = sample.classes()
            return sample.scale * sample.orders * float(a @ sample.class_sums(p, q, b, 0))
        weight = sample.weight
        blocks = sample.blocks(slopes=False)
        return sample.scale * sum(float(weight[part] @ (f @ weight)) for part, f in blocks)


def pair_risk_gradient(
    loss: str | PairLoss, scores: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> Vector:
    r"""Return the derivative of the pair risk F_S with respect to each score.

    For a linear model with scores X @ w the gradient in w is X.T @ (this vector). At a kink it is
    the derivative that the loss itself states, a subgradient for the hinge.

    Parameters
    ----------
    loss : str or PairLoss
        The pair loss, or the name of one.
    scores, y : array-like of shape (n,)
        As in `pair_risk`.
    sample_weight : array-like of shape (n,), optional
        As in `pair_risk`.

    Returns
    -------
    ndarray of shape (n,)
        The derivatives dF_S / ds_i. They add up to 0: a shift of all scores keeps the risk.

    Notes
    -----
    The costs are those of `pair_risk`.

    Examples
    --------
    >>> pair_risk_gradient("hinge", [0.0, 0.5, 2.0], [-1, 1, 1])
    array([ 0.33333333, -0.33333333,  0.        ])
    """
    sample = _Sample(loss, scores, y, sample_weight)
    gradient = np.zeros(len(sample.kept))
    if sample.idle:
        return gradient
    weight, inner = sample.weight, np.zeros(len(sample.weight))
    with np.errstate(over="ignore"):
        if sample.by_class:
            p, q, a, b = sample.classes()
            inner[sample.upper] = sample.orders * a * sample.class_sums(p, q, b, 1)
            # l(p - q) = l((-q) - (-p)): seen from the lower class, the classes swap
            inner[~sample.upper] = -sample.orders * b * sample.class_sums(-q, -p, a, 1)
        else:
            for part, slopes in sample.blocks(slopes=True):
                # the score of a pair is s_i - s_j
                inner[part] += weight[part] * (slopes @ weight)
                inner -= weight * (weight[part] @ slopes)
        gradient[sample.kept] += sample.scale * inner
    return gradient


class _Sample:
    """Checked arguments: examples of positive weight, weights that add up to 1."""

    def __init__(
        self, loss: str | PairLoss, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> None:
        self.loss = loss = LOSSES.make(loss)
        values = check_scores("scores", scores)
        n = len(values)
        if n < 2:
            raise ValueError(f"scores must hold at least two examples to make a pair, got {n}.")
        labels = check_labels(y, n)
        given = np.ones(n) if sample_weight is None else sample_weight
        weight = check_weights(given, n, name="sample_weight")
        #: A mask of the kept examples among the given ones.
        self.kept = weight > 0.0
        if np.count_nonzero(self.kept) < 2:
            raise ValueError(
                "sample_weight must be positive for at least two examples; there is no pair "
                "otherwise."
            )
        self.scores, self.y, weight = values[self.kept], labels[self.kept], weight[self.kept]
        weight = weight / weight.max()
        self.weight = weight = weight / weight.sum()
        # 1 - w would cancel for an example with nearly all the weight
        others = 1.0 - weight
        heaviest = int(np.argmax(weight))
        others[heaviest] = np.delete(weight, heaviest).sum()
        #: The reciprocal of the sum of w_i w_j over i != j.
        self.scale = 1.0 / float(weight @ others)
        #: A mask of the largest label.
        self.upper = self.y == self.y.max()
        lower = self.y[~self.upper]
        #: The number of orders in which a pair counts.
        self.orders = 1.0 if loss.one_sided else 2.0
        #: Whether one class can be summed for each example of the other: two labels, a known form.
        margins = loss.opposite_labels_only and loss.has_array_form
        self.by_class = margins and bool((lower == lower.min(initial=np.inf)).all())
        #: Whether no pair costs anything because all labels are equal.
        self.idle = loss.opposite_labels_only and not len(lower)

    def classes(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Return the scores of the upper and the lower class, and their weights."""
        upper, s, w = self.upper, self.scores, self.weight
        return s[upper], s[~upper], w[upper], w[~upper]

    def class_sums(self, p: Vector, q: Vector, b: Vector, order: int) -> Vector:
        """Return the sum over j of b_j l(p_i - q_j) for every i, or of l' for the order 1."""
        if self.loss.by_sorting:
            return self.loss.sums(p, q, b)[order]
        return blocked_sums((self.loss.values, self.loss.slopes)[order], p, q, b)

    def blocks(self, *, slopes: bool) -> Iterator[tuple[slice, Vector]]:
        """Yield values or slopes of all pairs of some rows, 0 for pairs that do not count."""
        loss, scores, y, n = self.loss, self.scores, self.y, len(self.y)
        height = max(1, _BLOCK // n)
        for start in range(0, n, height):
            block = slice(start, min(start + height, n))
            differences, first = scores[block, None] - scores, y[block, None]
            larger = first > y
            if loss.opposite_labels_only and loss.has_array_form:
                # Both orders of a pair give the same: visit it once, from the larger label. Other
                # pairs get margin 0, which never overflows, and are masked afterwards.
                form = loss.slopes if slopes else loss.values
                yield block, form(np.where(larger, differences, 0.0)) * (self.orders * larger)
                continue
            meets = larger
            if not loss.one_sided:
                meets = first != y
                if not loss.opposite_labels_only:
                    meets = np.arange(block.start, block.stop)[:, None] != np.arange(n)
            function = loss.derivative if slopes else loss.value
            left, right = np.nonzero(meets)
            result = np.zeros(differences.shape)
            result[left, right] = function.many(
                differences[left, right], y[start + left], y[right], loss.parameter
            )
            yield block, result


def blocked_sums(function: Callable[[Vector], Vector], p: Vector, q: Vector, b: Vector) -> Vector:
    """Return sum_j b_j function(p_i - q_j) for every i, some rows of all pairs at a time."""
    sums = np.empty(len(p))
    height = max(1, _BLOCK // max(len(q), 1))
    for start in range(0, len(p), height):
        block = slice(start, start + height)
        sums[block] = function(p[block, None] - q) @ b
    return sums
