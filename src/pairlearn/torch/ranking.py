# SPDX-License-Identifier: BSD-3-Clause
"""The loss of rankings: pairs of documents of one query with different grades."""

from __future__ import annotations

import torch
from torch import Tensor

from pairlearn.torch.margins import MarginLoss, as_margin_loss, losses_of
from pairlearn.torch.pairwise import PairwiseLoss, Totals, check_batch, check_weights


class RankingLoss(PairwiseLoss):
    """Mean loss of the margins s - s' over pairs of one query whose grades are y > y'.

    Parameters
    ----------
    loss : {"logistic", "hinge", "squared_hinge", "square"} or callable
        The loss of a margin, as in `AUCLoss`.
    pairing : {"batch", "previous"}, default="batch"
        All pairs of the batch, or each document with the one before it.
    margin : float, optional
        The margin that is wanted, 1 by default.

    Examples
    --------
    >>> loss = RankingLoss("hinge")
    >>> scores, grades = torch.tensor([1.0, 0.5, 0.0]), torch.tensor([2, 0, 1])
    >>> loss(scores, grades, torch.tensor([7, 7, 8])).item()
    0.5
    """

    def __init__(
        self,
        loss: str | MarginLoss = "logistic",
        *,
        pairing: str = "batch",
        margin: float | None = None,
    ) -> None:
        function, _ = as_margin_loss(loss, margin)
        super().__init__(pairing=pairing)
        self._name = loss if isinstance(loss, str) else None
        self._function = function

    def forward(
        self,
        scores: Tensor,
        grades: Tensor,
        qid: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        scores : Tensor of shape (n,) or (n, 1)
            Scores.
        grades : Tensor of shape (n,) or (n, 1)
            Grades, or any real target.
        qid : Tensor of int of shape (n,), optional
            The query of each document; one query by default.
        sample_weight : Tensor of shape (n,), optional
            A pair weighs the product of the weights of its documents, see `PairwiseLoss`.

        Returns
        -------
        Tensor
            The mean over the pairs that count; zero, with a gradient of zero, if there is none.
        """
        scores, grades = check_batch("scores", scores, grades)
        if qid is None:
            qid = torch.zeros(len(scores), dtype=torch.int64, device=scores.device)
        _, qid = check_batch("scores", scores, qid)
        # A query, by number, and a grade for each document, side by side.
        query = torch.unique(qid, return_inverse=True)[1]
        labels = torch.stack([query.double(), grades.double()])
        return self.mean_over_pairs(scores, labels, check_weights(scores, sample_weight))

    def within(self, values: Tensor, labels: Tensor, weights: Tensor | None = None) -> Totals:
        """Return the sum over the pairs of one query with different grades."""
        qid, grades = labels
        counts = (qid[:, None] == qid[None, :]) & (grades[:, None] > grades[None, :])
        better, worse = counts.nonzero(as_tuple=True)
        pair = None if weights is None else weights[better] * weights[worse]
        return [self.total(losses_of(self._function, values[better] - values[worse]), pair)]

    def consecutive(self, values: Tensor, labels: Tensor, weights: Tensor | None = None) -> Totals:
        """Return the sum over consecutive pairs; those of other queries, or tied, cost nothing."""
        qid, grades = labels
        gap = grades[1:] - grades[:-1]
        counts = (qid[1:] == qid[:-1]) & (gap != 0)
        margins = (torch.sign(gap).to(values.dtype) * (values[1:] - values[:-1]))[counts]
        losses = losses_of(self._function, margins)
        if not len(margins) or weights is None:
            return [(losses.sum(), len(gap) if len(margins) else 0)]
        pair = weights[1:] * weights[:-1]
        return [((pair[counts] * losses).sum(), self.divisor(pair.sum(), len(gap)))]

    def why_no_pairs(self) -> str:
        """Return why a batch can be without a pair that counts, and what helps."""
        return "no query of the batch has two grades; put whole queries into a batch."

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f"loss={self._name or self._function!r}, {super().extra_repr()}"
