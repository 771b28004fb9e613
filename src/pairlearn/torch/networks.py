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
from pairlearn.torch.training import own_randomness
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_flag

#: Limits on the rows that pass a network together, and on their numbers.
_BLOCK, _NUMBERS = 8192, 2**21

#: pieces="auto" takes about so many in all, at most so many of a feature, and two for up to so many
#: features.
_PIECES, _MOST_PIECES, _MOST_BROKEN = 64, 16, 64
#: A shorter piece, in standard units, is too steep for single precision.
_LEAST_PIECE = 1e-6


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


class Broken(nn.Module):  # type: ignore[misc]
    """A first layer that sees features, and where they lie between knots.

    W x + V z + b, where z holds 2 (x_j - a) / (a' - a) - 1, cut off at -1 and 1, for each pair of
    neighbouring knots a < a' of each feature: sums of them are broken lines.

    Gorishniy, Rubachev, Babenko. On embeddings for numerical features in tabular deep learning.
    NeurIPS 2022.
    """

    def __init__(self, n_inputs: int, width: int, n_pieces: int) -> None:
        super().__init__()
        self.n_pieces = n_pieces
        # Where no knots are, a piece is 0.
        for name in ("slope", "shift"):
            self.register_buffer(name, torch.zeros(n_inputs, n_pieces))
        self.straight = Linear(n_inputs, width)
        self.broken = Linear(n_inputs * n_pieces, width)

    def place(self, knots: Sequence[Vector]) -> None:
        """Put the knots of each feature, increasing; a single piece would be the feature again."""
        for j, own in enumerate(knots):
            begin, gap = own[:-1], np.diff(own)
            if len(gap) < 2:
                continue
            wide = gap > _LEAST_PIECE
            slope = np.divide(2.0, gap, out=np.zeros_like(gap), where=wide)
            self.slope[j, : len(gap)] = torch.from_numpy(slope)
            self.shift[j, : len(gap)] = torch.from_numpy(np.where(wide, -begin * slope - 1.0, 0.0))

    def forward(self, rows: Any) -> Any:
        """Return what the units of the first layer hear."""
        placed = torch.addcmul(self.shift, rows.unsqueeze(-1), self.slope).clamp(-1.0, 1.0)
        return self.straight(rows) + self.broken(placed.flatten(-2))


class Beside(nn.Module):  # type: ignore[misc]
    """A network with a linear score beside it: f(x) + w^T x, where w is no longer learned."""

    def __init__(self, network: Any, line: Vector) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("line", torch.from_numpy(line.astype(np.float32)))

    def forward(self, rows: Any) -> Any:
        """Return the sums of both scores."""
        told = self.network(rows)
        return told + (rows @ self.line).reshape(told.shape)


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
    pieces : int or "auto", default="auto"
        The first layer sees each feature, and beside it so many pieces of a broken line with knots
        at quantiles. 0 leaves them out. "auto" gives them to every second network of a
        `NeuralAUCClassifier`, the first included: about 64 in all, from 2 to 16 a feature, and none
        from 65 features on. Others have none.
    line : bool, default=True
        Whether several networks of a `NeuralAUCClassifier` may have a linear score beside them, see
        there. Others have none.

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
    pieces: int | str = "auto"
    line: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.hidden, str) or not isinstance(self.hidden, Sequence):
            raise TypeError(f"hidden must be a sequence of widths, got {self.hidden!r}.")
        widths = tuple(check_count("hidden", width) for width in self.hidden)
        object.__setattr__(self, "hidden", widths)
        if not isinstance(self.dropout, int | float | np.number) or not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout must lie in [0, 1), got {self.dropout!r}.")
        if self.activation not in ACTIVATIONS:
            names = ", ".join(f'"{name}"' for name in ACTIVATIONS)
            raise ValueError(f"activation must be one of {names}, got {self.activation!r}.")
        if self.pieces != "auto":
            check_count("pieces", self.pieces, minimum=0)  # type: ignore[arg-type]
        check_flag("line", self.line)

    @property
    def needs_examples(self) -> bool:
        """Whether knots are asked for, which only `fit` can put."""
        return self.pieces not in ("auto", 0)

    def pieces_for(self, n_inputs: int, number: int) -> int:
        """Return the pieces a feature of the network of a number among several that take turns."""
        if self.pieces != "auto":
            return int(self.pieces)
        if number % 2 or n_inputs > _MOST_BROKEN or not self.hidden:
            return 0
        return max(min(_PIECES // n_inputs, _MOST_PIECES), 2)

    def make(self, n_inputs: int, n_outputs: int, n_pieces: int = 0) -> Any:
        """Return a new module with random weights; its pieces have no knots yet."""
        layers: list[Any] = []
        for before, width in pairwise((n_inputs, *self.hidden, n_outputs)):
            if layers:
                layers.append(ACTIVATIONS[self.activation]())
                if self.dropout:
                    layers.append(nn.Dropout(self.dropout))
            first = n_pieces and not layers
            layers.append(Broken(before, width, n_pieces) if first else Linear(before, width))
        return nn.Sequential(*layers)

    def size(self, n_inputs: int, n_outputs: int, n_pieces: int = 0) -> int:
        """Return the number of weights, and of numbers that place the pieces."""
        widths = (n_inputs, *self.hidden, n_outputs)
        n_placed = n_inputs * n_pieces
        broken = 2 * n_placed + (n_placed + 1) * widths[1] if n_pieces else 0
        return sum((before + 1) * width for before, width in pairwise(widths)) + broken


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


def make_network(given: Any, n_inputs: int, n_outputs: int, n_pieces: int = 0) -> Any:
    """Return a new network; a given module is copied, with its weights."""
    network = as_network(given)
    if isinstance(network, MLP):
        return network.make(n_inputs, n_outputs, n_pieces)
    if isinstance(network, nn.Module):
        return copy.deepcopy(network)
    made = network(n_inputs)
    if not isinstance(made, nn.Module):
        raise TypeError(f"the function network must return a module, got {type(made).__name__}.")
    # A function may return the same module each time.
    return copy.deepcopy(made)


def check_network(network: Any, n_inputs: int, n_outputs: int) -> None:
    """Try a new network on some rows; refuse one that cannot learn, or does not answer in rows."""
    if not any(one.requires_grad for one in network.parameters()):
        raise ValueError("the network has no parameters to learn; let some require a gradient.")
    rows = torch.zeros(n_outputs + 1, n_inputs, dtype=torch.float64)
    try:
        with torch.no_grad():
            told = copy.deepcopy(network).cpu().double().eval()(rows)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"the network cannot take rows of {n_inputs} features in double precision, in which it "
            f"predicts: {error}"
        ) from error
    shape = tuple(getattr(told, "shape", ()))
    if not isinstance(told, torch.Tensor) or shape[:1] != rows.shape[:1]:
        raise ValueError(
            f"the network must return a tensor with as many rows as it was given, {len(rows)}, got "
            f"{type(told).__name__} of shape {shape}."
        )
    if told.numel() != len(rows) * n_outputs:
        raise ValueError(
            f"the network has {told.numel() // len(rows)} outputs for each row, and needs "
            f"{n_outputs}."
        )


def blank_network(given: Any, n_inputs: int, n_outputs: int, n_pieces: int = 0) -> Any:
    """Return a network whose numbers are to be replaced: it takes nothing from generators."""
    with own_randomness(0):
        return make_network(given, n_inputs, n_outputs, n_pieces)


def bare(network: Any) -> Any:
    """Return a network without the linear score beside it."""
    return network.network if isinstance(network, Beside) else network


def pieces_of(network: Any) -> int:
    """Return the number of pieces a feature that a network has."""
    first = network[0] if isinstance(network, nn.Sequential) and len(network) else None
    return first.n_pieces if isinstance(first, Broken) else 0


def rows_of_a_block(n_features: int) -> int:
    """Return the number of rows that pass a network together."""
    return min(max(_NUMBERS // max(n_features, 1), 1), _BLOCK)


def outputs(networks: Sequence[Any], X: Any, scaler: Standardiser, device: Any) -> Vector:
    """Return the mean of what networks say of rows, of shape (n, n_outputs).

    In double precision, so that a score does not depend on which rows pass together; a block at a
    time, so that sparse rows are not dense all at once.
    """
    exact = [copy.deepcopy(network).double().to(device).eval() for network in networks]
    found = []
    size = rows_of_a_block(X.shape[1])
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
