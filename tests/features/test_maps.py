# SPDX-License-Identifier: BSD-3-Clause
"""Each map against a second formulation of what it is."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn.features import Hats, Identity, Nystroem, RandomFourier, Union
from pairlearn.features.restore import restored_map

RNG = np.random.default_rng(0)
X = np.column_stack(
    [RNG.normal(size=300), 1e5 + RNG.exponential(size=300), RNG.integers(3, size=300)]
)
MAPS = [
    Identity(),
    Hats(n_knots=5),
    Hats(n_knots=5, cumulative=False),
    RandomFourier(64),
    RandomFourier(64, "gaussian", gamma=0.3),
    Nystroem(20),
    Union(Hats(n_knots=4), RandomFourier(32)),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_hats_add_up_to_one_exactly(dtype):
    fitted = Hats(n_knots=7, cumulative=False).fit(X)
    far = np.concatenate([X, X * 1e3, -X])
    Z = fitted.transform(far, dtype=dtype)
    for k in range(X.shape[1]):
        own = Z[:, fitted.owners == k]
        assert (own.sum(axis=1) == 1.0).all()
        assert (np.count_nonzero(own, axis=1) <= 2).all()
        assert own.min() >= 0.0


def test_hats_are_linear_interpolation():
    fitted = Hats(n_knots=6).fit(X)
    coef = RNG.normal(size=fitted.n_outputs)
    total = np.zeros(len(X))
    for k in range(X.shape[1]):
        total += np.interp(X[:, k], fitted.knots_of(k), fitted.shape_of(k, coef))
    np.testing.assert_allclose(fitted.transform(X) @ coef, total, rtol=1e-9, atol=1e-9)


def test_knots_are_at_quantiles_and_at_levels():
    fitted = Hats(n_knots=5).fit(X)
    np.testing.assert_array_equal(fitted.knots_of(2), [0.0, 1.0, 2.0])
    expected = np.quantile(X[:, 0], np.linspace(0, 1, 5))
    np.testing.assert_allclose(fitted.knots_of(0), expected, atol=0.05)
    assert fitted.knots_of(0)[0] == X[:, 0].min()


@pytest.mark.parametrize("cumulative", [True, False])
@pytest.mark.parametrize(
    "form", [np.asarray, np.float32, scipy.sparse.csr_array], ids=["64", "32", "sparse"]
)
def test_a_weight_counts_a_row_several_times(form, cumulative):
    """Weights did not move knots."""
    rng = np.random.default_rng(3)
    A = np.where(rng.random((200, 4)) < 0.4, 0.0, rng.normal(size=(200, 4)))
    A[:, 3] = rng.integers(0, 4, 200)
    count = rng.integers(0, 5, 200)
    given, own = form(A), Hats(7, cumulative=cumulative)
    twice = own.fit(given[np.repeat(np.arange(200), count)])
    for unit in (1.0, 0.1, 1e-90):
        found = own.fit(given, sample_weight=unit * count)
        for name in ("knots", "starts"):
            np.testing.assert_array_equal(found.learned[name], twice.learned[name])
    assert not np.array_equal(own.fit(given).learned["knots"], twice.learned["knots"])
    alike, plain = own.fit(given, sample_weight=np.full(200, 7.0)), own.fit(given)
    np.testing.assert_array_equal(alike.learned["knots"], plain.learned["knots"])
    some = own.fit(given, sample_weight=rng.random(200) + 0.01)
    for k in range(3):
        knots = some.knots_of(k)
        values = (given.toarray() if scipy.sparse.issparse(given) else given)[:, k]
        assert [knots[0], knots[-1]] == [values.min(), values.max()]


def test_weights_are_honoured_or_refused():
    weight = np.ones(len(X))
    with pytest.raises(ValueError, match="RandomFourier learns from all examples alike"):
        RandomFourier(16).fit(X, sample_weight=weight)
    with pytest.raises(ValueError, match="learns from all examples alike"):
        Union(Identity(), Nystroem(4)).fit(X, sample_weight=weight)
    with pytest.raises(ValueError, match="zero for all examples"):
        Hats().fit(X, sample_weight=0.0 * weight)
    with pytest.raises(ValueError, match="at least 0"):
        Hats().fit(X, sample_weight=-weight)
    weight[::2] = 3.0
    _, two = Union(Identity(), Hats(5)).fit(X, sample_weight=weight).maps
    np.testing.assert_array_equal(
        two.learned["knots"], Hats(5).fit(X, sample_weight=weight).learned["knots"]
    )


def test_given_knots_read_nothing():
    one, two = (Hats(knots=((0.0, 1.0), (0.0, 1.0, 5.0))).fit(A) for A in (X[:, :2], 9 * X[:, :2]))
    np.testing.assert_array_equal(one.transform(X[:, :2]), two.transform(X[:, :2]))
    public = Hats.between([0.0, -1.0], [1.0, 1.0], n_knots=3, cumulative=False)
    np.testing.assert_allclose(public.transform([[0.25, 0.5]]), [[0.5, 0.5, 0.0, 0.0, 0.5, 0.5]])


@pytest.mark.parametrize("knots", [((1.0, 1.0),), ((),), ((np.nan, 1.0),)])
def test_bad_knots_are_refused(knots):
    with pytest.raises(ValueError, match="finite and increasing"):
        Hats(knots=knots)


def test_fourier_approximates_the_gaussian_kernel_within_its_error():
    # The mean of h cosines has a standard deviation of at most (2 h)^(-1/2). Over 400 pairs a
    # deviation of five of them comes once in four thousand times at the most.
    A = RNG.normal(size=(20, 4)) * [1.0, 1e3, 1e-3, 1.0] + [0.0, 1e6, 0.0, 5.0]
    fitted = RandomFourier(8192, "gaussian", gamma=0.25).fit(A, rng=1)
    standard = (A - fitted.learned["centre"]) * fitted.learned["factor"]
    squares = ((standard[:, None] - standard[None]) ** 2).sum(axis=2)
    Z = fitted.transform(A)
    assert abs(Z @ Z.T - np.exp(-0.25 * squares)).max() < 5.0 / np.sqrt(8192)


def test_fourier_is_cosines_and_sines_of_products():
    fitted = RandomFourier(64).fit(X, rng=0)
    own = fitted.learned
    standard = (X - own["centre"]) * own["factor"]
    ranks = np.column_stack(
        [
            np.interp(
                X[:, k],
                own["knots"][own["starts"][k] : own["starts"][k + 1]],
                own["values"][own["starts"][k] : own["starts"][k + 1]],
            )
            for k in range(3)
        ]
    )
    phases = [standard @ own["frequencies"], ranks @ own["sparse_frequencies"]]
    expected = np.hstack([f(p) for p in phases for f in (np.cos, np.sin)]) / np.sqrt(32)
    np.testing.assert_allclose(fitted.transform(X), expected, atol=1e-12)
    np.testing.assert_allclose(fitted.transform(X, dtype=np.float32), expected, atol=2e-6)


def test_distribution_functions_are_uniform_with_variance_one():
    fitted = RandomFourier(64).fit(RNG.exponential(size=(5000, 1)), rng=0)
    values = fitted.learned["values"]
    assert values.min() == pytest.approx(-np.sqrt(3), abs=0.01)
    assert values.max() == pytest.approx(np.sqrt(3), abs=0.01)


def test_sparse_frequencies_touch_one_to_four_features():
    A = RNG.normal(size=(50, 10))
    W = RandomFourier(512).fit(A, rng=0).learned["sparse_frequencies"]
    counts = np.count_nonzero(W, axis=0)
    assert set(counts.tolist()) == {1, 2, 3, 4}


def test_phases_beyond_all_reach_stay_within_the_bounds():
    fitted = RandomFourier(64, "gaussian", gamma=1e12).fit(X, rng=0)
    for dtype in (np.float64, np.float32):
        Z = fitted.transform(X * 1e6, dtype=dtype)
        assert np.isfinite(Z).all()
        assert abs(Z).max() <= fitted.bounds().upper * (1 + 1e-6)


def test_nystroem_at_all_examples_is_the_kernel():
    A = RNG.normal(size=(40, 3))
    fitted = Nystroem(40, gamma=0.5, landmarks="examples").fit(A, rng=0)
    standard = (A - fitted.learned["centre"]) * fitted.learned["factor"]
    squares = ((standard[:, None] - standard[None]) ** 2).sum(axis=2)
    Z = fitted.transform(A)
    np.testing.assert_allclose(Z @ Z.T, np.exp(-0.5 * squares), atol=1e-6)


def test_means_are_better_landmarks_than_examples():
    A = np.concatenate([RNG.normal(size=(200, 2)) + 8 * k for k in range(5)])
    errors = {}
    for landmarks in ("means", "examples"):
        found = []
        for seed in range(5):
            fitted = Nystroem(10, gamma=2.0, landmarks=landmarks).fit(A, rng=seed)
            Z = fitted.transform(A)
            found.append(1.0 - (Z**2).sum(axis=1).mean())
        errors[landmarks] = np.mean(found)
    assert errors["means"] < errors["examples"]


@pytest.mark.parametrize("one", MAPS, ids=repr)
def test_block_size_never_changes_a_bit(one):
    fitted = one.fit(X, rng=0)
    for dtype in (np.float64, np.float32):
        whole = fitted.transform(X, dtype=dtype)
        for size in (1, 3, 63, 64, 65, 200):
            parts = [fitted.transform(X[k : k + size], dtype=dtype) for k in range(0, 300, size)]
            np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("one", MAPS, ids=repr)
def test_sparse_rows_are_mapped_as_dense_ones(one):
    dense = RNG.normal(size=(200, 6)) * (RNG.random((200, 6)) < 0.3)
    sparse = scipy.sparse.csr_array(dense)
    fitted, other = one.fit(dense, rng=0), one.fit(sparse, rng=0)
    np.testing.assert_allclose(fitted.transform(sparse), fitted.transform(dense), atol=1e-9)
    if not isinstance(one, Nystroem):
        np.testing.assert_allclose(other.transform(dense), fitted.transform(dense), atol=1e-9)


@pytest.mark.parametrize("one", [m for m in MAPS if m != Identity()], ids=repr)
def test_units_do_not_matter(one):
    scale, shift = np.array([1e-6, 3.0, 1e4]), np.array([1.0, -7.0, 1e5])
    first = one.fit(X, rng=0).transform(X)
    second = one.fit(X * scale + shift, rng=0).transform(X * scale + shift)
    np.testing.assert_allclose(first, second, atol=1e-5)


@pytest.mark.parametrize("one", MAPS, ids=repr)
def test_a_state_maps_bit_for_bit_and_is_checked(one):
    fitted = one.fit(X, rng=0)
    again = restored_map(fitted.state())
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    assert again.bounds() == fitted.bounds()
    assert repr(again) == repr(fitted)
    with pytest.raises(ValueError, match="not known here"):
        restored_map({**fitted.state(), "map": "os.system"})


def test_damaged_states_are_refused():
    hats = Hats(n_knots=4).fit(X).state()
    wrong = dict(hats["learned"], starts=hats["learned"]["starts"] + 1000)
    with pytest.raises(ValueError, match="knots are not those of"):
        restored_map({**hats, "learned": wrong})
    falling = dict(hats["learned"], knots=hats["learned"]["knots"][::-1].copy())
    with pytest.raises(ValueError, match="not increasing"):
        restored_map({**hats, "learned": falling})
    waves = RandomFourier(8).fit(X).state()
    with pytest.raises(ValueError, match="no RandomFourier"):
        restored_map({**waves, "learned": dict(waves["learned"], centre=np.zeros(9))})
    with pytest.raises(ValueError, match="NaN"):
        restored_map({**waves, "learned": dict(waves["learned"], centre=np.full(3, np.nan))})


@pytest.mark.parametrize("one", MAPS, ids=repr)
@pytest.mark.parametrize("gap", [np.nan, np.inf])
def test_gaps_are_refused(one, gap):
    """Hats made a knot of NaN, and mapped it to a number."""
    A = X.copy()
    A[3, 1] = gap
    for rows in (A, A.astype(np.float32), scipy.sparse.csr_array(A)):
        with pytest.raises(ValueError, match="X contains NaN or infinity"):
            one.fit(rows, rng=0)
        with pytest.raises(ValueError, match="X contains NaN or infinity"):
            one.fit(X, rng=0).transform(rows)
    one.fit(np.where(X > 1.0, 1e308, 1.0), rng=0)  # the sum overflows


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("one", [RandomFourier(32), Nystroem(10)], ids=repr)
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_units_beyond_the_range_of_squares(form, one, unit):
    """A column of such units was taken for a constant one."""
    plain = one.fit(form(X), rng=0).transform(X)
    scale = np.array([unit] + [1.0] * (X.shape[1] - 1))
    found = one.fit(form(X * scale), rng=0).transform(X * scale)
    np.testing.assert_allclose(found, plain, atol=1e-6)


def test_errors_name_the_cure():
    with pytest.raises(ValueError, match=r"an example and a feature .* got shape \(3, 0\)"):
        Hats().fit(np.empty((3, 0)))
    with pytest.raises(ValueError, match="not fitted; call fit"):
        Hats().transform(X)
    with pytest.raises(ValueError, match="X has 2 features, Hats was fitted to 3"):
        Hats().fit(X).transform(X[:, :2])
    with pytest.raises(ValueError, match="must be even"):
        RandomFourier(7)
    with pytest.raises(ValueError, match='"mixed" or "gaussian"'):
        RandomFourier(kind="laplace")
    with pytest.raises(ValueError, match='"means" or "examples"'):
        Nystroem(landmarks="random")
    with pytest.raises(TypeError, match="one or more feature maps"):
        Union()
    with pytest.raises(ValueError, match="float32 or float64"):
        Hats().fit(X).transform(X, dtype=np.int64)


def test_constant_features():
    A = np.column_stack([np.full(50, 3.0), np.arange(50.0)])
    assert Hats(n_knots=3).fit(A).n_outputs == 2
    Z = RandomFourier(16).fit(A, rng=0).transform(A)
    assert np.isfinite(Z).all()
