# SPDX-License-Identifier: BSD-3-Clause
"""Losses for the area under the ROC curve: pairs of a positive and a negative example."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pairlearn.torch.margins import Both, MarginLoss, as_margin_loss, losses_of, pair_total
from pairlearn.torch.pairwise import PairwiseLoss, Totals, as_positive, check_batch, check_weights
from pairlearn.validation import check_number


class AUCLoss(PairwiseLoss):
    r"""Mean loss of the margins s - s' over pairs of a positive and a negative example.

    It bounds one minus the AUC. Over all pairs of a batch of B examples, hinge, squared hinge and
    square take O(B log B) by a sort and running sums; other losses take all pairs one by one.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge", "logistic", "square"} or callable
        (margin - m)_+^2, (margin - m)_+, log(1 + exp(-m)), (margin - m)^2, or a function of a
        tensor of margins that returns the loss of each.
    pairing : {"batch", "previous"}, default="batch"
        Who meets whom, see `PairwiseLoss`. With "previous" the mean is over all consecutive
        pairs; pairs of equal labels cost nothing: the paper's f(w; z, z').
    margin : float, optional
        The margin that is wanted, 1 by default.

    Examples
    --------
    >>> loss = AUCLoss("hinge")
    >>> scores = torch.tensor([2.0, 0.5, 1.0], requires_grad=True)
    >>> value = loss(scores, torch.tensor([1, 1, 0]))
    >>> value.backward()
    >>> value.item(), scores.grad.tolist()
    (0.75, [0.0, -0.5, 0.5])
    """

    def __init__(
        self,
        loss: str | MarginLoss = "squared_hinge",
        *,
        pairing: str = "batch",
        margin: float | None = None,
    ) -> None:
        function, wanted = as_margin_loss(loss, margin)
        super().__init__(pairing=pairing)
        # After the base class, and once: a loss that is a module becomes a part of this one.
        self._name = loss if isinstance(loss, str) else None
        self._margin, self._function = wanted, function

    def forward(
        self, scores: Tensor, labels: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        scores : Tensor of shape (n,) or (n, 1)
            Scores; half precision is taken to single precision first.
        labels : Tensor of shape (n,) or (n, 1)
            0 and 1, -1 and 1, or bool; others are refused.
        sample_weight : Tensor of shape (n,), optional
            A pair weighs the product of the weights of its examples, see `PairwiseLoss`.

        Returns
        -------
        Tensor
            The mean over the pairs that count; zero, with a gradient of zero, if there is none.
        """
        scores, labels = check_batch("scores", scores, labels)
        weights = check_weights(scores, sample_weight)
        return self.mean_over_pairs(scores, as_positive(labels), weights)

    def within(self, values: Tensor, labels: Tensor, weights: Tensor | None = None) -> Totals:
        """Return the sum over opposite pairs of a batch."""
        pair = None if weights is None else (weights[labels], weights[~labels])
        return [self._opposite(values[labels], values[~labels], pair)]

    def consecutive(self, values: Tensor, labels: Tensor, weights: Tensor | None = None) -> Totals:
        """Return the sum over consecutive pairs, where those of equal labels cost nothing."""
        now, before = values[1:], values[:-1]
        opposite = labels[1:] != labels[:-1]
        sign = torch.where(labels[1:], 1.0, -1.0).to(values.dtype)
        margins = (sign * (now - before))[opposite]
        losses = losses_of(self._function, margins)
        # Without an opposite pair there is nothing to learn from: then it counts as no pair.
        if not len(margins):
            return [(losses.sum(), 0)]
        if weights is None:
            return [(losses.sum(), len(now))]
        pair = weights[1:] * weights[:-1]
        return [((pair[opposite] * losses).sum(), self.divisor(pair.sum(), len(now)))]

    def between(self, high: Tensor, low: Tensor, weights: Both = None) -> Tensor:
        """Return the mean over all pairs of these positives and these negatives."""
        total, count = self._opposite(high, low, weights)
        return total / count

    def _opposite(self, high: Tensor, low: Tensor, weights: Both = None) -> tuple[Tensor, float]:
        count = len(high) * len(low)
        if not count:
            return (high.sum() + low.sum()) * 0.0, 0
        total = pair_total(self._name, self._function, self._margin, high, low, weights)
        if weights is None:
            return total, count
        return total, self.divisor(weights[0].sum() * weights[1].sum(), count)

    def why_no_pairs(self) -> str:
        """Return why a batch can be without a pair that counts, and what helps."""
        return (
            "the batch holds one class only; take balanced batches (BalancedSampler), or larger "
            "ones."
        )

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f"loss={self._name or self._function!r}, {super().extra_repr()}"


class PartialAUCLoss(AUCLoss):
    """Mean loss over the pairs of the lowest positives and the highest negatives of a batch.

    These are the pairs that the partial AUC counts: false positive rates up to `max_fpr`, true
    positive rates from `min_tpr`. At least one example of each class counts.

    Parameters
    ----------
    max_fpr : float
        The share of the negatives that counts, the highest ones; in (0, 1].
    min_tpr : float, default=0.0
        One minus the share of the positives that counts, the lowest ones; in [0, 1).
    loss : str or callable, default="squared_hinge"
        As in `AUCLoss`.
    margin : float, optional
        As in `AUCLoss`.

    Examples
    --------
    >>> loss = PartialAUCLoss(0.5, loss="hinge")
    >>> loss(torch.tensor([2.0, 1.5, -9.0]), torch.tensor([1, 0, 0])).item()
    0.5
    """

    def __init__(
        self,
        max_fpr: float,
        *,
        min_tpr: float = 0.0,
        loss: str | MarginLoss = "squared_hinge",
        margin: float | None = None,
    ) -> None:
        if not 0.0 < check_number("max_fpr", max_fpr) <= 1.0:
            raise ValueError(f"max_fpr must lie in (0, 1], got {max_fpr!r}.")
        if not 0.0 <= check_number("min_tpr", min_tpr) < 1.0:
            raise ValueError(f"min_tpr must lie in [0, 1), got {min_tpr!r}.")
        super().__init__(loss, margin=margin)
        self.max_fpr, self.min_tpr = float(max_fpr), float(min_tpr)

    def forward(
        self, scores: Tensor, labels: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch, as `AUCLoss` does; weights are refused."""
        if sample_weight is not None:
            raise ValueError(
                "PartialAUCLoss counts shares of examples, which weights would cut in the middle "
                "of one; repeat the examples, or use AUCLoss, which takes sample_weight."
            )
        return super().forward(scores, labels)

    def within(self, values: Tensor, labels: Tensor, weights: Tensor | None = None) -> Totals:
        """Return the sum over the pairs that count."""
        return [self._opposite(*self._that_count(values[labels], values[~labels]))]

    def _that_count(self, high: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
        def number(share: float, n: int) -> int:
            return min(n, max(1, math.ceil(share * n - 1e-9)))

        lowest = torch.topk(high, number(1.0 - self.min_tpr, len(high)), largest=False).values
        highest = torch.topk(low, number(self.max_fpr, len(low))).values
        return lowest, highest

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f"max_fpr={self.max_fpr}, min_tpr={self.min_tpr}, {super().extra_repr()}"
