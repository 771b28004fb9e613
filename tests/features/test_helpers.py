# SPDX-License-Identifier: BSD-3-Clause
"""Examples of the inner functions of this room."""

from pairlearn.features.base import blocks_of
from pairlearn.features.restore import restored_map


def test_blocks_of():
    assert (
        repr(list(blocks_of(5, 2))) == "[slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]"
    )


def test_restored_map():
    from pairlearn.features import Hats

    fitted = Hats(n_knots=2).fit([[0.0], [4.0]])
    assert repr(restored_map(fitted.state()).transform([[1.0]])) == "array([[0.25]])"
