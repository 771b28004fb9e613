# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.data import DataCorruptError, FirstHalf, PositiveLabel, to_signs


@given(st.lists(st.integers(-20, 20), min_size=3, max_size=60))
def test_first_half_matches_its_definition(labels):
    classes = sorted(set(labels))
    if len(classes) < 3:
        with pytest.raises(DataCorruptError, match="three classes or more"):
            FirstHalf().signs(labels)
        return
    positive = classes[: len(classes) // 2]
    expected = [1.0 if label in positive else -1.0 for label in labels]
    np.testing.assert_array_equal(FirstHalf().signs(labels), expected)


@pytest.mark.parametrize("labels", [[0, 2, 2], [1, 1], [1, 2, 3], [1]])
def test_positive_label_needs_two_classes_and_the_label(labels):
    with pytest.raises(DataCorruptError, match="needs two classes, one of them labelled 1"):
        PositiveLabel(1).signs(labels)


def test_labels_zero_and_two_do_not_all_become_negative():
    np.testing.assert_array_equal(to_signs([0, 2, 2]), [-1, 1, 1])


def test_one_class_is_refused():
    with pytest.raises(DataCorruptError, match="needs two classes"):
        to_signs([1, 1, 1])


def test_labels_that_are_not_finite():
    with pytest.raises(DataCorruptError, match="NaN"):
        to_signs([1, np.nan])
