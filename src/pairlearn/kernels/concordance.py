# SPDX-License-Identifier: BSD-3-Clause
"""Sums over those that come before in time and below in score, by a Fenwick tree.

Examples are visited in `order`, in stages: `begins` holds the first position of each stage and the
end of the last. The members of a stage first ask for sums over the earlier stages and then add
their own masses. A tree over the ranks of the scores answers in O(log n).
"""

import math

from pairlearn.kernels._native import kernel


@kernel
def sums_below(order, begins, rank, asks, mass, tree, tally, below, equal, total):
    """Fill the masses of earlier stages with a smaller rank, with the same, and altogether.

    Ranks are 0, 1, ...; `tree` has one entry more than there are ranks, `tally` one for each, and
    both begin with zeros. Only examples with `asks` are answered.
    """
    n_ranks = len(tally)
    everything = 0.0
    for s in range(len(begins) - 1):
        for position in range(begins[s], begins[s + 1]):
            i = order[position]
            if asks[i]:
                found = 0.0
                place = rank[i]
                while place > 0:
                    found += tree[place]
                    place -= place & -place
                below[i] = found
                equal[i] = tally[rank[i]]
                total[i] = everything
        for position in range(begins[s], begins[s + 1]):
            i = order[position]
            if mass[i] > 0.0:
                everything += mass[i]
                tally[rank[i]] += mass[i]
                place = rank[i] + 1
                while place <= n_ranks:
                    tree[place] += mass[i]
                    place += place & -place


@kernel
def ramps_above(order, begins, asks, first, threshold, rank, mass, scores, tree, ramp, bowl):
    """Fill the sums of mass (s - c)_+ and of mass (s - c)_+^2 over the scores s of earlier stages.

    c is the `threshold` of the example that asks, and `first` the number of ranks whose scores lie
    at or below it. `tree` is of shape (ranks + 1, 3) and begins with zeros. Sums are over the ranks
    from `first` on, so that nothing is subtracted from a total.
    """
    n_ranks = len(tree) - 1
    for s in range(len(begins) - 1):
        for position in range(begins[s], begins[s + 1]):
            i = order[position]
            if asks[i]:
                count = 0.0
                line = 0.0
                square = 0.0
                place = first[i] + 1
                while place <= n_ranks:
                    count += tree[place, 0]
                    line += tree[place, 1]
                    square += tree[place, 2]
                    place += place & -place
                c = threshold[i]
                ramp[i] = max(line - c * count, 0.0)
                bowl[i] = max(square - c * (2.0 * line - c * count), 0.0)
        for position in range(begins[s], begins[s + 1]):
            i = order[position]
            if mass[i] > 0.0:
                line = mass[i] * scores[i]
                square = line * scores[i]
                place = rank[i] + 1
                while place > 0:
                    tree[place, 0] += mass[i]
                    tree[place, 1] += line
                    tree[place, 2] += square
                    place -= place & -place


@kernel
def logistic_pairs(order, begins, asks, mass, weight, scores, gradient):
    """Return the sum of mass weight log(1 + exp(s' - s)) over all pairs, and fill its derivatives.

    s is the score of an example that asks, of this `mass`, and s' that of each example of an
    earlier stage, of this `weight`. Every pair is visited. `gradient` begins with zeros.
    """
    total = 0.0
    for s in range(len(begins) - 1):
        for position in range(begins[s], begins[s + 1]):
            i = order[position]
            if not asks[i]:
                continue
            value = 0.0
            pull = 0.0
            for other in range(begins[s]):
                j = order[other]
                gap = scores[j] - scores[i]
                small = math.exp(-abs(gap))
                value += weight[j] * (max(gap, 0.0) + math.log1p(small))
                slope = weight[j] * (1.0 if gap > 0.0 else small) / (1.0 + small)
                pull += slope
                gradient[j] += mass[i] * slope
            total += mass[i] * value
            gradient[i] -= mass[i] * pull
    return total
