# SPDX-License-Identifier: BSD-3-Clause
"""Save the state of a learner and its place in the data in one crash-safe file.

A checkpoint is a model file (safetensors and a checked JSON description) with its own type name. A
new checkpoint replaces the old one in one atomic step, and the old one is kept beside it: a crash
at any moment leaves at least one complete checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairlearn.atomic import HeldError, atomic_write, cure_of, hold, read_newest
from pairlearn.streams.readers.base import Position
from pairlearn.streams.state import pack, unpack
from pairlearn.validation import warn_caller

#: Raised when a learner saves another state; a file of another version is refused.
CHECKPOINT_VERSION = 8
_NAME = "OnlineLearner checkpoint"


class CheckpointError(ValueError):
    """A checkpoint cannot be written or used; the one-line message names the cure."""


class CheckpointWarning(UserWarning):
    """The newest checkpoint was unusable and an older one was used, or no lock guards the file."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a learner (see `streams.state`) and the position of its reader.

    Only a learner with equal `settings` may continue.
    """

    settings: dict[str, Any]
    state: dict[str, Any]
    position: Position | None
    finished_passes: int = 0


#: Errors of file systems without locks.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextlib.contextmanager
def hold_checkpoint(path: str | os.PathLike[str]) -> Iterator[None]:
    """Lock a checkpoint against other processes inside the block.

    A `CheckpointError` says that another one holds the lock; the system releases the lock of a dead
    process. Temporary files of killed processes are removed.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is not a file; name another checkpoint.")
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(hold(path))
        except HeldError as error:
            raise CheckpointError(
                f"the checkpoint {path} is in use by {error.holder}; wait until it ends, or give "
                "this run a checkpoint of its own."
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise CheckpointError(
                    f"the checkpoint {path} cannot be written: {error.strerror or error}; "
                    f"{cure_of(error)}."
                ) from None
            warn_caller(
                f"the file system of {path} has no locks; make sure that no second process uses "
                "this checkpoint.",
                CheckpointWarning,
            )
        yield


def write_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint; keep the previous one as ``NAME.previous``.

    If writing fails, a `CheckpointError` gives the reason, and the older files are intact.
    """
    from pairlearn.models.file import dump_model
    from pairlearn.models.record import ModelRecord

    plain, arrays = pack(checkpoint.state)
    position = None if checkpoint.position is None else checkpoint.position.to_dict()
    record = ModelRecord(
        _NAME,
        arrays,
        parameters={"checkpoint_version": CHECKPOINT_VERSION, "settings": checkpoint.settings},
        provenance={
            "state": plain,
            "position": position,
            "finished_passes": checkpoint.finished_passes,
        },
    )
    try:
        atomic_write(path, dump_model(record), keep_previous=True)
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint {path} cannot be written: {error.strerror or error}; "
            f"{cure_of(error)} (the checkpoint before it is intact)."
        ) from None


def _load(path: Path) -> Checkpoint:
    """Read and check one checkpoint file; every flaw is a `CheckpointError`."""
    from pairlearn.models.file import read_model
    from pairlearn.models.record import ModelFileError

    try:
        record = read_model(path, allow_unregistered=True)
    except ModelFileError as error:
        raise CheckpointError(str(error)) from None
    if record.estimator != _NAME:
        raise CheckpointError(
            f"{path} holds a model of {record.estimator[:60]!r}, not a checkpoint; "
            "give the checkpoint a name of its own."
        )
    version = record.parameters.get("checkpoint_version")
    if version != CHECKPOINT_VERSION:
        raise CheckpointError(
            f"{path} is a checkpoint of version {version!r:.40} (written by pairlearn "
            f"{record.library_version}), this library reads version {CHECKPOINT_VERSION}; use "
            "that library, or delete the file to start again."
        )
    try:
        place, settings = record.provenance["position"], record.parameters["settings"]
        state = unpack(record.provenance["state"], record.arrays)
        if not isinstance(settings, dict) or not isinstance(state, dict):
            raise TypeError("its settings and its state are not objects")
        return Checkpoint(
            settings,
            state,
            None if place is None else Position.from_dict(place),
            int(record.provenance["finished_passes"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is incomplete ({str(error)[:300]}); delete it.") from None


def reason_of(error: Exception) -> str:
    """Return in one line why a state cannot be restored."""
    if isinstance(error, KeyError):  # which says a bare name
        return f"the saved state has no {str(error)[:60]}"
    return " ".join(str(error).split())[:300]


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint | None:
    """Return the newest usable checkpoint, or None if there is no file.

    If the newest file is cut short, damaged or of another version, a `CheckpointWarning` names it
    and the previous one is used. If no file is usable, the error is a `CheckpointError`.
    """
    path = Path(path)
    if not path.exists():
        # writing never removes the file, so the user deleted it to start again
        return None
    checkpoint, complaint = read_newest(path, _load, refused=CheckpointError)
    if complaint is not None:
        warn_caller(complaint, CheckpointWarning)
    return checkpoint
