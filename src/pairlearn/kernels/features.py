# SPDX-License-Identifier: BSD-3-Clause
r"""Feature maps: ramps and hats, distribution functions, sines and cosines.

Positions are unsigned. A signed index might count from the end, so the compiler would use scattered
stores instead of vector stores.

Every number of a row depends on that row alone, and is computed by the same operations at any
position. So mapped rows do not depend on how rows are cut into blocks.

Arrays
------
X : float64 or float32, shape (n * d,)
    Examples, row after row.
data, indices, indptr
    The arrays of a CSR matrix.
owners : uint32, shape (m,)
    The feature of each mapped column.
starts : int64, shape (d + 1,)
    Feature k owns the knots, or columns, from ``starts[k]`` to ``starts[k + 1]``.
out : float64 or float32
    Mapped rows, row after row, filled.
"""

import numpy as np

from pairlearn.kernels._native import as_written, elementwise, part_as_written


@part_as_written
def _ramp_at(x, begins, steeps, c):
    """Return the ramp of column c."""
    return min(max((x - begins[c]) * steeps[c], 0.0), 1.0)


@as_written
def fill_ramps(X, d, owners, begins, steeps, out):
    """Fill ramps: column c rises from 0 at ``begins[c]`` to 1, a `steeps` of feature ``owners[c]``.

    X is float64.
    """
    width = np.uintp(len(owners))
    for i in range(np.uintp(len(X) // d)):
        for c in range(width):
            x = X[i * np.uintp(d) + np.uintp(owners[c])]
            out[i * width + c] = _ramp_at(x, begins, steeps, c)


@as_written
def fill_hats(X, d, owners, begins, steeps, ends, falls, out):
    """Fill hats: a ramp that begins before the knot, minus a ramp that begins at the knot."""
    width = np.uintp(len(owners))
    for i in range(np.uintp(len(X) // d)):
        for c in range(width):
            x = X[i * np.uintp(d) + np.uintp(owners[c])]
            fallen = _ramp_at(x, ends, falls, c)
            out[i * width + c] = _ramp_at(x, begins, steeps, c) - fallen


@elementwise
def fill_hats_csr(data, indices, indptr, starts, begins, steeps, ends, falls, at_zero, out):
    """Fill hats (or ramps, which do not fall again) of sparse rows.

    Feature k owns the columns from ``starts[k]`` to ``starts[k + 1]``; `at_zero` is a mapped row of
    zeros.
    """
    width = len(at_zero)
    for i in range(len(indptr) - 1):
        base = i * width
        for c in range(width):
            out[base + c] = at_zero[c]
        for p in range(indptr[i], indptr[i + 1]):
            k = indices[p]
            x = np.float64(data[p])
            for c in range(starts[k], starts[k + 1]):
                up = min(max((x - begins[c]) * steeps[c], 0.0), 1.0)
                out[base + c] = up - min(max((x - ends[c]) * falls[c], 0.0), 1.0)


@elementwise
def standardise(X, centre, factor, limit, out):
    """Fill (x - centre) * factor, clipped to [-limit, limit]."""
    d = len(centre)
    for i in range(len(X) // d):
        base = i * d
        for k in range(d):
            value = (np.float64(X[base + k]) - centre[k]) * factor[k]
            out[base + k] = min(max(value, -limit), limit)


@elementwise
def interpolate_rows(X, d, starts, knots, values, out):
    """Fill the piecewise linear function of each feature, constant beyond its knots."""
    for i in range(len(X) // d):
        for k in range(d):
            out[i * d + k] = _interpolated(X[i * d + k], starts[k], starts[k + 1], knots, values)


@elementwise
def interpolate_data(data, indices, starts, knots, values, at_zero, out):
    """Fill the function of each stored number minus the function of zero."""
    for p in range(len(data)):
        k = indices[p]
        found = _interpolated(data[p], starts[k], starts[k + 1], knots, values)
        out[p] = found - at_zero[k]


@elementwise
def _interpolated(number, first, end, knots, values):
    """Return the piecewise linear function with knots from `first` to `end`."""
    x = np.float64(number)
    low = first
    high = end - 1
    if x <= knots[low]:
        return values[low]
    if x >= knots[high]:
        return values[high]
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= x:
            low = middle
        else:
            high = middle
    share = (x - knots[low]) / (knots[high] - knots[low])
    return values[low] + share * (values[high] - values[low])


# Both functions from one reduction to r in [-pi/4, pi/4]: x = q pi/2 + r. pi/2 is split into three
# parts; the leading ones have few digits, so their product with q is exact. The polynomials are
# those of the Cephes library. A phase too large for it still gives a number from -1 to 1.


@elementwise
def sines_and_cosines_32(phases, n, h, scale, width, cosines, sines):
    """Fill h cosines and h sines of n rows, times `scale`, in single precision.

    The two arrays start at the columns of the first row, and rows are `width` numbers apart. Both
    are views of one array and share no element.
    """
    one = np.float32(1.0)
    most = np.float32(1.0)
    half = np.float32(0.5)
    for i in range(n):
        source = np.uintp(i * h)
        place = np.uintp(i * width)
        for j in range(np.uintp(h)):
            x = phases[source + j]
            q = np.floor(x * np.float32(0.63661977) + half)
            r = x - q * np.float32(1.5703125)
            r = r - q * np.float32(4.8375129699707031e-4)
            r = r - q * np.float32(7.549790126404332e-08)
            r = min(max(r, -most), most)
            z = r * r
            s = np.float32(-1.9515295891e-4) * z + np.float32(8.3321608736e-3)
            s = s * z - np.float32(1.6666654611e-1)
            s = s * z * r + r
            c = np.float32(2.443315711809948e-5) * z - np.float32(1.388731625493765e-3)
            c = c * z + np.float32(4.166664568298827e-2)
            c = c * z * z - half * z + one
            turn = np.int32(q)
            odd = (turn & 1) != 0
            cosines[place + j] = (s if odd else c) * (-scale if ((turn + 1) & 2) != 0 else scale)
            sines[place + j] = (c if odd else s) * (-scale if (turn & 2) != 0 else scale)


@elementwise
def sines_and_cosines_64(phases, n, h, scale, width, cosines, sines):
    """Fill h cosines and h sines of n rows, times `scale`, in double precision."""
    for i in range(n):
        source = np.uintp(i * h)
        place = np.uintp(i * width)
        for j in range(np.uintp(h)):
            x = phases[source + j]
            q = np.floor(x * 0.6366197723675814 + 0.5)
            r = x - q * 1.5707963267341256
            r = r - q * 6.077100506303966e-11
            r = r - q * 2.0222662487959506e-21
            r = min(max(r, -1.0), 1.0)
            z = r * r
            s = 1.58962301576546568060e-10 * z - 2.50507477628578072866e-8
            s = s * z + 2.75573136213857245213e-6
            s = s * z - 1.98412698295895385996e-4
            s = s * z + 8.33333333332211858878e-3
            s = s * z - 1.66666666666666307295e-1
            s = s * z * r + r
            c = -1.13585365213876817300e-11 * z + 2.08757008419747316778e-9
            c = c * z - 2.75573141792967388112e-7
            c = c * z + 2.48015872888517045348e-5
            c = c * z - 1.38888888888730564116e-3
            c = c * z + 4.16666666666665929218e-2
            c = c * z * z - 0.5 * z + 1.0
            turn = np.int32(q)
            odd = (turn & 1) != 0
            cosines[place + j] = (s if odd else c) * (-scale if ((turn + 1) & 2) != 0 else scale)
            sines[place + j] = (c if odd else s) * (-scale if (turn & 2) != 0 else scale)
