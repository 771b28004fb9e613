# SPDX-License-Identifier: BSD-3-Clause
"""Examples of the inner functions of this room."""

import re

import numpy as np
import pytest

from pairlearn.streams.driving import Driver
from pairlearn.streams.examples import check_example
from pairlearn.streams.long_runs import _differing
from pairlearn.streams.named_parts import NamedColumns, log_odds_line
from pairlearn.streams.readers.base import (
    ReadError,
    bucket_of,
    chunk_rows_for,
    listed,
    shown_kind,
)
from pairlearn.streams.readers.open import find_format
from pairlearn.streams.state import pack, unpack


def test_driver():
    import numpy as np

    class Mean:
        total, n = 0.0, 0

        def partial_fit(self, X, y):
            self.total, self.n = self.total + float(y.sum()), self.n + len(y)

        def stream_state(self):
            return {"total": self.total, "n": self.n}

        def restore_stream(self, state):
            self.total, self.n = state["total"], state["n"]

    driver, other = Driver(Mean()), Driver(Mean())
    driver.learn(np.zeros((2, 1)), np.array([1.0, 2.0]))
    other.model.restore_stream(driver.model.stream_state())
    assert other.model.total == 3.0


def test_check_example():
    with pytest.raises(
        ValueError,
        match=r"feature 'age' is None; leave it out where it is missing, and write categories.*",
    ):
        check_example({"age": None})


def test_log_odds_line():
    assert (log_odds_line(np.array([[2.0, -2.0, 2.5], [2.0, 2.0, 2.5]]))) == (8.0, 0.0)


def test_differing():
    assert (
        _differing("solver", {"part": "SGD", "radius": 1.0}, {"part": "SGD", "radius": 2.0})
    ) == ("solver.radius", 1.0, 2.0)


def test_find_format():
    with pytest.raises(
        ReadError, match=re.escape("standard input does not tell its format; pass format='csv'.")
    ):
        find_format("-")


def test_chunk_rows_for():
    assert (chunk_rows_for(None, 28), chunk_rows_for(None, 10**6), chunk_rows_for(10, 28)) == (
        16384,
        1,
        10,
    )


def test_bucket_of():
    assert (bucket_of("Paris", 1024), bucket_of("Oslo", 1024)) == (846, 989)


def test_shown_kind():
    assert str(shown_kind("struct<a\n: int64>")) == "struct<a\\n: int64>"


def test_pack():
    plain, arrays = pack({"w": np.ones(2), "step": 3})
    assert (plain, sorted(arrays)) == ({"w": {"$array": "w"}, "step": 3}, ["w"])
    assert repr(unpack(plain, arrays)) == "{'w': array([1., 1.]), 'step': 3}"


def test_named_columns():
    columns = NamedColumns()
    rows = columns.rows([{"a": 1.0}, {"b": 2.0, "a": 3.0}], np.array([1.0, 2.0, 3.0]))
    assert rows.X.tolist() == [[1.0, 0.0], [3.0, 2.0]]
    assert columns.names == ("a", "b")


def test_long_texts_are_cut():
    assert listed(["age", 300 * "x"]) == "'age', '" + "x" * 37 + "...'"
