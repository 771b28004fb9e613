# SPDX-License-Identifier: BSD-3-Clause
"""Listen to the noise of any private function, and play it back.

A user calls a private function without naming a source of noise. So does the audit: it listens to
every `NoiseSource` of its own thread, whoever made it and of whatever subclass. `recorded` notes
what was protected and what left. `replayed` returns the same noisy values again, for other data.
The function under audit does not know about it, so nothing can look better in an audit than it is.
"""

from __future__ import annotations

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

    def note(self, values: Any, output: Any, scale: float) -> None:
        """Note a release."""
        self.values.append(np.array(values, dtype=np.float64).ravel())
        self.outputs.append(np.array(output, dtype=np.float64).ravel())
        self.scales.append(float(scale))

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
    tape = Tape()

    def listen(name: str, honest: Callable[..., Any], source: NoiseSource, *asked: Any) -> Any:
        answer = honest(source, *asked)
        if name == "protect_integers":
            tape.note(asked[0], answer, asked[1])
        elif name == "accept":
            tape.coins.append((*asked, answer))
        else:
            tape.draws.append(np.array(answer))
        return answer

    with _in_place_of_noise(listen):
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
    tape = Tape()
    left, choices, answers = iter(outputs), iter(draws), chain(coins, repeat(False))

    def answer(name: str, _: Callable[..., Any], source: NoiseSource, *asked: Any) -> Any:
        if name == "protect_integers":
            output = _next(left)
            if output.size != np.size(asked[0]):
                raise TapeEndedError
            output = output.reshape(np.shape(asked[0]))
            tape.note(asked[0], output, asked[1])
            return np.rint(output).astype(np.int64)
        if name == "accept":
            tape.coins.append((*asked, next(answers)))
            return tape.coins[-1][2]
        order = _next(choices)
        return order_of_moved(order, rows) if name == "permutation" else order

    with _in_place_of_noise(answer):
        yield tape


def order_of_moved(order: NDArray[np.int64], rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the secret order that puts the same examples in the same places.

    It is as likely as `order`, so this couples the two laws fairly. A mechanism that hides the
    number of rows deals out a public number of them, some of which are not there.
    """
    if rows is None:
        return order
    return np.concatenate([rows, np.arange(len(rows), len(order))])[order]


def _next(answers: Iterator[Any]) -> Any:
    try:
        return next(answers)
    except StopIteration:
        # Inside a generator a StopIteration would change its meaning.
        raise TapeEndedError from None


@contextmanager
def _in_place_of_noise(answer: Callable[..., Any]) -> Iterator[None]:
    """Let `answer` take the calls of this thread to noise sources, those of subclasses too."""
    mine, busy = threading.get_ident(), False
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
            busy = True
            try:
                return answer(name, usual, source, *values, *named.values())
            finally:
                busy = False

        return asked

    try:
        for cls, name, usual in honest:
            setattr(cls, name, method(name, usual))
        yield
    finally:
        for cls, name, usual in honest:
            setattr(cls, name, usual)
