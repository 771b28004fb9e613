# SPDX-License-Identifier: BSD-3-Clause
"""Pages of the API reference, one for each group of public names, written from the library.

The names are those of ``pairlearn.__all__`` and of the ``__all__`` of the public packages.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

# page: (title, sentence, modules under pairlearn whose top-level names belong to it)
_GROUPS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "estimators": (
        "Estimators",
        "scikit-learn estimators; import them from ``pairlearn``.",
        ("estimators",),
    ),
    "parts": (
        "Parts of a learner",
        "Score, loss, pairing, schedule, domain and averaging; import them from ``pairlearn``.",
        ("problem", "scores", "losses", "pairings", "schedules", "domains", "averaging"),
    ),
    "solvers": (
        "Solvers",
        "What runs the parts; import them from ``pairlearn``.",
        ("solvers",),
    ),
    "metrics": (
        "Metrics",
        "What is measured; import them from ``pairlearn`` or ``pairlearn.metrics``.",
        ("metrics",),
    ),
    "other": (
        "Errors and warnings",
        "What is raised, and other names of ``pairlearn``.",
        (),
    ),
}

# packages whose own ``__all__`` is public
_PACKAGES: dict[str, tuple[str, str]] = {
    "pairlearn.theory": ("Theory", "The theorems as functions, advice and measurements."),
    "pairlearn.privacy": ("Privacy", "Mechanisms, accounting, certificates, audits, planning."),
    "pairlearn.streams": ("Streams", "Readers in chunks, positions, progressive AUC."),
    "pairlearn.distributed": ("Many machines", "Statistics that merge, and Dask estimators."),
    "pairlearn.models": ("Model files", "Reading and writing the safe model file."),
    "pairlearn.data": ("Data sets", "Data sets by name, scaling and splits."),
    "pairlearn.experiments": ("Comparisons", "Methods side by side on the same splits."),
    "pairlearn.recipes": ("Recipes", "Published methods as compositions of parts."),
    "pairlearn.reference": ("Reference", "The algorithms in plain NumPy: slow, and readable."),
}


def _home(module: str) -> str:
    for page, (_, _, modules) in _GROUPS.items():
        if module.split(".")[0] in modules:
            return page
    return "other"


def _table(names: list[str], module: str) -> list[str]:
    lines = [f".. currentmodule:: {module}", ""]
    lines += [".. autosummary::", "   :toctree: objects", "   :nosignatures:", ""]
    return [*lines, *(f"   {name}" for name in names), ""]


def _page(title: str, sentence: str, names: list[str], module: str) -> str:
    lines = [title, "=" * len(title), "", sentence, "", *_table(names, module)]
    return "\n".join(lines) + "\n"


def _page_of_modules(title: str, sentence: str, package: str) -> str:
    """Return a page with a section for each module of a package without names of its own."""
    lines = [title, "=" * len(title), "", sentence, ""]
    folder = importlib.import_module(package).__path__
    for info in pkgutil.walk_packages(folder, f"{package}."):
        module = importlib.import_module(info.name)
        # Programs are described in the guide, constants where they are used.
        names = [
            name
            for name in getattr(module, "__all__", ())
            if name != "main" and callable(getattr(module, name))
        ]
        if names:
            first = (module.__doc__ or "").strip().splitlines()[0]
            lines += [module.__name__, "-" * len(module.__name__), "", first, ""]
            lines += _table(names, module.__name__)
    return "\n".join(lines) + "\n"


def _pages() -> dict[str, str]:
    import pairlearn

    grouped: dict[str, list[str]] = {page: [] for page in _GROUPS}
    packages = {name: _exported(name) for name in _PACKAGES}
    listed = {name.rsplit(".", 1)[1]: names for name, names in packages.items()}
    unnamed = {
        name for name, names in packages.items() if not names and importlib.util.find_spec(name)
    }
    for name in pairlearn.__all__:
        if name.startswith("__"):
            continue
        module = pairlearn._MODULE_OF.get(name, "other")
        # Names that also stand in a public package have their page there.
        package = module.split(".")[0]
        if name not in listed.get(package, ()) and f"pairlearn.{package}" not in unnamed:
            grouped[_home(module)].append(name)
    pages = {
        page: _page(title, sentence, grouped[page], "pairlearn")
        for page, (title, sentence, _) in _GROUPS.items()
        if grouped[page]
    }
    for package, (title, sentence) in _PACKAGES.items():
        if importlib.util.find_spec(package) is not None:
            full = f"{sentence} Import from ``{package}``."
            stem, names = package.rsplit(".", 1)[1], packages[package]
            pages[stem] = (
                _page(title, full, names, package)
                if names
                else _page_of_modules(title, sentence, package)
            )
    return pages


def _exported(package: str) -> list[str]:
    if importlib.util.find_spec(package) is None:
        return []
    import pairlearn

    module = importlib.import_module(package)
    # Constants are described where they are used, unless the library itself exports them.
    return [
        name
        for name in getattr(module, "__all__", ())
        if callable(getattr(module, name)) or name in pairlearn.__all__
    ]


def write_pages(folder: Path) -> list[str]:
    """Write the pages into `folder`, touching only those that changed, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = _pages()
    order = [*_GROUPS, *(package.rsplit(".", 1)[1] for package in _PACKAGES)]
    lines = ["API reference", "=============", ""]
    sentences = {page: sentence for page, (_, sentence, _) in _GROUPS.items()}
    sentences |= {
        package.rsplit(".", 1)[1]: sentence for package, (_, sentence) in _PACKAGES.items()
    }
    for page in order:
        if page in pages:
            lines += [f":doc:`{page}`", f"   {sentences[page]}", ""]
    lines += [".. toctree::", "   :hidden:", ""]
    lines += [f"   {page}" for page in order if page in pages]
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
