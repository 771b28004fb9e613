# SPDX-License-Identifier: BSD-3-Clause
"""Long runs: what is called a million times must take no more memory at the end than early on.

Each run repeats one call in a process of its own. The memory of the process, its open files and its
threads are compared after a tenth of the calls and at the end. Then shorter stretches are repeated
under `tracemalloc`, which counts what Python holds, to the byte.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import threading
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from resource import getpagesize
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fuzzing.learners import LEARNERS, learner_and_reader, named_learner, write_rows

__all__ = ["RUNS", "LongRun", "long_table", "measure", "run_long"]

Step = Callable[[int], object]

#: Bytes by which a process may grow: allocators keep some, and caches fill.
_MOST_GROWTH = 8 << 20
#: Bytes that Python may hold more after each traced stretch: its cache of attribute names alone
#: takes four times as much until it is full.
_MOST_TRACED = 64 << 10
#: Traced stretches, and the calls of each, at most. Windows that move hold now more, now less; a
#: leak grows in every stretch.
_STRETCHES = 5
_TRACED_CALLS = 1000
#: Threads that predict while another one learns.
_READERS = 3


@dataclass(frozen=True)
class LongRun:
    """What one long run took, and what it had more at the end than early on.

    `memory` and `growth` are bytes of the process. `traced` is by how many bytes what Python holds
    grew in the traced stretch in which it grew least.
    """

    name: str
    calls: int
    memory: int
    growth: int
    traced: int
    handles: int
    threads: int

    @property
    def leaks(self) -> list[str]:
        """What grew and must not."""
        found = []
        if self.growth > _MOST_GROWTH:
            found.append(f"the process grew by {self.growth:,} bytes")
        if self.traced > _MOST_TRACED:
            found.append(f"Python holds {self.traced:,} bytes more after each stretch")
        if self.handles > 0:
            found.append(f"{self.handles} more files are open")
        if self.threads > 0:
            found.append(f"{self.threads} more threads run")
        return found


def _now() -> tuple[int, int, int]:
    """Return the memory of this process, its open files and its threads."""
    gc.collect()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return (
        int(pages) * getpagesize(),
        len(os.listdir("/proc/self/fd")),
        len(os.listdir("/proc/self/task")),
    )


def measure(name: str, calls: int, folder: Path) -> LongRun:
    """Repeat one call in this process and return what it took."""
    early = max(calls // 10, 1)
    stretch = min(_TRACED_CALLS, max(calls // 4, 2))
    warnings.simplefilter("ignore")  # what is told once a call would fill a screen
    with RUNS[name].make(folder) as step:
        for k in range(early):
            step(k)
        before = _now()
        for k in range(early, calls):
            step(k)
        after = _now()
        tracemalloc.start()
        held = []
        for begin in range(calls, calls + (_STRETCHES + 1) * stretch, stretch):
            for k in range(begin, begin + stretch):
                step(k)
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    return LongRun(
        name,
        calls,
        after[0],
        after[0] - before[0],
        int(np.diff(held).min()),
        after[1] - before[1],
        after[2] - before[2],
    )


def _examples(n: int = 512) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(np.int64)


@dataclass(frozen=True)
class _Run:
    """One call that is repeated: how often, and how to prepare it."""

    calls: int
    make: Callable[[Path], AbstractContextManager[Step]]


def _plain(make: Callable[[Path], Step]) -> Callable[[Path], AbstractContextManager[Step]]:
    """Return the context of a call that needs no clearing up."""
    return lambda folder: contextlib.nullcontext(make(folder))


def _chunks(kind: str) -> Callable[[Path], Step]:
    """Teach the model of a learner in chunks of 8 examples."""

    def make(folder: Path) -> Step:
        X, y = _examples()
        model = LEARNERS[kind]().model
        first = {"classes": [0, 1]} if hasattr(model, "score_and_learn") else {}
        target: Any = y
        if kind.startswith("entropy"):
            X, target = X[:, :3], X[:, 3]

        def step(k: int) -> None:
            part = slice(8 * k % 512, 8 * k % 512 + 8)
            model.partial_fit(X[part], target[part], **first)

        return step

    return make


def _classes(folder: Path) -> Step:
    from pairlearn import AUCClassifier

    X, _ = _examples()
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = AUCClassifier(random_state=0)

    def step(k: int) -> None:
        part = slice(8 * k % 512, 8 * k % 512 + 8)
        model.partial_fit(X[part], y[part], classes=[0, 1, 2])

    return step


def _one_by_one(kind: str) -> Callable[[Path], Step]:
    """Teach a learner one example after another, and ask it about each."""

    def make(folder: Path) -> Step:
        X, y = _examples()
        learner = LEARNERS[kind]()
        return lambda k: learner.learn_one(X[k % 512], y[k % 512])

    return make


def _named(kind: str) -> Callable[[Path], Step]:
    """Teach a learner of names one example after another, and ask it about each."""

    def make(folder: Path) -> Step:
        X, y = _examples()
        rows = [dict(zip("abcd", row, strict=True)) for row in X.tolist()]
        learner = named_learner(kind)
        if kind == "outgrown":
            learner.learn_one({f"c{j}": 1.0 for j in range(300)}, 0)

        def step(k: int) -> None:
            learner.learn_one(rows[k % 512], int(y[k % 512]))
            learner.score_one(rows[k % 512])

        return step

    return make


def _conversation(kind: str) -> Callable[[Path], Step]:
    """Answer the lines of ``pairlearn stream``: an example, and a question whose label follows."""

    def make(folder: Path) -> Step:
        from pairlearn.cli.streaming.stream import Conversation
        from pairlearn.streams import ProgressiveAUC

        talk = Conversation(named_learner(kind), ProgressiveAUC(100), 50)

        def step(k: int) -> None:
            talk.answer(f'{{"id": {k}, "x": {{"a": {k % 7}, "b": {k % 3}}}}}')
            if k % 3:  # of one in three questions the label never comes
                talk.answer(f'{{"id": {k}, "y": {k % 2}}}')
            talk.n_lines += 1

        return step

    return make


@contextlib.contextmanager
def _beside(folder: Path) -> Iterator[Step]:
    """Predict in this and other threads while one thread learns."""
    from pairlearn import AUCClassifier

    X, y = _examples()
    model = AUCClassifier(solver="sgd", random_state=0).partial_fit(X, y, classes=[0, 1])
    over = threading.Event()
    failures: list[BaseException] = []

    def repeat(call: Callable[[], Any]) -> None:
        try:
            while not over.wait(0.001):
                call()
        except BaseException as error:
            failures.append(error)

    calls = [lambda: model.partial_fit(X[:8], y[:8])] + [lambda: model.predict(X[:3])] * _READERS
    threads = [threading.Thread(target=repeat, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()

    def step(k: int) -> None:
        assert np.isfinite(model.decision_function(X[k % 512 : k % 512 + 1])).all()
        if failures:
            raise failures[0]

    try:
        yield step
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _fits(folder: Path) -> list[Callable[[], Any]]:
    """Return a fit of each estimator to a few examples."""
    import pairlearn as p

    X, y = _examples(40)
    grades, both = np.arange(40) % 3, np.column_stack([y, 1 - y])
    private: Any = {"bounds": (-5.0, 5.0), "random_state": 0}
    seed: Any = {"random_state": 0}
    return [
        lambda: p.AUCClassifier(solver=p.SGD(step_size=0.1), **seed).fit(X, y),
        lambda: p.AUCClassifier(solver="moments", **seed).fit(X, y),
        lambda: p.AUCClassifier(features="hats", **seed).fit(X, y),
        lambda: p.AUCClassifier(objective=p.PartialArea(), **seed).fit(X, y),
        lambda: p.AUCClassifier(**seed).fit(X, grades),
        lambda: p.MulticlassAUCClassifier(**seed).fit(X, grades),
        lambda: p.MultilabelAUCClassifier(**seed).fit(X, both),
        lambda: p.OrdinalAUCClassifier(**seed).fit(X, grades),
        lambda: p.PairwiseRanker(**seed).fit(X, grades),
        lambda: p.EntropyRegressor(**seed).fit(X, X[:, 0]),
        lambda: p.MetricLearner(**seed).fit(X, y),
        lambda: p.PrivateAUCClassifier(**private).fit(X, y),
        lambda: p.PrivateMetricLearner(**private).fit(X, y),
        lambda: p.PrivateAUCContinual(40, 3, **private).partial_fit(X, y).release(),
    ]


def _models(folder: Path) -> Step:
    """Make a small model, fit it, ask it and drop it."""
    fit = _fits(folder)[0]
    X, _ = _examples()
    return lambda k: fit().predict(X[:3])


def _every_model(folder: Path) -> Step:
    fits = _fits(folder)
    return lambda k: [fit() for fit in fits]


def _saved(folder: Path) -> Step:
    """Save a model and load it again, as a file and as a pickle."""
    from pairlearn import load_model

    X, _ = _examples()
    model = _fits(folder)[0]()
    expected = model.decision_function(X[:3])

    def step(k: int) -> None:
        model.save(folder / "long.model")
        for again in (load_model(folder / "long.model"), pickle.loads(pickle.dumps(model))):
            assert np.array_equal(again.decision_function(X[:3]), expected)

    return step


def _resumed(folder: Path) -> Step:
    """Go on from a checkpoint of each kind of learner, to the end of a small file."""
    write_rows(folder, 60)

    def step(k: int) -> None:
        for kind in LEARNERS:
            path = folder / f"long {kind}.ckpt"
            for n_passes in (1, 2):
                learner, reader = learner_and_reader(kind, folder, 20)
                learner.fit_stream(reader, checkpoint=path, every=20, n_passes=n_passes)
            path.unlink()

    return step


def _files(folder: Path) -> Step:
    """Read a file of each kind to its end, to its middle, and one that is refused."""
    from fuzzing.kills import write_data
    from pairlearn.streams import ReadError, Schema, open_reader

    write_data(folder)
    for path in (folder / "a.csv", folder / "a.parquet", folder / "a.arrow", folder / "X.npy"):
        data = path.read_bytes()
        (folder / f"cut.{path.name}").write_bytes(data[: len(data) // 2])
    (folder / "cut.csv.gz").write_bytes((folder / "b.csv.gz").read_bytes()[:9000])

    def step(k: int) -> None:
        for path in sorted(folder.glob("*.*")):
            label: Any = 4 if path.suffix == ".npy" else "y"
            schema = None if path.suffix == ".svm" else Schema(label=label)
            with contextlib.suppress(ReadError):
                for _ in open_reader(path, schema, chunk_rows=1000):
                    pass
            with contextlib.suppress(ReadError):
                next(iter(open_reader(path, schema, chunk_rows=1000)))

    return step


def _program(folder: Path) -> Step:
    """Run commands of the program: train in two ways, predict, evaluate, and a mistake."""
    from pairlearn.cli.program import program
    from pairlearn.cli.running import run

    write_rows(folder, 60)
    table, model = str(folder / "a.csv"), str(folder / "long.model")
    commands: list[list[str]] = [
        ["train", table, "--label", "y", "-o", model],
        ["train", table, "--label", "y", "--fit", "stream", "-o", model],
        ["predict", model, table, "-o", str(folder / "long.scores")],
        ["evaluate", model, table, "--label", "y"],
        ["train", table, "--label", "nobody", "-o", model],
    ]

    def step(k: int) -> None:
        with (
            open(os.devnull, "w", encoding="utf-8") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            statuses = [run(program, command) for command in commands]
        assert statuses[:4] == [0, 0, 0, 0], statuses
        assert statuses[4] != 0

    return step


#: Every long run, in the order in which they run.
RUNS: dict[str, _Run] = {
    "partial_fit": _Run(1_000_000, _plain(_chunks("sgd"))),
    "learn_one": _Run(1_000_000, _plain(_one_by_one("sgd"))),
    "learn_one of names": _Run(1_000_000, _plain(_named("moments"))),
    "learn_one of names, descent": _Run(1_000_000, _plain(_named("descent"))),
    "learn_one of names, forgetting": _Run(20_000, _plain(_named("forgetting moments"))),
    "learn_one of names, outgrown": _Run(20_000, _plain(_named("outgrown"))),
    "answers of a stream": _Run(1_000_000, _plain(_conversation("moments"))),
    "answers of a stream, descent": _Run(1_000_000, _plain(_conversation("descent"))),
    **{
        f"partial_fit, {kind}": _Run(20_000, _plain(_chunks(kind)))
        for kind in LEARNERS
        if kind not in ("sgd", "forgetting", "dropping", "alarmed", "queries")
    },
    "partial_fit, three classes": _Run(5_000, _plain(_classes)),
    "learn_one, forgetting": _Run(20_000, _plain(_one_by_one("forgetting"))),
    "learn_one, alarmed": _Run(20_000, _plain(_one_by_one("alarmed"))),
    "predictions beside learning": _Run(100_000, _beside),
    "models fitted and dropped": _Run(10_000, _plain(_models)),
    "one of every estimator": _Run(60, _plain(_every_model)),
    "saves and loads": _Run(1_000, _plain(_saved)),
    "checkpoints of every kind": _Run(30, _plain(_resumed)),
    "files read and refused": _Run(300, _plain(_files)),
    "commands of the program": _Run(60, _plain(_program)),
}


def _measured(name: str, calls: int) -> LongRun:
    with TemporaryDirectory() as folder:
        return measure(name, calls, Path(folder))


def run_long(
    share: float = 1.0, *, tell: Callable[[str], None] = lambda text: None
) -> list[LongRun]:
    """Run everything, each in a process of its own, with this share of its calls."""
    found = []
    for name, run in RUNS.items():
        calls = max(int(share * run.calls), 10)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            one = pool.submit(_measured, name, calls).result()
        found.append(one)
        tell(f"{name}: {calls:,} calls, {', '.join(one.leaks) or 'flat'}")
    return found


def long_table(found: list[LongRun]) -> str:
    """Return long runs as lines of a Markdown table."""
    rows = [
        "| repeated | calls | memory, MB | growth, MB | Python's growth, bytes | files | threads |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    rows += [
        f"| {one.name} | {one.calls:,} | {one.memory / 1e6:.0f} | {one.growth / 1e6:+.1f} | "
        f"{one.traced:+,} | {one.handles:+d} | {one.threads:+d} |"
        for one in found
    ]
    return "\n".join(rows)
