# SPDX-License-Identifier: BSD-3-Clause
"""The loop that trains networks, against a plain loop of PyTorch."""

import copy
import math
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from sklearn.datasets import make_moons

from pairlearn import DivergenceError
from pairlearn.metrics import roc_auc
from pairlearn.torch import MLP, Adam, AUCLoss, BalancedSampler, NeuralAUCClassifier
from pairlearn.torch.auc import SortedAUCLoss
from pairlearn.torch.devices import Repeated, own_randomness
from pairlearn.torch.networks import Linear
from pairlearn.torch.standardise import Standardiser
from pairlearn.torch.table import Table
from pairlearn.torch.training import Course, Learner

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    ),
]


@pytest.fixture(scope="module")
def moons():
    return make_moons(240, noise=0.3, random_state=1)


def course_of(X, positive, device, *, hidden=(8,), loss="squared_hinge", dropout=0.0, weight=()):
    """Return a course of a small network and its plan."""
    solver = Adam(learning_rate=0.02, weight_decay=0.01, batch_size=40, max_epochs=3)
    plan = solver.plan(len(positive))
    scaler = Standardiser.none(X.shape[1]).seen_with(X)
    weight = np.asarray(weight, dtype=np.float64)
    table = Table(X, (positive,), weight, scaler, torch.device(device))
    torch.manual_seed(0)
    network = MLP(hidden, dropout=dropout).make(X.shape[1], 1)
    sampler = BalancedSampler(positive, plan.batch_size, share=0.25, seed=5)
    alike = SortedAUCLoss(AUCLoss(loss), sampler.n_positive)
    learner = Learner(network.to(device), alike.to(device), solver, plan=plan)
    return Course(learner, table, lambda: sampler.deal(plan.n_batches)), plan


@pytest.mark.parametrize("device", DEVICES)
def test_a_run_is_adamw_with_a_cosine_and_an_average(moons, device):
    X, y = moons
    # A plane and a smooth loss: where there are kinks, rounding grows from step to step.
    course, plan = course_of(X, y > 0, device, hidden=(), loss="logistic")
    network = copy.deepcopy(course.learner.network).cpu()
    found = [course.epoch() for _ in range(plan.n_epochs)]
    # The same by PyTorch's own optimizer, schedule and formula of the pairs.
    rows = torch.tensor(Standardiser.none(2).seen_with(X).transform(X), dtype=torch.float32)
    sampler = BalancedSampler(y > 0, 40, share=0.25, seed=5)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.02, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, plan.n_steps)
    mean = copy.deepcopy(network)
    horizon, t, losses = round(0.05 * plan.n_steps), 0, []
    for batch in torch.cat([sampler.deal(plan.n_batches) for _ in range(plan.n_epochs)]):
        optimizer.zero_grad()
        scores = network(rows[batch])[:, 0]
        loss = torch.log1p(torch.exp(scores[None, 10:] - scores[:10, None])).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        t += 1
        keep = min(1.0 - 1.0 / horizon, t / (t + 10.0))
        for old, new in zip(mean.parameters(), network.parameters(), strict=True):
            old.data = keep * old.data + (1.0 - keep) * new.data
        losses.append(loss.item())
    assert t == plan.n_steps == course.learner.n_steps == 54
    np.testing.assert_allclose(found, np.reshape(losses, (3, -1)).mean(axis=1), rtol=1e-4)
    ours = course.learner.average.cpu()
    # Not the bias: pairs do not see it, and its gradient is rounding.
    np.testing.assert_allclose(ours[0].weight.detach(), mean[0].weight.detach(), rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_that_is_recorded_is_the_step(moons, device, monkeypatch):
    X, y = moons
    weight = np.where(X[:, 0] > 0, 1.5, 0.5)
    results = []
    for records in (True, False):
        with monkeypatch.context() as patch:
            if not records:
                patch.setattr(
                    "pairlearn.torch.training.Repeated",
                    lambda step, device, records: Repeated(step, device, records=False),
                )
            course, plan = course_of(X, y > 0, device, dropout=0.5, weight=weight)
            torch.manual_seed(3)
            results.append([course.epoch() for _ in range(plan.n_epochs)])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES[1:])
def test_a_step_that_cannot_be_recorded_says_so(moons, device):
    class Looks(torch.nn.Module):
        def __init__(self, d):
            super().__init__()
            self.last, self.dropout = torch.nn.Linear(d, 1), torch.nn.Dropout(0.1)

        def forward(self, x):
            found = self.last(self.dropout(x))
            return found if float(found.detach().sum()) < 1e30 else found * 0.0

    solver = Adam(max_epochs=2, n_networks=1)
    model = NeuralAUCClassifier(network=Looks, solver=solver, device=device, random_state=0)
    with pytest.warns(UserWarning, match="cannot be recorded"):
        model.fit(*moons)
    # Random numbers, and recordings, work as before.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NeuralAUCClassifier(network=MLP(dropout=0.1), solver=solver, device=device).fit(*moons)


def test_steps_that_are_not_recorded_are_called():
    calls = []
    repeated = Repeated(lambda: calls.append(1), torch.device("cpu"))
    repeated.take(5)
    repeated.take(0)
    repeated.take(2)
    assert len(calls) == 7


def test_own_randomness_leaves_other_devices_alone(monkeypatch):
    seeded = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    torch.manual_seed(3)
    with own_randomness(3, torch.device("cpu")):
        own = torch.rand(2)
    # As after `torch.manual_seed`, which seeds all devices.
    assert torch.equal(own, torch.rand(2))
    assert len(seeded) == 1


def test_a_loss_that_is_no_number_names_its_step(moons):
    X, y = moons
    course, _ = course_of(X, y > 0, "cpu")
    course.epoch()
    step, count = course.learner.step, []

    def breaks(batch):
        count.append(1)
        return step(batch) * (math.nan if len(count) == 4 else 1.0)

    course.learner.step = breaks
    with pytest.raises(DivergenceError, match="at step 22;"):
        course.epoch()


def test_numbers_of_steps():
    solver = Adam()
    for n, steps in ((2, 96), (280, 96), (1000, 249), (5000, 832), (35_000, 1600), (10**7, 1600)):
        plan = solver.plan(n, usual=512)
        assert steps <= plan.n_steps < steps + plan.n_batches
        assert plan.n_batches >= max(n / 512, 16)
        assert plan.n_passes * math.ceil(n / plan.batch_size) == plan.n_batches
    assert solver.plan(10**4, worth=160).n_steps < solver.plan(10**4).n_steps
    given = Adam(batch_size=50, max_epochs=7).plan(1000)
    assert (given.batch_size, given.n_batches, given.n_epochs) == (50, 20, 7)
    assert Adam(batch_size=500).plan(30).batch_size == 30


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "square", "logistic"])
@pytest.mark.parametrize("sizes", [(3, 5), (200, 600)])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_pairs_of_a_sorted_batch(loss, sizes, weighted, rng):
    """Few pairs are taken one by one and many by a sort: both are the mean over all pairs."""
    n, k = sum(sizes), sizes[0]
    scores = torch.tensor(rng.normal(size=n), requires_grad=True)
    weight = torch.tensor(rng.uniform(0.5, 1.5, size=n)) if weighted else None
    labels = torch.arange(n) < k
    own = {} if weight is None else {"sample_weight": weight}
    value = SortedAUCLoss(AUCLoss(loss), k)(scores[:, None], labels, **own)
    value.backward()
    margins = scores.detach()[:k, None] - scores.detach()[None, k:]
    losses, slope = {
        "squared_hinge": ((1 - margins).clamp(min=0) ** 2, -2 * (1 - margins).clamp(min=0)),
        "hinge": ((1 - margins).clamp(min=0), -(margins < 1).double()),
        "square": ((1 - margins) ** 2, -2 * (1 - margins)),
        "logistic": (torch.log1p(torch.exp(-margins)), -torch.sigmoid(-margins)),
    }[loss]
    pairs = torch.ones_like(margins)
    if weight is not None:
        pairs = weight[:k, None] * weight[None, k:]
    count = sizes[0] * sizes[1]
    assert value.item() == pytest.approx(float((pairs * losses).sum()) / count, rel=1e-10)
    gradient = torch.cat([(pairs * slope).sum(1), -(pairs * slope).sum(0)]) / count
    np.testing.assert_allclose(scores.grad.numpy(), gradient.numpy(), rtol=1e-8, atol=1e-12)


def test_a_batch_of_two_columns_is_refused():
    with pytest.raises(ValueError, match=r"scores must have shape \(n,\)"):
        SortedAUCLoss(AUCLoss(), 1)(torch.zeros(3, 2), torch.tensor([True, False, False]))


def test_batches_dealt_at_once_use_examples_equally_often(rng):
    positive = rng.random(103) < 0.2
    sampler = BalancedSampler(positive, 32, share=0.25, seed=1)
    batches = torch.cat([sampler.deal(5), sampler.deal(16)])
    assert batches.shape == (21, 32)
    assert sampler.n_positive == 8
    dealt = batches.numpy()
    assert positive[dealt[:, :8]].all()
    assert not positive[dealt[:, 8:]].any()
    times = np.bincount(dealt.ravel(), minlength=103)
    for kind in (True, False):
        assert times[positive == kind].max() - times[positive == kind].min() <= 1


def test_a_layer_is_a_linear_layer(rng):
    ours, theirs = Linear(5, 3).double(), torch.nn.Linear(5, 3).double()
    theirs.load_state_dict(ours.state_dict())
    rows = torch.tensor(rng.normal(size=(7, 5)))
    np.testing.assert_allclose(ours(rows).detach(), theirs(rows).detach(), rtol=1e-12)


@pytest.mark.thorough
def test_the_epoch_is_the_best_of_all_networks(moons):
    X, y = moons
    noisy = np.where(np.random.default_rng(0).random(240) < 0.3, 1 - y, y)
    solver = Adam(learning_rate=0.02, max_epochs=8, n_networks=3)
    model = NeuralAUCClassifier(
        network=MLP((32,), line=False), solver=solver, random_state=0, device="cpu"
    )
    model.fit(X, noisy)
    means = np.mean([told.held_out for told in model.history_], axis=0)
    assert len(means) == 8
    best = 1 + int(np.argmax(means))
    assert [told.best_epoch for told in model.history_] == [best] * 3
    # Judged in single precision, measured in double.
    assert model.held_out_ == pytest.approx(means.max(), abs=2e-3)
    impatient = model.set_params(solver__patience=1).fit(X, noisy)
    n_epochs = len(impatient.history_[0].losses)
    assert n_epochs == impatient.history_[0].best_epoch + 1 < 8


@pytest.mark.thorough
def test_few_positives_are_all_held_out_in_turn(rng):
    X = rng.normal(size=(200, 3))
    y = np.zeros(200, dtype=int)
    y[np.argsort(X[:, 0])[-7:]] = 1
    network = MLP((16,))
    model = NeuralAUCClassifier(network=network, random_state=0, device="cpu").fit(X, y)
    # Each of five networks has not seen one or two of seven; too few to choose an epoch by.
    assert len(model.networks_) == 5
    assert model.held_out_ > 0.9
    for told in model.history_:
        assert told.best_epoch == len(told.losses)
    assert len(model.history_[0].losses) * 16 == 96
    assert roc_auc(y, model.decision_function(X)) > 0.95
    many = np.zeros(200, dtype=int)
    many[np.argsort(X[:, 0])[-40:]] = 1
    chosen = NeuralAUCClassifier(network=network, random_state=0, device="cpu").fit(X, many)
    assert chosen.held_out_ > 0.95


def test_less_is_held_out_of_many(moons):
    share = NeuralAUCClassifier()._held_share
    assert (share(100), share(19_999), share(20_000)) == (0.2, 0.2, 0.05)
    assert NeuralAUCClassifier(validation_fraction=0.3)._held_share(10**6) == 0.3
    for given in (0.0, "half"):
        with pytest.raises((TypeError, ValueError), match="validation_fraction"):
            NeuralAUCClassifier(validation_fraction=given).fit(*moons)


def test_a_stream_that_was_pickled_goes_on(moons):
    X, y = moons
    solver = Adam(learning_rate=0.01, batch_size=20)
    model = NeuralAUCClassifier(network=MLP((8,)), solver=solver, random_state=0, device="cpu")
    model.partial_fit(X[:80], y[:80], classes=[0, 1])
    other = pickle.loads(pickle.dumps(model))
    for each in (model, other):
        each.partial_fit(X[80:], y[80:])
    assert np.array_equal(model.decision_function(X), other.decision_function(X))
    for learner in other._learners:
        assert learner._rates.numpy() == pytest.approx(0.01)
        assert [int(steps) for steps in learner._adam._steps] == [learner.n_steps] * 4


def test_training_does_not_load_the_compiler():
    # It takes as long to load as PyTorch does.
    program = (
        "import sys; import numpy as np; from pairlearn.torch import Adam, NeuralAUCClassifier; "
        "X = np.arange(20.0)[:, None]; solver = Adam(max_epochs=1, n_networks=1); "
        "NeuralAUCClassifier(solver=solver, device='cpu').fit(X, X[:, 0] > 9.5); "
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_activation(moons, tmp_path):
    solver = Adam(max_epochs=1, n_networks=1)
    model = NeuralAUCClassifier(network=MLP((8,), activation="relu"), solver=solver, device="cpu")
    model.fit(*moons).save(tmp_path / "m.safetensors")
    assert isinstance(model.networks_[0][1], torch.nn.ReLU)
    back = NeuralAUCClassifier.load(tmp_path / "m.safetensors")
    # a loaded model takes a GPU where there is one
    np.testing.assert_allclose(
        back.decision_function(moons[0]), model.decision_function(moons[0]), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(ValueError, match='activation must be one of "swish", "relu", got '):
        MLP(activation="tanh")


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
                inner = Noting(n_inputs, width)
                return torch.nn.Sequential(inner, torch.nn.Linear(width, 1))

            solver = Adam(max_epochs=1, n_networks=1, batch_size=64)
            NeuralAUCClassifier(network=make, solver=solver, device="cpu").fit(*moons)
            assert seen[0] == expected
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
