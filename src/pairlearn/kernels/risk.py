# SPDX-License-Identifier: BSD-3-Clause
r"""The squared hinge over all opposite pairs: value and gradient in one pass over sorted scores.

With u_i = p_i - margin for a positive score p_i and q_j the negative scores, the sum over pairs is
sum of (q_j - u_i)_+^2. On a walk down the sorted u_i and q_j (the places),

    count(u) = number of q_j > u,  ramp(u) = sum of (q_j - u)_+,  bowl(u) = sum of (q_j - u)_+^2 / 2

grow by positive terms only, so nothing cancels. A walk up gives the same for each q_j.
"""

import numpy as np

from pairlearn.kernels._native import kernel


@kernel
def order_by_buckets(places, order, begins, longest):
    """Fill `order` with the positions of the places from small to large; False if that is slow.

    A counting sort into ``len(begins) - 1`` buckets of equal width, then insertion within each. It
    suits places that are spread over their range. If a bucket exceeds `longest`, nothing is sorted.
    """
    n = len(places)
    n_buckets = len(begins) - 1
    smallest = places[0]
    largest = places[0]
    for i in range(n):
        smallest = min(smallest, places[i])
        largest = max(largest, places[i])
    width = largest - smallest
    if not (width > 0.0 and width < np.inf):
        return False
    factor = (n_buckets - 1) / width
    for b in range(n_buckets + 1):
        begins[b] = 0
    for i in range(n):
        begins[np.int64((places[i] - smallest) * factor) + 1] += 1
    for b in range(n_buckets):
        if begins[b + 1] > longest:
            return False
        begins[b + 1] += begins[b]
    for i in range(n):
        b = np.int64((places[i] - smallest) * factor)
        position = begins[b]
        order[position] = i
        begins[b] = position + 1
    # Buckets are in order, so one insertion sort over everything moves nothing far.
    for i in range(1, n):
        item = order[i]
        place = places[item]
        j = i - 1
        while j >= 0 and places[order[j]] > place:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = item
    return True


@kernel
def squared_hinge_walk(places, order, positive, weight, gradient):
    """Return the weighted sum of the squared hinge over all pairs; fill its derivatives by score.

    `places` are p_i - margin and q_j, `order` sorts them upward, `positive` marks the p_i.
    A pair weighs the product of the weights of both, 1 if `weight` is empty.
    """
    n = len(places)
    weighted = len(weight) > 0
    count = 0.0
    ramp = 0.0
    bowl = 0.0
    total = 0.0
    last = places[order[n - 1]]
    for r in range(n - 1, -1, -1):
        i = order[r]
        drop = last - places[i]
        last = places[i]
        bowl += drop * (ramp + 0.5 * drop * count)
        ramp += drop * count
        own = weight[i] if weighted else 1.0
        if positive[i]:
            total += 2.0 * own * bowl
            gradient[i] = -2.0 * own * ramp
        else:
            count += own
    count = 0.0
    ramp = 0.0
    last = places[order[0]]
    for r in range(n):
        i = order[r]
        ramp += (places[i] - last) * count
        last = places[i]
        own = weight[i] if weighted else 1.0
        if positive[i]:
            count += own
        else:
            gradient[i] = 2.0 * own * ramp
    return total
