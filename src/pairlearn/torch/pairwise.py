# SPDX-License-Identifier: BSD-3-Clause
"""What all pairwise losses share: who meets whom, what is checked, what is counted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pairlearn.validation import DivergenceError, warn_caller

#: Sums of losses, each with its number of pairs, or what they weigh; the loss is the mean of their
#: means.
Totals = list[tuple[Tensor, float]]

PAIRINGS = ("previous", "batch")


class PairwiseLoss(nn.Module):  # type: ignore[misc]
    """Base class of the losses of pairs among the examples of a batch.

    Parameters
    ----------
    pairing : {"batch", "previous"}, default="batch"
        "batch" takes all pairs of the batch. "previous" is the paper's: each example meets the one
        before it in the batch, so that a batch of two is one step of Algorithm 1.

    Attributes
    ----------
    n_steps : Tensor
        Number of batches seen.
    n_without_pairs : Tensor
        Number of those in which no pair counted: their loss and gradient were zero.

    Notes
    -----
    A subclass defines `within` and `consecutive`. Both counters belong to `state_dict`.

    With `sample_weight` a pair weighs the product of the weights of its examples, and the loss is
    the weighted mean. An example of weight zero is as good as absent, and without weights all weigh
    1. Batches that are drawn at random then all count the same, however little they weigh; weights
    that have mean 1 over the data give each batch its share with ``loss.relative_weights = True``:
    sums are divided by the number of pairs.
    """

    n_steps: Tensor
    n_without_pairs: Tensor
    #: Whether weights have mean 1 over the data, so that sums are divided by numbers of pairs.
    relative_weights = False

    def __init__(self, *, pairing: str = "batch") -> None:
        super().__init__()
        if pairing not in PAIRINGS:
            names = ", ".join(f'"{name}"' for name in PAIRINGS)
            raise ValueError(f"pairing must be one of {names}, got {pairing!r}.")
        self.pairing = pairing
        self.register_buffer("n_steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("n_without_pairs", torch.zeros((), dtype=torch.int64))

    def within(self, values: Tensor, labels: Tensor, weights: Tensor | None = None) -> Totals:
        """Return the sums over the pairs of one batch."""
        raise TypeError(f"{type(self).__name__} must define within(values, labels, weights).")

    def consecutive(self, values: Tensor, labels: Tensor, weights: Tensor | None = None) -> Totals:
        """Return the sums over the pairs of each example of a batch with the one before it."""
        raise TypeError(f"{type(self).__name__} must define consecutive(values, labels, weights).")

    def total(self, losses: Tensor, weights: Tensor | None) -> tuple[Tensor, float]:
        """Return the sum of the losses of pairs, and what it is divided by."""
        if weights is None:
            return losses.sum(), len(losses)
        return (weights * losses).sum(), self.divisor(weights.sum(), len(losses))

    def divisor(self, weight: Tensor, n_pairs: int) -> float:
        """Return what the sum over pairs of some weight is divided by."""
        return n_pairs if self.relative_weights else float(weight)

    def mean_over_pairs(
        self, values: Tensor, labels: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch that has been checked, and count it."""
        self.n_steps += 1
        if not bool(torch.isfinite(values).all()):
            raise divergence(type(self).__name__, int(self.n_steps))
        pairs = self.consecutive if self.pairing == "previous" else self.within
        if weights is None:
            totals = pairs(values, labels)
        else:
            counts = weights > 0
            totals = pairs(values[counts], labels[..., counts], weights[counts])
        means = [total / count for total, count in totals if count]
        if means:
            return sum(means[1:], means[0]) / len(means)
        if not int(self.n_without_pairs):
            warn_caller(
                f"step {int(self.n_steps)}: {self.why_no_pairs()} Loss and gradient of such a "
                "batch are zero; n_without_pairs counts them, and this is said once.",
                UserWarning,
            )
        self.n_without_pairs += 1
        return values.sum() * 0.0

    def why_no_pairs(self) -> str:
        """Return why a batch can be without a pair that counts, and what helps."""
        return "no two examples of the batch make a pair; take larger batches."

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f'pairing="{self.pairing}"'


def divergence(name: str, step: int) -> DivergenceError:
    """Return the error of a loss that got scores that are no numbers."""
    return DivergenceError(
        f"{name} got NaN or infinity at step {step}; take a smaller learning rate, clip gradients, "
        "or look for such values in the data."
    )


def as_positive(labels: Any) -> Any:
    """Return which examples are positive."""
    if labels.dtype is torch.bool:
        return labels
    positive, zero = labels == 1, labels == 0
    known = positive | zero
    if labels.dtype.is_signed:
        # Without a sign -1 would be compared as the largest number, such as 255.
        known = known | (labels == -1)
    if not bool(known.all()):
        raise ValueError(
            f"labels must be 0 and 1, -1 and 1, or bool, got {labels[~known][0].item()}; pass "
            "labels == c, with the class c that is positive."
        )
    if bool(zero.any()) and not bool((positive | zero).all()):
        raise ValueError(
            "labels must be 0 and 1, or -1 and 1, got -1 and 0 side by side; pass labels == 1, and "
            "leave out the examples without a label."
        )
    return positive


def check_weights(values: Tensor, weights: Any) -> Any:
    """Return the weights of a batch, in the type of its values; None if there are none."""
    if weights is None:
        return None
    if not isinstance(weights, Tensor):
        raise TypeError(f"sample_weight must be a tensor, got {type(weights).__name__}.")
    if weights.device != values.device:
        raise ValueError(
            f"sample_weight is on {weights.device}, the batch on {values.device}; move one of "
            "them, nothing is copied between devices."
        )
    if weights.ndim == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]
    if weights.shape != values.shape[:1]:
        raise ValueError(
            f"sample_weight must have shape ({len(values)},), got {tuple(weights.shape)}."
        )
    weights = weights.detach().to(values.dtype)
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise ValueError(
            "sample_weight must hold finite numbers of at least 0; use 0 to leave an example out."
        )
    return weights


def check_batch(name: str, values: Any, labels: Any, *, vector: bool = True) -> tuple[Any, Any]:
    """Return the values of a batch in at least single precision, and its labels, both checked.

    With `vector` there is one value for each example, in one column or without; else one row.
    """
    for what, tensor in ((name, values), ("labels", labels)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what} must be a tensor, got {type(tensor).__name__}.")
    if values.device != labels.device:
        raise ValueError(
            f"{name} are on {values.device}, labels on {labels.device}; move one of them, nothing "
            "is copied between devices."
        )
    if vector and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if values.ndim != (1 if vector else 2) or labels.shape != values.shape[:1]:
        wanted = "(n,)" if vector else "(n, n_components)"
        raise ValueError(
            f"{name} must have shape {wanted} and labels (n,), got {tuple(values.shape)} and "
            f"{tuple(labels.shape)}."
        )
    if not values.is_floating_point():
        raise TypeError(f"{name} must be floating-point numbers, got {values.dtype}.")
    if labels.is_floating_point() and not bool(torch.isfinite(labels).all()):
        raise ValueError("labels contain NaN or infinity; leave such examples out.")
    # Sums over many pairs need more digits than mixed precision gives.
    return (values.float() if values.dtype in (torch.float16, torch.bfloat16) else values), labels
