# SPDX-License-Identifier: BSD-3-Clause
"""Examples of the inner functions of this room."""

import re

import numpy as np
import pytest

from pairlearn.features.spreads import scale_of, which_vary
from pairlearn.folds import Keys, deal, members_of, n_folds_of, splits_of, stratified
from pairlearn.progress import format_count
from pairlearn.restored import (
    check_sane,
    restored_array,
    restored_count,
    restored_labels,
    restored_number,
)
from pairlearn.scalars import GapScalar, Scalar
from pairlearn.shown import defused
from pairlearn.validation import check_positive, check_scored, check_steps, real_array


def test_n_folds_of():
    assert (n_folds_of(0.2, 100), n_folds_of(0.2, 3)) == (5, 3)


def test_members_of():
    assert repr(members_of(np.array([1.0, -1.0, 1.0]))) == "[array([1]), array([0, 2])]"


def test_splits_of():
    assert (
        repr(splits_of(np.array([0, 1, 0])))
        == "[(array([1]), array([0, 2])), (array([0, 2]), array([1]))]"
    )


def test_stratified():
    keys = Keys.of(np.arange(9.0)[:, None])
    assert ([len(held) for _, held in stratified([np.arange(4), np.arange(4, 9)], 2, keys)]) == [
        5,
        4,
    ]


def test_format_count():
    assert (format_count(950), format_count(1234567), format_count(2.5e9)) == (
        "950",
        "1.23 M",
        "2.5 G",
    )


def test_restored_count():
    with pytest.raises(
        ValueError,
        match=re.escape(
            "the saved n_seen is -1, it must be a whole number from 0 to 4611686018427387904."
        ),
    ):
        restored_count({"n_seen": -1}, "n_seen")


def test_restored_number():
    assert (restored_number({"pairs": 3.0}, "pairs", low=0.0)) == 3.0


def test_restored_array():
    with pytest.raises(
        ValueError,
        match=re.escape(
            "the saved w is an array of float64 of shape (3,), it must be float64 of shape (2,)."
        ),
    ):
        restored_array({"w": np.zeros(3)}, "w", (2,))


def test_check_sane():
    with pytest.raises(ValueError, match=re.escape("the saved score is beyond 1e+150.")):
        check_sane("score", np.array([1.0, -1e200]))


def test_restored_labels():
    assert repr(restored_labels(["no", "yes"], "<U3")) == "array(['no', 'yes'], dtype='<U3')"
    with pytest.raises(
        ValueError, match=re.escape("labels of type '<U400000000' would take 3200000000 bytes.")
    ):
        restored_labels(["no", "yes"], "<U400000000")


def test_scale_of():
    assert repr(scale_of(np.array([0.5, 0.01]), np.zeros(2), np.ones(2))) == "array([0.5, 0.1])"


def test_which_vary():
    assert (
        repr(which_vary(np.array([1e-12, 1e-3]), np.ones(2), np.ones(2))) == "array([False,  True])"
    )


def test_defused():
    assert (defused("=1+1"), defused("-1"), defused("a=1")) == ("'=1+1", "-1", "a=1")


def test_check_positive():
    assert (check_positive("radius", 2)) == 2.0
    with pytest.raises(
        ValueError, match=re.escape("radius must be a positive number, got -1; choose radius > 0.")
    ):
        check_positive("radius", -1)
    for given in (True, np.True_, "1"):
        with pytest.raises(TypeError, match="radius must be a number, got"):
            check_positive("radius", given)


def test_real_array():
    with pytest.raises(
        ValueError, match=re.escape("X holds complex numbers; pass X.real, X.imag or abs(X).")
    ):
        real_array("X", [1j])


def test_check_scored():
    assert repr(check_scored(0.5, True)) == "(array([0.5]), array([ True]))"


def test_check_steps():
    assert (check_steps(10, None, 2.5)) == 25


def test_scalars():
    product = Scalar(lambda score, y, y_partner, parameter: score * y)
    assert product.many([1.0, 2.0], 3.0, -1.0).tolist() == [3.0, 6.0]
    assert GapScalar(Scalar(lambda score, y, y_partner, parameter: score))(3.0, 1.0, -1.0) == 6.0


def test_deal():
    dealt = deal([np.array([0, 1, 2]), np.array([3, 4])], 6, n_folds=2)
    assert dealt.tolist() == [0, 1, 0, 0, 1, -1]
    assert deal([np.array([0, 1, 2])], 3, sizes=[2]).tolist() == [0, 0, 1]
