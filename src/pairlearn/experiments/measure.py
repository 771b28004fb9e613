# SPDX-License-Identifier: BSD-3-Clause
"""What a piece of work costs: CPU seconds, wall seconds and peak memory of this process.

Memory is read from the kernel's high-water mark, which costs no time while the work runs. Only
Linux lets a process reset that mark, so elsewhere the figure is absent rather than wrong.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

__all__ = ["Meter"]

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def _status_bytes(field: str) -> int | None:
    try:
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return None


def _reset_peak() -> bool:
    try:
        # 5 resets the peak resident size, see proc(5).
        _CLEAR.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


class Meter:
    """Measures the body of a `with` statement.

    Attributes
    ----------
    cpu_seconds, wall_seconds : float
        Of this process, all threads.
    peak_bytes : int or None
        The highest resident memory during the work less that at its start.

    Examples
    --------
    >>> with Meter() as meter:
    ...     _ = sum(range(1000))
    >>> meter.cpu_seconds >= 0 and meter.wall_seconds > 0
    True
    """

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int | None

    def __enter__(self) -> Meter:
        self._before = _status_bytes("VmRSS") if _reset_peak() else None
        self._wall = time.perf_counter()
        self._cpu = time.process_time()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.cpu_seconds = time.process_time() - self._cpu
        self.wall_seconds = time.perf_counter() - self._wall
        peak = _status_bytes("VmHWM") if self._before is not None else None
        self.peak_bytes = (
            None if peak is None or self._before is None else max(0, peak - self._before)
        )
