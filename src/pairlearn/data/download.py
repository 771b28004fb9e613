# SPDX-License-Identifier: BSD-3-Clause
"""Download one file: resume an interrupted download, and publish the file only when verified.

The bytes are collected in ``NAME.part`` beside the target. A later call asks the server only for
the rest (`Range`, and `If-Range` so that a changed file starts anew). When the file is complete and
has passed the caller's check, one atomic rename puts it in place.
"""

from __future__ import annotations

import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pairlearn.data.errors import DataCorruptError, DataUnavailableError

_CHUNK = 1 << 16
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class _RestartError(Exception):
    """The partial file does not match the file on the server."""


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
    """Fetch a file to `target`, resuming an earlier call.

    `check` is called with the complete file before it gets its name; if it raises
    `DataCorruptError` the file is deleted. `progress` is called with the bytes so far and the total
    (None if unknown). A connection that breaks, or is silent for `timeout` seconds, is retried
    `attempts` times; the `pause` in seconds doubles each time. If the server cannot be reached,
    `DataUnavailableError` is raised, and the partial file is kept for the next call.
    """
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"address must start with http:// or https://, got {address!r}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    tag = target.with_name(target.name + ".part.tag")
    for attempt in range(attempts):
        try:
            _fetch(address, part, tag, progress=progress, timeout=timeout)
            break
        except _RestartError:
            part.unlink(missing_ok=True)
            tag.unlink(missing_ok=True)
            reason = "the file on the server changed"
        except urllib.error.HTTPError as error:
            reason = f"{error.code} {error.reason}"
            if error.code < 500:
                raise _unavailable(address, reason) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = str(getattr(error, "reason", None) or error or type(error).__name__)
        if attempt + 1 < attempts:
            time.sleep(pause * 2**attempt)
    else:
        raise _unavailable(address, reason)
    if check is not None:
        # Windows and the decompression look at the suffix, so the check needs the final one
        checked = target.with_name("unverified-" + target.name)
        os.replace(part, checked)
        try:
            check(checked)
        except DataCorruptError:
            checked.unlink(missing_ok=True)
            tag.unlink(missing_ok=True)
            raise
        os.replace(checked, target)
    else:
        os.replace(part, target)
    tag.unlink(missing_ok=True)
    return target


def _fetch(
    address: str,
    part: Path,
    tag: Path,
    *,
    progress: Callable[[int, int | None], None] | None,
    timeout: float,
) -> None:
    """Append the missing bytes to the part file, or start it anew if the server's file changed."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"User-Agent": "pairlearn"})
    known = tag.read_text(encoding="utf-8").strip() if have and tag.exists() else ""
    if have and known:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", known)
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416:
            raise _RestartError from error
        raise
    with response:
        have, total = _where(response, have if known else 0)
        validator = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
        # a weak tag does not promise equal bytes, so it cannot join two halves
        if validator and not validator.startswith("W/"):
            tag.write_text(validator, encoding="utf-8")
        else:
            tag.unlink(missing_ok=True)
        with part.open("r+b" if have else "wb") as out:
            out.seek(have)
            out.truncate()
            while chunk := response.read(_CHUNK):
                out.write(chunk)
                have += len(chunk)
                if progress is not None:
                    progress(have, total)
            out.flush()
            os.fsync(out.fileno())
    if total is not None and have != total:
        raise http.client.IncompleteRead(b"", total - have)


def _where(response: Any, have: int) -> tuple[int, int | None]:
    """Return the first byte of this answer, and the length of the whole file."""
    if response.status == 206:
        match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != have:
            raise _RestartError
        return have, None if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length")
    return 0, int(length) if length is not None else None


def _unavailable(address: str, reason: str) -> DataUnavailableError:
    return DataUnavailableError(
        f"cannot fetch {address} ({reason}); check the network, or put the file into the folder "
        "that PAIRLEARN_DATA names."
    )
