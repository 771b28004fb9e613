# SPDX-License-Identifier: BSD-3-Clause
"""Losses of the distances of embeddings: examples of one label near, of different labels far."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from pairlearn.torch.pairwise import PairwiseLoss, Totals, check_batch, check_weights
from pairlearn.validation import check_flag, check_number, check_positive


class EmbeddingLoss(PairwiseLoss):
    """Base class: the mean over pairs of a function of their distance and of whether labels agree.

    A subclass defines `of_distances`.
    """

    def __init__(
        self,
        *,
        pairing: str = "batch",
        balanced: bool = False,
    ) -> None:
        super().__init__(pairing=pairing)
        self.balanced = check_flag("balanced", balanced)

    def of_distances(self, distances: Tensor, same: Tensor) -> Tensor:
        """Return the loss of each pair from its distance and whether the labels are the same."""
        raise TypeError(f"{type(self).__name__} must define of_distances(distances, same).")

    def forward(
        self, embeddings: Tensor, labels: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the mean over the pairs of a batch; zero, with a gradient of zero, without pairs.

        Half precision is taken to single precision first. A pair weighs the product of the weights
        of its examples, see `PairwiseLoss`. An example is no pair with itself, whatever its weight.
        """
        embeddings, labels = check_batch("embeddings", embeddings, labels, vector=False)
        weights = check_weights(embeddings, sample_weight)
        return self.mean_over_pairs(embeddings, labels, weights)

    def within(self, values: Tensor, labels: Tensor, weights: Tensor | None = None) -> Totals:
        """Return the sums over all pairs of different examples of a batch."""
        i, j = torch.triu_indices(len(values), len(values), 1, device=values.device)
        pair = None if weights is None else weights[i] * weights[j]
        # By differences, since products lose the digits of near pairs.
        distances = torch.cdist(values, values, compute_mode="donot_use_mm_for_euclid_dist")
        return self._totals(distances[i, j], labels[i] == labels[j], pair)

    def consecutive(self, values: Tensor, labels: Tensor, weights: Tensor | None = None) -> Totals:
        """Return the sums over the pairs of each example with the one before it."""
        distances = torch.linalg.vector_norm(values[1:] - values[:-1], dim=1)
        pair = None if weights is None else weights[1:] * weights[:-1]
        return self._totals(distances, labels[1:] == labels[:-1], pair)

    def _totals(self, distances: Tensor, same: Tensor, weights: Tensor | None) -> Totals:
        losses = self.of_distances(distances, same)
        if not self.balanced:
            return [self.total(losses, weights)]
        return [
            self.total(losses[kind], None if weights is None else weights[kind])
            for kind in (same, ~same)
        ]


class ContrastiveLoss(EmbeddingLoss):
    """Contrastive loss: d^2 for equal labels, (margin - d)_+^2 for different ones.

    Parameters
    ----------
    margin : float, default=1.0
        The distance from which different labels cost nothing.
    pairing : {"batch", "previous"}, default="batch"
        Who meets whom, see `PairwiseLoss`.
    balanced : bool, default=False
        Whether equal and different pairs count one half each, instead of as many as there are.

    References
    ----------
    Hadsell, Chopra, LeCun. Dimensionality reduction by learning an invariant mapping. CVPR 2006.

    Examples
    --------
    >>> loss = ContrastiveLoss()
    >>> loss(torch.tensor([[0.0], [0.5], [3.0]]), torch.tensor([1, 1, 2])).item()
    0.0833...
    """

    def __init__(
        self,
        margin: float = 1.0,
        *,
        pairing: str = "batch",
        balanced: bool = False,
    ) -> None:
        super().__init__(pairing=pairing, balanced=balanced)
        self.margin = check_positive("margin", margin)

    def of_distances(self, distances: Tensor, same: Tensor) -> Tensor:
        """Return the loss of each pair."""
        return torch.where(same, distances, functional.relu(self.margin - distances)) ** 2


class DistanceLoss(EmbeddingLoss):
    """The paper's losses of a squared distance h, of embeddings: see `DistanceHinge`.

    With tau = 1 for equal labels and -1 for different ones they are (1 + tau (h - b))_+ and
    log(1 + exp(tau (h - b))).

    Parameters
    ----------
    loss : {"hinge", "logistic"}, default="hinge"
        Which of the two.
    bias : float, default=1.0
        The squared distance b around which near and far are told apart, at least 0.
    pairing : {"batch", "previous"}, default="batch"
        Who meets whom, see `PairwiseLoss`.
    balanced : bool, default=False
        Whether equal and different pairs count one half each, instead of as many as there are.

    Examples
    --------
    >>> DistanceLoss()(torch.tensor([[0.0], [0.5]]), torch.tensor([1, 1])).item()
    0.25
    """

    def __init__(
        self,
        loss: str = "hinge",
        *,
        bias: float = 1.0,
        pairing: str = "batch",
        balanced: bool = False,
    ) -> None:
        if loss not in ("hinge", "logistic"):
            raise ValueError(f'loss must be "hinge" or "logistic", got {loss!r}.')
        if not 0.0 <= check_number("bias", bias) < math.inf:
            raise ValueError(f"bias must be a number of at least 0, got {bias!r}.")
        super().__init__(pairing=pairing, balanced=balanced)
        self._name, self.bias = loss, float(bias)

    def of_distances(self, distances: Tensor, same: Tensor) -> Tensor:
        """Return the loss of each pair."""
        gap = distances**2 - self.bias
        signed = torch.where(same, gap, -gap)
        if self._name == "hinge":
            return functional.relu(1.0 + signed)
        return functional.softplus(signed)
