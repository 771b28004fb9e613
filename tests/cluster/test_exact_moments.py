# SPDX-License-Identifier: BSD-3-Clause
"""`Moments` on a cluster: the bits of one machine for any partitions, and rows that go back."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn import AUCClassifier, Hats, Moments
from pairlearn.cluster import OnDask, fit_on, forget_on
from pairlearn.content import row_hashes
from pairlearn.estimators.shared.judged_maps import deal_held_out
from pairlearn.folds import seed_of
from pairlearn.metrics import roc_auc
from pairlearn.solvers.rows import as_rows
from pairlearn.solvers.streams.sample import SIZE, drawn_from

RNG = np.random.default_rng(4)
N = 6400
X = RNG.normal(size=(N, 3)) * [1.0, 10.0, 1e3] + [0.0, 50.0, 0.0]
Y = np.where(X[:, 0] + 0.05 * X[:, 1] + RNG.normal(size=N) > 2.5, "yes", "no")
WEIGHT = RNG.integers(1, 4, N) * 1.0
RANGES = ((-5, 0, -5e3), (5, 100, 5e3))
GIVEN = Moments(0.01, ranges=RANGES, keep_state=True)
CHOSEN = Moments(ranges=RANGES, keep_state=True)


def engine(k, rows=slice(None), weight=None, make=np.asarray):
    """Return an engine of k shuffled partitions, which answer in any order."""
    index = np.random.default_rng(k).permutation(np.arange(N)[rows])
    parts = np.array_split(index, k)

    def run(statistic):
        states = []
        for number, part in enumerate(parts):
            own = None if weight is None else weight[part]
            one = statistic.partial_state(make(X[part]), Y[part], own)
            states.insert(number % 3, one)
        return statistic.merge_all(states)

    return run


def bits(found):
    return found.coef_.tobytes()


@pytest.mark.parametrize("solver", [GIVEN, CHOSEN], ids=["given", "chosen"])
@pytest.mark.parametrize(
    "weight",
    [None, pytest.param(WEIGHT, marks=pytest.mark.thorough)],
    ids=["plain", "weighted"],
)
def test_any_partitions_give_the_bits_of_one_machine(solver, weight):
    memory = AUCClassifier(solver=solver, random_state=0).fit(X, Y, weight)
    for k, make in ((1, np.asarray), (7, scipy.sparse.csr_array), (50, np.asarray)):
        model = fit_on(
            engine(k, weight=weight, make=make), AUCClassifier(solver=solver, random_state=0)
        )
        assert bits(model) == bits(memory)
        assert model.ridge_ == memory.ridge_
        assert model.solver_ == "moments"
        assert model.solver == solver
        assert model.cluster_report_.n_passes == 2
        if weight is None:
            report = model.cluster_report_
            assert abs(report.training_auc - memory.score(X, Y)) <= report.auc_half_width


@pytest.mark.parametrize("solver", [Moments(0.01), Moments()], ids=["given", "chosen"])
def test_without_ranges_the_model_is_the_same_too(solver):
    # Tables that are in the sample as a whole are judged by place, in memory.
    memory = AUCClassifier(solver=solver, random_state=0).fit(X, Y)
    assert max(np.unique(Y, return_counts=True)[1]) > SIZE
    for k in (1, 7, 50):
        model = fit_on(engine(k), AUCClassifier(solver=solver, random_state=0))
        if solver.ridge != "auto":
            np.testing.assert_allclose(model.coef_, memory.coef_, rtol=1e-6)
        # A ridge may be another one, chosen on other folds.
        assert model.score(X, Y) == pytest.approx(memory.score(X, Y), abs=1e-3)
        assert model.cluster_report_.n_passes == 3


def test_a_ridge_is_judged_by_models_of_all_examples_but_a_fold():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9000, 12))
    labels = (rows @ rng.normal(size=12) + 4.0 * rng.normal(size=9000) > 2.0).astype(int)
    repeated = rng.uniform(0.5, 2.0, 9000)
    rows[8000:], labels[8000:] = rows[:1000], labels[:1000]

    def run(statistic):
        halves = (slice(None, 5000), slice(5000, None))
        return statistic.merge_all(
            statistic.partial_state(rows[own], labels[own], repeated[own]) for own in halves
        )

    model = fit_on(run, AUCClassifier(solver=Moments(), random_state=0))
    signs = np.where(labels > 0, 1.0, -1.0)
    sample = drawn_from(as_rows(rows), signs, repeated, seed_of(np.random.default_rng(0)))
    # The rarer class has about 2,900 examples: five folds have a fifth of it each.
    share = sample.weight[sample.y > 0].sum() / repeated[labels > 0].sum()
    n_held = int(np.ceil(share / 0.2))
    assert n_held == 5
    fold, _ = deal_held_out(sample.y, sample.weight, 0.2, sample.keys, n_folds=n_held)
    hashes = row_hashes(rows)
    worth = []
    for ridge in (1.0, 0.1, 0.01, 1e-3, 1e-4):
        aucs = []
        for k in range(n_held):
            own = fold == k
            # All copies of an example are in its fold.
            trained = ~np.isin(hashes, row_hashes(sample.X[own]))
            one = AUCClassifier(solver=Moments(ridge)).fit(
                rows[trained], labels[trained], repeated[trained]
            )
            scores = sample.X[own] @ one.coef_[0]
            aucs.append(roc_auc(sample.y[own] > 0, scores, sample_weight=sample.weight[own]))
        worth.append(np.mean(aucs))
    assert model.ridge_ == (1.0, 0.1, 0.01, 1e-3, 1e-4)[int(np.argmax(worth))]
    assert model.held_out_auc_ == pytest.approx(max(worth), abs=1e-9)


@pytest.mark.parametrize("solver", [GIVEN, Moments(0.01, keep_state=True)], ids=["ranges", "none"])
def test_rows_in_partitions_are_forgotten(solver):
    gone, left = slice(0, 900), slice(900, None)
    memory = AUCClassifier(solver=solver).fit(X, Y).partial_unfit(X[gone], Y[gone])
    model = forget_on(engine(4, gone), fit_on(engine(7), AUCClassifier(solver=solver)))
    assert bits(model) == bits(memory)
    assert model.n_examples_ == N - 900
    assert model.forgetting_certificate_ == memory.forgetting_certificate_
    if solver is GIVEN:
        assert bits(model) == bits(AUCClassifier(solver=solver).fit(X[left], Y[left]))
    again = bits(model)
    with pytest.raises(ValueError, match="not all among those"):
        forget_on(engine(2, slice(0, 4000)), forget_on(engine(2, slice(900, 4000)), model))
    assert bits(model) != again  # the rows that were there are gone, and no others
    assert model.n_examples_ == N - 4000


def test_weights_of_zero_that_no_row_had_are_refused():
    solver, weight = Moments(0.01, keep_state=True), np.ones(N)
    weight[:40] = 0.0
    model = fit_on(engine(7), AUCClassifier(solver=solver))
    for gone in (slice(0, 30), slice(0, 90)):
        with pytest.raises(ValueError, match="learned without sample_weight"):
            forget_on(engine(3, gone, weight=weight), model)
    weighed = fit_on(engine(7, weight=weight), AUCClassifier(solver=solver))
    assert forget_on(engine(3, slice(0, 90), weight=weight), weighed).n_examples_ == N - 90


@pytest.mark.parametrize("class_weight", [None, {"no": 1.0, "yes": 3.0}, "balanced"], ids=str)
@pytest.mark.parametrize("weight", [None, WEIGHT / 8 + 0.3], ids=["none", "fractions"])
def test_a_model_of_one_memory_forgets_on_a_cluster_with_its_own_weights(class_weight, weight):
    gone, solver = slice(0, 900), Moments(0.01, keep_state=True)
    own = None if weight is None else weight[gone]
    model, memory = (
        AUCClassifier(solver=solver, class_weight=class_weight).fit(X, Y, weight) for _ in range(2)
    )
    memory.partial_unfit(X[gone], Y[gone], own)
    model = forget_on(engine(4, gone, weight=weight), model)
    assert bits(model) == bits(memory)
    assert model.forgetting_certificate_ == memory.forgetting_certificate_


def test_mapped_features_forget_on_a_cluster():
    features = Hats(n_knots=4).fit(X)
    solver = Moments(0.01, keep_state=True)
    model = fit_on(engine(5), AUCClassifier(features=features, solver=solver))
    memory = AUCClassifier(features=features, solver=solver).fit(X, Y)
    assert bits(model) == bits(memory)
    memory.partial_unfit(X[:300], Y[:300])
    assert bits(forget_on(engine(3, slice(0, 300)), model)) == bits(memory)


def test_what_cannot_be_is_refused():
    model = fit_on(engine(2), AUCClassifier(solver=Moments(0.01, ranges=RANGES)))
    with pytest.raises(ValueError, match="they were not kept"):
        forget_on(engine(2, slice(0, 10)), model)
    stream = AUCClassifier(solver=GIVEN).partial_fit(X, Y, classes=["no", "yes"])
    with pytest.raises(ValueError, match="needs the rows themselves"):
        forget_on(engine(2, slice(0, 10)), stream)
    with pytest.raises(ValueError, match=r"memory=500\.0 is for a stream"):
        fit_on(engine(2), AUCClassifier(solver=Moments(memory=500.0)))
    with pytest.raises(ValueError, match="ranges are those of linear features"):
        fit_on(engine(2), AUCClassifier(solver=GIVEN, features="hats"))
    with pytest.raises(ValueError, match="give whole weights"):
        fit_on(engine(2, weight=WEIGHT / 2), AUCClassifier(solver=GIVEN))
    with pytest.raises(ValueError, match="ranges are of 3 features, X has 2"):
        fit_on(engine(2, make=lambda rows: rows[:, :2]), AUCClassifier(solver=GIVEN))
    for features in ("linear", "hats"):
        with pytest.raises(ValueError, match="max_memory=100 bytes"):
            fit_on(engine(2), AUCClassifier(solver=Moments(max_memory=100.0), features=features))
    with pytest.warns(UserWarning, match="give narrower ranges"):
        fit_on(engine(2), AUCClassifier(solver=Moments(0.01, ranges=(-1e30, 1e30))))
    with pytest.raises(ValueError, match="trains the square loss"):
        fit_on(engine(2), AUCClassifier(solver=GIVEN, loss="squared_hinge"))
    kept = fit_on(engine(2), AUCClassifier(solver=GIVEN))
    with pytest.raises(ValueError, match="which is not in classes"):
        forget_on(lambda statistic: statistic.partial_state(X[:2], ["no", "maybe"]), kept)


@pytest.mark.parametrize("n_parts", [1, 7, 50])
def test_dask_trains_and_forgets_with_the_same_bits(n_parts):
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    order = np.random.default_rng(n_parts).permutation(N)
    chunks = -(-N // n_parts)
    rows, labels = da.from_array(X[order], chunks=(chunks, 3)), da.from_array(Y[order], chunks)
    model = fit_on(OnDask(rows, labels), AUCClassifier(solver=GIVEN))
    assert bits(model) == bits(AUCClassifier(solver=GIVEN).fit(X, Y))
    forget_on(OnDask(rows[: 2 * chunks // 3], labels[: 2 * chunks // 3]), model)
    left = order[2 * chunks // 3 :]
    assert bits(model) == bits(AUCClassifier(solver=GIVEN).fit(X[left], Y[left]))
    model.partial_unfit(X[left[:20]], Y[left[:20]])
    assert model.forgetting_certificate_.n_rows == 20
    assert bits(model) == bits(AUCClassifier(solver=GIVEN).fit(X[left[20:]], Y[left[20:]]))
