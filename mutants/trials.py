# SPDX-License-Identifier: BSD-3-Clause
"""Try mutants: each in a fork of a process that has imported everything and collected the tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from mutants.reach import Chooser, Reach
from mutants.sites import ROOMS, Site, files_of


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: "killed" (by a test), "survived", or "unreached" by any test."""

    outcome: str
    by: str
    n_tests: int
    seconds: float


def in_fork(work: Callable[[], str], cpu_seconds: float, *, quiet: bool = True) -> str:
    """Run in a child process and return its answer, or "lost: ..." where it gave none.

    Where something ended the child before it could answer, such as the compiler, which ends the
    process on code that makes no sense, it is "lost: signal ..." or "lost: exit ...".
    """
    receive, send = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        answer = "lost: no answer"
        try:
            os.setpgid(0, 0)
            os.close(receive)
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + 1, int(cpu_seconds) + 2))
            if quiet:
                nowhere = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(nowhere, stream)
            answer = work()
        except BaseException as error:
            answer = f"lost: {type(error).__name__}: {error}"[:300]
        finally:
            with contextlib.suppress(OSError):
                os.write(send, answer.encode()[:60_000])
            os._exit(0)
    os.close(send)
    parts = []
    # A loaded machine gives a child a small part of its time; one that sleeps is ended too.
    end = time.monotonic() + 10.0 * cpu_seconds + 60.0
    try:
        while time.monotonic() < end:
            ready, _, _ = select.select([receive], [], [], max(0.0, end - time.monotonic()))
            if ready:
                part = os.read(receive, 65_536)
                if not part:
                    break
                parts.append(part)
    finally:
        os.close(receive)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if parts:
        return b"".join(parts).decode()
    if os.WIFSIGNALED(status):
        return f"lost: signal {os.WTERMSIG(status)}"
    code = os.WEXITSTATUS(status)
    return f"lost: exit {code}" if code else "lost: no answer"


def run_test(item: Any, following: Any) -> bool:
    """Run one collected test; return whether it passed or was skipped."""
    from _pytest.runner import runtestprotocol

    return not any(report.failed for report in runtestprotocol(item, False, following))


class _Session:
    """A plugin that runs something of its own in the place of the tests."""

    def __init__(self, work: Callable[[list[Any]], None]) -> None:
        self.work = work

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        self.work(list(session.items))
        return True


def collect(
    root: Path, tests: Sequence[str], marks: str, work: Callable[[list[Any]], None]
) -> None:
    """Collect the tests with these marks, by default the usual ones, and give them to `work`."""
    # With its own loader for asserts, pytest would load a changed module from its file again.
    options = ["-q", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={root}",
               "--assert=plain", "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # fmt: skip
    given = [*(["-m", marks] if marks else []), *(str(root / test) for test in tests)]
    status = pytest.main([*options, *given], plugins=[_Session(work)])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"pytest ended with {status!r}; the tests must be collected first.")


def prepare(root: Path) -> None:
    """Import what the package and its tests need, but nothing of the package."""
    sys.path.insert(0, str(root / "src"))
    os.environ["PYTHONPATH"] = str(root / "src")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    for name in ("numpy", "scipy.stats", "scipy.optimize", "scipy.sparse", "hypothesis", "numba",
                 "hypothesis.extra.numpy", "sklearn.linear_model", "sklearn.metrics", "pandas",
                 "sklearn.utils.estimator_checks", "sklearn.model_selection"):  # fmt: skip
        importlib.import_module(name)


def import_rooms(root: Path) -> None:
    """Import every module of the rooms, so that all functions and kernels can be found."""
    for path in files_of(root, ROOMS):
        parts = path.relative_to(root / "src").with_suffix("").parts
        importlib.import_module(".".join(p for p in parts if p != "__init__"))


def record(
    root: Path, tests: Sequence[str], marks: str, store: Path, tell: Callable[[str], None]
) -> None:
    """Bring the record of what each test reaches up to date."""
    reach = Reach.load(store)

    def work(items: list[Any]) -> None:
        by_file: dict[str, list[Any]] = {}
        for item in items:
            by_file.setdefault(item.nodeid.split("::")[0], []).append(item)
        for file, members in by_file.items():
            if not reach.is_new(root, file):
                continue
            begin = time.monotonic()

            def one(members: list[Any] = members, file: str = file) -> str:
                reach.record(root, members, run_test)
                reach.save(store, file)
                return f"{len(reach.files[file][1])} of {len(members)} tests can be used"

            answer = in_fork(one, 600.0)
            tell(f"{file}: {answer}, {time.monotonic() - begin:.1f} s")

    collect(root, tests, marks, work)


def _codes(code: CodeType) -> list[CodeType]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return inner + [c for one in inner for c in _codes(one)]


@dataclass(frozen=True)
class Held:
    """What a process holds that a change must reach: functions, remembered results, kernels."""

    functions: dict[tuple[str, str, int], list[FunctionType]]
    memories: list[Any]
    kernels: list[Any]

    @classmethod
    def now(cls) -> Held:
        """Return what this process holds now."""
        from numba.core.dispatcher import Dispatcher

        functions: dict[tuple[str, str, int], list[FunctionType]] = {}
        memories, kernels = [], []
        for one in gc.get_objects():
            kind = type(one)
            if kind is FunctionType:
                code = one.__code__
                if "pairlearn" in code.co_filename:
                    place = code.co_filename, code.co_qualname, code.co_firstlineno
                    functions.setdefault(place, []).append(one)
            elif kind.__name__ == "_lru_cache_wrapper":
                memories.append(one)
            elif issubclass(kind, Dispatcher) and hasattr(one, "py_func"):
                kernels.append(one)
        return cls(functions, memories, kernels)

    def put_in_place(self, root: Path, site: Site, source: str) -> None:
        """Give the changed code to every function that has the old one."""
        file = str(root / site.path)
        changed = compile(site.apply(source), file, "exec", dont_inherit=True)
        code = next(
            c for c in _codes(changed)
            if c.co_firstlineno == site.first_line and ".<locals>" not in c.co_qualname
        )  # fmt: skip
        functions = self.functions.get((file, code.co_qualname, site.first_line))
        if not functions:
            raise LookupError(f"no function {code.co_qualname} of {file} is in this process")
        for function in functions:
            function.__code__ = code
        # Functions that this one made before, such as parts of kernels, have code of their own.
        made = {(file, c.co_qualname, c.co_firstlineno): c for c in _codes(code)}
        older = [(one, c) for place, c in made.items() for one in self.functions.get(place, ())]
        for function, inner in older:
            function.__code__ = inner
        # A function that is not compiled itself may write the machine code of any kernel.
        plain = code.co_name not in {k.py_func.__name__ for k in self.kernels}
        every = site.room == "kernels" and (older or plain or file.endswith("_native.py"))
        self.forget(None if every else {code.co_name})

    def forget(self, names: set[str] | None) -> None:
        """Drop results and machine code that the change may have reached, and save none.

        Machine code that contains a function of one of these names is dropped; None stands for all.
        """
        from numba.core.caching import Cache, NullCache

        caching: Any = Cache
        caching.save_overload = lambda *_: None
        compiled: Any = sys.modules.get("pairlearn.scalars")
        if compiled is not None:  # a scalar function from the disk would be the old one
            compiled._stands_alone = lambda _: False
        for memory in self.memories:
            memory.cache_clear()
        used = {id(k): {k.py_func.__name__} | _all_names(k.py_func.__code__) for k in self.kernels}
        stale = None if names is None else set(names)
        while True:
            fresh = [k for k in self.kernels if stale is None or used[id(k)] & stale]
            if stale is None or {k.py_func.__name__ for k in fresh} <= stale:
                break
            stale |= {k.py_func.__name__ for k in fresh}
        for kernel in fresh:
            kernel._cache = NullCache()
            kernel._reset_overloads()  # collecting the tests may have compiled it


def _all_names(code: CodeType) -> set[str]:
    return {name for one in [code, *_codes(code)] for name in one.co_names + one.co_freevars}


class _Loader(SourceFileLoader):
    """Load a module from a changed text."""

    text = ""

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.path, "exec", dont_inherit=True)


class _Changed(importlib.abc.MetaPathFinder):
    """Find one module of the package, with changed code."""

    def __init__(self, name: str, path: Path, text: str) -> None:
        self.name, self.path, self.text = name, path, text

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        loader = _Loader(fullname, str(self.path))
        loader.text = self.text
        package = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=loader, submodule_search_locations=package
        )


def _try(items: Sequence[tuple[Any, float]], spare: float) -> str:
    """Run tests, given with their seconds, until one fails; return its name, or nothing.

    A test that takes ten times its processor time, and `spare` seconds more, never ends.
    """
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    followers = [item for item, _ in items[1:]]
    for (item, cost), following in zip(items, [*followers, None], strict=True):
        limit = min(int(time.process_time() + spare + 10.0 * cost) + 1, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
        if not run_test(item, following):
            return f"killed {item.nodeid}"
    return "survived"


def _spare(site: Site) -> float:
    """Return the seconds that a test may take longer; machine code is compiled anew."""
    return 60.0 if site.room in ("kernels", "losses") else 5.0


def _limit(tests: Sequence[tuple[str, float]]) -> float:
    return 90.0 + 10.0 * sum(cost for _, cost in tests)


def _judge(answer: str, n_tests: int, begin: float) -> Outcome:
    seconds = round(time.monotonic() - begin, 2)
    verdict, _, by = answer.partition(" ")
    if verdict == "lost:":
        verdict, by = ("killed" if by.startswith(("signal ", "exit ")) else "broken"), by
    return Outcome(verdict, by, n_tests, seconds)


def try_in_place(
    root: Path,
    sites: Sequence[Site],
    tests: Sequence[str],
    marks: str,
    chooser: Chooser,
    budget: float,
    done: Callable[[Site, Outcome], None],
) -> None:
    """Try mutants inside functions, in forks of one process that has collected all tests."""
    sources = {site.path: (root / site.path).read_text("utf-8") for site in sites}

    def work(items: list[Any]) -> None:
        import_rooms(root)
        held = Held.now()
        by_name = {item.nodeid: item for item in items}
        for site in sites:
            near = [one for one in chooser.choose(site, budget) if one[0] in by_name]
            begin = time.monotonic()
            if not near:
                done(site, Outcome("unreached", "", 0, 0.0))
                continue

            def one(site: Site = site, near: list[tuple[str, float]] = near) -> str:
                held.put_in_place(root, site, sources[site.path])
                return _try([(by_name[name], cost) for name, cost in near], _spare(site))

            done(site, _judge(in_fork(one, _limit(near)), len(near), begin))

    collect(root, tests, marks, work)


def try_anew(
    root: Path,
    sites: Sequence[Site],
    marks: str,
    chooser: Chooser,
    budget: float,
    done: Callable[[Site, Outcome], None],
) -> None:
    """Try mutants that take effect when a module is imported, each in a process without it."""
    for site in sites:
        tests = chooser.choose(site, budget)
        begin = time.monotonic()
        if not tests:
            done(site, Outcome("unreached", "", 0, 0.0))
            continue

        def one(site: Site = site, tests: list[tuple[str, float]] = tests) -> str:
            path = root / site.path
            parts = path.relative_to(root / "src").with_suffix("").parts
            name = ".".join(p for p in parts if p != "__init__")
            text = site.apply(path.read_text("utf-8"))
            sys.meta_path.insert(0, _Changed(name, path, text))
            answers = []

            def work(items: list[Any]) -> None:
                if site.room in ("kernels", "losses"):
                    import_rooms(root)
                    Held.now().forget(None if site.room == "kernels" else set())
                by_name = {item.nodeid: item for item in items}
                chosen = [(by_name[t], cost) for t, cost in tests if t in by_name]
                answers.append(_try(chosen, _spare(site)))

            try:
                collect(root, sorted({test.split("::")[0] for test, _ in tests}), marks, work)
            except RuntimeError:
                return "killed at collection"
            return answers[0] if answers else "killed at collection"

        done(site, _judge(in_fork(one, _limit(tests)), len(tests), begin))
