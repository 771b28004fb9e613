# SPDX-License-Identifier: BSD-3-Clause
"""Describe where numbers were made: versions, machine, threads. No user or host names."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

__all__ = ["environment"]

_PACKAGES = ("pairlearn", "numpy", "scipy", "scikit-learn", "numba", "matplotlib")


def environment() -> dict[str, str]:
    """Return the facts that a reader needs to judge and repeat timings."""
    found = {
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": str(os.cpu_count() or "unknown"),
    }
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == "pairlearn":
                from pairlearn import __version__

                found[name] = __version__
            else:
                found[name] = "not installed"
    return found


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
