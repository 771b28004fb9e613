# SPDX-License-Identifier: BSD-3-Clause
"""The common base of the two network estimators: parameters, predictions, and the model file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.examples import validate_data
from pairlearn.estimators.shared.solvers import SOLVERS, Solver
from pairlearn.estimators.shared.storage import Storable
from pairlearn.features import Hats
from pairlearn.models.record import ArraySpec, ModelFileError, ModelRecord
from pairlearn.torch.networks import (
    MLP,
    Beside,
    as_network,
    bare,
    blank_network,
    check_network,
    make_network,
    outputs,
    pieces_of,
    restore_vector,
    state_vector,
)
from pairlearn.torch.standardise import Standardiser
from pairlearn.torch.training import Adam, History, as_device, few_threads, own_randomness
from pairlearn.typing import Places, Vector
from pairlearn.validation import check_fraction, check_verbose

#: The network that `load` was given, for models that were trained with one of the user's own.
_NETWORK: ContextVar[Any] = ContextVar("network of the user", default=None)
#: How scikit-learn checks examples.
RULES: Mapping[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class NeuralEstimator(Storable):
    """Base class: networks on standardised features."""

    network: Any
    solver: str | Solver
    validation_fraction: float | str
    device: Any
    verbose: int
    n_features_in_: int
    networks_: tuple[Any, ...]
    held_out_: float | None
    history_: list[History]
    n_outputs_: int
    n_examples_: int
    device_: str
    _scaler: Standardiser
    #: The network as it was described when it was trained.
    _described: Any

    _not_stored = ("random_state", "device")
    _takes_sparse = True
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "weights": ArraySpec(("n_weights",)),
        "pieces": ArraySpec(("n_networks",), ("int64",), low=0, high=1 << 20),
        "lines": ArraySpec(("n_networks", "n_features"), required=False),
        "n_outputs": ArraySpec((), ("int64",), low=1),
        "centre": ArraySpec(("n_features",)),
        "factor": ArraySpec(("n_features",), low=0.0),
        "n_examples": ArraySpec((), ("int64",), low=0),
        "held_out": ArraySpec((), required=False, low=0.0, high=1.0),
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _adam(self) -> Adam:
        """Return the solver; check it, and the other parameters of every training."""
        solver = SOLVERS.make(self.solver)
        if not isinstance(solver, Adam):
            raise ValueError(
                f'{type(self).__name__} takes solver="adam" or an Adam, got {solver!r}.'
            )
        as_network(self.network)
        check_verbose(self.verbose)
        return solver

    def _held_share(self, n: int) -> float:
        """Return the share of n examples that is held out."""
        if isinstance(self.validation_fraction, str):
            raise ValueError(
                "validation_fraction must be a number between 0 and 1, got "
                f"{self.validation_fraction!r}."
            )
        return check_fraction("validation_fraction", self.validation_fraction)

    def _new_network(
        self,
        seed: int,
        n_outputs: int,
        X: Any,
        units: Standardiser,
        counts: Vector,
        *,
        number: int = 1,
    ) -> Any:
        """Return a new network, the one of a number if they take turns, with knots among the rows.

        `counts` say how often each row counts; empty if once.
        """
        described, d = as_network(self.network), X.shape[1]
        n_pieces = described.pieces_for(d, number) if isinstance(described, MLP) else 0
        with own_randomness(seed):
            network = make_network(described, d, n_outputs, n_pieces)
            check_network(network, d, n_outputs)
        if n_pieces:
            weight = {"sample_weight": counts} if len(counts) else {}
            hats = Hats(n_pieces + 1).fit(X, rng=0, **weight)
            both = enumerate(zip(units.centre, units.factor, strict=True))
            network[0].place([(hats.knots_of(k) - a) * b for k, (a, b) in both])
        return network.float()

    @contextmanager
    def _training(self, network: Any, seed: int, batch_size: int, device: Any) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(own_randomness(seed, device))
            stack.enter_context(few_threads(network, batch_size, device))
            yield

    def _note_fit(self, n_examples: int, n_outputs: int, device: Any) -> None:
        self._described = self.network
        self.device_, self.n_outputs_, self.n_examples_ = str(device), n_outputs, n_examples

    def _outputs(self, X: Any) -> Vector:
        """Return the mean of what the networks say of the rows of a user."""
        check_is_fitted(self, "networks_")
        X = validate_data(self, X, reset=False, **RULES)
        return outputs(self.networks_, X, self._scaler, as_device(self.device))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, network: Any = None) -> Self:
        """Return the fitted model in a file written by `save`; it predicts the same.

        A model that was trained with a `network` of the user's own needs it again: the file holds
        its numbers, and no code. Nothing in the file is executed.
        """
        token = _NETWORK.set(network)
        try:
            return super().load(path)
        finally:
            _NETWORK.reset(token)

    def _stored_parameters(self) -> dict[str, Any]:
        check_is_fitted(self, "networks_")
        described = self._described if isinstance(self._described, (str, MLP)) else None
        return super()._stored_parameters() | {"network": described}

    def _pack(self) -> dict[str, NDArray[Any]]:
        networks = [bare(network) for network in self.networks_]
        arrays: dict[str, NDArray[Any]] = {
            "weights": np.concatenate([state_vector(network) for network in networks]),
            "pieces": np.array([pieces_of(network) for network in networks]),
            "n_outputs": np.array(self.n_outputs_),
            "n_examples": np.array(self.n_examples_),
            "centre": self._scaler.centre,
            "factor": self._scaler.factor,
        }
        lines = [each.line for each in self.networks_ if isinstance(each, Beside)]
        if lines:
            arrays["lines"] = torch.stack(lines).double().numpy()
        if self.held_out_ is not None:
            arrays["held_out"] = np.array(self.held_out_)
        return arrays

    def _unpack(self, record: ModelRecord) -> None:
        arrays = record.arrays
        weights, pieces, n_outputs = arrays["weights"], arrays["pieces"], int(arrays["n_outputs"])
        count, d, passed = len(pieces), len(arrays["centre"]), _NETWORK.get()
        if self.network is None and passed is None:
            raise ModelFileError(
                "it was trained with a network of its own, whose numbers it holds and whose code "
                f"it does not: {type(self).__name__}.load(path, network=...)."
            )
        if self.network is not None and passed is not None:
            raise ModelFileError("it was trained without a network of its own; leave out network=.")
        self.network = passed if self.network is None else self.network
        self._adam()
        described = as_network(self.network)
        if isinstance(described, MLP):
            # Before anything is allocated: a file may name layers of any width.
            sizes = [described.size(d, n_outputs, int(n_pieces)) for n_pieces in pieces]
        else:
            sizes = [len(weights) // max(count, 1)] * count
        if not count or sum(sizes) != len(weights) or (passed is not None and pieces.any()):
            raise ModelFileError(
                f"it has {len(weights)} weights, {count} networks of this shape {sum(sizes)}."
            )
        lines = arrays.get("lines")
        networks = []
        for k, vector in enumerate(np.split(weights, np.cumsum(sizes)[:-1])):
            # In single precision, as it was trained, whatever the precision of a module.
            made = blank_network(described, d, n_outputs, int(pieces[k])).float()
            restore_vector(made, vector)
            networks.append((made if lines is None else Beside(made, lines[k])).eval())
        self.networks_, self.n_features_in_ = tuple(networks), d
        self._scaler = Standardiser(arrays["centre"].copy(), arrays["factor"].copy())
        held_out = arrays.get("held_out")
        self.held_out_ = None if held_out is None else float(held_out)
        self.history_ = []
        self._note_fit(int(arrays["n_examples"]), n_outputs, as_device(self.device))


def folds_of(classes: NDArray[Any], n_folds: int, rng: np.random.Generator) -> Places:
    """Deal examples to folds at random, class by class, so that each fold has its share of each."""
    order = rng.permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    fold = np.empty(len(classes), dtype=np.int64)
    fold[order] = np.arange(len(classes)) % n_folds
    return fold
