# SPDX-License-Identifier: BSD-3-Clause
"""Pages of the API reference, written from the library: one for each door, or group of doors.

A page lists the names that `pairlearn` itself exports, then the other names of each of its doors.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

# page: (title, sentence, doors under pairlearn)
_PAGES: dict[str, tuple[str, str, str]] = {
    "estimators": ("Estimators", "Estimators with scikit-learn's interface.", "estimators"),
    "parts": (
        "Parts of a learner",
        "Score, loss, pairing, schedule, domain, averaging and feature map.",
        "problem scores losses pairings schedules domains averaging features",
    ),
    "solvers": ("Solvers", "They run the parts.", "solvers recipes reference"),
    "metrics": ("Metrics", "Measures of quality, with intervals and tests.", "metrics"),
    "privacy": ("Privacy", "Mechanisms, accounting, certificates, audits, planning.", "privacy"),
    "streams": ("Streams", "Readers in chunks, online learners, progressive AUC.", "streams"),
    "tables": ("Tables", "Columns of text, numbers and dates as features.", "tables"),
    "cluster": (
        "Many machines, queries",
        "Fits where the rows are, moments by SQL.",
        "cluster",
    ),
    "models": ("Model files", "Reading and writing the safe model file.", "models"),
    "data": ("Data sets", "Data sets by name, scaling and splits.", "data"),
    "theory": ("Theory", "The theorems as functions, advice and measurements.", "theory"),
    "experiments": ("Comparisons", "Methods side by side on the same splits.", "experiments"),
    "other": ("Errors and warnings", "Errors and warnings that every room may raise.", ""),
}


def _section(names: list[str], module: str) -> list[str]:
    """Return the lines that list names under the module that users import them from."""
    if not names:
        return []
    title = f"From {module}"
    lines = [title, "-" * len(title), "", f".. currentmodule:: {module}", ""]
    lines += [".. autosummary::", "   :toctree: objects", "   :nosignatures:", ""]
    return [*lines, *(f"   {name}" for name in names), ""]


def _pages() -> dict[str, str]:
    import pairlearn

    top = [name for name in pairlearn.__all__ if not name.startswith("__")]
    left, pages = set(top), {}
    for page, (title, sentence, doors) in _PAGES.items():
        rooms = {f"pairlearn.{door}": _exported(f"pairlearn.{door}") for door in doors.split()}
        here = {name for names in rooms.values() for name in names} & left if rooms else left
        lines = [title, "=" * len(title), "", sentence, "", *_section(sorted(here), "pairlearn")]
        for module, names in rooms.items():
            lines += _section([name for name in names if name not in top], module)
        left -= here
        pages[page] = "\n".join(lines) + "\n"
    return pages


def _exported(package: str) -> list[str]:
    module = importlib.import_module(package)
    return [name for name in module.__all__ if _is_listed(module, name)]


def _is_listed(module: ModuleType, name: str) -> bool:
    """Whether a name is a class or a function, and the extra that it needs is installed."""
    try:
        return callable(getattr(module, name))
    except ImportError:
        return False


def write_pages(folder: Path) -> list[str]:
    """Write the pages into `folder`, touching only those that changed, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = _pages()
    lines = ["API reference", "=============", ""]
    for page, (_, sentence, _) in _PAGES.items():
        lines += [f":doc:`{page}`", f"   {sentence}", ""]
    lines += [".. toctree::", "   :hidden:", "", *(f"   {page}" for page in pages)]
    pages["index"] = "\n".join(lines) + "\n"
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    objects = {
        f"{module}.{name}"
        for text in pages.values()
        for module, table in re.findall(r"currentmodule:: (\S+)\n\n(.*?)\n\n(?=\S|$)", text, re.S)
        for name in re.findall(r"^   (\w+)$", table, re.M)
    }
    # What an earlier build wrote for names that are gone would be pages without a way to them.
    for path in (*folder.glob("*.rst"), *folder.glob("objects/*.rst")):
        if path.stem not in (objects if path.parent.name == "objects" else pages):
            path.unlink()
    return [str(folder / f"{name}.rst") for name in pages]
