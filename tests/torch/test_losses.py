# SPDX-License-Identifier: BSD-3-Clause
"""Losses of batches against all pairs written out, and against the paper's gradient."""

import copy
import math
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from pairlearn import (
    DistanceHinge,
    DistanceLogistic,
    DivergenceError,
    Hinge,
    Logistic,
    Square,
    SquaredHinge,
)
from pairlearn.losses import Epanechnikov, Welsch
from pairlearn.reference import pair_gradient, pairwise_sgd, partial_area
from pairlearn.torch import (
    Adam,
    AUCLoss,
    BalancedSampler,
    ContrastiveLoss,
    DistanceLoss,
    ErrorEntropyLoss,
    PartialAUCLoss,
    RankingLoss,
)
from pairlearn.torch.margins import _FEW

PARTS = {
    "hinge": Hinge(margin=0.7),
    "squared_hinge": SquaredHinge(margin=0.7),
    "square": Square(margin=0.7),
    "logistic": Logistic(),
}


def margin_of(name):
    return None if name == "logistic" else 0.7


def batch(rng, n=23, dtype=torch.float64, ties=True):
    """Scores with ties, also at a margin of .7, and labels."""
    scores = rng.integers(-10, 10, size=n) / 10 if ties else rng.normal(size=n)
    labels = rng.integers(0, 2, size=n)
    labels[:2] = 0, 1
    return torch.tensor(scores, dtype=dtype, requires_grad=True), torch.tensor(labels)


def values_and_slopes(part, scores, labels):
    """The mean over opposite pairs and its gradient, pair by pair from the library's own losses."""
    s, y = scores.detach().numpy().astype(float), labels.numpy() > 0
    total, gradient = 0.0, np.zeros(len(s))
    for i in np.flatnonzero(y):
        for j in np.flatnonzero(~y):
            total += part.value(s[i] - s[j], 1.0, -1.0, part.parameter)
            slope = part.derivative(s[i] - s[j], 1.0, -1.0, part.parameter)
            gradient[i] += slope
            gradient[j] -= slope
    count = y.sum() * (~y).sum()
    return total / count, gradient / count


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("ties", [True, False])
def test_all_pairs_of_a_batch(name, ties, rng):
    # The last is taken by a sort, or by means and squares.
    for n in (2, 3, 23, 700):
        scores, labels = batch(rng, n, ties=ties)
        loss = AUCLoss(name, margin=margin_of(name))(scores, labels)
        loss.backward()
        value, gradient = values_and_slopes(PARTS[name], scores, labels)
        np.testing.assert_allclose(loss.item(), value, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(scores.grad.numpy(), gradient, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "square"])
@pytest.mark.parametrize("many", [True, False])
def test_sums_are_as_exact_in_single_precision_far_from_zero(name, many, rng):
    n = 700 if many else 100
    s = torch.tensor(1e5 + rng.normal(size=n), dtype=torch.float32)
    labels = torch.arange(n) % 2
    # More of them are taken by a sort, or by means and squares.
    assert (int(labels.sum()) ** 2 > _FEW) == many
    loss = AUCLoss(name)
    assert loss(s, labels).item() == pytest.approx(loss(s.double(), labels).item(), rel=1e-5)
    found, wanted = (
        torch.autograd.functional.jacobian(lambda v: loss(v, labels), scores)
        for scores in (s, s.double())
    )
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-4, atol=1e-7)


def test_second_derivatives_exist(rng):
    scores, labels = batch(rng, 9, ties=False)
    assert torch.autograd.gradgradcheck(AUCLoss("squared_hinge"), (scores, labels))


@pytest.mark.parametrize("name", PARTS)
def test_previous_is_the_gradient_of_algorithm_1(name, rng):
    """A linear model, batches of two: the iterates of the reference, step by step."""
    X, n_steps, step = rng.normal(size=(30, 4)), 60, 0.05
    y = np.where(rng.random(30) < 0.4, 1.0, -1.0)
    path = rng.integers(0, 30, size=n_steps + 1)
    part = PARTS[name]
    wanted = pairwise_sgd(
        part,
        X,
        y,
        partners=[(path[t], [path[t - 1]]) for t in range(1, n_steps + 1)],
        step_sizes=np.full(n_steps, step),
        project=lambda w: w,
        w_start=np.zeros(4),
    )
    model = torch.nn.Linear(4, 1, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=step)
    loss = AUCLoss(name, pairing="previous", margin=margin_of(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for t in range(1, n_steps + 1):
            rows = path[[t - 1, t]]
            optimizer.zero_grad()
            loss(model(torch.from_numpy(X[rows])), torch.from_numpy(y[rows])).backward()
            optimizer.step()
            np.testing.assert_allclose(model.weight.detach()[0], wanted[t], rtol=1e-12, atol=1e-13)
    assert int(loss.n_steps) == n_steps
    assert int(loss.n_without_pairs) == np.count_nonzero(y[path[1:]] == y[path[:-1]])


def test_previous_is_the_mean_over_consecutive_pairs(rng):
    X, y = rng.normal(size=(12, 3)), np.where(rng.random(12) < 0.5, 1.0, -1.0)
    w = rng.normal(size=3)
    wanted = np.mean(
        [pair_gradient(Logistic(), w, X[t], y[t], X[t - 1], y[t - 1]) for t in range(1, 12)], axis=0
    )
    vector = torch.tensor(w, requires_grad=True)
    AUCLoss("logistic", pairing="previous")(
        torch.from_numpy(X) @ vector, torch.from_numpy(y)
    ).backward()
    np.testing.assert_allclose(vector.grad, wanted, rtol=1e-12)


@pytest.mark.parametrize(("max_fpr", "min_tpr"), [(0.3, 0.0), (0.5, 0.4), (1.0, 0.0)])
def test_partial_auc(max_fpr, min_tpr, rng):
    scores, labels = batch(rng, 40, ties=False)
    positive = labels.numpy() > 0
    wanted = partial_area(
        SquaredHinge(),
        scores.detach().numpy(),
        positive,
        n_positive=math.ceil((1 - min_tpr) * positive.sum()),
        n_negative=math.ceil(max_fpr * (~positive).sum()),
    )
    found = PartialAUCLoss(max_fpr, min_tpr=min_tpr)(scores, labels)
    np.testing.assert_allclose(found.item(), wanted, rtol=1e-12)


def test_ranking_within_queries(rng):
    n = 20
    scores = torch.tensor(rng.normal(size=n), requires_grad=True)
    grades, qid = rng.integers(0, 3, size=n), rng.integers(0, 4, size=n)
    s = scores.detach().numpy()
    margins = [
        s[i] - s[j]
        for i in range(n)
        for j in range(n)
        if qid[i] == qid[j] and grades[i] > grades[j]
    ]
    found = RankingLoss()(scores, torch.tensor(grades), torch.tensor(qid))
    np.testing.assert_allclose(found.item(), np.mean(np.log1p(np.exp(-np.array(margins)))))
    consecutive = [
        np.log1p(np.exp(-np.sign(grades[t] - grades[t - 1]) * (s[t] - s[t - 1])))
        if qid[t] == qid[t - 1] and grades[t] != grades[t - 1]
        else 0.0
        for t in range(1, n)
    ]
    found = RankingLoss(pairing="previous")(scores, torch.tensor(grades), torch.tensor(qid))
    np.testing.assert_allclose(found.item(), np.mean(consecutive))


DISTANCES = {
    "contrastive": (ContrastiveLoss, {"margin": 2.0}, None),
    "hinge": (DistanceLoss, {"loss": "hinge", "bias": 0.8}, DistanceHinge(bias=0.8)),
    "logistic": (DistanceLoss, {"loss": "logistic"}, DistanceLogistic()),
}


def of_pair(kind, d, same):
    _, options, part = DISTANCES[kind]
    if part is None:
        return d**2 if same else max(options["margin"] - d, 0.0) ** 2
    return part.value(d**2, 1.0, 1.0 if same else 2.0, part.parameter)


@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("pairing", ["batch", "previous"])
@pytest.mark.parametrize("balanced", [False, True])
def test_losses_of_embeddings(kind, pairing, balanced, rng):
    make, options, _ = DISTANCES[kind]
    loss = make(**options, pairing=pairing, balanced=balanced)
    for _ in range(3):
        Z, y = rng.normal(size=(8, 2)), rng.integers(0, 3, size=8)
        pairs = [(i, j) for i in range(8) for j in range(i)]
        if pairing == "previous":
            pairs = [(t, t - 1) for t in range(1, 8)]
        costs = [(np.linalg.norm(Z[i] - Z[j]), y[i] == y[j]) for i, j in pairs]
        groups = [[of_pair(kind, d, s) for d, s in costs if s == which] for which in (True, False)]
        groups = groups if balanced else [groups[0] + groups[1]]
        wanted = np.mean([np.mean(group) for group in groups if group])
        embeddings = torch.tensor(Z, requires_grad=True)
        found = loss(embeddings, torch.tensor(y))
        np.testing.assert_allclose(found.item(), wanted, rtol=1e-10)
        found.backward()
        assert torch.isfinite(embeddings.grad).all()


def test_equal_embeddings_have_a_finite_gradient():
    for loss in (ContrastiveLoss(), DistanceLoss()):
        for pairing in ("batch", "previous"):
            Z = torch.zeros(4, 3, requires_grad=True)
            made = type(loss)(pairing=pairing)
            made(Z, torch.tensor([0, 0, 1, 1])).backward()
            assert torch.isfinite(Z.grad).all()


@pytest.mark.parametrize(("window", "part"), [("gaussian", Welsch), ("parabolic", Epanechnikov)])
@pytest.mark.parametrize("pairing", ["batch", "previous"])
def test_error_entropy(window, part, pairing, rng):
    loss = ErrorEntropyLoss(0.7, window=window, pairing=pairing)
    rule = part(0.7)
    for _ in range(3):
        p, y = rng.normal(size=6), rng.normal(size=6)
        e = y - p
        pairs = [(e[i], e[j]) for i in range(6) for j in range(i)]
        if pairing == "previous":
            pairs = [(e[t], e[t - 1]) for t in range(1, 6)]
        wanted = np.mean([rule.value(0.0, a - b, 0.0, 0.7) for a, b in pairs])
        found = loss(torch.tensor(p), torch.tensor(y))
        np.testing.assert_allclose(found.item(), wanted, rtol=1e-12)


def test_a_batch_with_one_class_is_counted_and_reported_once():
    loss = AUCLoss()
    for count in (1, 2):
        scores = torch.tensor([0.3, -2.0], requires_grad=True)
        if count == 1:
            with pytest.warns(UserWarning, match="step 1: the batch holds one class only"):
                found = loss(scores, torch.tensor([1, 1]))
        else:
            found = loss(scores, torch.tensor([1, 1]))
        found.backward()
        assert found.item() == 0.0
        assert scores.grad.tolist() == [0.0, 0.0]
        assert int(loss.n_without_pairs) == count


@pytest.mark.parametrize("odd", [2, -2, 0.5])
def test_labels_of_another_kind_are_refused(odd):
    # They used to be negative or positive by their sign.
    for use in (lambda y: AUCLoss()(torch.zeros(3), y), lambda y: BalancedSampler(y, 2)):
        with pytest.raises(ValueError, match=rf"-1 and 1, or bool, got {odd}; pass labels == c"):
            use(torch.tensor([0, 1, odd]))
    for use in (lambda y: AUCLoss()(torch.zeros(3), y), lambda y: BalancedSampler(y, 2)):
        # Two kinds of negatives: 0 may mean that there is no label.
        with pytest.raises(ValueError, match="got -1 and 0 side by side"):
            use(torch.tensor([-1, 0, 1]))
        # -1 without a sign.
        with pytest.raises(ValueError, match="or bool, got 255; pass labels == c"):
            use(torch.tensor([-1, 1, -1], dtype=torch.int8).to(torch.uint8))
    for loss in (AUCLoss(), RankingLoss(), ErrorEntropyLoss(1.0)):
        with pytest.raises(ValueError, match="labels contain NaN or infinity"):
            loss(torch.zeros(2), torch.tensor([1.0, float("nan")]))


@pytest.mark.parametrize("kind", [AUCLoss, RankingLoss])
def test_a_loss_of_margins_may_be_a_module_with_parameters(kind):
    class Slope(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.slope = torch.nn.Parameter(torch.tensor(2.0))

        def forward(self, margins):
            return torch.relu(1.0 - self.slope * margins)

    loss = kind(Slope())
    assert list(loss.state_dict()) == ["n_steps", "n_without_pairs", "_function.slope"]
    found = loss(torch.tensor([0.25, 0.0]), torch.tensor([1, 0]))
    found.backward()
    assert found.item() == 0.5
    assert loss._function.slope.grad.item() == -0.25


@pytest.mark.parametrize("odd", ["1", True, None])
def test_numbers_are_numbers(odd):
    for make in (ContrastiveLoss, PartialAUCLoss,
                 lambda value: PartialAUCLoss(0.5, min_tpr=value),
                 lambda value: DistanceLoss(bias=value),
                 lambda value: Adam(weight_decay=value),
                 lambda value: AUCLoss(margin=value if value is not None else [])):  # fmt: skip
        with pytest.raises(TypeError, match=r"must be a number, got ('1'|True|None|\[\])\."):
            make(odd)


@pytest.mark.parametrize("kind", [AUCLoss, RankingLoss])
@pytest.mark.parametrize("pairing", ["batch", "previous"])
def test_a_loss_of_margins_returns_the_loss_of_each(kind, pairing):
    loss = kind(lambda margins: torch.relu(1.0 - margins).mean(), pairing=pairing)
    with pytest.raises(ValueError, match=r"got the shape \(\); leave out mean\(\) and sum\(\)"):
        loss(torch.zeros(4), torch.tensor([0, 1, 0, 1]))


def test_what_is_refused():
    loss = AUCLoss()
    labels = torch.tensor([0, 1])
    loss(torch.tensor([0.0, 1.0]), labels)
    with pytest.raises(DivergenceError, match="NaN or infinity at step 2"):
        loss(torch.tensor([0.0, float("nan")]), labels)
    with pytest.raises(ValueError, match="scores are on meta, labels on cpu"):
        loss(torch.zeros(2, device="meta"), labels)
    with pytest.raises(ValueError, match=r"got \(3,\) and \(2,\)"):
        loss(torch.zeros(3), labels)
    with pytest.raises(TypeError, match="floating-point"):
        loss(torch.zeros(2, dtype=torch.int64), labels)
    with pytest.raises(TypeError, match="labels must be a tensor, got list"):
        loss(torch.zeros(2), [0, 1])
    for options, message in [
        ({"loss": "cubic"}, "loss must be one of"),
        ({"loss": "logistic", "margin": 1.0}, "has no margin"),
        ({"margin": -1.0}, "positive number"),
        ({"pairing": "all"}, "pairing must be one of"),
    ]:
        with pytest.raises(ValueError, match=message):
            AUCLoss(**options)


def test_mixed_precision(rng):
    """Under autocast a network gives bfloat16; the loss is that of these numbers in float32."""
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    X = torch.tensor(rng.normal(size=(32, 5)), dtype=torch.float32)
    labels = torch.tensor(rng.integers(0, 2, size=32))
    losses = (
        AUCLoss(),
        AUCLoss("logistic"),
        PartialAUCLoss(0.5),
        ErrorEntropyLoss(),
        RankingLoss(),
    )
    for loss in losses:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = model(X)
            assert scores.dtype == torch.bfloat16
            found = loss(scores, labels)
        assert found.dtype == torch.float32
        with torch.no_grad():
            fresh = copy.deepcopy(loss)
            assert fresh(scores.float(), labels).item() == pytest.approx(found.item(), rel=1e-6)
        model.zero_grad()
        found.backward()
        assert all(torch.isfinite(p.grad).all() for p in model.parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ContrastiveLoss()(model[0](X), labels).backward()


def train(n_batches, state=None, *, stop=None):
    """A run on balanced batches; return its state after `stop` batches or the end."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(60, 4, generator=generator)
    y = (X[:, 0] + 0.5 * torch.randn(60, generator=generator) > 0.8).long()
    model = torch.nn.Linear(4, 1)
    loss = AUCLoss()
    sampler = BalancedSampler(y, 8, share=0.4, seed=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    parts = {"model": model, "loss": loss, "sampler": sampler, "optimizer": optimizer}
    done = 0
    if state is not None:
        for name, part in parts.items():
            part.load_state_dict(state[name])
        done = state["done"]
    while done < n_batches:
        for rows in sampler:
            optimizer.zero_grad()
            loss(model(X[rows]), y[rows]).backward()
            optimizer.step()
            done += 1
            if done in (stop, n_batches):
                break
        if done == stop:
            break
    return {name: copy.deepcopy(part.state_dict()) for name, part in parts.items()} | {"done": done}


def test_a_resumed_run_is_bit_identical(tmp_path):
    whole = train(21)
    torch.save(train(21, stop=13), tmp_path / "state.pt")
    resumed = train(21, torch.load(tmp_path / "state.pt", weights_only=True))
    for name, value in whole["model"].items():
        assert torch.equal(value, resumed["model"][name])
    assert int(resumed["loss"]["n_steps"]) == 21
    assert whole["sampler"]["places"] == resumed["sampler"]["places"]


def test_a_loss_is_balanced_or_not():
    with pytest.raises(ValueError, match="balanced must be True or False, got 'no'"):
        ContrastiveLoss(balanced="no")
