# SPDX-License-Identifier: BSD-3-Clause
"""What all pairwise losses share: who meets whom, what is checked, what is counted."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from pairlearn.torch.memory import Memory
from pairlearn.validation import DivergenceError

__all__ = ["PAIRINGS", "PairwiseLoss", "Totals"]

#: Sums of losses, each with its number of pairs; the loss is the mean of their means.
Totals = list[tuple[Tensor, int]]

PAIRINGS = ("previous", "batch", "memory")


class PairwiseLoss(nn.Module):  # type: ignore[misc]
    """Base class of the losses of pairs among the examples of a batch.

    Parameters
    ----------
    pairing : {"batch", "previous", "memory"}, default="batch"
        "batch" takes all pairs of the batch. "previous" is the paper's: each example meets the one
        before it in the batch, so that a batch of two is one step of Algorithm 1. "memory" takes
        all pairs of the batch, and those of its examples with remembered ones.
    memory : Memory, optional
        What is remembered, for ``pairing="memory"``.

    Attributes
    ----------
    n_steps : Tensor
        Number of batches seen.
    n_without_pairs : Tensor
        Number of those in which no pair counted: their loss and gradient were zero.

    Notes
    -----
    A subclass defines `within` and `consecutive`, and `across` if it takes a memory. Both counters
    and the memory belong to `state_dict`, so that a run that is saved and resumed goes on as if it
    had never stopped, bit for bit on a CPU. The memory takes up a batch in training mode only.
    """

    n_steps: Tensor
    n_without_pairs: Tensor

    def __init__(self, *, pairing: str = "batch", memory: Memory | None = None) -> None:
        super().__init__()
        if pairing not in PAIRINGS:
            names = ", ".join(f'"{name}"' for name in PAIRINGS)
            raise ValueError(f"pairing must be one of {names}, got {pairing!r}.")
        if memory is not None and pairing != "memory":
            raise ValueError(
                f'pairing="{pairing}" would ignore the memory; use pairing="memory", or leave it '
                "out."
            )
        if memory is None and pairing == "memory":
            raise ValueError('pairing="memory" needs a memory; pass memory=.')
        self.pairing, self.memory = pairing, memory
        self.register_buffer("n_steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("n_without_pairs", torch.zeros((), dtype=torch.int64))

    def within(self, values: Tensor, labels: Tensor) -> Totals:
        """Return the sums over the pairs of one batch."""
        raise TypeError(f"{type(self).__name__} must define within(values, labels).")

    def across(self, values: Tensor, labels: Tensor, held: Tensor, classes: Tensor) -> Totals:
        """Return the sums over the pairs of a batch with remembered values."""
        raise TypeError(f"{type(self).__name__} takes no memory.")

    def consecutive(self, values: Tensor, labels: Tensor) -> Totals:
        """Return the sums over the pairs of each example of a batch with the one before it."""
        raise TypeError(f"{type(self).__name__} must define consecutive(values, labels).")

    def classes(self, labels: Tensor) -> Tensor:
        """Return the class of each label, for the memory."""
        return labels

    def mean_over_pairs(self, values: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch that has been checked; count it and remember it."""
        self.n_steps += 1
        if not bool(torch.isfinite(values).all()):
            raise DivergenceError(
                f"{type(self).__name__} got NaN or infinity at step {int(self.n_steps)}; take a "
                "smaller learning rate, clip gradients, or look for such values in the data."
            )
        if self.memory is not None:
            self.memory.check(values, self.classes(labels))
        if self.pairing == "previous":
            totals = self.consecutive(values, labels)
        else:
            totals = self.within(values, labels)
        if self.memory is not None:
            held, classes = self.memory.held()
            if len(held):
                more = self.across(values, labels, held, classes)
                totals = [(a + b, n + m) for (a, n), (b, m) in zip(totals, more, strict=True)]
            if self.training:
                self.memory.push(values, self.classes(labels))
        means = [total / count for total, count in totals if count]
        if not means:
            return self._nothing(values)
        return sum(means[1:], means[0]) / len(means)

    def _nothing(self, values: Tensor) -> Tensor:
        """Return a loss of zero with a gradient of zero, and say so the first time."""
        if not int(self.n_without_pairs):
            warnings.warn(
                f"step {int(self.n_steps)}: {self.why_no_pairs()} Loss and gradient of such a "
                "batch are zero; n_without_pairs counts them, and this is said once.",
                stacklevel=3,
            )
        self.n_without_pairs += 1
        return values.sum() * 0.0

    def why_no_pairs(self) -> str:
        """Return why a batch can be without a pair that counts, and what helps."""
        return "no two examples of the batch make a pair; take larger batches."

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f'pairing="{self.pairing}"'


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
    # Sums over many pairs need more digits than mixed precision gives.
    return (values.float() if values.dtype in (torch.float16, torch.bfloat16) else values), labels
