# SPDX-License-Identifier: BSD-3-Clause
import bz2
import gzip
import io
import lzma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.data import DataCorruptError, read_libsvm
from pairlearn.data.files import parse_libsvm, read_text

TEXT = b"+1 1:0.5 3:2\n-1 2:1\n"


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [("", bytes), (".xz", lzma.compress), (".bz2", bz2.compress), (".gz", gzip.compress)],
)
def test_reads_plain_and_compressed_text(tmp_path, suffix, pack):
    path = tmp_path / f"toy.libsvm{suffix}"
    path.write_bytes(pack(TEXT))
    X, labels = read_libsvm(path)
    np.testing.assert_array_equal(X, [[0.5, 0, 2], [0, 1, 0]])
    np.testing.assert_array_equal(labels, [1, -1])


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".xz", lzma.compress), (".bz2", bz2.compress), (".gz", gzip.compress)]
)
@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_truncated_archive_is_named(tmp_path, suffix, pack, keep):
    whole = pack(TEXT * 500)
    path = tmp_path / f"toy{suffix}"
    path.write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(DataCorruptError, match="truncated or damaged"):
        read_libsvm(path)


@pytest.mark.parametrize(
    "text", [b"+1 1:0.5 3:\n", b"+1 1:0.5 3", b"<html>", b"+1 2:1 1:1\n", b"+1 0:1\n"]
)
def test_text_that_is_not_libsvm(text):
    with pytest.raises(DataCorruptError, match="not LIBSVM text"):
        parse_libsvm(text)


def test_empty_text():
    with pytest.raises(DataCorruptError, match="empty"):
        parse_libsvm(b" \n")


@pytest.mark.parametrize("text", [b"nan 1:1\n", b"1 1:inf\n"])
def test_values_that_are_not_finite(text):
    with pytest.raises(DataCorruptError, match="NaN or infinity"):
        parse_libsvm(text)


def test_sparse_equals_dense():
    dense, _ = parse_libsvm(TEXT)
    sparse, _ = parse_libsvm(TEXT, dense=False, n_features=5)
    assert sparse.shape == (2, 5)
    np.testing.assert_array_equal(sparse.toarray()[:, :3], dense)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([-1.0, 1.0]),
            st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_reads_what_scikit_learn_writes(rows):
    from sklearn.datasets import dump_svmlight_file

    X = np.array([row for _, row in rows])
    labels = np.array([label for label, _ in rows])
    out = io.BytesIO()
    dump_svmlight_file(X, labels, out, zero_based=False)
    X_read, labels_read = parse_libsvm(out.getvalue(), n_features=3)
    np.testing.assert_array_equal(labels_read, labels)
    np.testing.assert_allclose(X_read, X, rtol=1e-12)


@pytest.mark.parametrize(("compress", "suffix"), [(lzma.compress, "xz"), (bz2.compress, "bz2")])
def test_what_follows_a_compressed_stream_is_no_end(tmp_path, compress, suffix):
    path, whole = tmp_path / f"a.{suffix}", compress(b"1 1:2\n")
    path.write_bytes(whole + whole + bytes(4))
    assert read_text(path) == b"1 1:2\n1 1:2\n"
    path.write_bytes(whole + b"-1 1:3\n")
    with pytest.raises(DataCorruptError, match="truncated or damaged"):
        read_text(path)
