# SPDX-License-Identifier: BSD-3-Clause
"""Examples of the inner functions of this room."""

import numpy as np

from pairlearn.pairings.pairs import as_rows_of_pairs
from pairlearn.pairings.queries import has_pairs


def test_as_rows_of_pairs():
    import numpy as np

    assert repr(as_rows_of_pairs(np.zeros((2, 2, 3)), [1, -1])[1]) == "array([ 1.,  1.,  1., -1.])"


def test_has_pairs():
    assert not has_pairs(np.array([0, 1, 0]), np.array([2.0, 1.0, 2.0]))
