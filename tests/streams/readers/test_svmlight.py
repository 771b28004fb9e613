# SPDX-License-Identifier: BSD-3-Clause
"""The svmlight reader agrees with scikit-learn's loader and refuses what cannot be used."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import vstack
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from pairlearn.streams.readers import svmlight as svmlight_module
from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.svmlight import SvmlightReader

VALUE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**22), 10**22).map(str),
    st.from_regex(r"[+-]?[0-9]{1,22}\.[0-9]{0,22}([eE][+-]?[0-9]{1,2})?", fullmatch=True),
).filter(lambda text: math.isfinite(float(text)))
BLANK = st.sampled_from([" ", "  ", "\t", " \t "])


@st.composite
def lines(draw):
    label = draw(st.one_of(st.sampled_from(["1", "-1", "+1", "0"]), VALUE))
    parts = [label]
    query = draw(st.one_of(st.none(), st.integers(0, 10**17)))
    parts.append(f"qid:{query if query is not None else 0}")
    indices = sorted(draw(st.sets(st.integers(1, 60), max_size=8)))
    parts += [f"{index}:{draw(VALUE)}" for index in indices]
    text = draw(st.sampled_from(["", " "])) + parts[0]
    for part in parts[1:]:
        text += draw(BLANK) + part
    return text + draw(st.sampled_from(["", " ", " # note 3:4", "#x", "\r"]))


@given(
    st.lists(st.one_of(lines(), st.sampled_from(["", "# comment", "  "])), min_size=1, max_size=15),
    st.integers(1, 6),
    st.integers(1, 30),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
@pytest.mark.thorough
def test_rows_are_those_of_scikit_learn(texts, chunk_rows, block, last_newline):
    body = "\n".join(texts) + ("\n" if last_newline else "")
    data = body.encode()
    X, y, qid = load_svmlight_file(io.BytesIO(data), n_features=60, zero_based=False, query_id=True)
    old = svmlight_module._BLOCK
    svmlight_module._BLOCK = block
    try:
        if X.shape[0] == 0:
            with pytest.raises(ReadError):
                list(SvmlightReader(io.BytesIO(data), n_features=60))
            return
        reader = SvmlightReader(io.BytesIO(data), n_features=60, qid=True, chunk_rows=chunk_rows)
        chunks = list(reader)
    finally:
        svmlight_module._BLOCK = old
    assert reader.refusals.count == 0
    got = vstack([c.X for c in chunks])
    assert got.toarray().tobytes() == X.toarray().tobytes()
    np.testing.assert_array_equal(np.concatenate([c.y for c in chunks]), y)
    np.testing.assert_array_equal(np.concatenate([c.qid for c in chunks]), qid)


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_bytes_give_rows_or_a_read_error(data):
    try:
        for chunk in SvmlightReader(io.BytesIO(b"1 1:1\n" + data), n_features=5, chunk_rows=3):
            chunk.X.check_format()
            assert np.isfinite(chunk.X.data).all()
            assert np.isfinite(chunk.y).all()
    except ReadError as error:
        message = str(error)
        if "\n" in message:
            pytest.fail(message)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1 0:3", "zero_based=True"),
        ("1 3:1 2:1", "ascend"),
        ("1 3:1 3:1", "ascend"),
        ("1 9:1", "raise n_features"),
        ("1 99999999999999999999:1", "raise n_features"),
        ("1 3", "not index:value"),
        ("1 3:", "not index:value"),
        ("1 a:3", "not index:value"),
        ("1 3:x", "feature 3: 'x' is not a number"),
        ("1 3:inf", "infinite"),
        ("1 3:nan", "the value of 3 is missing"),
        ("nan 3:1", "the label is missing"),
        ("1,2 3:1", "label: '1,2' is not a number"),
        ("1 qid:x 3:1", "qid:NUMBER"),
        ("1 3:1 qid:4", "qid:NUMBER"),
        ("1 1:1 qid:4", "qid:NUMBER"),
        ("1 qid:0 qid:4 3:1", "qid:NUMBER"),
        ("2 3:1", "not among the classes"),
    ],
)
def test_each_bad_line_is_refused_with_its_reason(line, reason):
    body = f"1 1:1\n-1 2:1\n{line}\n1 4:4\n".encode()
    reader = SvmlightReader(io.BytesIO(body), n_features=5, classes=(-1, 1))
    [chunk] = reader
    np.testing.assert_array_equal(chunk.lines, [1, 2, 4])
    np.testing.assert_array_equal(
        chunk.X.toarray(), [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 4, 0]]
    )
    assert reader.refusals.count == 1
    assert reason in str(reader.refusals)
    assert ":3: " in str(reader.refusals)
    strict = SvmlightReader(io.BytesIO(body), n_features=5, classes=(-1, 1), strict=True)
    with pytest.raises(ReadError, match="strict"):
        list(strict)


def test_width_is_searched(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40)).round(3) * (rng.random((300, 40)) < 0.3)
    y = rng.integers(0, 2, 300)
    path = tmp_path / "a.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    reader = SvmlightReader([path, path])
    chunks = list(reader)
    assert reader.n_features == 40
    np.testing.assert_array_equal(vstack([c.X for c in chunks]).toarray(), np.vstack([X, X]))


def test_a_pipe_needs_the_number_of_features():
    with pytest.raises(ReadError, match="n_features"):
        SvmlightReader(io.BytesIO(b"1 1:1\n"))


@pytest.mark.parametrize("blank", [" ", "\t", "\v", "\f", "\r", "\f\v\r\t "])
def test_every_blank_of_ascii_parts_the_fields(blank):
    text = " -1 qid:4 1:2.5 3:1e3 \n \n1 qid:4 # 1:1\n".replace(" ", blank)
    reader = SvmlightReader(io.BytesIO(text.encode()), n_features=3, qid=True, strict=True)
    (chunk,) = reader
    assert chunk.y.tolist() == [-1.0, 1.0]
    assert chunk.X.toarray().tolist() == [[2.5, 0.0, 1000.0], [0.0, 0.0, 0.0]]
