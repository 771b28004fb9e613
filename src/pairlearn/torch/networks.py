# SPDX-License-Identifier: BSD-3-Clause
"""Small networks for tables, and their numbers as one vector."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from pairlearn.models.record import ModelFileError
from pairlearn.torch.standardise import Standardiser
from pairlearn.torch.table import rows_of_a_block
from pairlearn.typing import Vector
from pairlearn.validation import check_count

__all__ = [
    "check_hidden",
    "make_network",
    "outputs",
    "perceptron",
    "restore_vector",
    "state_vector",
]

#: Most rows that pass a network together.
_BLOCK = 8192


def check_hidden(hidden: Sequence[int]) -> tuple[int, ...]:
    """Return the widths of the hidden layers."""
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):
        raise TypeError(f"hidden must be a sequence of widths, got {hidden!r}.")
    return tuple(check_count("hidden", width) for width in hidden)


def perceptron(n_inputs: int, hidden: Sequence[int], n_outputs: int, dropout: float) -> Any:
    """Return a network of fully connected layers with rectified linear units."""
    layers: list[Any] = []
    for before, width in pairwise((n_inputs, *hidden)):
        layers += [nn.Linear(before, width), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Linear((n_inputs, *hidden)[-1], n_outputs))


def perceptron_size(n_inputs: int, hidden: Sequence[int], n_outputs: int) -> int:
    """Return how many numbers `perceptron` has."""
    return sum((before + 1) * width for before, width in pairwise((n_inputs, *hidden, n_outputs)))


def make_network(
    given: Any | Callable[[int], Any] | None,
    n_inputs: int,
    hidden: Sequence[int],
    n_outputs: int,
    dropout: float,
) -> Any:
    """Return a new network: a copy of a given one, what a function makes, or fully connected."""
    if given is None:
        return perceptron(n_inputs, hidden, n_outputs, dropout)
    if isinstance(given, nn.Module):
        return copy.deepcopy(given)
    if not callable(given):
        raise TypeError(
            f"network must be a module, or a function of the number of features that makes one, "
            f"got {given!r}."
        )
    made = given(n_inputs)
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
