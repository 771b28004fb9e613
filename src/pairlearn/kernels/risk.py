# SPDX-License-Identifier: BSD-3-Clause
r"""The squared hinge over all opposite pairs: value and derivatives from sorted scores.

With u_i = p_i - margin for a positive score p_i and q_j the negative scores, the sum over pairs is
sum of (q_j - u_i)_+^2. On a walk down the sorted u_i and q_j (the places),

    count(u) = number of q_j > u,  ramp(u) = sum of (q_j - u)_+,  bowl(u) = sum of (q_j - u)_+^2 / 2

grow by positive terms only, so nothing cancels. A walk up gives the same for each q_j.
"""

import numpy as np

from pairlearn.kernels._native import kernel, prefetch

#: Rows are prefetched this many rows ahead.
AHEAD = 8


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
def squared_hinge_walk(places, order, positive, weight, gradient, met):
    """Return the weighted sum of the squared hinge over all pairs; fill its derivatives by score.

    `places` are p_i - margin and q_j, `order` sorts them upward, `positive` marks the p_i.
    A pair weighs the product of the weights of both, 1 if `weight` is empty. `met`, unless it is
    empty, receives the weight of the active pairs of each example.
    """
    n = len(places)
    weighted, counted = len(weight) > 0, len(met) > 0
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
            if counted:
                met[i] = own * count
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
            if counted:
                met[i] = own * count
    return total


@kernel
def active_scatter(X, order, positive, weight, met, running, left, right, scatter):
    """Fill half of the weighted sum of (p_i - q_j)(p_i - q_j)' over the active pairs of a walk.

    The sum is ``scatter[:, :d]`` plus its transpose. X (n * d,) holds the examples, row after row,
    `order` and `met` come from `squared_hinge_walk`. On the way down, `running` (d,) sums the
    negatives that the next positive meets. A row x adds the product of x and of met / 2 times x,
    less the running sum for a positive one. Four rows are added at once: `left` (4, d) and `right`
    (4, wide) hold them, so that the sum is loaded and stored a quarter as often. `scatter` has the
    shape (d, wide), where wide is the next multiple of 4. All four are zeros on entry.
    """
    n = len(order)
    d, wide = np.uintp(len(running)), np.uintp(scatter.shape[1])
    weighted = len(weight) > 0
    held = 0
    for back in range(n):
        i = np.uintp(order[n - 1 - back])
        if back + AHEAD < n:
            ahead = np.uintp(order[n - 1 - back - AHEAD]) * d
            for k in range(np.uintp(0), d, np.uintp(8)):
                prefetch(X, ahead + k)
        own = weight[i] if weighted else 1.0
        half = 0.5 * met[i]
        at = i * d
        if positive[i]:
            for k in range(d):
                left[held, k] = X[at + k]
                right[held, k] = half * X[at + k] - own * running[k]
        else:
            for k in range(d):
                left[held, k] = X[at + k]
                right[held, k] = half * X[at + k]
                running[k] += own * X[at + k]
        held += 1
        if back == n - 1:
            for row in range(held, 4):
                for k in range(d):
                    left[row, k] = 0.0
                    right[row, k] = 0.0
            held = 4
        if held == 4:
            held = 0
            for r in range(d):
                a, b, c, e = left[0, r], left[1, r], left[2, r], left[3, r]
                for k in range(wide):
                    both = a * right[0, k] + b * right[1, k]
                    scatter[r, k] += both + (c * right[2, k] + e * right[3, k])
