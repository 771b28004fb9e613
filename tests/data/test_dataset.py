# SPDX-License-Identifier: BSD-3-Clause
import hashlib
import lzma
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.data import (
    PAPER_SETS,
    DataCorruptError,
    DataUnavailableError,
    Source,
    find,
    load,
    lookup,
    names,
    sources,
    to_signs,
)
from pairlearn.data.dataset import verify
from pairlearn.data.files import cache_folder

GOOD = b"".join(
    b"%+d 1:%d 2:0.5%s\n" % (1 if i % 3 else -1, i, b" 3:1" if i % 2 else b"") for i in range(40)
)

SHARED = Path(
    os.environ.get("PAIRLEARN_DATA") or Path(__file__).resolve().parents[2].parent / "shared/data"
)


@pytest.fixture
def source():
    return Source(
        name="toy",
        address="http://127.0.0.1:1/toy.txt",
        n=40,
        d=3,
        n_classes=2,
        positive=1.0,
        sha256=hashlib.sha256(GOOD).hexdigest(),
    )


@pytest.fixture
def register(monkeypatch):
    """Put a source into the table for one test."""

    def put(entry, **changes):
        entry = replace(entry, **changes)
        monkeypatch.setitem(sources.all_sources(), entry.name, entry)
        return entry

    return put


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "files"
    path.mkdir()
    monkeypatch.setenv("PAIRLEARN_DATA", str(path))
    return path


def test_named_folder_takes_precedence_over_the_cache(source, register, folder):
    register(source)
    cache_folder().mkdir(parents=True)
    (cache_folder() / "toy.txt").write_bytes(b"not this one")
    (folder / "toy.libsvm.xz").write_bytes(lzma.compress(GOOD))
    data = load("toy")
    assert data.origin == str(folder / "toy.libsvm.xz")
    assert (data.n, data.d, data.n_positive) == (40, 3, 26)
    assert data.sha256 == hashlib.sha256(GOOD).hexdigest()
    assert set(data.y) == {-1.0, 1.0}


@pytest.mark.parametrize("name", ["toy.libsvm", "toy", "short.libsvm", "toy.txt"])
def test_names_under_which_a_file_may_lie(source, register, folder, name):
    register(source, alias="short")
    (folder / name).write_bytes(GOOD)
    assert find("toy") == folder / name


def test_wrong_checksum(source, register, folder):
    register(source)
    (folder / "toy").write_bytes(GOOD.replace(b"0.5", b"0.6", 1))
    with pytest.raises(DataCorruptError, match=r"has sha256 .*expected"):
        load("toy")
    assert load("toy", verify_digest=False).n == 40


def test_truncated_plain_file_without_a_known_digest(source, register, folder):
    register(source, sha256="")
    (folder / "toy").write_bytes(b"".join(GOOD.splitlines(keepends=True)[:-3]))
    with pytest.raises(DataCorruptError, match="37 examples"):
        load("toy")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positive": 2.0}, "one of them labelled 2"),
        ({"n_classes": 3}, "2 classes"),
        ({"d": 2}, "3 features"),
    ],
)
def test_wrong_label_rule_or_shape(source, register, folder, changes, message):
    register(source, **changes)
    (folder / "toy").write_bytes(GOOD)
    with pytest.raises(DataCorruptError, match=message):
        load("toy")


def test_features_that_are_zero_everywhere_are_kept(source, register, folder):
    register(source, d=7)
    (folder / "toy").write_bytes(GOOD)
    assert load("toy").X.shape == (40, 7)


def test_fetch_verifies_and_the_cache_serves_the_second_call(source, register, server):
    entry = register(source, address=server.address)
    assert load("toy").n == 40
    assert (cache_folder() / entry.file_name).read_bytes() == GOOD
    assert load("toy").n == 40
    assert len(server.asked) == 1


def test_fetch_refuses_what_is_not_the_data_set(source, register, server):
    register(source, address=server.address)
    server.content = b"<html>moved</html>"
    with pytest.raises(DataCorruptError):
        load("toy")
    assert list(cache_folder().iterdir()) == []


def test_first_digest_seen_guards_a_set_without_a_published_one(source, register, server):
    entry = register(source, address=server.address, sha256="")
    load("toy")
    path = cache_folder() / entry.file_name
    path.write_bytes(GOOD.replace(b"0.5", b"0.6", 1))
    with pytest.raises(DataCorruptError, match="sha256"):
        load("toy")


def test_archive_known_by_its_md5(source, register, tmp_path):
    import bz2

    packed = bz2.compress(GOOD)
    path = tmp_path / "toy.bz2"
    path.write_bytes(packed)
    md5 = hashlib.md5(packed, usedforsecurity=False).hexdigest()
    known = register(source, sha256="0" * 64, md5=md5)
    assert verify(known, path)[2] == hashlib.sha256(GOOD).hexdigest()
    with pytest.raises(DataCorruptError):
        verify(register(source, sha256="0" * 64), path)


def test_missing_file_names_the_cure(source, register):
    register(source)
    with pytest.raises(DataUnavailableError, match=r"pairlearn\.data fetch toy"):
        load("toy", download_missing=False)


def test_unknown_name_suggests_a_known_one():
    with pytest.raises(DataUnavailableError, match="did you mean 'diabetes'"):
        lookup("diabets")


def test_folder_that_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PAIRLEARN_DATA", str(tmp_path / "absent"))
    with pytest.raises(DataUnavailableError, match="not a folder"):
        load("diabetes")


@pytest.mark.parametrize("name", ["breast_cancer", "digits"])
def test_sets_of_scikit_learn_are_always_there(name):
    data = load(name, download_missing=False)
    source = lookup(name)
    assert data.X.shape == (source.n, source.d)
    assert len(data.classes) == source.n_classes
    assert data.origin == "scikit-learn"


def test_digits_are_split_as_the_paper_splits():
    from sklearn.datasets import load_digits

    np.testing.assert_array_equal(load("digits").y > 0, load_digits().target < 5)


def test_sources_are_consistent():
    for name in names():
        source = lookup(name)
        assert source.built_in or source.address.startswith("https://www.csie.ntu.edu.tw/")
        assert source.positive is not None or source.n_classes > 2
        assert len(source.sha256) in (0, 64)
    assert [lookup(name).n for name in PAPER_SETS] == [768, 1000, 49990, 15000, 60000, 7291]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the paper's data sets are not on this machine")
@pytest.mark.parametrize(
    ("name", "n_positive"),
    [("diabetes", 500), ("german", 300), ("ijcnn1", 4853), ("letter", 7409), ("usps", 4240)],
)
@pytest.mark.thorough
def test_the_papers_sets(monkeypatch, name, n_positive):
    monkeypatch.setenv("PAIRLEARN_DATA", str(SHARED))
    if find(name) is None:
        pytest.skip(f"{name} is not in the data folder")
    data = load(name, download_missing=False)
    source = lookup(name)
    assert (data.n, data.d, data.n_positive) == (source.n, source.d, n_positive)
    assert data.sha256 == source.sha256


@given(st.lists(st.integers(-20, 20), min_size=3, max_size=60))
def test_of_many_classes_the_first_half_is_positive(labels):
    classes = sorted(set(labels))
    if len(classes) < 3:
        return
    positive = classes[: len(classes) // 2]
    expected = [1.0 if label in positive else -1.0 for label in labels]
    np.testing.assert_array_equal(to_signs(labels), expected)


def test_of_two_classes_one_is_positive_or_the_larger_one():
    np.testing.assert_array_equal(to_signs([0, 1, 5, 1], 1.0), [-1, 1, -1, 1])
    np.testing.assert_array_equal(to_signs([0, 2, 2]), [-1, 1, 1])
    for labels, message in (([1, 1, 1], "needs two classes"), ([1, np.nan], "NaN")):
        with pytest.raises(DataCorruptError, match=message):
            to_signs(labels)
    with pytest.raises(DataCorruptError, match="one of them labelled 1"):
        to_signs([0, 2, 2], 1.0)
