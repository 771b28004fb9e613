# SPDX-License-Identifier: BSD-3-Clause
"""Minimum error entropy for networks: a loss of the differences of errors."""

from __future__ import annotations

import torch
from torch import Tensor

from pairlearn.torch.pairwise import PairwiseLoss, Totals, check_batch, check_weights
from pairlearn.validation import check_positive


class ErrorEntropyLoss(PairwiseLoss):
    """Mean over pairs of gamma^2 (1 - G(r)) with r = e - e', the difference of two errors.

    It is smallest where Renyi's quadratic entropy of the errors e = y - prediction is: see `Welsch`
    and `Epanechnikov`. The mean of the errors does not matter; set it to zero, or the median, at
    the end.

    Parameters
    ----------
    bandwidth : float, default=1.0
        The bandwidth gamma. Errors further apart than about 3 gamma do not pull on each other.
    window : {"gaussian", "parabolic"}, default="gaussian"
        1 - exp(-r^2 / (2 gamma^2)), or min(r^2 / gamma^2, 1) / 2.
    pairing : {"batch", "previous"}, default="batch"
        Who meets whom, see `PairwiseLoss`.

    Examples
    --------
    >>> loss = ErrorEntropyLoss()
    >>> round(loss(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.0])).item(), 4)
    0.3935
    """

    def __init__(
        self,
        bandwidth: float = 1.0,
        *,
        window: str = "gaussian",
        pairing: str = "batch",
    ) -> None:
        if window not in ("gaussian", "parabolic"):
            raise ValueError(f'window must be "gaussian" or "parabolic", got {window!r}.')
        super().__init__(pairing=pairing)
        self.bandwidth, self.window = check_positive("bandwidth", bandwidth), window

    def forward(
        self, predictions: Tensor, targets: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        predictions : Tensor of shape (n,) or (n, 1)
            Predictions.
        targets : Tensor of shape (n,) or (n, 1)
            What they should be.
        sample_weight : Tensor of shape (n,), optional
            A pair weighs the product of the weights of its examples, see `PairwiseLoss`. An example
            is no pair with itself, whatever its weight.

        Returns
        -------
        Tensor
            The mean over pairs; zero, with a gradient of zero, if there is none.
        """
        predictions, targets = check_batch("predictions", predictions, targets)
        errors = targets.to(predictions.dtype) - predictions
        labels = torch.zeros_like(errors, dtype=torch.int64)
        return self.mean_over_pairs(errors, labels, check_weights(errors, sample_weight))

    def within(self, values: Tensor, labels: Tensor, weights: Tensor | None = None) -> Totals:
        """Return the sum over all pairs of different examples of a batch."""
        i, j = torch.triu_indices(len(values), len(values), 1, device=values.device)
        return self._total(
            values[i] - values[j], None if weights is None else weights[i] * weights[j]
        )

    def consecutive(self, values: Tensor, labels: Tensor, weights: Tensor | None = None) -> Totals:
        """Return the sum over the pairs of each example with the one before it."""
        pair = None if weights is None else weights[1:] * weights[:-1]
        return self._total(values[1:] - values[:-1], pair)

    def _total(self, differences: Tensor, weights: Tensor | None) -> Totals:
        squares = (differences / self.bandwidth) ** 2
        if self.window == "gaussian":
            losses = -torch.expm1(-0.5 * squares)
        else:
            losses = 0.5 * squares.clamp(max=1.0)
        return [self.total(self.bandwidth**2 * losses, weights)]

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f'bandwidth={self.bandwidth}, window="{self.window}", {super().extra_repr()}'
