# SPDX-License-Identifier: BSD-3-Clause
"""Scores of tree ensembles whose nodes are plain arrays.

Arrays
------
X : float64, shape (n, d)
    Rows; NaN is a missing value. A categorical feature holds codes 0, 1, ..., 255.
begins : int64, shape (n_trees,)
    The first node of each tree.
feature, left, right : int64, shape (n_nodes,)
    The feature of a split, and both children, which stand after their parent. A leaf has left = -1.
threshold, value : float64, shape (n_nodes,)
    A row goes left if its feature is at most the threshold; the value of a leaf.
gap_left : uint8, shape (n_nodes,)
    Whether a missing value goes left.
bits : int64, shape (n_nodes,)
    The row of `sets` with the codes that go left, or -1 for a split of numbers.
sets : int64, shape (n_sets, 8)
    Sets of codes, 32 in each number.
out : float64, shape (n,)
    The sums over trees are added to it.
"""

import numpy as np

from pairlearn.kernels._native import kernel


@kernel
def add_trees(X, begins, feature, threshold, left, right, value, gap_left, bits, sets, out):
    """Add the values of the leaves that each row reaches, tree by tree."""
    for i in range(X.shape[0]):
        total = out[i]
        for t in range(len(begins)):
            node = begins[t]
            while left[node] >= 0:
                x = X[i, feature[node]]
                if np.isnan(x):
                    goes_left = gap_left[node] != 0
                elif bits[node] >= 0:
                    code = np.int64(x)
                    goes_left = (sets[bits[node], code >> 5] >> (code & 31)) & 1 != 0
                else:
                    goes_left = x <= threshold[node]
                node = left[node] if goes_left else right[node]
            total += value[node]
        out[i] = total
    return 0
