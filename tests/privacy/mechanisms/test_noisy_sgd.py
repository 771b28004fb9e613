# SPDX-License-Identifier: BSD-3-Clause
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn import PrivateAUCClassifier, PrivateMetricLearner
from pairlearn.estimators.private.entries import FitEntry
from pairlearn.losses import LOSSES, METRIC_LOSSES, Epanechnikov, PairLoss, Welsch, scalar
from pairlearn.metrics import roc_auc
from pairlearn.models import load_model
from pairlearn.privacy import NoisySGD, PublicSetting, check_mechanism, compose
from pairlearn.privacy.audit.exact import check_entry
from pairlearn.privacy.audit.mechanism import MechanismEntry
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table
from pairlearn.privacy.mechanisms.noisy_sgd import Meetings, linear_pair_sum
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.persons import OneRowEach, rows_that_meet
from pairlearn.reference import clipped_pair_sum


def of_a_metric(loss="logistic", **options):
    return NoisySGD(loss=METRIC_LOSSES.make(loss), **options)


def make_setting(n=24, d=2, epsilon=1.0, neighbours="replace", delta=1e-3):
    return PublicSetting.make(
        n, lower=[-1] * d, upper=[1] * d, epsilon=epsilon, delta=delta, neighbours=neighbours
    )


def cells_of(cuts):
    return [range(a, b) for a, b in itertools.pairwise(cuts)]


# ------------------------------------------------------------------------------- who meets whom


@given(n=st.integers(1, 200), n_batches=st.integers(1, 9), n_partners=st.integers(1, 40))
@settings(max_examples=200)
def test_an_example_is_in_one_batch_and_in_few_pairs(n, n_batches, n_partners):
    plan = Meetings(3, n_batches, n_partners)
    batches = plan.batches(n)
    assert len(batches) == n_batches
    places = [k for cuts in batches for k in range(cuts[0], cuts[-1])]
    assert places == list(range(n))
    meets = np.zeros(n, dtype=int)
    for cuts, n_pairs in zip(batches, plan.n_pairs(n), strict=True):
        pairs = [pair for cell in cells_of(cuts) for pair in itertools.combinations(cell, 2)]
        assert max(1, len(pairs)) == n_pairs
        np.add.at(meets, np.array(pairs, dtype=int).reshape(-1), 1)
    assert meets.max() <= plan.touches(n) <= n_partners
    assert meets.max() == plan.touches(n) or plan.touches(n) == 1


# ------------------------------------------------------------------------------------ the kernels


class Steep(PairLoss):
    """Slopes that grow beyond all bounds, of both signs, and are not finite in places."""

    @scalar
    def value(score, y, y_partner, _):  # noqa: N805
        return score * score * score

    @scalar
    def derivative(score, y, y_partner, _):  # noqa: N805
        return 1e200 * score if score < 0.5 else math.inf


@pytest.mark.parametrize("loss", [*LOSSES, Welsch(0.7), Epanechnikov(2.0)])
@pytest.mark.parametrize("clip", [0.05, 1.0, 1e9])
def test_the_kernel_is_the_reference(loss, clip):
    loss = LOSSES.make(loss) if isinstance(loss, str) else loss
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(23, 4))
    labels = rng.choice([-1.0, 1.0, np.nan], 23, p=[0.5, 0.3, 0.2])
    if loss.kind == "difference":
        labels = labels + rng.normal(size=23)
    w = rng.normal(size=4)
    cuts = Meetings(1, 1, 6).batches(23)[0]
    order = rng.permutation(23)
    found = linear_pair_sum(Z, labels, loss=loss, clip=clip)(order, cuts, w)
    cells = [order[list(cell)] for cell in cells_of(cuts)]
    wanted = clipped_pair_sum(loss, Z, labels, cells=cells, w=w, clip=clip)
    assert np.linalg.norm(wanted) > 0
    assert np.allclose(found, wanted, atol=1e-12 * (1 + np.abs(wanted).max()), rtol=0)


@pytest.mark.parametrize("loss", list(METRIC_LOSSES))
def test_the_kernel_of_metrics_is_the_reference(loss):
    rng = np.random.default_rng(1)
    Z, labels = rng.normal(size=(17, 3)), rng.choice([0.0, 1.0, 2.0, np.nan], 17)
    released = []

    class Silent(NoiseSource):
        def permutation(self, n):
            return np.arange(n)

        def protect_integers(self, values, scale):
            released.append(values / scale)
            return values

    mechanism = NoisySGD(
        n_passes=1, n_partners=5, loss=METRIC_LOSSES.make(loss), different_weight=0.4, clip=0.3
    )
    fit = mechanism.fit(Z, labels, setting=make_setting(17, 3), noise=Silent(seed=0))
    chosen = METRIC_LOSSES.make(loss)
    cells = cells_of(Meetings(1, 1, 5).batches(17)[0])
    start = (chosen.parameter or 1.0) / 6 * np.eye(3)
    wanted = clipped_pair_sum(
        chosen, Z, labels, cells=cells, w=start, clip=0.9, different_weight=0.4
    )
    upper = wanted[np.triu_indices(3)]
    upper *= np.where(np.eye(3)[np.triu_indices(3)] == 1, 1, math.sqrt(2))
    assert np.linalg.norm(upper) > 0
    found = released[0] * fit.releases[0].noise_scale
    assert np.allclose(found, upper, atol=1e-5 * np.abs(upper).max(), rtol=0)


def test_a_slope_that_is_not_finite_counts_nothing():
    Z = np.array([[0.0], [1.0], [-3.0]])
    labels = np.array([-1.0, 1.0, 1.0])
    pair_sum = linear_pair_sum(Z, labels, loss=Steep(), clip=2.0)
    # Scores are 1, whose slope is infinite, and -3, whose slope is clipped.
    total = pair_sum(np.arange(3), np.array([0, 3]), np.array([1.0]))
    assert total == pytest.approx([2.0])


# -------------------------------------------------------------------------------- the sensitivity


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_touching_lemma_over_all_neighbours(neighbours):
    """Brute force: every place, every new value and label of a small grid."""
    plan, n, clip = Meetings(1, 2, 2), 6, 0.7
    corners, signs = [-1.0, 0.0, 1.0], [-1.0, 1.0]
    setting = make_setting(n, 1, neighbours=neighbours)
    bound, largest = plan.sensitivity(clip, setting), 0.0
    rng = np.random.default_rng(0)
    for _ in range(40):
        Z, labels = rng.choice(corners, (n, 1)), rng.choice(signs, n)
        w, order = rng.normal(size=1), rng.permutation(n)
        loss = LOSSES.make(rng.choice(["logistic", "hinge", "square", "exponential"]))

        def sums(rows, labels, w=w, order=order, loss=loss):
            pair_sum = linear_pair_sum(*rows_that_meet(rows, labels, n)[:2], loss=loss, clip=clip)
            batches = plan.batches(n)
            return [pair_sum(order[c[0] : c[-1]], c - c[0], w) for c in batches]

        mine = sums(Z, labels)
        for place in range(n):
            if neighbours == "add_remove":
                # The free place is the one that the removed example had.
                others = [(Z[place], np.nan)]
            else:
                others = [(np.array([x]), s) for x in corners for s in signs]
            for row, label in others:
                other, other_labels = Z.copy(), labels.copy()
                other[place], other_labels[place] = row, label
                apart = [
                    float(np.linalg.norm(a - b))
                    for a, b in zip(mine, sums(other, other_labels), strict=True)
                ]
                assert sum(distance > 0 for distance in apart) <= 1
                assert max(apart) <= bound
                largest = max(largest, *apart)
    assert largest >= bound * (1 - 1e-8)


@given(
    seed=st.integers(0, 2**32),
    n_batches=st.sampled_from([1, 3]),
    n_partners=st.sampled_from([1, 2, 30]),
    metric=st.booleans(),
    missing=st.integers(0, 3),
)
@settings(max_examples=80, deadline=None)
def test_every_pass_keeps_its_sensitivity(
    release_distances, seed, n_batches, n_partners, metric, missing
):
    rng = np.random.default_rng(seed)
    n, d = 13, 2
    for neighbours in ("replace", "add_remove"):
        n_rows = n - missing if neighbours == "add_remove" else n
        setting = make_setting(n, d, neighbours=neighbours)
        Z = 3 * rng.choice([-1.0, -0.2, 1.0], (n_rows, d))
        labels = rng.choice([-1.0, 1.0], n_rows)
        place = int(rng.integers(n_rows))
        other, other_labels = Z.copy(), labels.copy()
        other[place], other_labels[place] = -Z[place], rng.choice([-1.0, 1.0])
        if neighbours == "add_remove":
            other, other_labels = np.delete(Z, place, axis=0), np.delete(labels, place)
        kind = of_a_metric if metric else NoisySGD
        distances = release_distances(
            kind(n_passes=3, n_batches=n_batches, n_partners=n_partners, clip=0.3),
            PublicNeighbours("", Table(Z, labels), Table(other, other_labels), place=place),
            setting=setting,
            noise=NoiseSource(seed=seed),
        )
        assert len(distances) == 3
        assert all(distance <= bound * (1 + 1e-9) for distance, bound in distances)
        assert compose(bound for _, bound in distances) <= setting.mu


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("n_batches", [1, 3])
def test_the_lemma_is_tight_in_every_pass(release_distances, neighbours, n_batches):
    setting = make_setting(24, neighbours=neighbours)
    pair = MechanismEntry(NoisySGD(), setting).pairs()[0]
    mechanism = NoisySGD(n_passes=4, n_batches=n_batches, n_partners=7, clip=0.1, step=0.01)
    for distance, bound in release_distances(
        mechanism, pair, setting=setting, noise=NoiseSource(seed=0)
    ):
        assert bound * (1 - 1e-5) <= distance <= bound


@pytest.mark.parametrize(
    "mechanism",
    [NoisySGD(), NoisySGD(n_batches=3, n_partners=2, loss="hinge"), NoisySGD(radius=0.5),
     NoisySGD(loss=Steep(), n_passes=2), of_a_metric(n_partners=3, loss="hinge")],
)  # fmt: skip
def test_check_mechanism(mechanism):
    assert check_mechanism(mechanism) > 0.6


# -------------------------------------------------------------------------------------- learning


def clouds(n=2000, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    X = rng.normal(size=(n, d))
    X[:, :2] += 1.2 * y[:, None]
    return X, y


@pytest.mark.parametrize("loss", ["logistic", "hinge", "square", "exponential"])
@pytest.mark.parametrize("n_batches", [1, 4])
def test_learns_with_any_loss(loss, n_batches):
    X, y = clouds()
    mechanism = NoisySGD(loss=loss, n_batches=n_batches)
    model = PrivateAUCClassifier(2.0, 1e-5, bounds=(-4, 5), mechanism=mechanism).fit(X, y)
    # The best linear score has an AUC of 0.885.
    assert roc_auc(y, model.decision_function(X)) > 0.82
    found = model.certificate_
    assert [release.dimension for release in found.releases] == [5 * n_batches] * 8
    assert found.mu <= PublicSetting.make(2000, lower=[0], upper=[1], epsilon=2.0, delta=1e-5).mu


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_rounding_is_counted_by_the_largest_batch(neighbours):
    # Lemma 22: a sum of m vectors of length C, in any order and in two runs, is exact up to
    # 2 m^2 C 2^-52. With a million rows in three batches it is not small.
    setting = make_setting(1_000_001, neighbours=neighbours)
    plan = Meetings(n_passes=1, n_batches=3, n_partners=9)
    sizes = [333_333, 333_334, 333_334]
    cells = [np.diff(np.arange(-(-m // 10) + 1) * m // -(-m // 10)) for m in sizes]
    pairs = [int((c * (c - 1)).sum()) // 2 for c in cells]
    assert pairs == plan.n_pairs(1_000_001)
    moved = 2.0 if neighbours == "replace" else 1.0
    expected = 0.5 * (moved * 9 * (1.0 + 1e-9) + 2.0 * max(pairs) ** 2 * 2.0**-52)
    assert plan.sensitivity(0.5, setting) == pytest.approx(expected, rel=1e-12)
    assert max(pairs) > min(pairs)


def test_metrics_by_both_mechanisms(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 2000)
    X = rng.normal(size=(2000, 4))
    X[:, 0] = 2.0 * (y - 1) + 0.3 * X[:, 0]
    for mechanism in (None, of_a_metric(n_passes=2, n_batches=2, loss="hinge")):
        model = PrivateMetricLearner(
            8.0, bounds=(-4, 4), labels=(0, 1, 2), mechanism=mechanism
        ).fit(X, y)
        W = model.get_mahalanobis_matrix()
        assert np.linalg.eigvalsh(W)[0] > -1e-12
        assert W[0, 0] > 1.5 * W.diagonal()[1:].max()
        model.save(tmp_path / "metric.safetensors")
        again = load_model(tmp_path / "metric.safetensors")
        assert np.array_equal(again.components_, model.components_)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("kind", [NoisySGD, lambda: of_a_metric()])
def test_one_class_and_few_examples_run_through(kind, n):
    for label in (1.0, np.nan):
        fit = kind().fit(
            np.zeros((n, 2)), np.full(n, label), setting=make_setting(n),
            noise=NoiseSource(seed=0),
        )  # fmt: skip
        assert np.isfinite(fit.direction).all()


# --------------------------------------------------------------------------------------- persons


def test_a_row_of_each_person_is_drawn():
    users = np.array([2, 0, 1, 0, 2, 2])
    persons, noise = OneRowEach(users), NoiseSource(seed=0)
    counts = np.zeros((6, 7))
    for _ in range(3000):
        order = noise.permutation(5)
        rows = persons.drawn(order, noise)
        # the rows are those of the persons in their places; persons 3 and 4 are not there
        assert [users[row] if row < 6 else -1 for row in rows] == [
            k if k < 3 else -1 for k in order
        ]
        counts[rows[rows < 6], rows[rows < 6]] += 1
    # A person is drawn 3,000 times. The largest of six deviations is beyond 6 with probability
    # below 1e-8.
    share = np.array([1 / 3, 1 / 2, 1.0, 1 / 2, 1 / 3, 1 / 3])
    found = counts.diagonal()[:6]
    sd = np.sqrt(3000 * share * (1.0 - share))
    assert (np.abs(found - 3000 * share) <= 6.0 * sd).all()


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("options", [{}, {"n_batches": 3, "n_partners": 2, "loss": "hinge"}])
def test_a_person_with_any_number_of_rows_changes_no_more_than_a_row(neighbours, options):
    model = PrivateAUCClassifier(
        1.0, 1e-3, bounds=(-1.0, 1.0), neighbours=neighbours, n_examples=12,
        mechanism=NoisySGD(n_passes=3, step=0.01, **options),
    )  # fmt: skip
    found = check_entry(FitEntry(model, n=12, n_features=2, persons=True))
    assert found.findings == []
    # with one batch the bound of the lemma is met
    assert found.share > (0.99 if not options else 0.5)
    single = check_entry(FitEntry(model, n=12, n_features=2))
    assert found.share == pytest.approx(single.share, rel=0.3)


def test_persons_count_alike_and_the_certificate_says_so():
    # Half of the persons have nine rows each that say the opposite of the others' one row.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1200)
    rows = np.where(np.arange(1200) < 400, 9, 1)
    turned = np.where(np.arange(1200) < 400, -1.0, 1.0)
    person = np.repeat(np.arange(1200), rows)
    X = (turned * (2.0 * y - 1.0))[person, None] + 0.5 * rng.normal(size=(len(person), 1))
    model = PrivateAUCClassifier(8.0, 1e-5, bounds=(-3, 3), mechanism="noisy_sgd")
    alike = model.fit(X, y[person], groups=person)
    assert alike.certificate_.unit == "person"
    assert alike.certificate_.n_examples == 1200
    # 800 persons against 400, but 800 rows against 3,600
    assert alike.coef_.ravel()[0] > 0.0
    assert model.fit(X, y[person]).coef_.ravel()[0] < 0.0


def test_refusals():
    X, y = clouds(30)
    with pytest.raises(ValueError, match="n_batches=20 batches of 30 examples"):
        PrivateAUCClassifier(bounds=(-4, 5), mechanism=NoisySGD(n_batches=20)).fit(X, y)
    with pytest.raises(ValueError, match="n_batches=2 batches of 3 examples"):
        PrivateAUCClassifier(bounds=(-4, 5), mechanism=NoisySGD(n_batches=2)).fit(X[:3], y[:3])
    for loss in ("hinge_no_bias", 3.0):
        with pytest.raises(ValueError, match="loss must be"):
            NoisySGD(loss=loss)
    for loss in (Welsch(), METRIC_LOSSES.make("logistic")):
        with pytest.raises(ValueError, match="a mechanism that learns a score is needed"):
            PrivateAUCClassifier(bounds=(-4, 5), mechanism=NoisySGD(loss=loss)).fit(X, y)
    for mechanism in (NoisySGD(), "noisy_sgd"):
        with pytest.raises(ValueError, match="loss of a squared distance"):
            PrivateMetricLearner(bounds=(-4, 5), mechanism=mechanism).fit(X, y)
    for name in ("n_passes", "n_batches", "n_partners"):
        with pytest.raises(ValueError, match=name):
            NoisySGD(**{name: 0})
    for name in ("clip", "step", "noise_limit", "radius"):
        with pytest.raises(ValueError, match=name):
            NoisySGD(**{name: 0.0})
