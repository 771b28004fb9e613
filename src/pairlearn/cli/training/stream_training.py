# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train --fit stream``: chunk after chunk, with a checkpoint on the way."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.output import show_warning
from pairlearn.cli.stopping import Stopping
from pairlearn.cli.training.training_data import Rows
from pairlearn.progress import Progress
from pairlearn.register import Part

if TYPE_CHECKING:
    from pairlearn.models import ModelRecord
    from pairlearn.streams.readers.base import Reader


#: More passes than this end on no machine.
_MOST_PASSES = 1e9


@dataclass(frozen=True, repr=False)
class StreamSettings(Part):
    """The settings ``stream.FIELD`` of a training by chunks."""

    #: Passes over the data.
    n_passes: int = 1
    #: Rows to shuffle at a time. 0 keeps the order of the file; so does "auto" for standard input
    #: and with `forget`.
    shuffle_buffer: int | str = "auto"
    #: Examples that the running AUC looks back on.
    window: int = 10_000
    #: Start the average anew after this many examples, or with "drop" when the AUC drops.
    forget: int | str | None = None
    #: The file that keeps the state; by default beside the model.
    checkpoint: str | None = None
    #: Rows between two checkpoints.
    every: int = 250_000
    #: Whether to start again in spite of a checkpoint.
    fresh: bool = False

    #: Fields that change how a training goes, and not the model that it ends with.
    practical = ("checkpoint", "every", "fresh")

    def __post_init__(self) -> None:
        from pairlearn.validation import check_count

        for name, least in (("n_passes", 1), ("window", 2), ("every", 1)):
            check_count(name, getattr(self, name), minimum=least)
        if self.n_passes > _MOST_PASSES:
            raise ValueError(f"n_passes must be at most {_MOST_PASSES:g}, got {self.n_passes:.3g}.")
        rows = self.shuffle_buffer
        if rows != "auto" and (type(rows) is not int or rows < 0 or rows == 1):
            raise ValueError(f'shuffle_buffer must be a number of rows, 0 or "auto", got {rows!r}.')
        if self.forget not in (None, "drop") and type(self.forget) is not int:
            raise ValueError(f'forget must be a number of rows or "drop", got {self.forget!r}.')
        if not isinstance(self.checkpoint, (str, type(None))):
            raise ValueError(f"checkpoint must be the name of a file, got {self.checkpoint!r}.")
        if not isinstance(self.fresh, bool):
            raise ValueError(f"fresh must be true or false, got {self.fresh!r}.")


def checkpoint_of(settings: StreamSettings, output: str, data: tuple[str, ...]) -> str | None:
    """Return the file that keeps the state.

    Standard input cannot be read again, and no file belongs beside a device or a pipe. There is no
    checkpoint then, unless the user names a file.
    """
    from pairlearn.atomic import is_written_directly

    if settings.checkpoint is None and ("-" in data or is_written_directly(Path(output))):
        return None
    return settings.checkpoint or f"{output}.checkpoint"


def remove_checkpoint(path: str | None) -> None:
    """Remove the checkpoint and the one before it."""
    if path is None:
        return
    from pairlearn.atomic import previous_of

    for name in (Path(path).resolve(), previous_of(path)):
        name.unlink(missing_ok=True)


def train_stream(
    model: Any,
    rows: Rows,
    settings: StreamSettings,
    *,
    seed: int,
    keeps_order: bool,
    path: str | None,
    size: int | None,
    stop: Stopping,
) -> tuple[ModelRecord, dict[str, Any]]:
    """Train chunk by chunk; return the model's record and the facts to print.

    `path` is the checkpoint, `size` the bytes of the file for the progress bar. With `keeps_order`
    rows stay in their order unless the settings say otherwise.
    """
    from pairlearn import OrderWarning
    from pairlearn.streams.checkpoint import CheckpointWarning
    from pairlearn.streams.online import OnlineLearner

    learner = OnlineLearner(
        model, classes=rows.codes, window=settings.window, forget=settings.forget
    )
    if path is not None and not settings.fresh and Path(path).exists():
        click.echo(
            f"pairlearn: going on from {path} (--set stream.fresh=true starts again)", err=True
        )
    total = size if settings.n_passes == 1 else None

    def draw(learner: Any, chunk: Any) -> None:
        done = rows.reader.bytes_read if total is not None else None
        note = "" if learner.auc is None else f"AUC {learner.auc:.4f}"
        bar.update(learner.n_seen, done=done, note=note)

    try:
        with stop.opened(), Progress(total, label="training") as bar, warnings.catch_warnings():
            warnings.showwarning = show_warning
            for category in (CheckpointWarning, OrderWarning):
                warnings.simplefilter("always", category)
            learner.fit_stream(
                _shuffled(rows.reader, settings, seed, keeps=keeps_order),
                checkpoint=path, every=settings.every, n_passes=settings.n_passes,
                resume=not settings.fresh, progress=draw if bar.visible else None,
            )  # fmt: skip
    except KeyboardInterrupt:
        where = "" if path is None else f"; the same command goes on from {path}"
        click.echo(f"pairlearn: interrupted after {learner.n_seen} rows{where}", err=True)
        raise click.exceptions.Exit(stop.status) from None
    facts: dict[str, Any] = {"rows": learner.n_seen // settings.n_passes}
    if learner.auc is not None:
        facts |= {"auc": learner.auc, "auc_of": "progressive"}
    return model.to_record(learner.provenance()), facts


def _shuffled(reader: Reader, settings: StreamSettings, seed: int, *, keeps: bool) -> Reader:
    """Return the reader with its rows in a random order within blocks, if that is asked for."""
    from pairlearn.streams.readers.shuffled import ShuffledReader

    size = settings.shuffle_buffer
    if size == 0 or (size == "auto" and (keeps or settings.forget is not None)):
        return reader
    return ShuffledReader(reader, buffer_rows=size, seed=seed)
