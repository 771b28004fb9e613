# SPDX-License-Identifier: BSD-3-Clause
"""Exact moments: any order, chunks, merges and threads give the same bytes; rows can be taken back.

The second formulation adds Python's whole numbers and fractions, row by row.
"""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn.kernels import tiles
from pairlearn.solvers import ClassMoments, Extents, Grid
from pairlearn.solvers.closed_form import exact_sums
from pairlearn.solvers.closed_form.exact_sums import ExactSums
from pairlearn.solvers.closed_form.wide import LARGEST_FACTOR, Wide
from pairlearn.solvers.rows import as_rows
from pairlearn.validation import DivergenceError

#: Kinds of columns: what is hard about each stands in its name.
KINDS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "far from zero": lambda rng, n: 1e9 + rng.normal(size=n),
    "constant": lambda rng, n: np.full(n, 0.1),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, -0.0),
    "indicator": lambda rng, n: (rng.random(n) < 0.1) * 1.0,
    "heavy tail": lambda rng, n: np.exp(6.0 * rng.normal(size=n)),
    "outlier": lambda rng, n: np.where(np.arange(n) == n // 2, 1e30, rng.normal(size=n)),
    "tiny": lambda rng, n: 5e-324 * rng.integers(-9, 9, n),
    "large": lambda rng, n: 1e140 * rng.normal(size=n),
    "halves": lambda rng, n: rng.integers(-3, 4, n) * 0.5,
}


@st.composite
def tables(draw, weighted=True):
    """Rows, labels and weights."""
    n = draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    X = np.column_stack([KINDS[kind](rng, n) for kind in kinds])
    y = np.where(rng.random(n) < draw(st.sampled_from([0.0, 0.1, 0.5])), 1.0, -1.0)
    weight = None
    if weighted:
        weight = draw(
            st.sampled_from([None, rng.integers(1, 5, n) * 1.0, rng.integers(1, 10**9, n) * 1.0,
                             rng.gamma(0.3, size=n) + 1e-9])
        )  # fmt: skip
    return X, y, weight, rng


def grid_of(X, weight=None, **settings):
    return Grid.of(Extents.of(as_rows(X), weight), **settings)


def part(weight, index):
    return None if weight is None else weight[index]


def bytes_of(moments):
    return {name: (array.shape, array.tobytes()) for name, array in moments.state().items()}


def by_fractions(X, y, weight, grid):
    """Sums of weights, values and products of both classes, in units of the rows."""
    quanta = [Fraction(2) ** int(e) for e in grid.exponents]
    unit = Fraction(2) ** grid.weight_exponent
    w = np.ones(len(y)) if weight is None else weight
    found = []
    for sign in (1.0, -1.0):
        n, s = Fraction(0), [Fraction(0)] * len(quanta)
        P = [[Fraction(0)] * len(quanta) for _ in quanta]
        for row in np.flatnonzero(y == sign):
            # Python rounds fractions to even, as the grid does.
            own = round(Fraction(float(w[row])) / unit) * unit
            x = [round(Fraction(float(v)) / q) * q for v, q in zip(X[row], quanta, strict=True)]
            n += own
            s = [a + own * b for a, b in zip(s, x, strict=True)]
            P = [[P[i][j] + own * x[i] * x[j] for j in range(len(x))] for i in range(len(x))]
        found.append((n, s, P))
    return found


@given(table=tables(), bits=st.sampled_from([22, 44]))
@settings(max_examples=35, deadline=None)
def test_means_and_covariances_are_those_of_fractions(table, bits):
    X, y, weight, _ = table
    grid = grid_of(X, weight, bits=bits)
    values = ClassMoments(X.shape[1], grid).add(X, y, example_weight=weight).values
    expected = by_fractions(X, y, weight, grid)
    for kind, (n, s, P) in enumerate(expected):
        assert values.counts[kind] == float(n)
        if n == 0:
            continue
        means = [value / n for value in s]
        assert values.means[kind].tolist() == [float(value) for value in means]
        for i in range(len(s)):
            for j in range(len(s)):
                covariance = P[i][j] / n - means[i] * means[j]
                size = (P[i][i] / n - means[i] ** 2) * (P[j][j] / n - means[j] ** 2)
                error = abs(Fraction(float(values.covariances[kind, i, j])) - covariance)
                # A few units in the last place of the deviations, and subnormal numbers.
                assert error**2 <= Fraction(2) ** -98 * size + Fraction(2) ** -2140
    if expected[0][0] and expected[1][0]:
        (n, a, _), (m, b, _) = expected
        gaps = [float(x / n - z / m) for x, z in zip(a, b, strict=True)]
        assert values.difference.tolist() == gaps


@given(table=tables(), data=st.data())
@settings(max_examples=35, deadline=None)
def test_order_chunks_and_merges_do_not_matter(table, data):
    X, y, weight, rng = table
    n, d = X.shape
    grid = grid_of(X, weight, bits=data.draw(st.sampled_from([22, 44])))
    whole = bytes_of(ClassMoments(d, grid).add(X, y, example_weight=weight))
    order = rng.permutation(n)
    pieces = np.split(order, np.sort(rng.integers(0, n, data.draw(st.integers(0, 6)))))
    states = [ClassMoments(d, grid).add(X[p], y[p], example_weight=part(weight, p)) for p in pieces]
    while len(states) > 1:
        # A random tree.
        one = states.pop(int(rng.integers(len(states))))
        states[int(rng.integers(len(states)))].merge(one)
    assert bytes_of(states[0]) == whole
    chunks = ClassMoments(d, grid)
    for p in pieces:
        chunks.add(X[p], y[p], example_weight=part(weight, p))
    assert bytes_of(chunks) == whole
    again = ClassMoments.from_state(chunks.state())
    assert bytes_of(again) == whole
    assert again.digest() == chunks.digest()


@given(table=tables())
@settings(max_examples=35, deadline=None)
def test_rows_that_are_taken_back_leave_no_trace(table):
    X, y, weight, rng = table
    n, d = X.shape
    grid = grid_of(X, weight)
    gone = rng.random(n) < 0.4
    whole = ClassMoments(d, grid).add(X, y, example_weight=weight)
    rest = whole.without(X[gone], y[gone], example_weight=part(weight, gone))
    never = ClassMoments(d, grid).add(X[~gone], y[~gone], example_weight=part(weight, ~gone))
    assert bytes_of(rest) == bytes_of(never)
    state = ClassMoments(d, grid).add(X[gone], y[gone], example_weight=part(weight, gone))
    assert bytes_of(whole.without(state)) == bytes_of(never)
    assert bytes_of(rest.merge(state)) == bytes_of(whole)


@given(table=tables(weighted=False))
@settings(max_examples=40, deadline=None)
def test_whole_weights_are_copies(table):
    X, y, _, rng = table
    times = rng.integers(0, 4, len(y))
    grid = grid_of(X, bits=22)
    weighted = ClassMoments(X.shape[1], grid).add(X, y, example_weight=times * 1.0)
    copied = np.repeat(np.arange(len(y)), times)
    assert bytes_of(weighted) == bytes_of(ClassMoments(X.shape[1], grid).add(X[copied], y[copied]))


@given(table=tables())
@settings(max_examples=40, deadline=None)
def test_sparse_and_single_precision_rows_are_the_same_rows(table):
    X, y, weight, _ = table
    with np.errstate(over="ignore"):
        narrow = X.astype(np.float32)
    narrow[~np.isfinite(narrow)] = 3.0
    X = narrow.astype(np.float64)
    found = []
    for rows in (X, narrow, scipy.sparse.csr_array(X), scipy.sparse.csr_array(narrow)):
        extents = Extents.of(as_rows(rows), weight)
        moments = ClassMoments(X.shape[1], Grid.of(extents))
        found.append(bytes_of(moments.add(rows, y, example_weight=weight)))
    assert found[0] == found[1] == found[2] == found[3]


@given(table=tables())
@settings(max_examples=40, deadline=None)
def test_extents_do_not_depend_on_the_order(table):
    X, _, weight, rng = table
    order = rng.permutation(len(X))
    cut = int(rng.integers(len(X) + 1))
    parts = [
        Extents.of(as_rows(X[p]), part(weight, p)) for p in (order[cut:], order[:cut], order[:0])
    ]
    merged, whole = Extents.merge_all(parts, X.shape[1]), Extents.of(as_rows(X), weight)
    for name in ("low", "high", "exponents", "n_values"):
        assert getattr(merged, name).tobytes() == getattr(whole, name).tobytes()
    assert merged.largest_weight == whole.largest_weight
    assert merged.whole_weights == whole.whole_weights
    assert merged.n_rows == len(X)


@pytest.mark.parametrize("bits", [22, 44])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_do_not_matter(n_threads, bits):
    pools = pytest.importorskip("threadpoolctl")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 70)), np.where(rng.random(3000) < 0.3, 1.0, -1.0)
    grid = grid_of(X, bits=bits)
    with pools.threadpool_limits(n_threads):
        found = ClassMoments(70, grid).add(X, y).digest()
    assert found == ClassMoments(70, grid).add(X[::-1], y[::-1]).digest()


@pytest.mark.parametrize("bits", [22, 44])
@pytest.mark.parametrize("d", [3, 40])
def test_long_tables_have_the_sums_of_whole_numbers(d, bits):
    # More rows than a block, few columns and many; one row is beyond the grid of the others.
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(1300, d)), np.where(rng.random(1300) < 0.4, 1.0, -1.0)
    grid = grid_of(X, bits=bits)
    X[7] *= 1e20
    X[8] *= 300.0
    moments = ClassMoments(d, grid).add(X, y)
    assert moments.sums is not None
    quanta = [Fraction(2) ** int(e) for e in grid.exponents]
    K = np.array(
        [[round(Fraction(v) / q) for v, q in zip(row, quanta, strict=True)] for row in X.tolist()],
        dtype=object,
    ) - np.array([int(o) for o in grid.origin], dtype=object)
    for one, sign in zip(moments.sums, (1.0, -1.0), strict=True):
        own = K[y == sign]
        products = own.T @ own
        assert one.total == len(own)
        assert one.sums.numbers().tolist() == own.sum(axis=0).tolist()
        assert one.products.numbers().tolist() == products[np.tril_indices(d)].tolist()


def test_states_on_different_grids_merge_without_rounding():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 2)) * [1.0, 1e5] + [0.0, 7e6], np.where(np.arange(60) % 3, 1.0, -1)
    pieces = [slice(0, 10), slice(10, 35), slice(35, 60)]
    states = [ClassMoments(2).add(X[p] * k, y[p]) for k, p in enumerate(pieces, 1)]
    a, b, c = (ClassMoments.from_state(one.state()) for one in states)
    one = bytes_of(a.merge(b).merge(c))
    a, b, c = (ClassMoments.from_state(one.state()) for one in states)
    assert bytes_of(c.merge(a).merge(b)) == one
    stacked = np.vstack([X[p] * k for k, p in enumerate(pieces, 1)])
    for kind, sign in enumerate((1.0, -1.0)):
        np.testing.assert_allclose(c.means[kind], stacked[y == sign].mean(axis=0), rtol=1e-10)


def test_a_merge_and_a_copy_do_not_share_sums():
    X, y = np.arange(6.0)[:, None], np.array([1.0, -1, 1, -1, 1, -1])
    other = ClassMoments(1).add(X, y)
    before = other.digest()
    ClassMoments(1).merge(other).add(X, y)
    other.without(ClassMoments(1)).add(X, y)
    assert other.digest() == before


def test_what_was_not_added_cannot_be_taken_back():
    X, y = np.arange(6.0)[:, None], np.array([1.0, -1, 1, -1, 1, -1])
    moments = ClassMoments(1).add(X, y)
    with pytest.raises(ValueError, match="not all among"):
        moments.without(X + 100.0, y)
    with pytest.raises(ValueError, match="not all among"):
        moments.without(X, -y)
    with pytest.raises(ValueError, match="need their labels"):
        moments.without(X)
    with pytest.raises(ValueError, match="do not add up"):
        moments.without(ClassMoments(2).add(np.eye(2), [1, -1]))


def test_what_lies_on_a_finer_grid_was_never_added():
    # The rest would hold the differences of roundings: a trace of rows that are said to be gone.
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.tile([1.0, -1.0], 20)
    X[30:] *= 1e6
    whole = ClassMoments(2).add(X, y)
    with pytest.raises(ValueError, match="finer grid than the others"):
        whole.without(ClassMoments(2).add(X[:10], y[:10]))
    # A part on a coarser grid leaves all of its sums.
    parts = [ClassMoments(2).add(X[k], y[k]) for k in (slice(0, 30), slice(30, 40))]
    both = ClassMoments.from_state(parts[0].state()).merge(parts[1])
    rest = both.without(parts[1])
    assert rest.grid.same_as(both.grid)
    np.testing.assert_array_equal(rest.means, parts[0].means)


def test_weights_that_a_grid_does_not_hold_are_refused_or_refine_it():
    X, y = np.arange(4.0)[:, None], np.array([1.0, -1, 1, -1])
    weight = np.array([0.25, 0.3, 1.0, 2.5])
    with pytest.raises(ValueError, match=r"got 0.25; give whole weights, or make the grid"):
        ClassMoments(1, grid_of(X)).add(X, y, example_weight=weight)
    moments = ClassMoments(1).add(X, y).add(X, y, example_weight=weight)
    np.testing.assert_allclose(moments.counts, [3.25, 4.8], rtol=1e-11)
    with pytest.raises(ValueError, match="3 features, the moments have 1"):
        ClassMoments(1, grid_of(np.eye(3)))


def test_values_that_overflow_are_told():
    with pytest.raises(DivergenceError, match="squares of features overflow"):
        ClassMoments(1).add([[1e200], [1.0]], [1, -1])


@pytest.mark.parametrize(("size", "taken"), [(1e153, True), (4.7e153, True), (4.8e153, False)])
def test_whether_squares_overflow_does_not_depend_on_chunks(size, taken):
    X, y = np.tile([[size], [-size]], (300, 1)), np.tile([1.0, -1.0], 300)
    found = set()
    for rows in (600, 7, 1):
        moments = ClassMoments(1, grid_of(X))
        try:
            for k in range(0, 600, rows):
                moments.add(X[k : k + rows], y[k : k + rows])
            found.add(moments.digest())
            assert np.isfinite(moments.pair_scatter).all()
        except DivergenceError:
            found.add(None)
    assert len(found) == 1
    assert (None not in found) == taken


def test_a_damaged_state_is_refused():
    state = ClassMoments(2).add(np.eye(2), [1, -1]).state()
    for change, text in (
        ({"totals": np.array([[255], [1]], dtype=np.uint8)}, "negative count"),
        ({"sums": state["sums"].astype(np.int64)}, "whole numbers in bytes"),
        ({"products": state["products"][:, :2]}, "of shape"),
        ({"origin": np.array([0.5, 0.0])}, "no whole number of quanta"),
        ({"exponents": np.array([0.5, 0.5])}, "no exponents"),
    ):
        with pytest.raises(ValueError, match=text):
            ClassMoments.from_state({**state, **change})


def test_a_state_is_at_most_twice_as_large_as_its_floats():
    rng = np.random.default_rng(0)
    for d in (8, 22, 128):
        X, y = rng.normal(size=(5000, d)), np.where(rng.random(5000) < 0.3, 1.0, -1.0)
        moments = ClassMoments(d, grid_of(X, bits=22)).add(X, y)
        size = sum(array.nbytes for array in moments.state().values())
        assert size <= 2 * 8 * (2 + 2 * d + 2 * d * d)


@given(
    st.lists(st.integers(-(2**130), 2**130), min_size=1, max_size=5),
    st.integers(-(2**70), 2**70),
    st.integers(-LARGEST_FACTOR, LARGEST_FACTOR),
    st.integers(0, 130),
)
def test_wide_numbers_are_those_of_python(numbers, other, factor, bits):
    wide, more = Wide.of(np.array(numbers, dtype=object)), [other] * len(numbers)
    added = Wide.of(np.array(more, dtype=object))
    assert wide.numbers().tolist() == numbers
    assert (wide + added).numbers().tolist() == [a + other for a in numbers]
    assert (wide - added).numbers().tolist() == [a - other for a in numbers]
    assert wide.times(np.full(len(numbers), factor)).numbers().tolist() == [
        a * factor for a in numbers
    ]
    assert wide.shifted(bits).numbers().tolist() == [a << bits for a in numbers]
    back = (wide + added) - added
    assert back.packed().tobytes() == wide.packed().tobytes()
    assert back.floats().tobytes() == wide.floats().tobytes()
    assert Wide.unpacked(wide.packed()).numbers().tolist() == numbers
    np.testing.assert_allclose(wide.floats(-7), [a / 128 for a in numbers], rtol=5e-16)


@given(
    st.lists(st.integers(-(1 << 70), 1 << 70), min_size=1, max_size=4),
    st.integers(0, 1 << 200),
)
def test_bytes_are_as_few_as_the_numbers_need_whatever_came_and_went(numbers, large):
    wide = Wide.of(np.array(numbers, dtype=object))
    gone = Wide.of(np.array([large] * len(numbers), dtype=object))
    found = (wide + gone - gone).packed()
    width = max((value if value >= 0 else ~value).bit_length() // 8 + 1 for value in numbers)
    assert [row.tobytes() for row in found] == [
        value.to_bytes(width, "little", signed=True) for value in numbers
    ]


@pytest.mark.parametrize("d", [2, 40])
@pytest.mark.parametrize("size", [2**22 - 1, 2**22, 2**22 + 1, 2**26, 2**27, 3 * 2**26])
@pytest.mark.parametrize("n", [3, 512, 1100])
def test_products_near_the_largest_exact_ones_are_exact(n, size, d):
    """Whether a product of floats was exact is seen from its diagonal."""
    rng = np.random.default_rng(n)
    X = np.where(rng.random((n, d)) < 0.5, -size, size).astype(float)
    X[:, 1] = rng.integers(-size, size + 1, n)
    sums = ExactSums(Grid(np.zeros(d, dtype=np.int64), np.zeros(d)))
    sums.add(as_rows(X))
    whole = X.astype(np.int64).astype(object)
    rows, columns = np.tril_indices(d)
    assert (sums.products.numbers() == (whole.T @ whole)[rows, columns]).all()
    assert (sums.sums.numbers() == whole.sum(axis=0)).all()


def _state_of(X, y, grid, tiled):
    """Return a digest of the moments, with tiles for whatever rows or for none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_sums, "_TILED_COLUMNS", 10_000 if tiled else 0)
        patch.setattr(exact_sums, "FEW_NUMBERS", 0)
        return ClassMoments(X.shape[1], grid).add(X, y).digest()


def test_tiles_and_blas_have_blocks_of_one_size():
    assert (tiles.TERMS, tiles.EXACT) == (exact_sums._ROWS, exact_sums._EXACT)


@given(table=tables(weighted=False), bits=st.sampled_from([22, 44]), n=st.integers(1, 1_200))
@settings(max_examples=35, deadline=None)
def test_tiles_find_the_same_whole_numbers(table, bits, n):
    X, y, _, rng = table
    index = rng.integers(len(X), size=n)
    X, y = X[index], y[index]
    with np.errstate(over="ignore"):
        single = X.astype(np.float32)
    for rows in (X, single):
        if np.isfinite(rows).all():
            grid = grid_of(rows, bits=bits)
            assert _state_of(rows, y, grid, True) == _state_of(rows, y, grid, False)


@pytest.mark.parametrize("bits", [22, 44])
@pytest.mark.parametrize("d", [1, 3, 4, 7, 8, 11, 12, 33, 64, 130])
@pytest.mark.parametrize("n", [1, 63, 511, 512, 513, 2_000])
def test_tiles_of_all_widths_and_heights(n, d, bits):
    rng = np.random.default_rng(n + d)
    X, y = rng.normal(size=(n, d)), np.ones(n)
    grid = Grid.between(np.full(d, -6.0), np.full(d, 6.0), bits=bits)
    assert _state_of(X, y, grid, True) == _state_of(X, y, grid, False)


@pytest.mark.parametrize("bits", [22, 44])
@pytest.mark.parametrize("far", [1e6, 1e30])
@pytest.mark.parametrize("row", [0, 511, 512, 700, 1_599])
def test_tiles_go_on_after_rows_that_they_cannot_add(row, far, bits):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1_600, 5)), np.where(rng.random(1_600) < 0.5, 1.0, -1.0)
    X[row, 2], X[row + 1 : row + 2, 4] = far, -far
    grid = Grid.between(np.full(5, -6.0), np.full(5, 6.0), bits=bits)
    assert _state_of(X, y, grid, True) == _state_of(X, y, grid, False)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_extents_of_many_rows_are_those_of_few(dtype):
    rng = np.random.default_rng(1)
    X = np.column_stack([KINDS[kind](rng, 3_000) for kind in sorted(KINDS)])
    with np.errstate(over="ignore"):
        X = np.nan_to_num(X.astype(dtype))
    many = Extents.of(X)
    few = Extents.merge_all((Extents.of(X[i : i + 100]) for i in range(0, 3_000, 100)), X.shape[1])
    for one, other in zip(vars(many).values(), vars(few).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.signbit(many.low[np.all(X == 0.0, axis=0)]).any()


@pytest.mark.parametrize("bits", [22, 44])
def test_covariances_about_means_far_from_the_origin_are_rounded_once(bits):
    """Means of many quanta are cut into factors of wide numbers, with their signs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)) * 1e-3 + np.array([-1.0, 0.0, 0.7])
    X[0] = 1.0
    y = np.tile([1.0, -1.0], 25)
    moments = ClassMoments(3, Grid.of(Extents.of(X), bits=bits)).add(X, y)
    K = moments.grid.exact_steps(X)
    for label, found in zip((1.0, -1.0), moments.values.covariances, strict=True):
        own = K[y == label]
        n = len(own)
        for i in range(3):
            for j in range(3):
                top = n * int(own[:, i] @ own[:, j]) - int(own[:, i].sum()) * int(own[:, j].sum())
                quanta = moments.grid.exponents[[i, j]].sum()
                exact = Fraction(top, n * n) * Fraction(2) ** int(quanta)
                assert found[i, j] == pytest.approx(float(exact), rel=1e-14, abs=1e-30)


@pytest.mark.parametrize("d", [33, 64, 130])
def test_covariances_in_64_bits_are_those_of_wide_numbers(monkeypatch, d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(1_100, d)) * 10.0 ** rng.uniform(-2, 2, d) + rng.normal(size=d)
    sums = ExactSums(Grid.of(Extents.of(as_rows(X)), bits=22))
    sums.add(as_rows(X))
    assert len(sums.products.limbs) == 1
    short = sums.centred()
    monkeypatch.setattr(ExactSums, "_is_short", lambda *arguments: False)
    wide = sums.centred()
    np.testing.assert_array_equal(short.covariance, wide.covariance)
    assert (short.total, short.sums) == (wide.total, wide.sums)


def test_sums_beyond_64_bits_are_not_taken_for_short():
    sums = ExactSums(Grid.between(np.full(40, -1.0), np.full(40, 1.0)))
    sums._sums = Wide.zeros(40)
    sums._products = Wide([np.full(820, (1 << 62) - 1, dtype=np.int64)])
    sums.total = 1 << 20
    assert not sums._is_short([0] * 40, [0] * 40, np.array([0] * 40, dtype=object))
    sums._products = Wide([np.full(820, 1 << 60, dtype=np.int64)])
    assert sums._is_short([0] * 40, [0] * 40, np.array([0] * 40, dtype=object))


def in_units(sums):
    """Return total, sums and products of a class in units of the rows, as fractions."""
    grid = sums.grid
    q, unit = [Fraction(2) ** int(e) for e in grid.exponents], Fraction(2) ** grid.weight_exponent
    starts = [int(o) for o in grid.origin]
    n, s = sums.total, [int(v) for v in sums.sums.numbers()]
    P = np.empty((len(q), len(q)), dtype=object)
    for i, j, p in zip(*np.tril_indices(len(q)), sums.products.numbers(), strict=True):
        moved = int(p) + starts[i] * s[j] + s[i] * starts[j] + n * starts[i] * starts[j]
        P[i, j] = P[j, i] = moved * unit * q[i] * q[j]
    about_zero = [(v + n * o) * unit * u for v, o, u in zip(s, starts, q, strict=True)]
    return n * unit, about_zero, P.tolist()


@pytest.mark.parametrize("swapped", [False, True])
def test_a_merge_of_two_grids_has_the_exact_sums_of_both(swapped):
    """The grids differ in quanta, in origins and in the quantum of weights."""
    rng = np.random.default_rng(3)
    tables = []
    for far, size, least in (([0.0, 7e6], 1.0, 1.0), ([90.0, 3e6], 1e-3, 1e-6)):
        X = rng.normal(size=(12, 2)) * [size, size * 1e5] + far
        tables.append((X, np.tile([1.0, -1.0], 6), least * rng.uniform(0.1, 3.0, 12)))
    if swapped:
        tables.reverse()
    grids = [grid_of(X, weight) for X, _, weight in tables]
    assert grids[0].weight_exponent != grids[1].weight_exponent
    assert all(grid.is_centred for grid in grids)
    states = [
        ClassMoments(2, grid).add(X, y, example_weight=weight)
        for grid, (X, y, weight) in zip(grids, tables, strict=True)
    ]
    parts = [by_fractions(*table, grid) for table, grid in zip(tables, grids, strict=True)]
    merged = states[0].merge(states[1])
    assert merged.sums is not None
    for kind, found in enumerate(merged.sums):
        (n, s, P), (m, t, Q) = parts[0][kind], parts[1][kind]
        total, sums, products = in_units(found)
        assert total == n + m
        assert sums == [a + b for a, b in zip(s, t, strict=True)]
        assert products == [[P[i][j] + Q[i][j] for j in range(2)] for i in range(2)]


@pytest.mark.parametrize("bits", [22, 44])
@pytest.mark.parametrize("far", [1e9 + 0.3, -1e9 - 0.3, 1e20, -1e20])
def test_rows_far_from_an_origin_are_exact_on_both_sides(far, bits):
    """Beyond 2^53 quanta a float cannot take the origin away without rounding."""
    rng = np.random.default_rng(0)
    X = rng.uniform([5.0, -2.0], [9.0, -1.0], size=(70, 2))
    grid = Grid.between([5.0, -2.0], [9.0, -1.0], bits=bits)
    X[66] = far
    sums = ExactSums(grid)
    sums.add(as_rows(X))
    K = grid.exact_steps(X)
    assert sums.sums.numbers().tolist() == K.sum(axis=0).tolist()
    assert sums.products.numbers().tolist() == (K.T @ K)[np.tril_indices(2)].tolist()


@pytest.mark.parametrize("weight", [None, np.arange(1.0, 41.0)])
def test_far_rows_that_are_mostly_zero_add_the_products_of_the_others(weight):
    rng = np.random.default_rng(0)
    X = (rng.random((40, 6)) < 0.3) * 10.0 ** rng.uniform(-200, 200, (40, 6))
    X *= rng.choice([-1.0, 1.0], X.shape)
    X[7] = 0.0
    grid = Grid.between([-1.0] * 6, [1.0] * 6, bits=22)
    sums = ExactSums(grid)
    sums.add(as_rows(scipy.sparse.csr_array(X)), weight)
    K = grid.exact_steps(X)
    w = np.array([1] * 40 if weight is None else [int(v) for v in weight], dtype=object)
    assert sums.sums.numbers().tolist() == (w @ K).tolist()
    left = K * w[:, np.newaxis]
    assert sums.products.numbers().tolist() == (left.T @ K)[np.tril_indices(6)].tolist()


def test_wide_numbers_have_the_limbs_that_the_farthest_needs():
    room = 1 << 61
    for numbers in (
        [0],
        [room - 1],
        [room],
        [-room],
        [1 - room],
        [-(1 << 93), 3],
        [1 << 93, -5],
        [],
    ):
        found = Wide.of(np.array(numbers, dtype=object))
        assert found.numbers().tolist() == numbers
        most = max((abs(number) for number in numbers), default=0)
        assert len(found.limbs) == 1 + max(0, -(-(most.bit_length() - 61) // 32))


@pytest.mark.parametrize("sign", [1, -1])
def test_wide_numbers_add_up_beyond_64_bits(sign):
    one = Wide.of(np.array([sign * ((1 << 61) - 1), 5], dtype=object))
    total = one
    for _ in range(40):
        total = total + one
    assert total.numbers().tolist() == [41 * sign * ((1 << 61) - 1), 205]


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1.0, 1.0), (-5.0, 0.5), (-3.0, 0.0), (0.0, 9.0), (-0.25, 40.0), (7.0, 7.0), (-2.0, -2.0),
     (5.0, 9.0), (-9.0, -5.0), (1e9, 1e9 + 1.0), (-0.75, -0.5), (0.125, 0.25)],
)  # fmt: skip
@pytest.mark.parametrize("bits", [22, 44])
def test_a_grid_spends_its_quanta_on_the_range(low, high, bits):
    """About 0 if the range holds it, and about its middle if not; a single value is about 0."""
    grid = Grid.between([low], [high], bits=bits)
    quantum = 2.0 ** int(grid.exponents[0])
    apart = low < high and (low > 0.0 or high < 0.0)
    assert grid.is_centred == apart
    half = (high - low) / 2 if apart else max(abs(low), abs(high))
    if apart:
        assert abs(float(grid.origin[0]) * quantum - (low + high) / 2) <= quantum
    # The smallest power of two that holds the range, with some room about a middle.
    assert 2.0 ** (bits - 1) < half / quantum * (1.0625 if apart else 1.0) <= 2.0**bits
    steps = np.abs(grid.steps(np.array([[low], [high]])))
    assert 2.0 ** (bits - 1) / 1.07 < steps.max() <= 2.0**bits + 1


def test_weights_of_which_one_would_be_lost_are_refused():
    X, y = np.arange(4.0)[:, None], np.array([1.0, -1, 1, -1])
    grid = grid_of(X, np.array([0.5, 1.0, 1.5, 1.0]))
    ClassMoments(1, grid).add(X, y, example_weight=np.array([0.25, 1.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match=r"less than 2\^-40 of the largest one"):
        ClassMoments(1, grid).add(X, y, example_weight=np.array([0.25, 1e-20, 1.0, 1.0]))
