# SPDX-License-Identifier: BSD-3-Clause
"""Facts about each data set, from ``sets.csv``: its address, its size, which labels are positive.

Sizes are those on the LIBSVM site. `sha256` is the digest of the decompressed text. If it is empty,
no digest of the site's file is known: the file is checked by shape and classes when it is fetched,
and its digest is recorded then, to notice later damage.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources

SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"

#: The six data sets of the paper's tables, in its order and by its names.
PAPER_SETS = ("diabetes", "german", "ijcnn1", "letter", "mnist", "usps")


class DataError(Exception):
    """A data set cannot be used."""


class DataUnavailableError(DataError):
    """The file is in no folder and could not be fetched."""


class DataCorruptError(DataError):
    """The file exists but has the wrong content."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One data set.

    Parameters
    ----------
    name, alias : str
        The name on the LIBSVM site, and the short name in the paper.
    address : str
        The URL; empty for a set that ships with scikit-learn.
    n, d, n_classes : int
        Examples, features and classes.
    positive : float or None
        The label that becomes +1; None for the first half of the sorted labels, as in the paper.
    sha256 : str
        Digest of the decompressed text, if it is known.
    md5 : str
        Digest of the compressed file on the site, if another project publishes it.
    sparse : bool
        Whether X is a CSR matrix.
    note : str
        A remark for the user.
    """

    name: str
    address: str
    n: int
    d: int
    n_classes: int
    positive: float | None = None
    sha256: str = ""
    md5: str = ""
    alias: str = ""
    sparse: bool = False
    note: str = ""

    @property
    def built_in(self) -> bool:
        """Whether the set ships with scikit-learn."""
        return not self.address

    @property
    def file_name(self) -> str:
        """The file's name on the site."""
        return self.address.rsplit("/", 1)[-1]


@functools.cache
def all_sources() -> dict[str, Source]:
    """Return all data sets by name."""
    table = resources.files(__package__).joinpath("sets.csv").read_text(encoding="utf-8")
    return {
        row["name"]: Source(
            name=row["name"],
            alias=row["alias"],
            address=f"{SITE}/{row['file']}" if row["file"] else "",
            n=int(row["n"]),
            d=int(row["d"]),
            n_classes=int(row["classes"]),
            positive=float(row["positive"]) if row["positive"] else None,
            sparse=row["sparse"] == "yes",
            sha256=row["sha256"],
            md5=row["md5"],
            note=row["note"],
        )
        for row in csv.DictReader(table.splitlines())
    }


def names() -> list[str]:
    """Return the names of all data sets; those of scikit-learn and of the paper come first.

    Examples
    --------
    >>> names()[:4]
    ['breast_cancer', 'digits', 'digits_8', 'diabetes']
    """
    return list(all_sources())


def lookup(name: str) -> Source:
    """Return the facts about a data set, by its name on the LIBSVM site or in the paper.

    Examples
    --------
    >>> lookup("german").name
    'german.numer'
    """
    known = {source.alias: source for source in all_sources().values()} | all_sources()
    if name and name in known:
        return known[name]
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise DataUnavailableError(
        f"no data set is called {name!r}; {hint}`python -m pairlearn.data list` shows all names, "
        "and read_libsvm(path) reads any file."
    )
