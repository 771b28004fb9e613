# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise SGD with the hinge on short rows of doubles: iterate and sum stay in registers.

A row of 8 to 64 numbers is one to eight vectors of eight. The last vector ends where the row ends;
the lanes that it shares with the vector before are zero in it. Otherwise the loop is that of
`pairlearn.kernels.steps.dense.descend`, which takes all other rows and losses.

Unless the classes are far apart, the processor cannot predict whether a pair moves the iterate, and
a wrong guess costs as much as a step. So every pair moves it, by a mask. This saves time where
classes overlap and costs little where they do not. On the sphere of the ball each move also waits
for a square root. So there it is made before the score is known, which then says whether it counts.
The numbers are the same, bit for bit.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.datamodel import models, register_default
from numba.extending import intrinsic

from pairlearn.kernels._native import DIVERGED, FINE, everywhere, kernel, prefetch, stay_apart
from pairlearn.kernels.steps.dense import AHEAD, NEAR, step_of, take_in, undo

LANES = 8
#: The shortest and the longest row.
SHORTEST, LONGEST = LANES, 8 * LANES

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_LANE = ir.IntType(32)


class _Row(types.Type):
    """The type of a row in registers."""

    def __init__(self, n_vectors):
        self.n_vectors = n_vectors
        super().__init__(name=f"Row({n_vectors})")


@register_default(_Row)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager, row):
        super().__init__(manager, row, ir.ArrayType(_VECTOR, row.n_vectors))


def _split(builder, row):
    return [builder.extract_value(row, k) for k in range(row.type.count)]


def _joined(builder, parts):
    row = ir.Constant(ir.ArrayType(_VECTOR, len(parts)), ir.Undefined)
    for k, part in enumerate(parts):
        row = builder.insert_value(row, part, k)
    return row


def _shuffled(builder, value, lanes):
    order = ir.Constant(ir.VectorType(_LANE, len(lanes)), lanes)
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)


def _pointers(context, builder, array_type, array, start, d, n):
    """Return the addresses of the vectors of the row of d numbers at `start`."""
    data = context.make_array(array_type)(context, builder, array).data
    size = ir.IntType(64)
    places = [builder.add(start, size(LANES * k)) for k in range(n - 1)]
    places.append(builder.sub(builder.add(start, d), size(LANES)))
    return [builder.bitcast(builder.gep(data, [place]), _VECTOR.as_pointer()) for place in places]


@intrinsic
def _load(typing_context, array, start, d, n_vectors):
    """Return a row; the length of the tuple `n_vectors` is its number of vectors."""

    def generate(context, builder, signature, arguments):
        array, start, d, _ = arguments
        n = signature.return_type.n_vectors
        pointers = _pointers(context, builder, signature.args[0], array, start, d, n)
        parts = [builder.load(pointer, align=8) for pointer in pointers]
        shared = everywhere(builder, builder.sub(ir.IntType(64)(LANES * n), d), LANES)
        flags = builder.icmp_unsigned("<", ir.Constant(shared.type, list(range(LANES))), shared)
        parts[-1] = builder.select(flags, ir.Constant(_VECTOR, [0.0] * LANES), parts[-1])
        return _joined(builder, parts)

    return _Row(len(n_vectors))(array, types.uintp, types.uintp, n_vectors), generate


@intrinsic
def _store(typing_context, array, d, row):
    """Write a row to the beginning of an array."""

    def generate(context, builder, signature, arguments):
        array, d, row = arguments
        parts = _split(builder, row)
        start = ir.IntType(64)(0)
        pointers = _pointers(context, builder, signature.args[0], array, start, d, len(parts))
        # The last vector first, since the one before holds the right values of the shared lanes.
        for pointer, part in reversed(list(zip(pointers, parts, strict=True))):
            builder.store(part, pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, types.uintp, row), generate


@intrinsic
def _difference(typing_context, a, b):
    def generate(context, builder, signature, arguments):
        both = zip(*(_split(builder, row) for row in arguments), strict=True)
        return _joined(builder, [builder.fsub(x, z) for x, z in both])

    return a(a, b), generate


@intrinsic
def _multiple(typing_context, factor, a):
    def generate(context, builder, signature, arguments):
        factors = everywhere(builder, arguments[0], LANES)
        return _joined(builder, [builder.fmul(factors, x) for x in _split(builder, arguments[1])])

    return a(types.float64, a), generate


@intrinsic
def _with_multiple(typing_context, a, factor, b):
    """Return a + factor * b."""

    def generate(context, builder, signature, arguments):
        a, factor, b = arguments
        factors = everywhere(builder, factor, LANES)
        both = zip(_split(builder, a), _split(builder, b), strict=True)
        return _joined(builder, [builder.fadd(x, builder.fmul(factors, z)) for x, z in both])

    return a(a, types.float64, b), generate


@intrinsic
def _dot(typing_context, a, b):
    """Return <a, b> in all lanes of a vector."""

    def generate(context, builder, signature, arguments):
        both = zip(*(_split(builder, row) for row in arguments), strict=True)
        sums = [builder.fmul(x, z) for x, z in both]
        while len(sums) > 1:
            sums.append(builder.fadd(sums.pop(0), sums.pop(0)))
        [total] = sums
        for n in (4, 2, 1):
            total = builder.fadd(total, _shuffled(builder, total, [k ^ n for k in range(LANES)]))
        return _joined(builder, [total])

    return _Row(1)(a, b), generate


@intrinsic
def _number(typing_context, lanes):
    """Return the number that all lanes hold."""

    def generate(context, builder, signature, arguments):
        [lanes] = _split(builder, arguments[0])
        return builder.extract_element(lanes, _LANE(0))

    return types.float64(lanes), generate


@intrinsic
def _where_below(typing_context, scores, margin, a, b):
    """Return a where the score is below the margin, else b."""

    def generate(context, builder, signature, arguments):
        scores, margin, a, b = arguments
        [score] = _split(builder, scores)
        below = builder.fcmp_ordered("<", score, everywhere(builder, margin, LANES))
        both = zip(_split(builder, a), _split(builder, b), strict=True)
        return _joined(builder, [builder.select(below, x, z) for x, z in both])

    return a(scores, types.float64, a, b), generate


@intrinsic
def _product(typing_context, a, b):
    def generate(context, builder, signature, arguments):
        both = zip(*(_split(builder, row) for row in arguments), strict=True)
        return _joined(builder, [builder.fmul(x, z) for x, z in both])

    return a(a, b), generate


@kernel
def descend_short(
    X,
    unit,
    y,
    left,
    right,
    step_sizes,
    paid,
    active,
    n_active,
    w,
    weighted_sum,
    left_iterate,
    n_vectors,
    state,
    radius,
    slope_address,
    margin,
):
    """Take the active steps of a plan as `descend` does with the address HINGE.

    The arguments are the same, so a solver can call either. Instead of scratch space there is a
    tuple whose length is the number of vectors per row.
    """
    stay_apart()
    d = np.uintp(len(w))
    start = np.uintp(0)
    far = X.nbytes > NEAR
    radius_squared = radius * radius
    on_sphere = False
    in_units = len(unit) > 0
    base = state[0]
    iterate = _load(w, start, d, n_vectors)
    total = _load(weighted_sum, start, d, n_vectors)
    units = _load(unit if in_units else w, start, d, n_vectors)
    for p in range(n_active):
        t = np.uintp(active[p])
        i = np.uintp(left[t])
        j = np.uintp(right[t])
        if far and p + AHEAD < n_active:
            t_ahead = np.uintp(active[p + AHEAD])
            a_ahead = np.uintp(left[t_ahead]) * d
            b_ahead = np.uintp(right[t_ahead]) * d
            for k in range(len(n_vectors)):
                prefetch(X, a_ahead + np.uintp(LANES * k))
                prefetch(X, b_ahead + np.uintp(LANES * k))
            prefetch(X, a_ahead + d - np.uintp(1))
            prefetch(X, b_ahead + d - np.uintp(1))
        if p == n_active - 1:
            _store(left_iterate, d, iterate)
        x = _difference(_load(X, i * d, d, n_vectors), _load(X, j * d, d, n_vectors))
        if in_units:
            x = _product(x, units)
        x = _multiple(1.0 if y[i] > y[j] else -1.0, x)
        score = _dot(iterate, x)
        total = _with_multiple(total, paid[t] - base, iterate)
        base = paid[t]
        moves = _number(score) < margin
        moved = _with_multiple(iterate, step_sizes[t], x)
        if not on_sphere:
            moved = _where_below(score, margin, moved, iterate)
        norm_squared = _number(_dot(moved, moved))
        if norm_squared < radius_squared:
            if on_sphere:
                moved = _where_below(score, margin, moved, iterate)
                on_sphere = not moves
        else:
            if not norm_squared < np.inf and moves:
                _store(w, d, moved)
                return DIVERGED + 4 * np.int64(t)
            on_sphere = on_sphere or moves
            moved = _multiple(radius / math.sqrt(norm_squared), moved)
            # Rounding may leave a projected iterate outside, so it is projected after a move only.
            moved = _where_below(score, margin, moved, iterate)
        iterate = moved
    _store(w, d, iterate)
    _store(weighted_sum, d, total)
    state[0] = base
    return np.int64(FINE)


@kernel
def meet_short(
    x,
    label,
    turn,
    rows,
    labels,
    pair,
    step_sizes,
    paid,
    position,
    w,
    weighted_sum,
    left_iterate,
    n_vectors,
    state,
    kept,
    radius,
    slope_address,
    margin,
    one_sided,
    all_pairs,
):
    """Learn one example as `pairlearn.kernels.steps.dense.meet_previous` does."""
    status = take_in(x, label, turn, rows, labels, pair, one_sided, all_pairs, left_iterate, kept)
    if status != FINE:
        return status
    left, right, active, eta, owed = step_of(pair, step_sizes, paid, position)
    status = descend_short(
        rows, step_sizes[:0], labels, left, right, eta, owed, active, len(active), w, weighted_sum,
        left_iterate, n_vectors, state, radius, slope_address, margin,
    )  # fmt: skip
    if status != FINE:
        # The sum is stored at the end only.
        undo(w, left_iterate, kept)
    return status
