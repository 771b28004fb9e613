# SPDX-License-Identifier: BSD-3-Clause
"""Weights of examples: a pair weighs the product of both, zero is as good as absent."""

import copy
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from pairlearn.torch import (
    AUCLoss,
    ContrastiveLoss,
    DistanceLoss,
    ErrorEntropyLoss,
    PairwiseLoss,
    PartialAUCLoss,
    RankingLoss,
)


def example(rng, kind):
    """Return a loss, and the arguments of a batch of twelve examples."""
    n = 12
    scores = torch.tensor(rng.integers(-10, 10, size=n) / 10)
    labels = torch.tensor(rng.integers(0, 2, size=n))
    labels[:2] = torch.tensor([0, 1])
    if kind in ("hinge", "squared_hinge", "square", "logistic"):
        return AUCLoss(kind), (scores, labels)
    if kind == "ranking":
        grades = torch.tensor(rng.integers(0, 3, size=n))
        return RankingLoss("hinge"), (scores, grades, torch.arange(n) % 2)
    embeddings = torch.tensor(rng.normal(size=(n, 2)))
    if kind == "contrastive":
        return ContrastiveLoss(balanced=True), (embeddings, labels)
    if kind == "distance":
        return DistanceLoss(), (embeddings, labels)
    return ErrorEntropyLoss(), (scores, torch.tensor(rng.normal(size=n)))


def value_and_gradient(loss, values, *labels, **weights):
    values = values.clone().requires_grad_()
    value = loss(values, *labels, **weights)
    value.backward()
    return value.item(), values.grad


KINDS = ("hinge", "squared_hinge", "square", "logistic", "ranking")
ALL = (*KINDS, "contrastive", "distance", "entropy")


@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_are_repeated_examples(kind, rng):
    loss, batch = example(rng, kind)
    weights = torch.tensor(rng.integers(1, 4, size=12))
    value, gradient = value_and_gradient(loss, *batch, sample_weight=weights)
    repeated = [part.repeat_interleave(weights, dim=0) for part in batch]
    other, slopes = value_and_gradient(loss, *repeated)
    assert value == pytest.approx(other, rel=1e-12)
    owner = torch.arange(12).repeat_interleave(weights)
    summed = torch.zeros(12, dtype=torch.float64).index_add_(0, owner, slopes)
    torch.testing.assert_close(gradient, summed)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("relative", [False, True])
def test_zero_is_absent_and_one_is_none(kind, relative, rng):
    loss, batch = example(rng, kind)
    loss.relative_weights = relative
    weights = torch.tensor(rng.integers(0, 2, size=12))
    weights[:2] = 1
    some = weights > 0
    weighted, fewer, plain = (copy.deepcopy(loss) for _ in range(3))
    ones = torch.ones(12)
    for _ in range(2):
        value, gradient = value_and_gradient(weighted, *batch, sample_weight=weights)
        other, slopes = value_and_gradient(fewer, *(part[some] for part in batch))
        assert value == pytest.approx(other, rel=1e-12)
        torch.testing.assert_close(gradient[some], slopes)
        assert not gradient[~some].any()
        value, gradient = value_and_gradient(loss, *batch, sample_weight=ones)
        other, slopes = value_and_gradient(plain, *batch)
        assert value == pytest.approx(other, rel=1e-12)
        torch.testing.assert_close(gradient, slopes)


@pytest.mark.parametrize("kind", ["contrastive", "distance", "entropy"])
def test_all_pairs_written_out(kind, rng):
    loss, (values, labels) = example(rng, kind)
    weights = torch.tensor(rng.uniform(0.5, 2.0, size=12))
    found = loss(values, labels, sample_weight=weights).item()
    single = example(rng, kind)[0]
    sums = {}
    for i in range(12):
        for j in range(i):
            pair = [i, j]
            same = kind != "contrastive" or bool(labels[i] == labels[j])
            term = single(values[pair], labels[pair]).item()
            total, weight = sums.get(same, (0.0, 0.0))
            product = float(weights[i] * weights[j])
            sums[same] = total + product * term, weight + product
    assert found == pytest.approx(np.mean([total / weight for total, weight in sums.values()]))


@pytest.mark.parametrize(
    "loss", [AUCLoss("hinge", pairing="previous"), RankingLoss("hinge", pairing="previous")]
)
def test_consecutive_pairs(loss):
    scores, labels = torch.tensor([0.5, 0.0, 1.0, 2.0]), torch.tensor([1, 0, 0, 1])
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0])
    # Pairs weigh 2, 6 and 12; the second has equal labels and costs nothing.
    value = loss(scores, labels, sample_weight=weights).item()
    assert value == pytest.approx((2 * 0.5 + 12 * 0.0) / 20)
    # Without the second example, the first meets the third: 1 + 1 - .5.
    weights[1] = 0.0
    value = loss(scores, labels, sample_weight=weights).item()
    assert value == pytest.approx((3 * 1.5 + 12 * 0.0) / 15)


def test_weights_of_mean_one_divide_by_numbers_of_pairs():
    loss = AUCLoss("hinge")
    scores, labels = torch.tensor([0.0, 0.0]), torch.tensor([1, 0])
    weights = torch.tensor([3.0, 0.5])
    assert loss(scores, labels, sample_weight=weights).item() == 1.0
    loss.relative_weights = True
    assert loss(scores, labels, sample_weight=weights).item() == 1.5


def test_nothing_left(rng):
    loss, batch = example(rng, "hinge")
    with pytest.warns(UserWarning, match="one class only"):
        value, gradient = value_and_gradient(loss, *batch, sample_weight=torch.zeros(12))
    assert value == 0.0
    assert not gradient.any()


def test_what_is_refused(rng):
    loss, batch = example(rng, "hinge")
    for weights, message in [
        (torch.ones(3), r"must have shape \(12,\), got \(3,\)"),
        (torch.full((12,), -1.0), "finite numbers of at least 0"),
        (torch.full((12,), torch.nan), "finite numbers of at least 0"),
        (torch.ones(12, device="meta"), "sample_weight is on meta"),
    ]:
        with pytest.raises(ValueError, match=message):
            loss(*batch, sample_weight=weights)
    with pytest.raises(TypeError, match="must be a tensor"):
        loss(*batch, sample_weight=[1.0] * 12)
    with pytest.raises(ValueError, match="counts shares of examples"):
        PartialAUCLoss(0.5)(*batch, sample_weight=torch.ones(12))


def test_a_loss_of_ones_own_need_not_know_of_weights(rng):
    class Spread(PairwiseLoss):
        def forward(self, scores, labels):
            return self.mean_over_pairs(scores, labels)

        def within(self, values, labels):
            return [((values[:, None] - values[None, :]).abs().sum(), len(values) ** 2)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Spread()(torch.tensor([0.0, 1.0]), torch.tensor([0, 1])).item() == 0.5
