# SPDX-License-Identifier: BSD-3-Clause
"""Private learning over partitions: who is trusted, and noise that a repeated task repeats."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from pairlearn import PrivateAUCClassifier
from pairlearn.distributed import (
    DaskPrivateAUCClassifier,
    PartitionNoise,
    PrivateSums,
    train_private_auc,
)
from pairlearn.privacy.accounting.ledger import BudgetExceededError, PrivacyLedger
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.sufficient_statistics import Grid, Weights

SIMULATED = pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, 2000)
    return np.clip(rng.normal(size=(2000, 3)) + 2 * y[:, None], -4, 6), y


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(bytes(range(40)))
    return path


def engine(X, y, cuts=(700, 701, 1500)):
    """Return one that runs over partitions, one of them empty, and twice over each of them."""
    parts = [*zip(np.split(X, cuts), np.split(y, cuts), strict=True), (X[:0], y[:0])]

    def run(statistic):
        states = []
        for k, part in enumerate(parts):
            # A task that is run again, elsewhere, says the same.
            first, again = (
                pickle.loads(pickle.dumps(statistic)).of_part(k).partial_state(*part)
                for _ in range(2)
            )
            np.testing.assert_equal(first, again)
            states.append(again)
        return statistic.merge_all(states)

    return run


@SIMULATED
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_trusted_aggregator_gives_the_model_of_one_memory_bit_by_bit(table, neighbours):
    n = None if neighbours == "replace" else 2500
    options = {"bounds": (-4, 6), "neighbours": neighbours, "n_examples": n, "random_state": 3}
    expected = PrivateAUCClassifier(1.0, **options).fit(*table)
    found = train_private_auc(engine(*table), PrivateAUCClassifier(1.0, **options))
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.intercept_ == expected.intercept_
    assert found.certificate_.releases == expected.certificate_.releases
    assert "trust" not in expected.certificate_.public
    assert found.certificate_.public["trust"].startswith("the aggregator: it saw sums")


@SIMULATED
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_bounds_that_are_far_too_wide_are_narrowed_over_partitions_too(table, neighbours, key_file):
    n = None if neighbours == "replace" else 2500
    options = {"bounds": (-4000, 900), "neighbours": neighbours, "n_examples": n}
    expected = PrivateAUCClassifier(2.0, random_state=3, **options).fit(*table)
    found = train_private_auc(engine(*table), PrivateAUCClassifier(2.0, random_state=3, **options))
    np.testing.assert_array_equal(found.bounds_, expected.bounds_)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.certificate_.releases == expected.certificate_.releases
    assert "narrowed" in found.certificate_.public["bounds"]
    alone = [
        train_private_auc(
            engine(*table), PrivateAUCClassifier(2.0, **options), trust="none", key_file=key_file
        )
        for _ in range(2)
    ]
    assert alone[0].certificate_.releases[0].name == "counts in bins, look 1"
    assert (np.diff(alone[0].bounds_, axis=0) < 4900).all()
    np.testing.assert_array_equal(alone[0].coef_, alone[1].coef_)


def test_without_trust_each_partition_adds_its_own_noise_once(table, key_file):
    run = engine(*table)
    model = PrivateAUCClassifier(1.0, bounds=(-4, 6))
    found = train_private_auc(run, model, trust="none", key_file=key_file)
    assert (found.predict(table[0]) == table[1]).mean() > 0.85
    certificate = found.certificate_
    assert certificate.private
    assert certificate.public["trust"].startswith("nobody: each of the partitions (5)")
    assert "secret key of the workers" in certificate.generator
    central = train_private_auc(run, PrivateAUCClassifier(1.0, bounds=(-4, 6))).certificate_
    assert certificate.mu == pytest.approx(central.mu, rel=1e-12)
    # Run again, it is the same release and not a second one.
    again = train_private_auc(
        run, PrivateAUCClassifier(1.0, bounds=(-4, 6)), trust="none", key_file=key_file
    )
    np.testing.assert_array_equal(again.coef_, found.coef_)
    key_file.write_bytes(bytes(range(1, 41)))
    other = train_private_auc(
        run, PrivateAUCClassifier(1.0, bounds=(-4, 6)), trust="none", key_file=key_file
    )
    assert (other.coef_ != found.coef_).all()


SETTING = PublicSetting.make(50, lower=[-1.0, -1.0], upper=[1.0, 1.0], epsilon=1.0, delta=1e-4)


def sums_of(noise=None, neighbours="replace", **changed):
    weights = Weights.free(0.8)
    grid = Grid.fitting(weights, 2, mu=0.3, neighbours=neighbours)
    asked = {"centre": np.array([0.1, -0.2]), "radius": 1.3, "weights": weights, **changed}
    return grid, PrivateSums(SETTING, (0, 1), step=grid.step, scale=1 << 20, noise=noise, **asked)


records = npst.arrays(
    np.float64, (12, 2), elements=st.floats(allow_nan=True, allow_infinity=True, width=32)
)
labels = npst.arrays(np.int64, 12, elements=st.integers(-1, 2))


@settings(max_examples=25, deadline=None)
@given(X=records, other=records, y=labels, z=labels, row=st.integers(0, 11), cut=st.integers(0, 12))
def test_one_record_changes_one_partition_by_no_more_than_the_sensitivity(X, other, y, z, row, cut):
    X2, y2 = X.copy(), y.copy()
    X2[row], y2[row] = other[row], z[row]

    def states(statistic, X, y):
        return [
            statistic.of_part(k).partial_state(X[part], y[part])["total"]
            for k, part in enumerate((slice(0, cut), slice(cut, 12)))
        ]

    grid, statistic = sums_of()
    before, after = states(statistic, X, y), states(statistic, X2, y2)
    moved = [np.linalg.norm(grid.step * (a - b)) for a, b in zip(before, after, strict=True)]
    assert sum(moved) <= grid.sensitivity
    # What untouched partitions publish does not change in any bit, noise included.
    _, noisy = sums_of(PartitionNoise(key=bytes(32)))
    same = [
        np.array_equal(a, b)
        for a, b in zip(states(noisy, X, y), states(noisy, X2, y2), strict=True)
    ]
    assert same[1 if row < cut else 0]
    # Whoever is added changes his partition by no more than the sensitivity of that relation.
    grid, statistic = sums_of(neighbours="add_remove")
    whole = statistic.partial_state(X, y)["total"]
    without = statistic.partial_state(np.delete(X, row, 0), np.delete(y, row))["total"]
    assert np.linalg.norm(grid.step * (whole - without)) <= grid.sensitivity


def test_other_questions_partitions_and_sums_get_other_noise():
    noise = PartitionNoise(key=bytes(32))
    X, y = np.full((3, 2), 0.4), np.array([0, 1, 1])

    def noise_of(statistic, plain, X=X):
        return statistic.partial_state(X, y)["total"] - plain.partial_state(X, y)["total"]

    (_, asked), (_, plain) = sums_of(noise), sums_of()
    first = noise_of(asked, plain)
    changed = {"radius": 1.3000000000000003}
    for other in (
        noise_of(asked.of_part(1), plain),
        noise_of(sums_of(noise, **changed)[1], sums_of(**changed)[1]),
        noise_of(asked, plain, X + 0.01),
        noise_of(sums_of(PartitionNoise(key=bytes(31) + b"1"))[1], plain),
    ):
        assert (other != first).all()
    many = np.concatenate([noise_of(asked.of_part(k), plain) for k in range(120)])
    assert many.std() == pytest.approx(1 << 20, rel=0.08)
    assert abs(many.mean()) < 4 * (1 << 20) / np.sqrt(len(many))


def test_the_budget_is_paid_before_the_first_sum(table):
    ledger = PrivacyLedger(epsilon=1.1, delta=2e-5)
    model = PrivateAUCClassifier(1.0, bounds=(-4, 6), ledger=ledger)
    train_private_auc(engine(*table), model)
    asked = []

    def run(statistic):
        asked.append(type(statistic).__name__)
        return engine(*table)(statistic)

    with pytest.raises(BudgetExceededError, match="over the budget"):
        train_private_auc(run, PrivateAUCClassifier(1.0, bounds=(-4, 6), ledger=ledger))
    assert asked == ["TableForm"]


def test_what_is_not_offered_over_partitions_is_refused(table, tmp_path):
    run, public = engine(*table), {"bounds": (-4, 6)}
    with pytest.raises(ValueError, match="trust must be one of 'aggregator', 'none', got 'me'"):
        train_private_auc(run, PrivateAUCClassifier(**public), trust="me")
    with pytest.raises(ValueError, match=r"needs key_file.*/dev/urandom"):
        train_private_auc(run, PrivateAUCClassifier(**public), trust="none")
    with pytest.raises(ValueError, match="cannot read key_file"):
        train_private_auc(
            run, PrivateAUCClassifier(**public), trust="none", key_file=tmp_path / "no"
        )
    (tmp_path / "short").write_bytes(b"secret")
    with pytest.raises(ValueError, match="has 6 bytes, at least 32"):
        train_private_auc(
            run, PrivateAUCClassifier(**public), trust="none", key_file=tmp_path / "short"
        )
    with pytest.raises(ValueError, match='key_file is for trust="none"'):
        train_private_auc(run, PrivateAUCClassifier(**public), key_file=tmp_path / "short")
    with pytest.raises(ValueError, match="leave out one of them"):
        train_private_auc(
            run, PrivateAUCClassifier(**public, random_state=0), trust="none", key_file="key"
        )
    with pytest.raises(ValueError, match="needs all examples in one place"):
        train_private_auc(run, PrivateAUCClassifier(**public, mechanism="single_pass"))
    with pytest.raises(ValueError, match="give public bounds"):
        train_private_auc(run, PrivateAUCClassifier(bounds="private"))
    with pytest.raises(ValueError, match="over partitions scores are linear, got features='hats'"):
        train_private_auc(run, PrivateAUCClassifier(**public, features="hats"))
    with pytest.raises(ValueError, match="leave secure=True"):
        train_private_auc(run, PrivateAUCClassifier(**public, secure=False))
    with pytest.raises(ValueError, match="takes no sample_weight"):
        sums_of()[1].partial_state(np.ones((1, 2)), [1], [2.0])


@SIMULATED
def test_on_a_cluster(table, client, tmp_path):
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    X, y = da.from_array(table[0], chunks=(600, -1)), da.from_array(table[1], chunks=600)
    private = PrivateAUCClassifier(1.0, bounds=(-4, 6), random_state=3)
    told = []
    clf = DaskPrivateAUCClassifier(
        private, client=client, progress=lambda number, purpose: told.append(purpose)
    ).fit(X, y)
    expected = PrivateAUCClassifier(1.0, bounds=(-4, 6), random_state=3).fit(*table)
    np.testing.assert_array_equal(clf.coef_, expected.coef_)
    assert told[:2] == ["form of the table", "counts in bins, look 1"]
    assert len(told) == 7
    assert not hasattr(private, "coef_")
    for method in ("decision_function", "predict", "predict_proba"):
        np.testing.assert_array_equal(
            client.compute(getattr(clf, method)(X)).result(), getattr(expected, method)(table[0])
        )
    alone = DaskPrivateAUCClassifier(private, trust="none").fit(X, y)
    cluster = DaskPrivateAUCClassifier(private, trust="none", client=client).fit(X, y)
    np.testing.assert_array_equal(alone.coef_, cluster.coef_)
    cluster.model_.save(tmp_path / "model.safetensors")
    again = PrivateAUCClassifier.load(tmp_path / "model.safetensors")
    assert again.certificate_ == cluster.certificate_
    assert not again.certificate_.private


@SIMULATED
def test_frames_have_names_that_predictions_compare(table, client):
    dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(table[0], columns=[f"x{k}" for k in range(table[0].shape[1])])
    private = PrivateAUCClassifier(1.0, bounds=(-4, 6), random_state=3)
    clf = DaskPrivateAUCClassifier(private, client=client).fit(
        dd.from_pandas(X, npartitions=3), dd.from_pandas(pd.Series(table[1]), npartitions=3)
    )
    assert clf.model_.feature_names_in_.tolist() == list(X)
    lazy = clf.decision_function(dd.from_pandas(X, npartitions=3))
    np.testing.assert_allclose(
        client.compute(lazy).result(), clf.model_.decision_function(X), rtol=1e-12
    )
    with pytest.raises(ValueError, match="names should match"):
        clf.model_.decision_function(X[X.columns[::-1]])
