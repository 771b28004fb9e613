# SPDX-License-Identifier: BSD-3-Clause
"""Batches with a share of positives: where they are rare, what matters most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Sampler

from pairlearn.torch.pairwise import as_positive
from pairlearn.validation import check_count, check_fraction


class BalancedSampler(Sampler):  # type: ignore[misc]
    """Batches of indices with a fixed share of positives, for ``DataLoader(batch_sampler=...)``.

    Each class is a deck of cards: dealt from the top, shuffled anew when it is used up. So examples
    of one class are used equally often, whatever the number of batches, and an epoch that ends in
    the middle of a deck goes on there. An epoch has as many batches as the examples fill: n /
    batch_size, rounded up.

    Parameters
    ----------
    labels : array-like or Tensor of shape (n,)
        Above 0 for positive examples. They are looked at once; batches are lists of whole numbers,
        dealt on the CPU.
    batch_size : int
        Examples of a batch, at least 2.
    share : float, default=0.5
        Share of positives in every batch; rounded, but at least one of each class.
    seed : int, default=0
        Seed of the shuffles.

    Notes
    -----
    `state_dict` says where it stands, in the middle of an epoch too: iterating then goes on with
    the next batch. A `DataLoader` with worker processes asks for batches ahead of their use; for a
    run that resumes bit for bit use ``num_workers=0``.

    Examples
    --------
    >>> sampler = BalancedSampler([0, 0, 0, 0, 0, 0, 1, 1], 4)
    >>> [sorted(batch)[2:] for batch in sampler]
    [[6, 7], [6, 7]]
    """

    def __init__(self, labels: Any, batch_size: int, *, share: float = 0.5, seed: int = 0) -> None:
        if not isinstance(labels, Tensor):
            labels = _as_tensor(np.asarray(labels))
        positive = as_positive(labels.detach().cpu().ravel())
        members = [torch.nonzero(positive == kind)[:, 0] for kind in (False, True)]
        if not all(map(len, members)):
            raise ValueError(
                f"a balanced batch needs both classes, got {len(positive)} labels of one class."
            )
        self.batch_size = check_count("batch_size", batch_size, minimum=2)
        self.share = check_fraction("share", share)
        n_positive = min(max(round(self.share * self.batch_size), 1), self.batch_size - 1)
        self._take = (self.batch_size - n_positive, n_positive)
        self._members = members
        self._generator = torch.Generator().manual_seed(check_count("seed", seed, minimum=0))
        self._decks = [self._shuffled(len(deck)) for deck in members]
        self._places = [0, 0]
        #: Epochs finished, and batches of the present one.
        self.epoch, self.batch = 0, 0

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return math.ceil(sum(map(len, self._members)) / self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        """Return the batches that are left of the present epoch."""
        while self.batch < len(self):
            # Counted before it is handed out: who saves after a batch goes on behind it.
            self.batch += 1
            yield self._draw()
        self.epoch, self.batch = self.epoch + 1, 0

    def _shuffled(self, n: int) -> Tensor:
        return torch.randperm(n, generator=self._generator)

    @property
    def n_positive(self) -> int:
        """The number of positives of a batch."""
        return self._take[1]

    def deal(self, n_batches: int) -> Tensor:
        """Return so many batches at once, one in each row, the positives of each first.

        They come from the same decks as those of an iteration, and are not counted as its batches.
        """
        negative, positive = (
            self._cards(kind, n_batches * wanted).reshape(n_batches, wanted)
            for kind, wanted in enumerate(self._take)
        )
        return torch.cat([positive, negative], dim=1)

    def _cards(self, kind: int, wanted: int) -> Tensor:
        """Return the next rows of a class."""
        drawn = []
        while wanted:
            if self._places[kind] == len(self._decks[kind]):
                self._decks[kind] = self._shuffled(len(self._decks[kind]))
                self._places[kind] = 0
            begin = self._places[kind]
            cards = self._decks[kind][begin : begin + wanted]
            self._places[kind] += len(cards)
            wanted -= len(cards)
            drawn.append(self._members[kind][cards])
        return torch.cat(drawn)

    def _draw(self) -> list[int]:
        """Return the rows of one balanced batch."""
        batch = torch.cat([self._cards(kind, wanted) for kind, wanted in enumerate(self._take)])
        # In a random order, so that consecutive examples are pairs of either kind.
        found: list[int] = batch[self._shuffled(len(batch))].tolist()
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return where it stands, as tensors and whole numbers."""
        return {
            "generator": self._generator.get_state(),
            "decks": [deck.clone() for deck in self._decks],
            "places": list(self._places),
            "epoch": self.epoch,
            "batch": self.batch,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` of a sampler of the same labels and batches returned."""
        decks, sizes = state["decks"], [len(members) for members in self._members]
        if [len(deck) for deck in decks] != sizes:
            raise ValueError(
                f"the saved sampler has {[len(deck) for deck in decks]} negatives and positives, "
                f"this one {sizes}; make it with the same labels."
            )
        self._generator.set_state(state["generator"])
        self._decks, self._places = [deck.clone() for deck in decks], list(state["places"])
        self.epoch, self.batch = int(state["epoch"]), int(state["batch"])


def _as_tensor(labels: NDArray[Any]) -> Tensor:
    """Return labels of any order in memory as a tensor; refuse what is neither number nor bool."""
    if labels.dtype.kind not in "biuf":
        raise ValueError(
            f"labels must be 0 and 1, -1 and 1, or bool, got an array of {labels.dtype}; pass "
            "labels == c, with the class c that is positive."
        )
    return torch.from_numpy(np.array(labels, order="C"))
