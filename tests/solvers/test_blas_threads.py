# SPDX-License-Identifier: BSD-3-Clause
"""Products take one thread where more would stand in each other's way."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pairlearn import Hats
from pairlearn.solvers.blas_threads import with_one_thread

pytestmark = pytest.mark.filterwarnings("ignore")


def found_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


class Model:
    def __init__(self, features="linear"):
        self.features = features

    @with_one_thread
    def fit(self, X, y=None):
        """Say how many threads there are."""
        return found_threads()


@pytest.mark.parametrize(
    ("shape", "features", "n_threads"),
    [
        ((2**10 - 1, 8), "linear", 2),
        ((2**10, 8), "linear", 1),
        ((3, 2**8), "linear", 2),
        ((50, 4), "auto", 1),
        ((2**26, 64), "linear", 1),
        ((2**26 + 1, 64), "linear", 2),
        ((2**16, 4), Hats(), 1),
        ((2**16 + 1, 4), Hats(), 2),
        ((50,), "linear", 2),
    ],
)
def test_large_products_keep_all_threads_and_small_tables_are_left(shape, features, n_threads):
    table = np.broadcast_to(0.0, shape)
    with threadpool_limits(2, user_api="blas"):
        assert Model(features).fit(table) == {n_threads}
        assert Model(features).fit(X=table) == {n_threads}
        assert Model(features).fit(table.tolist() if len(shape) == 1 else [[0.0]]) == {2}
    assert Model.fit.__doc__ == "Say how many threads there are."
