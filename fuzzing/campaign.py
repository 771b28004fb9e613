# SPDX-License-Identifier: BSD-3-Clause
"""Batches of inputs in child processes with budgets, and what was found in them."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

__all__ = ["Budget", "Finding", "Tally", "Target", "run_batch", "run_campaign", "run_one"]

#: Messages are one line, and no longer than a screen.
_LONGEST_MESSAGE = 2000


@dataclass(frozen=True)
class Budget:
    """What one input may take: processor seconds, bytes of memory, seconds by the clock.

    The clock is for a process that waits for ever; the machine may be busy, so it is generous.
    """

    cpu_seconds: float = 10.0
    memory: int = 1 << 30
    patience: float = 120.0


class Target(ABC):
    """One kind of input: how it is made and what reading it means.

    `expected` are the errors that refuse an input, `told` the warnings that may come with it.
    """

    name: str
    #: How many of these inputs there are for one of a target of weight 1.
    weight: int = 1
    expected: tuple[type[Exception], ...]
    told: tuple[type[Warning], ...] = ()

    def prepare(self, folder: Path) -> None:  # noqa: B027
        """Make what all inputs start from; `folder` is for files, and each child has its own."""

    @abstractmethod
    def make(self, rng: Random) -> Any:
        """Return an input."""

    @abstractmethod
    def use(self, given: Any, folder: Path) -> None:
        """Read an input; raise one of `expected`, or assert that what was read is right."""


@dataclass(frozen=True)
class Finding:
    """One input that was neither used nor refused as it must be."""

    target: str
    seed: int
    index: int
    kind: str
    message: str

    def __str__(self) -> str:
        again = f"python -m fuzzing --only {self.target} --seed {self.seed} --index {self.index}"
        return f"{self.kind}: {self.message}\n    {again}"


@dataclass
class Tally:
    """What became of the inputs of one target."""

    n_used: int = 0
    n_refused: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    @property
    def n_inputs(self) -> int:
        """Inputs that were tried."""
        return self.n_used + self.n_refused + len(self.findings)


def input_of(target: Target, seed: int, index: int) -> Any:
    """Return the input that a seed and a number stand for."""
    return target.make(Random(f"{seed}:{target.name}:{index}"))


def run_one(target: Target, seed: int, index: int, folder: Path) -> bool:
    """Make and read one input; return whether it was used, and not refused."""
    given = input_of(target, seed, index)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in target.told:
            warnings.simplefilter("ignore", kind)
        try:
            target.use(given, folder)
        except target.expected as error:
            text = str(error)
            if not text or len(text.splitlines()) != 1 or len(text) > _LONGEST_MESSAGE:
                raise AssertionError(f"a message is not one line: {text[:200]!r}") from error
            return False
    return True


def run_batch(
    target: Target, seed: int, begin: int, stop: int, tally: Tally, budget: Budget
) -> None:
    """Run inputs ``begin:stop`` in children; after one that dies the next goes on."""
    started = time.perf_counter()
    while begin < stop:
        begin = _run_child(target, seed, begin, stop, tally, budget)
    tally.seconds += time.perf_counter() - started


# Shared by a child and its parent: the input at hand, and how many were used and refused.
_PLACE = struct.Struct("<qqq")


def _run_child(
    target: Target, seed: int, begin: int, stop: int, tally: Tally, budget: Budget
) -> int:
    """Run inputs from `begin` in a child; return the first that it has not tried."""
    shared = mmap.mmap(-1, _PLACE.size)
    shared[:] = _PLACE.pack(begin, 0, 0)
    ours, theirs = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with _forking():
        process = os.fork()
    if process == 0:
        os.close(ours)
        status = 1
        try:
            with _scratch() as folder:
                _work(target, seed, begin, stop, shared, theirs, folder, budget)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(theirs)
    stuck = _watch(process, ours, shared, target.name, seed, tally, budget)
    _, status = os.waitpid(process, 0)
    at, n_used, n_refused = _PLACE.unpack(shared)
    tally.n_used += n_used
    tally.n_refused += n_refused
    if status == 0:
        return stop
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        kind, text = "crash", f"the process was ended by {signal.Signals(number).name}"
        if stuck:
            kind, text = "hang", f"it did nothing for {budget.patience:g} s"
        elif number == signal.SIGPROF:
            kind, text = "hang", f"it took more than {budget.cpu_seconds:g} s of processor time"
    else:
        kind, text = "crash", f"the process ended with status {os.WEXITSTATUS(status)}"
    tally.findings.append(Finding(target.name, seed, at, kind, text))
    return int(at) + 1


@contextlib.contextmanager
def _forking() -> Iterator[None]:
    # PyArrow has threads that wait for work; the child uses none of them.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """Lend a folder, in memory where that exists: files of fuzzed inputs need no disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="pairlearn-fuzzing-", dir=memory)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _work(
    target: Target, seed: int, begin: int, stop: int, shared: mmap.mmap, pipe: int,
    folder: Path, budget: Budget,
) -> None:  # fmt: skip
    # The signal of the timer ends the process whatever code runs: no handler of Python would.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    used = _virtual_bytes()
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + budget.memory,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    counts = [0, 0]
    for index in range(begin, stop):
        shared[:] = _PLACE.pack(index, *counts)
        signal.setitimer(signal.ITIMER_PROF, budget.cpu_seconds)
        try:
            counts[not run_one(target, seed, index, folder)] += 1
        except MemoryError:
            _report(pipe, Finding(target.name, seed, index, "memory", f"over {budget.memory} B"))
        except Exception as error:
            _report(pipe, Finding(target.name, seed, index, "error", _said(error)))
    signal.setitimer(signal.ITIMER_PROF, 0)
    shared[:] = _PLACE.pack(stop, *counts)


def _said(error: Exception) -> str:
    """Return what went wrong, and the innermost place of it in one line."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text} ({Path(place.filename).name}:{place.lineno})"


def _report(pipe: int, finding: Finding) -> None:
    os.write(pipe, json.dumps(asdict(finding)).encode() + b"\n")


def _virtual_bytes() -> int:
    """Return the address space of this process; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def _watch(
    process: int, pipe: int, shared: mmap.mmap, name: str, seed: int, tally: Tally, budget: Budget
) -> bool:
    """Collect findings until the child ends; kill it and return True if it stands still."""
    text = b""
    place, since = bytes(shared), time.monotonic()
    stuck = False
    while True:
        ready, _, _ = select.select([pipe], [], [], min(1.0, budget.patience / 4))
        if ready:
            part = os.read(pipe, 1 << 16)
            if not part:
                break
            text += part
        if bytes(shared) != place:
            place, since = bytes(shared), time.monotonic()
        elif not stuck and time.monotonic() - since > budget.patience:
            stuck = True
            os.kill(process, signal.SIGKILL)
    os.close(pipe)
    tally.findings += [Finding(**json.loads(line)) for line in text.splitlines()]
    return stuck


def run_campaign(
    targets: list[Target],
    n_inputs: int,
    seed: int,
    *,
    first: int = 0,
    batch: int = 500,
    budget: Budget | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Tally]:
    """Run about `n_inputs` inputs, by the weights of the targets and in turns."""
    budget = budget or Budget()
    tallies = {target.name: Tally() for target in targets}
    with _scratch() as folder:
        for target in targets:
            target.prepare(folder)
        share = -(-n_inputs // sum(target.weight for target in targets))
        for begin in range(first, first + share, batch):
            stop = min(begin + batch, first + share)
            for target in targets:
                tally, weight = tallies[target.name], target.weight
                known = len(tally.findings)
                run_batch(target, seed, begin * weight, stop * weight, tally, budget)
                for finding in tally.findings[known:]:
                    tell(str(finding))
            done = sum(tally.n_inputs for tally in tallies.values())
            tell(f"{done} inputs, {sum(len(t.findings) for t in tallies.values())} findings")
    return tallies
