# SPDX-License-Identifier: BSD-3-Clause
"""Kill a training process again and again, and compare what it ends with.

Run as ``python kill_harness.py FOLDER KILLS SEED``. The process imports and compiles everything
once; each attempt is a fork of it that trains from the checkpoint and is killed with SIGKILL after
a random time. When an attempt gets through, its model file must equal that of an uninterrupted
run byte for byte; then the checkpoint is deleted and the game starts again. Prints JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from pairlearn import AUCClassifier
from pairlearn.streams import OnlineLearner, Schema, open_reader

N_ROWS = 3000


def write_data(folder: Path) -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N_ROWS, 4))
    y = (X[:, 0] + rng.normal(size=N_ROWS) > 0).astype(int)
    lines = [
        ",".join(map(repr, row)) + f",{label}"
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    (folder / "dense.csv").write_text("a,b,c,d,y\n" + "\n".join(lines) + "\n")
    rows = [
        f"{label} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row) if abs(v) > 0.7)
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    (folder / "sparse.svm").write_text("\n".join(rows) + "\n")


def train(folder: Path, kind: str, *, checkpoint: str | None) -> bytes:
    if kind == "dense":
        learner = OnlineLearner(AUCClassifier(), classes=[0, 1], window=500, forget=1700)
        reader = open_reader(folder / "dense.csv", Schema(label="y"), chunk_rows=150)
    else:
        learner = OnlineLearner(AUCClassifier(step_size=0.1, radius=2.0), classes=[0, 1])
        reader = open_reader(folder / "sparse.svm", chunk_rows=150)
    path = None if checkpoint is None else folder / checkpoint
    learner.fit_stream(reader, checkpoint=path, every=150, n_passes=2)
    learner.save(folder / f"{kind}.model")
    return (folder / f"{kind}.model").read_bytes()


def play(folder: Path, kills: int, seed: int) -> dict[str, int]:
    write_data(folder)
    chance = random.Random(seed)
    kinds = ("dense", "sparse")
    expected = {kind: train(folder, kind, checkpoint=None) for kind in kinds}
    duration = {}
    for kind in kinds:
        begin = time.perf_counter()
        assert train(folder, kind, checkpoint=f"{kind}.ckpt") == expected[kind]
        duration[kind] = time.perf_counter() - begin
    found = {"kills": 0, "finished": 0, "differences": 0, "failures": 0, "leftovers": 0}
    while found["kills"] < kills or not found["finished"]:
        kind = kinds[found["finished"] % 2]
        for name in (f"{kind}.ckpt", f"{kind}.ckpt.previous", f"{kind}.model"):
            (folder / name).unlink(missing_ok=True)
        while True:
            process = os.fork()
            if process == 0:
                status = 1
                try:
                    train(folder, kind, checkpoint=f"{kind}.ckpt")
                    status = 0
                finally:
                    os._exit(status)
            if found["kills"] < kills:
                time.sleep(chance.random() * 0.7 * duration[kind])
                os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
            if os.WIFSIGNALED(status):
                found["kills"] += 1
                continue
            if os.WEXITSTATUS(status):
                found["failures"] += 1
                return found
            found["finished"] += 1
            found["differences"] += (folder / f"{kind}.model").read_bytes() != expected[kind]
            break
        found["leftovers"] = max(found["leftovers"], len(list(folder.glob(f".{kind}.ckpt*tmp*"))))
    return found


if __name__ == "__main__":
    print(json.dumps(play(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
