# SPDX-License-Identifier: BSD-3-Clause
r"""The step of pairwise SGD for a tile of models, in Triton.

One program walks one path for a tile of models. Iterates and the sums of the last steps stay in
registers. The rows of the next `AHEAD` pairs, and the indices of two pairs more, are on their way
while the current pair is used: a warp waits for the first value that has not come. With the larger
label first, x = x_first - x_second and m = <w, x>,

    w <- w - eta step l'(m) x,

then back to the ball. The squared norm after the step is ||w||^2 - 2 move m + move^2 ||x||^2, which
needs no extra reduction; it is recomputed every `CHUNK` steps to remove rounding errors. At the end
of a launch its sums are added to totals in float64, so that no float32 sum is long.
"""

import triton
import triton.language as tl

from benchmarks.table1_on_device.bounds import bound

#: Numbers of the losses.
HINGE, SQUARED_HINGE, SQUARE, LOGISTIC = 0, 1, 2, 3


# One compilation serves all sizes of one width.
@triton.jit(do_not_specialize=["n_models", "d", "stride", "begin", "stop"])
def descend_pairs(
    X,
    SCALES,
    FIRST,
    SECOND,
    STEPS,
    SHARES,
    COUNTS,
    STEP_SIZES,
    RADII,
    W,
    TOTALS,
    n_models,
    d,
    stride,
    begin,
    stop,
    margin,
    LOSS: tl.constexpr,
    BALL: tl.constexpr,
    EVEN_STEPS: tl.constexpr,
    SCALED: tl.constexpr,
    BK: tl.constexpr,
    BD: tl.constexpr,
    CHUNK: tl.constexpr,
    AHEAD: tl.constexpr,
):
    """Take the steps from `begin` to before `stop` of one path for one tile of models."""
    path = tl.program_id(1).to(tl.int64)
    models = tl.program_id(0) * BK + tl.arange(0, BK)
    columns = tl.arange(0, BD)
    exists, inside = models < n_models, columns < d
    eta = tl.load(STEP_SIZES + path * n_models + models, mask=exists, other=0.0)
    radius = tl.load(RADII + path * n_models + models, mask=exists, other=1.0)
    scale = 1.0
    if SCALED:
        scale = tl.load(SCALES + path * d + columns, mask=inside, other=0.0)
    base = path * stride
    last = tl.minimum(stop, tl.load(COUNTS + path))
    i = tl.load(FIRST + base + begin).to(tl.int64)
    j = tl.load(SECOND + base + begin).to(tl.int64)
    x1 = tl.load(X + i * d + columns, mask=inside, other=0.0)
    z1 = tl.load(X + j * d + columns, mask=inside, other=0.0)
    share1 = tl.load(SHARES + base + begin)
    x2, z2, share2, x3, z3, share3 = x1, z1, share1, x1, z1, share1
    if AHEAD == 3:
        i = tl.load(FIRST + base + begin + 1).to(tl.int64)
        j = tl.load(SECOND + base + begin + 1).to(tl.int64)
        x2 = tl.load(X + i * d + columns, mask=inside, other=0.0)
        z2 = tl.load(X + j * d + columns, mask=inside, other=0.0)
        share2 = tl.load(SHARES + base + begin + 1)
        i = tl.load(FIRST + base + begin + 2).to(tl.int64)
        j = tl.load(SECOND + base + begin + 2).to(tl.int64)
        x3 = tl.load(X + i * d + columns, mask=inside, other=0.0)
        z3 = tl.load(X + j * d + columns, mask=inside, other=0.0)
        share3 = tl.load(SHARES + base + begin + 2)
    i = tl.load(FIRST + base + begin + AHEAD).to(tl.int64)
    j = tl.load(SECOND + base + begin + AHEAD).to(tl.int64)
    next_i = tl.load(FIRST + base + begin + AHEAD + 1).to(tl.int64)
    next_j = tl.load(SECOND + base + begin + AHEAD + 1).to(tl.int64)
    here = (path * n_models + models)[:, None] * d + columns[None, :]
    kept = exists[:, None] & inside[None, :]
    w = tl.load(W + here, mask=kept, other=0.0)
    sums = tl.zeros((BK, BD), tl.float32)
    for first in range(bound(begin), bound(last), CHUNK):
        norm = tl.sum(w * w, 1)
        for t in range(first, bound(tl.minimum(first + CHUNK, last))):
            x, z, share = x1, z1, share1
            x1, z1, share1, x2, z2, share2 = x2, z2, share2, x3, z3, share3
            next_x = tl.load(X + i * d + columns, mask=inside, other=0.0)
            next_z = tl.load(X + j * d + columns, mask=inside, other=0.0)
            next_share = tl.load(SHARES + base + t + AHEAD)
            if AHEAD == 3:
                x3, z3, share3 = next_x, next_z, next_share
            else:
                x1, z1, share1 = next_x, next_z, next_share
            i, j = next_i, next_j
            next_i = tl.load(FIRST + base + t + AHEAD + 2).to(tl.int64)
            next_j = tl.load(SECOND + base + t + AHEAD + 2).to(tl.int64)
            difference = x - z
            if SCALED:
                difference = difference * scale
            score = tl.sum(w * difference[None, :], 1)
            if LOSS == 0:
                pull = tl.where(score < margin, 1.0, 0.0)
            elif LOSS == 1:
                pull = tl.where(score < margin, 2.0 * (margin - score), 0.0)
            elif LOSS == 2:
                pull = 2.0 * (margin - score)
            else:
                pull = 1.0 / (1.0 + tl.exp(score))
            move = eta * pull
            if not EVEN_STEPS:
                move = move * tl.load(STEPS + base + t)
            sums += share * w
            if BALL:
                norm += move * (2.0 * score + move * tl.sum(difference * difference, 0))
                shrink = tl.where(norm > radius * radius, radius * tl.rsqrt(norm), 1.0)
                # An infinite norm would turn the iterate into zeros; NaN stays visible.
                shrink = tl.where(norm < float("inf"), shrink, float("nan"))
                norm = tl.where(norm > radius * radius, radius * radius, norm)
                w = w * shrink[:, None] + (move * shrink)[:, None] * difference[None, :]
            else:
                w += move[:, None] * difference[None, :]
    # Addresses known before the loop would occupy registers through it, as many as the iterates.
    # Indices are never negative, but the compiler learns that only after the loop.
    models += tl.where(i < 0, 1, 0)
    here = (path * n_models + models)[:, None] * d + columns[None, :]
    kept = (models < n_models)[:, None] & inside[None, :]
    tl.store(W + here, w, mask=kept)
    total = tl.load(TOTALS + here, mask=kept, other=0.0)
    tl.store(TOTALS + here, total + sums.to(tl.float64), mask=kept)
