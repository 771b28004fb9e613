# SPDX-License-Identifier: BSD-3-Clause
"""Find the files of data sets: in the user's folder, or in the cache of this platform."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pairlearn.data.errors import DataUnavailableError
from pairlearn.data.libsvm import SUFFIXES
from pairlearn.data.sources import Source

#: Environment variable of a folder that is searched before the cache and the network.
FOLDER_VARIABLE = "PAIRLEARN_DATA"
#: Environment variable of the cache folder.
CACHE_VARIABLE = "PAIRLEARN_CACHE"


def cache_folder() -> Path:
    """Return the folder of fetched files; it need not exist.

    ``PAIRLEARN_CACHE`` names it; the default is the platform's cache folder.
    """
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser() / "data"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pairlearn" / "data"


def named_folder() -> Path | None:
    """Return the folder that ``PAIRLEARN_DATA`` names, or None."""
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataUnavailableError(
            f"{FOLDER_VARIABLE} names {named!r}, which is not a folder; correct or unset it."
        )
    return folder


def find_file(source: Source) -> Path | None:
    """Return the file of a data set, or None if it must be fetched.

    A file may be called by the set's name, by its alias or as on the site, with or without
    ``.libsvm``, plain or compressed (.xz, .bz2, .gz).
    """
    stems = [source.name, source.alias] if source.alias else [source.name]
    file_stem = source.file_name
    for suffix in SUFFIXES[1:]:
        file_stem = file_stem.removesuffix(suffix)
    if file_stem not in stems:
        stems.append(file_stem)
    for folder in (named_folder(), cache_folder()):
        if folder is None:
            continue
        for stem in stems:
            for middle in (".libsvm", ""):
                for suffix in SUFFIXES:
                    path = folder / f"{stem}{middle}{suffix}"
                    if path.is_file():
                        return path
    return None
