# SPDX-License-Identifier: BSD-3-Clause
"""The last s scores or embeddings of each class: FIFO(s) of the paper, for networks.

An example itself would have to be scored again at every step. What is remembered is its score of
the step at which it came, without gradient: it is a little out of date, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pairlearn.validation import check_count


class Memory(nn.Module):  # type: ignore[misc]
    """The last `size` values of each class, in the order of arrival (a ring for each class).

    It belongs to the state of a loss (`state_dict`) and moves with it (`to`). Its type is that of
    the first values.
    """

    values: Tensor
    n_seen: Tensor
    #: Weights of the values; None as long as all weigh 1.
    weights: Tensor | None

    def __init__(self, size: int, *, n_classes: int, shape: Sequence[int]) -> None:
        super().__init__()
        self.size = check_count("size", size)
        self.n_classes = check_count("n_classes", n_classes)
        self.register_buffer("values", torch.zeros(self.n_classes, self.size, *shape))
        self.register_buffer("n_seen", torch.zeros(self.n_classes, dtype=torch.int64))
        self.register_buffer("weights", None)

    def push(self, values: Tensor, classes: Tensor, weights: Tensor | None = None) -> None:
        """Remember values, the oldest first; those of a class that do not fit push out its oldest.

        Gradients are not remembered. Classes are numbers from 0 to n_classes - 1. The weight of a
        value is 1 by default.
        """
        self.check(values, classes)
        if weights is not None and self.weights is None:
            self.weights = self.values.new_ones(self.n_classes, self.size)
        seen = self.n_seen.tolist()
        if not any(seen):
            self.values = self.values.to(values.dtype)
        with torch.no_grad():
            for c in range(self.n_classes):
                new = values.detach()[classes == c]
                first = seen[c] + max(len(new) - self.size, 0)
                seen[c] += len(new)
                places = torch.arange(first, seen[c], device=self.values.device) % self.size
                self.values[c, places] = new[len(new) - len(places) :].to(self.values.dtype)
                if self.weights is not None:
                    own = torch.ones_like(classes) if weights is None else weights
                    own = own[classes == c][len(new) - len(places) :]
                    self.weights[c, places] = own.to(self.weights.dtype)
        self.n_seen.copy_(torch.tensor(seen))

    def check(self, values: Tensor, classes: Tensor) -> None:
        """Refuse values of another device or shape, and classes that are not known."""
        if values.device != self.values.device:
            raise ValueError(
                f"the memory is on {self.values.device}, the values are on {values.device}; move "
                f'the loss: loss.to("{values.device}"). Nothing is copied between devices.'
            )
        if values.shape[1:] != self.values.shape[2:]:
            raise ValueError(
                f"a memory of values of shape {tuple(self.values.shape[2:])} cannot take values of "
                f"shape {tuple(values.shape[1:])}; make it with n_components of the network."
            )
        if classes.is_floating_point() or (
            len(classes) and not 0 <= int(classes.min()) <= int(classes.max()) < self.n_classes
        ):
            raise ValueError(
                f"classes must be whole numbers from 0 to {self.n_classes - 1}, got "
                f"{classes.unique().tolist()[:8]} of {classes.dtype}; encode the labels, or make "
                "the memory with more n_classes."
            )

    def held(self) -> tuple[Tensor, Tensor]:
        """Return what is remembered, and the class of each value."""
        counts = [min(n, self.size) for n in self.n_seen.tolist()]
        values = torch.cat([self.values[c, :count] for c, count in enumerate(counts)])
        numbers = torch.arange(self.n_classes, device=values.device)
        return values, numbers.repeat_interleave(torch.tensor(counts, device=values.device))

    def held_weights(self) -> Tensor:
        """Return the weights of what is remembered."""
        counts = [min(n, self.size) for n in self.n_seen.tolist()]
        if self.weights is None:
            return self.values.new_ones(sum(counts))
        return torch.cat([self.weights[c, :count] for c, count in enumerate(counts)])

    def clear(self) -> None:
        """Forget everything."""
        self.n_seen.zero_()

    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any, **options: Any) -> None:
        # The memory takes the type of what it remembers; a resumed run is the same to the last bit.
        saved = state.get(f"{prefix}values")
        if isinstance(saved, Tensor) and saved.is_floating_point():
            self.values = self.values.to(saved.dtype)
        weights = state.get(f"{prefix}weights")
        self.weights = None if weights is None else weights.to(self.values.device, copy=True)
        super()._load_from_state_dict(state, prefix, *rest, **options)

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f"size={self.size}, n_classes={self.n_classes}"


class ScoreMemory(Memory):
    """The last scores of each class, without gradients.

    Parameters
    ----------
    size : int
        How many are remembered of each class: the s of FIFO(s).
    n_classes : int, default=2
        Number of classes; class 1 is the positive one.

    Examples
    --------
    >>> memory = ScoreMemory(2)
    >>> memory.push(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1, 1, 0, 1]))
    >>> memory.held()
    (tensor([3., 4., 2.]), tensor([0, 1, 1]))
    """

    def __init__(self, size: int, *, n_classes: int = 2) -> None:
        super().__init__(size, n_classes=n_classes, shape=())


class EmbeddingMemory(Memory):
    """The last embeddings of each class, without gradients.

    Parameters
    ----------
    size : int
        How many are remembered of each class.
    n_classes : int
        Number of classes; labels are 0, ..., n_classes - 1.
    n_components : int
        Length of an embedding.

    Examples
    --------
    >>> memory = EmbeddingMemory(4, n_classes=2, n_components=2)
    >>> memory.push(torch.eye(2), torch.tensor([0, 1]))
    >>> memory.held()[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, size: int, *, n_classes: int, n_components: int) -> None:
        check_count("n_components", n_components)
        super().__init__(size, n_classes=n_classes, shape=(n_components,))
