# SPDX-License-Identifier: BSD-3-Clause
r"""The exact empirical pair risk F_S of given scores, and its gradient.

F_S = 1/(n (n - 1)) sum over ordered pairs i != j of f(s_i - s_j; y_i, y_j). Here f counts a pair of
different labels in both orders or, for a loss with ``one_sided=True``, only from the larger label.
A pair of equal labels counts nothing unless the loss says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.losses import LOSSES, PairLoss
from pairlearn.metrics._inputs import check_scores
from pairlearn.typing import Mask, Vector
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
    sample = _prepared(loss, scores, y, sample_weight)
    if sample.idle:
        return 0.0
    with np.errstate(over="ignore"):
        if not sample.by_class:
            return sample.scale * _all_pairs_risk(sample.loss, *sample.data)
        p, q, a, b = sample.classes()
        totals = sample.class_sums(p, q, b, slopes=False)
        return sample.scale * sample.orders * float(a @ totals)


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
    sample = _prepared(loss, scores, y, sample_weight)
    gradient = np.zeros(len(sample.kept))
    if sample.idle:
        return gradient
    with np.errstate(over="ignore"):
        if not sample.by_class:
            gradient[sample.kept] += sample.scale * _all_pairs_gradient(sample.loss, *sample.data)
            return gradient
        p, q, a, b = sample.classes()
        inner = np.empty(len(sample.upper))
        inner[sample.upper] = a * sample.class_sums(p, q, b, slopes=True)
        # l(p - q) = l((-q) - (-p)): seen from the lower class, the classes swap
        inner[~sample.upper] = -b * sample.class_sums(-q, -p, a, slopes=True)
        gradient[sample.kept] += sample.scale * sample.orders * inner
    return gradient


@dataclass(frozen=True)
class _Sample:
    """Checked arguments: examples of positive weight, weights that add up to 1."""

    loss: PairLoss
    #: Scores, labels and weights.
    data: tuple[Vector, Vector, Vector]
    #: A mask of the kept examples among the given ones.
    kept: Mask
    #: A mask of the largest label among the kept examples.
    upper: Mask
    #: The reciprocal of the sum of w_i w_j over i != j.
    scale: float
    #: Whether one class can be summed for each example of the other: two labels, a known form.
    by_class: bool

    @property
    def orders(self) -> float:
        """The number of orders in which a pair counts."""
        return 1.0 if self.loss.one_sided else 2.0

    @property
    def idle(self) -> bool:
        """Whether no pair costs anything because all labels are equal."""
        return self.loss.opposite_labels_only and bool(self.upper.all())

    def classes(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Return the scores of the upper and the lower class, and their weights."""
        scores, _, weight = self.data
        return scores[self.upper], scores[~self.upper], weight[self.upper], weight[~self.upper]

    def class_sums(self, p: Vector, q: Vector, b: Vector, *, slopes: bool) -> Vector:
        """Return the sum over j of b_j l(p_i - q_j), or of b_j l'(p_i - q_j), for every i."""
        if self.loss.by_sorting:
            return self.loss.sums(p, q, b)[int(slopes)]
        return _blocked_sums(self.loss.slopes if slopes else self.loss.values, p, q, b)


def _prepared(
    loss: str | PairLoss, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
) -> _Sample:
    """Check the arguments; drop examples of weight zero and normalise the weights."""
    loss = LOSSES.make(loss)
    values = check_scores("scores", scores)
    n = len(values)
    if n < 2:
        raise ValueError(f"scores must hold at least two examples to make a pair, got {n}.")
    labels = check_labels(y, n)
    given = np.ones(n) if sample_weight is None else sample_weight
    weight = check_weights(given, n, name="sample_weight")
    kept = weight > 0.0
    if np.count_nonzero(kept) < 2:
        raise ValueError(
            "sample_weight must be positive for at least two examples; there is no pair otherwise."
        )
    values, labels, weight = values[kept], labels[kept], weight[kept]
    weight = weight / weight.max()
    weight = weight / weight.sum()
    # 1 - w would cancel for an example with nearly all the weight
    others = 1.0 - weight
    heaviest = int(np.argmax(weight))
    others[heaviest] = np.delete(weight, heaviest).sum()
    upper = labels == labels.max()
    two_classes = bool((labels[~upper] == labels.min()).all())
    by_class = two_classes and loss.opposite_labels_only and loss.has_array_form
    return _Sample(
        loss=loss,
        data=(values, labels, weight),
        kept=kept,
        upper=upper,
        scale=1.0 / float(weight @ others),
        by_class=by_class,
    )


# Sums over all pairs, one block of rows at a time, for losses that sorting does not help. The array
# form of a loss of the margin evaluates a block, or the scalar functions of another loss.


def _blocked_sums(function: Callable[[Vector], Vector], p: Vector, q: Vector, b: Vector) -> Vector:
    """Return sum_j b_j function(p_i - q_j) for every i."""
    sums = np.empty(len(p))
    height = max(1, _BLOCK // len(q))
    for start in range(0, len(p), height):
        block = slice(start, start + height)
        sums[block] = function(p[block, None] - q) @ b
    return sums


def _all_pairs_risk(loss: PairLoss, scores: Vector, y: Vector, weight: Vector) -> float:
    """Return the sum of w_i w_j f over ordered pairs i != j."""
    blocks = _blocks(loss, scores, y, slopes=False)
    return sum(float(weight[block] @ (values @ weight)) for block, values in blocks)


def _all_pairs_gradient(loss: PairLoss, scores: Vector, y: Vector, weight: Vector) -> Vector:
    """Return the derivative of `_all_pairs_risk` with respect to the scores."""
    gradient = np.zeros(len(y))
    for block, slopes in _blocks(loss, scores, y, slopes=True):
        # the score of a pair is s_i - s_j
        gradient[block] += weight[block] * (slopes @ weight)
        gradient -= weight * (weight[block] @ slopes)
    return gradient


def _blocks(
    loss: PairLoss, scores: Vector, y: Vector, *, slopes: bool
) -> Iterator[tuple[slice, Vector]]:
    """Yield the values or slopes of all pairs of a block of rows, 0 for pairs that do not count."""
    n = len(y)
    height = max(1, _BLOCK // n)
    for start in range(0, n, height):
        block = slice(start, min(start + height, n))
        differences, first = scores[block, None] - scores, y[block, None]
        larger = first > y
        if loss.opposite_labels_only and loss.has_array_form:
            # Both orders of a pair give the same: visit it once, from the larger label. Other pairs
            # get margin 0, which never overflows, and are masked afterwards.
            form = loss.slopes if slopes else loss.values
            counted = np.where(larger, 1.0 if loss.one_sided else 2.0, 0.0)
            yield block, form(np.where(larger, differences, 0.0)) * counted
            continue
        if loss.one_sided:
            meets = larger
        elif loss.opposite_labels_only:
            meets = first != y
        else:
            meets = np.arange(block.start, block.stop)[:, None] != np.arange(n)
        function = loss.derivative if slopes else loss.value
        left, right = np.nonzero(meets)
        result = np.zeros(differences.shape)
        result[left, right] = function.many(
            differences[left, right], y[start + left], y[right], loss.parameter
        )
        yield block, result
