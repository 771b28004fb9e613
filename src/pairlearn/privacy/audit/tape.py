# SPDX-License-Identifier: BSD-3-Clause
"""Listen to the noise of any private function, and play it back.

A user calls a private function without naming a source of noise. So does the audit: it listens to
every `NoiseSource` of its own thread, whoever made it and of whatever subclass. `recorded` notes
what was protected and what left. `replayed` returns the same noisy values again, for other data.
The function under audit does not know about it, so nothing can look better in an audit than it is.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.noise import NoiseSource
from pairlearn.typing import Vector

#: The method by which data leave, and those by which examples are chosen.
_METHODS = ("protect_integers", "draw_indices", "permutation", "accept")


class TapeEndedError(Exception):
    """More noise was asked for than was recorded, or noise for other numbers of values."""


class Tape:
    """What was asked of noise sources, in order, and what they answered."""

    def __init__(self) -> None:
        #: Protected values, noisy outputs and scales, an entry for each release.
        self.values: list[Vector] = []
        self.outputs: list[Vector] = []
        self.scales: list[float] = []
        #: Secret choices of examples.
        self.draws: list[NDArray[np.int64]] = []
        #: Numerator, denominator and answer of each coin with probability exp(-a/b).
        self.coins: list[tuple[int, int, bool]] = []

    def note(self, name: str, asked: tuple[Any, ...], answer: Any) -> None:
        """Note a question to a source, and its answer."""
        if name == "accept":
            self.coins.append((*asked, answer))
        elif name == "protect_integers":
            for kept, value in ((self.values, asked[0]), (self.outputs, answer)):
                kept.append(np.array(value, dtype=np.float64).ravel())
            self.scales.append(float(asked[1]))
        else:
            self.draws.append(np.array(answer))

    def distances(self, other: Tape) -> list[float]:
        """Return how far the protected values of another tape are, in units of the noise."""
        return [
            float(np.linalg.norm(mine - theirs)) / scale
            for mine, theirs, scale in zip(self.values, other.values, self.scales, strict=True)
        ]


@contextmanager
def recorded() -> Iterator[Tape]:
    """Record the noise of this thread.

    >>> with recorded() as tape:
    ...     noisy = NoiseSource().protect_integers(np.zeros(3, dtype=np.int64), 2)
    >>> bool((tape.outputs[0] == noisy).all()), tape.scales
    (True, [2.0])
    """
    with _in_place_of_noise(lambda name, honest, source, *asked: honest(source, *asked)) as tape:
        yield tape


@contextmanager
def replayed(
    outputs: Sequence[Vector] = (),
    draws: Sequence[NDArray[np.int64]] = (),
    *,
    rows: NDArray[np.int64] | None = None,
    coins: Sequence[bool] = (),
) -> Iterator[Tape]:
    """Answer with earlier outputs, draws and coins; raise `TapeEndedError` where they end.

    `rows` gives the new index of each row of the earlier run, if the two tables are in different
    orders. A secret order is then replayed for the same examples (`order_of_moved`).
    After the last of `coins`, coins show tails.
    """
    left: dict[str, Any] = {
        "protect_integers": iter(outputs),
        "accept": chain(coins, repeat(False)),
    }
    choices = iter(draws)

    def answer(name: str, _: Callable[..., Any], source: NoiseSource, *asked: Any) -> Any:
        # Inside a generator a StopIteration would change its meaning.
        found = next(left.get(name, choices), None)
        if found is None:
            raise TapeEndedError
        if name == "protect_integers":
            if found.size != np.size(asked[0]):
                raise TapeEndedError
            return np.rint(found.reshape(np.shape(asked[0]))).astype(np.int64)
        return order_of_moved(found, rows) if name == "permutation" else found

    with _in_place_of_noise(answer) as tape:
        yield tape


def order_of_moved(order: NDArray[np.int64], rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the secret order that puts the same examples in the same places.

    It is as likely as `order`, so this couples the two laws fairly. A mechanism that hides the
    number of rows deals out a public number of them, some of which are not there.
    """
    if rows is None:
        return order
    return np.concatenate([rows, np.arange(len(rows), len(order))])[order]


@contextmanager
def _in_place_of_noise(answer: Callable[..., Any]) -> Iterator[Tape]:
    """Let `answer` take the calls of this thread to noise sources, those of subclasses too."""
    tape, mine, busy = Tape(), threading.get_ident(), False
    sources: list[type[NoiseSource]] = [NoiseSource]
    for cls in sources:
        sources += [one for one in cls.__subclasses__() if one not in sources]
    honest = [(cls, name, vars(cls)[name]) for cls in sources for name in _METHODS
              if name in vars(cls)]  # fmt: skip

    def method(name: str, usual: Callable[..., Any]) -> Callable[..., Any]:
        def asked(source: NoiseSource, *values: Any, **named: Any) -> Any:
            nonlocal busy
            # A method of a subclass may call that of its base: one question, one answer.
            if busy or threading.get_ident() != mine:
                return usual(source, *values, **named)
            busy, given = True, (*values, *named.values())
            before = copy.copy(given[0]) if given else None
            try:
                found = answer(name, usual, source, *given)
            finally:
                busy = False
            tape.note(name, (before, *given[1:]), found)
            return found

        return asked

    try:
        for cls, name, usual in honest:
            setattr(cls, name, method(name, usual))
        yield tape
    finally:
        for cls, name, usual in honest:
            setattr(cls, name, usual)
