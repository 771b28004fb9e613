# SPDX-License-Identifier: BSD-3-Clause
"""Private learning over partitions: who is trusted, and noise that a repeated task repeats."""

import copy
import itertools
import math
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
    TableForm,
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
    known = options | {"n_examples": n or len(table[1])}
    alone = [
        train_private_auc(
            engine(*table), PrivateAUCClassifier(2.0, **known), trust="none", key_file=key_file,
            reach=reach,
        )
        for reach in (1, 2)
    ]  # fmt: skip
    assert alone[0].certificate_.releases[0].name == "counts in bins, look 1"
    # Partitions add more noise together, so a feature may keep its bounds.
    assert (np.diff(alone[0].bounds_, axis=0) < 4900).any()
    counts = [model.certificate_.releases[0] for model in alone]
    assert counts[1].noise_scale > 1.4 * counts[0].noise_scale
    assert counts[1].mu == pytest.approx(counts[0].mu, rel=1e-5)


def test_without_trust_each_partition_adds_its_own_noise_once(table, key_file):
    run = engine(*table)
    model = PrivateAUCClassifier(1.0, bounds=(-4, 6))
    found = train_private_auc(run, model, trust="none", key_file=key_file, reach=1)
    assert (found.predict(table[0]) == table[1]).mean() > 0.85
    certificate = found.certificate_
    assert certificate.private
    assert certificate.public["trust"].startswith("nobody: each of the partitions (5)")
    assert "secret key of the workers" in certificate.generator
    central = train_private_auc(run, PrivateAUCClassifier(1.0, bounds=(-4, 6))).certificate_
    assert certificate.mu == pytest.approx(central.mu, rel=1e-12)
    assert "at most 1 of them" in certificate.public["partitions"]


def fitted_alone(run, key_file, **options):
    model = PrivateAUCClassifier(1.0, bounds=(-4, 6), **options)
    return train_private_auc(run, model, trust="none", key_file=key_file, reach=1)


def test_one_key_serves_several_fits(table, key_file, monkeypatch):
    # Two fits of the same examples share no noise, or a third party would see what has changed.
    run = engine(*table)
    first, second = (fitted_alone(run, key_file) for _ in range(2))
    assert (first.coef_ != second.coef_).all()
    numbers = {model.certificate_.public["fit"] for model in (first, second)}
    assert len(numbers) == 2
    # What the test above would not see if fits had no number of their own.
    monkeypatch.setattr("pairlearn.distributed.private_auc.secrets.token_bytes", bytes)
    third, fourth = (fitted_alone(run, key_file) for _ in range(2))
    np.testing.assert_array_equal(third.coef_, fourth.coef_)
    key_file.write_bytes(bytes(range(1, 41)))
    assert (fitted_alone(run, key_file).coef_ != third.coef_).all()


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
        noise_of(sums_of(PartitionNoise(key=bytes(32), nonce=b"2"))[1], plain),
    ):
        assert (other != first).all()
    # Doubles cannot tell these two numbers apart.
    far, next_to_it = (noise_of(asked.of_part(2**60 + k), plain) for k in range(2))
    assert (far != next_to_it).all()
    many = np.concatenate([noise_of(asked.of_part(k), plain) for k in range(120)])
    assert many.std() == pytest.approx(1 << 20, rel=0.08)
    assert abs(many.mean()) < 4 * (1 << 20) / np.sqrt(len(many))


# ------------------------------------------------------------------- what one example can move


def cut_after_sorting(records, n_parts):
    """Sort by the key in the last column, and cut by count."""
    return np.array_split(records[np.argsort(records[:, -1], kind="stable")], n_parts)


def cut_by_bytes(records, n_parts):
    """Cut by bytes; the last column is the length of a record, from 10 to 20 bytes."""
    starts = np.cumsum(records[:, -1]) - records[:, -1]
    blocks = np.minimum(starts // 90, n_parts - 1)
    return [records[blocks == k] for k in range(n_parts)]


def cut_by_count(records, n_parts):
    """Cut by row number; one row more or less moves all later ones."""
    return [records[11 * k : 11 * (k + 1) if k < n_parts - 1 else None] for k in range(n_parts)]


def loudest(cut, before, after, n_parts, model, reach, unit="example"):
    """Return the distance of two neighbours over mu: one noisy transcript, played to both.

    The answers of the first are given; the second says what it would have answered without noise.
    The distance is that of all answers of all partitions, in units of their noise.
    """
    moved = 0.0

    def answers(statistic, records):
        return [
            statistic.of_part(k).partial_state(
                part[:, :2], part[:, 2], **({} if unit == "example" else {"groups": part[:, 3]})
            )
            for k, part in enumerate(cut(records, n_parts))
        ]

    def run(statistic):
        nonlocal moved
        if isinstance(statistic, PrivateSums):
            bare = copy.copy(statistic)
            bare.noise = None
            pairs = zip(answers(bare, before), answers(bare, after), strict=True)
            gaps = [a["total"] - b["total"] for a, b in pairs]
            moved += sum(float(gap @ gap) for gap in gaps) / statistic.scale**2
        return statistic.merge_all(answers(statistic, before))

    fitted = train_private_auc(run, model, trust="none", reach=reach, unit=unit)
    return math.sqrt(moved) / fitted.certificate_.mu


def extreme_rows(n, key):
    """Return rows at two opposite corners, taking turns, with the given key."""
    sign = np.where(np.arange(n) % 2, 1.0, -1.0)
    return np.column_stack([sign, sign, np.ones(n), key])


def searched(cut, n_parts, neighbours, reach, key, moves):
    """Return the largest distance over mu that one example makes, over a few positions."""
    rows = extreme_rows(11 * n_parts, key(11 * n_parts))
    worst = 0.0
    for place, other in moves(len(rows)):
        after = rows.copy()
        if neighbours == "replace":
            after[place, -1] = other
            after[place, :2] *= -1
        else:
            after = np.delete(after, place, axis=0)
        model = PrivateAUCClassifier(
            4.0, 1e-3, bounds=(-1, 1), neighbours=neighbours, n_examples=len(rows), random_state=1
        )
        worst = max(worst, loudest(cut, rows, after, n_parts, model, reach))
    return worst


SORTED = (cut_after_sorting, lambda n: np.arange(n, dtype=float),
          lambda n: [(0, n), (n - 1, -1), (n // 2, n)])  # fmt: skip
BYTES = (cut_by_bytes, lambda n: np.full(n, 10.0),
         lambda n: [(k, length) for k in (0, n // 2) for length in (11, 20)])  # fmt: skip
COUNTED = (cut_by_count, lambda n: np.zeros(n), lambda n: [(0, 0), (1, 0)])


@SIMULATED
@pytest.mark.parametrize("n_parts", [2, 7])
@pytest.mark.parametrize(
    ("how", "neighbours"),
    [(SORTED, "replace"), (SORTED, "add_remove"), (BYTES, "replace"), (COUNTED, "add_remove")],
)
def test_an_example_that_moves_others_is_paid_for(how, neighbours, n_parts):
    cut, key, moves = how
    assert searched(cut, n_parts, neighbours, "all", key, moves) <= 1.0


@SIMULATED
@pytest.mark.parametrize("how", [SORTED, BYTES])
def test_the_search_finds_an_example_that_is_not_paid_for(how):
    # A false word about the partitions: the distance grows as their number does.
    cut, key, moves = how
    few, many = (searched(cut, n, "replace", 1, key, moves) for n in (4, 9))
    assert 1.5 < few < many
    assert few > 0.75 * math.sqrt(4)
    assert many > 0.75 * math.sqrt(9)


@SIMULATED
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_a_person_of_several_partitions(neighbours):
    # One person has rows in three of five partitions; whoever comes instead has opposite ones.
    def cut(records, n_parts):
        halves = np.array_split(records, n_parts)
        return [half[half[:, -1] != "gone"] for half in halves]

    rows = extreme_rows(50, 0.0 * np.arange(50)).astype(object)
    rows[:, -1] = [f"person {k}" for k in range(50)]
    theirs = [0, 1, 12, 13, 24]
    rows[theirs, :2], rows[theirs, -1] = 1.0, "ann"
    after = rows.copy()
    after[theirs, :2], after[theirs, -1] = -1.0, "bob" if neighbours == "replace" else "gone"
    found = {
        reach: loudest(
            cut, rows, after, 5,
            PrivateAUCClassifier(4.0, 1e-3, bounds=(-1, 1), neighbours=neighbours, n_examples=50,
                                 random_state=1),
            reach, "person",
        )
        for reach in (3, "all")
    }  # fmt: skip
    assert found["all"] < found[3] <= 1.0
    if neighbours == "replace":
        # It would be more if the other had rows in other partitions; see the next test.
        assert found[3] > 0.85


@SIMULATED
@pytest.mark.parametrize("n_parts", [2, 3, 4, 6])
def test_a_person_who_is_replaced_by_one_of_other_partitions(n_parts):
    # Whoever comes has rows in two partitions as well, of which some or none are those of before.
    def cut(records, n_parts):
        return [records[records[:, 4] == k] for k in range(n_parts)]

    def table(name, places):
        rows = [(1.0, 1.0, 1.0, f"person {k}", k % n_parts) for k in range(40)]
        rows += [(1.0, 1.0, 1.0, name, k) for k in places]
        return np.array(rows, dtype=object)

    worst = 0.0
    # How far they are apart depends on the noise of the first answers, which say where to look.
    for places, seed in itertools.product(itertools.combinations(range(n_parts), 2), range(3)):
        model = PrivateAUCClassifier(4.0, 1e-3, bounds=(-1, 1), n_examples=41, random_state=seed)
        before, after = table("ann", (0, 1)), table("bob", places)
        worst = max(worst, loudest(cut, before, after, n_parts, model, 2, "person"))
    assert worst <= 1.0
    if n_parts == 4:
        assert worst > 0.8


# ------------------------------------------------------------------------------------- persons


def by_person(X, y, groups, cuts):
    """Return an engine over partitions of rows that have persons."""
    parts = list(zip(*(np.split(one, cuts) for one in (X, y, groups)), strict=True))

    def run(statistic):
        return statistic.merge_all(
            statistic.of_part(k).partial_state(*part[:2], groups=part[2])
            for k, part in enumerate(parts)
        )

    return run


@SIMULATED
@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_persons_in_one_partition_each_give_the_model_of_one_memory(table, neighbours):
    X, y = table
    groups = np.array([f"p{k}" for k in np.sort(np.random.default_rng(0).integers(0, 400, 2000))])
    cuts = [int(np.flatnonzero(groups == groups[k])[0]) for k in (500, 501, 1200)]
    options = {"bounds": (-4, 6), "neighbours": neighbours, "random_state": 3}
    options["n_examples"] = None if neighbours == "replace" else 500
    expected = PrivateAUCClassifier(1.0, **options).fit(X, y, groups=groups)
    found = train_private_auc(
        by_person(X, y, groups, cuts),
        PrivateAUCClassifier(1.0, **options),
        unit="person",
        reach=1,
    )
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    certificate = found.certificate_
    assert (certificate.n_examples, certificate.unit) == (
        expected.certificate_.n_examples, expected.certificate_.unit
    )  # fmt: skip
    assert "with all examples" in certificate.statement()
    assert "ids of persons" in certificate.public["trust"]


def test_a_fit_pays_for_what_it_protects(table):
    ledger = PrivacyLedger(epsilon=4.0, delta=1e-3, unit="person")
    model = PrivateAUCClassifier(1.0, bounds=(-4, 6), ledger=ledger)
    train_private_auc(
        by_person(*table, np.arange(2000) // 4, [1000]), model, unit="person", reach=1
    )
    assert [entry.purpose for entry in ledger.entries] == [
        "fit of statistics over partitions, persons = 500"
    ]
    with pytest.raises(ValueError, match="person"):
        train_private_auc(engine(*table), PrivateAUCClassifier(bounds=(-4, 6), ledger=ledger))


@SIMULATED
def test_a_person_of_several_partitions_counts_in_the_first(table):
    X, y = table
    groups = np.arange(2000) % 300
    first = np.arange(2000) < 1000
    # All 300 persons are in the first partition, so the second adds nothing, and nobody.
    options = {"bounds": (-4, 6), "random_state": 3}
    found = train_private_auc(
        by_person(X, y, groups, [1000]),
        PrivateAUCClassifier(1.0, **options),
        unit="person",
        reach=1,
    )
    expected = PrivateAUCClassifier(1.0, **options).fit(X[first], y[first], groups=groups[first])
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    # No error and no count tells whether there is such a person.
    assert found.certificate_.n_examples == 300
    assert "those in the first one" in found.certificate_.public["rows of a person"]


def of_persons(statistic, parts):
    """Return the number of persons and their sum over partitions, as a trusted aggregator does."""
    form = TableForm(unit="person", compared=True)
    found = form.finish(
        form.merge_all(
            form.of_part(k).partial_state(X, groups=ids) for k, (X, _, ids) in enumerate(parts)
        )
    )
    statistic.away = found.away
    states = (
        statistic.of_part(k).partial_state(X, y, groups=ids) for k, (X, y, ids) in enumerate(parts)
    )
    return found.n_units, statistic.finish(statistic.merge_all(states)).total


@settings(max_examples=25, deadline=None)
@given(
    X=records, y=labels, ids=npst.arrays(np.int64, 12, elements=st.integers(1, 4)),
    cut=st.integers(0, 12), first=records, second=records, label=labels, sizes=st.tuples(
        *[st.integers(0, 4)] * 4), place=st.integers(0, 12),
)  # fmt: skip
def test_one_person_changes_the_sums_by_no_more_than_the_sensitivity(
    X, y, ids, cut, first, second, label, sizes, place
):
    # Two partitions; a person has any number of rows in each, and so has whoever comes instead.
    def parts(person, rows, here, there):
        found = []
        for half, own in (
            (slice(0, cut), rows[:here]),
            (slice(cut, 12), rows[here : here + there]),
        ):
            at = min(place, len(X[half]))
            names = [f"p{k}" for k in ids[half]]
            names[at:at] = [person] * len(own)
            found.append((
                np.insert(X[half], [at] * len(own), own, axis=0),
                np.insert(y[half], [at] * len(own), label[: len(own)]), names,
            ))  # fmt: skip
        return found

    one = parts("ann", first, sizes[0] + 1, sizes[1])
    other = parts("bob", second, sizes[2], sizes[3] + 1)
    for neighbours, neighbour in (("replace", other), ("add_remove", parts("", first, 0, 0))):
        grid, statistic = sums_of(neighbours=neighbours, unit="person")
        n, before = of_persons(statistic, one)
        n2, after = of_persons(statistic, neighbour)
        assert n - n2 == (neighbours == "add_remove")
        assert np.linalg.norm(grid.step * (before - after)) <= grid.sensitivity


def test_a_partition_answers_once_and_says_nothing_of_its_rows(table):
    X, y = table
    noisy = sums_of(PartitionNoise(key=bytes(32)))[1]
    state = noisy.of_part(3).partial_state(X[:5, :2], y[:5])
    with pytest.raises(ValueError, match="partition 3 has answered more than once in a pass"):
        noisy.merge(state, state)
    sums = sums_of(unit="person")[1]
    with pytest.raises(ValueError, match="partial_state takes groups"):
        sums.partial_state(X[:5, :2], y[:5])
    with pytest.raises(ValueError, match="got groups with unit='example'"):
        sums_of()[1].partial_state(X[:5, :2], y[:5], groups=np.arange(5))
    secret = [[0.5, "a secret"], [0.25]]
    for odd in (secret, np.array(7.0), "a secret", {"a": secret}):
        with pytest.raises(TypeError, match="must be an array, a sparse matrix") as refused:
            TableForm().partial_state(odd)
        assert "secret" not in str(refused.value)
    # Where the width is public and rows are not counted, nothing is looked at.
    state = TableForm(False, n_features=2).partial_state(secret)
    assert (int(state["n"][0]), int(state["d"])) == (0, 2)


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
        train_private_auc(run, PrivateAUCClassifier(**public), trust="none", reach=1)
    with pytest.raises(ValueError, match="cannot read key_file"):
        train_private_auc(
            run, PrivateAUCClassifier(**public), trust="none", key_file=tmp_path / "no", reach=1
        )
    (tmp_path / "short").write_bytes(b"secret")
    with pytest.raises(ValueError, match="has 6 bytes, at least 32"):
        train_private_auc(
            run, PrivateAUCClassifier(**public), trust="none", key_file=tmp_path / "short", reach=1
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
    with pytest.raises(ValueError, match="secure must be True or False, got 'no'"):
        train_private_auc(run, PrivateAUCClassifier(**public, secure="no"))
    alone = {"trust": "none", "key_file": tmp_path / "short"}
    for more, words in (
        ({}, r"needs reach, the number of partitions in which one example .* blocks of bytes"),
        ({"reach": "some"}, "a whole number of at least 1 or \"all\", got 'some'"),
        ({"reach": 0}, "reach must be"),
        ({"reach": "all"}, "with reach='all' the numbers of examples in partitions are secret"),
        ({"reach": 2, "unit": "person"}, "n_examples, the public number of all persons"),
    ):
        with pytest.raises(ValueError, match=words):
            train_private_auc(run, PrivateAUCClassifier(**public), **alone, **more)
    with pytest.raises(ValueError, match=r'reach is for trust="none"'):
        train_private_auc(run, PrivateAUCClassifier(**public), reach=1)
    with pytest.raises(ValueError, match="unit must be one of 'example', 'person', got 'user'"):
        train_private_auc(run, PrivateAUCClassifier(**public), unit="user")
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
    alone = DaskPrivateAUCClassifier(private, trust="none", reach=1).fit(X, y)
    cluster = DaskPrivateAUCClassifier(private, trust="none", reach=1, client=client).fit(X, y)
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


@SIMULATED
def test_persons_and_odd_cells_on_a_cluster(table, client):
    dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(table[0], columns=["a", "b", "c"]).astype({"b": object})
    # One cell that is no number makes a column one of objects; it concerns its own row only.
    X.loc[7, "b"] = "a secret"
    groups = pd.Series([f"p{k // 4}" for k in range(2000)])
    private = PrivateAUCClassifier(1.0, bounds=(-4, 6), random_state=3)
    expected = PrivateAUCClassifier(1.0, bounds=(-4, 6), random_state=3)
    expected.fit(X, table[1], groups=groups)
    collections = [dd.from_pandas(one, npartitions=4) for one in (X, pd.Series(table[1]), groups)]
    with pytest.raises(ValueError, match="reach=1, your word"):
        DaskPrivateAUCClassifier(private, client=client).fit(
            *collections[:2], groups=collections[2]
        )
    clf = DaskPrivateAUCClassifier(private, reach=1, client=client)
    clf.fit(*collections[:2], groups=collections[2])
    np.testing.assert_array_equal(clf.coef_, expected.coef_)
    assert clf.certificate_.n_examples == 500
    alone = DaskPrivateAUCClassifier(private, trust="none", reach=1, client=client)
    alone.fit(*collections[:2], groups=collections[2])
    assert "at most 1 of them" in alone.certificate_.public["partitions"]
    assert alone.certificate_.n_examples == 500


IDS = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([2**60, 2**60 + 1, 7, None]))


@settings(max_examples=20, deadline=None)
@given(ids=st.lists(IDS, min_size=4, max_size=12), n_parts=st.integers(1, 4), data=st.data())
def test_persons_with_several_ids_are_those_of_one_memory(ids, n_parts, data):
    dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
    pd = pytest.importorskip("pandas")
    import dask
    import dask.array as da

    from pairlearn.distributed.dask.parts import parts_of, taken_apart
    from pairlearn.distributed.dask.passes import DaskEngine
    from pairlearn.privacy.records import person_keys, read_persons

    frame = pd.DataFrame({"x": np.arange(len(ids)), "y": 1})
    frame["site"] = pd.array([site for site, _ in ids], dtype="string")
    frame["patient"] = pd.array([patient for _, patient in ids], dtype="Int64")
    table = dd.from_pandas(frame, npartitions=n_parts)
    apart = dd.from_pandas(frame[["site", "patient"]], npartitions=n_parts)
    cells = np.empty((len(ids), 2), dtype=object)
    cells[:] = ids
    sizes = tuple(len(part.compute()) for part in table.partitions)
    blocks = da.from_array(cells, chunks=(sizes, 1))
    rows = da.from_array(frame[["x"]].to_numpy(), chunks=(sizes, 1))
    collections = [
        parts_of(table[["x"]], table["y"], cells=True, groups=table[["site", "patient"]]),
        parts_of(table[["x"]], table["y"], cells=True, groups=apart),
        parts_of(rows, None, cells=True, groups=blocks),
    ]
    parts = data.draw(st.sampled_from(collections))
    form = TableForm(unit="person", compared=True)
    found = form.finish(DaskEngine().run(parts, form))
    assert found.n_units == read_persons(ids, len(ids)).max() + 1
    keys = []
    for one in dask.compute(parts.values)[0]:
        groups = taken_apart(one, parts.layout)[2]["groups"]
        keys += person_keys(groups, len(groups))
    assert keys == person_keys(ids, len(ids))


@SIMULATED
def test_a_missing_id_on_a_cluster_changes_no_other(table, client):
    dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(table[0], columns=["a", "b", "c"])
    # NumPy has no missing integers: as floats these would be one person.
    groups = pd.DataFrame({"site": 1, "patient": pd.array(2**60 + np.arange(2000), dtype="Int64")})
    groups.loc[3, "patient"] = pd.NA
    labels = pd.Series(table[1])
    private = PrivateAUCClassifier(1.0, bounds=(-4, 6), random_state=3)
    for ids in (groups, groups["patient"]):
        collections = [dd.from_pandas(one, npartitions=4) for one in (X, labels, ids)]
        clf = DaskPrivateAUCClassifier(private, reach=1, client=client)
        clf.fit(*collections[:2], groups=collections[2])
        assert clf.certificate_.n_examples == 2000
    with pytest.raises(ValueError, match="groups has no column"):
        clf.fit(*collections[:2], groups=dd.from_pandas(groups[[]], npartitions=4))
