# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn train --fit stream``: learn chunk by chunk, with a checkpoint beside the model."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.running import show_warning, stop
from pairlearn.cli.shared.files import check_output
from pairlearn.cli.shared.output import tell
from pairlearn.progress import Progress
from pairlearn.register import Part

if TYPE_CHECKING:
    from pairlearn.cli.shared.reading import TrainingRows
    from pairlearn.models import ModelRecord


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
    is_device = Path(output).exists() and not Path(output).is_file()
    if settings.checkpoint is None and ("-" in data or is_device):
        return None
    path = settings.checkpoint or f"{output}.checkpoint"
    check_output(path, "the checkpoint")
    return path


def held(path: str | None) -> AbstractContextManager[None]:
    """Keep other processes from the checkpoint until it is removed."""
    if path is None:
        return nullcontext()
    from pairlearn.streams.checkpoint import hold_checkpoint

    return hold_checkpoint(path)


def remove_checkpoint(path: str | None) -> None:
    """Remove the checkpoint, the one before it and its lock."""
    if path is not None:
        from pairlearn.atomic import previous_of

        own = Path(path).resolve()
        for name in (own, previous_of(path), own.with_name(f"{own.name}.lock")):
            name.unlink(missing_ok=True)


def train_stream(
    model: Any, rows: TrainingRows, settings: StreamSettings, *, seed: int, shuffles: bool,
    path: str | None,
) -> tuple[ModelRecord, dict[str, Any]]:  # fmt: skip
    """Train chunk by chunk; return the model's record and facts about it.

    `path` is the checkpoint. Without `shuffles` rows stay in their order unless the settings say
    otherwise.
    """
    from pairlearn import OrderWarning
    from pairlearn.streams.checkpoint import CheckpointWarning
    from pairlearn.streams.online import OnlineLearner
    from pairlearn.streams.readers.shuffled import ShuffledReader

    learner = OnlineLearner(
        model, classes=rows.codes, window=settings.window, forget=settings.forget
    )
    if path is not None and not settings.fresh and Path(path).exists():
        tell(f"going on from {path} (--set stream.fresh=true starts again)")
    reader, size = rows.reader, settings.shuffle_buffer
    if size != 0 and (size != "auto" or (shuffles and settings.forget is None)):
        reader = ShuffledReader(reader, buffer_rows=size, seed=seed)

    def draw(learner: Any, chunk: Any) -> None:
        bar.update(learner.n_seen, note="" if learner.auc is None else f"AUC {learner.auc:.4f}")

    try:
        with held(path), stop.open(), Progress(label="training") as bar, warnings.catch_warnings():
            warnings.showwarning = show_warning
            for category in (CheckpointWarning, OrderWarning):
                warnings.simplefilter("always", category)
            learner.fit_stream(
                reader, checkpoint=path, every=settings.every, n_passes=settings.n_passes,
                resume=not settings.fresh, progress=draw if bar.visible else None,
            )  # fmt: skip
    except KeyboardInterrupt:
        where = "" if path is None else f"; the same command goes on from {path}"
        tell(f"interrupted after {learner.n_seen} rows{where}")
        raise click.exceptions.Exit(stop.status) from None
    facts: dict[str, Any] = {"rows": learner.n_seen // settings.n_passes}
    if learner.auc is not None:
        facts |= {"auc": learner.auc, "auc_of": "progressive"}
    return model.to_record(learner.provenance()), facts
