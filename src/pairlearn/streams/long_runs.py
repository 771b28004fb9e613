# SPDX-License-Identifier: BSD-3-Clause
"""Learn all that a reader delivers, with checkpoints: a killed run goes on, bit for bit.

A checkpoint belongs to the settings of its learner; with others it is refused.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from pairlearn.streams.checkpoint import (
    Checkpoint,
    CheckpointError,
    read_checkpoint,
    reason_of,
    write_checkpoint,
)
from pairlearn.streams.readers.base import Chunk, Position, Reader, ReadError


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let signals that Python handles wait until the block ends: a chunk and its place are one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
    found: dict[int, Any] = {n: signal.getsignal(n) for n in numbers if n is not None}
    handlers = {number: handler for number, handler in found.items() if callable(handler)}
    received: list[tuple[int, Any]] = []
    for number in handlers:
        signal.signal(number, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if received:
        handlers[received[0][0]](*received[0])


class Resumable(Protocol):
    """A learner that can go on from a checkpoint."""

    forget: int | str | None
    drop: float
    #: Where its reader continues.
    position: Position | None

    @property
    def model(self) -> Any:
        """The estimator."""

    @property
    def window(self) -> int:
        """Number of last examples in its progressive AUC."""

    @property
    def n_seen(self) -> int:
        """Examples learned."""

    def state(self) -> dict[str, Any]:
        """Return the complete state."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state."""


_Learner = TypeVar("_Learner", bound=Resumable)


def learn_all(
    learner: _Learner,
    learn: Callable[[Chunk, bool], None],
    reader: Reader,
    checkpoint: str | os.PathLike[str] | None,
    *,
    every: int,
    n_passes: int,
    resume: bool,
    progress: Callable[[_Learner, Chunk], None] | None,
) -> None:
    """Let a learner `learn` the chunks of a reader, after loading a checkpoint to resume, if any.

    `learn` is told whether an earlier pass had the chunk. The other parameters are those of
    `OnlineLearner.fit_stream`. The checkpoint must be held.
    """
    start = reader.position
    finished = 0
    if checkpoint is not None and resume:
        found = read_checkpoint(checkpoint)
        if found is not None:
            restore_from(found, learner, checkpoint)
            finished = found.finished_passes
            if found.position is not None:
                reader.restore(found.position)
            learned = getattr(learner.model, "n_features_in_", None)
            read = getattr(reader, "n_features", None)
            if None not in (learned, read) and learned != read:
                raise CheckpointError(
                    f"the checkpoint {checkpoint} has a model of {learned} features, the data "
                    f"have {read}; delete it to start again."
                )
    written = learner.n_seen

    def save() -> None:
        """Write examples not saved yet; a second Ctrl-C waits until the file is complete."""
        nonlocal written
        if checkpoint is not None and learner.n_seen > written:
            with _uninterrupted():
                settings, state = settings_of(learner), learner.state()
                found = Checkpoint(settings, state, learner.position, finished)
                write_checkpoint(checkpoint, found)
                written = learner.n_seen

    try:
        while finished < n_passes:
            for chunk in reader:
                if chunk.y is None:
                    raise ReadError("the data have no labels; name their column with label=.")
                with _uninterrupted():
                    learn(chunk, finished > 0)
                    learner.position = chunk.position
                if progress is not None:
                    progress(learner, chunk)
                if learner.n_seen - written >= every:
                    save()
            if finished + 1 == n_passes:
                break
            with _uninterrupted():
                finished += 1
                learner.position = start
            reader.restore(start)
    except KeyboardInterrupt:
        save()
        raise
    save()


def settings_of(learner: Resumable) -> dict[str, Any]:
    """Return the settings that a checkpoint must match."""
    from pairlearn.models.parts import encode

    left_out = ("callbacks", "random_state", "verbose")
    parameters = {
        name: encode(value, name)
        for name, value in learner.model.get_params(deep=False).items()
        if name not in left_out
    }
    return {
        "estimator": type(learner.model).__name__,
        "parameters": parameters,
        "window": learner.window,
        "forget": learner.forget,
        "drop": learner.drop,
    }


def restore_from(found: Checkpoint, learner: Resumable, path: str | os.PathLike[str]) -> None:
    """Load a checkpoint; refuse one with other settings or an invalid state."""
    settings = settings_of(learner)
    for name in settings:
        mine, theirs = settings[name], found.settings.get(name)
        if name == "drop" and learner.forget != "drop":
            continue
        if mine != theirs:
            name, mine, theirs = _differing(name, mine, theirs)
            raise CheckpointError(
                f"the checkpoint {path} was made with {name[:60]}={theirs!r:.200}, now it is "
                f"{mine!r:.200}; use the same settings, or delete the file to start again."
            )
    try:
        if found.state["n_seen"] and not found.state["model"]:
            raise ValueError("examples were learned, and no model is saved")
        learner.restore(found.state)
    except (
        AttributeError, KeyError, TypeError, IndexError, ValueError, ArithmeticError,
        MemoryError,
    ) as error:  # fmt: skip
        raise CheckpointError(
            f"the checkpoint {path} cannot be restored ({reason_of(error)}); "
            "delete it to start again."
        ) from None
    learner.position = found.position


def _differing(name: str, mine: Any, theirs: Any) -> tuple[str, Any, Any]:
    """Return the innermost setting that differs: its name and both values.

    A setting that only one side has is None on the other.
    """
    both = isinstance(mine, dict) and isinstance(theirs, dict)
    if not both or mine.get("part") != theirs.get("part"):
        return name, mine, theirs
    key = next(
        k for k in {**mine, **theirs} if (k in mine) != (k in theirs) or mine[k] != theirs[k]
    )
    inner = key if name == "parameters" else f"{name}.{key}"
    return _differing(inner, mine.get(key), theirs.get(key))
