# SPDX-License-Identifier: BSD-3-Clause
r"""The step of SPAUC for a tile of step sizes, in Triton: `kernels.steps.saddle.descend_spauc`.

The class means are those of the examples so far, the same for all models of a path. What else a
step needs of the path comes ready: the share of its example in the mean of its class, and the two
rates of the step. The example two steps ahead is on its way while one is used. Without a projection
the first iterates may exceed the range of float32 before they come back, so everything is float64.
"""

import triton
import triton.language as tl

from benchmarks.table1_on_device.bounds import bound


# One compilation serves all sizes of one width.
@triton.jit(do_not_specialize=["n_models", "d", "stride", "stride_shares"])
def descend_spauc(
    X,
    POSITIVE,
    SCALES,
    PATH,
    ENTRIES,
    NEAR,
    FAR,
    SHARES,
    RULES,
    COUNTS,
    STEP_SIZES,
    AVERAGES,
    n_models,
    d,
    stride,
    stride_shares,
    BK: tl.constexpr,
    BD: tl.constexpr,
):
    """Take all steps of one path for one tile of models."""
    path = tl.program_id(1).to(tl.int64)
    models = tl.program_id(0) * BK + tl.arange(0, BK)
    columns = tl.arange(0, BD)
    exists, inside = models < n_models, columns < d
    eta = tl.load(STEP_SIZES + path * n_models + models, mask=exists, other=0.0)
    scale = tl.load(SCALES + path * d + columns, mask=inside, other=0.0)
    count = tl.load(COUNTS + path)
    base = path * stride
    shares = SHARES + tl.load(RULES + path).to(tl.int64) * stride_shares
    i = tl.load(PATH + base).to(tl.int64)
    x1 = tl.load(X + i * d + columns, mask=inside, other=0.0)
    positive1 = tl.load(POSITIVE + base)
    i = tl.load(PATH + base + 1).to(tl.int64)
    x2 = tl.load(X + i * d + columns, mask=inside, other=0.0)
    positive2 = tl.load(POSITIVE + base + 1)
    i = tl.load(PATH + base + 2).to(tl.int64)
    next_i = tl.load(PATH + base + 3).to(tl.int64)
    entry = tl.load(ENTRIES + base)
    near = tl.load(NEAR + base)
    far = tl.load(FAR + base)
    share = tl.load(shares)
    w = tl.zeros((BK, BD), tl.float64)
    average = tl.zeros((BK, BD), tl.float64)
    mean_positive = tl.zeros((BD,), tl.float64)
    mean_negative = tl.zeros((BD,), tl.float64)
    for t in range(0, bound(count)):
        x, positive = x1, positive1
        x1, positive1 = x2, positive2
        x2 = tl.load(X + i * d + columns, mask=inside, other=0.0)
        positive2 = tl.load(POSITIVE + base + t + 2)
        i = next_i
        next_i = tl.load(PATH + base + t + 4).to(tl.int64)
        next_entry = tl.load(ENTRIES + base + t + 1)
        next_near = tl.load(NEAR + base + t + 1)
        next_far = tl.load(FAR + base + t + 1)
        next_share = tl.load(shares + t + 1)
        here = x.to(tl.float64) * scale
        own = tl.where(positive > 0, mean_positive, mean_negative)
        own += (here - own) * entry
        mean_positive = tl.where(positive > 0, own, mean_positive)
        mean_negative = tl.where(positive > 0, mean_negative, own)
        away = here - own
        apart = mean_negative - mean_positive
        score = tl.sum(w * away[None, :], 1)
        gap = 1.0 + tl.sum(w * apart[None, :], 1)
        average += share * w
        towards = near * eta * score
        along = far * eta * gap
        w -= towards[:, None] * away[None, :] + along[:, None] * apart[None, :]
        entry, near, far, share = next_entry, next_near, next_far, next_share
    average += share * w
    out = (path * n_models + models)[:, None] * d + columns[None, :]
    tl.store(AVERAGES + out, average, mask=exists[:, None] & inside[None, :])
