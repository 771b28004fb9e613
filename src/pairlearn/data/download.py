# SPDX-License-Identifier: BSD-3-Clause
"""Download one file, and give it its name only when it is complete and verified."""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from pairlearn.data.errors import DataUnavailableError

_CHUNK = 1 << 16


def download(
    address: str,
    target: Path,
    *,
    check: Callable[[Path], None] | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    attempts: int = 3,
    timeout: float = 30.0,
    pause: float = 1.0,
) -> Path:
    """Fetch a file to `target`.

    `check` is called with the complete file before it gets its name; if it raises, the file is
    deleted. `progress` is called with the bytes so far and the total (None if unknown). A
    connection that breaks, or is silent for `timeout` seconds, is tried `attempts` times from the
    beginning; the `pause` in seconds doubles each time.
    """
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"address must start with http:// or https://, got {address!r}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    # The decompression looks at the suffix, so the check needs the final one.
    part = target.with_name("unverified-" + target.name)
    try:
        for attempt in range(attempts):
            try:
                _fetch(address, part, progress=progress, timeout=timeout)
                break
            except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
                final = isinstance(error, urllib.error.HTTPError) and error.code < 500
                if final or attempt + 1 == attempts:
                    raise DataUnavailableError(
                        f"cannot fetch {address} ({_reason(error)}); check the network, or put the "
                        "file into the folder that PAIRLEARN_DATA names."
                    ) from error
                time.sleep(pause * 2**attempt)
        if check is not None:
            check(part)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.code} {error.reason}"
    return str(getattr(error, "reason", None) or error or type(error).__name__)


def _fetch(
    address: str,
    part: Path,
    *,
    progress: Callable[[int, int | None], None] | None,
    timeout: float,
) -> None:
    request = urllib.request.Request(address, headers={"User-Agent": "pairlearn"})
    with urllib.request.urlopen(request, timeout=timeout) as response, part.open("wb") as out:
        length, have = response.headers.get("Content-Length"), 0
        total = int(length) if length is not None else None
        while chunk := response.read(_CHUNK):
            out.write(chunk)
            have += len(chunk)
            if progress is not None:
                progress(have, total)
    if total is not None and have != total:
        raise http.client.IncompleteRead(b"", total - have)
