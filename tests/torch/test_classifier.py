# SPDX-License-Identifier: BSD-3-Clause
"""Networks that maximise AUC: training, threshold, lines beside networks, pieces of features."""

import copy
import math
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from scipy.sparse import csr_array
from sklearn.datasets import make_moons

from pairlearn import AUCClassifier, Costs, DivergenceError, load_model
from pairlearn.metrics import roc_auc
from pairlearn.torch import MLP, Adam, AUCLoss, BalancedSampler, NeuralAUCClassifier
from pairlearn.torch.base import folds_of
from pairlearn.torch.networks import Beside, Broken, Linear, bare, outputs, pieces_of
from pairlearn.torch.training import Run
from pairlearn.validation import check_generator

SMALL = {
    "network": MLP((16,)),
    "solver": Adam(learning_rate=0.01, max_epochs=8, n_networks=1),
    "random_state": 0,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(500, noise=0.25, random_state=0)
    return X[:300], y[:300], X[300:], y[300:]


@pytest.fixture(scope="module")
def fitted(moons):
    model = NeuralAUCClassifier(**SMALL)
    return model.set_params(solver__n_networks=2, network__hidden=(32, 32)).fit(*moons[:2])


def test_it_learns_what_no_plane_can(moons, fitted):
    X, y, X_test, y_test = moons
    plane = AUCClassifier(random_state=0).fit(X, y).score(X_test, y_test)
    assert fitted.score(X_test, y_test) > plane + 0.01
    assert abs(fitted.held_out_ - fitted.score(X_test, y_test)) < 0.05
    means = np.mean([history.held_out for history in fitted.history_], axis=0)
    for history in fitted.history_:
        assert means[history.best_epoch - 1] == means.max()


def test_probabilities_and_threshold_belong_to_the_scores(moons, fitted):
    _, _, X_test, y_test = moons
    p = fitted.predict_proba(X_test)[:, 1]
    s = fitted.decision_function(X_test)
    assert roc_auc(y_test, p) == pytest.approx(roc_auc(y_test, s), abs=1e-12)
    assert np.mean((p - y_test) ** 2) < 0.12
    assert abs(p.mean() - 0.5) < 0.08
    np.testing.assert_array_equal(fitted.predict(X_test), (s > 0).astype(int))
    before = fitted.threshold_
    changed = copy.deepcopy(fitted).set_params(decision=1.5, class_weight={0: 1.0, 1: 9.0})
    assert changed.threshold_ == before
    assert np.array_equal(changed.predict_proba(X_test)[:, 1], p)


def test_costs_and_weights_of_classes_move_threshold_and_probabilities(moons):
    X, y, X_test, _ = moons
    y = np.array(["no", "yes"])[y]
    cheap, dear = (
        np.mean(
            NeuralAUCClassifier(**SMALL, decision=Costs(*costs)).fit(X, y).predict(X_test) == "yes"
        )
        for costs in ((20.0, 1.0), (1.0, 20.0))
    )
    assert cheap < 0.5 < dear
    make = {**SMALL, "decision": "probability"}
    plain = NeuralAUCClassifier(**make).fit(X, y)
    heavy = NeuralAUCClassifier(**make, class_weight={"yes": 5.0}).fit(X, y)
    # The order is that of the same scores: all opposite pairs weigh the same.
    scores = [m.decision_function(X) + m.threshold_ for m in (plain, heavy)]
    np.testing.assert_allclose(*scores, rtol=1e-4, atol=1e-4)
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1
    importance = NeuralAUCClassifier(**SMALL, class_weight={"yes": 20.0}).fit(X, y)
    assert importance.threshold_ < NeuralAUCClassifier(**SMALL).fit(X, y).threshold_
    with pytest.raises(ValueError, match="one of the classes"):
        NeuralAUCClassifier(**SMALL, class_weight={"yes": 0.0}).fit(X, y)
    rare = np.concatenate([np.flatnonzero(y == "no"), np.flatnonzero(y == "yes")[:20]])
    balanced = NeuralAUCClassifier(**SMALL, class_weight="balanced").fit(X[rare], y[rare])
    assert balanced.predict_proba(X[rare])[:, 1].mean() > 20 / len(rare) + 0.1


def test_units_do_not_matter(moons):
    X, y, X_test, _ = moons
    model = NeuralAUCClassifier(**SMALL).set_params(solver__max_epochs=3)
    plain = model.fit(X, y).decision_function(X_test)
    scale = np.array([2.0**10, 2.0**-12])
    moved = model.fit(X * scale, y).decision_function(X_test * scale)
    np.testing.assert_allclose(plain, moved, rtol=1e-6, atol=1e-9)


def test_few_examples_hold_none_out():
    X = np.arange(6.0)[:, np.newaxis]
    model = NeuralAUCClassifier(**SMALL).fit(X, [0, 0, 0, 1, 1, 1])
    assert model.held_out_ is None
    assert model.score(X, [0, 0, 0, 1, 1, 1]) == 1.0


def test_pairs_of_consecutive_examples_learn_too(moons):
    X, y, X_test, y_test = moons
    model = NeuralAUCClassifier(**SMALL, pairing="previous").set_params(solver__max_epochs=20)
    assert model.fit(X, y).score(X_test, y_test) > 0.9


def test_a_run_is_adamw_with_a_cosine_and_an_average(moons):
    X, y = moons[0][:240], moons[1][:240]
    solver = Adam(learning_rate=0.02, weight_decay=0.01, batch_size=40, max_epochs=3)
    plan = solver.plan(240, usual=512)
    rows = torch.tensor(X, dtype=torch.float32)
    torch.manual_seed(0)
    # A plane and a smooth loss: where there are kinks, rounding grows from step to step.
    network = MLP(()).make(2, 1)
    start, loss = copy.deepcopy(network), AUCLoss("logistic")
    sampler = BalancedSampler(y, 40, share=0.25, seed=5)
    run = Run(
        network,
        lambda index: rows[index],
        lambda: sampler.deal(plan.n_batches),
        lambda scores, _: loss.between(scores[:10, 0], scores[10:, 0]),
    )
    for _ in range(plan.n_epochs):
        run.learn(solver, plan)
    # The same by PyTorch's own optimizer, schedule and formula of the pairs.
    sampler = BalancedSampler(y, 40, share=0.25, seed=5)
    n_steps = plan.n_batches * plan.n_epochs
    optimizer = torch.optim.AdamW(start.parameters(), lr=0.02, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    mean, losses = copy.deepcopy(start), []
    horizon = round(0.05 * n_steps)
    for t, batch in enumerate(torch.cat([sampler.deal(plan.n_batches) for _ in range(3)]), start=1):
        optimizer.zero_grad()
        scores = start(rows[batch])[:, 0]
        value = torch.log1p(torch.exp(scores[None, 10:] - scores[:10, None])).mean()
        value.backward()
        optimizer.step()
        schedule.step()
        keep = min(1.0 - 1.0 / horizon, t / (t + 10.0))
        for old, new in zip(mean.parameters(), start.parameters(), strict=True):
            old.data = keep * old.data + (1.0 - keep) * new.data
        losses.append(value.item())
    assert t == n_steps == 54
    expected = np.reshape(losses, (3, -1)).mean(axis=1)
    np.testing.assert_allclose(run.history.losses, expected, rtol=1e-4)
    # Not the bias: pairs do not see it, and its gradient is rounding.
    average = run.average[0].weight.detach()
    np.testing.assert_allclose(average, mean[0].weight.detach(), rtol=1e-4)


def test_numbers_of_steps():
    solver = Adam()
    for n, steps in ((2, 96), (280, 96), (1000, 249), (5000, 832), (35_000, 1600), (10**7, 1600)):
        plan = solver.plan(n, usual=512)
        n_steps = plan.n_batches * plan.n_epochs
        assert steps <= n_steps < steps + plan.n_batches
        assert plan.n_batches >= max(n / 512, 16)
        assert plan.n_passes * math.ceil(n / plan.batch_size) == plan.n_batches
    fewer = solver.plan(10**4, usual=256, worth=160)
    assert fewer.n_epochs < solver.plan(10**4, usual=256).n_epochs
    plan = Adam(batch_size=50, max_epochs=7).plan(1000, usual=256)
    assert (plan.batch_size, plan.n_batches, plan.n_epochs) == (50, 20, 7)
    assert Adam(batch_size=500).plan(30, usual=256).batch_size == 30


def test_batches_dealt_at_once_use_examples_equally_often(rng):
    positive = rng.random(103) < 0.2
    sampler = BalancedSampler(positive, 32, share=0.25, seed=1)
    dealt = torch.cat([sampler.deal(5), sampler.deal(16)]).numpy()
    assert positive[dealt[:, :8]].all()
    assert not positive[dealt[:, 8:]].any()
    times = np.bincount(dealt.ravel(), minlength=103)
    for kind in (True, False):
        assert times[positive == kind].max() - times[positive == kind].min() <= 1


def test_folds_have_their_share_of_each_class(rng):
    classes = rng.integers(0, 3, size=97)
    fold = folds_of(classes, 5, rng)
    for label in range(3):
        sizes = np.bincount(fold[classes == label], minlength=5)
        assert np.ptp(sizes) <= 1
    assert np.ptp(np.bincount(fold)) <= 1


def test_a_layer_is_a_linear_layer(rng):
    ours, theirs = Linear(5, 3).double(), torch.nn.Linear(5, 3).double()
    theirs.load_state_dict(ours.state_dict())
    rows = torch.tensor(rng.normal(size=(7, 5)))
    np.testing.assert_allclose(ours(rows).detach(), theirs(rows).detach(), rtol=1e-12)


@pytest.mark.thorough
def test_the_epoch_is_the_best_of_all_networks(moons):
    X, y = moons[:2]
    noisy = np.where(np.random.default_rng(0).random(300) < 0.3, 1 - y, y)
    solver = Adam(learning_rate=0.02, max_epochs=8, n_networks=3)
    model = NeuralAUCClassifier(
        network=MLP((32,), line=False), solver=solver, random_state=0, device="cpu"
    ).fit(X, noisy)
    means = np.mean([history.held_out for history in model.history_], axis=0)
    best = 1 + int(np.argmax(means))
    assert [history.best_epoch for history in model.history_] == [best] * 3
    assert model.held_out_ == pytest.approx(means.max(), abs=2e-3)
    impatient = model.set_params(solver__patience=1).fit(X, noisy)
    n_epochs = len(impatient.history_[0].losses)
    assert n_epochs == min(impatient.history_[0].best_epoch + 1, 8)


@pytest.mark.thorough
def test_few_positives_are_all_held_out_in_turn(rng):
    X = rng.normal(size=(200, 3))
    y = np.zeros(200, dtype=int)
    y[np.argsort(X[:, 0])[-7:]] = 1
    model = NeuralAUCClassifier(network=MLP((16,)), random_state=0, device="cpu").fit(X, y)
    # Each of five networks has not seen one or two of seven; too few to choose an epoch by.
    assert len(model.networks_) == 5
    assert model.held_out_ > 0.9
    for history in model.history_:
        assert history.best_epoch == len(history.losses)
    assert len(model.history_[0].losses) * 16 == 96


def test_small_layers_are_trained_by_one_thread(moons):
    seen = []

    class Noting(torch.nn.Linear):
        def forward(self, rows):
            if self.training:
                seen.append(torch.get_num_threads())
            return super().forward(rows)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for width, expected in ((8, 1), (2_000, 2)):
            seen.clear()

            def make(n_inputs, width=width):
                return torch.nn.Sequential(Noting(n_inputs, width), torch.nn.Linear(width, 1))

            solver = Adam(max_epochs=1, n_networks=1, batch_size=64)
            NeuralAUCClassifier(network=make, solver=solver, device="cpu").fit(*moons[:2])
            assert seen[0] == expected
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_last_step_that_leaves_no_numbers_is_refused(moons):
    X, y, _, _ = moons
    few = np.concatenate([np.flatnonzero(y == label)[:3] for label in (0, 1)])
    left = 15

    def loss(margins):
        nonlocal left
        left -= 1
        value = torch.relu(1.0 - margins)
        # The gradient of the root of 0 is NaN, its value is not.
        return value + torch.sqrt(0.0 * margins) if left < 0 else value

    model = NeuralAUCClassifier(**SMALL, loss=loss).set_params(solver__max_epochs=1)
    with pytest.raises(DivergenceError, match="got NaN or infinity at step 16"):
        model.fit(X[few], y[few])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network__hidden": (0,)}, "hidden must be at least 1"),
        ({"network__hidden": 3}, "hidden must be a sequence"),
        ({"network__dropout": 1.0}, "dropout must lie in"),
        ({"network__activation": "tanh"}, 'activation must be one of "swish", "relu", got '),
        ({"network__pieces": -1}, "pieces must be"),
        ({"network__line": "no"}, "line must be True or False"),
        ({"pairing": "memory"}, "pairing must be one of"),
        ({"solver__learning_rate": 0.0}, "learning_rate must be a positive number"),
        ({"solver__weight_decay": -1.0}, "weight_decay must be at least 0"),
        ({"solver__n_networks": 0}, "n_networks must be at least 1"),
        ({"solver": "sgd"}, r'takes solver="adam" or an Adam, got SGD\(\)'),
        ({"decision": "best"}, "decision must be one of"),
        ({"loss": "cubic"}, "loss must be one of"),
        ({"share": 0.0}, "share must lie strictly between"),
        ({"validation_fraction": 0.0}, "validation_fraction"),
        ({"validation_fraction": "half"}, "validation_fraction"),
    ],
)
def test_parameters_that_mean_nothing(options, message, moons):
    with pytest.raises((ValueError, TypeError), match=message):
        NeuralAUCClassifier().set_params(**options).fit(*moons[:2])


def plane(n=240, seed=0):
    """Return few examples whose classes differ in the difference of two like features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    X[:, 1] = X[:, 0] + 0.05 * X[:, 1]
    y = X[:, 1] - X[:, 0] + 0.03 * rng.normal(size=n) > 0
    return X * np.logspace(-3, 3, 8) + 5.0, y.astype(int)


def with_line(line=True, **settings):
    solver = Adam(**{"n_networks": 5, **settings})
    network = MLP((32, 32), pieces=0, line=line)
    return NeuralAUCClassifier(network=network, solver=solver, device="cpu", random_state=0)


@pytest.fixture(scope="module")
def lined():
    return with_line().fit(*plane())


def test_a_plane_is_found_by_a_line_beside(lined, tmp_path):
    X, y = plane(4000, seed=1)
    alone = with_line(line=False).fit(*plane())
    assert lined.line_ > 0.3
    assert alone.line_ == 0.0
    assert all(isinstance(network, Beside) for network in lined.networks_)
    assert roc_auc(y, lined.decision_function(X)) > roc_auc(y, alone.decision_function(X)) + 0.02
    # The networks themselves are the same.
    a, b = (
        outputs([bare(network) for network in model.networks_], X, model._scaler, "cpu")
        for model in (lined, alone)
    )
    assert np.array_equal(a, b)
    lined.save(tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    assert back.line_ == lined.line_
    assert np.array_equal(back.decision_function(X), lined.decision_function(X))


def test_the_line_is_that_of_a_linear_classifier(lined):
    X, y = plane()
    fold = folds_of(y == 1, 5, check_generator(0))
    for k, network in enumerate(lined.networks_):
        seen = fold != k
        model = AUCClassifier(decision=0.0, random_state=0).fit(X[seen], y[seen])
        direction = network.line.numpy() * lined._scaler.factor
        ratio = direction / model.coef_[0]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)
    sparse = with_line().fit(csr_array(X), plane()[1])
    assert sparse.line_ == lined.line_


def test_no_line_where_it_does_not_help():
    X, y = make_moons(300, noise=0.2, random_state=0)
    assert with_line(max_epochs=10).fit(X, y).line_ < 0.9
    model = with_line(max_epochs=2)
    model.set_params(network=lambda d: torch.nn.Sequential(torch.nn.Linear(d, 1)))
    assert model.fit(X, y).line_ == 0.0


def waves(n=600):
    """Return a feature whose classes take turns along it, one of two levels, and a constant."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0.0, 50.0, n), rng.integers(0, 2, n), np.full(n, 7.0)])
    return X, (np.floor(X[:, 0] / 5.0) % 2).astype(int)


def in_pieces(pieces="auto", **settings):
    solver = Adam(**{"max_epochs": 4, "n_networks": 1, **settings})
    network = MLP((8,), pieces=pieces)
    return NeuralAUCClassifier(network=network, solver=solver, device="cpu", random_state=0)


def test_the_first_layer_is_a_sum_of_ramps():
    torch.manual_seed(0)
    layer = Broken(2, 3, 4).double()
    knots = [np.array([-1.0, 0.0, 0.5, 2.0]), np.array([0.0, 1.0])]
    layer.place(knots)
    x = np.random.default_rng(0).normal(size=(20, 2)) * 2.0
    expected = x @ layer.straight.weight.detach().numpy().T + layer.straight.bias.detach().numpy()
    weights = layer.broken.weight.detach().numpy().reshape(3, 2, 4)
    expected = expected + layer.broken.bias.detach().numpy()
    for k in range(3):
        begin, end = knots[0][k : k + 2]
        ramp = np.interp(x[:, 0], [begin, end], [-1.0, 1.0])
        expected += ramp[:, None] * weights[:, 0, k]
    # The second feature has one piece, which would be the feature again.
    found = layer(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_every_second_network_has_pieces(tmp_path):
    X, y = waves(200)
    model = in_pieces(n_networks=3).fit(X, y)
    assert [pieces_of(network) for network in model.networks_] == [16, 0, 16]
    model.save(tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    assert [pieces_of(network) for network in back.networks_] == [16, 0, 16]
    assert np.array_equal(back.decision_function(X), model.decision_function(X))
    auto = MLP()
    assert [auto.pieces_for(d, 0) for d in (1, 8, 16, 22, 64, 65, 500)] == [16, 8, 4, 2, 2, 0, 0]
    assert MLP(()).pieces_for(4, 0) == 0
    assert [MLP(pieces=3).pieces_for(500, k) for k in (0, 1)] == [3, 3]


@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_knots_are_quantiles_in_standard_units(make):
    X, y = waves(501)
    model = in_pieces(pieces=4).fit(make(X), y)
    first = model.networks_[0][0]
    ends = np.quantile(X[:, 0], [0.0, 0.25, 0.5, 0.75, 1.0])
    for k, (begin, end) in enumerate(pairwise(ends)):
        row = np.array([[begin, 0.0, 7.0], [end, 0.0, 7.0]])
        units = model._scaler.transform(row)[:, 0]
        at = units * float(first.slope[0, k]) + float(first.shift[0, k])
        np.testing.assert_allclose(at, [-1.0, 1.0], atol=1e-4)
    # Two levels and a constant have no pieces.
    assert not first.slope[1:].any()


def test_pieces_find_what_turns_often():
    X, y = waves()
    aucs = [
        in_pieces(pieces=pieces, max_epochs=20).fit(X[:400], y[:400]).score(X[400:], y[400:])
        for pieces in (0, 16)
    ]
    assert aucs[1] > 0.9 > aucs[0] + 0.1


def test_neighbours_that_are_almost_equal():
    rng = np.random.default_rng(0)
    X = np.concatenate([1e-30 * np.arange(1.0, 101.0), rng.normal(size=100)])[:, None]
    model = in_pieces(pieces=8).fit(X, np.arange(200) % 2)
    assert np.isfinite(model.decision_function(X)).all()
