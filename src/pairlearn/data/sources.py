# SPDX-License-Identifier: BSD-3-Clause
"""Facts about each data set: its address, its size, how its labels become signs.

Sizes are those on the LIBSVM site. `sha256` is the digest of the decompressed text. If it is empty,
no digest of the site's file is known: the file is checked by shape and classes when it is fetched,
and its digest is recorded then, to notice later damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pairlearn.data.errors import DataUnavailableError
from pairlearn.data.labels import FirstHalf, LabelRule, OneAgainstRest, PositiveLabel

SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"


@dataclass(frozen=True, kw_only=True)
class Source:
    """One data set.

    Parameters
    ----------
    name : str
        The name on the LIBSVM site.
    address : str
        The URL; empty for a set that ships with scikit-learn.
    n, d, n_classes : int
        Examples, features and classes.
    rule : PositiveLabel, FirstHalf or OneAgainstRest
        How labels become signs.
    sha256 : tuple of str
        Accepted digests of the decompressed text; empty if none is known.
    archive_md5 : str
        Digest of the compressed file on the site, if another project publishes it.
    alias : str
        The short name in the paper.
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
    rule: LabelRule
    sha256: tuple[str, ...] = ()
    archive_md5: str = ""
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


#: Digests of the decompressed texts.
_SHA256 = {
    "diabetes": "419ba20be4862fc53a6fe92e55a84a53ae0075df06632c07592a17d619b5cb23",
    "german.numer": "49cd2d01c2b2908a84db1f1c94e3ec04f772db3a91560af1225edf739f003194",
    "ijcnn1": "16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f",
    "letter.scale": "ce2c7df15cc5742dc4382d59079181c97c21e0beaa0af53c84cc5745c69f1020",
    "mnist": "c42b75fcb54dda11d97af9bd6e3950b41c93b4f44eeb9608aa115f79a5979e88",
    "usps": "8c8fa6ba316ab8e6966d36bd73a73e2b5ee4279e265408e0f265ef3aa84196b5",
    "german.numer_scale": "97637cc6b994bd3fa78999c771bc044bea7a0cdf91d43b6ecfd10f7e7c4ebc82",
}


def _listed(name: str, folder: str, *, file: str = "", **facts: Any) -> Source:
    sha256 = (_SHA256[name],) if name in _SHA256 else ()
    return Source(name=name, address=f"{SITE}/{folder}/{file or name}", sha256=sha256, **facts)


def _binary(name: str, n: int, d: int, *, positive: float = 1.0, **facts: Any) -> Source:
    return _listed(name, "binary", n=n, d=d, n_classes=2, rule=PositiveLabel(positive), **facts)


def _multi(name: str, n: int, d: int, n_classes: int, **facts: Any) -> Source:
    return _listed(name, "multiclass", n=n, d=d, n_classes=n_classes, rule=FirstHalf(), **facts)


def _built_in(name: str, n: int, d: int, n_classes: int, rule: LabelRule, note: str) -> Source:
    note = f"ships with scikit-learn; {note}"
    return Source(name=name, address="", n=n, d=d, n_classes=n_classes, rule=rule, note=note)


_PAPER = (
    _binary("diabetes", 768, 8, note="label -1 is diabetic (268), +1 is not (500)"),
    _binary(
        "german.numer",
        1000,
        24,
        alias="german",
        note="label +1 is bad credit (300), -1 is good (700)",
    ),
    _binary("ijcnn1", 49990, 22, file="ijcnn1.bz2", note="9.7 % positive"),
    _multi(
        "letter.scale",
        15000,
        16,
        26,
        alias="letter",
        note="the paper's table says d = 161; the file has 16 features",
    ),
    _multi(
        "mnist", 60000, 780, 10, file="mnist.bz2", note="integer pixels 0..255; digits 0-4 are +1"
    ),
    _multi(
        "usps",
        7291,
        256,
        10,
        file="usps.bz2",
        archive_md5="ec16c51db3855ca6c91edd34d0e9b197",
        note=(
            "the sha256 is that of a reconstruction from zip.train to six decimals; the site's "
            "own usps.bz2 is recognised by the md5 that torchvision publishes"
        ),
    ),
)

_OTHERS = (
    _binary(
        "diabetes_scale", 768, 8, note="no digest: the copy at hand was recomputed from diabetes"
    ),
    _binary("german.numer_scale", 1000, 24),
    _binary("a1a", 1605, 123),
    _binary("a9a", 32561, 123),
    _binary("australian", 690, 14),
    _binary("breast-cancer", 683, 10, positive=4.0, note="label 4 is malignant"),
    _binary("cod-rna", 59535, 8),
    _binary("covtype.binary", 581012, 54, file="covtype.libsvm.binary.bz2"),
    _binary("fourclass", 862, 2),
    _binary("gisette_scale", 6000, 5000, file="gisette_scale.bz2"),
    _binary("heart", 270, 13),
    _binary("ionosphere_scale", 351, 34),
    _binary("madelon", 2000, 500),
    _binary("mushrooms", 8124, 112),
    _binary("phishing", 11055, 68),
    _binary("real-sim", 72309, 20958, file="real-sim.bz2", sparse=True),
    _binary("rcv1_train.binary", 20242, 47236, file="rcv1_train.binary.bz2", sparse=True),
    _binary("sonar_scale", 208, 60),
    _binary("splice", 1000, 60),
    _binary("svmguide1", 3089, 4),
    _binary("w8a", 49749, 300, note="3 % positive"),
    _multi("pendigits", 7494, 16, 10),
    _multi("satimage.scale", 4435, 36, 6),
    _multi("segment.scale", 2310, 19, 7),
    _multi("Sensorless.scale", 58509, 48, 11),
    _multi("vehicle.scale", 846, 18, 4),
    _multi("vowel.scale", 528, 10, 11),
)

#: Sets that ship with scikit-learn and need no file.
BUILT_IN = (
    _built_in("breast_cancer", 569, 30, 2, PositiveLabel(1.0), "label 1 is benign (357)"),
    _built_in("digits", 1797, 64, 10, FirstHalf(), "digits 0-4 are +1"),
    _built_in(
        "digits_8",
        1797,
        64,
        10,
        OneAgainstRest(8.0),
        "the digit 8 against the rest, 9.7 % positive",
    ),
)
#: The six data sets of the paper's tables, in its order and by its names.
PAPER_SETS = ("diabetes", "german", "ijcnn1", "letter", "mnist", "usps")

_SOURCES = {source.name: source for source in (*BUILT_IN, *_PAPER, *_OTHERS)}
_ALIASES = {source.alias: source.name for source in _SOURCES.values() if source.alias}


def names() -> list[str]:
    """Return the names of all data sets; those of scikit-learn and of the paper come first.

    Examples
    --------
    >>> names()[:4]
    ['breast_cancer', 'digits', 'digits_8', 'diabetes']
    """
    return list(_SOURCES)


def lookup(name: str) -> Source:
    """Return the facts about a data set.

    Parameters
    ----------
    name : str
        The name on the LIBSVM site, or the paper's short name.

    Examples
    --------
    >>> lookup("german").name
    'german.numer'
    """
    source = _SOURCES.get(_ALIASES.get(name, name))
    if source is None:
        import difflib

        close = difflib.get_close_matches(name, [*_SOURCES, *_ALIASES], n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise DataUnavailableError(
            f"no data set is called {name!r}; {hint}`python -m pairlearn.data list` shows all "
            "names, and "
            "read_libsvm(path) reads any file."
        )
    return source
