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

from pairlearn.validation import check_number

#: Weights of the examples on either side of pairs; None if all weigh 1.
Both = tuple[Tensor, Tensor] | None
#: Pairs that are faster one by one than by a sort: on the CPU, and on a GPU.
_FEW, _FEW_ON_GPU = 2**16, 2**21
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
    """Return the loss of each margin, and the margin that it wants (1 unless given)."""
    wanted = 1.0 if margin is None else check_number("margin", margin)
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


def losses_of(loss: MarginLoss, margins: Tensor) -> Tensor:
    """Return the loss of each margin; refuse a function that returns their mean or sum."""
    losses = loss(margins)
    if losses.shape != margins.shape:
        raise ValueError(
            f"loss must return the loss of each margin, of shape {tuple(margins.shape)}, got the "
            f"shape {tuple(losses.shape)}; leave out mean() and sum()."
        )
    return losses


def all_pairs(loss: MarginLoss, high: Tensor, low: Tensor, weights: Both = None) -> Tensor:
    """Return the sum of the losses of all margins high_i - low_j, one by one."""
    losses = losses_of(loss, high[:, None] - low[None, :])
    if weights is None:
        return losses.sum()
    return weights[0] @ losses @ weights[1]


def pair_total(
    name: Any, loss: MarginLoss, margin: float, high: Tensor, low: Tensor, weights: Both = None
) -> Tensor:
    """Return the sum of the losses of all margins high_i - low_j, by sorting where that is enough.

    With weights u and v of the examples a pair weighs u_i v_j. Few pairs are taken one by one,
    which is faster.
    """
    few = len(high) * len(low) <= (_FEW if high.device.type == "cpu" else _FEW_ON_GPU)
    if few or name not in ("hinge", "squared_hinge", "square"):
        return all_pairs(loss, high, low, weights)
    u, v = (torch.ones_like(high), torch.ones_like(low)) if weights is None else weights
    # Pairs see differences only; sums and squares far from zero would lose digits.
    centre = torch.cat([high, low]).detach().mean()
    high, low = high - centre, low - centre
    if name == "square":
        return _squares(high, low, margin, u, v)
    return _hinges(high, low, margin, u, v, squared=name == "squared_hinge")


def _hinges(
    high: Tensor, low: Tensor, margin: float, u: Tensor, v: Tensor, *, squared: bool
) -> Tensor:
    """Return the sum over pairs of u_i v_j (low_j - a_i)_+ or its square, a_i = high_i - margin.

    Those low_j above a_i are a tail of the sorted ones, whose power sums are running sums; so are
    the gradients.
    """
    a = high - margin
    descending, order = torch.sort(low, descending=True)
    weight = v[order]
    # How many of the low ones lie above each a_i.
    count = torch.searchsorted(-descending.detach(), -a.detach(), right=False)
    zero = descending.new_zeros(1)

    def tail(power: int) -> Tensor:
        return torch.cat([zero, torch.cumsum(weight * descending**power, 0)])[count]

    if not squared:
        return (u * (tail(1) - tail(0) * a)).sum()
    return (u * (tail(2) - 2.0 * a * tail(1) + tail(0) * a**2)).sum()


def _squares(high: Tensor, low: Tensor, margin: float, u: Tensor, v: Tensor) -> Tensor:
    """Return the sum over pairs of u_i v_j (margin - high_i + low_j)^2 from means and squares."""

    def mean(values: Tensor, weight: Tensor) -> Tensor:
        return (weight * values).sum() / weight.sum()

    top, bottom = mean(high, u), mean(low, v)
    spread = mean((high - top) ** 2, u) + mean((low - bottom) ** 2, v)
    return u.sum() * v.sum() * ((margin - top + bottom) ** 2 + spread)
