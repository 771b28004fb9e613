# SPDX-License-Identifier: BSD-3-Clause
"""Train one network: the solver `Adam`, the average of the iterates, early stopping."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pairlearn.estimators.shared.solvers import SOLVERS, Solver
from pairlearn.register import RECORDS, Record
from pairlearn.typing import Places
from pairlearn.validation import check_count, check_positive

#: Inputs, labels of one or more kinds, and weights or None.
Batch = tuple[Any, tuple[Any, ...], Any]

#: batch_size="auto" aims at this many batches in an epoch,
_BATCHES = 16
#: but takes at least this many examples in a batch
_SMALLEST = 32
#: and at most this many.
_LARGEST = 512
#: batch_size="auto" takes this many examples of a stream.
_STREAM_BATCH = 128
#: n_networks="auto" trains networks until together they have seen this many examples,
_EXAMPLES = 30_000
#: but at most this many networks.
_MOST = 5


@SOLVERS.add("adam")
@dataclass(frozen=True, repr=False)
class Adam(Solver):
    """AdamW on batches of pairs, with early stopping; the solver of networks.

    Parameters
    ----------
    learning_rate : float, default=0.001
        The step size.
    weight_decay : float, default=0.0001
        The weight decay.
    batch_size : int or "auto", default="auto"
        The number of examples in a batch. "auto" is a sixteenth of the examples, from 32 to 512,
        and 128 on a stream.
    max_epochs : int, default=100
        The limit on epochs of a network. An epoch has as many batches as the examples fill, but at
        least 16.
    patience : int, default=15
        Training ends after this many epochs without a better held-out score.
    n_networks : int or "auto", default="auto"
        The number of networks that `NeuralAUCClassifier` averages. "auto" is 5 for up to 6,000
        examples, fewer for more, 1 from 20,000. Other estimators train one network.

    Examples
    --------
    >>> Adam(max_epochs=20)
    Adam(max_epochs=20)
    """

    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    batch_size: int | str = "auto"
    max_epochs: int = 100
    patience: int = 15
    n_networks: int | str = "auto"

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        if not 0.0 <= float(self.weight_decay) < float("inf"):
            raise ValueError(f"weight_decay must be at least 0, got {self.weight_decay!r}.")
        if self.batch_size != "auto":
            check_count("batch_size", self.batch_size, minimum=2)  # type: ignore[arg-type]
        check_count("max_epochs", self.max_epochs)
        check_count("patience", self.patience)
        if self.n_networks != "auto":
            check_count("n_networks", self.n_networks)  # type: ignore[arg-type]

    def batch_of(self, n: int) -> int:
        """Return the size of a batch of n stored examples."""
        if self.batch_size != "auto":
            return int(self.batch_size)
        return int(np.clip(2 ** int(np.log2(max(n / _BATCHES, 1.0))), _SMALLEST, _LARGEST))

    @property
    def stream_batch(self) -> int:
        """The size of a batch of a stream."""
        return _STREAM_BATCH if self.batch_size == "auto" else int(self.batch_size)

    def cut(self, n: int) -> list[Places]:
        """Return the rows of the batches of a chunk of n examples, in order."""
        return np.split(np.arange(n), range(self.stream_batch, n, self.stream_batch))

    def networks_for(self, n: int) -> int:
        """Return the number of networks for n examples."""
        if self.n_networks != "auto":
            return int(self.n_networks)
        return int(np.clip(round(_EXAMPLES / n), 1, _MOST))


@RECORDS.add()
@dataclass
class History(Record):
    """The course of the training, epoch by epoch."""

    #: Mean loss of the batches.
    losses: list[float] = field(default_factory=list)
    #: The score of the average on held-out examples; empty without them.
    held_out: list[float] = field(default_factory=list)
    #: The epoch whose network was kept, the first is 1.
    best_epoch: int = 0


class Learner:
    """A network on its way: optimizer, loss with its memory, and the average of the iterates.

    The average gives recent iterates exponentially larger weights, over about `horizon` steps; it
    is what predicts, as in the paper's algorithms.
    """

    def __init__(self, network: Any, loss: Any, solver: Adam, *, horizon: int) -> None:
        self.network, self.loss, self.solver = network, loss, solver
        self.average = copy.deepcopy(network)
        self.optimizer = torch.optim.AdamW(
            network.parameters(),
            lr=float(solver.learning_rate),
            weight_decay=float(solver.weight_decay),
        )
        self.horizon, self.n_steps = max(int(horizon), 1), 0

    def step(self, batch: Batch) -> float:
        """Learn from one batch and return its loss."""
        inputs, labels, weights = batch
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
    judge: Callable[[Any], float] | None,
    told: Callable[[int, History], None],
) -> tuple[Any, History]:
    """Train until held-out scores stop rising; return the best average and the history.

    `batches` returns the batches of an epoch. `judge` returns the score of a
    network on held-out examples; without it the last epoch counts. `told` is called at the end of
    every epoch.
    """
    history, best, kept = History(), -float("inf"), learner.average
    for epoch in range(1, learner.solver.max_epochs + 1):
        total, count = 0.0, 0
        for batch in batches():
            total += learner.step(batch)
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
        if judge is not None and epoch - history.best_epoch >= learner.solver.patience:
            break
    return kept, history
