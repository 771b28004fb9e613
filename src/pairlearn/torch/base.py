# SPDX-License-Identifier: BSD-3-Clause
"""The common base of the neural estimators: training, streams, scores, and the model file."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.examples import validate_data
from pairlearn.estimators.shared.published import Attribute, publish, published
from pairlearn.estimators.shared.solvers import SOLVERS, Solver
from pairlearn.estimators.shared.storage import Storable
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.progress import Progress
from pairlearn.solvers.streams.settings import keep_settings
from pairlearn.torch.devices import as_device, own_randomness, threads_for
from pairlearn.torch.networks import (
    MLP,
    Beside,
    as_network,
    bare,
    blank_network,
    check_network,
    check_unchanged,
    make_network,
    outputs,
    pieces_of,
    restore_vector,
    state_vector,
)
from pairlearn.torch.standardise import Standardiser
from pairlearn.torch.table import Table
from pairlearn.torch.training import Adam, Course, History, Learner, Plan, train
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction, check_generator, check_verbose

#: The network that `load` was given, for models that were trained with one of the user's own.
_GIVEN: ContextVar[Any] = ContextVar("given network", default=None)
#: The number of steps that the average of a stream looks back.
_STREAM_HORIZON = 100
#: How scikit-learn checks examples.
RULES: Mapping[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class NeuralEstimator(Storable):
    """Base class: networks on standardised features, trained with early stopping."""

    network: Any
    solver: str | Solver
    validation_fraction: float | str
    device: Any
    random_state: Any
    verbose: int
    n_features_in_: int
    held_out_: float | None
    history_: list[History]
    n_outputs_: int
    n_examples_: int
    device_: str
    _learners: list[Learner] | None

    networks_: Any = Attribute()
    scaler_: Any = Attribute()

    #: Whether the estimator averages several networks.
    _several: ClassVar[bool] = False
    #: Parameters that a stream does not look at again once it has begun.
    _kept: ClassVar[tuple[str, ...]] = ("loss", "network", "solver")
    _not_stored = ("random_state", "device")
    _takes_sparse = True
    _facts: ClassVar[Mapping[str, type]] = {"history_": list}
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "weights": ArraySpec(("n_weights",)),
        "n_networks": ArraySpec((), ("int64",), low=1, high=1000),
        "pieces": ArraySpec(("n_pieces",), ("int64",), required=False, low=0, high=1 << 20),
        "lines": ArraySpec(("n_lines", "n_features"), required=False),
        "n_outputs": ArraySpec((), ("int64",), low=1),
        "n_seen": ArraySpec((), low=0.0),
        "centre": ArraySpec(("n_features",)),
        "squares": ArraySpec(("n_features",), low=0.0),
        "low": ArraySpec(("n_features",)),
        "high": ArraySpec(("n_features",)),
        "n_examples": ArraySpec((), ("int64",), low=0),
        "held_out": ArraySpec((), required=False, low=0.0, high=1.0),
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @property
    def _adam(self) -> Adam:
        """The solver, checked."""
        solver, name = SOLVERS.make(self.solver), type(self).__name__
        if not isinstance(solver, Adam):
            raise ValueError(f'{name} takes solver="adam" or an Adam, got {solver!r}.')
        if solver.n_networks not in ("auto", 1) and not self._several:
            raise ValueError(
                f"{name} trains one network, got n_networks={solver.n_networks!r}; leave it out."
            )
        return solver

    def _check_training(self) -> None:
        self._adam  # noqa: B018 - it checks
        as_network(self.network)
        self._held_share(2)
        check_verbose(self.verbose)

    def _held_share(self, n: int) -> float:
        """Return the share of n examples that is held out."""
        if isinstance(self.validation_fraction, str):
            raise ValueError(
                "validation_fraction must be a number between 0 and 1, got "
                f"{self.validation_fraction!r}."
            )
        return check_fraction("validation_fraction", self.validation_fraction)

    def _remembered(self, usual: int) -> int | None:
        """Return the size of the memory for ``pairing="memory"``; else None, if it is the usual."""
        given: Any = self.get_params(deep=False)  # type: ignore[attr-defined]
        pairing, memory = given["pairing"], given["memory"]
        if pairing != "memory" and memory != usual:
            raise ValueError(
                f'pairing="{pairing}" would ignore memory={memory!r}; leave it out, or use '
                'pairing="memory".'
            )
        return memory if pairing == "memory" else None

    def _learner(
        self, seed: int, n_outputs: int, loss: Any, table: Table, plan: Plan, number: int = 1
    ) -> Learner:
        """Return a learner of `fit` with a new network, the one of a number if they take turns."""
        network, d = as_network(self.network), self.n_features_in_
        n_pieces = network.pieces_for(d, number) if isinstance(network, MLP) else 0
        with own_randomness(seed, table.device):
            made = make_network(network, d, n_outputs, n_pieces)
            check_network(made, d, n_outputs)
        if n_pieces:
            made[0].place(table.knots(n_pieces + 1))
        return self._going_on(made.float(), loss, table.device, plan)

    def _going_on(self, network: Any, loss: Any, device: Any, plan: Plan | None = None) -> Learner:
        """Return a learner that starts from a network."""
        loss.relative_weights = True
        return Learner(
            network.to(device), loss.to(device), self._adam, plan=plan, horizon=_STREAM_HORIZON
        )

    def _train(
        self,
        courses: Sequence[Course],
        plan: Plan,
        judge: Callable[[int, Vector], float],
        table: Table,
        held: Sequence[NDArray[np.int64]],
        *,
        metric: str,
        seed: int,
        chooses: bool = True,
    ) -> tuple[list[Any], list[History]]:
        """Train networks side by side.

        `judge` hears the number of a network and what it says of the rows of the table that are
        held out from it, if there are some.
        """
        places = [torch.from_numpy(rows).to(table.device) for rows in held]

        def judged(k: int, network: Any) -> float:
            network.eval()
            with torch.no_grad():
                told = [network(rows).reshape(len(rows), -1) for rows in table.blocks(places[k])]
            return judge(k, torch.cat(told).double().cpu().numpy())

        with ExitStack() as stack:
            stack.enter_context(own_randomness(seed, table.device))
            network = courses[0].learner.network
            stack.enter_context(threads_for(network, plan.batch_size, table.device))
            bar = None
            if self.verbose:
                title = f"{len(courses)} network{'s' * (len(courses) > 1)} on {table.device}"
                bar = Progress(plan.n_epochs, label=title, unit="epochs", asked_for=True)
                stack.enter_context(bar)

            def told(epoch: int, histories: Sequence[History]) -> None:
                if bar is not None:
                    note = f"loss {np.mean([each.losses[-1] for each in histories]):.4g}"
                    if histories[0].held_out:
                        best = np.mean([each.held_out[each.best_epoch - 1] for each in histories])
                        note += f", held-out {metric} {best:.4f}"
                    bar.update(epoch, note=note)

            networks, histories = train(
                courses,
                n_epochs=plan.n_epochs,
                patience=self._adam.patience,
                judge=judged if held and all(map(len, held)) else None,
                chooses=chooses,
                told=told,
            )
        return [network.cpu().eval() for network in networks], histories

    def _adopt(self, network: Any, history: History, table: Table) -> None:
        """Become the model of one network that was trained on a table."""
        self.history_ = [history]
        found = history.held_out
        self.held_out_ = found[history.best_epoch - 1] if found else None
        self.device_, self.n_examples_ = str(table.device), len(table)
        self._learners = None
        publish(self, networks_=(network,), scaler_=table.scaler)

    def _table(
        self,
        X: Any,
        labels: Sequence[NDArray[Any]],
        weight: Vector,
        *,
        counts: Vector | None = None,
        model: Mapping[str, Any] | None = None,
    ) -> Table:
        """Return examples in scales of their own, or in those of a model that has now seen them.

        `counts` are the weights in scales and knots, if they are not `weight`.
        """
        counts = weight if counts is None else counts
        seen = (model or {}).get("scaler_", Standardiser.none(X.shape[1]))
        scaler = seen.seen_with(X, counts)
        return Table(X, labels, weight, scaler, as_device(self.device), counts=counts)

    def _stream_learners(
        self, model: Mapping[str, Any], n_outputs: int, loss: Any, device: Any
    ) -> list[Learner]:
        """Return the learners that a chunk goes on with: one network, or all those of a fit.

        They are copies: a chunk that fails has changed nothing.
        """
        running: list[Learner] | None = self.__dict__.get("_learners")
        keep_settings(self, self._kept, begun=running is not None)
        if running is not None:
            return copy.deepcopy(running)
        if not model:
            seed = int(check_generator(self.random_state).integers(2**31))
            network = as_network(self.network)
            if isinstance(network, MLP) and network.needs_examples:
                raise ValueError(
                    f"MLP(pieces={network.pieces!r}) puts knots at quantiles, which the first "
                    "chunk of a stream does not know; use fit first, or pieces=0."
                )
            with own_randomness(seed, device):
                made = make_network(network, self.n_features_in_, n_outputs)
                check_network(made, self.n_features_in_, n_outputs)
            return [self._going_on(made.float(), loss, device)]
        for network in model["networks_"]:
            check_unchanged(self.network, bare(network), self.n_features_in_, n_outputs)
            check_network(network, self.n_features_in_, n_outputs)
        return [
            self._going_on(copy.deepcopy(network), copy.deepcopy(loss), device)
            for network in model["networks_"]
        ]

    def _averages(self, learners: Sequence[Learner]) -> tuple[Any, ...]:
        """Return copies of the networks that predict."""
        for learner in learners:
            learner.check_finite(learner.average)
        return tuple(copy.deepcopy(learner.average).cpu().eval() for learner in learners)

    def _learn_in_order(
        self,
        learners: Sequence[Learner],
        table: Table,
        batches: Sequence[NDArray[np.int64]],
        *,
        first: bool,
        n_outputs: int,
    ) -> None:
        """Let each learner take the batches of a chunk in order, and note the chunk."""
        for learner in learners:
            for index in batches:
                learner.step(table.batch(index))
        if first:
            self.held_out_, self.history_ = None, []
            self.n_outputs_, self.n_examples_ = n_outputs, 0
        self.n_examples_ += len(table)
        self.device_ = str(table.device)

    def _rows(self, X: Any) -> Any:
        return validate_data(self, X, reset=False, **RULES)

    def _fitted(self) -> Mapping[str, Any]:
        """Return the model of this moment; whoever needs more than one part of it asks once."""
        check_is_fitted(self, "networks_")
        return published(self)

    def _outputs(self, X: Any, model: Mapping[str, Any]) -> Vector:
        """Return the mean of what the networks say of checked rows."""
        return outputs(model["networks_"], X, model["scaler_"], as_device(self.device))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, network: Any = None) -> Self:
        """Return the fitted model in a file written by `save`; it predicts the same.

        A model that was trained with a `network` of the user's own needs it again: the file holds
        its numbers, and no code. Nothing in the file is executed.
        """
        with _given(network):
            return super().load(path)

    def _stored_parameters(self) -> dict[str, Any]:
        found = super()._stored_parameters()
        return found if isinstance(self.network, (str, MLP)) else found | {"network": None}

    def _pack(self) -> dict[str, NDArray[Any]]:
        """Return networks, scales and classes as arrays of a model file."""
        model = self._fitted()
        networks = [bare(network) for network in model["networks_"]]
        for network in networks:
            check_unchanged(self.network, network, self.n_features_in_, self.n_outputs_)
        vectors = [state_vector(network) for network in networks]
        scaler: Standardiser = model["scaler_"]
        arrays: dict[str, NDArray[Any]] = {
            "weights": np.concatenate(vectors),
            "n_networks": np.array(len(vectors)),
            "pieces": np.array([pieces_of(network) for network in networks]),
            "n_outputs": np.array(self.n_outputs_),
            "n_seen": np.array(scaler.n_seen),
            "n_examples": np.array(self.n_examples_),
        }
        for name in ("centre", "squares", "low", "high"):
            arrays[name] = getattr(scaler, name)
        lines = [each.line for each in model["networks_"] if isinstance(each, Beside)]
        if lines:
            arrays["lines"] = torch.stack(lines).double().numpy()
        if self.held_out_ is not None:
            arrays["held_out"] = np.array(self.held_out_)
        return arrays

    def _unpack(self, record: ModelRecord) -> None:
        """Restore the estimator from the arrays of a model file."""
        arrays = record.arrays
        count, n_outputs = int(arrays["n_networks"]), int(arrays["n_outputs"])
        d, given = len(arrays["centre"]), _GIVEN.get()
        if (self.network is None) != (given is not None):
            raise ModelFileError(
                "it was trained with a network of its own, whose numbers it holds and whose code "
                f"it does not: {type(self).__name__}.load(path, network=...)."
                if given is None
                else "it was trained without a network of its own; leave out network=."
            )
        self.network = self.network if given is None else given
        stored = record.parameters.get("network")
        if isinstance(self.network, MLP) and "activation" not in (stored or {}):
            # A file from before layers had a choice: they were rectified.
            self.network = replace(self.network, activation="relu")
        self._check_training()
        network, weights = as_network(self.network), arrays["weights"]
        # Files from before networks had pieces do not name them.
        pieces = arrays.get("pieces", np.zeros(count, dtype=np.int64)).tolist()
        if len(pieces) != count:
            raise ModelFileError(f"it names the pieces of {len(pieces)} networks, and has {count}.")
        if isinstance(network, MLP):
            # Before anything is allocated: a file may name layers of any width.
            sizes = [network.size(d, n_outputs, n_pieces) for n_pieces in pieces]
            if sum(sizes) != len(weights):
                raise ModelFileError(
                    f"it has {len(weights)} weights, {count} networks of this shape {sum(sizes)}."
                )
        elif any(pieces) or len(weights) % count:
            raise ModelFileError(f"its {len(weights)} weights are not those of {count} networks.")
        else:
            sizes = [len(weights) // count] * count
        lines = arrays.get("lines")
        if lines is not None and (len(lines) != count or n_outputs != 1):
            raise ModelFileError(
                f"it has {len(lines)} lines beside {count} networks of {n_outputs} scores."
            )
        self.n_features_in_ = d
        networks = []
        ends = np.cumsum(sizes)[:-1]
        for k, (vector, n_pieces) in enumerate(zip(np.split(weights, ends), pieces, strict=True)):
            # In single precision, as it was trained, whatever the precision of a module.
            made = blank_network(network, d, n_outputs, n_pieces).float()
            restore_vector(made, vector)
            networks.append((made if lines is None else Beside(made, lines[k])).eval())
        scaler = Standardiser(
            float(arrays["n_seen"]),
            *(arrays[name].copy() for name in ("centre", "squares", "low", "high")),
        )
        self.n_outputs_, self.n_examples_ = n_outputs, int(arrays["n_examples"])
        held_out = arrays.get("held_out")
        self.held_out_ = None if held_out is None else float(held_out)
        self.history_ = []
        self.device_ = str(as_device(self.device))
        self._learners = None
        publish(self, networks_=tuple(networks), scaler_=scaler)


@contextmanager
def _given(network: Any) -> Iterator[None]:
    token = _GIVEN.set(network)
    try:
        yield
    finally:
        _GIVEN.reset(token)
