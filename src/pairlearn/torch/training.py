# SPDX-License-Identifier: BSD-3-Clause
"""Train networks: the solver `Adam`, the average of the iterates, the loop over epochs.

The step size falls along half a cosine over the whole run, and the average of the last iterates
predicts. Several networks, each with other examples held out, go through their epochs side by side:
the epoch that is kept is the best of all of them together. So a few held-out examples of each
network are many held-out examples of all.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch.optim.adamw import adamw

from pairlearn.estimators.shared.solvers import SOLVERS, Solver
from pairlearn.register import RECORDS, Record
from pairlearn.torch.devices import Repeated
from pairlearn.torch.pairwise import divergence
from pairlearn.typing import Places
from pairlearn.validation import check_count, check_number, check_positive

#: Inputs, labels of one or more kinds, and weights or None.
Batch = tuple[Any, tuple[Any, ...], Any]

#: batch_size="auto" takes this many examples of a stream.
_STREAM_BATCH = 128
#: An epoch has at least this many batches, so with few examples it is several passes.
_LEAST_BATCHES = 16
#: max_epochs="auto" takes so many steps times the number of examples to this power,
_STEPS, _POWER = 1.4, 0.75
#: but at least this many
_FEWEST_STEPS = 96
#: and at most this many.
_MOST_STEPS = 1600
#: The average of the iterates looks back over this share of the run.
_LOOKS_BACK = 0.05
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
    learning_rate : float, default=0.003
        The first step size. In `fit` it falls along half a cosine to zero at the last step; in
        `partial_fit`, which has no last step, it stays.
    weight_decay : float, default=0.0001
        The weight decay.
    batch_size : int or "auto", default="auto"
        The number of examples in a batch. "auto" is 512 for `NeuralAUCClassifier` and 256 for
        others, or all examples if they are fewer, and 128 on a stream.
    max_epochs : int or "auto", default="auto"
        The number of epochs of a network. An epoch has as many batches as the examples fill, but at
        least 16. "auto" makes it 1.4 n^(3/4) steps for n examples: 96 for up to 280 of them, 1,600
        from 12,000 on.
    patience : int or None, default=None
        Training ends after this many epochs without a better held-out score. None takes all
        epochs; the best one is kept in either case.
    n_networks : int or "auto", default="auto"
        The number of networks that `NeuralAUCClassifier` averages. "auto" is 5 for up to 6,000
        examples, fewer for more, 1 from 20,000. Other estimators train one network.

    Examples
    --------
    >>> Adam(max_epochs=20)
    Adam(max_epochs=20)
    """

    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    batch_size: int | str = "auto"
    max_epochs: int | str = "auto"
    patience: int | None = None
    n_networks: int | str = "auto"

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        if not 0.0 <= check_number("weight_decay", self.weight_decay) < math.inf:
            raise ValueError(f"weight_decay must be at least 0, got {self.weight_decay!r}.")
        if self.batch_size != "auto":
            check_count("batch_size", self.batch_size, minimum=2)  # type: ignore[arg-type]
        if self.max_epochs != "auto":
            check_count("max_epochs", self.max_epochs)  # type: ignore[arg-type]
        if self.patience is not None:
            check_count("patience", self.patience)
        if self.n_networks != "auto":
            check_count("n_networks", self.n_networks)  # type: ignore[arg-type]

    def plan(self, n: int, *, usual: int = 256, worth: float | None = None) -> Plan:
        """Return how a network goes through n stored examples.

        `usual` is the size of a batch, unless one is given. The examples are worth as many steps as
        `worth` examples, n by default.
        """
        size = min(usual if self.batch_size == "auto" else int(self.batch_size), n)
        fill = math.ceil(n / size)
        n_passes = math.ceil(_LEAST_BATCHES / fill)
        n_batches = n_passes * fill
        if self.max_epochs != "auto":
            return Plan(size, n_passes, n_batches, int(self.max_epochs))
        steps = _STEPS * (n if worth is None else worth) ** _POWER
        steps = min(max(steps, _FEWEST_STEPS), _MOST_STEPS)
        return Plan(size, n_passes, n_batches, math.ceil(steps / n_batches))

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


@dataclass(frozen=True)
class Plan:
    """How a network goes through its examples."""

    #: Examples of a batch,
    batch_size: int
    #: passes of an epoch,
    n_passes: int
    #: batches of an epoch,
    n_batches: int
    #: and epochs.
    n_epochs: int

    @property
    def n_steps(self) -> int:
        """The number of steps of a run."""
        return self.n_batches * self.n_epochs


class _AdamW:
    """The steps of ``torch.optim.AdamW``, by the same function and with the same bits.

    The class loads PyTorch's compiler when it is made, which takes as long as to load PyTorch, and
    longer than to train a small network.
    """

    def __init__(self, network: Any, weight_decay: float) -> None:
        self._parameters = [one for one in network.parameters() if one.requires_grad]
        self._means = [torch.zeros_like(one) for one in self._parameters]
        self._squares = [torch.zeros_like(one) for one in self._parameters]
        self._steps = [
            torch.zeros((), dtype=torch.float32, device=one.device) for one in self._parameters
        ]
        self._decay = weight_decay

    def forget_gradients(self) -> None:
        """Make room for the gradients of the next step."""
        for one in self._parameters:
            one.grad = None

    def step(self, rate: Any) -> None:
        """Take a step of some size; parameters without a gradient stay."""
        own = (self._parameters, self._means, self._squares, self._steps)
        moved = [each for each in zip(*own, strict=True) if each[0].grad is not None]
        if not moved:
            return
        parameters, means, squares, steps = (list(part) for part in zip(*moved, strict=True))
        with torch.no_grad():
            adamw(
                parameters, [one.grad for one in parameters], means, squares, [], steps,
                fused=True, amsgrad=False, maximize=False,
                beta1=0.9, beta2=0.999, eps=1e-8, lr=rate, weight_decay=self._decay,
            )  # fmt: skip


class Learner:
    """A network on its way: optimizer, loss with its memory, and the average of the iterates.

    With a plan the step size falls along half a cosine, without one (on a stream) it stays. The
    average gives recent iterates exponentially larger weights, over a share of the run or `horizon`
    steps; it is what predicts, as in the paper's algorithms.
    """

    def __init__(
        self, network: Any, loss: Any, solver: Adam, *, plan: Plan | None = None, horizon: int = 1
    ) -> None:
        self.network, self.loss = network, loss
        self.average = copy.deepcopy(network)
        device, rate = next(network.parameters()).device, float(solver.learning_rate)
        if plan is not None:
            horizon = max(round(_LOOKS_BACK * plan.n_steps), 1)
        # From this step on the average looks back over the horizon; a stream has no later change.
        step = np.arange(plan.n_steps if plan else 10 * horizon)
        falls = 0.5 * (1.0 + np.cos(np.pi * step / len(step))) if plan else np.ones(len(step))
        # The first iterates, far from the end, are soon forgotten.
        share = np.maximum(1.0 / horizon, 10.0 / (step + 11.0))

        def on_device(values: Any) -> Any:
            return torch.tensor(values, dtype=torch.float32, device=device)

        # Where the step reads them, so that a device needs nothing of the host.
        self._rates, self._shares = on_device(rate * falls), on_device(share)
        self._clock = torch.zeros(1, dtype=torch.int64, device=device)
        self._adam = _AdamW(network, float(solver.weight_decay))

    @property
    def n_steps(self) -> int:
        """The number of steps so far."""
        return int(self._clock)

    def step(self, batch: Batch) -> Any:
        """Learn from one batch and return its loss, on the device."""
        inputs, labels, weights = batch
        if not self.network.training:
            self.network.train()
        self._adam.forget_gradients()
        found = self.network(inputs)
        own = {} if weights is None else {"sample_weight": weights}
        value = self.loss(found.reshape(len(inputs), -1), *labels, **own)
        value.backward()
        now = self._clock.clamp(max=len(self._rates) - 1)
        self._adam.step(self._rates.index_select(0, now)[0])
        share = self._shares.index_select(0, now)[0]
        with torch.no_grad():
            for mean, value_now in self._both:
                if mean.is_floating_point():
                    mean.lerp_(value_now, share.to(mean.dtype))
                else:
                    mean.copy_(value_now)
        self._clock += 1
        return value.detach()

    def check_finite(self, average: Any) -> None:
        """Refuse an average that is no longer of numbers: what the last step did, no loss has seen.

        `average` is that of now, or of an earlier epoch.
        """
        if not all(bool(torch.isfinite(one).all()) for one in average.parameters()):
            raise divergence(type(self.loss).__name__, self.n_steps)

    @cached_property
    def _both(self) -> list[tuple[Any, Any]]:
        """The numbers of the average, each with those of the network."""
        parts = (chain(each.parameters(), each.buffers()) for each in (self.average, self.network))
        return list(zip(*parts, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs; it finds its own tensors."""
        return {name: value for name, value in vars(self).items() if name != "_both"}


class Course:
    """A network and the batches of its epochs.

    `order` returns the rows of the batches of an epoch: an iterable of arrays, or a tensor with one
    batch in each row. The batches of a tensor are all alike, so that a CUDA device records the step
    of one of them, and replays it.
    """

    def __init__(self, learner: Learner, table: Any, order: Callable[[], Any]) -> None:
        self.learner, self._table, self._order = learner, table, order
        self._n_steps = 0
        self._rows: Any = None

    def epoch(self) -> float:
        """Go through one epoch and return the mean loss of its batches."""
        order = self._order()
        values = self._alike(order) if isinstance(order, torch.Tensor) else self._each(order)
        values = values.double().cpu().numpy()
        if not np.isfinite(values).all():
            step = self._n_steps + int(np.argmin(np.isfinite(values))) + 1
            raise divergence(type(self.learner.loss).__name__, step)
        self._n_steps += len(values)
        return float(values.mean())

    def _each(self, order: Iterable[Any]) -> Any:
        """Return the losses of batches of any size."""
        return torch.stack([self.learner.step(self._table.batch(index)) for index in order])

    def _alike(self, order: Any) -> Any:
        """Return the losses of batches of one size, whose rows are read on the device."""
        device = self._table.device
        if self._rows is None:
            self._rows = torch.empty_like(order, device=device)
            self._place = torch.zeros(1, dtype=torch.int64, device=device)
            self._values = torch.zeros(len(order), device=device)
            self._repeated = Repeated(self._step, device, records=self._table.on_device)
        self._rows.copy_(order)
        self._place.zero_()
        self._repeated.take(len(order))
        return self._values

    def _step(self) -> None:
        """Learn from the batch whose turn it is."""
        batch = self._table.batch(self._rows.index_select(0, self._place)[0])
        value = self.learner.step(batch)
        self._values.index_copy_(0, self._place, value.reshape(1).to(self._values.dtype))
        self._place += 1


def train(
    courses: Sequence[Course],
    *,
    n_epochs: int,
    patience: int | None,
    judge: Callable[[int, Any], float] | None,
    chooses: bool,
    told: Callable[[int, Sequence[History]], None],
) -> tuple[list[Any], list[History]]:
    """Train networks side by side; return their averages at the best epoch, and the histories.

    `judge` returns the score of the network of a number on the examples that it has not seen. The
    best epoch is that of the largest mean over networks. Without a judge, or if the judge has too
    few examples to choose by (`chooses`), the last epoch counts. `told` is called at the end of
    every epoch.
    """
    histories = [History() for _ in courses]
    best, best_epoch, kept = -math.inf, 0, [course.learner.average for course in courses]
    for epoch in range(1, n_epochs + 1):
        for k, (course, history) in enumerate(zip(courses, histories, strict=True)):
            history.losses.append(course.epoch())
            if judge is not None:
                history.held_out.append(judge(k, course.learner.average))
        if judge is None or not chooses:
            best_epoch = epoch
        else:
            mean = float(np.mean([history.held_out[-1] for history in histories]))
            if mean > best:
                best, best_epoch = mean, epoch
                kept = [copy.deepcopy(course.learner.average) for course in courses]
        for history in histories:
            history.best_epoch = best_epoch
        told(epoch, histories)
        if patience is not None and epoch - best_epoch >= patience:
            break
    for course, average in zip(courses, kept, strict=True):
        course.learner.check_finite(average)
    return kept, histories
