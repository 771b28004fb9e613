# SPDX-License-Identifier: BSD-3-Clause
"""Private networks: gradients of pairs against a second formulation, sensitivity, audit, files."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from sklearn.base import clone

from pairlearn import PrivacyLedger, load_model, roc_auc
from pairlearn.estimators.private.entries import FitEntry
from pairlearn.losses import Logistic, PairLoss, Square, Welsch, scalar
from pairlearn.models import ModelFileError
from pairlearn.privacy import NoiseSource, PublicSetting
from pairlearn.privacy.audit.exact import check_entry
from pairlearn.privacy.audit.mechanism import MechanismEntry
from pairlearn.privacy.audit.neighbours import PublicNeighbours, Table
from pairlearn.privacy.mechanisms.noisy_sgd import Meetings
from pairlearn.torch import MLP, NoisyNetworkSGD, PrivateNeuralAUCClassifier, private
from pairlearn.torch.networks import make_network

SMALL = {"network": MLP((3,)), "n_passes": 3, "n_batches": 2, "n_partners": 3}
OPTIONS = {"epsilon": 1.0, "delta": 1e-3, "bounds": (-1.0, 1.0)}
SIZE = {"n": 16, "n_features": 2}


def make_setting(n=16, neighbours="replace", epsilon=1.0):
    return PublicSetting.make(
        n, lower=[-1, -1], upper=[1, 1], epsilon=epsilon, delta=1e-3, neighbours=neighbours
    )


def product(n=2500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


# ---------------------------------------------------------------------------------- the gradients


def sum_by_backward(network, Z, labels, cells, loss, clip):
    """The sum of clipped pair gradients, one pair and one backward pass after the other."""
    total = 0.0
    for i, j in (pair for cell in cells for pair in itertools.combinations(cell, 2)):
        i, j = (i, j) if labels[i] >= labels[j] else (j, i)
        if not labels[i] > labels[j]:
            continue
        network.zero_grad()
        rows = torch.from_numpy(Z[[i, j]])
        margin = network(rows[:1]) - network(rows[1:])
        margin.sum().backward()
        found = np.concatenate([p.grad.numpy().ravel() for p in network.parameters()])
        found *= float(loss.slopes(np.array([margin.item()]))[0])
        total = total + found * min(1.0, clip / max(np.linalg.norm(found), 1e-300))
    return total


@pytest.mark.parametrize(
    ("slope", "apart", "clip"),
    [(1e308, [1.0, 0.0], 2.0), (-1.7e308, [0.5, 0.5], 4.0), (1e300, [1e-200, 0.0], 1.0),
     (1e250, [1e-170, 1e-170], 1.0), (0.5, [3.0, 4.0], 9.0)],
)  # fmt: skip
def test_no_gradient_is_longer_than_allowed(slope, apart, clip):
    pairs = private._PairGradients(make_network(MLP((3,)), 2, 1).double())
    found = pairs._clipped(
        torch.tensor([apart], dtype=torch.float64), torch.tensor([slope], dtype=torch.float64), clip
    )
    assert np.linalg.norm(found.numpy()) <= clip * (1.0 + 1e-9)
    if slope == 0.5:
        assert found.tolist() == [1.5, 2.0]


@pytest.mark.parametrize("clip", [0.05, 1.0, 1e9])
@pytest.mark.parametrize("loss", [Logistic(), Square()])
def test_gradients_are_those_of_pairs(clip, loss, monkeypatch):
    rng = np.random.default_rng(0)
    Z, labels = rng.normal(size=(23, 4)), rng.choice([-1.0, 1.0, np.nan], 23)
    network = make_network(MLP((5,)), 4, 1).double()
    pairs = private._PairGradients(network)
    cuts, order = Meetings(1, 1, 6).batches(23)[0], rng.permutation(23)
    found = pairs.pair_sum(Z, labels, loss, clip)(order, cuts, pairs.start)
    cells = [order[a:b].tolist() for a, b in itertools.pairwise(cuts)]
    wanted = sum_by_backward(network, Z, labels, cells, loss, clip)
    assert np.linalg.norm(wanted) > 0
    assert np.allclose(found, wanted, atol=1e-11 * (1 + np.abs(wanted).max()), rtol=0)
    # In small pieces they are the same.
    monkeypatch.setattr(private, "_NUMBERS", 1)
    again = pairs.pair_sum(Z, labels, loss, clip)(order, cuts, pairs.start)
    assert np.allclose(found, again, atol=1e-12 * (1 + np.abs(wanted).max()), rtol=0)


class Steep(PairLoss):
    """Slopes without any bound, some of them not finite."""

    @scalar
    def value(score, y, y_partner, _):  # noqa: N805
        return score * score

    @scalar
    def derivative(score, y, y_partner, _):  # noqa: N805
        return 1e300 * score


def test_what_is_not_finite_counts_nothing():
    Z, labels = np.array([[1e160, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([-1.0, 1.0, -1.0])
    network = torch.nn.Sequential(torch.nn.Linear(2, 1)).double()
    pairs = private._PairGradients(network)
    total = pairs.pair_sum(Z, labels, Steep(), 2.0)(np.arange(3), np.array([0, 3]), pairs.start)
    assert np.isfinite(total).all()
    assert 0.0 < np.linalg.norm(total) <= 4.0 * (1 + 1e-12)


# -------------------------------------------------------------------------------- the sensitivity


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("seed", range(6))
def test_every_pass_keeps_its_sensitivity(release_distances, neighbours, seed):
    rng = np.random.default_rng(seed)
    setting = make_setting(neighbours=neighbours)
    Z, signs = 3 * rng.choice([-1.0, 0.3, 1.0], (16, 2)), rng.choice([-1.0, 1.0], 16)
    other, other_signs, place = Z.copy(), signs.copy(), int(rng.integers(16))
    other[place], other_signs[place] = -Z[place], rng.choice([-1.0, 1.0])
    if neighbours == "add_remove":
        other, other_signs = np.delete(Z, place, axis=0), np.delete(signs, place)
    distances = release_distances(
        NoisyNetworkSGD(**SMALL, loss=Steep() if seed == 5 else "logistic"),
        PublicNeighbours("", Table(Z, signs), Table(other, other_signs), place=place),
        setting=setting,
        noise=NoiseSource(seed=seed),
    )
    assert len(distances) == 3
    assert all(distance <= bound * (1 + 1e-9) for distance, bound in distances)


def test_the_bound_is_nearly_attained(release_distances):
    pair = MechanismEntry(NoisyNetworkSGD(), make_setting()).pairs()[0]
    linear = NoisyNetworkSGD(**{**SMALL, "network": MLP(())}, clip=0.1, noise_limit=1e-3)
    for distance, bound in release_distances(
        linear, pair, setting=make_setting(), noise=NoiseSource(seed=0)
    ):
        assert bound * (1 - 1e-4) <= distance <= bound


class NetworkEntry(FitEntry):
    """`fit` of a private network."""


def entry(**options):
    made = PrivateNeuralAUCClassifier(**OPTIONS, mechanism=NoisyNetworkSGD(**SMALL), **options)
    return NetworkEntry(made, **SIZE)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.thorough
def test_the_exact_check_finds_nothing(relation):
    found = check_entry(entry(neighbours=relation, n_examples=16))
    assert found.findings == []
    assert found.share > 0.5


MUTANTS = {
    "a pair that is not clipped": (
        lambda patch: patch.setattr(
            private._PairGradients, "_clipped",
            lambda self, apart, slopes, clip: slopes @ apart * 10,
        ),
        "times its sensitivity",
    ),
    "the mean is clipped": (
        lambda patch: patch.setattr(
            private._PairGradients, "_clipped",
            lambda self, apart, slopes, clip: (lambda g: g * min(
                1.0, clip * len(slopes) / max(float(g.norm()), 1e-300)))(slopes @ apart),
        ),
        "times its sensitivity",
    ),
    "one pair is not counted": (
        lambda patch: patch.setattr(Meetings, "touches", lambda self, n: 2),
        "times its sensitivity",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(MUTANTS))
@pytest.mark.thorough
def test_mutants_are_refuted(name, monkeypatch):
    sabotage, words = MUTANTS[name]
    sabotage(monkeypatch)
    findings = check_entry(entry()).findings
    assert any(words in finding for finding in findings), findings


# -------------------------------------------------------------------------------------- learning


def test_persons_with_several_rows():
    X, y = product(60)
    person = np.repeat(np.arange(60), 3)
    made = PrivateNeuralAUCClassifier(**OPTIONS, mechanism=NoisyNetworkSGD(**SMALL))
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-2, unit="person")
    found = made.set_params(ledger=ledger).fit(X[person], y[person], groups=person).certificate_
    assert (found.unit, found.n_examples) == ("person", 60)


def test_learns_what_no_line_can():
    X, y = product()
    model = PrivateNeuralAUCClassifier(8.0, bounds=(-1, 1)).fit(X, y)
    assert roc_auc(y, model.decision_function(X)) > 0.8
    found = model.certificate_
    assert found.mechanism == "noisy_network_sgd"
    assert len(found.releases) == NoisyNetworkSGD().n_passes
    assert found.epsilon_at(found.delta) <= 8.0 * (1 + 1e-9)
    assert not hasattr(model, "predict")


def test_goes_through_the_file_and_copies(tmp_path):
    X, y = product(60)
    state = torch.random.get_rng_state()
    model = PrivateNeuralAUCClassifier(**OPTIONS, mechanism=NoisyNetworkSGD(**SMALL)).fit(X, y)
    model.save(tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    assert torch.equal(state, torch.random.get_rng_state())
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert again.certificate_ == model.certificate_
    assert again.mechanism == model.mechanism
    copy = clone(model).set_params(mechanism__network__hidden=(4,))
    assert copy.mechanism.network == MLP((4,))
    own = NoisyNetworkSGD(**{**SMALL, "network": torch.nn.Linear(2, 1)})
    fitted = PrivateNeuralAUCClassifier(**OPTIONS, mechanism=own).fit(X, y)
    assert np.isfinite(fitted.decision_function(X)).all()
    with pytest.raises(ModelFileError):
        fitted.save(tmp_path / "own.safetensors")


def test_seeds_bounds_and_odd_cells():
    X, y = product(50)
    rows = X.tolist()
    rows[3] = ["n/a", None]
    options = {**OPTIONS, "mechanism": NoisyNetworkSGD(**SMALL), "random_state": 1}
    with pytest.warns(UserWarning, match="not private"):
        one = PrivateNeuralAUCClassifier(**options).fit(rows, y)
    with pytest.warns(UserWarning, match="not private"):
        other = PrivateNeuralAUCClassifier(**options).fit(rows, y)
    assert np.array_equal(one.decision_function(X), other.decision_function(X))
    far = one.decision_function([[1e300, -np.inf], [np.nan, 0.0]])
    assert np.array_equal(far, one.decision_function([[1.0, -1.0], [0.0, 0.0]]))
    assert one.decision_function(X[:0]).shape == (0,)


def test_a_ledger_is_charged_before_the_data_are_read():
    X, y = product(50)
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-3)
    model = PrivateNeuralAUCClassifier(
        **OPTIONS, mechanism=NoisyNetworkSGD(**SMALL), ledger=ledger
    ).fit(X, y)
    with pytest.raises(Exception, match="budget"):
        model.fit(X, y)


class _Blurred(torch.nn.Linear):
    def forward(self, rows):
        return super().forward(rows + torch.randn_like(rows))


class _Looking(torch.nn.Linear):
    def forward(self, rows):
        return super().forward(rows if rows.sum().item() > 0 else -rows)


class _Centred(torch.nn.Linear):
    def forward(self, rows):
        return super().forward(rows - rows.mean(0))


def test_refusals():
    X, y = product(40)

    def fit(**options):
        chosen = NoisyNetworkSGD(**{**SMALL, **options})
        return PrivateNeuralAUCClassifier(**OPTIONS, mechanism=chosen).fit(X, y)

    with pytest.raises(ValueError, match="depends on one row"):
        fit(network=torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)))
    with pytest.raises(ValueError, match="without chance"):
        fit(network=MLP((3,), dropout=0.5))
    with pytest.raises(ValueError, match="no parameters to learn"):
        fit(network=torch.nn.Tanh())
    with pytest.raises(ValueError, match="2 outputs for each row, and needs 1"):
        fit(network=torch.nn.Linear(2, 2))
    for network, message in (
        (_Blurred(2, 1), r"has no gradient row by row \(.*random operation.*without chance"),
        (_Looking(2, 1), r"has no gradient row by row \(.*item"),
        (_Centred(2, 1), "together, and .* one by one"),
    ):
        # Nothing is paid for what cannot be learned.
        ledger = PrivacyLedger(epsilon=1.0, delta=1e-3)
        chosen = NoisyNetworkSGD(**{**SMALL, "network": network})
        with pytest.raises(ValueError, match=message):
            PrivateNeuralAUCClassifier(**OPTIONS, mechanism=chosen, ledger=ledger).fit(X, y)
        assert not ledger.entries
    with pytest.raises(ValueError, match="would have no pairs"):
        fit(n_batches=30)
    with pytest.raises(ValueError, match="loss must be"):
        NoisyNetworkSGD(loss=Welsch())
    with pytest.raises(ValueError, match="must be a NoisyNetworkSGD"):
        PrivateNeuralAUCClassifier(**OPTIONS, mechanism="statistics").fit(X, y)
    with pytest.raises(ValueError, match="cannot be read from the data"):
        PrivateNeuralAUCClassifier().fit(X, y)
    for name in ("clip", "step", "noise_limit"):
        with pytest.raises(ValueError, match=name):
            NoisyNetworkSGD(**{name: 0.0})
