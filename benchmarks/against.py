# SPDX-License-Identifier: BSD-3-Clause
"""The same rows in two versions: a commit in a folder of its own, and this working tree, by turns.

Each side runs its own ``benchmarks`` with its own package and its own compiled code, one process
after the other: there, here, here, there, and so on. A row is matched by its name. Its figures are
the least of all rounds, of ours and of the rival that ran beside it. Our time may change because
the machine is busier; the ratio to the rival changes less. So a row counts as slower only if both
say so.

``python -m benchmarks --against COMMIT --only NAME`` prints the table.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import UnavailableError

__all__ = ["Pair", "compare", "extracted", "table"]

ROOT = Path(__file__).resolve().parents[1]
#: What a side consists of.
_PARTS = ("src", "benchmarks", "pyproject.toml")
#: A row is slower if its time, and its time in units of its rival, are more than this many times
#: what they were.
SLOWER = 1.2
_SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Pair:
    """A row there and here: (ours, rival), or None where a side does not have it."""

    name: str
    unit: str
    there: tuple[float, float] | None
    here: tuple[float, float] | None

    @property
    def change(self) -> float | None:
        """Our time here, in units of our time there."""
        if self.there is None or self.here is None:
            return None
        return self.here[0] / self.there[0]

    @property
    def change_beside_rival(self) -> float | None:
        """The same with both times in units of the rival's."""
        if self.there is None or self.here is None:
            return None
        return (self.here[0] / self.here[1]) / (self.there[0] / self.there[1])

    @property
    def is_slower(self) -> bool:
        """Whether both say that it is slower here."""
        changes = self.change, self.change_beside_rival
        return all(change is not None and change > SLOWER for change in changes)


@contextmanager
def extracted(commit: str, root: Path = ROOT) -> Iterator[Path]:
    """Lend a folder with the package and the benchmarks of a commit."""
    known = subprocess.run(
        ["git", "-C", str(root), "ls-tree", "--name-only", commit],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if known.returncode:
        raise UnavailableError(
            f"--against needs a commit of the repository at {root}, got {commit!r}: "
            f"{known.stderr.strip()}"
        )
    parts = [name for name in _PARTS if name in known.stdout.split("\n")]
    if "benchmarks" not in parts:
        raise UnavailableError(f"the commit {commit!r} has no benchmarks; take a later one.")
    packed = subprocess.run(
        ["git", "-C", str(root), "archive", "--format=tar", commit, *parts],
        capture_output=True, check=True,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="pairlearn-against-") as folder:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


def compare(
    commit: str, names: Sequence[str], *, quick: bool, rounds: int = 2, root: Path = ROOT
) -> tuple[list[Pair], dict[str, str]]:
    """Run benchmarks there and here by turns; return the rows, and what broke where."""
    found: dict[str, dict[str, dict[str, Any]]] = {"there": {}, "here": {}}
    broken: dict[str, str] = {}
    with extracted(commit, root) as folder:
        sides = {"there": folder, "here": root}
        for name in names:
            for k in range(rounds):
                order = list(sides)[:: -1 if k % 2 else 1]
                for side in order:
                    rows, text = _run(sides[side], name, quick=quick)
                    if text:
                        broken[f"{name}, {side}"] = text
                    for row in rows:
                        _keep_least(found[side], row)
    there, here = found["there"], found["here"]
    titles = [*here, *(title for title in there if title not in here)]
    return [_pair(title, there.get(title), here.get(title)) for title in titles], broken


def _pair(name: str, there: dict[str, Any] | None, here: dict[str, Any] | None) -> Pair:
    some = here or there
    assert some is not None
    own = [None if row is None else (row["ours"], row["rival"]) for row in (there, here)]
    return Pair(name, some["unit"], *own)


def _keep_least(rows: dict[str, dict[str, Any]], row: dict[str, Any]) -> None:
    """Note the least of the times of a row."""
    before = rows.setdefault(row["name"], row)
    for side in ("ours", "rival"):
        before[side] = min(before[side], row[side])


def _run(folder: Path, name: str, *, quick: bool) -> tuple[list[dict[str, Any]], str]:
    """Run one benchmark of a side in a process of its own; return its rows, or what went wrong."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "rows.json")
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", "--only", name, "--json", str(path)]
            + ["--quick"] * quick,
            cwd=folder,
            env={
                **os.environ,
                **dict.fromkeys(_SINGLE, "1"),
                "PYTHONPATH": os.pathsep.join(map(str, (folder / "src", folder))),
            },
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not path.exists():
            return [], (done.stderr or done.stdout)[-1000:]
        document = json.loads(path.read_text(encoding="utf-8"))
    problems = {**document.get("skipped", {}), **document.get("broken", {})}
    return document["rows"], "\n".join(problems.values())


def table(commit: str, pairs: Sequence[Pair]) -> Any:
    """Return a rich table of the rows."""
    from rich.table import Table

    shown = Table("row", title=f"here against {commit}: CPU time, the least of the rounds")
    for heading in ("there", "here", "unit", "here / there", "beside the rival", ""):
        shown.add_column(heading, justify="left" if heading in ("unit", "") else "right")
    for pair in pairs:
        changes = ["" if x is None else f"{x:.2f}" for x in (pair.change, pair.change_beside_rival)]
        verdict = "[bold red]SLOWER" if pair.is_slower else ""
        if pair.there is None or pair.here is None:
            verdict = "new" if pair.there is None else "gone"
        times = ["" if own is None else f"{own[0]:.4g}" for own in (pair.there, pair.here)]
        shown.add_row(pair.name, *times, pair.unit, *changes, verdict)
    return shown
