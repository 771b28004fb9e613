# SPDX-License-Identifier: BSD-3-Clause
r"""The step of SPAUC for a tile of step sizes, in Triton: `kernels.steps.saddle.descend_spauc`.

The class means and the share of positives are those of the examples so far, the same for all models
of a path. Without a projection the first iterates may exceed the range of float32 before they come
back, so everything is float64.
"""

import triton
import triton.language as tl

from pairlearn.gpu.bounds import bound


# One compilation serves all sizes of one width.
@triton.jit(do_not_specialize=["n_models", "d", "stride", "stride_shares"])
def descend_spauc(
    X,
    POSITIVE,
    SCALES,
    PATH,
    STEPS,
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
    x = tl.load(X + i * d + columns, mask=inside, other=0.0)
    positive = tl.load(POSITIVE + i)
    i = tl.load(PATH + base + 1).to(tl.int64)
    w = tl.zeros((BK, BD), tl.float64)
    average = tl.zeros((BK, BD), tl.float64)
    mean_positive = tl.zeros((BD,), tl.float64)
    mean_negative = tl.zeros((BD,), tl.float64)
    n_positive = 0.0
    n_negative = 0.0
    for t in range(0, bound(count)):
        next_x = tl.load(X + i * d + columns, mask=inside, other=0.0)
        next_positive = tl.load(POSITIVE + i)
        i = tl.load(PATH + base + t + 2).to(tl.int64)
        here = x.to(tl.float64) * scale
        own = tl.where(positive > 0, mean_positive, mean_negative)
        n_positive += tl.where(positive > 0, 1.0, 0.0)
        n_negative += tl.where(positive > 0, 0.0, 1.0)
        own += (here - own) / tl.where(positive > 0, n_positive, n_negative).to(tl.float64)
        mean_positive = tl.where(positive > 0, own, mean_positive)
        mean_negative = tl.where(positive > 0, mean_negative, own)
        p = (n_positive.to(tl.float64)) / (n_positive + n_negative).to(tl.float64)
        # Nothing moves before both classes have been seen.
        step = tl.where((n_positive > 0) & (n_negative > 0), tl.load(STEPS + t), 0.0)
        away = here - own
        apart = mean_negative - mean_positive
        score = tl.sum(w * away[None, :], 1)
        gap = 1.0 + tl.sum(w * apart[None, :], 1)
        near = step * eta * tl.where(positive > 0, 1.0 - p, p) * score
        far = step * eta * p * (1.0 - p) * gap
        average += tl.load(shares + t) * w
        w -= near[:, None] * away[None, :] + far[:, None] * apart[None, :]
        x = next_x
        positive = next_positive
    average += tl.load(shares + count) * w
    out = (path * n_models + models)[:, None] * d + columns[None, :]
    tl.store(AVERAGES + out, average, mask=exists[:, None] & inside[None, :])
