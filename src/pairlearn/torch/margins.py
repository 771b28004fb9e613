# SPDX-License-Identifier: BSD-3-Clause
"""Losses of a margin m = s - s' for an example that should score above another, on tensors.

Hinge, squared hinge and square are piecewise polynomials: their sums over all pairs need a sort and
running sums, O(B log B), instead of all B^2 pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["MARGIN_LOSSES", "MarginLoss", "all_pairs", "as_margin_loss", "pair_total"]

#: The losses of margins, one by one.
MarginLoss = Callable[[Tensor], Tensor]


# Functions with names, so that a loss can be pickled.
def _hinge(m: Tensor, margin: float) -> Tensor:
    return functional.relu(margin - m)


def _squared_hinge(m: Tensor, margin: float) -> Tensor:
    return functional.relu(margin - m) ** 2


def _square(m: Tensor, margin: float) -> Tensor:
    return (margin - m) ** 2


def _logistic(m: Tensor, margin: float) -> Tensor:
    return functional.softplus(-m)


#: By name, with the margin that is wanted; the logistic loss has none.
MARGIN_LOSSES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "hinge": _hinge,
    "squared_hinge": _squared_hinge,
    "square": _square,
    "logistic": _logistic,
}


@dataclass(frozen=True)
class _OfMargin:
    """A loss with its margin."""

    function: Callable[[Tensor, float], Tensor]
    margin: float

    def __call__(self, m: Tensor) -> Tensor:
        return self.function(m, self.margin)


def as_margin_loss(loss: str | MarginLoss, margin: float | None) -> tuple[MarginLoss, float]:
    """Return the loss of each margin, and the margin that it wants (1 unless given).

    >>> as_margin_loss("hinge", None)[0](torch.tensor([0.25, 2.0])).tolist()
    [0.75, 0.0]
    """
    wanted = 1.0 if margin is None else float(margin)
    if isinstance(loss, str) and loss in MARGIN_LOSSES:
        if loss == "logistic" and margin is not None:
            raise ValueError(f'loss="logistic" has no margin, got margin={margin!r}; leave it out.')
        if not 0.0 < wanted < float("inf"):
            raise ValueError(f"margin must be a positive number, got {margin!r}.")
        return _OfMargin(MARGIN_LOSSES[loss], wanted), wanted
    if callable(loss):
        if margin is not None:
            raise ValueError("a loss of your own knows its margin; leave out margin.")
        return loss, wanted
    names = ", ".join(f'"{name}"' for name in MARGIN_LOSSES)
    raise ValueError(f"loss must be one of {names} or a function of margins, got {loss!r}.")


def all_pairs(loss: MarginLoss, high: Tensor, low: Tensor) -> Tensor:
    """Return the sum of the losses of all margins high_i - low_j, one by one."""
    return loss(high[:, None] - low[None, :]).sum()


def pair_total(name: Any, loss: MarginLoss, margin: float, high: Tensor, low: Tensor) -> Tensor:
    """Return the sum of the losses of all margins high_i - low_j, by sorting where that is enough.

    >>> high, low = torch.tensor([1.0, 0.0]), torch.tensor([0.5])
    >>> float(pair_total("hinge", as_margin_loss("hinge", None)[0], 1.0, high, low))
    2.0
    """
    if name in ("hinge", "squared_hinge"):
        return _hinges(high, low, margin, squared=name == "squared_hinge")
    if name == "square":
        return _squares(high, low, margin)
    return all_pairs(loss, high, low)


def _hinges(high: Tensor, low: Tensor, margin: float, *, squared: bool) -> Tensor:
    """Return the sum over pairs of (low_j - a_i)_+ or its square, with a_i = high_i - margin.

    Those low_j above a_i are a tail of the sorted ones, whose power sums are running sums; so are
    the gradients.
    """
    # Pairs see differences only; sums of squares far from zero would lose digits.
    centre = torch.cat([high, low]).detach().mean()
    a = high - centre - margin
    descending = torch.sort(low - centre, descending=True).values
    # How many of the low ones lie above each a_i.
    count = torch.searchsorted(-descending.detach(), -a.detach(), right=False)
    zero = descending.new_zeros(1)

    def tail(power: int) -> Tensor:
        return torch.cat([zero, torch.cumsum(descending**power, 0)])[count]

    number = count.to(a.dtype)
    if not squared:
        return (tail(1) - number * a).sum()
    return (tail(2) - 2.0 * a * tail(1) + number * a**2).sum()


def _squares(high: Tensor, low: Tensor, margin: float) -> Tensor:
    """Return the sum over pairs of (margin - high_i + low_j)^2 from means and squares."""
    n, m = len(high), len(low)
    gap = margin - high.mean() + low.mean()
    spread = ((high - high.mean()) ** 2).mean() + ((low - low.mean()) ** 2).mean()
    return n * m * (gap**2 + spread)
