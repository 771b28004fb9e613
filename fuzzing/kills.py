# SPDX-License-Identifier: BSD-3-Clause
"""Kill a training process again and again, and compare what it ends with.

This process imports and compiles everything once; each attempt is a fork of it that trains from
the checkpoint and gets a signal after a random time: SIGKILL mostly, else SIGTERM or Ctrl-C, once
or twice. When an attempt gets through, its model file must equal that of an undisturbed run byte
for byte; then the checkpoint is deleted and the game starts again with the next kind.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzzing.campaign import _forking
from fuzzing.learners import LEARNERS, NAMED, learner_and_reader, spoken, write_rows

__all__ = ["KINDS", "run_kills"]

N_ROWS = 3000
#: Rows or lines between two checkpoints, so that many kills meet one that is being written.
EVERY = 150
#: An attempt that takes so many times as long as an undisturbed run hangs.
_PATIENCE = 100
#: So often one training is killed before it may get through.
_MOST = 10


def write_data(folder: Path) -> None:
    """Write the same examples in every format."""
    import pyarrow as pa
    import pyarrow.parquet

    X, y = write_rows(folder, N_ROWS)
    (folder / "b.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes(), mtime=0))
    table = pa.table({**{name: X[:, j] for j, name in enumerate("abcd")}, "y": y})
    pyarrow.parquet.write_table(table, folder / "a.parquet", row_group_size=700)
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=400)
    np.save(folder / "X.npy", np.column_stack([X, y]))


def _learn(learner: Any, reader: Any, folder: Path, checkpoint: str | None, model: str) -> None:
    """Train in small chunks, going on from a checkpoint."""
    path = None if checkpoint is None else folder / checkpoint
    learner.fit_stream(reader, checkpoint=path, every=EVERY, n_passes=2)
    learner.save(folder / model)


def _of_file(name: str, **options: Any) -> Callable[[Path, str | None, str], None]:
    """Return a function that trains a classifier on a kind of file."""

    def train(folder: Path, checkpoint: str | None, model: str) -> None:
        from pairlearn import AUCClassifier
        from pairlearn.streams import OnlineLearner, Schema, open_reader

        label: Any = 4 if name.endswith(".npy") else "y"
        schema = None if name.endswith(".svm") else Schema(label=label)
        learner = OnlineLearner(AUCClassifier(), classes=[0, 1], window=500, forget=1700)
        reader = open_reader(folder / name, schema, chunk_rows=EVERY, **options)
        _learn(learner, reader, folder, checkpoint, model)

    return train


def _of_learner(kind: str) -> Callable[[Path, str | None, str], None]:
    """Return a function that trains a kind of learner."""

    def train(folder: Path, checkpoint: str | None, model: str) -> None:
        learner, reader = learner_and_reader(kind, folder, EVERY)
        _learn(learner, reader, folder, checkpoint, model)

    return train


def _train(folder: Path, checkpoint: str | None, model: str) -> None:
    """Run ``pairlearn train``, whose checkpoint is beside its model."""
    from pairlearn.cli.program import program
    from pairlearn.cli.running import run

    _leave(run(program, ["train", str(folder / "a.csv"), "--label", "y",
                         "--set", "stream.n_passes=12", "--set", "stream.every=1000",
                         "--set", f"stream.checkpoint={folder / (checkpoint or 'none')}",
                         "-o", str(folder / model), "--json"]))  # fmt: skip


def _stream(kind: str) -> Callable[[Path, str | None, str], None]:
    """Return ``pairlearn stream`` by a kind of learner, on lines that its checkpoint lacks."""

    def train(folder: Path, checkpoint: str | None, model: str) -> None:
        from pairlearn.cli.program import program
        from pairlearn.cli.running import run
        from pairlearn.streams import read_checkpoint

        path = folder / (checkpoint or "none")
        found = read_checkpoint(path)
        consumed = 0 if found is None else int(found.state["lines"])
        lines = [f"{line}\n" for line in spoken(kind, N_ROWS)]
        sys.stdin = io.TextIOWrapper(io.BytesIO("".join(lines[consumed:]).encode()))
        settings = [
            part
            for name, value in NAMED[kind].items()
            for part in ("--set", f"{'' if name == 'memory' else 'solver.'}{name}={value}")
        ]
        _leave(run(program, ["stream", "--checkpoint", str(path), "--every", str(EVERY),
                             *settings, "-o", str(folder / model)]))  # fmt: skip

    return train


def _leave(status: int) -> None:
    if status:
        raise SystemExit(status)


#: What is trained: each kind of file, each kind of learner, and the program.
KINDS: dict[str, Callable[[Path, str | None, str], None]] = {
    "csv": _of_file("a.csv"),
    "csv.gz": _of_file("b.csv.gz"),
    "svmlight": _of_file("a.svm"),
    "parquet": _of_file("a.parquet"),
    "arrow": _of_file("a.arrow"),
    "npy": _of_file("X.npy"),
    "shuffled": _of_file("a.csv", shuffle_buffer=400),
    **{kind: _of_learner(kind) for kind in LEARNERS},
    "train": _train,
    **{f"stream, {kind}": _stream(kind) for kind in NAMED},
}


def _fork(work: Callable[[], None], log: Path) -> int:
    """Run `work` in a child that writes its messages to a file; return the child's number."""
    sys.stdout.flush()
    sys.stderr.flush()
    with _forking():
        process = os.fork()
    if process:
        return process
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = open(log, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
        work()
        status = 0
    except SystemExit as left:
        status = int(left.code or 0)
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def _hit(rng: Random, process: int) -> None:
    """Send a signal, now and then one that a program may answer, and a second one after it."""
    kind = rng.choice([signal.SIGKILL] * 8 + [signal.SIGTERM, signal.SIGINT])
    os.kill(process, kind)
    if kind != signal.SIGKILL and rng.random() < 0.5:
        time.sleep(0.002 * rng.random())
        os.kill(process, kind)  # a child that has ended is not yet waited for: the number is its


def _wait(process: int, seconds: float) -> int | None:
    """Return the status of a child, None (and kill it) if it does not end in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def run_kills(
    folder: Path, kills: int, seed: int, *, tell: Callable[[str], None] = lambda text: None
) -> dict[str, dict[str, int]]:
    """Kill `kills` times, the kinds in turns, and return what was counted for each of them.

    `kills` are attempts that a signal ended, `finished` those that got through. `differences` are
    models that are not those of an undisturbed run, `failures` attempts that ended in an error or
    did not end, `leftovers` the most temporary files that were seen after an attempt got through.
    """
    rng = Random(f"{seed}:kills")
    write_data(folder)
    expected, duration = {}, {}
    for kind in KINDS:
        # The first time everything is compiled, which the forks inherit.
        for _ in range(2):
            begin = time.perf_counter()
            expected[kind] = _undisturbed(folder, kind)
            duration[kind] = time.perf_counter() - begin
    names = ("kills", "finished", "differences", "failures", "leftovers")
    found = {kind: dict.fromkeys(names, 0) for kind in KINDS}
    while (left := kills - sum(counts["kills"] for counts in found.values())) > 0:
        for kind in KINDS:
            part = min(_MOST, -(-left // len(KINDS)))
            _play(rng, folder, kind, expected[kind], duration[kind], found[kind], part)
            done, differ, failed = (
                sum(counts[name] for counts in found.values())
                for name in ("kills", "differences", "failures")
            )
            tell(f"{done} kills ({kind}), {differ} models differ, {failed} attempts failed")
    return found


def _undisturbed(folder: Path, kind: str) -> bytes:
    """Train in this process, and return the model."""
    stdin = sys.stdin
    try:
        with (
            contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            KINDS[kind](folder, "sound.ckpt", "sound")
    finally:
        sys.stdin = stdin
        for file in folder.glob("sound.ckpt*"):
            file.unlink()
    return (folder / "sound").read_bytes()


def _play(
    rng: Random, folder: Path, kind: str, expected: bytes, duration: float,
    found: dict[str, int], most: int,
) -> None:  # fmt: skip
    """Kill one training until it gets through, at most so many times."""
    for file in (*folder.glob("game.*"), *folder.glob(".game.*")):
        file.unlink()
    done = 0
    while True:
        process = _fork(lambda: KINDS[kind](folder, "game.ckpt", "game.model"), folder / "log")
        if done < most:
            time.sleep(rng.random() * 0.7 * duration)
            _hit(rng, process)
        status = _wait(process, 10 + _PATIENCE * duration)
        stopped = status is not None and (
            os.WIFSIGNALED(status) or os.WEXITSTATUS(status) in (130, 143)
        )
        if stopped:
            done += 1
            found["kills"] += 1
            continue
        if status is None or os.WEXITSTATUS(status):
            found["failures"] += 1
            print(f"{kind}: {(folder / 'log').read_text(encoding='utf-8')}", file=sys.stderr)
            return
        found["finished"] += 1
        found["differences"] += (folder / "game.model").read_bytes() != expected
        found["leftovers"] = max(found["leftovers"], len(list(folder.glob(".game.*tmp*"))))
        return
