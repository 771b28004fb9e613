# SPDX-License-Identifier: BSD-3-Clause
"""Small networks for tables: their shape as an object, their weights as one vector."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from pairlearn.models.record import ModelFileError
from pairlearn.register import Part, Register
from pairlearn.torch.standardise import Standardiser
from pairlearn.torch.table import rows_of_a_block
from pairlearn.typing import Vector
from pairlearn.validation import check_count

#: The limit on rows that pass a network together.
_BLOCK = 8192


class Swish(nn.Module):  # type: ignore[misc]
    """u / (1 + exp(-3 u)): a rectifier without a kink, near enough to one to learn as fast.

    Ramachandran, Zoph, Le. Searching for activation functions. 2017.
    """

    def forward(self, rows: Any) -> Any:
        """Return the function of each number."""
        return nn.functional.silu(3.0 * rows) / 3.0


#: Functions of hidden units by name.
ACTIVATIONS: dict[str, Any] = {"swish": Swish, "relu": nn.ReLU}


class Linear(nn.Linear):  # type: ignore[misc]
    """A linear layer that multiplies by its weights in the order of the product.

    Some builds of PyTorch for ARM take half a millisecond to start a product with a transposed
    factor, which is most of the time of a small network. A copy of the weights costs next to
    nothing.
    """

    def forward(self, rows: Any) -> Any:
        """Return rows W^T + b."""
        return rows @ self.weight.t().contiguous() + self.bias


@dataclass(frozen=True, repr=False)
class MLP(Part):
    """Fully connected layers.

    Parameters
    ----------
    hidden : sequence of int, default=(128, 128)
        Widths of the hidden layers.
    dropout : float, default=0.0
        The share of hidden units that training leaves out at random.
    activation : {"swish", "relu"}, default="swish"
        The function of a hidden unit: u / (1 + exp(-3 u)), or the larger of u and 0.

    Examples
    --------
    >>> MLP((32,)).make(4, 1)
    Sequential(
      (0): Linear(in_features=4, out_features=32, bias=True)
      (1): Swish()
      (2): Linear(in_features=32, out_features=1, bias=True)
    )
    """

    hidden: Sequence[int] = (128, 128)
    dropout: float = 0.0
    activation: str = "swish"

    def __post_init__(self) -> None:
        if isinstance(self.hidden, str) or not isinstance(self.hidden, Sequence):
            raise TypeError(f"hidden must be a sequence of widths, got {self.hidden!r}.")
        widths = tuple(check_count("hidden", width) for width in self.hidden)
        object.__setattr__(self, "hidden", widths)
        if not 0.0 <= float(self.dropout) < 1.0:
            raise ValueError(f"dropout must lie in [0, 1), got {self.dropout!r}.")
        if self.activation not in ACTIVATIONS:
            names = ", ".join(f'"{name}"' for name in ACTIVATIONS)
            raise ValueError(f"activation must be one of {names}, got {self.activation!r}.")

    def make(self, n_inputs: int, n_outputs: int) -> Any:
        """Return a new module with random weights."""
        layers: list[Any] = []
        for before, width in pairwise((n_inputs, *self.hidden)):
            layers += [Linear(before, width), ACTIVATIONS[self.activation]()]
            if self.dropout:
                layers.append(nn.Dropout(self.dropout))
        return nn.Sequential(*layers, Linear((n_inputs, *self.hidden)[-1], n_outputs))

    def size(self, n_inputs: int, n_outputs: int) -> int:
        """Return the number of weights."""
        widths = (n_inputs, *self.hidden, n_outputs)
        return sum((before + 1) * width for before, width in pairwise(widths))


NETWORKS: Register[MLP] = Register("network", MLP)
NETWORKS.add("mlp")(MLP)


def as_network(given: Any) -> Any:
    """Return the `MLP` that is named or given, or the user's own module or function."""
    if isinstance(given, (str, MLP)):
        return NETWORKS.make(given)
    if not callable(given):
        raise TypeError(
            'network must be "mlp", an MLP, a module, or a function of the number of features that '
            f"makes a module, got {given!r}."
        )
    return given


def make_network(given: Any, n_inputs: int, n_outputs: int) -> Any:
    """Return a new network; a given module is copied, with its weights."""
    network = as_network(given)
    if isinstance(network, MLP):
        return network.make(n_inputs, n_outputs)
    if isinstance(network, nn.Module):
        return copy.deepcopy(network)
    made = network(n_inputs)
    if not isinstance(made, nn.Module):
        raise TypeError(f"the function network must return a module, got {type(made).__name__}.")
    return made


def outputs(networks: Sequence[Any], X: Any, scaler: Standardiser, device: Any) -> Vector:
    """Return the mean of what networks say of rows, of shape (n, n_outputs).

    In double precision, so that a score does not depend on which rows pass together; a block at a
    time, so that sparse rows are not dense all at once.
    """
    exact = [copy.deepcopy(network).double().to(device).eval() for network in networks]
    found = []
    size = rows_of_a_block(X.shape[1], _BLOCK)
    with torch.no_grad():
        for begin in range(0, X.shape[0], size):
            block = np.ascontiguousarray(scaler.transform(X[begin : begin + size]))
            rows = torch.from_numpy(block).to(device)
            told = [network(rows).reshape(len(rows), -1).cpu().numpy() for network in exact]
            found.append(np.mean(told, axis=0))
    return np.concatenate(found) if found else np.empty((0, 1))


def state_vector(network: Any) -> Vector:
    """Return all numbers of a network, in the order of its `state_dict`; float64 holds each."""
    parts = [value.detach().cpu().double().ravel() for value in network.state_dict().values()]
    return np.asarray(torch.cat(parts).numpy()) if parts else np.empty(0)


def restore_vector(network: Any, vector: Vector) -> None:
    """Give a network the numbers that `state_vector` returned."""
    state = network.state_dict()
    sizes = [value.numel() for value in state.values()]
    if sum(sizes) != len(vector):
        raise ModelFileError(
            f"its network has {len(vector)} numbers, this one {sum(sizes)}; pass the network that "
            "it was trained with."
        )
    parts = torch.split(torch.from_numpy(np.array(vector)), sizes)
    network.load_state_dict(
        {
            name: part.reshape(value.shape).to(value.dtype)
            for (name, value), part in zip(state.items(), parts, strict=True)
        }
    )
