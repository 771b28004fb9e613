# SPDX-License-Identifier: BSD-3-Clause
"""One training loop for all estimators: batches, an average of the iterates, early stopping."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = ["Batch", "History", "Learner", "train"]

#: Inputs, labels of one or more kinds, and weights or None.
Batch = tuple[Any, tuple[Any, ...], Any]


@dataclass
class History:
    """What happened in each epoch."""

    #: Mean loss of the batches.
    losses: list[float] = field(default_factory=list)
    #: How good the average was on held-out examples; empty without them.
    held_out: list[float] = field(default_factory=list)
    #: The epoch whose network was kept, the first is 1.
    best_epoch: int = 0


class Learner:
    """A network on its way: optimizer, loss with its memory, and the average of the iterates.

    The average gives recent iterates exponentially larger weights, over about `horizon` steps; it
    is what predicts, as in the paper's algorithms.
    """

    def __init__(
        self, network: Any, loss: Any, *, learning_rate: float, weight_decay: float, horizon: int
    ) -> None:
        self.network, self.loss = network, loss
        self.average = copy.deepcopy(network)
        self.optimizer = torch.optim.AdamW(
            network.parameters(), lr=learning_rate, weight_decay=weight_decay
        )
        self.horizon, self.n_steps = max(int(horizon), 1), 0

    def step(self, inputs: Any, *labels: Any, weights: Any = None) -> float:
        """Learn from one batch, with weights of its examples or without, and return its loss."""
        self.network.train()
        self.optimizer.zero_grad(set_to_none=True)
        found = self.network(inputs)
        own = {} if weights is None else {"sample_weight": weights}
        value = self.loss(found.reshape(len(inputs), -1), *labels, **own)
        value.backward()
        self.optimizer.step()
        self.n_steps += 1
        # The first iterates, far from the end, are soon forgotten.
        keep = min(1.0 - 1.0 / self.horizon, self.n_steps / (self.n_steps + 10.0))
        with torch.no_grad():
            now = self.network.state_dict()
            for name, mean in self.average.state_dict().items():
                if mean.is_floating_point():
                    mean.lerp_(now[name], 1.0 - keep)
                else:
                    mean.copy_(now[name])
        return float(value.detach())


def train(
    learner: Learner,
    batches: Callable[[], Iterable[Batch]],
    *,
    max_epochs: int,
    patience: int,
    judge: Callable[[Any], float] | None,
    told: Callable[[int, History], None],
) -> tuple[Any, History]:
    """Train for some epochs and return the best average, with what happened.

    Parameters
    ----------
    learner : Learner
        The network.
    batches : callable
        Returns the batches of an epoch: inputs, labels and weights, see `Learner.step`.
    max_epochs, patience : int
        At most so many epochs, and so many without a better one.
    judge : callable, optional
        Says how good a network is on held-out examples; without it the last epoch counts.
    told : callable
        Hears of the end of every epoch.

    Returns
    -------
    network, History
        The average at the end of the best epoch.
    """
    history, best, kept = History(), -float("inf"), learner.average
    for epoch in range(1, max_epochs + 1):
        total, count = 0.0, 0
        for inputs, labels, weights in batches():
            total += learner.step(inputs, *labels, weights=weights)
            count += 1
        history.losses.append(total / max(count, 1))
        if judge is None:
            history.best_epoch = epoch
        else:
            history.held_out.append(judge(learner.average))
            if history.held_out[-1] > best:
                best, history.best_epoch = history.held_out[-1], epoch
                kept = copy.deepcopy(learner.average)
        told(epoch, history)
        if judge is not None and epoch - history.best_epoch >= patience:
            break
    return kept, history
