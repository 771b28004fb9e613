# SPDX-License-Identifier: BSD-3-Clause
"""A stream that is released again and again, for one price."""

import copy
import math
import pickle

import numpy as np
import pytest

from pairlearn import (
    PrivacyLedger,
    PrivateAUCClassifier,
    PrivateAUCContinual,
)
from pairlearn.metrics import roc_auc
from pairlearn.models import load_model
from pairlearn.privacy.accounting.certificate import accounting_problems
from pairlearn.privacy.accounting.gaussian import epsilon_of_mu, mu_of
from pairlearn.privacy.audit.attack import audit_statistics
from pairlearn.privacy.audit.public import _projected
from pairlearn.privacy.audit.tape import recorded, replayed
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.tree import TreeStatistics
from pairlearn.privacy.noise import NoiseSource

pytestmark = pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")

OPTIONS = {"epsilon": 1.0, "delta": 1e-3, "bounds": (-1.0, 1.0)}


def clouds(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return np.clip(0.3 * rng.normal(size=(n, 3)) + 0.3 * np.outer(y, [1, -1, 0]), -1, 1), y


class Silent(NoiseSource):
    def protect_integers(self, values, scale):
        return values


def test_nodes_add_up_to_everything_so_far():
    setting = PublicSetting.make(39, lower=[-3], upper=[3], epsilon=1.0, delta=1e-3)
    tree, leaves = TreeStatistics(n_releases=39), []
    state, step = tree.begin(setting), tree.grid(setting).step
    for t in range(1, 40):
        tree.learn(state, np.array([[t / 20]]), np.ones(1), setting=setting)
        leaves.append(state.leaf)
        tree.release(state, setting=setting, noise=Silent(seed=0))
        level, total, _ = state.nodes[-1]
        # The node is that of the last 2^level leaves.
        assert (total == sum(leaves[-(2**level) :])).all()
        assert np.allclose(sum(noisy for *_, noisy in state.nodes), step * sum(leaves))
        assert len(state.nodes) == t.bit_count()
        assert not state.leaf.any()


def released(chunks, setting, noise, tree):
    state = tree.begin(setting)
    fits = []
    for Z, signs in chunks:
        tree.learn(state, Z, signs, setting=setting)
        fits.append(tree.release(state, setting=setting, noise=noise))
    return fits


def test_one_record_moves_all_nodes_together_by_no_more_than_is_stated():
    rng = np.random.default_rng(1)
    setting = PublicSetting.make(60, lower=[-3, -3], upper=[3, 3], epsilon=1.0, delta=1e-3)
    reached = 0.0
    for n_releases in (1, 3, 4, 7):
        tree = TreeStatistics(n_releases=n_releases)
        assert tree.n_levels == math.floor(math.log2(n_releases)) + 1
        for trial in range(12):
            chunks = [
                (rng.uniform(-3, 3, (5, 2)), rng.choice([-1.0, 1.0], 5)) for _ in range(n_releases)
            ]
            place = int(rng.integers(n_releases))
            Z, signs = (part.copy() for part in chunks[place])
            other = list(chunks)
            if trial % 2:
                # The worst: a far corner to the opposite one.
                chunks[place][0][2], Z[2] = [3.0, 3.0], [-3.0, -3.0]
            else:
                Z[2], signs[2] = rng.uniform(-9, 9, 2), -signs[2]
            other[place] = (Z, signs)
            noise = NoiseSource(seed=trial)
            with recorded() as record:
                fits = released(chunks, setting, noise, tree)
            with replayed(record.outputs) as replay:
                again = released(other, setting, noise, tree)
            # Everything published is a function of the noisy nodes.
            for mine, theirs in zip(fits, again, strict=True):
                np.testing.assert_array_equal(mine.direction, theirs.direction)
                assert mine.threshold == theirs.threshold
            moved = [
                float(np.linalg.norm(a - b)) / scale
                for a, b, scale in zip(record.values, replay.values, record.scales, strict=True)
            ]
            node_mu = fits[0].releases[0].mu
            assert max(moved) <= node_mu * (1 + 1e-9)
            assert sum(m > 0 for m in moved) <= tree.n_levels
            total = math.hypot(*moved)
            assert total <= fits[0].mu * (1 + 1e-9)
            assert fits[0].mu <= setting.mu
            # The first of the last interval of a full tree is in a node of each level.
            reached = max(reached, total / fits[0].mu)
    assert reached > 0.99


def test_a_ledger_that_comes_after_the_first_release_is_refused():
    """It would say that nothing was released."""
    X, y = clouds(600)
    ledger, other = (PrivacyLedger(epsilon=1.0, delta=1e-5) for _ in range(2))
    for first in (None, ledger):
        model = PrivateAUCContinual(600, 4, 1.0, 1e-5, bounds=(-1, 1), ledger=first)
        model.partial_fit(X[:300], y[:300]).release()
        with pytest.raises(ValueError, match="this ledger did not record it"):
            model.set_params(ledger=other).release()
        assert not other.entries
        model.set_params(ledger=None).partial_fit(X[300:], y[300:]).release()
    model.set_params(ledger=ledger).release()
    assert len(ledger.entries) == 1


def test_all_releases_have_one_certificate_and_one_price(tmp_path):
    X, y = clouds(6000)
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    model = PrivateAUCContinual(6000, 12, 1.0, 1e-5, bounds=(-1, 1), ledger=ledger)
    aucs = []
    for start in range(0, 6000, 500):
        model.partial_fit(X[start : start + 500], y[start : start + 500]).release()
        aucs.append(roc_auc(y, model.decision_function(X)))
    assert len(ledger.entries) == 1
    assert ledger.spent_epsilon == pytest.approx(1.0, abs=1e-6)
    certificate = model.certificate_
    assert accounting_problems(certificate) == []
    assert certificate.mu == pytest.approx(mu_of(1.0, 1e-5), rel=1e-9)
    assert [release.dimension for release in certificate.releases] == [
        14 * nodes for nodes in (12, 6, 3, 1)
    ]
    assert "up to 12; their times" in certificate.statement()
    best = roc_auc(y, X @ [1, -1, 0])
    assert aucs[-1] > best - 0.02
    assert model.predict_proba(X[:5]).shape == (5, 2)
    with pytest.raises(ValueError, match="all n_releases=12 releases of the budget have been made"):
        model.release()
    model.save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert type(again) is PrivateAUCContinual
    np.testing.assert_array_equal(again.decision_function(X[:9]), model.decision_function(X[:9]))


def test_a_fork_of_a_running_stream_is_refused(in_a_child):
    """A copy was refused, and a forked process, which holds one, released the rows once more."""
    X, y = clouds(60)
    model = PrivateAUCContinual(60, 4, **OPTIONS)
    model.partial_fit(X[:30], y[:30])

    def refused(action):
        try:
            action()
        except RuntimeError as error:
            return "begun in another process" in str(error)
        return False

    def attempt():
        actions = [model.release, lambda: model.partial_fit(X[30:], y[30:])]
        known = all(map(refused, actions))
        # What begins anew holds no row of the parent.
        return 0 if known and hasattr(model.fit(X, y), "coef_") else 2

    assert in_a_child(attempt) == 0
    model.partial_fit(X[30:], y[30:]).release()


def test_what_would_break_the_promise_is_refused():
    X, y = clouds(60)
    model = PrivateAUCContinual(60, 4, **OPTIONS)
    with pytest.raises(ValueError, match="nothing to release"):
        model.release()
    model.partial_fit(X[:30], y[:30])
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="sums without noise"):
            copied(model)
    with pytest.raises(ValueError, match="nothing has been released"):
        model.to_record()
    with pytest.raises(ValueError, match="more rows than the public number 60"):
        model.partial_fit(X[:31], y[:31])
    model.n_releases = 400
    with pytest.raises(ValueError, match="n_releases changed after the stream had begun"):
        model.release()
    model.n_releases, model.bounds = 4, (-2.0, 2.0)
    with pytest.raises(ValueError, match="bounds changed"):
        model.partial_fit(X[:1], y[:1])
    model.bounds = OPTIONS["bounds"]
    with pytest.raises(ValueError, match="began with 3"):
        model.partial_fit(X[:1, :2], y[:1])
    with pytest.raises(ValueError, match="a stream sees each example once"):
        PrivateAUCContinual(60, 4, bounds="private").partial_fit(X, y)
    with pytest.raises(ValueError, match="needs rows_per_person"):
        PrivateAUCContinual(60, 4, **OPTIONS).fit(X, y, groups=y)
    persons = PrivateAUCContinual(60, 4, **OPTIONS, rows_per_person=3)
    with pytest.raises(ValueError, match="rows_per_person=3 needs groups"):
        persons.fit(X, y)
    persons.partial_fit(X[:9], y[:9], groups=np.arange(9))
    persons.rows_per_person = 2
    with pytest.raises(ValueError, match="rows_per_person changed after the stream had begun"):
        persons.partial_fit(X[:9], y[:9], groups=np.arange(9))
    setting = PublicSetting.make(
        9, lower=[0], upper=[1], epsilon=1, delta=0.01, neighbours="add_remove"
    )
    with pytest.raises(ValueError, match="between two releases is public here"):
        TreeStatistics().check(setting)


def chunked(model, X, y, who, cuts):
    """Return the releases of a stream with a release at each cut."""
    coefs = []
    for start, stop in zip([0, *cuts[:-1]], cuts, strict=True):
        model.partial_fit(X[start:stop], y[start:stop], groups=who[start:stop]).release()
        coefs.append(model.coef_.copy())
    return coefs


def test_a_person_moves_all_nodes_together_by_no_more_than_is_stated():
    # A person, whose rows lie anywhere in the stream, is replaced by another in the same places.
    rng = np.random.default_rng(3)
    reached = 0.0
    for trial in range(30):
        k, n_releases = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        n = 8 * n_releases
        who = (
            rng.integers(0, 6, n) if trial % 3 else np.where(np.arange(n) < k, 0, 1 + np.arange(n))
        )
        X, y = rng.choice([-1.0, 1.0], (n, 2)), rng.integers(0, 2, n)
        other, other_y, other_who = X.copy(), y.copy(), who.astype(object)
        mine = who == who[0]
        X[mine], y[mine] = 1.0, 1
        other[mine], other_y[mine], other_who[mine] = -1.0, rng.integers(0, 2), "somebody else"
        if trial % 3 == 0:
            other_y[mine] = y[mine]
        claim = {**OPTIONS, "rows_per_person": k}
        cuts = list(range(8, n + 1, 8))
        model = PrivateAUCContinual(n, n_releases, **claim, random_state=trial)
        with recorded() as record:
            first = chunked(model, X, y, who, cuts)
        again = PrivateAUCContinual(n, n_releases, **claim, random_state=trial)
        with replayed(record.outputs) as replay:
            second = chunked(again, other, other_y, other_who, cuts)
        np.testing.assert_array_equal(first, second)
        moved = math.hypot(*(
            float(np.linalg.norm(a - b)) / scale
            for a, b, scale in zip(record.values, replay.values, record.scales, strict=True)
        ))  # fmt: skip
        certificate = model.certificate_
        assert moved <= certificate.mu * (1 + 1e-9)
        assert certificate.mu <= mu_of(1.0, 1e-3)
        reached = max(reached, moved / certificate.mu)
    assert reached > 0.99


def test_a_chunk_that_is_interrupted_and_comes_again_counts_no_person_twice(monkeypatch):
    X, y = clouds(60)
    model = PrivateAUCContinual(60, 1, 1.0, 1e-3, bounds=(-1, 1), rows_per_person=1)
    learner, learned = TreeStatistics, []
    learn = learner.learn

    def learn_then_stop(self, state, rows, *rest, **options):
        learn(self, state, rows, *rest, **options)
        learned.append(len(rows))
        raise KeyboardInterrupt

    monkeypatch.setattr(learner, "learn", learn_then_stop)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, y, groups=np.arange(60) // 2)
    monkeypatch.setattr(
        learner, "learn", lambda self, state, rows, *rest, **options: learned.append(len(rows))
    )
    model.partial_fit(X, y, groups=np.arange(60) // 2)
    assert learned == [30, 0]


@pytest.mark.parametrize("when", [1, 2, 3, 4])
def test_a_release_that_is_interrupted_and_made_again_is_of_all_examples(monkeypatch, when):
    X, y = clouds(80)

    def models(interrupted):
        ledger = PrivacyLedger(epsilon=9.0, delta=1e-2)
        model = PrivateAUCContinual(80, 4, **OPTIONS, random_state=0, ledger=ledger)
        scores = []
        for number, k in enumerate(range(0, 80, 20), start=1):
            model.partial_fit(X[k : k + 20], y[k : k + 20])
            if number == interrupted:
                with monkeypatch.context() as patched:
                    patched.setattr(NoiseSource, "protect_integers", interrupt)
                    with pytest.raises(KeyboardInterrupt):
                        model.release()
            scores.append(model.release().coef_)
        assert len(ledger.entries) == 1
        return np.array(scores)

    def interrupt(self, values, scale):
        raise KeyboardInterrupt

    np.testing.assert_array_equal(models(when), models(None))


def test_persons_of_a_stream(tmp_path):
    X, y = clouds(3000)
    who = np.arange(3000) // 3
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5, unit="person")
    model = PrivateAUCContinual(3000, 2, 2.0, 1e-5, bounds=(-1, 1), ledger=ledger,
                                rows_per_person=3)  # fmt: skip
    chunked(model, X, y, [f"person {k}" for k in who], [1500, 3000])
    (entry,) = ledger.entries
    assert entry.unit == "person"
    assert ledger.spent_epsilon == pytest.approx(2.0, abs=1e-6)
    certificate = model.certificate_
    assert accounting_problems(certificate) == []
    assert (certificate.unit, certificate.rows_per_person) == ("person", 3)
    statement = certificate.statement()
    assert "one person with all examples replaced, in place, by another with as many" in statement
    assert "at most 3000 examples, of which the first 3 of each person count" in statement
    assert roc_auc(y, model.decision_function(X)) > 0.8
    model.save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert again.certificate_ == certificate
    assert again.rows_per_person == 3
    with pytest.raises(ValueError, match="the ledger counts persons"):
        PrivateAUCContinual(60, 1, 0.1, 1e-6, bounds=(-1, 1), ledger=ledger).fit(X[:60], y[:60])


def test_the_first_rows_of_a_person_count():
    # A third row is left out, in this chunk or in a later one; a refused chunk leaves no trace.
    X, y = clouds(40)
    who = np.repeat(np.arange(20), 2)
    usual, late = (
        PrivateAUCContinual(40, 1, **OPTIONS, rows_per_person=2, random_state=1) for _ in range(2)
    )
    usual.fit(X, y, groups=who)
    with pytest.raises(ValueError, match="more rows than the public number 40"):
        late.partial_fit(np.zeros((50, 3)), np.zeros(50), groups=np.arange(50))
    late.partial_fit(X[:20], y[:20], groups=who[:20])
    late.partial_fit(np.ones((10, 3)), np.ones(10), groups=np.arange(10))
    late.partial_fit(np.r_[X[20:], X[20:]], np.r_[y[20:], 1 - y[20:]],
                     groups=np.r_[who[20:], who[20:]])  # fmt: skip
    np.testing.assert_array_equal(late.release().coef_, usual.coef_)


def test_rows_per_person_may_change_until_the_stream_begins():
    model = PrivateAUCContinual(40, 1, rows_per_person=5)
    with pytest.raises(ValueError, match="bounds must be"):
        model.partial_fit(np.ones((8, 1)), np.ones(8), groups=["ann"] * 8)
    model.set_params(bounds=(-1.0, 1.0), rows_per_person=1)
    model.partial_fit(np.ones((8, 1)), np.ones(8), groups=["ann"] * 8)
    assert model._stream.tree.n_seen == 1
    model.set_params(rows_per_person=2)
    with pytest.raises(ValueError, match="rows_per_person changed after the stream had begun"):
        model.partial_fit(np.ones((8, 1)), np.ones(8), groups=["bob"] * 8)
    single = PrivateAUCContinual(40, 1, **OPTIONS).partial_fit(np.ones((8, 1)), np.ones(8))
    with pytest.raises(ValueError, match="changed after the stream had begun"):
        single.set_params(rows_per_person=2).partial_fit([[1.0]], [1], groups=["bob"])


def test_seeds_and_cuts():
    X, y = clouds(200)
    fits = []
    for cut in (50, 90):
        model = PrivateAUCContinual(200, 2, **OPTIONS, random_state=3)
        model.partial_fit(X[:cut], y[:cut]).partial_fit(X[cut:100], y[cut:100]).release()
        first = model.coef_.copy()
        model.partial_fit(X[100:], y[100:]).release()
        fits.append((first, model.coef_))
    # How an interval was cut does not matter, and two nodes do not share their noise.
    np.testing.assert_array_equal(fits[0], fits[1])
    empty = PrivateAUCContinual(200, 2, **OPTIONS).partial_fit(X[:0], y[:0]).release()
    assert np.isfinite(empty.coef_).all()
    fresh = PrivateAUCContinual(200, 2, **OPTIONS).fit(X, y)
    assert fresh.coef_.shape == (1, 3)


@pytest.mark.slow
@pytest.mark.parametrize("mine", [[2], [0, 1]])
def test_the_published_models_together_stay_below_the_claim(mine):
    # False-alarm rate 1e-4; a tree that forgot its levels would have about twice the epsilon, and
    # so would one that forgot that a person has two rows.
    X, y = np.zeros((8, 2)), np.zeros(8, dtype=int)
    X[mine], y[mine] = 1.0, 1
    other = X.copy()
    other[mine] = -1.0
    who = np.arange(8)
    who[mine] = mine[0]
    persons = {} if len(mine) == 1 else {"rows_per_person": 2}
    probes = np.linspace([-1, -1], [1, 1], 3)
    tables = []
    for rows in (X, other):
        runs = []
        for _ in range(1000):
            model = PrivateAUCContinual(8, 4, **OPTIONS, **persons)
            seen = []
            for start in range(0, 8, 2):
                part = slice(start, start + 2)
                groups = who[part] if persons else None
                model.partial_fit(rows[part], y[part], groups=groups).release()
                seen += [model.coef_[0], model.log_odds_, model.decision_function(probes)]
            runs.append(np.concatenate(seen))
        tables.append(np.array(runs))
    found = audit_statistics(*_projected(tables), epsilon=1.0, delta=1e-3, confidence=1 - 1e-4)
    assert found.epsilon_lower <= 1.0


def test_one_tree_beats_many_fits_of_a_share_each():
    X, y = clouds(3200, seed=5)
    n_releases, tree, fits = 32, [], []
    model = PrivateAUCContinual(3200, n_releases, 1.0, 1e-5, bounds=(-1, 1), random_state=0)
    for start in range(0, 3200, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100]).release()
        tree.append(roc_auc(y, model.decision_function(X)))
    each = epsilon_of_mu(mu_of(1.0, 1e-5) / math.sqrt(n_releases), 1e-5)
    for seed, stop in enumerate(range(100, 3201, 100)):
        share = PrivateAUCClassifier(each, 1e-5, bounds=(-1, 1), random_state=seed)
        fits.append(roc_auc(y, share.fit(X[:stop], y[:stop]).decision_function(X)))
    assert np.mean(tree) > np.mean(fits)
