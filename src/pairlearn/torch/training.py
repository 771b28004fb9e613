# SPDX-License-Identifier: BSD-3-Clause
"""How networks are trained: AdamW on batches of pairs, an average of the iterates, one loop."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch.optim.adamw import adamw

from pairlearn.estimators.shared.solvers import SOLVERS, Solver
from pairlearn.progress import Progress
from pairlearn.torch.pairwise import divergence
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_number, check_positive

#: An epoch has at least this many batches, so with few examples it is several passes.
_LEAST_BATCHES = 16
#: max_epochs="auto" takes so many steps times the number of examples to this power,
_STEPS, _POWER = 1.4, 0.75
#: but at least, and at most, this many.
_FEWEST_STEPS, _MOST_STEPS = 96, 1600
#: The average of the iterates looks back over this share of the run.
_LOOKS_BACK = 0.05
#: n_networks="auto" trains networks until together they have seen this many examples,
_EXAMPLES = 30_000
#: but at most this many networks.
_MOST_NETWORKS = 5
#: Numbers of a layer and a batch up to which several threads gain nothing.
_FEW_NUMBERS = 32_768


@SOLVERS.add("adam")
@dataclass(frozen=True, repr=False)
class Adam(Solver):
    """AdamW on batches of pairs, with early stopping; the solver of networks.

    Parameters
    ----------
    learning_rate : float, default=0.003
        The first step size. It falls along half a cosine to zero at the last step.
    weight_decay : float, default=0.0001
        The weight decay.
    batch_size : int or "auto", default="auto"
        The number of examples in a batch. "auto" is 512 for `NeuralAUCClassifier` and 256 for
        `EmbeddingLearner`, or all examples if they are fewer.
    max_epochs : int or "auto", default="auto"
        The number of epochs of a network. An epoch has as many batches as the examples fill, but at
        least 16. "auto" makes it 1.4 n^(3/4) steps for n examples: 96 for up to 280 of them, 1,600
        from 12,000 on.
    patience : int or None, default=None
        Training ends after this many epochs without a better held-out score. None takes all
        epochs; the best one is kept in either case.
    n_networks : int or "auto", default="auto"
        The number of networks that `NeuralAUCClassifier` averages. "auto" is 5 for up to 6,000
        examples, fewer for more, 1 from 20,000. `EmbeddingLearner` trains one network.

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
        for name, least in (("batch_size", 2), ("max_epochs", 1), ("n_networks", 1)):
            if getattr(self, name) != "auto":
                check_count(name, getattr(self, name), minimum=least)
        if self.patience is not None:
            check_count("patience", self.patience)

    def plan(self, n: int, *, usual: int, worth: float | None = None) -> Plan:
        """Return how a network goes through n examples, in batches of the `usual` size if "auto".

        The examples are worth as many steps as `worth` examples, n by default.
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

    def networks_for(self, n: int) -> int:
        """Return the number of networks for n examples."""
        if self.n_networks != "auto":
            return int(self.n_networks)
        return int(np.clip(round(_EXAMPLES / n), 1, _MOST_NETWORKS))


@dataclass(frozen=True)
class Plan:
    """How a network goes through its examples: passes and batches are those of one epoch."""

    batch_size: int
    n_passes: int
    n_batches: int
    n_epochs: int


@dataclass
class History:
    """The course of the training, epoch by epoch."""

    #: Mean loss of the batches.
    losses: list[float] = field(default_factory=list)
    #: The score of the average on held-out examples; empty without them.
    held_out: list[float] = field(default_factory=list)
    #: The epoch whose network was kept, the first is 1.
    best_epoch: int = 0


class Run:
    """The training of one network.

    `epoch` yields the rows of each batch, `objective(outputs, rows)` is the loss of one. The
    average of the iterates gives recent ones exponentially larger weights; it is what predicts, as
    in the paper's algorithms.
    """

    def __init__(
        self,
        network: Any,
        take: Callable[[Any], Any],
        epoch: Callable[[], Iterable[Any]],
        objective: Callable[[Any, Any], Any],
    ) -> None:
        self.network, self.average = network, copy.deepcopy(network)
        self._take, self._epoch, self._objective = take, epoch, objective
        self._learned = [one for one in network.parameters() if one.requires_grad]
        # The state of `adamw`, the function behind `torch.optim.AdamW`. The class loads PyTorch's
        # compiler when it is made, which takes longer than to train a small network.
        self._means = [torch.zeros_like(one) for one in self._learned]
        self._squares = [torch.zeros_like(one) for one in self._learned]
        self._steps = [torch.zeros((), device=one.device) for one in self._learned]
        self.history, self._n_steps = History(), 0

    def learn(self, solver: Adam, plan: Plan) -> None:
        """Go through one epoch."""
        n_steps = plan.n_batches * plan.n_epochs
        horizon = max(round(_LOOKS_BACK * n_steps), 1)
        self.network.train()
        values = []
        for rows in self._epoch():
            fallen = 0.5 * (1.0 + math.cos(math.pi * self._n_steps / n_steps))
            for one in self._learned:
                one.grad = None
            value = self._objective(self.network(self._take(rows)), rows)
            value.backward()
            self._move(solver.learning_rate * fallen, solver.weight_decay)
            # The first iterates, far from the end, are soon forgotten.
            self._mix(max(1.0 / horizon, 10.0 / (self._n_steps + 11.0)))
            self._n_steps += 1
            values.append(value.detach())
        losses = torch.stack(values).double().cpu().numpy()
        if not np.isfinite(losses).all():
            step = self._n_steps - len(losses) + int(np.argmin(np.isfinite(losses))) + 1
            raise divergence("The loss", step)
        self.history.losses.append(float(losses.mean()))

    def _move(self, rate: float, decay: float) -> None:
        """Take a step of AdamW; parameters without a gradient stay."""
        moved = [k for k, one in enumerate(self._learned) if one.grad is not None]
        parts = (self._learned, self._means, self._squares, self._steps)
        parameters, means, squares, steps = ([part[k] for k in moved] for part in parts)
        with torch.no_grad():
            adamw(
                parameters, [one.grad for one in parameters], means, squares, [], steps,
                fused=True, amsgrad=False, maximize=False,
                beta1=0.9, beta2=0.999, eps=1e-8, lr=rate, weight_decay=decay,
            )  # fmt: skip

    def _mix(self, share: float) -> None:
        """Move the average towards the network."""
        both = (chain(each.parameters(), each.buffers()) for each in (self.average, self.network))
        with torch.no_grad():
            for mean, now in zip(*both, strict=True):
                if mean.is_floating_point():
                    mean.lerp_(now, share)
                else:
                    mean.copy_(now)


def train(
    runs: Sequence[Run],
    solver: Adam,
    plan: Plan,
    *,
    judge: Callable[[int, Any], float] | None,
    chooses: bool = True,
    title: str = "",
) -> list[Any]:
    """Train networks side by side and return their averages of the best epoch.

    `judge` returns the score of the network of a number on the examples that it has not seen. The
    best epoch is that of the largest mean over networks. Without a judge, or if it has too few
    examples to choose by (`chooses`), the last epoch counts. A `title` asks for a progress bar.
    """
    best, best_epoch, kept = -math.inf, 0, [run.average for run in runs]
    shown = bool(title)
    with Progress(
        plan.n_epochs, label=title, unit="epochs", quiet=not shown, asked_for=shown
    ) as bar:
        for epoch in range(1, plan.n_epochs + 1):
            for k, run in enumerate(runs):
                run.learn(solver, plan)
                if judge is not None:
                    run.history.held_out.append(judge(k, run.average.eval()))
            mean = np.mean([run.history.held_out[-1] for run in runs]) if judge else math.inf
            if judge is None or not chooses:
                best_epoch = epoch
            elif mean > best:
                best, best_epoch = float(mean), epoch
                kept = [copy.deepcopy(run.average) for run in runs]
            if title:
                loss = np.mean([run.history.losses[-1] for run in runs])
                said = f", held-out score {mean:.4f}" if judge else ""
                bar.update(epoch, note=f"loss {loss:.4g}{said}")
            if solver.patience is not None and epoch - best_epoch >= solver.patience:
                break
    for run, average in zip(runs, kept, strict=True):
        run.history.best_epoch = best_epoch
        # What the last step did, no loss has seen.
        if not all(bool(torch.isfinite(one).all()) for one in average.parameters()):
            raise divergence("The network", plan.n_batches * len(run.history.losses))
    return [average.cpu().eval() for average in kept]


def rows_on(X: Any, transform: Callable[[Any], Vector], device: Any) -> Callable[[Any], Any]:
    """Return what takes some rows to the device, in single precision.

    A dense table moves at once; sparse rows are made dense when they are asked for.
    """

    def moved(rows: Any) -> Any:
        return torch.from_numpy(transform(rows).astype(np.float32)).to(device)

    if hasattr(X, "tocsr"):
        return lambda index: moved(X[np.asarray(torch.as_tensor(index).cpu())])
    table = moved(X)
    return lambda index: table[torch.as_tensor(index, device=device)]


def as_device(device: Any) -> Any:
    """Return the device that a parameter asks for: "auto" is the first GPU, else the CPU."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(
            f'device must be "auto", "cpu", "cuda" or "cuda:1", got {device!r}.'
        ) from None
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f'device must be the CPU or a CUDA device, got "{found}"; use "auto".')
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found.type == "cuda" and (found.index or 0) >= count:
        has = f"has {count} of them" if count else "has none"
        raise ValueError(
            f'device="{found}" needs a CUDA device, this machine {has}; use "auto" or "cpu".'
        )
    return found


@contextmanager
def own_randomness(seed: int, device: Any = "cpu") -> Iterator[None]:
    """Draw initial weights and dropout from a seed, and leave the generators of others alone."""
    devices = [device] if torch.device(device).type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        # `torch.manual_seed` would seed every GPU, and only the state of this one is put back.
        torch.default_generator.manual_seed(seed)
        for gpu in devices:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def few_threads(network: Any, batch_size: int, device: Any) -> Iterator[None]:
    """Train a network with small layers by one thread: more of them wait for each other."""
    widest = max(len(one) if one.ndim else 1 for one in network.parameters())
    before = torch.get_num_threads()
    if device.type == "cpu" and batch_size * widest <= _FEW_NUMBERS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
