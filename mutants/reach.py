# SPDX-License-Identifier: BSD-3-Clause
"""Which test reaches which function, recorded once, and the tests to try on a mutant."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from mutants.sites import Site

#: Folders in which a file of tests may be about an inner module of another room.
_FOLDERS = ("estimators", "domains", "features", "laws", "metrics", "pairings", "privacy",
            "product", "solvers", "streams")  # fmt: skip
#: Folders with tests of machine code and of losses, which nothing else calls.
_ALSO = {
    "losses": ("tests/laws", "tests/solvers", "tests/metrics"),
    "kernels": ("tests/laws", "tests/solvers", "tests/metrics", "tests/pairings",
                "tests/features", "tests/streams", "tests/domains", "tests/test_content.py"),
}  # fmt: skip
_KERNELS = "src/pairlearn/kernels/"
#: The test that imports a room and compares the defaults of its functions with what they state.
_OF_DEFAULTS = "tests/laws/test_defaults.py"


def tests_of(root: Path, rooms: Sequence[str]) -> list[str]:
    """Return folders and files with tests of rooms: their own, and those that name a module."""
    found = dict.fromkeys([_OF_DEFAULTS] if (root / _OF_DEFAULTS).exists() else [])
    for room in rooms:
        own = [
            name for name in (f"tests/{room}", f"src/pairlearn/{room}") if (root / name).exists()
        ]
        found |= dict.fromkeys((*own, *_ALSO.get(room, ())))
    for folder in _FOLDERS:
        for path in sorted((root / "tests" / folder).rglob("test_*.py")):
            text, name = path.read_text("utf-8"), path.relative_to(root).as_posix()
            named = any(re.search(rf"pairlearn\.{room}\.\w", text) for room in rooms)
            if named and not any(name.startswith(f"{one}/") for one in found):
                found[name] = None
    return list(found)


def function_of(code: CodeType) -> str:
    """Return the name of the outermost function that the code is part of."""
    return code.co_qualname.split(".<locals>")[0]


@dataclass
class Reach:
    """For each test its processor time and the functions that it calls, by file of tests.

    `files` maps a file of tests to the hash of its text and to its tests: the name of a test to
    its seconds and to the functions it reaches, each as ``path::qualified name``.
    """

    files: dict[str, tuple[str, dict[str, tuple[float, list[str]]]]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Reach:
        """Read all that `save` wrote to a folder."""
        found = cls()
        for path in sorted(folder.glob("*.json")):
            document = json.loads(path.read_text("utf-8"))
            names = document["functions"]
            found.files[document["file"]] = (
                document["digest"],
                {
                    test: (cost, [names[i] for i in called])
                    for test, (cost, called) in document["tests"].items()
                },
            )
        return found

    def save(self, folder: Path, file: str) -> None:
        """Write what is known of one file of tests, each name of a function once."""
        digest, tests = self.files[file]
        numbers: dict[str, int] = {}
        rows = {
            test: (cost, [numbers.setdefault(function, len(numbers)) for function in called])
            for test, (cost, called) in tests.items()
        }
        document = {"file": file, "digest": digest, "functions": list(numbers), "tests": rows}
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{file.replace('/', '.')}.json"
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(document), "utf-8")
        beside.replace(path)

    def is_new(self, root: Path, file: str) -> bool:
        """Return whether a file of tests is not recorded as it is now."""
        return file not in self.files or self.files[file][0] != digest_of(root / file)

    def record(self, root: Path, items: Sequence[Any], run: Callable[[Any, Any], bool]) -> None:
        """Run the tests of one file, and keep those that pass and what they call."""
        package = str(root / "src" / "pairlearn") + "/"
        keys: dict[CodeType, str | None] = {}
        called: set[str] = set()

        def note(frame: FrameType, event: str, _: object) -> None:
            if event != "call":
                return
            code = frame.f_code
            if code not in keys:
                inside = code.co_filename.startswith(package)
                path = code.co_filename[len(str(root)) + 1 :]
                keys[code] = f"{path}::{function_of(code)}" if inside else None
            key = keys[code]
            if key is not None:
                called.add(key)

        tests: dict[str, tuple[float, list[str]]] = {}
        for item, following in zip(items, [*items[1:], None], strict=True):
            called.clear()
            begin = time.process_time()
            sys.setprofile(note)
            try:
                passed = run(item, following)
            finally:
                sys.setprofile(None)
            if passed:
                tests[item.nodeid] = (round(time.process_time() - begin, 4), sorted(called))
        file = items[0].nodeid.split("::")[0]
        self.files[file] = (digest_of(root / file), tests)

    def tests(self) -> Iterator[tuple[str, float, list[str]]]:
        """Yield the name, the seconds and the functions of every test."""
        for _, tests in self.files.values():
            for test, (cost, called) in tests.items():
                yield test, cost, called


def digest_of(path: Path) -> str:
    """Return a short hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class Chooser:
    """Choose the tests of a mutant: the near ones first, the quick ones before the long ones."""

    def __init__(self, root: Path, reach: Reach) -> None:
        self.root = root
        self.by_function: dict[str, list[tuple[str, float]]] = defaultdict(list)
        self.breadth: dict[str, int] = {}
        self.costs: dict[str, float] = {}
        for test, cost, called in reach.tests():
            self.breadth[test], self.costs[test] = len(called), cost
            for function in called:
                self.by_function[function].append((test, cost))
        self._mentions: dict[str, set[str]] | None = None
        self._imports: dict[str, set[str]] = {}

    def choose(self, site: Site, budget: float) -> list[tuple[str, float]]:
        """Return tests and their seconds, of at most `budget` seconds together."""
        found: dict[str, float] = {}
        functions = self.functions(site)
        for function in functions:
            found.update(self.by_function.get(function, ()))
        if site.room == "kernels":
            found.update(self.calling({_called(f) for f in functions if f.startswith(_KERNELS)}))
        if not site.first_line:
            of_room = f"{_OF_DEFAULTS}::test_stated_defaults_are_the_defaults[{site.room}]"
            found |= {of_room: self.costs[of_room]} if of_room in self.costs else {}
        module = site.path.removeprefix("src/pairlearn/").removesuffix(".py")
        near = (f"tests/{site.room}/", site.path)
        of_users = {f"test_{Path(f.split('::')[0]).stem}.py" for f in functions}

        def place(test: str) -> int:
            if test.startswith(_OF_DEFAULTS):
                return 0
            named = f"test_{module.split('/')[-1]}.py" in test or test.startswith(site.path)
            known = test.startswith(near) or test.split("::")[0].split("/")[-1] in of_users
            return 0 if named else 1 if known else 2

        chosen: list[tuple[str, float]] = []
        total = 0.0
        # A test that reaches little is about what it reaches.
        ranks = {
            test: (place(test), cost * self.breadth[test], test) for test, cost in found.items()
        }
        for test, cost in sorted(found.items(), key=lambda one: ranks[one[0]]):
            if not chosen or total + cost <= budget:
                chosen.append((test, cost))
                total += cost
        return chosen

    def functions(self, site: Site) -> set[str]:
        """Return the functions whose tests may notice the change.

        Machine code calls nothing that can be recorded. So a function that no test calls is
        looked for by its name in other functions, and in those that name these, until tests call
        them.
        """
        own = f"{site.path}::{site.function or site.scope}"
        if site.first_line and own in self.by_function and site.room not in ("losses", "kernels"):
            return {own}
        found = {own}
        if site.room == "losses" or not site.first_line:
            # Compiled too, or used by whatever the class or the file does.
            around = site.scope.split(".")[0]
            found |= {f for f in self.by_function if f.startswith(f"{site.path}::{around}")}
        names = (
            {site.function.split(".")[-1]}
            if site.first_line
            else {site.text.split(" ")[0].strip(":")}
        )
        seen: set[str] = set()
        for _ in range(6):
            users = set().union(*(self.mentions().get(name, set()) for name in names - seen))
            seen |= names
            found |= users
            # What writes machine code is called by a test only where it is not on the disk yet.
            names = {
                _called(u) for u in users if u not in self.by_function or u.startswith(_KERNELS)
            }
            if not names - seen:
                break
        if not site.first_line and not any(f in self.by_function for f in found):
            found |= {f for f in self.by_function if f.startswith(f"{site.path}::")}
        return found

    def calling(self, names: set[str]) -> dict[str, float]:
        """Return the tests, with their seconds, of files that import a kernel of such a name.

        A call of machine code from a test is not recorded either.
        """
        found = {}
        for test, cost in self.costs.items():
            file = test.split("::")[0]
            if file not in self._imports:
                path = self.root / file
                text = path.read_text("utf-8") if file.startswith("tests/") else ""
                self._imports[file] = {
                    alias.name
                    for node in ast.walk(ast.parse(text))
                    if isinstance(node, ast.ImportFrom)
                    and (node.module or "").startswith("pairlearn.kernels")
                    for alias in node.names
                }
            if self._imports[file] & names:
                found[test] = cost
        return found

    def mentions(self) -> dict[str, set[str]]:
        """Return, for each name, the functions of the package that use it."""
        if self._mentions is None:
            self._mentions = defaultdict(set)
            for path in sorted((self.root / "src" / "pairlearn").rglob("*.py")):
                relative = path.relative_to(self.root).as_posix()
                for scope, name in _names(ast.parse(path.read_text("utf-8")), ()):
                    self._mentions[name].add(f"{relative}::{scope}")
        return self._mentions


def _called(function: str) -> str:
    """Return the name by which others call a function, given as ``path::qualified name``."""
    return function.split("::")[1].split(".")[-1]


def _names(
    node: ast.AST, scope: tuple[str, ...], *, inside: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the outermost function, or the class, and each name that it uses."""
    children: Iterable[ast.AST] = ast.iter_child_nodes(node)
    for child in children:
        inner, within = scope, inside
        if isinstance(child, ast.Assign) and not scope:
            # What the file makes once, by whatever it calls.
            made = [n.id for t in child.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            used = [n.id for n in ast.walk(child.value) if isinstance(n, ast.Name)]
            yield from itertools.product(made, used)
        if isinstance(child, ast.FunctionDef | ast.ClassDef) and not inside:
            inner, within = (*scope, child.name), isinstance(child, ast.FunctionDef)
        elif scope and isinstance(child, ast.Name):
            yield ".".join(scope), child.id
        elif scope and isinstance(child, ast.Attribute):
            yield ".".join(scope), child.attr
        yield from _names(child, inner, inside=within)
