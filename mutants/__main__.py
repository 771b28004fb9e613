# SPDX-License-Identifier: BSD-3-Clause
"""Change constants, signs and comparisons one at a time, and list what no test notices."""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from mutants.reach import Chooser, Reach, tests_of
from mutants.sites import ROOMS, Site, in_order
from mutants.trials import Outcome, in_fork, prepare, record, try_anew, try_in_place

ROOT = Path(__file__).resolve().parents[1]
EXPLAINED = Path(__file__).parent / "explained.toml"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; return 1 if a survivor is not explained."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument(
        "--only",
        default=",".join(ROOMS),
        metavar="ROOMS",
        help=f"rooms with commas between them, of {', '.join(ROOMS)} (all)",
    )
    parser.add_argument("--number", type=int, default=300, help="how many mutants (300)")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant (0)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, another order (0)")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--show", type=int, metavar="N", help="print mutant N with its tests")
    parser.add_argument("--again", action="store_true", help="try what was killed before, too")
    parser.add_argument(
        "--thorough",
        action="store_true",
        help="try what survives with the tests marked thorough, too",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="processor time of the tests of one mutant (30)",
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository (this one)")
    parser.add_argument(
        "--explained",
        type=Path,
        default=EXPLAINED,
        metavar="FILE",
        help="the register of survivors with a reason (mutants/explained.toml)",
    )
    parser.add_argument(
        "--tests",
        action="append",
        default=[],
        metavar="PATH",
        help="a folder or file of tests besides those of the rooms",
    )
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    folder = root / "build" / "mutants"
    rooms = options.only.split(",")
    unknown = [room for room in rooms if room not in ROOMS]
    if unknown:
        parser.error(f"--only takes {', '.join(ROOMS)}, got {', '.join(unknown)}.")
    if options.number < 1 or options.first < 0:
        parser.error("--number must be at least 1 and --first at least 0.")
    order = in_order(root, rooms, options.seed)
    numbers = {site.key: number for number, site in enumerate(order)}
    chosen = order[options.first : options.first + options.number]
    if options.list:
        for site in chosen:
            _tell(describe(site, numbers[site.key]))
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    if options.show is not None:
        return _show(root, order, options.show, folder / "reach")
    results = Results(folder / "results.jsonl")
    known = {} if options.again else results.load()
    left = [s for s in chosen if known.get(s.key, {}).get("outcome") != "killed"]
    explained = Explained.load(options.explained)
    left = [s for s in left if explained.reason(s) is None]
    _tell(f"{len(chosen)} mutants of {len(order):,}; {len(left)} to try.")
    if left:
        prepare(root)
        tests = [*tests_of(root, rooms), *options.tests]

        def note(site: Site, outcome: Outcome) -> None:
            results.add(site, outcome)
            line = f"{outcome.outcome:9} {describe(site, numbers[site.key])}"
            _tell(f"{line}  [{outcome.n_tests} tests, {outcome.seconds:.1f} s] {outcome.by}")

        for marks in ["", *(["thorough and not slow"] if options.thorough else [])]:
            try_all(root, left, tests, marks, options.budget, folder, note)
            known = results.load()
            left = [s for s in left if known[s.key]["outcome"] != "killed"]
    return report(chosen, results.load(), explained, numbers)


def try_all(
    root: Path,
    sites: Sequence[Site],
    tests: Sequence[str],
    marks: str,
    budget: float,
    folder: Path,
    note: Callable[[Site, Outcome], None],
) -> None:
    """Try mutants with the tests of these marks, once it is known what each test reaches."""
    store = folder / f"reach{'-thorough' if marks else ''}"

    def in_child(work: Callable[[], None]) -> None:
        def answer() -> str:
            work()
            return "done"

        # The package must not be imported here: each child imports it anew.
        found = in_fork(answer, 1e6, quiet=False)
        if found != "done":
            raise RuntimeError(f"a process that runs tests ended with {found!r}")

    in_child(lambda: record(root, tests, marks, store, _tell))
    reach = Reach.load(store)
    chooser = Chooser(root, Reach({f: r for f, r in reach.files.items() if (root / f).exists()}))
    inside = [s for s in sites if s.first_line]
    in_child(lambda: try_in_place(root, inside, tests, marks, chooser, budget, note))
    try_anew(root, [s for s in sites if not s.first_line], marks, chooser, budget, note)


def _tell(text: str) -> None:
    print(text, flush=True)


def describe(site: Site, number: int) -> str:
    """Return a mutant in one line."""
    place = f"{site.path}:{site.line}:{site.column + 1}"
    return f"{number}: {place} {site.scope}: {site.change} in `{site.text}`"


def _show(root: Path, order: Sequence[Site], number: int, store: Path) -> int:
    site = order[number]
    _tell(describe(site, number))
    before = (root / site.path).read_text("utf-8")
    after = site.apply(before)
    _tell(f"- {before.splitlines()[site.line - 1]}\n+ {after.splitlines()[site.line - 1]}")
    for test, cost in Chooser(root, Reach.load(store)).choose(site, 1e9):
        _tell(f"{cost:8.2f} s  {test}")
    return 0


class Results:
    """What became of each mutant, in a file that only grows; the last line of a mutant counts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> dict[str, dict[str, object]]:
        """Return the last result of each mutant by its key."""
        found: dict[str, dict[str, object]] = {}
        if self.path.exists():
            for line in self.path.read_text("utf-8").splitlines():
                entry = json.loads(line)
                found[entry["key"]] = entry
        return found

    def add(self, site: Site, outcome: Outcome) -> None:
        """Append a line."""
        entry = {"key": site.key, "path": site.path, "line": site.line, "change": site.change}
        row = json.dumps({**entry, **asdict(outcome)}) + "\n"
        with self.path.open("ab", buffering=0) as stream:
            stream.write(row.encode())


class Explained:
    """The register of survivors that have a reason."""

    def __init__(self, entries: list[dict[str, str]]) -> None:
        self.entries = entries

    @classmethod
    def load(cls, path: Path) -> Explained:
        """Read the register."""
        return cls(tomllib.loads(path.read_text("utf-8")).get("survivor", []))

    def reason(self, site: Site) -> str | None:
        """Return why the mutant may live, or None."""
        for entry in self.entries:
            if matches(entry, site):
                return entry["reason"]
        return None


def matches(entry: dict[str, str], site: Site) -> bool:
    """Return whether an entry of the register speaks of a mutant."""
    return (
        entry["path"] == site.path
        and entry["scope"] == site.scope
        and entry["line"] == site.text
        and entry.get("change", site.change) == site.change
    )


def report(
    chosen: Sequence[Site],
    results: dict[str, dict[str, object]],
    explained: Explained,
    numbers: dict[str, int],
) -> int:
    """Print a table and the survivors without a reason; return 1 if there are any."""
    _tell(
        "\n| room | mutants | killed | explained | survived |\n| --- | ---: | ---: | ---: | ---: |"
    )
    open_ones = []
    for room in [r for r in ROOMS if any(s.room == r for s in chosen)]:
        members = [s for s in chosen if s.room == room]
        reasons = [s for s in members if explained.reason(s) is not None]
        rest = [s for s in members if explained.reason(s) is None]
        alive = [s for s in rest if results.get(s.key, {}).get("outcome") != "killed"]
        open_ones += alive
        killed = len(members) - len(reasons) - len(alive)
        _tell(f"| {room} | {len(members)} | {killed} | {len(reasons)} | {len(alive)} |")
    for site in open_ones:
        outcome = results.get(site.key, {}).get("outcome", "not tried")
        _tell(f"{outcome}: {describe(site, numbers[site.key])}")
    return int(bool(open_ones))


if __name__ == "__main__":
    sys.exit(main())
